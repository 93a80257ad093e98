"""How fast stored gaps fall: rates, page and picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._format import name_of_p
from lpfuse.plots.drawing import COLOURS
from research.common.drawing import new_figure
from research.common.protocol import SETTINGS
from research.common.store import Row
from research.common.tables import markdown, page, prose

METHODS = {"Algorithm 1": 0.0, "smoothed": 1.0}  # first half-width of the smoothed hinge
EXAMPLE = "counterexample"
FIELDS = ("steps", "value", "gap")
NOISE = 1e-10  # relative gaps up to here count as none: bounds are certified to 1e-12
GROWS = 2.0  # T·gap grows if the last tenfold of T multiplies it by more than this,
STALLS = 5.0  # and the gap stalls if by more than this: it is not even halved
FLOOR = 1e-9  # of the picture

NOTES = """
The paper says of Algorithm 1 that f(w) ≤ f* + 1/T after T steps, by the theory of Frank–Wolfe.
That theory needs a smooth loss, and the hinge has a kink. Where no row sits on its kink at the
optimum, the gradient around it is constant, every step aims at the optimum itself, and the gap even
falls as 1/T². Where some do, subgradients point from side to side, and the steps may stall.
*Smoothed* takes the same steps on a hinge that is rounded off by a width that shrinks like 1/√T,
for which the rate is 1/√T.
"""
METHOD_NOTES = """
True gaps to an optimum that is certified to 1e-12, on the scores of the paper's four learners:
{scope}; pure and non-pure, every p of the grid. T·gap *grows* if the last tenfold of T multiplies
it by more than 2 (1 would be the rate 1/T, 10 a standstill), and the gap is *stalled* if by more
than 5. The slope is that of log gap against log T over the last hundredfold: −1 is the rate of
the paper. The last column counts the cases in which the paper's bound holds to the letter, for
every T.
"""
SEEN = """
**{method}.** T·gap grows in {growing} of {cases} cases ({share:.0%}), {stalled} of which are
stalled, at up to {worst:.1%} above the optimum; in {bounded} it does not grow, in {solved} no gap
is left.
"""
EXAMPLE_NOTES = """
Scores (0, 2) and (½, 0) of two normal rows, p = 2: the optimum is w = (√3/2, 1/2) with f* = 1 −
√3/4 ≈ 0.567. After {theirs[steps]:,} steps Algorithm 1 is {theirs[gap]:.1%} above it (slope
{theirs[slope]:z.2f}), smoothed {ours[gap]:.2%} (slope {ours[slope]:z.2f}).
"""


@dataclass(frozen=True, eq=False)
class Case:
    """The gaps of one run, relative to f*, against the number of steps."""

    set: str
    setting: str
    method: str
    p: float
    steps: Host
    gaps: Host
    absolute: Host  # f(w) − f*

    @property
    def is_solved(self) -> bool:
        """Whether no gap is left at the end."""
        return bool(self.gaps[-1] <= NOISE)

    @property
    def is_as_claimed(self) -> bool:
        """Whether ``f(w) ≤ f* + 1/T`` for every T, the paper's claim to the letter."""
        return bool((self.absolute <= 1 / self.steps).all())

    @property
    def growth(self) -> float:
        """What the last tenfold of T multiplies T·gap by: 1 at the rate 1/T, 10 at a standstill."""
        before = int(np.searchsorted(self.steps, self.steps[-1] / 10))
        scaled = self.steps * self.gaps
        return float(scaled[-1] / scaled[before])

    @property
    def slope(self) -> float:
        """Of log gap against log T over the last hundredfold of T; NaN where the gap is gone."""
        late = (self.steps >= self.steps[-1] / 100) & (self.gaps > NOISE)
        if late.sum() < 3:
            return np.nan
        return float(np.polyfit(np.log(self.steps[late]), np.log(self.gaps[late]), 1)[0])


def cases(rows: Sequence[Row]) -> list[Case]:
    """The rows, run by run."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        key = row["set"], row["setting"], row["method"], float(row["p"])
        groups.setdefault(key, []).append(row)
    return [
        Case(*key, *(np.array([row[name] for row in group]) for name in FIELDS))
        for key, group in groups.items()
    ]


def figures(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Variant → how its gap falls.

    Returns
    -------
    dict
        For "Algorithm 1" and "smoothed" a dict with

        - ``counterexample``: ``steps``, relative ``gap`` after them, and ``slope``;
        - for "pure" and "non-pure" a dict with the number of ``cases``, and of those that are
          ``solved`` (no gap left), ``bounded`` (T·gap does not grow) or ``growing``, of which some
          are ``stalled``; the quartiles of the ``slopes``; the ``worst`` relative gap after all
          steps; ``as_claimed``: number of cases with ``f(w) ≤ f* + 1/T`` at every T;
          ``growing_at``: p → share of its cases that grow.
    """
    known = cases(rows)
    found: dict[str, dict[str, Any]] = {}
    for method in METHODS:
        (example,) = (c for c in known if (c.method, c.set) == (method, EXAMPLE))
        ends = {"steps": int(example.steps[-1]), "gap": float(example.gaps[-1])}
        found[method] = {"counterexample": ends | {"slope": example.slope}}
        for setting in SETTINGS:
            same = [c for c in known if (c.method, c.setting) == (method, setting)]
            found[method][setting] = _figures([c for c in same if c.set != EXAMPLE])
    return found


