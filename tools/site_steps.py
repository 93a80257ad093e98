"""The site, and the part of lpfuse that runs in a reader's browser."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.environments import ROOT, run

SITE = ROOT / "docs" / "site"
BUILD = ROOT / "build"
TOOLS = Path(__file__).parent
# Examples draw into files, on one thread of linear algebra.
VARIABLES = {"MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}


def build_site() -> None:
    """Lay out the sources, and build: a warning is an error, and nothing is fetched."""
    source, read = BUILD / "site-source", BUILD / "site-doctrees"
    run(sys.executable, SITE / "sources.py", source, **VARIABLES)
    options = ["-q", "-W", "--keep-going", "-c", SITE, "-d", read]
    try:
        run(sys.executable, "-m", "sphinx", *options, source, BUILD / "site", **VARIABLES)
    except subprocess.CalledProcessError:
        # Pages that were read once are not read again, nor warned of: the next build starts anew.
        shutil.rmtree(read, ignore_errors=True)
        raise


def check_in_browser(standard_library_only: bool) -> None:
    """Have Python for browsers, under Node, read lpfuse and run the examples that pages offer."""
    sys.path.insert(0, str(SITE))
    from browser import EXAMPLES, LOADED, PYODIDE, write_wheels

    npm, node = shutil.which("npm"), shutil.which("node")
    if not (npm and node):
        raise SystemExit("Node.js and npm are needed, of any version that is still kept up.")
    examples = [ROOT / "examples" / "gallery" / f"{name}.py" for name in EXAMPLES]
    with tempfile.TemporaryDirectory(prefix="step-") as name:
        folder = Path(name)
        (folder / "package.json").write_text("{}")
        quiet = ("--no-save", "--no-audit", "--no-fund", "--loglevel=error")
        run(npm, "install", *quiet, f"pyodide@{PYODIDE['version']}", cwd=folder)
        check_list(PYODIDE, folder / "node_modules" / "pyodide" / "pyodide-lock.json")
        write_wheels(folder / "wheels")
        shutil.copy(TOOLS / "in_browser.mjs", folder)
        lists = (
            [str(TOOLS / "in_browser.py")],
            [str(path) for path in sorted((folder / "wheels").iterdir())],
            [] if standard_library_only else [str(path) for path in examples],
            list(LOADED),
        )
        run(node, "in_browser.mjs", *map(json.dumps, lists), cwd=folder)


def check_list(told: dict[str, object], lock: Path) -> None:
    """Whether `pyodide.json` says what that version of Pyodide says of itself."""
    found = json.loads(lock.read_text(encoding="utf-8"))
    packages = {name: found["packages"][name]["version"] for name in told["packages"]}  # type: ignore[attr-defined]
    if packages != told["packages"] or found["info"]["python"] != told["python"]:
        raise SystemExit(f"docs/site/pyodide.json must say {packages}, {found['info']['python']}.")
