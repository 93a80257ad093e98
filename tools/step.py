"""The steps of CI, one by one: ``python -m tools.step lint``. Workflows and Makefile call these.

A step runs in the environment of the Python that runs it, which ``install`` fills; those that try
out what users get (``build``, ``smoke``, ``typed``, ``oldest``) make an environment of their own,
and remove it. What is built lies in ``dist/``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from importlib.util import find_spec

from tools import packaging_steps, site_steps
from tools.environments import DIST, ROOT, run

Step = Callable[..., None]
STEPS: dict[str, Step] = {}
QUICK = ("-m", "not slow")
LIBRARY = ROOT / "packages" / "lpfuse"
# Where the tests of a step lie.
WHERE = {
    "test": ("packages", "tests", "docs", "README.md"),
    # What calls the formulas that have a compiled form and one in NumPy, and not what stands on
    # them: those tests say the same of either form.
    "test-numpy": (
        "packages/lpfuse/tests/optim", "packages/lpfuse/src/lpfuse/optim",
        "packages/lpfuse/tests/fusion/test_contract.py",
        "packages/lpfuse/tests/fusion/test_lp.py", "packages/lpfuse/tests/fusion/test_prior.py",
        "packages/lpfuse/tests/test_compiled.py",
        "packages/lpfuse/tests/verification/test_verify.py", "research/tests/proofs",
        "research/tests/rivals/test_local.py",
    ),
    "test-research": ("research",),
    "test-slow": ("packages", "research", "tests"),
    "test-array-api": (
        "packages/lpfuse/tests/fusion", "packages/lpfuse/tests/detectors/test_contract.py",
        "packages/lpfuse/tests/test_scaling.py",
    ),
}  # fmt: skip


def step(function: Step) -> Step:
    """Make a function a step, by its name."""
    STEPS[function.__name__.replace("_", "-")] = function
    return function


def python(*arguments: str, **variables: str) -> None:
    """Run a module of this environment, from the root."""
    run(sys.executable, "-m", *arguments, **variables)


def tests(*arguments: str, **variables: str) -> None:
    # A process on each core, and one thread of linear algebra in each: more would only queue. The
    # settings are those of the clone, whichever files are asked for.
    settings = ("-n", "auto", "-c", "pyproject.toml")
    python("pytest", *settings, *arguments, OMP_NUM_THREADS="1", **variables)


def places(name: str, arguments: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Where the tests of a step lie, but for files that `--ignore=` names."""
    found = WHERE[name]
    if name == "test-slow":  # collecting all tests for the sake of a hundred takes long
        files = [path for folder in found for path in sorted((ROOT / folder).rglob("test_*.py"))]
        slow = [path for path in files if "slow" in path.read_text(encoding="utf-8").lower()]
        found = tuple(path.relative_to(ROOT).as_posix() for path in slow)
    # pytest does not ignore a file that is named as well.
    ignored = {word.removeprefix("--ignore=") for word in arguments}
    return tuple(path for path in found if path not in ignored)


# ----------------------------------------------------------------------------------- what there is


@step
def install() -> None:
    """All packages, editable, with all that tests, tools and the site need."""
    names = ("lpfuse", "lpfuse-cli", "lpfuse-onnx", "lpfuse-clients", "lpfuse-faces")
    # First without extras: pip then takes these for whatever extra another of them requires.
    editable = [f"{ROOT / 'packages' / name}{extra}" for extra in ("", "[test]") for name in names]
    listed = ["requirements-dev.txt", "research/requirements.txt", "docs/requirements.txt"]
    wanted = [word for path in editable for word in ("--editable", path)]
    wanted += [word for path in listed for word in ("-r", path)]
    python("pip", "install", "--quiet", "--disable-pip-version-check", *wanted)


@step
def compiled() -> None:
    """Compile anew beside the sources; where there is no compiler, NumPy serves."""
    # With what is at hand, or else as pip does it, in an environment of its own.
    if all(map(find_spec, ("Cython", "setuptools", "hatchling", "scipy"))):
        run(sys.executable, LIBRARY / "hatch_build.py")
    else:
        quiet = ("--quiet", "--disable-pip-version-check")
        python("pip", "install", *quiet, "--no-deps", "--editable", str(LIBRARY))


@step
def lint() -> None:
    """Style and formatting of code; spelling and simple grammar of texts."""
    python("ruff", "check", ".")
    python("ruff", "format", "--check", ".")
    python("tools.prose")


@step
def types() -> None:
    """Static types."""
    python("mypy")


@step
def contracts() -> None:
    """Which module may import which."""
    code = "from importlinter.cli import lint_imports_command as main; main()"
    paths = [".", os.environ.get("PYTHONPATH", "")]
    run(sys.executable, "-c", code, PYTHONPATH=os.pathsep.join(filter(None, paths)))


