"""Which form serves is told truly, whatever was built and whatever the environment asks for."""

import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from lpfuse._compiled import MODULES, compiled, library_of, solver_core, sources_digest

SOURCE = Path(__file__).parents[1] / "src" / "lpfuse"
BUILT = all(library_of(name) for name in MODULES)
TELL = "from lpfuse.optim import solver_core; print(solver_core())"
FIT = """
import json
import numpy as np
from lpfuse import LpFusion
from lpfuse.optim import solver_core
rng = np.random.default_rng(0)
y = np.repeat([1, -1], [300, 60])
S = y[:, None] * rng.uniform(0, 1, 9) + rng.normal(size=(360, 9))
found = []
for p in (1, 4 / 3, 2, 100):
    told = LpFusion(p=p).fit(S, y).certificate_
    found.append([told.dual, told.primal, told.relative_gap])
print(json.dumps([solver_core(), found]))
"""


def said_by(code, path=None, **variables):
    """What a fresh interpreter prints; its warnings and errors where it fails."""
    known = {name: value for name, value in os.environ.items() if name != "LPFUSE_COMPILED"}
    if path is not None:
        known["PYTHONPATH"] = str(path)
    run = [sys.executable, "-W", "default", "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, env=known | variables, check=False)
    return (done.stdout + done.stderr).strip()


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A folder with lpfuse in it as where nothing was compiled."""
    folder = tmp_path_factory.mktemp("bare")
    shutil.copytree(SOURCE, folder / "lpfuse", ignore=shutil.ignore_patterns("*.so", "*.pyd"))
    return folder


def test_every_source_is_a_module_that_is_asked_for():
    found = (path.relative_to(SOURCE.parent).with_suffix("") for path in SOURCE.rglob("*.pyx"))
    assert sorted(MODULES) == sorted(".".join(path.parts) for path in found)


@pytest.mark.parametrize("name", MODULES)
def test_what_serves_was_built_from_these_sources(name):
    if compiled(name) is None:
        pytest.skip("NumPy serves here: nothing was compiled, or LPFUSE_COMPILED=0")
    stamp = compiled(name).__sources__
    assert stamp == sources_digest(SOURCE), "stale: run `make compiled`"


def test_a_digest_depends_on_source_names_and_texts_only(tmp_path):
    def digest(**files):
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        for name, text in files.items():
            (tmp_path / name.replace("_", ".")).write_text(text)
        return sources_digest(tmp_path)

    first = digest(a_pyx="x = 1\n", b_h="int b;\n")
    assert first == digest(b_h="int b;\n", a_pyx="x = 1\n", c_py="import this\n")
    assert len({first, digest(a_pyx="x = 1\n"), digest(a_pyx="x = 2\n", b_h="int b;\n")}) == 3
    assert first != digest(c_pyx="x = 1\n", b_h="int b;\n")


def test_the_environment_decides():
    assert said_by(TELL, LPFUSE_COMPILED="0") == "NumPy"
    assert said_by(TELL) == ("compiled" if BUILT else "NumPy")
    assert "must be 0 (NumPy) or 1 (compiled), not 'yes'" in said_by(TELL, LPFUSE_COMPILED="yes")
    demanded = said_by(TELL, LPFUSE_COMPILED="1")
    assert demanded == "compiled" if BUILT else "was not built. Reinstall lpfuse" in demanded


def test_this_very_run_is_in_the_form_that_is_told():
    wanted = os.environ.get("LPFUSE_COMPILED") != "0" and BUILT
    assert solver_core() == ("compiled" if wanted else "NumPy")


def test_without_libraries_numpy_serves_and_a_demand_is_refused(bare):
    assert said_by(TELL, bare) == "NumPy"
    assert "was not built. Reinstall lpfuse" in said_by(TELL, bare, LPFUSE_COMPILED="1")


def test_a_broken_library_warns_and_falls_back_to_numpy(bare, tmp_path):
    shutil.copytree(bare, tmp_path, dirs_exist_ok=True)
    for name in MODULES:
        path = tmp_path.joinpath(*name.split("."))
        path.with_name(path.name + EXTENSION_SUFFIXES[0]).write_bytes(b"no library at all")
    told = said_by(TELL, tmp_path)
    assert told.startswith("NumPy\n")
    assert "RuntimeWarning" in told
    assert "cannot be loaded" in told
    assert said_by(TELL, tmp_path, LPFUSE_COMPILED="0") == "NumPy"
    refused = said_by(TELL, tmp_path, LPFUSE_COMPILED="1")
    assert "ImportError: lpfuse." in refused
    assert "cannot be loaded" in refused


def test_both_forms_prove_the_same():
    if not BUILT:
        pytest.skip("nothing was compiled: there is one form only")
    form, ours = json.loads(said_by(FIT, LPFUSE_COMPILED="1"))
    other, theirs = json.loads(said_by(FIT, LPFUSE_COMPILED="0"))
    assert (form, other) == ("compiled", "NumPy")
    for found in zip(ours, theirs, strict=True):
        dual, primal, gap = zip(*found, strict=True)
        assert max(gap) <= 1e-8
        assert max(dual) <= min(primal)
