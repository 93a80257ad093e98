"""The summary in notebooks: displays of matplotlib, from the same values as the page."""

from __future__ import annotations

from typing import Any

from lpfuse.optim import Certificate
from lpfuse.plots import ContributionsDisplay, PathDisplay, WeightsDisplay


def figures(summary: dict[str, Any]) -> dict[str, Any]:
    """Displays of weights, path and contributions, as far as the fusion has them.

    Parameters
    ----------
    summary : dict
        What `summarise` returned.

    Returns
    -------
    dict
        ``"weights"``, ``"path"``, ``"strangest"``: displays of `lpfuse.plots`, drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import FusedDetector, GMMDetector, KernelPCADetector
    >>> from lpfuse.report import figures, summarise
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> detectors = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
    >>> summary = summarise(FusedDetector(detectors, random_state=0).fit(X))
    >>> sorted(figures(summary))
    ['path', 'strangest', 'weights']
    """
    names = [detector["name"] for detector in summary["detectors"]]
    path, rows, proof = summary["path"], summary["strangest"], summary["certificate"]
    drawn: dict[str, Any] = {}
    if summary["detectors"][0]["weight"] is not None:
        weights = [detector["weight"] for detector in summary["detectors"]]
        certificate = None if proof is None else Certificate(**proof, passes=0.0)
        drawn["weights"] = WeightsDisplay(weights, names, certificate).plot()
    if path:
        ps, weights = [float(each["p"]) for each in path], [each["weights"] for each in path]
        drawn["path"] = PathDisplay(ps, weights, names, float(summary["fusion"]["p"])).plot()
    if rows and rows[0]["contributions"] is not None:
        parts = [
            [float("nan") if part is None else part for part in row["contributions"]]
            for row in rows
        ]
        drawn["strangest"] = ContributionsDisplay(
            parts,
            names,
            scores=[row["score"] for row in rows],
            offset=[row["score"] - float(row["margin"]) for row in rows],
            rows=[row["row"] for row in rows],
        ).plot()
    return drawn
