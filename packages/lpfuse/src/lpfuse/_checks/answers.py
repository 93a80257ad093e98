"""The entrance for answers of a person, and for the chances with which rows were asked about."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._checks.arguments import check_values, one_a_row
from lpfuse._checks.messages import how_to_label


def check_answers(y: Any, n: int) -> Host:
    """Answers as +1.0 (normal), −1.0 (anomaly) and 0.0 (don't know): of one kind, too.

    Examples
    --------
    >>> check_answers([-1, 0], 2)
    array([-1.,  0.])
    """
    answers = one_a_row(y, n, "y", "answer")
    if answers.dtype.kind not in "iuf" or not np.isin(answers, (-1, 0, 1)).all():
        raise ValueError(how_to_label(answers.tolist(), unlabelled=True))
    return answers.astype(np.float64)


def check_new_labels(y: Any, n: int) -> Host:
    """Labels ±1.0 of new rows of a stream, which may all be of one kind; None: all are normal.

    Examples
    --------
    >>> check_new_labels([-1], 1), check_new_labels(None, 2)
    (array([-1.]), array([1., 1.]))
    """
    if y is None:
        return np.ones(n)
    labels = one_a_row(y, n, "y", "label")
    if labels.dtype.kind not in "iuf" or not np.isin(labels, (-1, 1)).all():
        raise ValueError(how_to_label(labels.tolist(), unlabelled=False))
    return labels.astype(np.float64)


def check_chances(chances: Any, n: int | None = None, *, may_miss: bool = True) -> Host:
    """The chance in (0, 1] with which each row was asked about; NaN where it was not asked.

    Examples
    --------
    >>> check_chances([0.5, 0.0])
    Traceback (most recent call last):
    ValueError: chances must lie above 0 and be 1 at most, got 0 in row 1 (1 such rows). A row \
that could not be asked about has no chance: pass NaN for labels from elsewhere.
    """
    known = check_values(chances, "chances", may_miss=may_miss)
    if n is not None:
        one_a_row(known, n, "chances", "number")
    refused = ~(np.isnan(known) | (known > 0) & (known <= 1))
    if refused.any():
        row = int(np.flatnonzero(refused)[0])
        mend = "pass NaN for labels from elsewhere" if may_miss else "leave it out"
        raise ValueError(
            f"chances must lie above 0 and be 1 at most, got {known[row]:g} in row {row} "
            f"({refused.sum()} such rows). A row that could not be asked about has no chance: "
            f"{mend}."
        )
    return known
