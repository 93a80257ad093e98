"""``lpfuse reproduce claims``: each claim of the paper, with what was measured and a verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from research.common.comparison import Figures, measure_methods
from research.common.options import Options
from research.common.protocol import SETTINGS
from research.common.ranks import critical_difference, friedman, mean_ranks
from research.common.statistics import Comparison, compare, corrected, interval
from research.common.store import write_whole
from research.common.tables import gain, markdown, page, prose
from research.paper import (
    contamination,
    convergence,
    loss,
    lp_effect,
    paper,
    speed,
    svm,
    uci,
    weights,
)
from research.paper.ablation import PRESETS, ablation
from research.paper.doubts import METRICS
from research.paper.learners import LEARNERS
from research.paper.uci_page import OURS, QUOTED, comparisons, gains_table, out_of_fold

HOLDS, IN_PART, NOT = "holds", "holds in part", "does not hold"
LEVEL = 0.05


@dataclass(frozen=True)
class Claim:
    """What the paper says, what was measured, and what to make of it."""

    text: str
    verdict: str
    evidence: str


def run(options: Options) -> str:
    """Measure what is missing, write the page, and return it."""
    of_uci = Figures(measure_methods("uci", uci.METHODS, options, uci.NON_PURE), options.quick)
    text = claims_page(of_uci, list(_claims(of_uci, options)))
    write_whole(options.page_folder / "claims.md", text)
    return text


def claims_page(figures: Figures, claims: list[Claim]) -> str:
    """The verdicts in a table, the evidence below it, and what lpfuse reaches instead."""
    rows = [["claim of the paper", "verdict"], *([c.text, f"**{c.verdict}**"] for c in claims)]
    evidence = [
        prose(f"{number}. *{claim.text}*: **{claim.verdict}**. {claim.evidence}")
        for number, claim in enumerate(claims, start=1)
    ]
    return page(
        "# The paper's claims, measured",
        prose(
            f"""{figures.scope[0].upper()}{figures.scope[1:]}, unless said otherwise. Gains are
            differences of mean test AUC in points with their 95 % interval over data sets, sets won
            : equal : lost, and Wilcoxon's p-value with Holm's correction for all parts of a claim,
            which is the rule of every verdict. *Better* holds where the interval lies above zero
            and p < {LEVEL}; a claim with several parts holds in part where some of them do. Written
            by `lpfuse reproduce claims`."""
        ),
        markdown(rows),
        "## Evidence",
        *evidence,
        "## What lpfuse reaches instead",
        prose(
            """Against the paper's references, and against its own controls: the same detectors and
            the same labels, but added up, picked, stacked, or the classifiers among them alone.
            Holm's correction is for a column."""
        ),
        _ours(figures),
    )


def better(found: Comparison) -> bool:
    """Whether a gain is beyond doubt."""
    return found.difference.low > 0 and found.p_value < LEVEL


def verdict(parts: Iterable[bool]) -> str:
    """All, some or none.

    Examples
    --------
    >>> verdict([True, True]), verdict([True, False]), verdict([False])
    ('holds', 'holds in part', 'does not hold')
    """
    parts = list(parts)
    return HOLDS if all(parts) else IN_PART if any(parts) else NOT


def _claims(of_uci: Figures, options: Options) -> Iterator[Claim]:
    yield _existing(of_uci)
    yield _haberman(of_uci)
    yield _singles(of_uci)
    yield _sum_rule(of_uci)
    of_ablation = ablation(options)
    yield _norms(of_ablation)
    yield _negatives(of_uci)
    yield _losses(of_ablation)
    yield _robust(contamination.Levels(contamination.measured(options)))
    yield _speed(speed.figures(speed.measured(options)))
    yield _convergence(convergence.figures(convergence.measured(options)))
    of_weights = weights.figures(weights.measured(options))
    yield _selection(of_weights)
    yield _uniform(of_weights)
    yield _machine(svm.figures(svm.measured(options)))
    yield _forgeries()


def _existing(figures: Figures) -> Claim:
    """Whoever the paper's table quotes, each as published and on scores out of fold."""
    measured = figures.methods("pure")
    rivals = [
        name
        for _, method, _ in QUOTED
        for name in (method, out_of_fold(method))
        if name in measured
    ]
    found = corrected({
        (metric, name): compare(
            *(figures.means("pure", method, metric) for method in ("ℓp", name))
        )
        for metric in METRICS
        for name in rivals
    })  # fmt: skip
    parts, told = [better(each) for each in found.values()], []
    for metric, title in METRICS.items():
        fused = figures.means("pure", "ℓp", metric)
        won = int((fused > figures.table("pure", rivals, metric).max(axis=1)).sum())
        parts.append(won == len(fused))
        against = "; ".join(f"{name} {gain(found[metric, name])}" for name in rivals)
        told.append(f"{title}: above all of them on {won} of {len(fused)} sets; against {against}.")
    text = "It is consistently better than the existing methods (pure)"
    return Claim(text, verdict(parts), " ".join(told))


