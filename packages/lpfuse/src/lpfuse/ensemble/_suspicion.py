"""How probably a row that nobody vouched for is normal, and how many are not.

A hidden anomaly is likelier the stranger a row is. Over 120 tables with hidden anomalies, the share
u of the rows that their one-class scores call strangest held about ``u ** STEEP`` of them, whatever
their number; with a share s of hidden anomalies a row of rank u then is one with the chance

    q(u) = s · STEEP · u ** (STEEP − 1)

The scores do not tell s (docs/adr/0019). Answers do: whoever finds four anomalies among the ten
strangest rows knows that there are more. How steep the law is differs between tables, and on easy
ones it is no power: anomalies then fill a band of the strangest rows and end. The share is
estimated under all these laws.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta, norm, rankdata

from lpfuse._arrays.operations import Host
from lpfuse.answers import Estimate, answer_weights
from lpfuse.ensemble._default_pool import EXPERTS_FROM

STEEP = 0.38  # 42 % of the hidden anomalies among the strangest tenth, measured at 5 %
SHARE = 0.05  # of hidden anomalies, as rows are weighed by; by hand
SUREST = 0.9  # of no row the suspicion is greater; by hand
# What is believed before anyone answers: equally probable shares of hidden anomalies, 5 % in the
# mean and 23 % at most in 39 of 40 cases, by hand; with the chance 1 − BANDED a power law, as steep
# as sets were; else nine in ten of the anomalies in a band of the strangest rows, so densely.
SHARES = beta.ppf((np.arange(400) + 0.5) / 400, 0.5, 9.5)
STEEPNESSES = 0.45 * np.exp(0.6 * norm.ppf((np.arange(9) + 0.5) / 9))
DENSITIES = (0.15, 0.3, 0.6, 0.9)
IN_BAND, BANDED = 0.9, 0.7  # by hand
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


def hidden_chance(rank: Host, share: float | Host, steep: float = STEEP) -> Host:
    """The chance q that rows of these ranks are hidden anomalies, of which there is a share."""
    found: Host = np.minimum(SUREST, share * steep * rank ** (steep - 1.0))
    return found


def _banded_chance(rank: Host, share: Host, density: float) -> Host:
    """As `hidden_chance`, where anomalies fill a band of the strangest rows so densely."""
    band = IN_BAND * share / density
    beyond = (1 - IN_BAND) * share / np.maximum(1 - band, 0.05)
    return np.where(rank <= band, density, np.clip(beyond, 1e-6, SUREST))


def estimate_share(rank: Host, known: Host, at_least: float = 0.0) -> Estimate:
    """The share of anomalies, from rows that were asked about: its mean and 95 % interval.

    Parameters
    ----------
    rank : ndarray of shape (m,)
        `strangeness` of these rows among all, by detectors that learn from normal rows. They were
        chosen by that and by chance, not by what experts say.
    known : ndarray of shape (m,)
        +1 or −1.
    at_least : float
        What the share is known to be at least.

    Examples
    --------
    >>> import numpy as np
    >>> print(estimate_share(np.empty(0), np.empty(0)))  # nobody answered
    5.0 % (0.0 % to 23 %)
    >>> rank = (np.arange(20) + 0.5) / 200
    >>> print(estimate_share(rank, np.ones(20)))  # no anomaly among the strangest tenth
    0.7 % (0.0 % to 4.7 %)
    """
    # Ranks to one per cent: as many answers as there may be, hundreds of different ranks.
    nearest, place = np.unique(np.round(100 * np.log(rank)), return_inverse=True)
    found, vouched = (
        np.bincount(place, weights=known * side > 0, minlength=len(nearest)) for side in (-1, 1)
    )
    u, shares = np.exp(nearest / 100), SHARES[:, None]
    laws = [(hidden_chance(u, shares, a), (1 - BANDED) / len(STEEPNESSES)) for a in STEEPNESSES]
    laws += [(_banded_chance(u, shares, d), BANDED / len(DENSITIES)) for d in DENSITIES]
    fit = np.full(len(SHARES), -np.inf)
    for q, weight in laws:
        fit = np.logaddexp(fit, np.log(weight) + np.log(q) @ found + np.log1p(-q) @ vouched)
    fit[SHARES < min(at_least, SHARES[-1])] = -np.inf
    probable = np.exp(fit - fit.max())
    upto = np.cumsum(probable) / probable.sum()
    low, high = SHARES[np.searchsorted(upto, [0.025, 0.975])]
    return Estimate(float(SHARES @ probable / probable.sum()), float(low), float(high))


def share_by_answers(
    scores: Host, known: Host, chances: Host, rounds: NDArray[np.intp], n_asked_from: int
) -> Estimate:
    """`estimate_share` of training rows, from rounds of questions.

    Experts lead questions to anomalies, once there are experts: anomalies that were found that way
    are counted, but they are no sign of more.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Held-out scores by detectors that learn from normal rows.
    known : ndarray of shape (n,)
        +1, −1, or 0 where nobody looked.
    chances : ndarray of shape (n,)
        With which rows were asked about; NaN for labels from elsewhere, which tell nothing of the
        other rows.
    rounds, n_asked_from : ndarray of shape (n,), int
        Numbers of the rounds, all 0 where there never were experts; the rows asked from.
    """
    asked = (known != 0) & ~np.isnan(chances)
    found = np.bincount(rounds[known < 0], minlength=int(rounds.max()) + 1)
    led = (np.cumsum(found) - found)[rounds] >= EXPERTS_FROM
    tells = asked & ~(led & (known < 0))
    at_least = int((known[asked] < 0).sum()) / n_asked_from
    return estimate_share(strangeness(scores)[tells], known[tells], at_least)


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
    q = hidden_chance(rank, SHARE)
    return answer_weights(1.0 - q, known, chances), unseen


def expert_weights(weights: Host, known: Host) -> Host:
    """The weights by which experts learn: what nobody looked at counts less than an answer.

    Normal rows count 1 in the mean, so that the classes stay balanced.
    """
    normal, unseen = known >= 0, known == 0
    found = np.where(unseen, GUESS * weights, weights) if (known > 0).any() else weights.copy()
    return np.where(normal, found / found[normal].mean(), found)
