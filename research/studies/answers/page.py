"""The page: figures over many sets, from stored rows alone; no single table is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from research.common.statistics import DRAWS
from research.common.store import Record
from research.common.tables import goal_table, markdown, number, page, paired_gain, prose
from research.studies.answers.goals import goals_of
from research.studies.answers.methods import METHODS
from research.studies.answers.protocols import ANSWERS, LABELS, RATES, ProtocolName
from research.studies.answers.splits import CollectionName
from research.studies.figures import Place, SetFigures

FEWEST = {"anomaly": 2, "tables": 20}  # sets behind a figure: single tables may not show through
WORSE = 1.0  # points of AUC below zero answers that are more than a tie; chosen by hand
TITLES: dict[CollectionName, str] = {
    "anomaly": "Twenty public sets",
    "tables": "Real tables of many fields",
}
ASKED_BY = {
    "own": "own questions",
    "taught": "own questions, taught",
    "one by one": "lowest score, one by one",
    "lowest": "lowest scores",
    "random": "at random",
}

Cell = Callable[[Place, str], str]


def labelled(rows: Iterable[Record]) -> list[Record]:
    """Rows of ``answers`` with who chose the questions in the name of the method."""
    return [
        row | {"method": f"{row['method']}; {ASKED_BY[row['mode']]}"}
        if row["kind"] == "answers"
        else row
        for row in rows
    ]


def answers_page(rows: Iterable[Record], reference: str = "lpfuse") -> str:
    """All figures as Markdown.

    Parameters
    ----------
    rows : iterable of dict
        Stored rows.
    reference : str
        Differences are told from this method; where it was not measured, from the isolation forest.
    """
    figures = SetFigures(labelled(rows), ("collection", "kind", "at"))
    parts = ["# Dirty rows and few answers", _about(figures)]
    for collection, title in TITLES.items():
        found = Section(figures, collection, reference)
        sections = [*found.dirty(), *found.answers(), *found.contaminated()]
        if sections:
            parts += [f"## {title}", *found.goals(), *sections]
    return page(*parts)


def _about(figures: SetFigures) -> str:
    splits = "one random split" if figures.seeds == 1 else f"at most {figures.seeds} random splits"
    return "\n\n".join(
        [
            prose(
                f"""Mean AUC in per cent on the rows of a test, {splits} a set, when the rows to
                learn from hold anomalies that nobody has labelled. The same rows and, at random,
                the same questions for every method. Features are z-scores of the training rows. A
                number in brackets tells on how many sets a method was measured, where not on all:
                such means are not to be read beside the others; differences, which are paired, are.
                Intervals are of 95 %, over sets ({DRAWS} bootstraps)."""
            ),
            prose(
                """Rivals are as their packages ship them; AADForest also with the weight 1 of its
                prior, for by default it has none. Both forests of coniferest go on learning through
                all rounds, and are asked one by one too, as in its sessions. Rules of PyOD fuse
                z-scores of five one-class detectors, lpfuse's default pool without "knn samples";
                with PyOD's five subgroups AOM is then the average and MOA the maximization. They
                learn nothing from answers, nor does the isolation forest: what they find is told
                for the lowest scores only, for at random all methods find the same. XGBOD and
                ExtraTrees take rows that nobody has looked at as normal, and are the isolation
                forest until an anomaly is known. The sum and the picked member (by the same labels)
                are lpfuse with that in place of its weights."""
            ),
            prose(
                """Made by `python -m research.studies.answers page` from the rows in
                `research/results/studies/answers`; `… run PROTOCOL --methods NAME` adds a
                method."""
            ),
        ]
    )


class Section:
    """The tables of one collection of sets."""

    def __init__(self, figures: SetFigures, collection: CollectionName, reference: str) -> None:
        self.figures, self.collection, self.reference = figures, collection, reference
        self.fewest = FEWEST[collection]

    def goals(self) -> list[str]:
        """What the default has to reach, and whether it does."""
        goals = goals_of(self.figures, self.collection, self.reference)
        return ["### What must be reached", goal_table(goals)] if goals else []

    def dirty(self) -> list[str]:
        """Hidden anomalies, no labels."""
        places, methods = self._measured("dirty", RATES)
        if not methods:
            return []
        head, later = [f"{100 * at:g} %" for *_, at in places], places[1:]
        return [
            "### Hidden anomalies among the training rows, no labels",
            self._counts(head, places),
            markdown(self._table(head, places, methods, self._mean)),
            "Lost to hidden anomalies, paired, and on the worst set:",
            markdown(self._table(head[1:], later, methods, self._change(places[0]))),
            *self._against(head, places, methods),
            prose(
                """Flagged at the default threshold, in per cent: normal rows (false alarms) /
                anomalies (hits). What is asked for differs: lpfuse 5 % of the normal rows, PyOD
                10 % of the training rows, scikit-learn's forest a score of its own:"""
            ),
            markdown(self._table(head, places, methods, self._flagged)),
            *self._seconds(head, places, methods),
        ]

    def answers(self) -> list[str]:
        """Answers of a person on rows of which 5 % are hidden anomalies."""
        places, methods = self._measured("answers", ANSWERS)
        if not methods:
            return []
        head, later = [f"{at} answers" for *_, at in places], places[1:]
        found = self._table(head[1:], later, methods, self._field("found"))
        learners = [m for m in methods if _base(m) not in METHODS or METHODS[_base(m)].learns]
        worse = self._table(head[1:], later, learners, self._worse(places[0]))
        return [
            "### Answers of a person, 5 % of the training rows are anomalies",
            self._counts(head, places),
            markdown(self._table(head, places, methods, self._mean)),
            "Anomalies found among the rows that were asked about:",
            markdown(found),
            "Gained by answers, paired, and on the worst set:",
            markdown(self._table(head[1:], later, learners, self._change(places[0]))),
            f"Share of sets that are worse than with zero answers by more than {WORSE:g} point:",
            markdown(worse),
            *self._against(head, places, methods),
            "Flagged at the default threshold: normal rows / anomalies, in per cent:",
            markdown(self._table(head, places, methods, self._flagged)),
            *self._seconds(head, places, methods),
        ]

    def contaminated(self) -> list[str]:
        """Labelled anomalies beside hidden ones."""
        places, methods = self._measured("contaminated", LABELS)
        if not methods:
            return []
        head = [f"{at} labels" for *_, at in places]
        return [
            "### Labelled anomalies, and 5 % that nobody labelled",
            self._counts(head, places),
            markdown(self._table(head, places, methods, self._mean)),
            *self._against(head, places, methods),
            *self._seconds(head, places, methods),
        ]

    # ------------------------------------------------------------------------------------- tables

    def _measured(
        self, protocol: ProtocolName, points: Sequence[float]
    ) -> tuple[list[Place], list[str]]:
        """Places of a protocol, and the methods that enough was measured of, ours first."""
        places: list[Place] = [(self.collection, protocol, at) for at in points]
        methods = [
            method
            for method in self.figures.methods
            if any(len(self.figures.of(place, method)) >= self.fewest for place in places)
        ]
        return places, sorted(methods, key=_rank)

    def _counts(self, head: Sequence[str], places: Sequence[Place]) -> str:
        counts = [self.figures.count(place) for place in places]
        each = ", ".join(f"{n} at {at}" for at, n in zip(head, counts, strict=True))
        return f"Sets: {counts[0] if len(set(counts)) == 1 else each}."

    def _table(
        self, head: Sequence[str], places: Sequence[Place], methods: Sequence[str], cell: Cell
    ) -> list[Sequence[str]]:
        rows = [[method, *(cell(place, method) for place in places)] for method in methods]
        return [["", *head], *(row for row in rows if any(row[1:]))]

    def _against(
        self, head: Sequence[str], places: Sequence[Place], methods: Sequence[str]
    ) -> list[str]:
        reference = next(
            (
                m
                for base in (self.reference, "isolation forest")
                for m in methods
                if _base(m) == base
            ),
            None,
        )
        if reference is None:
            return []
        gain = self._table(
            head, places, [m for m in methods if m != reference], self._gain(reference)
        )
        return [f"Method − {reference}, paired:", markdown(gain)] if len(gain) > 1 else []

    def _seconds(
        self, head: Sequence[str], places: Sequence[Place], methods: Sequence[str]
    ) -> list[str]:
        seconds = self._table(head, places, methods, self._field("seconds", 2))
        return ["Seconds of the processor for one fit:", markdown(seconds)]

    # -------------------------------------------------------------------------------------- cells

    def _mean(self, place: Place, method: str) -> str:
        count = len(self.figures.of(place, method))
        if count < self.fewest:
            return ""
        partial = f" ({count})" if count < self.figures.count(place) else ""
        return number(self.figures.mean(place, method)) + partial

    def _field(self, field: str, digits: int = 1) -> Cell:
        def cell(place: Place, method: str) -> str:
            enough = len(self.figures.of(place, method, field)) >= self.fewest
            return number(self.figures.mean(place, method, field), digits) if enough else ""

        return cell

    def _flagged(self, place: Place, method: str) -> str:
        shares = [self._field(field)(place, method) for field in ("false_alarms", "hits")]
        return " / ".join(shares) if all(shares) else ""

    def _gain(self, reference: str) -> Cell:
        def cell(place: Place, method: str) -> str:
            gains = self.figures.gains(place, method, reference)
            return paired_gain(gains) if len(gains) >= self.fewest else ""

        return cell

    def _change(self, before: Place) -> Cell:
        def cell(place: Place, method: str) -> str:
            gains = self.figures.gains(place, method, method, before)
            if len(gains) < self.fewest:
                return ""
            return f"{paired_gain(gains)}, worst {gains.min():+.1f}"

        return cell

    def _worse(self, before: Place) -> Cell:
        def cell(place: Place, method: str) -> str:
            gains = self.figures.gains(place, method, method, before)
            return f"{100 * (gains < -WORSE).mean():.0f} %" if len(gains) >= self.fewest else ""

        return cell


def _rank(label: str) -> tuple[int, int]:
    """Methods that are not listed first, then in the order of the list and of who asks."""
    methods, asked_by = list(METHODS), ["", *ASKED_BY.values()]
    base, _, mode = label.partition("; ")
    return (methods.index(base) if base in methods else -1), asked_by.index(mode)


def _base(label: str) -> str:
    """The method, without who chose the questions."""
    return label.partition("; ")[0]
