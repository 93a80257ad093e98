"""The page of the learning curve: stored rows of ``labels`` → tables, tests and a figure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse.plots.drawing import COLOURS, MARKERS
from research.common.drawing import new_figure
from research.common.ranks import critical_difference, friedman, mean_ranks, skillings_mack
from research.common.statistics import Comparison, compare, holm
from research.common.store import Row
from research.common.tables import gain, markdown, page, prose
from research.rivals.fusion import ENSEMBLES, NEEDS_LABELS, NOTES, PACKAGES, RIVALS

OURS = "ours"
OUR_SUM, OUR_PICK, OUR_STACKER = "sum of our pool", "picked from our pool", "stacker on our scores"
OUR_NOTES = {
    OUR_SUM: "all detectors of ours, experts included, on its scale, added up",
    OUR_PICK: "of the same detectors, the one with the highest AUC on the same labels",
    OUR_STACKER: "a logistic regression of the same scores with the same labels",
    "trees alone": "300 extremely randomised trees that learn from the same rows and labels",
    "boosting alone": "boosted trees, likewise",
    "SVM alone": "a support vector machine, likewise",
}
INSTALL = "pip install -r research/requirements.txt"
HINDSIGHT = "best of the six in hindsight"
COMPARED = (0, 5, 20, 100)  # numbers of labels at which ours is tested against everyone
DRAWN_UP_TO = 50  # labels; few sets have more
HIGHLIGHTED = {  # colour and line
    "sum": (1, "-"),
    "best single": (2, "-"),
    "logistic": (3, "-"),
    "lp, default": (4, "-"),
    "lp, paper": (5, "-"),
    OUR_SUM: (1, ":"),
    OUR_PICK: (2, ":"),
    OUR_STACKER: (3, ":"),
    "trees alone": (6, "-"),
    "boosting alone": (6, ":"),
}
DEPTH = 10.0  # points of AUC below the lowest of ours that are drawn
ALPHA = 0.05

Found = dict[str, tuple[Comparison, float]]  # by rival: ours against it, and Holm's p-value


def setting_of(labels: int) -> str:
    """The setting of a row.

    Examples
    --------
    >>> setting_of(1), setting_of(5)
    ('1 label', '5 labels')
    """
    return _counted(labels, "label")


class Areas:
    """Areas under the curve in per cent: stored rows, their means over random splits.

    Methods whose rows are all at 0 labels use none, and count as measured at every number.

    Parameters
    ----------
    rows : iterable of dict
        Of whole splits.

    Attributes
    ----------
    seeds : int
        Random splits of a set, at most.
    counts : list of int
        Numbers of labels, ascending.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._values: dict[tuple[str, int], dict[str, list[float]]] = {}
        for row in rows:
            key = row["method"], int(row["setting"].split()[0])
            self._values.setdefault(key, {}).setdefault(row["set"], []).append(row["value"])
        self.counts = sorted(labels for method, labels in self._values if method == OURS)
        self.seeds = max(map(len, self._values[OURS, 0].values()))
        self._use_labels = {method for method, labels in self._values if labels > 0}

    def sets(self, labels: int) -> list[str]:
        """The data sets that have so many anomalies to label."""
        return sorted(self._values[OURS, labels])

    def methods(self, labels: int | None = None) -> list[str]:
        """Those that were measured in every split, ours first; None: at any number of labels."""
        if labels is None:
            return list(dict.fromkeys(m for k in self.counts for m in self.methods(k)))
        splits = {name: len(values) for name, values in self._values[OURS, labels].items()}
        listed = dict.fromkeys(
            [OURS, *OUR_NOTES, *RIVALS, *ENSEMBLES, *(m for m, _ in self._values)]
        )
        return [
            method
            for method in listed
            if all(len(self._of(method, labels, name)) == n for name, n in splits.items())
        ]

    def contenders(self, labels: int | None = None) -> list[str]:
        """All methods but the one that knows the test."""
        return [method for method in self.methods(labels) if method != HINDSIGHT]

    def table(self, labels: int, methods: Sequence[str], sets: Sequence[str] = ()) -> Host:
        """Means over splits: data sets × methods, NaN where nothing was measured."""
        values = [
            [self._of(method, labels, name) or [np.nan] for method in methods]
            for name in sets or self.sets(labels)
        ]
        return np.array([[np.mean(cell) for cell in row] for row in values])

    def _of(self, method: str, labels: int, name: str) -> list[float]:
        stored_at = labels if method in self._use_labels else 0
        return self._values.get((method, stored_at), {}).get(name, [])


