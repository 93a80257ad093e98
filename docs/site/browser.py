"""What pages need to run their example in the reader's browser: wheels, and where Python is.

Pyodide is Python for browsers. `pyodide.json` names a version of it and what it brings; it is
fetched from its public host when a reader asks for it, never before. lpfuse itself, and the one
library that Pyodide has not, come from the site.
"""

import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

SITE = Path(__file__).resolve().parent
PACKAGE = SITE.parents[1] / "packages" / "lpfuse"
PYODIDE = json.loads((SITE / "pyodide.json").read_text())
HOST = f"https://cdn.jsdelivr.net/pyodide/v{PYODIDE['version']}/full/"
# A FusedDetector, and an LpFusion: both take seconds, and need nothing else.
EXAMPLES = ("plot_01_first_fusion", "plot_10_certificate")
LOADED = ("numpy", "scipy", "scikit-learn", "matplotlib")  # what they need comes with them
OTHERS = ("array-api-compat",)  # pure Python, and not of Pyodide


def write_wheels(folder: Path) -> None:
    """The wheels of lpfuse, and of what Pyodide has not: from what is installed."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.whl"):
        old.unlink()
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    # Nothing compiled for this machine would run there.
    pure = os.environ | {"LPFUSE_BUILD": "never"}
    subprocess.run(build, cwd=PACKAGE, env=pure, check=True, stdout=subprocess.DEVNULL)
    for name in OTHERS:
        _pack(name, folder)


def _pack(name: str, folder: Path) -> None:
    """An installed package of pure Python as the wheel that it came from."""
    found = distribution(name)
    stem = f"{name.replace('-', '_')}-{found.version}"
    files = [file for file in found.files or () if ".." not in file.parts]
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for file in sorted(files):
            if "__pycache__" not in file.parts and file.locate().is_file():
                wheel.write(file.locate(), file.as_posix())


def script_attributes(wheels: Path) -> dict[str, str]:
    """What `run.js` is told: where Pyodide is, what to load of it, and the wheels of the site."""
    names = sorted(path.name for path in wheels.glob("*.whl"))
    return {
        "data-host": HOST,
        "data-packages": " ".join(LOADED),
        "data-wheels": " ".join(f"../run/{name}" for name in names),
    }
