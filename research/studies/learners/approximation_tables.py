"""Stored approximations → Markdown: AUC lost, and rank correlation with the exact scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from research.common.statistics import compare
from research.common.store import Record
from research.common.tables import markdown

from .approximation import GAMMAS, LEARNERS, SIZES, WAYS

# "fourier" is stored only: the library no longer has random Fourier features.
SHOWN = (*WAYS, "fourier")
FORMS = {"auc": "+.1f", "spearman": ".3f"}


@dataclass(frozen=True)
class Closeness:
    """Values of one measure, by set, one for each seed; larger is better."""

    by_set: dict[str, list[float]]

    @property
    def means(self) -> dict[str, float]:
        return {name: float(np.mean(values)) for name, values in self.by_set.items()}

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.means.values())))

    @property
    def worst_decile(self) -> float:
        """A tenth of all cells, each a set and a seed, is worse."""
        return float(np.quantile(np.concatenate(list(self.by_set.values())), 0.1))

    @property
    def worst_set(self) -> tuple[str, float]:
        return min(self.means.items(), key=lambda item: item[1])


def report(records: list[Record]) -> str:
    """All tables, each under a line that says what it holds."""
    sections = []
    for gamma in GAMMAS:
        of_gamma = [record for record in records if record["gamma"] == gamma]
        large = [record for record in of_gamma if record["n"] > max(SIZES)]
        for some, which in (
            (large, f"more than {max(SIZES)} training rows"),
            (of_gamma, "more training rows than features"),
        ):
            sections += _of_sets(some, f"gamma={gamma}, {_count_sets(some)} sets with {which}")
        sections += [f"gamma={gamma}: centres of k-means against drawn rows", landmarks(of_gamma)]
    return "\n\n".join(sections)


def _of_sets(records: list[Record], which: str) -> Iterable[str]:
    yield f"{which}; mean AUC − exact AUC in points, mean rank correlation"
    yield summary(records)
    for learner in LEARNERS:
        for measure, words in (("auc", "AUC − exact"), ("spearman", "rank correlation")):
            yield f"{learner}, {which}: {words}, mean / worst decile / worst set"
            yield details(records, learner, measure)


def _count_sets(records: list[Record]) -> int:
    return len({record["set"] for record in records})


def summary(records: list[Record]) -> str:
    def shown(learner: str, way: str, size: int) -> str:
        cells = {name: closeness(records, learner, way, size, name) for name in FORMS}
        if not cells["auc"].by_set:
            return "–"
        return ", ".join(f"{cells[name].mean:{form}}" for name, form in FORMS.items())

    rows = [["learner", "way", "exact AUC", *map(str, SIZES)]]
    rows += [
        [learner, way, f"{_exact(records, learner):.1f}"]
        + [shown(learner, way, size) for size in SIZES]
        for learner in LEARNERS
        for way in SHOWN
    ]
    return markdown(rows, numbers=False)


def _exact(records: list[Record], learner: str) -> float:
    return float(np.mean([record["exact"] for record in records if record["learner"] == learner]))


def details(records: list[Record], learner: str, measure: str) -> str:
    def shown(cell: Closeness) -> str:
        if not cell.by_set:
            return "–"
        name, worst = cell.worst_set
        values = (f"{value:{FORMS[measure]}}" for value in (cell.mean, cell.worst_decile, worst))
        return f"{' / '.join(values)} ({name})"

    rows = [["way", *map(str, SIZES)]]
    for way in SHOWN:
        cells = [closeness(records, learner, way, size, measure) for size in SIZES]
        rows.append([way, *map(shown, cells)])
    return markdown(rows, numbers=False)


def closeness(records: list[Record], learner: str, way: str, size: int, measure: str) -> Closeness:
    """``"auc"``: difference to the exact AUC; ``"spearman"``: rank correlation."""
    position, by_set = SIZES.index(size), defaultdict(list)
    for record in records:
        is_asked = (record["learner"], record["way"]) == (learner, way)
        if is_asked and position < len(record[measure]):
            exact = record["exact"] if measure == "auc" else 0.0
            by_set[record["set"]].append(record[measure][position] - exact)
    return Closeness(dict(by_set))


def landmarks(records: list[Record]) -> str:
    """Whether centres are closer than drawn rows: by |AUC − exact| and by rank correlation."""
    rows = [["learner", "size"]]
    rows[0] += ["|AUC − exact|: drawn, centres", "centres closer : farther", "Wilcoxon"]
    rows[0] += ["rank correlation: drawn, centres", "higher : lower", "Wilcoxon"]
    for learner in LEARNERS:
        for size in SIZES:
            drawn, centres = (
                {name: closeness(records, learner, way, size, name).by_set for name in FORMS}
                for way in ("drawn", "nystroem")
            )
            if not centres["auc"]:
                continue
            rows.append([learner, str(size)])
            rows[-1] += _compare(_absolute(drawn["auc"]), _absolute(centres["auc"]), -1, ".2f")
            rows[-1] += _compare(_means(drawn["spearman"]), _means(centres["spearman"]), 1, ".3f")
    return markdown(rows, numbers=False)


def _absolute(by_set: dict[str, list[float]]) -> np.ndarray:
    return np.array([np.mean(np.abs(values)) for values in by_set.values()])


def _means(by_set: dict[str, list[float]]) -> np.ndarray:
    return np.array([np.mean(values) for values in by_set.values()])


def _compare(drawn: np.ndarray, centres: np.ndarray, sign: int, form: str) -> list[str]:
    gains = sign * (centres - drawn).round(6)  # means of equal figures are equal
    found = compare(gains, np.zeros(len(gains)))
    counts = f"{found.wins} : {found.losses}"
    return [f"{drawn.mean():{form}}, {centres.mean():{form}}", counts, f"{found.p_value:.2g}"]