def labels_page(areas: Areas, figure: str) -> str:
    """The page, as Markdown, with what stands for the figure."""
    against = {k: against_ours(areas, k) for k in COMPARED if k in areas.counts}
    return page(
        "# What labelled anomalies are worth",
        prose(
            f"""Test AUC in %, {_counted(areas.seeds, "random split")} of each development set. Of
            the normal rows 70 % are learnt from, of the anomalies half may be labelled; the rest
            is the test. The first k anomalies are labelled, so that more labels contain fewer, and
            a number of labels is measured on the sets that have so many. **{OURS}** is
            `FusedDetector()` as it comes: with two labels or more its pool has experts, too.
            Its controls have the same detectors and the same labels: {OUR_SUM}, {OUR_PICK},
            {OUR_STACKER}, and classifiers alone. Rivals fuse the scores of the six one-class
            detectors of that pool, out of fold and on one scale. Whole ensembles
            ({", ".join(ENSEMBLES)}) bring their own detectors. Written by `lpfuse reproduce labels`
            from `labels.jsonl`."""
        ),
        "\n".join(_in_short(areas, k, found) for k, found in against.items()),
        figure,
        _caption(areas),
        "## Mean AUC (mean rank)",
        "Ranks: 1 is the best. In bold: the highest mean, hindsight apart.",
        _means(areas),
        f"## {OURS.capitalize()} against each of them",
        prose(
            f"""Mean gain of {OURS} with its 95 % interval over sets; sets won : equal : lost; the
            p-value of Wilcoxon's test, with Holm's correction for the comparisons at that number
            of labels. In bold: p ≤ {ALPHA}."""
        ),
        _gains(areas, against),
        "## All at once",
        prose(
            """Friedman's test: are all alike? Mean ranks that are closer than the critical
            difference (Nemenyi's) are not told apart."""
        ),
        _ranks(areas, list(against)),
        _worth_of_labels(areas),
        f"## {OURS.capitalize()}, set by set",
        _set_by_set(areas),
        "## Notes",
        _notes(areas),
    )


def against_ours(areas: Areas, labels: int) -> Found:
    """Ours against every other contender.

    Without labels, those that need some are the sum rule, which is compared once.
    """
    rivals = [m for m in areas.contenders(labels)[1:] if labels > 0 or m not in NEEDS_LABELS]
    ours, *theirs = areas.table(labels, [OURS, *rivals]).T
    found = [compare(ours, each) for each in theirs]
    corrected = holm([each.p_value for each in found]).tolist()
    return dict(zip(rivals, zip(found, corrected, strict=True), strict=True))


def _in_short(areas: Areas, labels: int, against: Found) -> str:
    leads = {name: found.difference.mean for name, (found, _) in against.items()}
    sure = [leads[name] for name, (_, p) in against.items() if p <= ALPHA]
    ahead = "; ".join(name for name, lead in leads.items() if lead < 0)
    level = "; ".join(name for name, (_, p) in against.items() if p > ALPHA)
    least = min(1.0, len(against) * 0.5 ** (len(areas.sets(labels)) - 1))
    told = (
        f"not told apart: {level or 'none'}"
        if least <= ALPHA
        else f"after the correction no comparison on so few sets can have a p below {least:.2g}"
    )
    return prose(
        f"""- **{_head(areas, labels)}**: {OURS} {areas.table(labels, [OURS]).mean():.1f}; better
        than {sum(lead > 0 for lead in sure)} of {len(against)} others beyond doubt (p ≤ {ALPHA}),
        worse than {sum(lead < 0 for lead in sure)}; {told}; higher on average:
        {ahead or "none"}."""
    )


def _means(areas: Areas) -> str:
    columns = []
    for k in areas.counts:
        contenders = areas.contenders(k)
        table = areas.table(k, contenders)
        means, ranks = table.mean(axis=0), mean_ranks(table)
        cells = {HINDSIGHT: f"{areas.table(k, [HINDSIGHT]).mean():.1f}"}
        for method, mean, rank in zip(contenders, means, ranks, strict=True):
            highest = f"{mean:.1f}" == f"{means.max():.1f}"
            cells[method] = f"{f'**{mean:.1f}**' if highest else f'{mean:.1f}'} ({rank:.1f})"
        columns.append(cells)
    return markdown(
        [
            ["", *(_head(areas, k) for k in areas.counts)],
            *([_marked(m), *(cells.get(m, "") for cells in columns)] for m in _in_order(areas)),
        ]
    )


def _in_order(areas: Areas) -> list[str]:
    return [*areas.contenders(), HINDSIGHT]


def _gains(areas: Areas, against: dict[int, Found]) -> str:
    rows = [["", *(_head(areas, k) for k in against)]]
    for name in areas.contenders()[1:]:
        cells = [_gain(*found[name]) if name in found else "" for found in against.values()]
        rows.append([_marked(name), *cells])
    return markdown(rows)


def _gain(found: Comparison, p: float) -> str:
    text = gain(found, p)
    return f"**{text}**" if p <= ALPHA else text