def _figures(chosen: Sequence[Case]) -> dict[str, Any]:
    open_ = [case for case in chosen if not case.is_solved]
    growing = [case for case in open_ if case.growth > GROWS]
    slopes = [case.slope for case in chosen if np.isfinite(case.slope)]
    ps = sorted({case.p for case in chosen})
    return {
        "cases": len(chosen),
        "solved": len(chosen) - len(open_),
        "bounded": len(open_) - len(growing),
        "growing": len(growing),
        "stalled": sum(case.growth > STALLS for case in growing),
        "slopes": np.quantile(slopes or [np.nan], [0.25, 0.5, 0.75]).tolist(),
        "worst": max(float(case.gaps[-1]) for case in chosen),
        "as_claimed": sum(case.is_as_claimed for case in chosen),
        "growing_at": {
            p: sum(c.p == p for c in growing) / sum(c.p == p for c in chosen) for p in ps
        },
    }


def convergence_page(rows: Sequence[Row], picture: str, scope: str) -> str:
    """The page: rates by variant and setting, and at which p they fail."""
    found = figures(rows)
    last = max(case.steps[-1] for case in cases(rows) if case.set != EXAMPLE)
    table = [["", "cases", "no gap left", "T·gap does not grow", "grows", "of these stalled",
              "slope (quartiles)", "worst relative gap", "f(w) ≤ f* + 1/T"]]  # fmt: skip
    by_p: list[list[str]] = []
    for method, of_method in found.items():
        for setting in SETTINGS:
            figure = of_method[setting]
            counts = (figure[key] for key in ("cases", "solved", "bounded", "growing", "stalled"))
            low, middle, high = figure["slopes"]
            table.append([f"{method}, {setting}", *map(str, counts),
                          f"{middle:z.2f} ({low:z.2f} to {high:z.2f})", f"{figure['worst']:.1e}",
                          str(figure["as_claimed"])])  # fmt: skip
            shares = figure["growing_at"]
            by_p = by_p or [["", *(f"p = {name_of_p(p)}" for p in shares)]]
            by_p.append([f"{method}, {setting}", *(f"{share:.0%}" for share in shares.values())])
    ours, theirs = (found[method]["counterexample"] for method in ("smoothed", "Algorithm 1"))
    return page(
        "# Does the gap fall as 1/T?",
        prose(NOTES),
        picture,
        "## The counterexample",
        prose(EXAMPLE_NOTES.format(theirs=theirs, ours=ours)),
        f"## The data sets, up to T = {last:,}",
        prose(METHOD_NOTES.format(scope=scope)),
        markdown(table),
        *(prose(_seen(method, of_method)) for method, of_method in found.items()),
        "Share of the cases in which T·gap grows:",
        markdown(by_p),
    )


def _seen(method: str, found: dict[str, Any]) -> str:
    counts = {
        key: sum(found[setting][key] for setting in SETTINGS)
        for key in ("cases", "solved", "bounded", "growing", "stalled")
    }
    worst = max(found[setting]["worst"] for setting in SETTINGS)
    return SEEN.format(
        **counts, method=method.capitalize(), worst=worst, share=counts["growing"] / counts["cases"]
    )


def draw(rows: Sequence[Row], path: Path) -> None:
    """Gap against T: the counterexample, then every case of each variant."""
    figure = new_figure(12.0, 4.2)
    panels = figure.subplots(1, 1 + len(METHODS), sharey=True)
    looks = {"pure": {"color": COLOURS[0]}, "non-pure": {"color": COLOURS[5], "linestyle": "--"}}
    known = cases(rows)
    for case in known:
        if case.set == EXAMPLE:
            look: dict[str, Any] = {
                "color": COLOURS[6 * (case.method == "smoothed")],
                "marker": "o",
            }
            panels[0].plot(case.steps, case.gaps, label=case.method, **look)
        else:
            ax = panels[1 + list(METHODS).index(case.method)]
            ax.plot(
                case.steps,
                np.maximum(case.gaps, FLOOR),
                linewidth=0.8,
                alpha=0.6,
                **looks[case.setting],
            )
    for ax, title in zip(panels, ("counterexample", *METHODS), strict=True):
        T = ax.lines[0].get_xdata()
        ax.plot(T, 1 / T, color="black", linewidth=2, linestyle=":", label="1/T")
        ax.set(xscale="log", yscale="log", xlabel="T", title=title, ylim=(FLOOR, 1))
        ax.spines[["top", "right"]].set_visible(False)
    for setting, look in looks.items():
        panels[1].plot([], [], label=setting, **look)
    panels[0].set_ylabel("relative gap")
    for ax in panels[:2]:
        ax.legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=110)
