"""Labels of rows sampled with known inclusion probabilities.

An expert labels few rows, preferably anomalous ones. Such labels are not a random sample, but known
inclusion probabilities correct for that: :func:`chances_of_asking` sets them,
:func:`draw_questions` and :func:`ask_each_unit_once` draw rows with exactly these probabilities,
:func:`answer_weights` weights the labels in a loss, and :func:`audit_answers` evaluates a detector.
All functions take and return arrays; no model is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from lpfuse._arrays.operations import Host
from lpfuse._format import percent
from lpfuse._validation import params

__all__ = [
    "AnswerAudit",
    "Estimate",
    "answer_weights",
    "ask_each_unit_once",
    "audit_answers",
]


# --------------------------------------------------------------------------------------------------
# Evaluation of a detector from labelled rows: rates with confidence intervals


# Draws of each interval: the confidence is then accurate to 0.4 %. With very many answers, whose
# intervals are short, fewer draws suffice. Chosen by hand.
MAX_DRAWS, MIN_DRAWS, MAX_TABLE_SIZE = 2000, 100, 20_000_000
MANY_ROWS = 1e18  # more than any table has


class Estimate(NamedTuple):
    """A share with an interval; NaN with the interval [0, 1] if there is no information."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        value = "unknown" if np.isnan(self.value) else _short(self.value)
        return f"{value} ({_short(self.low)} to {_short(self.high)})"


@dataclass(frozen=True)
class AnswerAudit:
    """Performance of a detector, estimated from labelled rows.

    Attributes
    ----------
    anomaly_share : Estimate
        Share of anomalies among all candidate rows.
    hit_rate : Estimate
        Share of the anomalies that are flagged: their score is below the threshold.
    precision : Estimate
        Share of anomalies among the flagged rows.
    false_alarm_rate : Estimate
        Share of the normal rows that are flagged.
    auc : Estimate
        Probability that an anomaly scores below a normal row; ties count half.
    n_answers, n_anomalies : int
        Number of answers used, and of anomalies among them.
    effective_size : float
        Kish's effective sample size: (Σw)² / Σw².
    n_elsewhere, n_left_out : int
        Labels from other sources, and answers "don't know" or for rows without a finite score.
    confidence : float
        Of each interval.
    """

    anomaly_share: Estimate
    hit_rate: Estimate
    precision: Estimate
    false_alarm_rate: Estimate
    auc: Estimate
    n_answers: int
    n_anomalies: int
    effective_size: float
    n_elsewhere: int
    n_left_out: int
    confidence: float

    def summary(self) -> str:
        """Return a summary in plain sentences."""
        told = [f"{self.n_answers} answers took part; {self.n_anomalies} of them are anomalies."]
        told += [
            words.format(rate) if np.isfinite(rate.value) else unknown
            for rate, words, unknown in (
                (self.anomaly_share, "Of the rows asked from, about {} are anomalies.", ""),
                (self.hit_rate, "Of the anomalies, about {} are caught.", _NO_HITS),
                (self.precision, "Of the rows flagged, about {} are anomalies.", _NO_ALARMS),
                (self.false_alarm_rate, "Of the normal rows, about {} are flagged.", _NO_NORMALS),
                (self.auc, "An anomaly looks stranger than a normal row in about {} of pairs.", ""),
            )
        ]
        if self.n_answers:
            level = percent(self.confidence, 0)
            told.append(f"The ranges in brackets hold with {level} confidence.")
        if self.n_elsewhere:
            told.append(f"{self.n_elsewhere} labels that nobody was asked for do not take part.")
        if self.n_left_out:
            told.append(f"{self.n_left_out} answers are left out: don't know, or no score.")
        return " ".join(filter(None, told))


_NO_HITS = "No answer is an anomaly, so nothing can be said of how many are caught."
_NO_ALARMS = "No row asked about is flagged, so nothing can be said of how often an alarm is right."
_NO_NORMALS = "No answer is a normal row, so nothing can be said of false alarms."


