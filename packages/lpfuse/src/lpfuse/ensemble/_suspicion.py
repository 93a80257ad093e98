"""How probably a row that nobody vouched for is normal, and how many are not.

A hidden anomaly is likelier the stranger a row is. Over 120 tables with hidden anomalies, the share
u of the rows that their one-class scores call strangest held about ``u ** STEEP`` of them, whatever
their number; with a share s of hidden anomalies a row of rank u then is one with the chance

    q(u) = s · STEEP · u ** (STEEP − 1)

The scores do not tell s (docs/adr/0019). Answers do, by the chances with which they were asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from lpfuse._arrays.operations import Host
from lpfuse.answers import Estimate, answer_weights, audit_answers

STEEP = 0.38  # 42 % of the hidden anomalies among the strangest tenth, measured at 5 %
SUREST = 0.9  # of no row the suspicion is greater; by hand
UNKNOWN = Estimate(0.05, 0.0, 0.3)  # the share of hidden anomalies where nobody answered; by hand
# What a row that nobody looked at counts for beside one that was vouched for, in the eyes of an
# expert. Ten to thirty times less did best on twenty sets: docs/adr/0020.
GUESS = 0.1


def strangeness(scores: Host) -> Host:
    """The share of the rows that are at least as strange, in (0, 1); high scores are normal.

    Examples
    --------
    >>> import numpy as np
    >>> strangeness(np.array([5.0, 1.0, 3.0, 3.0]))
    array([0.875, 0.125, 0.5  , 0.5  ])
    """
    ranks: Host = (rankdata(np.nan_to_num(scores, nan=-np.inf)) - 0.5) / len(scores)
    return ranks


def hidden_chance(rank: Host, share: float | Host) -> Host:
    """The chance q that rows of these ranks are hidden anomalies, of which there is a share."""
    found: Host = np.minimum(SUREST, share * STEEP * rank ** (STEEP - 1.0))
    return found


def estimate_share(
    known: Host, chances: Host, rounds: NDArray[Any] | None = None, n_rows: int | None = None
) -> Estimate:
    """The share of anomalies, from rows that were asked about with known chances alone.

    Parameters
    ----------
    known : ndarray of shape (n,)
        +1, −1, or 0 where nobody looked.
    chances : ndarray of shape (n,)
        With which rows were asked about; NaN where they were not.
    rounds : ndarray of shape (n,), optional
        Numbers of the rounds in which they were.
    n_rows : int, optional
        How many rows were asked from, where that is known.

    Examples
    --------
    >>> import numpy as np
    >>> chances = np.where(np.arange(200) < 40, 0.2, np.nan)
    >>> known = np.where(np.arange(200) < 40, np.where(np.arange(200) < 4, -1.0, 1.0), 0.0)
    >>> round(estimate_share(known, chances, n_rows=200).value, 3)
    0.1
    """
    asked = (known != 0) & ~np.isnan(chances)
    if not asked.any():
        return UNKNOWN
    audit = audit_answers(
        np.zeros(asked.sum()),
        known[asked],
        chances[asked],
        offset=0.0,
        n_rows=n_rows,
        rounds=None if rounds is None else rounds[asked],
    )
    return audit.anomaly_share


def row_weights(scores: Host, known: Host, chances: Host) -> tuple[Host, NDArray[np.bool_]]:
    """How much each row counts.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Held-out scores by detectors that learn from normal rows.
    known : ndarray of shape (n,)
        +1, −1, or 0 where nobody looked.
    chances : ndarray of shape (n,)
        With which rows were asked about; NaN where they were not.

    Returns
    -------
    weights : ndarray of shape (n,)
        See :func:`lpfuse.answers.answer_weights`.
    unseen : ndarray of shape (n,)
        Rows that nobody looked at.
    """
    rank, unseen = strangeness(scores), known == 0
    q = hidden_chance(rank, estimate_share(known, chances, n_rows=len(known)).value)
    return answer_weights(1.0 - q, known, chances), unseen


def expert_weights(weights: Host, known: Host) -> Host:
    """The weights by which experts learn: what nobody looked at counts less than an answer.

    Normal rows count 1 in the mean, so that the classes stay balanced.
    """
    normal, unseen = known >= 0, known == 0
    found = np.where(unseen, GUESS * weights, weights) if (known > 0).any() else weights.copy()
    return np.where(normal, found / found[normal].mean(), found)
