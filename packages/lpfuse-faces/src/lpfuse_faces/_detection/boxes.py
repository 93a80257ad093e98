"""Boxes (x1, y1, x2, y2) as rows of an array: overlaps, the best of many, squares, corrections."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float32]
MOST = 2_000
"""Of more boxes than this that compete, only the best are compared, each with each.

By hand: a table of 2,000 × 2,000 overlaps has 16 MB.
"""
ROUNDING = 1e-4
"""Windows on a grid may overlap by exactly a half: rounding must not decide about them."""


def overlaps(boxes: Boxes, others: Boxes, *, of_smaller: bool = False) -> NDArray[np.float32]:
    """Return how much boxes overlap, from 0 to 1, each with each.

    Parameters
    ----------
    boxes : ndarray of shape (k, 4)
        Some boxes.
    others : ndarray of shape (m, 4)
        Those to compare them with.
    of_smaller : bool
        The share of the smaller box that is shared, rather than intersection over union: 1 where
        a box lies within another.

    Returns
    -------
    ndarray of shape (k, m)

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse_faces._detection.boxes import overlaps
    >>> boxes = np.float32([[0, 0, 2, 2], [1, 0, 2, 2], [0, 0, 1, 1]])
    >>> overlaps(boxes, boxes).tolist()
    [[1.0, 0.5, 0.25], [0.5, 1.0, 0.0], [0.25, 0.0, 1.0]]
    """
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    sides = np.minimum(boxes[:, None, 2:], others[None, :, 2:]) - low
    shared = np.prod(np.maximum(sides, 0), axis=2)
    mine, theirs = areas(boxes)[:, None], areas(others)
    whole = np.minimum(mine, theirs) if of_smaller else mine + theirs - shared
    return shared / np.maximum(whole, np.finfo(np.float32).tiny)


def areas(boxes: Boxes) -> NDArray[np.float32]:
    """Their areas; 0 for a box that is turned inside out."""
    return np.prod(np.maximum(boxes[:, 2:] - boxes[:, :2], 0), axis=1)


def survivors(
    boxes: Boxes,
    scores: NDArray[np.float32],
    limit: float,
    *,
    of_smaller: bool = False,
    most: int = MOST,
) -> NDArray[np.intp]:
    """Non-maximum suppression: the boxes that no better survivor overlaps by more than a limit.

    Parameters
    ----------
    boxes : ndarray of shape (k, 4)
        Boxes that compete.
    scores : ndarray of shape (k,)
        Which is better; of equal ones, the first.
    limit : float
        The overlap that is allowed.
    of_smaller : bool
        As in :func:`overlaps`.
    most : int, default=2000
        Of more boxes only the best so many are compared: the work grows with their square.

    Returns
    -------
    ndarray of int
        Their positions, the best first.
    """
    order = np.argsort(-scores, kind="stable")[:most]
    ranked = boxes[order]
    shared = overlaps(ranked, ranked, of_smaller=of_smaller)
    beats = np.triu(shared > limit + ROUNDING, 1)
    alive: NDArray[np.bool_] = np.ones(len(order), dtype=bool)
    # A box survives where none that beats it does. Each round settles at least one box more, in
    # the order of rank, and mostly all of them within a few.
    while True:
        after = np.logical_not(beats[alive].any(axis=0))
        if np.array_equal(after, alive):
            return order[alive]
        alive = after


def squares(boxes: Boxes) -> Boxes:
    """Squares of whole pixels with the centres of boxes and their longer sides, at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse_faces._detection.boxes import squares
    >>> squares(np.float32([[0, 0, 4.2, 2]])).tolist()
    [[0.0, -1.0, 4.0, 3.0]]
    """
    sides = (boxes[:, 2:] - boxes[:, :2]).max(axis=1, keepdims=True, initial=1)
    corners = np.rint((boxes[:, :2] + boxes[:, 2:] - sides) / 2)
    return np.hstack([corners, corners + np.rint(sides)])


def corrected(boxes: Boxes, shifts: NDArray[np.float32]) -> Boxes:
    """Boxes with their sides moved by shares of their width and height.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse_faces._detection.boxes import corrected
    >>> corrected(np.float32([[0, 0, 10, 20]]), np.float32([[0.1, 0, 0, -0.5]])).tolist()
    [[1.0, 0.0, 10.0, 10.0]]
    """
    sizes = boxes[:, 2:] - boxes[:, :2]
    return boxes + shifts * np.hstack([sizes, sizes])
