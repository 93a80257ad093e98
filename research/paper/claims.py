"""``lpfuse reproduce claims``: each claim of the paper, with what was measured and a verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from research.common.comparison import Figures, measure_methods
from research.common.options import Options
from research.common.protocol import SETTINGS
from research.common.ranks import critical_difference, friedman, mean_ranks
from research.common.statistics import Comparison, compare, corrected, interval, power
from research.common.store import write_whole
from research.common.tables import gain, markdown, page, prose
from research.paper import (
    contamination,
    convergence,
    loss,
    lp_effect,
    paper,
    readings,
    speed,
    svm,
    uci,
    weights,
)
from research.paper.ablation import ablation
from research.paper.doubts import METRICS
from research.paper.learners import LEARNERS
from research.paper.readings_page import PLAIN, ReadingFigures, without_teaching
from research.paper.speed_page import CLAIM, CLIPPED
from research.paper.uci_page import OURS, QUOTED, comparisons, gains_table, out_of_fold

HOLDS, OPEN, REFUTED = "holds", "not shown", "refuted"
KINDNESS = (REFUTED, OPEN, HOLDS)
LEVEL = 0.05


@dataclass(frozen=True)
class Claim:
    """What the paper says, what was measured, and what to make of it.

    `reading` is the reading of the paper that the verdict is under, the kindest to the claim;
    `power` the chance that ten such sets would have shown an effect as large as the paper's.
    """

    text: str
    verdict: str
    evidence: str
    reading: str = PLAIN
    power: float | None = None


class Part(NamedTuple):
    """One comparison of a claim, and the effect that the paper prints for it."""

    found: Comparison
    printed: float | None = None

    @property
    def is_refuted(self) -> bool:
        """Whether the effect of the paper, or any where it prints none, is above the interval."""
        return (0.0 if self.printed is None else self.printed) > self.found.difference.high


def run(options: Options) -> str:
    """Measure what is missing, write the page, and return it."""
    rows = measure_methods("uci", uci.METHODS, options, uci.NON_PURE)
    of_uci, of_readings = Figures(rows, options.quick), ReadingFigures(readings.measured(options))
    shared = {row["seed"] for row in rows} & {row["seed"] for row in of_readings.rows}
    pair = (
        Figures([row for row in rows if row["seed"] in shared]),
        ReadingFigures(row for row in of_readings.rows if row["seed"] in shared),
    )
    found = [_existing(*pair), _haberman(*pair), *_claims(of_uci, of_readings, options)]
    text = claims_page(of_uci, found, of_readings.scope)
    write_whole(options.page_folder / "claims.md", text)
    return text


def claims_page(figures: Figures, claims: list[Claim], of_readings: str = "as many splits") -> str:
    """The verdicts in a table, the evidence below it, and what lpfuse reaches instead."""
    rows = [["claim of the paper", "verdict", "under the reading", "power"]]
    for claim in claims:
        chance = "–" if claim.power is None else f"{claim.power:.0%}"
        rows.append([claim.text, f"**{claim.verdict}**", claim.reading, chance])
    evidence = [
        prose(f"{number}. *{claim.text}*: **{claim.verdict}**. {claim.evidence}")
        for number, claim in enumerate(claims, start=1)
    ]
    floor = 2 / 2 ** len(figures.sets)
    return page(
        "# The paper's claims, measured",
        prose(
            f"""{figures.scope[0].upper()}{figures.scope[1:]}, unless said otherwise. Gains are
            differences of mean test AUC in points with their 95 % interval over data sets, sets
            won : equal : lost, and Wilcoxon's p-value with Holm's correction for all parts of a
            claim. A claim *holds* where each part has an interval above zero and p < {LEVEL}. It is
            *refuted* where the effect that the paper prints for a part lies above the interval, or
            where one counterexample settles it. All else is *not shown*, either way. Written by
            `lpfuse reproduce claims`."""
        ),
        prose(
            f"""The paper leaves much open ([every reading](readings.md): {of_readings}). Each
            verdict is under the
            reading that is kindest to that claim, and evidence names the reading of the other pages
            beside it. Choosing the kindest favours the claim, and no p-value is corrected for it.
            *Power* is the chance that the same test finds an effect as large as the one that the
            paper prints, given how much it differs between sets; of several parts, the least
            chance. {len(figures.sets)} sets cannot give a p-value below {floor:.2g}."""
        ),
        markdown(rows, numbers=False),
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


def settled(parts: Mapping[Any, Part], *, also: bool = True) -> str:
    """The verdict on a claim of some parts; `also`: what else must be so for it to hold.

    Examples
    --------
    >>> up = compare([72, 73, 74, 75, 76, 77], [70] * 6)
    >>> settled({"a": Part(up)}), settled({"a": Part(up, printed=9.0)}, also=False)
    ('holds', 'refuted')
    """
    found = corrected({name: part.found for name, part in parts.items()})
    if also and all(better(each) for each in found.values()):
        return HOLDS
    return REFUTED if any(part.is_refuted for part in parts.values()) else OPEN


class Kindest(NamedTuple):
    """The reading under which a claim does best, with what was found under it."""

    reading: str
    verdict: str
    parts: dict[str, Part]
    told: str


Parts = Callable[[str], dict[str, Part]]  # reading → the parts of a claim


def kindest(
    readings: Sequence[str], parts_of: Parts, also: Callable[[str], bool] = lambda _: True
) -> Kindest:
    """The reading with the best verdict, and among those with the largest mean effect."""

    def of(reading: str) -> tuple[str, dict[str, Part], float]:
        parts = parts_of(reading)
        effects = [part.found.difference.mean for part in parts.values()]
        return settled(parts, also=also(reading)), parts, float(np.mean(effects))

    found = {reading: of(reading) for reading in readings if parts_of(reading)}
    best = max(found, key=lambda name: (KINDNESS.index(found[name][0]), found[name][2]))
    told = f"""{_counted([each[0] for each in found.values()])} As on the other pages:
        {_listed(_corrected(found[PLAIN][1]))}. """
    if best != PLAIN:
        told += f"Kindest, *{best}*: {_listed(_corrected(found[best][1]))}."
    return Kindest(best, found[best][0], found[best][1], told)


def _counted(verdicts: Sequence[str]) -> str:
    """Under how many readings a claim holds."""
    holds, not_shown, refuted = (verdicts.count(word) for word in (HOLDS, OPEN, REFUTED))
    return f"""Of {len(verdicts)} readings it holds under {holds}, is not shown under {not_shown}
        and refuted under {refuted}."""


def _power(parts: Mapping[str, Part]) -> float | None:
    """The chance to find all effects that the paper prints, or of the least likely one."""
    chances = [
        power(part.found, part.printed, level=LEVEL / len(parts))
        for part in parts.values()
        if part.printed is not None
    ]
    return min(chances, default=None)


def _of_readings(
    text: str, figures: ReadingFigures, parts_of: Parts, told: str = "", **also: Any
) -> Claim:
    best = kindest(figures.readings, parts_of, **also)
    return Claim(text, best.verdict, f"{best.told} {told}", best.reading, _power(best.parts))


def _corrected(parts: Mapping[str, Part]) -> dict[str, Comparison]:
    return corrected({name: part.found for name, part in parts.items()})


def _claims(of_uci: Figures, of_readings: ReadingFigures, options: Options) -> Iterator[Claim]:
    yield _singles(of_uci, of_readings)
    yield _sum_rule(of_readings)
    of_ablation = ablation(options)
    yield _norms(of_readings, of_ablation)
    yield _negatives(of_uci, of_readings)
    yield _losses(of_readings, of_ablation)
    yield _robust(
        contamination.Levels(contamination.measured(options)), contamination.of_readings(options)
    )
    yield _speed(speed.figures(speed.measured(options)))
    yield _convergence(convergence.figures(convergence.measured(options)))
    of_weights = weights.figures(weights.measured(options))
    yield _selection(of_weights)
    yield _uniform(of_weights, of_readings)
    yield _machine(svm.figures(svm.measured(options)))
    yield _forgeries()


def _existing(figures: Figures, of_readings: ReadingFigures) -> Claim:
    """Whoever the paper's table quotes, as published; and on scores out of fold.

    A reading is that of ℓp: the rivals are as on the other pages, on the same splits.
    """
    measured = figures.methods("pure")
    rivals = [name for _, name, _ in QUOTED if name in measured]

    def against(reading: str, names: Sequence[str]) -> dict[str, Part]:
        return {
            f"{title}, {name}": Part(
                compare(
                    of_readings.of(reading, "pure", "ℓp", metric),
                    figures.means("pure", name, metric),
                )
            )
            for metric, title in METRICS.items()
            for name in names
        }

    def won(reading: str, metric: str) -> int:
        fused = of_readings.of(reading, "pure", "ℓp", metric)
        return int((fused > figures.table("pure", rivals, metric).max(axis=1)).sum())

    def on_all(reading: str) -> bool:
        return all(won(reading, metric) == len(of_readings.sets) for metric in METRICS)

    best = kindest(of_readings.pure, lambda reading: against(reading, rivals), on_all)
    leads = "; ".join(
        f"""{title}: above all of them on {won(best.reading, metric)} of {len(of_readings.sets)}
        sets under the kindest reading, on
        {max(won(reading, metric) for reading in of_readings.pure)} at most"""
        for metric, title in METRICS.items()
    )
    better_rivals = [out_of_fold(name) for name in rivals if out_of_fold(name) in measured]
    told = f"""{best.told} {leads}. The rivals are reconstructions as published, measured under one
        reading only, so that the effects which the paper prints are none of theirs. On scores out
        of fold: {_listed(_corrected(against(best.reading, better_rivals)))}."""
    text = "It is consistently better than the existing methods (pure)"
    return Claim(text, best.verdict, told, best.reading)


def _haberman(figures: Figures, of_readings: ReadingFigures) -> Claim:
    """A gain on one set: over its splits, which share most of their rows."""
    theirs = figures.of("pure", "genetic", "haberman", "g_mean")
    found, decided = {}, {}
    for reading in of_readings.pure:
        ours = of_readings.splits(reading, "pure", "ℓp", "haberman", "g_mean")
        each = found[reading] = interval(ours - theirs, overlap=1 / 7)
        decided[reading] = HOLDS if each.low > 6 else REFUTED if each.high < 6 else OPEN
    best = max(found, key=lambda name: (KINDNESS.index(decided[name]), found[name].mean))
    printed = paper.UCI["g_mean"]["haberman"]
    gains = "; ".join(
        f"""{name}: {found[name].mean:+.1f} points [{found[name].low:+.1f},
        {found[name].high:+.1f}]"""
        for name in dict.fromkeys((PLAIN, best))
    )
    others = {
        name: figures.of("pure", name, "haberman", "g_mean").mean()
        for name in ("sum", "best single")
    }
    told = f"""The paper prints {printed["pure"].mean:.2f} and {printed["Fatemifar"].mean:.2f}, from
        other splits; its own GMM has {printed["GMM"].mean:.2f}. Measured against genetic weights in
        the style of Fatemifar et al. on the same splits (over splits, after Nadeau and Bengio), a
        reading of ℓp alone: {_counted(list(decided.values()))} Gains: {gains}. ℓp has
        {of_readings.value(best, "pure", "ℓp", "haberman", "g_mean"):.1f} under the kindest, genetic
        weights {theirs.mean():.1f}, the sum {others["sum"]:.1f}, the best of the four learners on
        validation {others["best single"]:.1f}."""
    text = "Its G-mean on D9 is more than 6 % above the state of the art"
    return Claim(text, decided[best], told, best)


def _robust(figures: contamination.Levels, others: Mapping[str, contamination.Levels]) -> Claim:
    of_all = {PLAIN: figures, **others}

    def parts_of(reading: str) -> dict[str, Part]:
        found = contamination.differences(of_all[reading])
        return {level: Part(each) for level, each in found.items()}

    best = kindest(list(of_all), parts_of)
    told = f"""With hidden anomalies among the training rows, the hinge against least squares:
        {best.told} The sum against the hinge, as on the other pages: {
        _listed(contamination.robustness(figures, contamination.HINGE, contamination.SUM))
    }."""
    text = "The hinge is robust where anomalies hide among the training rows"
    return Claim(text, best.verdict, told, best.reading)


def _forgeries() -> Claim:
    """What the paper's own tables say: nothing was measured here, for want of the videos."""
    told = ["Nothing was measured: we had no copy of the videos. By the paper's own tables:"]
    for quality, claimed in paper.FORGERY_CLAIMS.items():
        leads = paper.forgery_leads(quality)
        alone = [kind for kind, lead in leads.items() if lead is None]
        ahead = sum(lead is not None and lead > 0 for lead in leads.values())
        told.append(
            f"""{quality}: of the {len(leads) - len(alone)} kinds for which it prints a rival it is
            ahead on {ahead}, where it claims {claimed} of {len(leads)}; {", ".join(alone)}, without
            any, is counted as won."""
        )
    text = "It is ahead on 4 of 5 kinds of forgery in low quality, on 3 of 5 in high"
    return Claim(text, OPEN, " ".join(told), "none: nothing was measured")


