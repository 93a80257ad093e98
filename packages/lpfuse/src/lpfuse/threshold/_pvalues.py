"""P-values of scores among those of normal rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from lpfuse._arrays.blocks import arrays_of, map_rows
from lpfuse._arrays.operations import Array, Host, is_blocked, to_host
from lpfuse._checks.arguments import check_values
from lpfuse._checks.blocks import check_vector_blocks
from lpfuse._quantiles import QuantileSketch, VectorInBlocks
from lpfuse.threshold._offsets import checked


def conformal_pvalues(calibration: Any, scores: Any, *, random_state: Any = None) -> Array:
    r"""How unusual each score is among those of normal rows, as a p-value.

    .. math:: p(s) = \frac{1 + \#\{i : c_i \le s\}}{n + 1}

    A normal row that is exchangeable with the n calibration rows has
    :math:`P(p \le \alpha) \le \alpha` for every :math:`\alpha`, whatever the distribution of the
    scores: see :func:`conformal_offset` for what that does and does not say.

    Parameters
    ----------
    calibration : array-like, or Dask array or series, of shape (n,)
        Scores of normal rows that were not learnt from, in any order.
    scores : array-like, or Dask array or series, of shape (m,)
        Scores of new rows, high = normal. NaN where there is none.
    random_state : int or RandomState, optional
        Break ties between scores at random, which makes p-values exact: see the notes. By default
        a tie counts as no stranger. Takes scores in memory.

    Returns
    -------
    ndarray of shape (m,)
        From 1/(n + 1), for a row below all calibration rows, to 1; NaN where the score is. Lazy
        where `scores` are Dask's.

    Notes
    -----
    Without ties :math:`P(p \le \alpha) = \lfloor \alpha (n + 1) \rfloor / (n + 1)` for a normal
    row. With ties it is less, and much less where few different scores occur: valid, but blunt.
    With a `random_state` every row, of both tables, draws a number that decides its ties, and
    the equality holds again; so does what :func:`control_false_discoveries` promises for scores
    without ties. Two rows with equal scores may then have different p-values.

    Calibration scores in Dask are read at once, and summarised. Counts are then known up to a
    proven error (of up to 9,000 rows, exactly); the highest count possible is taken, so that
    p-values stay valid, and are too large by 0.002 at most. Where smaller ones matter, as in
    :func:`control_false_discoveries`, calibrate on a random part that fits in memory instead.

    References
    ----------
    Bates, Candès, Lei, Romano and Sesia (2023). Testing for outliers with conformal p-values.
    Annals of Statistics 51(1), 149–178.

    Examples
    --------
    >>> from lpfuse.threshold import conformal_pvalues
    >>> conformal_pvalues([3.0, 1.0, 2.0, 4.0], [0.0, 2.0, 9.0])
    array([0.2, 0.6, 1. ])
    """
    known = checked(calibration, "calibration")
    if random_state is not None:
        if is_blocked(scores) or isinstance(known, VectorInBlocks):
            raise ValueError(
                "random_state breaks ties between scores in memory, but some are Dask's. Pass "
                "their .compute(), or leave random_state out."
            )
        values = check_values(scores, "scores", may_miss=True)
        known, values = _without_ties(known, values, check_random_state(random_state))
        return _pvalues(values, np.sort(known))
    # A stable sort is linear where scores are sorted already, as those of a fused detector are.
    reference = known.sketch if isinstance(known, VectorInBlocks) else np.sort(known, kind="stable")
    if not is_blocked(scores):
        return _pvalues(check_values(scores, "scores", may_miss=True), reference)
    check_vector_blocks(scores, "scores")
    return map_rows(_block_pvalues, scores, reference, dtype=np.float64)


def _block_pvalues(scores: Any, reference: Host | QuantileSketch) -> Host:
    return _pvalues(to_host(arrays_of((scores, None, None))[0]), reference)


def _pvalues(scores: Host, reference: Host | QuantileSketch) -> Host:
    if isinstance(reference, QuantileSketch):
        n, up_to = reference.n, reference.ranks(scores[:, None])[1][:, 0]
    else:
        n, up_to = reference.size, np.searchsorted(reference, scores, side="right")
    return np.where(np.isnan(scores), np.nan, (1 + up_to) / (n + 1))


def _without_ties(known: Host, scores: Host, random: np.random.RandomState) -> tuple[Host, Host]:
    """Other numbers in the same order, where equal scores are in a random order."""
    different, place = np.unique(np.concatenate([known, scores]), return_inverse=True)
    # Places are whole numbers, so that draws from [0, 1) change the order of equal ones alone.
    places = place + random.random_sample(place.size)
    places = np.where(np.isnan(different[place]), np.nan, places)
    return places[: known.size], places[known.size :]
