"""What users should know of their detectors: silent, alike, turned around, or weighed at will."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from lpfuse._arrays.operations import Host
from lpfuse._validation.tables import is_constant, warn_reversed_columns

# Bounds of the audit, chosen by hand: rather too lax, for a warning that cries wolf is not read.
ALIKE = 0.999  # rank correlation from which two detectors are as good as one
TIED = 0.9  # share of rows with one and the same score from which a detector says too little
CERTAIN = 4.0  # standard errors of the AUC from 1/2 beyond which chance explains nothing
MOST_ROWS = 2000  # that are compared; more would tell the same
TURN = (
    'say high="anomaly" where its scores enter: lpfuse.adapters.ScoreColumn(high="anomaly"), or '
    'ScoreFunction(..., high="anomaly").'
)


def audit(
    S: Host,
    y: Host,
    names: Sequence[str],
    fusion: Any = None,
    known: NDArray[np.bool_] | None = None,
) -> None:
    """Warn of detectors that say nothing, the same or the opposite, and of weights left open.

    Parameters
    ----------
    S : ndarray of shape (n, R)
        Raw out-of-fold scores without gaps.
    y : ndarray of shape (n,)
        +1 or −1.
    names : sequence of str
        Names of the detectors.
    fusion : estimator, optional
        The fitted fusion; None where its weights are open by design.
    known : ndarray of shape (R,), optional
        Detectors whose makers, not users, said what high scores mean.
    """
    normal = S[y > 0]
    area, error = _areas(S, y)
    said = ~nearly_constant(normal) | (area > 0.5 + CERTAIN * error)
    quoted = np.array([repr(name) for name in names])
    _warn(
        quoted[~said],
        "{} give most normal rows the same score, and so say next to nothing. Leave them out, or "
        "look at what they are fed.",
    )
    _warn(
        [f"{quoted[i]} = {quoted[j]}" for i, j in _alike(normal) if said[i] and said[j]],
        "Some detectors rank all rows alike: {}. Each counts as often as it is repeated.",
    )
    warn_reversed_columns(S, y, quoted.tolist(), TURN, known, stacklevel=4)
    warn_of_open_weights(fusion, y)


def nearly_constant(S: Host) -> NDArray[np.bool_]:
    """Which columns hold one value nearly everywhere."""
    most_common = [np.unique(column, return_counts=True)[1].max() for column in S.T]
    return np.array(most_common) >= TIED * len(S)


def _alike(S: Host) -> list[tuple[int, int]]:
    """Pairs of columns that put the rows in the same order."""
    step = -(-len(S) // MOST_ROWS)
    ranks = rankdata(S[::step], axis=0)
    ranks -= ranks.mean(axis=0)
    lengths = np.linalg.norm(ranks, axis=0)
    together = ranks.T @ ranks >= ALIKE * np.outer(lengths, lengths)
    moving = lengths > 0
    pairs = combinations(range(S.shape[1]), 2)
    return [(i, j) for i, j in pairs if together[i, j] and moving[i] and moving[j]]


def _areas(S: Host, y: Host) -> tuple[Host, float]:
    """The AUC of each column, and its standard error for a column that tells nothing."""
    n, anomalies = (y > 0).sum(), (y < 0).sum()
    if anomalies == 0:
        return np.full(S.shape[1], 0.5), 1.0
    error = float(np.sqrt((n + anomalies + 1) / (12 * n * anomalies)))
    return np.array([roc_auc_score(y, column) for column in S.T]), error


def warn_of_constants(normal: Host) -> None:
    """Warn where no detector tells normal rows apart, by their scores of shape (n, R)."""
    if (nearly_constant(normal) | is_constant(normal.min(axis=0), normal.max(axis=0))).all():
        _warn(
            [""],
            "All detectors give most normal rows the same score: these rows hardly differ, so "
            "nothing can be told of others. Bring columns that vary.",
        )


def warn_of_open_weights(fusion: Any, y: Host) -> None:
    certificate = getattr(fusion, "certificate_", None)
    if certificate is None:
        return
    centre = 0.0 if fusion.prior_ is None else fusion.prior_
    if certificate.primal <= 1e-9 * len(y):
        _warn(
            [""],
            "Many weights are equally good: the fused scores of all rows are right with room to "
            "spare. Of these the weights nearest to uniform were taken; p hardly matters.",
        )
    elif np.linalg.norm(fusion.weights_ - centre, fusion.p) < fusion.radius * (1 - 1e-6):
        _warn(
            [""],
            "The constraint ‖w‖_p ≤ 1 is not active: the best weights lie inside the ball, and a "
            "larger p would not change them.",
        )


def _warn(found: Sequence[str] | Host, text: str) -> None:
    if len(found):
        warnings.warn(text.format(", ".join(found)), UserWarning, stacklevel=4)


def report_gaps(
    raw: Host,
    names: Sequence[str],
    *,
    on_missing: str,
    errors: Mapping[str, str] | None = None,
    abs_weights: Host | None = None,
) -> None:
    """Say which detectors were silent, of how many rows, and why; stop if `on_missing` is "raise".

    `abs_weights` of shape (R,) tells rows of which every detector with a weight is silent.
    """
    gaps, errors = np.isnan(raw).sum(axis=0), errors or {}
    if not gaps.any():
        return
    told = [
        f"{name!r} ({count} of {len(raw)} rows{': ' + errors[name] if name in errors else ''})"
        for name, count in zip(names, gaps, strict=True)
        if count
    ]
    counts_for_nothing = False if abs_weights is None else abs_weights == 0
    lost = int((np.isnan(raw) | counts_for_nothing).all(axis=1).sum())
    text = f"Some detectors could not score some rows: {', '.join(told)}."
    if on_missing == "raise":
        raise ValueError(f'{text} With on_missing="warn" the others would decide.')
    rest = f" No detector with a weight could score {lost} of them." if lost else ""
    warnings.warn(f"{text} The others decide on those rows.{rest}", UserWarning, stacklevel=4)