def _singles(figures: Figures, of_readings: ReadingFigures) -> Claim:
    printed = paper.UCI["auc"]

    def parts_of(reading: str) -> dict[str, Part]:
        return {
            f"{setting}, {name}": Part(
                compare(
                    of_readings.of(reading, setting, "ℓp"), of_readings.of(reading, setting, name)
                ),
                float(np.mean([row[setting].mean - row[name].mean for row in printed.values()])),
            )
            for setting in SETTINGS
            for name in LEARNERS
        }

    def won(reading: str, setting: str) -> int:
        fused = of_readings.of(reading, setting, "ℓp")
        singles = [of_readings.of(reading, setting, name) for name in LEARNERS]
        return int((fused > np.max(singles, axis=0)).sum())

    def on_all(reading: str) -> bool:
        return all(won(reading, setting) == len(of_readings.sets) for setting in SETTINGS)

    most = {
        setting: max(won(reading, setting) for reading in of_readings.readings)
        for setting in SETTINGS
    }
    told = " ".join(
        f"""{setting}: above all four learners on {won(PLAIN, setting)} of
        {len(of_readings.sets)} sets as on the other pages, on {most[setting]} at most."""
        for setting in SETTINGS
    )
    names = [*LEARNERS, "sum", "ℓ2", "ℓ∞", "ℓp"]
    table = figures.table("pure", names)
    ranks = ", ".join(f"{n} {r:.1f}" for n, r in zip(names, mean_ranks(table), strict=True))
    told += f""" Friedman's test of these methods (pure, as on the other pages): p =
        {friedman(table).p_value:.2g}; mean ranks {ranks}, critical difference
        {critical_difference(*table.shape[::-1]):.1f} (Nemenyi)."""
    text = "ℓp fusion is consistently better than the single learners"
    return _of_readings(text, of_readings, parts_of, told, also=on_all)


