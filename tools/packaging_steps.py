"""From sources to what users install: build, try out, compare. See RELEASING.md."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tools.environments import ROOT, Environment, environment, run
from tools.oldest import FILE as OLDEST
from tools.oldest import PROJECTS

# With the oldest versions, the parts of the library that lean on them most: arrays and solvers,
# estimators, thresholds, files, tables, commands.
TESTS_OF_OLDEST = (
    "lpfuse/tests/optim", "lpfuse/tests/fusion", "lpfuse/tests/test_compiled.py",
    "lpfuse/tests/test_scaling.py", "lpfuse/tests/test_threshold.py",
    "lpfuse/tests/test_metrics.py", "lpfuse/tests/test_io.py",
    "lpfuse/tests/ensemble/test_fused.py", "lpfuse/tests/frames/test_one_door.py",
    "lpfuse-cli/tests/report/test_card.py", "lpfuse-cli/tests/commands/test_cli.py",
)  # fmt: skip
TOOLS = Path(__file__).parent
RECIPE = ROOT / "recipes" / "lpfuse" / "recipe.yaml"


def projects() -> list[dict[str, str]]:
    """The tables `project` of all packages."""
    return [tomllib.loads(path.read_text(encoding="utf-8"))["project"] for path in PROJECTS]


def build(dist: Path) -> None:
    """Build twice, from two folders: what comes out must not tell where and when it was made."""
    if dist.exists():
        shutil.rmtree(dist)
    with environment() as clean, tempfile.TemporaryDirectory() as copies:
        clean.pip("install", "build>=1.2,<2", "hatchling>=1.26")
        again = Path(copies)
        (again / "elsewhere").mkdir()
        shutil.copyfile(ROOT / ".gitignore", again / "elsewhere" / ".gitignore")  # goes into sdists
        for project in PROJECTS:
            _build(clean, project.parent, dist)
            ignored = shutil.ignore_patterns("__pycache__", ".*_cache", ".hypothesis")
            copy = again / "elsewhere" / project.parent.name
            # Not `copy2`: the files of the copy are as new as can be.
            shutil.copytree(project.parent, copy, ignore=ignored, copy_function=shutil.copyfile)
            _build(clean, copy, again / "dist")
        first, second = digests(dist), digests(again / "dist")
    if first != second:
        differ = sorted(name for name in first if first[name] != second.get(name))
        raise SystemExit(f"Two builds differ: {', '.join(differ)}.")
    print("\n".join(f"{digest}  {name}" for name, digest in sorted(first.items())))


def _build(clean: Environment, folder: Path, out: Path) -> None:
    """An sdist, the wheel that comes of it, and where that is for one platform, one for all."""
    command = [clean.programs / "python", "-m", "build", "--outdir", out]
    surroundings = {"SOURCE_DATE_EPOCH": commit_time(), "PYTHONPATH": ""}
    run(*command, folder, LPFUSE_BUILD="required", **surroundings)
    if (folder / "hatch_build.py").exists():
        pure = ["--wheel", "--no-isolation", "--skip-dependency-check"]
        run(*command, *pure, folder, LPFUSE_BUILD="never", **surroundings)


def commit_time() -> str:
    """Seconds of the last commit, the date of every file in what is built; of an export, 1980."""
    told = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return told.stdout.strip() or "315532800"  # the first day that a ZIP archive can name


def digests(dist: Path) -> dict[str, str]:
    """SHA-256 of each file of a folder, by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in dist.iterdir()}


def checksums(dist: Path, sums: Path) -> None:
    """Write digests as `sha256sum --check` reads them; a person signs that file."""
    found = {name: each for name, each in digests(dist).items() if name.endswith((".whl", ".gz"))}
    if not found:
        raise SystemExit("dist/ holds no wheel and no sdist. Run: python -m tools.step build")
    sums.parent.mkdir(exist_ok=True)
    sums.write_text("".join(f"{each}  {name}\n" for name, each in sorted(found.items())))


def wheel(dist: Path, name: str, pure: bool = False) -> Path:
    """The wheel of a package for this platform, or else for all; there must be one of a kind."""
    found = list(dist.glob(f"{name.replace('-', '_')}-*.whl"))
    for_all = [path for path in found if path.name.endswith("-none-any.whl")]
    chosen = for_all if pure or len(found) == len(for_all) else sorted({*found} - {*for_all})
    if len(chosen) != 1:
        raise SystemExit(
            f"dist/ holds {len(chosen)} wheels of {name}. Run: python -m tools.step build"
        )
    return chosen[0]


def sdist(dist: Path, name: str) -> Path:
    """The sdist of a package, of which there must be one."""
    found = list(dist.glob(f"{name.replace('-', '_')}-*.tar.gz"))
    if len(found) != 1:
        raise SystemExit(
            f"dist/ holds {len(found)} sdists of {name}. Run: python -m tools.step build"
        )
    return found[0]