def audit_answers(
    scores: Any,
    y: Any,
    chances: Any,
    *,
    offset: float,
    n_rows: int | None = None,
    rounds: Any = None,
    confidence: float = 0.95,
) -> AnswerAudit:
    r"""Evaluate a detector from labelled rows and their inclusion probabilities.

    An answer is weighted by :math:`1/\pi_i`, so that sums over answers are unbiased estimates of
    sums over all rows (Horvitz and Thompson 1952). Each estimate is a ratio of such sums.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Held-out scores of the labelled rows, high = normal: the detector must not have been trained
        on these labels. Rows without a finite score are ignored.
    y : array-like of shape (n,)
        The answers: +1 normal, −1 anomaly, 0 don't know (ignored, as if missing at random).
    chances : array-like of shape (n,)
        Inclusion probabilities :math:`\pi_i` in (0, 1] of each row in its round. NaN: a label from
        another source, which is not used.
    offset : float
        The threshold: a row is flagged where ``score < offset``.
    n_rows : int, optional
        Number of candidate rows. If None it is estimated, and shares of all rows are less certain.
    rounds : array-like of shape (n,), optional
        Round in which each row was sampled; one round if None. Rows are sampled without replacement
        across rounds.
    confidence : float in (0, 1), default=0.95
        Of each interval separately.

    Returns
    -------
    AnswerAudit

    Notes
    -----
    *Rounds.* In round t the rows answered before are known, and those asked stand for the rest:
    :math:`T_t = \sum_{i < t} z_i + \sum_{i \in t} z_i / \pi_i` is unbiased given the past. The
    mean of the :math:`T_t` by their numbers of questions, :math:`\lambda_t`, gives a row of round
    r the weight :math:`w_i = \lambda_r / \pi_i + \sum_{t > r} \lambda_t`; errors of different
    rounds are uncorrelated, and only the first part is uncertain.

    *Intervals.* Estimated variances say little of a handful of answers. Instead the uncertain part
    of each weight is multiplied by independent :math:`\mathrm{Gamma}(1/(1 - \pi_i))` numbers, of
    mean 1 and variance :math:`1 - \pi_i`, and to each end is added *one hypothetical answer*, the
    worst for that end, about as heavy as the heaviest on its side of the threshold, or as the
    difference of `n_rows` and the sum of the weights. With equal small chances this is the interval
    of Clopper and Pearson; for means of bounded numbers that of Gaffke (2005). It stays wide if no
    anomaly was seen because few rows were sampled.

    Measured on 60 to 2,000 rows, 5 to 300 answers, 1 to 20 % anomalies, good and poor detectors,
    chances even, by the scores or by another detector's, one to three rounds: of 1,710 intervals
    for 95 %, all but one (92 %) held in at least 93 % of 60 to 100 repeats, above 99 % in the mean:
    they are conservative. (The weight of the hypothetical answer was chosen on such tables.) Mean
    widths with 5 % anomalies, a good detector, 2,000 rows, and 4 questions in 10 spread evenly:

    ======= ===== ======== ========= ============ ====
    answers share hit rate precision false alarms AUC
    ======= ===== ======== ========= ============ ====
    10      0.58  0.97     0.92      0.36         0.97
    40      0.24  0.86     0.71      0.16         0.85
    100     0.11  0.68     0.47      0.08         0.66
    300     0.03  0.37     0.20      0.03         0.32
    ======= ===== ======== ========= ============ ====

    References
    ----------
    Horvitz and Thompson (1952). A generalization of sampling without replacement from a finite
    universe. Journal of the American Statistical Association 47, 663–685.

    Gaffke (2005). Three test statistics for a nonparametric one-sided hypothesis on the mean of a
    nonnegative variable. Mathematical Methods of Statistics 14, 451–467.

    Examples
    --------
    >>> from lpfuse.answers import audit_answers
    >>> audit = audit_answers(
    ...     [-2.0, -1.5, -1.0, 0.5, 2.0], y=[-1, -1, 1, -1, 1], chances=[1, 1, 1, 1, 1], offset=0.0
    ... )  # every row was labelled: nothing is uncertain
    >>> audit.precision
    Estimate(value=0.6666666666666666, low=0.6666666666666666, high=0.6666666666666666)
    """
    s = params.check_values(scores, "scores", allow_nan=True)
    labels, pi = params.check_answers(y, s.size), params.check_chances(chances, s.size)
    round_of = (
        np.zeros(s.size)
        if rounds is None
        else params.check_values(rounds, "rounds", allow_nan=True)
    )
    params.check_one_per_row(round_of, s.size, "rounds", "number")
    # With too few rows for a false-alarm rate the threshold is minus infinity.
    threshold = -np.inf if offset == -np.inf else params.check_number("offset", offset)
    level = params.check_number("confidence", confidence, above=0, at_most=1 - 1e-6)
    asked = ~np.isnan(pi)
    if np.isnan(round_of[asked]).any():
        raise ValueError("rounds must be numbers where chances are, but some are NaN. Pass them.")
    weights = _Weights.of(pi[asked], round_of[asked])
    of_use = (labels != 0)[asked] & np.isfinite(s[asked])
    rows = 0 if n_rows is None else params.check_count("n_rows", n_rows)
    # Rows without a usable answer are treated as missing at random.
    rows_left = rows * weights.total()[of_use].sum() / max(weights.total().sum(), 1.0)
    judged, is_anomaly = s[asked][of_use], labels[asked][of_use] < 0
    taking_part = _Weights(*(part[of_use] for part in weights))
    answers = _Answers(judged, is_anomaly, judged < threshold, taking_part, rows_left)
    share, hit_rate, precision, false_alarm_rate, auc = answers.estimates((1 - level) / 2)
    return AnswerAudit(
        share, hit_rate, precision, false_alarm_rate, auc,
        n_answers=int(of_use.sum()), n_anomalies=int(answers.anomaly.sum()),
        effective_size=taking_part.effective_size(), confidence=level,
        n_elsewhere=int((~asked & (labels != 0)).sum()), n_left_out=int((~of_use).sum()),
    )  # fmt: skip


