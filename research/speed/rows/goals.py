"""What must be reached from rows to verdicts, and what was measured: each goal is one function."""

from __future__ import annotations

from research.common.store import Record
from research.common.tables import Goal, gibibytes

from .results import Results, speed_up, whole

# All set by hand: what a user at a prompt does not mind waiting for.
FEW_ROWS, SOME_ROWS, MANY_ROWS = 1_200, 20_000, 200_000
MOST_SECONDS = {0: 1.5, 20: 1.8, 100: 2.0}  # of a fit to `FEW_ROWS`, by labels
# Than the version that the goals were set by, with another pool and nine fits of each member.
SET_BY = "f85f484"
FASTER, WISH, FASTER_BEYOND = 5.0, 10.0, 3.0
MOST_MINUTES, MOST_BYTES = 10.0, 4 * 2**30  # of a fit to `MANY_ROWS`
MOST_MILLISECONDS, MOST_OF_ONNX = 2.0, 1.0  # for one row


def goals(results: Results) -> list[Goal]:
    """All goals in the order of the table."""
    return [
        *(fit_seconds(results, labels) for labels in MOST_SECONDS),
        *(fit_faster(results, FEW_ROWS, labels, FASTER) for labels in MOST_SECONDS),
        fit_faster(results, SOME_ROWS, 20, FASTER_BEYOND),
        predict_faster(results),
        *(many_rows(results, labels) for labels in (0, 20)),
        one_row(results),
        beside_onnx(results),
    ]


def fit_seconds(results: Results, labels: int) -> Goal:
    most = MOST_SECONDS[labels]
    name, target = f"fit, {FEW_ROWS:,} rows, {labels} labels", f"≤ {most:g} CPU s"
    found = results.select("budget", n=FEW_ROWS, labels=labels)
    if not found:
        return Goal(name, target)
    seconds = whole(found[-1]["fit_seconds"])
    return Goal(name, target, f"{seconds:.2f} s", seconds <= most)


def fit_faster(results: Results, n: int, labels: int, least: float) -> Goal:
    name = f"fit, {n:,} rows, {labels} labels, against {SET_BY}"
    target = f"≥ {least:g}×" + (f" (wish: {WISH:g}×)" if least == FASTER else "")
    found = results.select("before", n=n, labels=labels, before_commit=SET_BY)
    if not found:
        return Goal(name, target)
    times = speed_up(found[-1], "fit_seconds")
    return Goal(name, target, f"{times:.1f}×", times >= least)


def predict_faster(results: Results) -> Goal:
    name, target = f"predict, 10,000 rows, against {SET_BY}", f"≥ {FASTER:g}×"
    found = results.select("before", predicted=10_000, before_commit=SET_BY)
    if not found:
        return Goal(name, target)
    times = {_told(r): speed_up(r, "predict_seconds") for r in found}
    worst = min(times, key=lambda where: times[where])
    return Goal(name, target, f"{times[worst]:.1f}× worst ({worst})", times[worst] >= FASTER)


def many_rows(results: Results, labels: int) -> Goal:
    name = f"fit, {MANY_ROWS:,} rows, {labels} labels"
    target = f"≤ {MOST_MINUTES:g} minutes of CPU, < {gibibytes(MOST_BYTES, 0)} resident"
    fields = {"n": MANY_ROWS, "labels": labels}
    failed = [r for r in results.failed if r["kind"] == "large" and fields.items() <= r.items()]
    found = results.select("large", **fields)
    if not found:
        return Goal(name, target, *((failed[-1]["message"], False) if failed else ()))
    minutes, peak = found[-1]["fit_seconds"] / 60, found[-1].get("peak_bytes")
    met = peak is not None and minutes <= MOST_MINUTES and peak < MOST_BYTES
    return Goal(name, target, f"{minutes:.1f} minutes, {gibibytes(peak)}", met)


def one_row(results: Results) -> Goal:
    name, target = "one row, `score_samples`", f"≤ {MOST_MILLISECONDS:g} ms"
    found = results.select("one-row")
    if not found:
        return Goal(name, target)
    times = {_told(r): 1e3 * r["row_seconds"]["score_samples"]["p50"] for r in found}
    worst = max(times, key=lambda where: times[where])
    text = f"{times[worst]:.2f} ms median, worst of {len(times)} ({worst})"
    return Goal(name, target, text, times[worst] <= MOST_MILLISECONDS)


def beside_onnx(results: Results) -> Goal:
    name, target = "one row, against its ONNX form", f"≤ {MOST_OF_ONNX:g}×"
    records = results.select("one-row")
    times = {_told(r): r["onnx_ratio"] for r in records if "onnx_ratio" in r}
    if not times:
        return Goal(name, target)
    worst = max(times, key=lambda where: times[where])
    text = f"{times[worst]:.2f}× worst of {len(times)} ({worst})"
    without = len(records) - len(times)  # a form that does not exist is not a fast one
    text += f"; {without} without such a form" if without else ""
    return Goal(name, target, text, times[worst] <= MOST_OF_ONNX and not without)


def _told(record: Record) -> str:
    return f"{record['n']:,} rows, {record['labels']} labels"