def _haberman(figures: Figures) -> Claim:
    """A gain on one set: over its splits, which share most of their rows."""
    ours, theirs = (
        figures.of("pure", method, "haberman", "g_mean") for method in ("ℓp", "genetic")
    )
    found = interval(ours - theirs, overlap=1 / 7)
    printed = paper.UCI["g_mean"]["haberman"]
    settled = HOLDS if found.low > 6 else IN_PART if found.low > 0 else NOT
    told = f"""The paper prints {printed["pure"].mean:.2f} and {printed["Fatemifar"].mean:.2f}, from
        other splits; its own GMM has {printed["GMM"].mean:.2f}. Measured against genetic weights in
        the style of Fatemifar et al. on the same splits: {found.mean:+.1f} points
        [{found.low:+.1f}, {found.high:+.1f}] (over splits, after Nadeau and Bengio); ℓp has
        {ours.mean():.1f}, the sum {figures.of("pure", "sum", "haberman", "g_mean").mean():.1f},
        the best of the four learners on validation
        {figures.of("pure", "best single", "haberman", "g_mean").mean():.1f}."""
    return Claim("Its G-mean on D9 is more than 6 % above the state of the art", settled, told)


def _robust(figures: contamination.Levels) -> Claim:
    found = contamination.robustness(figures)
    told = f"""With hidden anomalies among the training rows, the hinge against least squares:
        {_listed(found)}. The sum against the hinge: {
        _listed(contamination.robustness(figures, contamination.HINGE, contamination.SUM))
    }."""
    settled = verdict(better(each) for each in found.values())
    return Claim("The hinge is robust where anomalies hide among the training rows", settled, told)


def _forgeries() -> Claim:
    """What the paper's own tables say: nothing was measured here, for want of the videos."""
    parts, told = [], []
    for quality, claimed in paper.FORGERY_CLAIMS.items():
        leads = paper.forgery_leads(quality)
        alone = [kind for kind, lead in leads.items() if lead is None]
        ahead = sum(lead is not None and lead > 0 for lead in leads.values())
        parts.append(ahead >= claimed)
        told.append(
            f"""{quality}: of the {len(leads) - len(alone)} kinds for which it prints a rival it is
            ahead on {ahead}; {", ".join(alone)}, without any, is counted as won."""
        )
    told.append("By its own tables: we had no copy of the videos, and measured nothing.")
    settled = verdict(parts) if any(parts) else IN_PART  # ahead on some kinds, fewer than it says
    text = "It is ahead on 4 of 5 kinds of forgery in low quality, on 3 of 5 in high"
    return Claim(text, settled, " ".join(told))


def _singles(figures: Figures) -> Claim:
    parts, told = [], []
    found = corrected({
        (setting, name): compare(*(figures.means(setting, method) for method in ("ℓp", name)))
        for setting in SETTINGS
        for name in LEARNERS
    })  # fmt: skip
    for setting in SETTINGS:
        fused = figures.means(setting, "ℓp")
        singles = figures.table(setting, LEARNERS)
        won = int((fused > singles.max(axis=1)).sum())
        parts.append(won == len(fused))
        parts += [better(found[setting, name]) for name in LEARNERS]
        against = "; ".join(f"{name} {gain(found[setting, name])}" for name in LEARNERS)
        told.append(
            f"{setting}: above all four learners on {won} of {len(fused)} sets; against {against}."
        )
    names = [*LEARNERS, "sum", "ℓ2", "ℓ∞", "ℓp"]
    table = figures.table("pure", names)
    ranks = ", ".join(f"{n} {r:.1f}" for n, r in zip(names, mean_ranks(table), strict=True))
    told.append(
        f"""Friedman's test of these methods (pure): p = {friedman(table).p_value:.2g}; mean ranks
        {ranks}, critical difference {critical_difference(*table.shape[::-1]):.1f} (Nemenyi)."""
    )
    text = "ℓp fusion is consistently better than the single learners"
    return Claim(text, verdict(parts), " ".join(told))


def _sum_rule(figures: Figures) -> Claim:
    found: dict[str, Comparison] = {
        setting: compare(figures.means(setting, "ℓp"), figures.means(setting, "sum"))
        for setting in SETTINGS
    }
    return Claim("It is better than the sum rule", *_settled(found))


def _norms(figures: Figures) -> Claim:
    found = {preset: lp_effect.comparisons(figures, preset) for preset in PRESETS}
    settled, told = _settled({", ".join(key): each for key, each in found["paper"].items()})
    ours = _listed(corrected({", ".join(key): each for key, each in found["ours"].items()}))
    told = f"{told} With the detectors and costs of `FusedDetector()`: {ours}."
    return Claim("A p chosen on validation beats ℓ2 and ℓ∞", settled, told)


def _negatives(figures: Figures) -> Claim:
    found = {
        name: compare(figures.means("non-pure", name), figures.means("pure", name))
        for name in ("ℓp", OURS)
    }
    told = f"""Non-pure minus pure: {gain(found["ℓp"])} for the paper's ℓp, whose weights alone
        learn from them; {gain(found[OURS])} for lpfuse, where experts learn from them too."""
    return Claim("Negative samples improve it", verdict([better(found["ℓp"])]), told)