def _against(
    figures: ReadingFigures, other: str, printed: Mapping[str, float], name: str = ""
) -> Parts:
    """ℓp minus another method, in both settings; nothing where that was not measured."""

    def parts_of(reading: str) -> dict[str, Part]:
        return {
            f"{setting}{name}": Part(
                compare(figures.of(reading, setting, "ℓp"), figures.of(reading, setting, other)),
                printed[setting],
            )
            for setting in SETTINGS
            if figures.has(reading, setting, other)
        }

    return parts_of


def _printed_norms(norm: str) -> dict[str, float]:
    return {setting: row["lp"] - row[norm] for setting, row in paper.LP_EFFECT.items()}


def _sum_rule(of_readings: ReadingFigures) -> Claim:
    parts_of = _against(of_readings, "sum", _printed_norms("linf"))
    return _of_readings("It is better than the sum rule", of_readings, parts_of)


def _norms(of_readings: ReadingFigures, figures: Figures) -> Claim:
    norms = [
        _against(of_readings, norm, _printed_norms(key), f", {norm}")
        for norm, key in (("ℓ2", "l2"), ("ℓ∞", "linf"))
    ]

    def parts_of(reading: str) -> dict[str, Part]:
        return {name: part for of in norms for name, part in of(reading).items()}

    found = lp_effect.comparisons(figures, "ours")
    ours = _listed(corrected({", ".join(key): each for key, each in found.items()}))
    told = f"With the detectors and costs of `FusedDetector()`: {ours}."
    text = "A p chosen on validation beats ℓ2 and ℓ∞"
    return _of_readings(text, of_readings, parts_of, told)


