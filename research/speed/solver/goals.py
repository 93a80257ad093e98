"""What the solver must reach, and what was measured: each goal is one function over the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median

from research.common.tables import Goal

from .results import Ratio, Results

CLARABEL = "cvxpy_clarabel"
# n: (median over p for every R and setting, every single p); goals set by hand, as all here.
FASTER_THAN_CLARABEL = {1_000: (50, 20), 10_000: (100, 10), 100_000: (100, 10)}
READS = {"pure": 5, "negatives": 9}  # of S, 1e6 × 36, median over p
MANY_LEARNERS = 128


def goals(results: Results) -> list[Goal]:
    """All goals in the order of the table."""
    clarabel = [against_clarabel(results, n) for n in FASTER_THAN_CLARABEL]
    return [
        stress_suite(results),
        *clarabel,
        algorithm_one(results),
        passes(results),
        *(reads(results, setting) for setting in READS),
        *(many_learners(results, setting) for setting in READS),
        *(goal(results) for goal in OTHERS),
    ]


def stress_suite(results: Results) -> Goal:
    name, target = "certified relative gap", "≤ 1e-8 on every problem of the stress suite (≥ 500)"
    found = results.stress
    if found is None:
        return Goal(name, target)
    failed = {k: found[k] for k in ("uncertified", "infeasible", "nan", "error") if found[k]}
    text = f"{found['certified']} of {found['problems']}, worst gap {found['worst_gap']:.1e}"
    text += "".join(f", {count} {what}" for what, count in failed.items())
    if found["problems"] < 500:
        return Goal(name, target, text + " (only a part of the suite)")
    return Goal(name, target, text, not failed)


def against_clarabel(results: Results, n: int) -> Goal:
    """The median over p must reach the goal for every R and setting, and no p may fall short."""
    least, every_p = FASTER_THAN_CLARABEL[n]
    name = f"against cvxpy+CLARABEL, same gap, n = {n:.0e}".replace("e+0", "e")
    target = f"≥ {least}× (median over p), none under {every_p}×"
    medians, every, alone = [], [], []
    for R, setting in sorted({(r["R"], r["setting"]) for r in results.ours(n=n)}):
        records = results.select("solve", rival=CLARABEL, n=n, R=R, setting=setting)
        ratios = results.ratios(r for r in records if r["source"] == "synthetic")
        alone += results.ratios(records, "solver_seconds")
        every += ratios
        if ratios:
            medians.append(median_ratio(ratios))
    if not every:
        return Goal(name, target)
    lowest, lowest_median = _lowest(every), _lowest(medians)
    text = (
        f"median {show(median_ratio(every))}; lowest median of an R and setting "
        f"{show(lowest_median)}, lowest single {show(lowest)} "
        f"(solver without modelling: median {show(median_ratio(alone))})"
    )
    met = lowest_median.value >= least and lowest.value >= every_p
    return Goal(name, target, text, met)


def algorithm_one(results: Results) -> Goal:
    """Its time to its own loose stop over ours to a certified gap, on the paper's speed table."""
    name = "against Algorithm 1 at its own stop, paper's speed table"
    target = "never slower: ≥ 1× at every p and precision"
    ratios = results.over_algorithm_one()
    if not ratios:
        return Goal(name, target)
    slowest = min(ratios, key=lambda found: ratios[found])
    behind = sum(ratio < 1.0 for ratio in ratios.values())
    text = (
        f"median {median(ratios.values()):.3g}×, lowest {ratios[slowest]:.3g}× (at {slowest}); "
        f"slower in {behind} of {len(ratios)} cells"
    )
    return Goal(name, target, text, behind == 0)


def passes(results: Results) -> Goal:
    name, target = "passes over S, n ≥ 1e5", "≤ 4 median, ≤ 6 worst"
    found = [r["passes"] for r in results.ours() if r["n"] >= 100_000]
    if not found:
        return Goal(name, target)
    met = median(found) <= 4 and max(found) <= 6
    return Goal(name, target, _median_and_worst(found), met)