def _ranks(areas: Areas, compared: Sequence[int]) -> str:
    head = ["", "Friedman's p", "critical difference", f"rank of {OURS}", "best rank"]
    rows = [[*head, f"told apart from {OURS}"]]
    for k in compared:
        contenders = areas.contenders(k)
        table = areas.table(k, contenders)
        ranks, difference = mean_ranks(table), critical_difference(len(contenders), len(table))
        best, apart = int(np.argmin(ranks)), np.abs(ranks - ranks[0]) > difference
        rows.append(
            [
                _head(areas, k),
                f"{friedman(table).p_value:.1g}",
                f"{difference:.1f}",
                f"{ranks[0]:.1f}",
                f"{ranks[best]:.1f} ({contenders[best]})",
                f"{apart.sum()} of {len(contenders) - 1}",
            ]
        )
    return markdown(rows)


def _worth_of_labels(areas: Areas) -> str:
    """Whether the number of labels matters to ours, though few sets have many."""
    sets, counts = areas.sets(0), areas.counts
    if len(counts) == 1:
        return "No set has an anomaly to label."
    found = skillings_mack(np.column_stack([areas.table(k, [OURS], sets) for k in counts]))
    return prose(
        f"""Does the number of labels matter to {OURS}? The Skillings–Mack test, for
        {_counted(len(sets), "set")} of which not all have anomalies enough for all
        {len(counts)} numbers: χ² = {found.statistic:.1f} with {found.degrees} degrees of freedom,
        p = {found.p_value:.1g}."""
    )


def _set_by_set(areas: Areas) -> str:
    sets, counts = areas.sets(0), areas.counts
    table = np.column_stack([areas.table(k, [OURS], sets) for k in counts])
    body = [
        [name, *("" if np.isnan(value) else f"{value:.1f}" for value in row)]
        for name, row in zip(sets, table, strict=True)
    ]
    return markdown([["", *map(setting_of, counts)], *body])


def _notes(areas: Areas) -> str:
    shown = areas.methods()
    notes = {name: note for name, note in {**OUR_NOTES, **NOTES}.items() if name in shown}
    for name in (name for name in (*RIVALS, *ENSEMBLES) if name not in shown):
        package = PACKAGES.get(name)
        needs = f" It needs {package}: `{INSTALL}`" if package else ""
        notes[name] = f"left out, for it was not measured in every split.{needs}"
    notes["… alone"] = "one detector of the pool; an expert is a classifier that learns from labels"
    notes[HINDSIGHT] = "of the six one-class detectors, picked on the test itself: no contender"
    notes["†"] = "without labels this is the sum rule, and not compared twice"
    return "\n".join(f"- *{name}*: {note}." for name, note in notes.items())


def _head(areas: Areas, labels: int) -> str:
    return f"{setting_of(labels)}, {_counted(len(areas.sets(labels)), 'set')}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _marked(method: str) -> str:
    return f"{method} †" if method in NEEDS_LABELS else method


# ----------------------------------------------------------------------------------------- figure


def _drawn(areas: Areas) -> tuple[list[int], list[str]]:
    """Numbers of labels, and the sets that have them all."""
    counts = [k for k in areas.counts if k <= DRAWN_UP_TO]
    return counts, areas.sets(counts[-1])


def _caption(areas: Areas) -> str:
    counts, sets = _drawn(areas)
    return prose(
        f"""Drawn are the means over the {_counted(len(sets), "set")} with
        {setting_of(counts[-1])} or more, so that no curve jumps because sets leave:
        {", ".join(sets)}. What lies more than {DEPTH:.0f} points below {OURS} is cut off."""
    )


def draw(areas: Areas, path: Path) -> None:
    """Mean AUC against the number of labels: ours thick, some rivals in colour, others grey."""
    counts, sets = _drawn(areas)
    names = _in_order(areas)
    means = np.array([areas.table(k, names, sets).mean(axis=0) for k in counts])
    curves = dict(zip(names, means.T, strict=True))
    figure = new_figure(9, 5.5)
    ax = figure.subplots()
    coloured = [name for name in HIGHLIGHTED if name in curves]
    grey = [name for name in areas.contenders()[1:] if name not in coloured]
    for i, name in enumerate(grey):
        ax.plot(curves[name], color="0.8", linewidth=0.9, label=None if i else "others", zorder=1)
    for name in coloured:
        j, line = HIGHLIGHTED[name]
        look: dict[str, Any] = {"color": COLOURS[j], "marker": MARKERS[j], "markersize": 5}
        ax.plot(curves[name], line, label=name, linewidth=1.6, zorder=3, **look)
    ax.plot(curves[HINDSIGHT], "--", color="0.3", linewidth=1.2, label=HINDSIGHT)
    thick: dict[str, Any] = {"color": COLOURS[0], "marker": MARKERS[0], "markersize": 7}
    ax.plot(curves[OURS], label=OURS, linewidth=3.5, zorder=4, **thick)
    ax.set_ylim(bottom=max(ax.get_ylim()[0], curves[OURS].min() - DEPTH))
    ax.set_xticks(range(len(counts)), map(str, counts))
    ax.set_xlabel("labelled anomalies")
    ax.set_ylabel(f"mean AUC in %, {_counted(len(sets), 'set')}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.93")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True, frameon=False)
    figure.savefig(path, dpi=120)
