"""Time the forms in turns: ``python -m research.speed.core_spike``, a few minutes, one thread.

A step is: curvature, pull and direction of the predictor, targets, pull and direction of the
corrector, move. The R×R system is left out: it is the same for all. All seconds are CPU time.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess  # nosec B404 # compilers and this Python, with words of our own
import sys
import tempfile
import zlib
from functools import partial
from pathlib import Path
from time import process_time

import numpy as np

from research.common.machine import environment
from research.common.store import write_document
from research.speed.core_spike.forms import HERE, built, installed_size, rows_of

RESULTS = HERE.parents[1] / "results" / "speed" / "core_spike.json"
SIZES = [(1_000, 4), (1_000, 36), (10_000, 4), (10_000, 36)]
FEW = 10  # rows of which a call is all but overhead
ROUNDS, SECONDS = 60, 0.02  # of each round, of each form


def state(m, R, seed=0):
    """Rows, and pairs as an interior point has them halfway: some bind, some are free."""
    rng = np.random.default_rng(seed)
    columns = rng.normal(size=(R, m))
    x = rng.lognormal(0.0, 1.5, size=(2, m))
    z = 0.01 / x * rng.lognormal(0.0, 0.3, size=(2, m))
    dw = 0.01 * rng.normal(size=(2, R))
    return (columns, x, z, x[1] - x[0]), dw


def step(rows, dw, reach):
    H = rows.curvature()
    first = rows.pull(), rows.direction(dw[0])
    rows.aim(0.001)
    second = rows.pull(), rows.direction(dw[1])
    rows.move(reach * min(1.0, second[1][0]), reach * min(1.0, second[1][1]))
    return H, *first, *second


def numbers(Rows, m, R):
    """Everything that three steps compute, one after the other."""
    given, dw = state(m, R)
    rows, out = Rows(*given), []
    for _ in range(3):
        out += map(np.ravel, step(rows, dw, 0.9))
        out += [each.ravel().copy() for each in (rows.x, rows.z, rows.residual)]
    return out


def difference(ours, theirs):
    """The largest difference, relative to the largest number of its array."""
    pairs = zip(ours, theirs, strict=True)
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def microseconds(actions):
    """The fastest of many rounds in which all take turns."""
    repeats = {}
    for name, action in actions.items():
        action()
        start = process_time()
        action()
        repeats[name] = max(1, int(SECONDS / (process_time() - start)))
    samples = {name: [] for name in actions}
    for turn in range(ROUNDS):
        for name in list(actions)[:: 1 if turn % 2 else -1]:
            action, count = actions[name], repeats[name]
            start = process_time()
            for _ in range(count):
                action()
            samples[name].append(1e6 * (process_time() - start) / count)
    return {name: min(each) for name, each in samples.items()}


FIRST_USE = """
import sys, ctypes, numpy, scipy.linalg.cython_blas
from pathlib import Path
from time import process_time
from research.speed.core_spike.__main__ import rows_of, state, step
name, library = sys.argv[1], Path(sys.argv[2]) if sys.argv[2:] else None
given, dw = state(10, 4)
start = process_time()
step(rows_of(name, library)(*given), dw, 0.0)
print(process_time() - start)
"""


def first_use(name, library):
    """CPU seconds to import a form and take its first step, in a new process; least of five."""
    run = [sys.executable, "-c", FIRST_USE, name, *([] if library is None else [str(library)])]
    return min(float(subprocess.check_output(run)) for _ in range(5))  # nosec B603 # no shell


def compressed(path):
    """Bytes that a library adds to a wheel."""
    return len(zlib.compress(path.read_bytes(), 9))


def speed_of(classes, m, R):
    """Figures of one size, by form."""
    given, dw = state(m, R)
    expected = numbers(classes["NumPy"], m, R)
    found = {
        name: {f"difference_{m}_{R}": difference(numbers(Rows, m, R), expected)}
        for name, Rows in classes.items()
    }
    rows = {name: Rows(*given) for name, Rows in classes.items()}
    for name, value in microseconds(
        {n: partial(step, r, dw, 0.0) for n, r in rows.items()}
    ).items():
        found[name][f"step_us_{m}_{R}"] = value
    if m == FEW:
        calls = {name: partial(r.move, 0.0, 0.0) for name, r in rows.items()}
        for name, value in microseconds(calls).items():
            found[name]["call_us"] = value
    return found


def main():
    if os.environ.get("OMP_NUM_THREADS") != "1":
        sys.exit("Set OMP_NUM_THREADS=1: linear algebra reads it when it is loaded.")
    with tempfile.TemporaryDirectory() as folder:
        libraries = built(Path(folder))
        forms = {"NumPy": None} | {name: path for name, (path, _) in libraries.items()}
        if importlib.util.find_spec("numba"):
            forms["Numba"] = None
        records = {
            name: {"form": name, "first_use_s": first_use(name, path)}
            for name, path in forms.items()
        }
        for name, (path, seconds) in libraries.items():
            sizes = {"library_bytes": path.stat().st_size, "in_wheel_bytes": compressed(path)}
            records[name] |= {"build_s": seconds, **sizes}
        if "Numba" in records:
            records["Numba"]["user_installs_bytes"] = installed_size("numba", "llvmlite")
        classes = {name: rows_of(name, path) for name, path in forms.items()}
        for m, R in [(FEW, 4), *SIZES]:
            for name, found in speed_of(classes, m, R).items():
                records[name] |= found
    for record in records.values():
        print({k: float(f"{v:.3g}") if isinstance(v, float) else v for k, v in record.items()})
    packages = ("numpy", "scipy", "Cython", "nanobind", "numba", "llvmlite")
    write_document(
        RESULTS, {"environment": environment(1, packages), "forms": list(records.values())}
    )


if __name__ == "__main__":
    main()