def reads(results: Results, setting: str) -> Goal:
    most = READS[setting]
    name, target = f"1e6 × 36, {setting}", f"≤ {most} memory reads of S (median over p)"
    found = _reads(results, 36, setting)
    if not found:
        return Goal(name, target)
    return Goal(name, target, _median_and_worst(found), median(found) <= most)


def many_learners(results: Results, setting: str) -> Goal:
    name = f"1e6 × {MANY_LEARNERS}, {setting}"
    target = "≤ 10 memory reads of S (median over p), ≤ 4 passes at every p"
    found = _reads(results, MANY_LEARNERS, setting)
    if not found:
        return Goal(name, target)
    records = results.ours(n=1_000_000, R=MANY_LEARNERS, setting=setting)
    most = max(r["passes"] for r in records)
    text = f"{_median_and_worst(found)}; {most:.1f} passes at most"
    return Goal(name, target, text, median(found) <= 10 and most <= 4)


def _reads(results: Results, R: int, setting: str) -> list[float]:
    records = results.ours(n=1_000_000, R=R, setting=setting)
    return [found for r in records if (found := results.reads(r)) is not None]


def _median_and_worst(values: Sequence[float]) -> str:
    return f"{median(values):.1f} median, {max(values):.1f} worst"


def extra_memory(results: Results) -> Goal:
    name, target = "1e6 × 36, extra memory", "≤ 25 % of S"
    records = results.select("memory", n=1_000_000, R=36, rival="lpfuse_interior_point")
    found = [r["extra_bytes"] / r["score_bytes"] for r in records if r["extra_bytes"] is not None]
    if not found:
        return Goal(name, target)
    return Goal(name, target, f"{max(found):.1%} worst", max(found) <= 0.25)


def spread_over_p(results: Results) -> Goal:
    name, target = "spread over p", "worst / median time ≤ 5"
    spreads = {}
    for n, R, setting in results.groups():
        times = [r["seconds"] for r in results.ours(n=n, R=R, setting=setting)]
        spreads[max(times) / median(times)] = f"{n} × {R}, {setting}"
    if not spreads:
        return Goal(name, target)
    worst = max(spreads)
    text = f"{worst:.1f} at {spreads[worst]}; median {median(spreads):.1f}"
    return Goal(name, target, text, worst <= 5)


def nine_p_path(results: Results) -> Goal:
    name, target = "nine-p path", "≤ 3 single solves"
    found = {}
    for record in results.select("path"):
        if "path_seconds" in record:
            single = median(record["single_seconds"].values())
            found[record["path_seconds"] / single] = f"{record['n']} × {record['R']}"
    if not found:
        return Goal(name, target)
    worst = max(found)
    text = f"{median(found):.1f} median, {worst:.1f} worst (at {found[worst]})"
    return Goal(name, target, text, worst <= 3)


def least_squares(results: Results) -> Goal:
    name, target = "least squares, nine p", "one Gram matrix plus ≤ 5 ms"
    records = [r for r in results.select("least_squares") if "path_seconds" in r]
    if not records:
        return Goal(name, target)
    beyond = {r["path_seconds"] - r["gram_seconds"]: r for r in records}
    worst = max(beyond)
    record = beyond[worst]
    text = (
        f"Gram + {1e3 * worst:.1f} ms worst (at {record['n']} × {record['R']}: "
        f"Gram alone {1e3 * record['gram_seconds']:.1f} ms)"
    )
    return Goal(name, target, text, worst <= 5e-3)


OTHERS: tuple[Callable[[Results], Goal], ...] = (
    extra_memory,
    spread_over_p,
    nine_p_path,
    least_squares,
)


def show(ratio: Ratio) -> str:
    """``≥`` marks a lower bound: a rival was stopped at its limit."""
    return f"{'≥ ' if ratio.is_bound else ''}{ratio.value:.3g}×"


def median_ratio(ratios: Iterable[Ratio]) -> Ratio:
    """Of lower bounds and exact ratios alike the median is at least this."""
    ratios = list(ratios)
    middle = median(ratio.value for ratio in ratios)
    return Ratio(middle, any(ratio.is_bound for ratio in ratios))


def _lowest(ratios: Iterable[Ratio]) -> Ratio:
    return min(ratios, key=lambda ratio: ratio.value)
