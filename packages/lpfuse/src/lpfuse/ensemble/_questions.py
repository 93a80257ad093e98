"""Which rows are worth a question: how much an answer would help, and which rows are alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans

from lpfuse._arrays.operations import Host
from lpfuse.ensemble._suspicion import strangeness

# Chosen by hand. How fast the appeal falls with the rank, in units of the questions: of n questions
# about half go to the n/2 strangest rows, and nearly all to the 3n strangest.
STEEPNESS = 4.0
DOUBT = 0.1  # share of the appeal that rows near the threshold have
CLUSTERED_ROWS = 2_000  # that clusters are learnt from


def appeal_of(scores: Host, offset: float, n: int) -> Host:
    """How much an answer for each row would help.

    Rows that are likely anomalies: ``(1 + r/n)^−4`` for rank r, the strangest first. Rows in doubt:
    the nearer in rank to the threshold the better.

    Parameters
    ----------
    scores : ndarray of shape (m,)
        Fused scores, high = normal; NaN counts as strangest.
    offset : float
        The threshold.
    n : int
        Questions.

    Examples
    --------
    >>> import numpy as np
    >>> appeal = appeal_of(np.array([3.0, 0.1, 2.0, 1.0]), 0.5, 1)
    >>> int(np.argmax(appeal))
    1
    """
    rank = strangeness(scores) * len(scores) - 0.5
    likely = (1.0 + rank / n) ** -STEEPNESS
    at = float(np.sum(scores < offset))
    doubt = (1.0 + np.abs(rank - at) / n) ** -STEEPNESS
    found: Host = (1 - DOUBT) * likely / likely.sum() + DOUBT * doubt / doubt.sum()
    return found


def neighbouring_order(
    numbers: Host | None, scores: Host, n: int, random: np.random.RandomState
) -> NDArray[np.intp]:
    """An order of the rows in which like ones are neighbours: by cluster, then by score.

    Parameters
    ----------
    numbers : ndarray of shape (m, d) or None
        Features; None where there are no numbers: then by score alone.
    scores : ndarray of shape (m,)
        Fused scores.
    n : int
        Questions: as many clusters.
    random : RandomState
        Starts the clusters.
    """
    by_score = np.argsort(scores, kind="stable")
    if numbers is None or n < 2 or len(scores) < 2 * n:
        return by_score
    middle = np.nanmedian(np.where(np.isnan(numbers).all(axis=0), 0.0, numbers), axis=0)
    filled = np.where(np.isnan(numbers), middle, numbers)
    low, high = np.quantile(filled, [0.05, 0.95], axis=0)
    width = np.where(high > low, high - low, 1.0)
    units = np.clip((filled - middle) / width, -3.0, 3.0)
    # Clusters of the strange rows, for these are asked about; the others belong to the nearest.
    some = by_score[: max(CLUSTERED_ROWS, 10 * n)]
    clusters = MiniBatchKMeans(n, n_init=1, random_state=random).fit(units[some])
    return np.lexsort((scores, clusters.predict(units))).astype(np.intp)
