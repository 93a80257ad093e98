"""Which rows are worth a question: how much an answer would help, and which rows are alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.cluster import MiniBatchKMeans

from lpfuse._arrays.operations import Host
from lpfuse.ensemble._suspicion import strangeness

# Chosen by hand.
DOUBT = 0.05  # share of the questions for rows near the threshold
SOFTNESS = 0.15  # how softly the appeal ends behind the strangest rows, in units of the questions
CLUSTERED_ROWS = 2_000  # that clusters are learnt from


def strangest_of(parts: Host) -> Host:
    """One rank a row, low for what any part calls strange: the least of its `strangeness`.

    One-class detectors know what is strange, experts what is like the anomalies that were found:
    asking about what either of them names found more anomalies than asking by their sum
    (docs/adr/0020).

    Parameters
    ----------
    parts : ndarray of shape (m, k)
        Scores, high = normal.

    Examples
    --------
    >>> import numpy as np
    >>> ranks = strangest_of(np.array([[1.0, 9.0], [5.0, 7.0], [6.0, 1.0], [7.0, 8.0]]))
    >>> int(np.argmax(ranks))
    3
    """
    ranks = np.column_stack([strangeness(part) for part in parts.T])
    # Where two rows are the strangest of different parts, the one that is stranger on the whole.
    return strangeness(ranks.min(axis=1) + 1e-3 * ranks.mean(axis=1))


def appeal_of(rank: Host, flagged: float, n: int, explore: float) -> Host:
    """How much an answer for each row would help.

    Most for the strangest rows, about as many as there are questions for them; some for rows in
    doubt, near the threshold in rank.

    Parameters
    ----------
    rank : ndarray of shape (m,)
        `strangest_of` the rows.
    flagged : float
        Share of the rows beyond the threshold.
    n : int
        Questions.
    explore : float
        Share of them that goes to all rows alike.

    Examples
    --------
    >>> import numpy as np
    >>> int(np.argmax(appeal_of(np.array([0.9, 0.1, 0.6, 0.3]), 0.25, 1, 0.1)))
    1
    """
    place = rank * len(rank) - 0.5
    questions = max((1.0 - explore - DOUBT) * n, 0.5)
    likely = expit((questions - 0.5 - place) / (SOFTNESS * n))
    doubt = np.exp(-np.abs(place - flagged * len(rank)) / n)
    found: Host = (1 - DOUBT) * likely / likely.sum() + DOUBT * doubt / doubt.sum()
    return found


def neighbouring_order(
    numbers: Host | None, rank: Host, n: int, random: np.random.RandomState
) -> NDArray[np.intp]:
    """An order of the rows in which like ones are neighbours: by cluster, then by rank.

    Parameters
    ----------
    numbers : ndarray of shape (m, d) or None
        Features; None where there are no numbers: then by rank alone.
    rank : ndarray of shape (m,)
        `strangest_of` the rows.
    n : int
        Questions: as many clusters.
    random : RandomState
        Starts the clusters.
    """
    by_rank = np.argsort(rank, kind="stable")
    if numbers is None or n < 2 or len(rank) < 2 * n:
        return by_rank
    middle = np.nanmedian(np.where(np.isnan(numbers).all(axis=0), 0.0, numbers), axis=0)
    filled = np.where(np.isnan(numbers), middle, numbers)
    low, high = np.quantile(filled, [0.05, 0.95], axis=0)
    width = np.where(high > low, high - low, 1.0)
    units = np.clip((filled - middle) / width, -3.0, 3.0)
    # Clusters of the strange rows, for these are asked about; the others belong to the nearest.
    some = by_rank[: max(CLUSTERED_ROWS, 10 * n)]
    clusters = MiniBatchKMeans(n, n_init=1, random_state=random).fit(units[some])
    return np.lexsort((rank, clusters.predict(units))).astype(np.intp)