class _Weights(NamedTuple):
    """Weight of each answer: a fixed part, and one that depends on the sampling."""

    known: Host
    asked: Host
    chance: Host

    @classmethod
    def of(cls, chance: Host, round_of: Host) -> _Weights:
        _, turn, counts = np.unique(round_of, return_inverse=True, return_counts=True)
        share = counts / max(chance.size, 1)
        return cls(np.maximum(1 - np.cumsum(share), 0)[turn], share[turn] / chance, chance)

    def total(self) -> Host:
        return self.known + self.asked

    def spread(self) -> Host:
        """Return the standard deviation of each weight; 0 for rows drawn with certainty."""
        return self.asked * np.sqrt(1 - self.chance)

    def effective_size(self) -> float:
        w = self.total()
        return float(w.sum() ** 2 / (w**2).sum()) if w.size else 0.0

    def drawn(self, n: int, random: np.random.Generator) -> Host:
        """Return resampled weights of shape (n, answers)."""
        noise = 1 - self.chance
        factor, some = np.ones((n, noise.size)), noise > 0
        factor[:, some] = noise[some] * random.standard_gamma(1 / noise[some], (n, some.sum()))
        return self.known + self.asked * factor


class _Sums(NamedTuple):
    """Estimated numbers of rows, of shape (draws,), by answer and side of the threshold."""

    caught: Host
    missed: Host
    false_alarms: Host
    quiet: Host  # normal rows that are not flagged
    ranked: Host  # anomalies, each by the share of the normal rows above it
    n_rows: float

    def plus(self, **weights: Host) -> _Sums:
        """Return the sums with more rows of some kinds."""
        return self._replace(**{kind: getattr(self, kind) + more for kind, more in weights.items()})

    def rates(self) -> Host:
        """Return share of anomalies, hit rate, precision, false alarms and AUC; NaN for 0 / 0."""
        anomalies, flagged = self.caught + self.missed, self.caught + self.false_alarms
        # If weights sum to less than all rows, the rest looked normal and was not sampled. If they
        # sum to more, ratios of sums have a lower variance (Hájek).
        seen = self.false_alarms + self.quiet
        normal = np.where(seen > 0, np.maximum(seen, self.n_rows - anomalies), 0.0)
        rows = np.maximum(anomalies + seen, self.n_rows)
        over = anomalies, self.caught, self.caught, self.false_alarms, self.ranked
        under = rows, anomalies, flagged, normal, np.where(normal > 0, anomalies, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.stack(over) / np.stack(under)


@dataclass(frozen=True)
class _Answers:
    """Usable answers, and the number of candidate rows (0: unknown)."""

    scores: Host
    anomaly: NDArray[np.bool_]
    flagged: NDArray[np.bool_]
    weights: _Weights
    n_rows: float

    def estimates(self, tail: float) -> list[Estimate]:
        """Return share, hit rate, precision, false alarms and AUC, in this order."""
        random = np.random.default_rng(0)  # fixed: equal answers have equal intervals
        n = int(np.clip(MAX_TABLE_SIZE // max(self.scores.size, 1), MIN_DRAWS, MAX_DRAWS))
        drawn, unseen = self._sums(self.weights.drawn(n, random)), random.standard_exponential(n)
        flagged, unflagged = (unseen * heaviest for heaviest in self._heaviest())
        either = np.maximum(flagged, unflagged)
        # The hypothetical answer that is worst for each rate, and the one that is best.
        worst_and_best = (
            (drawn.plus(quiet=either), drawn.plus(missed=either)),
            (drawn.plus(missed=unflagged), drawn.plus(caught=flagged)),
            (drawn.plus(false_alarms=flagged), drawn.plus(caught=flagged)),
            (drawn.plus(quiet=unflagged), drawn.plus(false_alarms=flagged)),
            (drawn.plus(missed=unflagged), drawn.plus(caught=flagged, ranked=flagged)),
        )
        values = self._sums(self.weights.total()[None]).rates()[:, 0]
        return [
            _interval(float(value), low.rates()[rate], high.rates()[rate], tail)
            for rate, (value, (low, high)) in enumerate(zip(values, worst_and_best, strict=True))
        ]

    def _heaviest(self) -> tuple[float, float]:
        """Return the weights of a flagged and of an unflagged hypothetical answer."""
        spread, total = self.weights.spread(), float(self.weights.total().sum())
        either = float(spread.max(initial=0.0))
        flagged = float(spread[self.flagged].max(initial=0.0))
        unflagged = float(spread[~self.flagged].max(initial=0.0))
        # Few answers may miss the heaviest flagged rows: geometric mean with the heaviest of all
        # (of the rules tried, the one with the shortest valid intervals).
        below = float(np.sqrt((flagged or either) * either))
        # If no unflagged row was sampled, there could be any number of them.
        above = unflagged or (MANY_ROWS if either and not self.n_rows else 0.0)
        return below, max(above, self.n_rows - total)

    def _sums(self, weights: Host) -> _Sums:
        """Return the sums for weights of shape (draws, answers)."""
        sides = (
            self.anomaly & self.flagged, self.anomaly & ~self.flagged,
            ~self.anomaly & self.flagged, ~self.anomaly & ~self.flagged,
        )  # fmt: skip
        caught, missed, false_alarms, quiet = (weights[:, side].sum(axis=1) for side in sides)
        return _Sums(caught, missed, false_alarms, quiet, self._ranked(weights), self.n_rows)

    def _ranked(self, weights: Host) -> Host:
        if self.anomaly.all() or not self.anomaly.any():
            return np.zeros(len(weights))
        order = np.argsort(self.scores)
        first = np.flatnonzero(np.append(True, np.diff(self.scores[order]) > 0))  # of equal scores
        normal, anomalies = (
            np.add.reduceat(weights[:, order] * side[order], first, axis=1)
            for side in (~self.anomaly, self.anomaly)
        )
        up_to = np.cumsum(normal, axis=1)
        above = 1 - (up_to - normal / 2) / up_to[:, -1:]
        return (anomalies * above).sum(axis=1)


def _interval(value: float, low: Host, high: Host, tail: float) -> Estimate:
    if np.isnan(value):
        return Estimate(value, 0.0, 1.0)
    ends = np.quantile(low, tail), np.quantile(high, 1 - tail)
    return Estimate(value, min(float(ends[0]), value), max(float(ends[1]), value))


def _short(share: float) -> str:
    return percent(share, 0 if share == 0 or share >= 0.0995 else 1)


# --------------------------------------------------------------------------------------------------
# Sampling and weights

# Probabilities this close to 1 are 1: far above the rounding of a sum of a million of them.
_ROUNDING = 1e-9


def chances_of_asking(appeal: Any, n: int, *, floor: float = 0.1) -> Host:
    r"""Return inclusion probabilities for n questions, in proportion to the appeal of rows.

    .. math:: \pi_i = \min(1, c \, b_i), \quad \sum_i \pi_i = n, \quad
              b_i = (1 - \mathrm{floor}) \frac{a_i}{\sum_j a_j} + \frac{\mathrm{floor}}{m}

    with the one c for which the sum is n, found exactly by sorting.

    Parameters
    ----------
    appeal : array-like of shape (m,)
        :math:`a_i \ge 0`, in any unit: how informative a label of this row is. If all are zero, all
        rows have the same probability.
    n : int
        Number of questions. If n ≥ m, every probability is 1.
    floor : float in (0, 1], default=0.1
        Share of the questions that is spread evenly over all rows. It bounds the weight of an
        answer: :math:`1/\pi_i \le m / (\mathrm{floor} \cdot n)`. 1 is uniform sampling.

    Returns
    -------
    ndarray of shape (m,)
        All above 0; they sum to n.

    Examples
    --------
    >>> from lpfuse.answers import chances_of_asking
    >>> chances_of_asking([8.0, 1.0, 1.0, 0.0], n=2, floor=0.2).round(3)
    array([1.   , 0.419, 0.419, 0.161])
    """
    share = params.check_share("floor", floor, of="the questions", at_most=1)
    questions, a = params.check_count("n", n), params.check_values(appeal, "appeal")
    if a.size == 0:
        raise ValueError("appeal must have at least one row, but it is empty.")
    if not (np.isfinite(a) & (a >= 0)).all():
        bad = a[~(np.isfinite(a) & (a >= 0))][0]
        raise ValueError(
            f"appeal must be finite and not negative, got {bad:g}. For a row that is drawn "
            "with certainty, use n times the sum of the others."
        )
    m = a.size
    if questions >= m:
        return np.ones(m)
    a = a / max(a.max(), np.finfo(float).tiny)  # avoids overflow of the sum
    b = (1 - share) * (a / a.sum() if a.any() else np.full(m, 1 / m)) + share / m
    ascending = np.sort(b)
    # If the k highest are certain, the others share n − k questions: c = (n − k) / (their sum).
    others = np.cumsum(ascending)[::-1][:questions]
    left = questions - np.arange(questions)
    k = int(np.argmax(left * ascending[::-1][:questions] <= others * (1 + 1e-12)))
    return np.minimum(1.0, left[k] / others[k] * b)


def draw_questions(chances: Any, order: Any = None, random_state: Any = None) -> NDArray[np.intp]:
    r"""Draw n distinct rows, each with exactly its inclusion probability.

    Systematic sampling (Madow 1949). The probabilities, laid end to end along `order`, cover
    :math:`[0, n)`; the rows that contain :math:`u, u + 1, \dots, u + n - 1` are drawn, for one
    uniform u in :math:`[0, 1)`. Neighbours whose probabilities sum to at most 1 are never drawn
    together, so an order in which similar rows are neighbours diversifies the questions.

    Parameters
    ----------
    chances : array-like of shape (m,)
        In (0, 1], with an integer sum: see :func:`chances_of_asking`.
    order : array-like of shape (m,), optional
        Positions of the rows such that similar rows are neighbours. None: a random order.
    random_state : int, RandomState instance or None
        Draws u, and the order if none is given.

    Returns
    -------
    ndarray of shape (n,)
        Positions, along `order`; rows with probability 1 first.

    References
    ----------
    Madow (1949). On the theory of systematic sampling, II. Annals of Mathematical Statistics
    20(3), 333–354.

    Examples
    --------
    >>> from lpfuse.answers import draw_questions
    >>> draw_questions([0.5, 0.5, 1.0, 0.4, 0.6], order=[0, 1, 2, 3, 4], random_state=0)
    array([2, 1, 4])
    """
    pi, random = params.check_chances(chances, allow_nan=False), check_random_state(random_state)
    n = round(float(pi.sum()))
    if n == 0 or abs(float(pi.sum()) - n) > 1e-6 * n:
        raise ValueError(
            f"chances must sum to the number of questions, an integer from 1, got {pi.sum():.6g}. "
            "Use chances_of_asking."
        )
    along = random.permutation(pi.size) if order is None else _permutation(order, pi.size)
    # Certain rows separately: rounding then can neither lose nor repeat one of the others.
    certain = pi[along] >= 1 - _ROUNDING
    others = along[~certain]
    left = n - int(certain.sum())
    u = random.random_sample()
    if left <= 0:
        return along[certain]
    ends = np.cumsum(pi[others])
    marks = (u + np.arange(left)) * (ends[-1] / left)
    drawn = np.minimum(np.searchsorted(ends, marks, side="right"), others.size - 1)
    return np.concatenate([along[certain], others[drawn]])


def ask_each_unit_once(
    appeal: Any,
    units: Any,
    n: int,
    *,
    order: Any = None,
    floor: float = 0.1,
    random_state: Any = None,
) -> tuple[NDArray[np.intp], Host]:
    """Draw rows with at most one row of each unit, such as a group of equal rows.

    The appeal of a unit is the mean of its rows. Units are drawn first, then one row of each
    uniformly.

    Parameters
    ----------
    appeal : array-like of shape (m,)
        Of each row: see :func:`chances_of_asking`.
    units : array-like of shape (m,)
        Number or name of the unit that each row belongs to.
    n : int
        Number of questions; all units if there are fewer.
    order : array-like of shape (m,), optional
        Positions of the rows such that similar rows are neighbours: the first row of a unit sets
        its place. None: a random order.
    floor, random_state : float, int or RandomState
        As in :func:`chances_of_asking` and :func:`draw_questions`.

    Returns
    -------
    positions : ndarray of shape (n or the number of units,)
        Rows to label.
    chances : ndarray of the same shape
        The inclusion probability of the *unit* of each: an audit then describes the table with one
        row a unit. If the rows of a unit are equal, its answer holds for each of them, with this
        probability.

    Examples
    --------
    >>> from lpfuse.answers import ask_each_unit_once
    >>> rows, chances = ask_each_unit_once(
    ...     [1.0, 1.0, 1.0, 5.0], units=["a", "a", "b", "c"], n=2, floor=0.2, random_state=0
    ... )
    >>> rows, chances.round(3)
    (array([3, 1]), array([1. , 0.5]))
    """
    a, random = params.check_values(appeal, "appeal"), check_random_state(random_state)
    _, unit = np.unique(
        params.check_one_per_row(units, a.size, "units", "name"), return_inverse=True
    )
    sizes = np.bincount(unit)
    # Avoids overflow of sums.
    scale = max(float(np.abs(a).max(initial=0.0)), np.finfo(float).tiny)
    pi = chances_of_asking(
        np.bincount(unit, weights=a / scale) / np.maximum(sizes, 1), n, floor=floor
    )
    along = None
    if order is not None:
        units_along, first = np.unique(unit[_permutation(order, a.size)], return_index=True)
        along = units_along[np.argsort(first)]
    drawn = draw_questions(pi, along, random)
    rows = np.argsort(unit, kind="stable")
    within = (random.random_sample(drawn.size) * sizes[drawn]).astype(np.intp)
    return rows[(np.cumsum(sizes) - sizes)[drawn] + within], pi[drawn]


def answer_weights(probably_normal: Any, y: Any, chances: Any, *, most: float = 10.0) -> Host:
    r"""Return weights of labelled and unlabelled rows in a joint loss.

    With :math:`q_i` = 1 − `probably_normal`, the prior probability that row i is an anomaly:

    ========================= ============ =======================================
    row                       counts as    with weight
    ========================= ============ =======================================
    without an answer         normal       :math:`1 - q_i`
    answered "normal"         normal       :math:`1 - q_i + q_i / \pi_i`
    answered "anomaly"        anomaly      :math:`q_i + (1 - q_i) / \pi_i`
    label from elsewhere      as labelled  1
    ========================= ============ =======================================

    Parameters
    ----------
    probably_normal : array-like of shape (m,)
        In [0, 1], for each row, without use of its own answer.
    y : array-like of shape (m,)
        +1 answered normal, −1 answered anomaly, 0 no answer.
    chances : array-like of shape (m,)
        :math:`\pi_i` in (0, 1] for answered rows; NaN for labels from other sources. Ignored where
        y = 0.
    most : float, default=10.0
        Upper limit of the weights, so that no row dominates. Chosen by hand.

    Returns
    -------
    ndarray of shape (m,)
        Weights, from 0 to `most`. A row with inclusion probability 1 has weight 1.

    Notes
    -----
    Augmented inverse-probability weighting (Robins, Rotnitzky and Zhao 1994). Let
    :math:`\ell^+_i, \ell^-_i` be the losses of row i as normal and as an anomaly, and guess
    :math:`g_i = (1 - q_i) \ell^+_i + q_i \ell^-_i`. With :math:`I_i = 1` for an answer,

    .. math:: g_i + \frac{I_i}{\pi_i} (\ell^{y_i}_i - g_i)

    has the mean :math:`\ell^{y_i}_i` over the sampling for *any* q: the loss with every row
    labelled. A good guess has a lower variance than :math:`\ell / \pi`. Its coefficients are those
    of the table, and three more: :math:`q_i` on :math:`\ell^-_i` of unanswered rows, which is
    dropped because these rows have no label; :math:`q_i (1 - 1/\pi_i)` on :math:`\ell^-_i` of a row
    answered normal and :math:`(1 - q_i)(1 - 1/\pi_i)` on :math:`\ell^+_i` of one answered anomaly,
    both negative, which are set to 0 to keep the problem convex. The consequences:

    * A *normal* row counts as normal with mean weight exactly 1, without any bias.
    * An *anomaly* counts as one with mean weight :math:`1 - q_i (1 - \pi_i)`, and as normal with
      :math:`(1 - q_i)(1 - \pi_i)`, like an unanswered anomaly with a small :math:`q_i`. Both biases
      vanish with :math:`\pi_i \to 1`, and the second with :math:`q_i \to 1`.
    * Clipping at `most` reduces the mean weight by :math:`\pi_i (w_i - \mathrm{most})`.

    References
    ----------
    Robins, Rotnitzky and Zhao (1994). Estimation of regression coefficients when some regressors
    are not always observed. Journal of the American Statistical Association 89, 846–866.

    Examples
    --------
    >>> from lpfuse.answers import answer_weights
    >>> nan = float("nan")
    >>> answer_weights([0.9, 0.9, 0.4, 0.5], y=[0, 1, -1, 1], chances=[nan, 0.5, 0.8, nan])
    array([0.9, 1.1, 1.1, 1. ])
    """
    normal = params.check_values(probably_normal, "probably_normal")
    if not ((normal >= 0) & (normal <= 1)).all():
        raise ValueError(
            f"probably_normal must lie in [0, 1], got values from {normal.min():g} to "
            f"{normal.max():g}. It is the probability that a row is normal."
        )
    limit = params.check_number("most", most, at_least=1)
    answers, pi = params.check_answers(y, normal.size), params.check_chances(chances, normal.size)
    guess = np.where(answers < 0, 1 - normal, normal)
    weights = np.where(answers == 0, guess, guess + (1 - guess) / np.where(answers == 0, 1.0, pi))
    return np.minimum(np.where(np.isnan(weights), 1.0, weights), limit)


def _permutation(order: Any, n: int) -> NDArray[np.intp]:
    """Return positions of n rows, each once."""
    along = params.check_one_per_row(order, n, "order", "position")
    if along.dtype.kind not in "iu" or not np.array_equal(np.sort(along), np.arange(n)):
        raise ValueError(
            f"order must be a permutation of 0 to {n - 1}. Pass np.argsort of a value that is "
            "similar for similar rows."
        )
    return along.astype(np.intp)
