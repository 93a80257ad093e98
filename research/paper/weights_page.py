"""What the weights do between p = 1 and p = ∞: figures, page and picture from stored rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._format import name_of_p
from lpfuse.plots.drawing import bar_props, line_props
from research.common.drawing import new_figure
from research.common.protocol import SETTINGS
from research.common.store import Row
from research.common.tables import markdown, page, prose
from research.paper import paper

PANELS = tuple(paper.SPEED_UP)  # the figure shows the same p as the table of speed-ups
ENDS = (1.0, *PANELS, np.inf)
ALONE = 0.999  # share of the weight from which a learner counts as the only one
EVEN = 0.05  # deviation up to which weights count as equal


@dataclass(frozen=True, eq=False)
class Fit:
    """What the rows tell of one split in one setting; arrays have an entry for each learner."""

    set: str
    seed: int
    setting: str
    learners: list[str]
    weights: dict[float, Host]  # by p
    validation: Host
    test: Host
    gap: float  # the largest over p

    @property
    def pick(self) -> int:
        """The learner with the largest weight at p = 1."""
        return int(np.argmax(np.abs(self.weights[1.0])))


def fits(rows: Sequence[Row]) -> list[Fit]:
    """The rows, split by split."""
    groups: dict[tuple[str, int, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["set"], row["seed"], row["setting"]), []).append(row)
    return [_fit(*key, group) for key, group in groups.items()]


def _fit(name: str, seed: int, setting: str, rows: list[Row]) -> Fit:
    def values(metric: str) -> Host:
        return np.array([row["value"] for row in rows if row["metric"] == metric])

    learners = [row["method"] for row in rows if row["metric"] == "auc"]
    ps = [float(row["p"]) for row in rows if row["metric"] == "relative_gap"]
    weights = dict(zip(ps, values("weight").reshape(len(ps), len(learners)), strict=True))
    gap = float(values("relative_gap").max())
    return Fit(name, seed, setting, learners, weights, values("validation_auc"), values("auc"), gap)


def effective_number(w: Host) -> float:
    r"""How many learners the weights amount to: :math:`\|w\|_1^2 / \|w\|_2^2`, from 1 to R.

    Examples
    --------
    >>> import numpy as np
    >>> from research.paper.weights_page import effective_number
    >>> effective_number(np.array([0.5, 0.5, 0.0]))
    2.0
    """
    return float(np.abs(w).sum() ** 2 / (w @ w))


def deviation(w: Host) -> float:
    """How far weights are from the sum rule: the largest ``|R w_j / ‖w‖₁ − 1|``.

    Examples
    --------
    >>> import numpy as np
    >>> from research.paper.weights_page import deviation
    >>> deviation(np.array([0.7, 0.7])), deviation(np.array([1.0, 0.0]))
    (0.0, 1.0)
    """
    return float(np.abs(len(w) * w / np.abs(w).sum() - 1).max())


def figures(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Setting → what the weights do between p = 1 and p = ∞, over all splits in the rows.

    Returns
    -------
    dict
        For each setting a dict with

        - ``splits``, and ``worst_gap``, the largest certified relative gap;
        - ``effective``: p → mean effective number of learners; ``rising``: share of the splits in
          which it rises over the four p of the paper, each time;
        - ``picked``: learner → number of splits in which it has the largest weight at p = 1;
          ``alone``: share of the splits in which it has all of it;
        - ``best_on_validation``, ``best_on_test``: share in which no learner has a higher AUC;
          ``given_away``: mean test AUC of the best learner minus that of the picked one;
          ``by_validation``, ``by_chance``: the same for the best one on validation, and for one
          drawn at random;
        - ``deviation``: p (100, ∞) → median and largest deviation from equal weights;
          ``even``: p → share of the splits in which it is at most 5 %; ``negative``: p → share in
          which some weight is negative.
    """
    return {
        setting: _figures([fit for fit in fits(rows) if fit.setting == setting])
        for setting in SETTINGS
    }


def _figures(found: Sequence[Fit]) -> dict[str, Any]:
    effective = np.array([[effective_number(fit.weights[p]) for p in ENDS] for fit in found])
    largest = [np.abs(fit.weights[1.0]).max() / np.abs(fit.weights[1.0]).sum() for fit in found]
    tails = {p: [fit.weights[p] for fit in found] for p in ENDS[-2:]}
    deviations = {p: np.array([deviation(w) for w in weights]) for p, weights in tails.items()}
    return {
        "splits": len(found),
        "worst_gap": max(fit.gap for fit in found),
        "effective": dict(zip(ENDS, effective.mean(axis=0).tolist(), strict=True)),
        "rising": float((np.diff(effective[:, 1:-1]) > 0).all(axis=1).mean()),
        "picked": dict(Counter(fit.learners[fit.pick] for fit in found).most_common()),
        "alone": float(np.mean([share >= ALONE for share in largest])),
        "best_on_validation": float(
            np.mean([fit.validation[fit.pick] >= fit.validation.max() for fit in found])
        ),
        "best_on_test": float(np.mean([fit.test[fit.pick] >= fit.test.max() for fit in found])),
        "given_away": float(np.mean([fit.test.max() - fit.test[fit.pick] for fit in found])),
        "by_validation": float(
            np.mean([fit.test.max() - fit.test[np.argmax(fit.validation)] for fit in found])
        ),
        "by_chance": float(np.mean([fit.test.max() - fit.test.mean() for fit in found])),
        "deviation": {p: (float(np.median(d)), float(d.max())) for p, d in deviations.items()},
        "even": {p: float((d <= EVEN).mean()) for p, d in deviations.items()},
        "negative": {
            p: float(np.mean([w.min() < -1e-6 for w in weights])) for p, weights in tails.items()
        },
    }