def _negatives(figures: Figures, of_readings: ReadingFigures) -> Claim:
    printed = paper.LP_EFFECT["non-pure"]["lp"] - paper.LP_EFFECT["pure"]["lp"]

    def parts_of(reading: str) -> dict[str, Part]:
        settings = [of_readings.of(reading, setting, "ℓp") for setting in SETTINGS]
        return {"non-pure − pure": Part(compare(settings[1], settings[0]), printed)}

    taught = "anomalies teach SVDD and GP too"
    told = ""
    if taught in of_readings.readings:
        learners = parts_of(taught)["non-pure − pure"].found
        told = (
            f"With SVDD and GP taught by them, all else as on the other pages: {gain(learners)}. "
        )
    best = kindest(of_readings.readings, parts_of)
    means = [of_readings.of(best.reading, setting, "ℓp").mean() for setting in SETTINGS]
    ours = compare(figures.means("non-pure", OURS), figures.means("pure", OURS))
    told += f"""Means under the kindest reading: {means[0]:.1f} pure
        (*{without_teaching(best.reading)}*), {means[1]:.1f} non-pure. {gain(ours)} for lpfuse,
        where experts learn from them too."""
    return _of_readings("Negative samples improve it", of_readings, parts_of, told)


def _losses(of_readings: ReadingFigures, figures: Figures) -> Claim:
    printed = {setting: row["hinge"] - row["least_squares"] for setting, row in paper.LOSS.items()}
    ours = _listed(corrected(loss.comparisons(figures, "ours")))
    told = f"With the detectors and costs of `FusedDetector()`: {ours}."
    parts_of = _against(of_readings, "ℓp, least squares", printed)
    return _of_readings("The hinge beats least squares", of_readings, parts_of, told)


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
    kinder = {key: each for key, each in found.items() if key[1].endswith(CLIPPED)}
    reading = "clipped" if kinder else PLAIN
    cells = [each for key, each in found.items() if not kinder or key in kinder]
    least = min(each["least"] for each in cells)
    decided = HOLDS if all(each["fast"] == each["cells"] for each in cells) else OPEN
    if least < CLAIM / 2:  # machines and days differ by less
        decided = REFUTED
    told.append(f"One cell below {CLAIM / 2:.0f} refutes it, for the paper says *at least*.")
    text = "Algorithm 1 is at least 14 times faster than CVX (here: cvxpy with CLARABEL)"
    return Claim(text, decided, " ".join(told), reading)


