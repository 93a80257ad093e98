"""From a file to a verdict: sizes of model files, the command, the solver on few rows, growth.

``python -m research.speed.file_to_verdict files | command | solver`` measures and appends to
``research/results/speed/file_to_verdict.jsonl``, as `research.speed.growth` does; ``… page`` writes
``docs/benchmarks/file-to-verdict.md`` and its figure. All times are CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess  # nosec B404 # starts this Python
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from research.speed.growth import COLUMNS, RESULTS, SCORED, STEPS, WATCHING, append, slope
from research.speed.rows.data import Rows

PAGE = Path("docs/benchmarks/file-to-verdict.md")
SIZES = ((1_200, 0), (1_200, 20), (20_000, 0), (20_000, 20))
VERDICTS = 400  # rows of the table that the command scores
REPEATS = 5
GOALS = {1_200: 3e6, 20_000: 10e6}


def files(out: Path, label: str) -> None:
    """Sizes of model files, and CPU seconds to save and to load them."""
    from lpfuse import FusedDetector, load

    for rows, labels in SIZES:
        drawn = Rows(rows, COLUMNS, labels)
        model = FusedDetector(random_state=0).fit(*drawn.training())
        new = drawn.unseen(VERDICTS)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.lpfuse"
            saved = [_cpu(lambda: model.save(path)) for _ in range(3)]  # noqa: B023 (called at once)
            loaded = [_cpu(lambda: load(path)) for _ in range(3)]  # noqa: B023
            same = bool((load(path).score_samples(new) == model.score_samples(new)).all())
            with zipfile.ZipFile(path) as archive:
                expanded = sum(info.file_size for info in archive.infolist())
            size = path.stat().st_size
        _append(out, kind="file", code=label, rows=rows, labels=labels, bytes=size,
                expanded=expanded, save_seconds=statistics.median(saved),
                load_seconds=statistics.median(loaded), same_scores=same)  # fmt: skip


def command(out: Path) -> None:
    """``lpfuse score``, and what Python and its imports take of it, in turns."""
    with tempfile.TemporaryDirectory() as name:
        folder, header = Path(name), ",".join(f"x{k}" for k in range(COLUMNS))
        drawn = Rows(1_200, COLUMNS, 20)
        for file, rows in (("train", drawn.normal()), ("rows", drawn.unseen(VERDICTS))):
            np.savetxt(folder / f"{file}.csv", rows, delimiter=",", header=header, comments="")
        lpfuse = [sys.executable, "-m", "lpfuse_cli"]
        files = [str(folder / each) for each in ("model.lpfuse", "rows.csv", "scores.csv")]
        _children([*lpfuse, "fit", str(folder / "train.csv"), "-o", files[0]])
        python = [sys.executable, "-c"]
        tried = {
            "lpfuse score": [*lpfuse, "score", *files[:2], "-o", files[2]],
            "import sklearn.base": [*python, "import sklearn.base"],
            "import scipy.stats": [*python, "import scipy.stats"],
            "import pandas": [*python, "import pandas"],
            "import numpy": [*python, "import numpy"],
            "from lpfuse import FusedDetector": [*python, "from lpfuse import FusedDetector"],
            "lpfuse --help": [*lpfuse, "--help"],
            "python": [*python, "pass"],
        }
        samples: dict[str, list[float]] = {each: [] for each in tried}
        for _ in range(REPEATS):
            for each, words in tried.items():
                samples[each].append(_children(words))
    for each, times in samples.items():
        _append(out, kind="command", what=each, seconds=statistics.median(times), samples=times)


def solver(out: Path) -> None:
    """Problems of 1,000 rows by lpfuse and by cvxpy with CLARABEL, to the same gap."""
    from threadpoolctl import threadpool_limits

    from lpfuse import lp_path
    from research.common.judge import FusionProblem
    from research.rivals import solvers as rivals
    from research.speed.solver.problems import NEGATIVE_FRACTION, PAPER_P, Case, parse_p

    warnings.simplefilter("ignore")
    ours, rival = (rivals.load(each) for each in (rivals.OURS, "cvxpy_clarabel"))
    with threadpool_limits(1):
        for R in (4, 36):
            for setting in NEGATIVE_FRACTION:
                S, y = Case(1_000, R, setting, 0).data()
                medians = []
                for p in PAPER_P:
                    problem = FusionProblem(S, y, parse_p(p))
                    seconds = {}
                    for name, each, repeats in (("ours", ours, 25), ("rival", rival, 5)):
                        run = lambda: each.solve(problem, 1e-8, 60.0)  # noqa: B023, E731
                        run()
                        seconds[name] = statistics.median(_cpu(run) for _ in range(repeats))
                    medians.append(seconds["ours"])
                    _append(out, kind="solver", rows=1_000, R=R, setting=setting, p=p, **seconds)
                labels = None if setting == "pure" else y
                grid = [parse_p(p) for p in PAPER_P]
                run = lambda: lp_path(S, labels, ps=grid, tol=1e-8)  # noqa: B023, E731
                run()
                path = statistics.median(_cpu(run) for _ in range(15))
                single = statistics.median(medians)
                _append(out, kind="path", rows=1_000, R=R, setting=setting, path=path,
                        solve=single, sum=sum(medians))  # fmt: skip


def _cpu(action: Callable[[], Any]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began


def _children(words: list[str]) -> float:
    """CPU seconds of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(  # nosec B603 # this Python, no shell
        words, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": ""}
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _append(out: Path, **record: Any) -> None:
    append(out, record)
    print(record, flush=True)


# ------------------------------------------------------------------------------------------- page


def stored(path: Path) -> list[dict[str, Any]]:
    """Return the stored records."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [record for record in lines if record["kind"] != "environment"]


def page(records: list[dict[str, Any]]) -> str:
    """Return the page of stored results."""
    of = {kind: [r for r in records if r["kind"] == kind] for kind in
          ("file", "command", "solver", "path", "growth", "watch", "beside", "forms")}  # fmt: skip
    parts = [HEAD, _files(of["file"]), _command(of["command"]), _solver(of["solver"], of["path"]),
             _growth(of["growth"]), _watch(of["watch"]), _beside(of["beside"]),
             _forms(of["forms"])]  # fmt: skip
    cpus = sorted({r["cpu"] for r in records if "cpu" in r})
    return "\n\n".join([*(part for part in parts if part), f"Measured on {', '.join(cpus)}.\n"])


HEAD = """# From a file to a verdict

Written by `python -m research.speed.file_to_verdict page` from stored results: do not edit by hand.
How to run: `research/speed/README.md`. Times are CPU seconds of one thread on a machine shared with
other work: ratios within a table are comparable, times of different tables less so."""


def _table(header: str, rows: Iterable[Iterable[Any]]) -> str:
    columns = header.count("|") - 1
    lines = [header, "|" + "---|" * columns]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def _files(found: list[dict[str, Any]]) -> str:
    rows = []
    for rows_, labels in SIZES:
        by = {r["code"]: r for r in found if (r["rows"], r["labels"]) == (rows_, labels)}
        now, before = by["now"], by["before"]
        met = "yes" if now["bytes"] <= GOALS[rows_] else "**no**"
        rows.append((f"{rows_:,} × {COLUMNS}", labels, f"{before['bytes'] / 1e6:.1f}",
                     f"{now['bytes'] / 1e6:.1f}", f"≤ {GOALS[rows_] / 1e6:.0f}", met,
                     f"{before['save_seconds']:.2f} → {now['save_seconds']:.2f}",
                     f"{before['load_seconds']:.2f} → {now['load_seconds']:.2f}",
                     "to the bit" if now["same_scores"] else "**differ**"))  # fmt: skip
    return "## Model files\n\nFormat 4 before, format 5 now. MB are 10⁶ bytes.\n\n" + _table(
        "| rows | labels | MB before | MB now | goal | met | save, s | load, s | scores after "
        "loading |", rows)  # fmt: skip


def _command(found: list[dict[str, Any]]) -> str:
    whole = next(r["seconds"] for r in found if r["what"] == "lpfuse score")
    rows = [(f"`{r['what']}`", f"{r['seconds']:.2f}", f"{100 * r['seconds'] / whole:.0f} %")
            for r in found]  # fmt: skip
    return (
        f"## The command\n\n`lpfuse score` on {VERDICTS} rows with a model of 1,200 rows, and "
        "parts of it alone, in turns, medians. Goal: ≤ 1.0 s. `sklearn.base` imports SciPy's "
        "statistics and, where it is installed, pandas: this is what nothing in lpfuse can "
        "leave out. Loading and scoring take what the imports leave.\n\n"
        + _table("| process | CPU s | share of `lpfuse score` |", rows)
    )


def _solver(found: list[dict[str, Any]], paths: list[dict[str, Any]]) -> str:
    ratios = np.array([r["rival"] / r["ours"] for r in found])
    rows = []
    for path in paths:
        some = [r for r in found if (r["R"], r["setting"]) == (path["R"], path["setting"])]
        each = [r["rival"] / r["ours"] for r in some]
        lowest = some[int(np.argmin(each))]
        rows.append((path["R"], path["setting"], f"{1e3 * path['solve']:.2f}",
                     f"{statistics.median(each):.0f}×", f"{min(each):.0f}× (p = {lowest['p']})",
                     f"{path['path'] / path['solve']:.1f}",
                     f"{path['path'] / path['sum']:.2f}"))  # fmt: skip
    return (
        "## The solver on 1,000 rows\n\nAgainst cvxpy with CLARABEL, relative gap 1e-8, nine p, "
        f"warm: median {np.median(ratios):.0f}× (goal ≥ 50×), lowest {ratios.min():.0f}× (goal "
        "≥ 30×). Path: all nine p by `lp_path`, in median solves (goal ≤ 3) and over the sum of "
        "the nine solves. The lowest ratios are those of R = 36, normal rows alone, p = 4, where "
        "the look for weights without violations finds none and the interior point takes 25 "
        "steps. With R = 4 a solve is a quarter of a millisecond, of which a path cannot share "
        "much; a path is shorter in milliseconds than before, but single solves fell by more.\n\n"
        + _table(
            "| R | setting | one solve, ms | ratio, median | lowest | path, in solves | path "
            "over nine solves |",
            rows,
        )
    )


def _growth(found: list[dict[str, Any]]) -> str:
    if not found:
        return ""
    found = sorted(found, key=lambda r: r["rows"])
    steps = _steps(found)
    rows = [
        (f"{r['rows']:,}", *(_step(r, step) for step in steps), f"{r['file_bytes'] / 1e6:.1f}")
        for r in found
    ]
    n = np.array([r["rows"] for r in found])
    powers = []
    for name in (*(f"{step}_seconds" for step in steps), "file_bytes", "fit_bytes"):
        alpha, error = slope(n[n >= FROM], np.array([r[name] for r in found])[n >= FROM])
        told = {"file_bytes": "file", "fit_bytes": "memory of a fit"}.get(name)
        told = told or WORDS[name.removesuffix("_seconds")]
        powers.append((told, f"{alpha:.2f} ± {error:.2f}"))
    return (
        f"## Growth\n\n`FusedDetector()` without labels: CPU seconds and, in brackets, the highest "
        f"resident memory in GiB, Python and what came before included. *Score*: {SCORED:,} rows; "
        "*score as many*: as many rows as were learnt from.\n\n"
        + _table(f"| rows | {' | '.join(WORDS[step] for step in steps)} | file, MB |", rows)
        + f"\n\nExponents of the number of rows from {FROM:,} on, by least squares on logarithms, "
        "with standard errors:\n\n" + _table("| quantity | exponent |", powers)
        + "\n\n![Time, file and memory over rows](file-to-verdict.png)"
    )  # fmt: skip


def _step(record: dict[str, Any], step: str) -> str:
    return f"{record[f'{step}_seconds']:.3g} ({record[f'{step}_bytes'] / 2**30:.2f})"


def _steps(found: list[dict[str, Any]]) -> list[str]:
    """Steps that all records have."""
    return [step for step in STEPS if all(f"{step}_seconds" in r for r in found)]


def _watch(found: list[dict[str, Any]]) -> str:
    if not found:
        return ""
    rows = [(f"{r['rows']:,}", f"{r['seconds']:.1f}", f"{r['bytes'] / 2**30:.2f}") for r in found]
    first, last = found[0], found[-1]
    each = (last["seconds"] - first["seconds"]) / (last["rows"] - first["rows"])
    return (
        f"## `lpfuse watch`\n\nA file of so many rows, with a model of {WATCHING:,} rows, from "
        f"start to end. After the start a row takes {1e6 * each:.0f} µs.\n\n"
        + _table("| rows | CPU s | memory, GiB |", rows)
    )


WORDS = {"score_all": "score as many"} | {step: step for step in STEPS if step != "score_all"}
FROM = 3_000


def _beside(found: list[dict[str, Any]]) -> str:
    if not found:
        return ""
    rows = []
    for r in found:
        if "fit_seconds" in r:
            told = (f"{r['fit_seconds']:.3g}", f"{r['score_seconds']:.3g}",
                    f"{r['fit_bytes'] / 2**30:.2f}")  # fmt: skip
        else:
            told = (f"over {r['limit']}, stopped", "–", "–")
        rows.append((f"{r['rows']:,}", r["method"], *told))
    return (
        "## Side by side\n\nEach method in a process of its own, within half an hour, one machine; "
        "lpfuse and XGBOD are "
        f"given 20 labelled anomalies. Scores: {SCORED:,} rows. A method is stopped at a limit "
        "of CPU seconds.\n\n"
        + _table("| rows | method | fit, CPU s | scores, CPU s | memory, GiB |", rows)
    )


def _forms(found: list[dict[str, Any]]) -> str:
    if not found:
        return ""
    copy = found[0]["forms"]["copy"]
    rows = [(f"`{name}`", f"{1e3 * seconds:.3f}", f"{seconds / copy:.2f}")
            for name, seconds in found[0]["forms"].items()]  # fmt: skip
    return (
        f"## Products on a GPU\n\n{found[0]['device']}, {found[0]['n']:,} × 36 scores in double "
        "precision: what a pass is made of, beside a copy. w has 36 numbers, v one for each row; "
        "*nine*: for nine vectors at once; *single*: in single precision.\n\n"
        + _table("| form | ms | copies |", rows)
    )


def figure(records: list[dict[str, Any]], path: Path) -> None:
    """Draw growth: times, the file and memory."""
    import matplotlib.pyplot as plt

    found = sorted((r for r in records if r["kind"] == "growth"), key=lambda r: r["rows"])
    n = np.array([r["rows"] for r in found], dtype=float)
    drawn, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for step in _steps(found):
        _curve(axes[0], n, [r[f"{step}_seconds"] for r in found], WORDS[step])
    watched = sorted((r for r in records if r["kind"] == "watch"), key=lambda r: r["rows"])
    rows = np.array([r["rows"] for r in watched], dtype=float)
    _curve(axes[0], rows, [r["seconds"] for r in watched], "watch")
    _curve(axes[1], n, [r["file_bytes"] / 1e6 for r in found], "model file")
    _curve(axes[1], n, [r["fit_bytes"] / 1e6 for r in found], "memory, fit")
    _curve(axes[1], n, [r["load_bytes"] / 1e6 for r in found], "memory, load")
    _curve(axes[1], rows, [r["bytes"] / 1e6 for r in watched], "memory, watch")
    _curve(axes[1], n, (n * COLUMNS * 8 / 1e6).tolist(), "the rows themselves")
    for axis, words in zip(axes, ("CPU seconds", "MB"), strict=True):
        axis.set(xscale="log", yscale="log", xlabel="rows", ylabel=words)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=8)
    axes[0].set_title("Time", fontsize=10)
    axes[1].set_title("File and highest memory", fontsize=10)
    drawn.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(drawn)


def _curve(axis: Any, n: Any, values: list[float], label: str) -> None:
    alpha, _ = slope(n[n >= FROM], np.array(values)[n >= FROM])
    axis.plot(n, values, "o-", markersize=4, label=f"{label}: n^{alpha:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser("python -m research.speed.file_to_verdict")
    parser.add_argument("what", choices=("files", "command", "solver", "page"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--label", default="now", help="of the code whose files are measured")
    options = parser.parse_args()
    if options.what == "files":
        files(options.out, options.label)
    elif options.what == "page":
        records = stored(options.out)
        PAGE.write_text(page(records))
        if any(r["kind"] == "growth" for r in records):
            figure(records, PAGE.with_suffix(".png"))
    else:
        {"command": command, "solver": solver}[options.what](options.out)


if __name__ == "__main__":
    main()