def _losses(figures: Figures) -> Claim:
    settled, told = _settled(loss.comparisons(figures, "paper"))
    ours = _listed(corrected(loss.comparisons(figures, "ours")))
    told = f"{told} With the detectors and costs of `FusedDetector()`: {ours}."
    return Claim("The hinge beats least squares", settled, told)


def _speed(found: Mapping[tuple[str, str], Mapping[str, Any]]) -> Claim:
    told = [
        f"""{name}, {setting}: in {each["fast"]} of {each["cells"]} cells, at least
        {each["least"]:.2g}× (by CLARABEL's own time {each["fast_solver"]},
        {each["least_solver"]:.2g}×). It then stops at true relative gaps up to
        {each["worst_gap"]:.1e}, cvxpy's are {each["cvxpy_gap"]:.0e} at most; the certified solver,
        within {each["lpfuse_gap"]:.0e}, is {each["lpfuse"][0]:.2g} to
        {each["lpfuse"][1]:.2g} times faster than cvxpy."""
        for (name, setting), each in found.items()
    ]
    cells = sum(each["cells"] for each in found.values())
    fast = sum(each["fast"] for each in found.values())
    settled = HOLDS if fast == cells else IN_PART if fast else NOT
    text = "Algorithm 1 is at least 14 times faster than CVX (here: cvxpy with CLARABEL)"
    return Claim(text, settled, " ".join(told))


def _convergence(found: Mapping[str, Mapping[str, Any]]) -> Claim:
    paper_s, parts = found["Algorithm 1"], []
    example = paper_s["counterexample"]
    told = [
        f"""On two scores, s = (0, 2), (½, 0), p = 2, it is {example["gap"]:.0%} above the optimum
        after {example["steps"]:,} steps: the bound that is cited needs a smooth loss."""
    ]
    for setting in SETTINGS:
        each = paper_s[setting]
        parts.append(each["growing"] == 0)
        told.append(
            f"""{setting}: of {each["cases"]} problems {each["solved"]} are solved, in
            {each["bounded"]} the gap times T stays bounded, in {each["growing"]} it grows
            ({each["stalled"]} stall); relative gaps up to {each["worst"]:.1e} at the end."""
        )
    parts.append(False)  # the counterexample settles the claim as it stands
    return Claim("Its gap falls as 1/T", verdict(parts), " ".join(told))


def _selection(found: Mapping[str, Mapping[str, Any]]) -> Claim:
    told = [
        f"""{setting}: one learner has all the weight in {each["alone"]:.0%} of {each["splits"]}
        splits; it is the best on validation in {each["best_on_validation"]:.0%}, on test in
        {each["best_on_test"]:.0%}, and {each["given_away"]:.1f} points below the best on test (one
        drawn at random: {each["by_chance"]:.1f})."""
        for setting, each in found.items()
    ]
    one = [each["alone"] >= 0.95 for each in found.values()]
    best = [each["best_on_test"] >= 0.95 for each in found.values()]
    return Claim("p → 1 selects the best single learner", verdict([*one, *best]), " ".join(told))


def _uniform(found: Mapping[str, Mapping[str, Any]]) -> Claim:
    told = [
        f"""{setting}: at p = ∞ the weights are equal, to 5 %, in {each["even"][np.inf]:.0%} of the
        splits; they deviate by {each["deviation"][np.inf][1]:.0%} at most, and some are negative in
        {each["negative"][np.inf]:.0%}."""
        for setting, each in found.items()
    ]
    parts = [each["even"][np.inf] == 1 for each in found.values()]
    if not any(parts) and any(each["even"][np.inf] > 0.5 for each in found.values()):
        parts.append(True)
    told.append(
        "It is so where all scores of normal rows are non-negative and nothing else teaches."
    )
    return Claim("p → ∞ is the sum rule", verdict(parts), " ".join(told))


def _machine(found: Mapping[str, Any]) -> Claim:
    same = found["median"] < 1e-3
    told = f"""The ball is active in {found["active"]} of {found["splits"]} splits (non-pure); there
        the weights point where those of a linear SVM without bias do whose C matches the ball's
        multiplier: they differ by {found["median"]:.0e} in the median, {found["worst"]:.0e} at most
        (liblinear's own accuracy). A conventional SVM, with bias and C = 1, points elsewhere: the
        quartiles of the cosine are {", ".join(f"{c:.2f}" for c in found["cosine"])}."""
    return Claim("p = 2 is the soft-margin SVM", IN_PART if same else NOT, told)


def _settled(found: Mapping[str, Comparison]) -> tuple[str, str]:
    found = corrected(found)
    return verdict(better(each) for each in found.values()), f"{_listed(found)}."


def _listed(found: Mapping[str, Comparison]) -> str:
    return "; ".join(f"{name}: {gain(each)}" for name, each in found.items())


def _ours(figures: Figures) -> str:
    parts = []
    for setting in SETTINGS:
        found = comparisons(figures, setting)
        parts += [f"**{setting}**", gains_table({k: v for k, v in found.items() if k[0] != "ℓp"})]
    return "\n\n".join(parts)