def _convergence(found: Mapping[str, Mapping[str, Any]]) -> Claim:
    paper_s = found["Algorithm 1"]
    example = paper_s["counterexample"]
    told = [
        f"""On two scores, s = (0, 2), (½, 0), p = 2, it is {example["gap"]:.0%} above the optimum
        after {example["steps"]:,} steps: the bound that is cited needs a smooth loss."""
    ]
    for setting in SETTINGS:
        each = paper_s[setting]
        told.append(
            f"""{setting}: of {each["cases"]} problems {each["solved"]} are solved, in
            {each["bounded"]} the gap times T stays bounded, in {each["growing"]} it grows
            ({each["stalled"]} stall); relative gaps up to {each["worst"]:.1e} at the end."""
        )
    settles = example["gap"] > 0.01  # bounded by a constant over T, it would be far smaller
    return Claim("Its gap falls as 1/T", REFUTED if settles else OPEN, " ".join(told))


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
    told.append("Each split where it is another learner is a counterexample.")
    decided = HOLDS if all([*one, *best]) else REFUTED
    return Claim("p → 1 selects the best single learner", decided, " ".join(told))


def _uniform(found: Mapping[str, Mapping[str, Any]], of_readings: ReadingFigures) -> Claim:
    told = [
        f"""{setting}: at p = ∞ the weights are equal, to 5 %, in {each["even"][np.inf]:.0%} of the
        splits; they deviate by {each["deviation"][np.inf][1]:.0%} at most, and some are negative in
        {each["negative"][np.inf]:.0%}."""
        for setting, each in found.items()
    ]
    told.append(
        "It is so where all scores of normal rows are non-negative and nothing else teaches."
    )
    reading = PLAIN
    if "clipped" in of_readings.readings:
        same = {setting: _equal_to_the_sum(of_readings, setting) for setting in SETTINGS}
        shares = ", ".join(f"{setting} in {share:.0%}" for setting, share in same.items())
        told.append(f"Scores clipped to [0, 1]: ℓ∞ and the sum have equal AUC, {shares} of splits.")
        reading = "clipped"
    else:
        same = {}
    even = all(each["even"][np.inf] == 1 for each in found.values())
    held = even or (same and min(same.values()) == 1)
    return Claim("p → ∞ is the sum rule", HOLDS if held else REFUTED, " ".join(told), reading)


