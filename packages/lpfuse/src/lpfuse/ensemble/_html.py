"""What a notebook shows of a fitted detector, below scikit-learn's diagram."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from lpfuse._arrays.operations import Host


def weights_table(
    names: Sequence[str], weights: Host | None, certificate: Any, offset: float
) -> str:
    """A small table of the detectors, the largest weight first, and the proof in words.

    Parameters
    ----------
    names : sequence of R str
        Of the detectors; any text, which is escaped.
    weights : ndarray of shape (R,) or None
        None for a fusion without weights.
    certificate : Certificate or None
        Of the weights.
    offset : float
        The threshold.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> weights_table(["<gmm>"], None, None, 0.5).count("&lt;gmm&gt;")
    1
    """
    order = list(range(len(names)))
    if weights is not None:
        order.sort(key=lambda j: -abs(weights[j]))
    rows = "".join(_row(names[j], None if weights is None else weights[j], weights) for j in order)
    proof = "" if certificate is None else f"<br>weights: {escape(str(certificate))}"
    head = "<th>detector</th>" + ("" if weights is None else "<th>weight</th><th>share</th>")
    return (
        f'<div class="lpfuse"><p>{len(names)} detectors, threshold {offset:.4g}{proof}</p>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(name: str, weight: float | None, weights: Host | None) -> str:
    cells = f'<td style="text-align:left">{escape(name)}</td>'
    if weight is not None and weights is not None:
        total = float(abs(weights).sum()) or 1.0
        cells += f"<td>{weight:.4f}</td><td>{100 * weight / total:.1f} %</td>"
    return f"<tr>{cells}</tr>"