@step
def audit() -> None:
    """Unsafe calls in the code, and known vulnerabilities in what it requires."""
    options = ("--quiet", "--configfile", "pyproject.toml", "--recursive")
    python("bandit", *options, "packages", "research")
    python("research.audit")


@step
def files(*names: str) -> None:
    """Ends of files, marks of merges, large files."""
    python("tools.files", *names)


@step
def oldest_file() -> None:
    """Whether tools/oldest.txt is that of today's pyproject.toml."""
    python("tools.oldest", "--check")


# ------------------------------------------------------------------------------------------- tests


@step
def test(*more: str) -> None:
    """Tests of what users install, with the examples of README, guides and docstrings."""
    tests(*QUICK, "-p", "tools.budget", *places("test"), *more)


@step
def test_numpy(*more: str) -> None:
    """Tests of the solvers without compiled code, as where there is no compiler."""
    tests(*QUICK, *places("test-numpy", more), *more, LPFUSE_COMPILED="0")


@step
def test_research(*more: str) -> None:
    """Tests of the experiments, studies and benchmarks."""
    tests(*QUICK, *places("test-research", more), *more)


@step
def test_slow(*more: str) -> None:
    """The tests marked slow, of both."""
    # A file at a time, since many share a cluster, a server, a browser or a site.
    tests("-m", "slow", "--dist", "loadfile", *places("test-slow", more), *more)


@step
def test_array_api(*more: str) -> None:
    """scikit-learn's checks of other array libraries, which want SciPy told before its import."""
    names = "array_api or scikit_learn_contract"  # all checks of a class are one item
    tests(*QUICK, "-q", "-k", names, *places("test-array-api", more), *more, SCIPY_ARRAY_API="1")


@step
def coverage(*more: str) -> None:
    """Branch coverage of library and command by their quick tests; it has a floor."""
    options = ("--cov", "--cov-branch", "--cov-report=term:skip-covered")
    # Compiled code is not seen; the same formulas in NumPy are.
    tests(*QUICK, *options, "packages/lpfuse", "packages/lpfuse-cli", *more, LPFUSE_COMPILED="0")


@step
def docs() -> None:
    """The site, with its gallery: build/site/index.html."""
    site_steps.build_site()


@step
def browser(*which: str) -> None:
    """Examples in Python for browsers; `standard-library`: only what needs nothing compiled."""
    site_steps.check_in_browser(standard_library_only="standard-library" in which)


@step
def bench() -> None:
    """The solvers against their rivals, and the learners against scikit-learn and PyOD."""
    for name in ("solver", "detectors"):
        python(f"research.speed.{name}", PYTHONPATH=f".{os.pathsep}packages/lpfuse/tests")


# --------------------------------------------------------------------------------- what users get


@step
def build() -> None:
    """Sdist and wheel of all packages into dist/, twice, which must give the same bytes."""
    packaging_steps.build(DIST)


@step
def smoke(*which: str) -> None:
    """Install what was built in a clean environment, use it, uninstall.

    `oldest`: with the oldest versions; `pure`: the wheel for every platform; `sdist`: compiled
    from the sdist.
    """
    packaging_steps.smoke(DIST, *which)


@step
def typed() -> None:
    """A user's file under mypy --strict, against the installed wheel."""
    packaging_steps.typed(DIST)


@step
def recipe(*channels: str) -> None:
    """The conda package into build/conda, from conda-forge; from other channels, untried."""
    packaging_steps.recipe(ROOT / "build" / "conda", channels)


@step
def test_spark(*more: str) -> None:
    """Tests on a Spark cluster of two workers; installs pyspark, needs Java 17."""
    python("pip", "install", "--quiet", "--disable-pip-version-check", "pyspark[sql]>=4.0,<5")
    tests("-m", "slow", "-n", "0", "packages/lpfuse-cli/tests/test_spark.py", *more)


@step
def oldest() -> None:
    """Tests with the oldest versions that pyproject.toml admits."""
    packaging_steps.oldest()


@step
def checksums() -> None:
    """Digests of what lies in dist/ into build/SHA256SUMS, to be signed."""
    packaging_steps.checksums(DIST, ROOT / "build" / "SHA256SUMS")


@step
def number(version: str) -> None:
    """Write a version, such as 0.2.0, wherever one stands, and today's date into the changelog."""
    packaging_steps.set_version(version, date.today().isoformat())


@step
def release(tag: str) -> None:
    """Whether everything names the version of a tag, such as v0.1.0."""
    packaging_steps.check_release(tag)


def main(arguments: list[str]) -> int:
    """Run a step; without one, list them."""
    if not arguments or arguments[0] not in STEPS:
        for name, function in STEPS.items():
            print(f"  {name:<14} {(function.__doc__ or '').splitlines()[0]}")
        return 0 if not arguments else 2
    try:
        STEPS[arguments[0]](*arguments[1:])
    except subprocess.CalledProcessError as error:
        return error.returncode or 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