NOTES = """
Weights of the four learners on the paper's in-sample scores (free signs, rows of equal cost;
widths, q and ρ chosen on validation), solved for each p to a certified relative gap: {gap:.0e} at
most. In the figure the weights of the first split of {set}: for the four p of the paper, and
along the whole path, evenly spaced in 1/p.
"""
SEEN = """
**{setting}.** The effective number of learners, ‖w‖₁² / ‖w‖₂², rises from each of the paper's
four p to the next in {rising:.0%} of the splits, and from {first:.2f} at p = 1 to {last:.2f} at p
= ∞ on average. *p → 1:* one learner has all the weight in {alone:.0%} of the splits, and the most
of it is on {picked}. No learner has a higher AUC on validation in {best_on_validation:.0%} of
them, on test in {best_on_test:.0%}; the best one on test is better by {given_away:.2f} points on
average (than the best one on validation by {by_validation:.2f}, than one drawn at random by
{by_chance:.2f}). *p → ∞:* at p = ∞ the weights are those of the sum rule, to 5 %, in {even:.0%}
of the splits ({hundred:.0%} at p = 100); they deviate from it by {median:.1%} in the median and
by {most:.0%} at most, and some weight is negative in {negative:.0%}.
"""


def weights_page(rows: Sequence[Row], shown: Sequence[Fit], picture: str, scope: str) -> str:
    """The page, with the weights of the split that the picture shows."""
    first = shown[0]
    found = figures(rows)
    table = [["", *(f"p = {name_of_p(p)}" for p in ENDS)]]
    for fit in shown:
        for j, learner in enumerate(fit.learners):
            table.append(
                [f"{learner}, {fit.setting}", *(f"{fit.weights[p][j]:z.3f}" for p in ENDS)]
            )
    means = [["", *table[0][1:]]]
    for setting, figure in found.items():
        means.append([setting, *(f"{number:.2f}" for number in figure["effective"].values())])
    return page(
        "# Fusion weights against p",
        prose(NOTES.format(gap=max(f["worst_gap"] for f in found.values()), set=first.set)),
        picture,
        f"## {first.set}, seed {first.seed}",
        markdown(table),
        f"## {scope[0].upper()}{scope[1:]}",
        "Effective number of learners, mean over splits:",
        markdown(means),
        *(prose(_seen(setting, figure)) for setting, figure in found.items()),
    )


def _seen(setting: str, figure: dict[str, Any]) -> str:
    numbers = list(figure["effective"].values())
    median, most = figure["deviation"][np.inf]
    words = {
        "setting": setting.capitalize(),
        "first": numbers[0],
        "last": numbers[-1],
        "picked": ", ".join(f"{name} ({count})" for name, count in figure["picked"].items()),
        "even": figure["even"][np.inf],
        "hundred": figure["even"][100.0],
        "negative": figure["negative"][np.inf],
        "median": median,
        "most": most,
    }
    return SEEN.format(**figure | words)


def draw(shown: Sequence[Fit], path: Path) -> None:
    """Bars for the four p of the paper and lines along the path, a row of panels a setting."""
    figure = new_figure(12.0, 2.8 * len(shown))
    widths = [1.0] * len(PANELS) + [2.6]
    grid = figure.subplots(len(shown), len(widths), sharey=True, squeeze=False, width_ratios=widths)
    for fit, (*panels, whole) in zip(shown, grid, strict=True):
        panels[0].set_ylabel(f"{fit.setting}\nweight")
        for p, ax in zip(PANELS, panels, strict=True):
            for j, w in enumerate(fit.weights[p]):
                ax.bar(j, w, **bar_props(j))
            ax.set_title(f"p = {name_of_p(p)}", fontsize="medium")
            ax.set_xticks(range(len(fit.learners)), fit.learners, fontsize="small")
        ps = sorted(fit.weights)
        for j, learner in enumerate(fit.learners):
            line = [fit.weights[p][j] for p in ps]
            whole.plot([1 / p for p in ps], line, **line_props(j) | {"marker": ""}, label=learner)
        whole.set_title("path", fontsize="medium")
        whole.set_xlim(1, 0)
        whole.set_xticks([1, 0.75, 0.5, 0.25, 0], ["1", "4/3", "2", "4", "∞"])
        for ax in (*panels, whole):
            ax.axhline(0, color="0.2", linewidth=0.8)
            ax.spines[["top", "right"]].set_visible(False)
    grid[-1, -1].set_xlabel("p, evenly spaced in 1/p")
    grid[0, -1].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=110)