def _equal_to_the_sum(figures: ReadingFigures, setting: str, reading: str = "clipped") -> float:
    """In which share of the splits ℓ∞ and the sum rule rank the test rows alike."""
    equal = [
        abs(row["values"]["ℓ∞"] - row["values"]["sum"]) < 1e-3
        for row in figures.of_sets
        if (row["reading"], row["setting"], row["metric"]) == (reading, setting, "auc")
    ]
    return float(np.mean(equal))


def _machine(found: Mapping[str, Any]) -> Claim:
    same = found["median"] < 1e-3
    told = f"""The ball is active in {found["active"]} of {found["splits"]} splits (non-pure); there
        the weights point where those of a linear SVM without bias do whose C matches the ball's
        multiplier: they differ by {found["median"]:.0e} in the median, {found["worst"]:.0e} at most
        (liblinear's own accuracy). A conventional SVM, with bias and C = 1, points elsewhere: the
        quartiles of the cosine are {", ".join(f"{c:.2f}" for c in found["cosine"])}."""
    decided = HOLDS if same else REFUTED
    return Claim("p = 2 is the soft-margin SVM", decided, told, "the SVM without bias, C matched")


def _listed(found: Mapping[str, Comparison]) -> str:
    return "; ".join(f"{name}: {gain(each)}" for name, each in found.items())


def _ours(figures: Figures) -> str:
    parts = []
    for setting in SETTINGS:
        found = comparisons(figures, setting)
        parts += [f"**{setting}**", gains_table({k: v for k, v in found.items() if k[0] != "ℓp"})]
    return "\n\n".join(parts)