def smoke(dist: Path, *which: str) -> None:
    """Install all packages, use them, and uninstall them."""
    if unknown := {*which} - {"oldest", "pure", "sdist"}:
        raise SystemExit(f"smoke knows oldest, pure and sdist, not {', '.join(unknown)}.")
    names = [project["name"] for project in projects()]
    files = [
        sdist(dist, name) if "sdist" in which else wheel(dist, name, pure="pure" in which)
        for name in names
    ]
    bounds = ["--constraint", OLDEST] if "oldest" in which else []
    form = "NumPy" if "pure" in which else "compiled"
    with environment() as clean:
        clean.pip("install", *bounds, *files, LPFUSE_BUILD="required")
        clean.pip("check")
        clean.run("lpfuse", "--version")
        clean.run("lpfuse", "version")
        clean.run("lpfuse", "faces", "--help")
        clean.run("lpfuse", "demo", "-o", "demo.html")
        clean.run("python", "-I", "-W", "error", TOOLS / "smoke.py", projects()[0]["version"], form)
        clean.pip("uninstall", "--yes", *names)
        left = list((clean.folder / "venv").rglob("lpfuse*"))
        if left:
            raise SystemExit(f"Uninstalling left {', '.join(map(str, left))}.")


def typed(dist: Path) -> None:
    """The marker `py.typed` is worth something only if a user's checker sees the types."""
    with environment() as clean:
        clean.pip("install", wheel(dist, "lpfuse"), wheel(dist, "lpfuse-cli"), "mypy>=1.14,<3")
        shutil.copy(TOOLS / "typed_use.py", clean.folder / "typed_use.py")
        clean.run("python", "-m", "mypy", "--strict", "typed_use.py")
        clean.run("python", "typed_use.py")


def recipe(out: Path, channels: tuple[str, ...]) -> None:
    """Build the conda package; with conda-forge, which holds all it needs, try it out as well."""
    import rattler_build

    tests = rattler_build.ToolConfiguration(test_strategy="skip" if channels else "native")
    told = rattler_build.Stage0Recipe.from_file(RECIPE)
    wanted = list(channels) or ["conda-forge"]
    for built in told.run_build(tool_config=tests, output_dir=out, channels=wanted):
        print("\n".join(map(str, built.packages)))


def oldest() -> None:
    """Install the oldest versions of Python 3.11, and run tests with them."""
    if sys.version_info[:2] != (3, 11):
        raise SystemExit("The oldest versions have no wheels beyond Python 3.11: run it with that.")
    packages = ROOT / "packages"
    with environment() as clean:
        wanted = [f"{packages / name}[test]" for name in ("lpfuse", "lpfuse-cli")]
        clean.pip("install", "--constraint", OLDEST, *wanted)
        options = ["-q", "-n", "auto", "-m", "not slow", "-p", "no:cacheprovider"]
        # Old packages beside newer ones that they require warn of each other: typer of click.
        options += ["-W", "default::DeprecationWarning"]
        clean.run("python", "-m", "pytest", *options, *TESTS_OF_OLDEST, cwd=packages)


def set_version(version: str, date: str, root: Path = ROOT) -> None:
    """Write a version into packages, citation, recipe and changelog."""
    if not re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", version):
        raise SystemExit(f"A version is such as 0.2.0, 0.2.0rc1 or 0.2.0.dev1, not {version}.")
    rules = {
        r'(?m)^(version = ")[^"]+(")': "packages/*/pyproject.toml",
        r'("lpfuse[\w-]*(?:\[[\w,]+\])?==)[\w.]+(")': "packages/*/pyproject.toml",
        r"(?m)^(version: )\S+()": "CITATION.cff",
        r'(?m)^(  version: ")[^"]+(")': "recipes/lpfuse/recipe.yaml",
    }
    for rule, pattern in rules.items():
        for path in sorted(root.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            path.write_text(re.sub(rule, rf"\g<1>{version}\g<2>", text), encoding="utf-8")
    changes = root / "CHANGELOG.md"
    text = changes.read_text(encoding="utf-8")
    heading = f"## [Unreleased]\n\n## [{version}], {date}\n"
    text = re.sub(r"(?m)^## \[Unreleased\].*\n", heading, text, count=1)
    changes.write_text(text, encoding="utf-8")


def check_release(tag: str) -> None:
    """Versions, what packages require of one another, and the changelog, against a tag."""
    version = tag.removeprefix("v")
    wrong = [
        f"{project['name']} has the version {project['version']}"
        for project in projects()
        if project["version"] != version
    ]
    for project, path in zip(projects(), PROJECTS, strict=True):
        text = path.read_text(encoding="utf-8")
        requires = re.findall(r"(lpfuse[\w-]*)(?:\[[\w,]+\])?==([\w.]+)", text)
        wrong += [
            f"{project['name']} requires {other} {each}"
            for other, each in requires
            if each != version
        ]
    if not re.search(
        rf"^## \[{re.escape(version)}\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M
    ):
        wrong.append(f"CHANGELOG.md has no section [{version}]")
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    if not cited or cited[1] != version:
        wrong.append("CITATION.cff names another version")
    if wrong:
        raise SystemExit(f"{tag} cannot be released: {'; '.join(wrong)}.")
