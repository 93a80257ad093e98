"""From the scores of frames to the score of their video: the mean, or a quantile."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._validation.params import check_number


def pooled(scores: Any, video: Any, n_videos: int, pooling: str | float = "mean") -> Host:
    """Return the score of each video, from those of its frames.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Scores of frames; NaN where there is none.
    video : array-like of shape (n,)
        The position of each frame's video, from 0.
    n_videos : int
        How many videos there are.
    pooling : "mean" or float in [0, 1], default="mean"
        The mean of the frames' scores, or that quantile of them.

    Returns
    -------
    ndarray of shape (n_videos,)
        NaN for a video of which no frame has a score.

    Examples
    --------
    >>> from lpfuse_faces._pooling import pooled
    >>> pooled([1.0, 3.0, 8.0, 5.0], [0, 0, 0, 2], 3)
    array([ 4., nan,  5.])
    >>> pooled([1.0, 3.0, 8.0, 5.0], [0, 0, 0, 2], 3, pooling=0.25)
    array([ 2., nan,  5.])
    """
    values, of_frame = np.asarray(scores, dtype=np.float64), np.asarray(video)
    ends = np.cumsum(np.bincount(of_frame, minlength=n_videos))
    by_video = np.split(values[np.argsort(of_frame, kind="stable")], ends[:-1])
    return np.array([_together(frames, frame_shares(frames, pooling)) for frames in by_video])


def frame_shares(scores: Host, pooling: str | float = "mean") -> Host:
    """Return what share each frame of a video has in its score: ``pooled = Σ share · score``.

    Equal shares for the mean. For a quantile, only the one or two frames that it falls on, or
    between, have any.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Of the frames of one video. One without a score (NaN) has no share.
    pooling : "mean" or float in [0, 1], default="mean"
        As in `pooled`.

    Examples
    --------
    >>> frame_shares(np.array([8.0, 1.0, np.nan, 3.0]), 0.25)
    array([0. , 0.5, 0. , 0.5])
    """
    scored = np.flatnonzero(~np.isnan(scores))
    shares = np.zeros(len(scores))
    if len(scored) == 0:
        return shares
    if pooling == "mean":
        shares[scored] = 1 / len(scored)
        return shares
    # As numpy.quantile does it: the quantile q of n sorted scores is at position q (n − 1), and
    # between two positions the shares are those of a straight line.
    order = scored[np.argsort(scores[scored], kind="stable")]
    place = float(pooling) * (len(order) - 1)
    below = int(place)
    shares[order[below]] = 1 - (place - below)
    if place > below:
        shares[order[below + 1]] = place - below
    return shares


def check_pooling(pooling: Any) -> None:
    """Refuse what is neither "mean" nor a quantile."""
    if not (isinstance(pooling, str) and pooling == "mean"):
        hint = 'It is a quantile of the scores of a video\'s frames; or pass "mean".'
        check_number("pooling", pooling, at_least=0, at_most=1, hint=hint)


def _together(frames: Host, shares: Host) -> float:
    scored: NDArray[np.bool_] = ~np.isnan(frames)
    return float(shares[scored] @ frames[scored]) if scored.any() else np.nan
