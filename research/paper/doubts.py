"""Figures of the paper's table that cannot be right, or are hard to believe, told in words."""

from __future__ import annotations

from collections.abc import Collection

from research.common.datasets import UCI
from research.common.tables import prose
from research.paper import paper

METRICS = {"auc": "AUC", "g_mean": "G-mean"}
IMPOSSIBLE = """{} cells, by arithmetic alone. A threshold that keeps the share a of the normals and
    rejects the share b of the anomalies shows a·b of the pairs of both to be in the right order, so
    that AUC ≥ a·b = G² on every split, and the mean AUC is at least the square of the mean G-mean.
    On n normals and m anomalies an AUC is a multiple of 1 / 2nm and G² one of 1 / nm: ten values
    whose mean lies between two neighbouring multiples must deviate from it. Rounding is taken in
    the paper's favour."""
SUSPICIOUS = """{} cells have a standard deviation of 0.0 over ten random splits and a mean below
    99.95. Every split draws its test normals anew, 10 % of all; where they are few, ten splits that
    agree to a twentieth of a point are one split, or the same ten times."""


def doubts(sets: Collection[str]) -> list[str]:
    """Sections of a page, as Markdown; none where none of the sets is the paper's."""
    kinds = (
        ("cannot be right", IMPOSSIBLE, paper.impossible_cells()),
        ("are hard to believe", SUSPICIOUS, paper.suspicious_cells()),
    )
    parts = []
    for what, about, found in kinds:
        lines = [_line(doubt) for doubt in found if doubt.set in sets]
        if lines:
            title = f"## Cells of the paper's table that {what}"
            parts += [title, prose(about.format(len(lines))), "\n".join(lines)]
    return parts


def _line(doubt: paper.Doubt) -> str:
    name, metrics = UCI[doubt.set], " and ".join(METRICS[metric] for metric in doubt.metrics)
    return f"- {name.code} {name.title}, {doubt.method}, {metrics}: {doubt.reason}"
