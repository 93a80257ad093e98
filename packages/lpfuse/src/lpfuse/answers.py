"""Questions with known chances, and what their answers say.

A person who answers is asked about few rows, and about strange ones first. Their answers are no
fair sample; they are one as soon as it is known with which chance each row was asked:
:func:`chances_of_asking` sets these chances, :func:`draw_questions` and :func:`ask_each_unit_once`
draw rows with exactly these, :func:`answer_weights` lets the answers teach, and
:func:`audit_answers` judges a detector by them. Arrays in, arrays out: no model is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from lpfuse._arrays.operations import Host
from lpfuse._format import percent
from lpfuse._validation.params import (
    check_answers,
    check_chances,
    check_count,
    check_number,
    check_one_per_row,
    check_share,
    check_values,
)

__all__ = [
    "AnswerAudit",
    "Estimate",
    "answer_weights",
    "ask_each_unit_once",
    "audit_answers",
    "chances_of_asking",
    "draw_questions",
]


# --------------------------------------------------------------------------------------------------
# What answers say of a detector: shares and rates with intervals, from answered rows alone.


# Draws of each interval: its ends then lie within 0.4 % of the confidence asked for. With very
# many answers fewer do, for intervals are short; numbers (at once in memory) chosen by hand.
MOST_DRAWS, LEAST_DRAWS, LARGEST_TABLE = 2000, 100, 20_000_000
MANY_ROWS = 1e18  # more than any table has


class Estimate(NamedTuple):
    """A share with an interval; NaN from 0 to 1 where the answers say nothing of it."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        value = "unknown" if np.isnan(self.value) else _short(self.value)
        return f"{value} ({_short(self.low)} to {_short(self.high)})"


@dataclass(frozen=True)
class AnswerAudit:
    """How good a detector is, by answered rows.

    Attributes
    ----------
    anomaly_share : Estimate
        Share of anomalies among the rows that were asked from.
    hit_rate : Estimate
        Share of the anomalies that are flagged: their score is below the threshold.
    precision : Estimate
        Share of anomalies among the flagged rows.
    false_alarm_rate : Estimate
        Share of the normal rows that are flagged.
    auc : Estimate
        Chance that an anomaly scores below a normal row; equal scores count half.
    n_answers, n_anomalies : int
        Answers that took part, and the anomalies among them.
    effective_size : float
        How many answers of equal chances would say as much of a mean: (Σw)² / Σw².
    n_elsewhere, n_left_out : int
        Labels not asked for, and answers "don't know" or for rows without a finite score.
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
        """Return a few sentences for someone without statistics."""
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
    r"""How good a detector is, from answered rows and the chances with which they were asked.

    An answer stands for :math:`1/\pi_i` rows: sums over answers are then unbiased for those over
    all rows (Horvitz and Thompson 1952). Each estimate is a ratio of such sums.

    Parameters
    ----------
    scores : array-like of shape (n,)
        Of the answered rows, by the detector that is judged and that has not learnt from these
        very answers (held-out), high = normal. Rows without a finite score are left out.
    y : array-like of shape (n,)
        The answers: +1 normal, −1 anomaly, 0 don't know (left out: taken to be like the others).
    chances : array-like of shape (n,)
        :math:`\pi_i` in (0, 1], with which each row was asked in its round. 1: certainly, without
        sampling noise. NaN: a label from elsewhere, which does not take part.
    offset : float
        The threshold: a row is flagged where ``score < offset``.
    n_rows : int, optional
        How many rows were asked from. Without it their number is itself estimated, and shares
        of all rows are less certain where most questions went to few strange rows.
    rounds : array-like of shape (n,), optional
        Number of the round of questions that each row was asked in; one round if None. Rows
        answered in earlier rounds are not asked again.
    confidence : float in (0, 1), default=0.95
        Of each interval, by itself.

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
    mean 1 and variance :math:`1 - \pi_i`, and to each end is added *one more answer that nobody
    gave*, the worst for that end, about as heavy as the heaviest on its side of the threshold, or
    as what the weights fall short of `n_rows`. With equal small chances this is the interval of
    Clopper and Pearson; for means of bounded numbers that of Gaffke (2005). It stays wide where
    no anomaly was seen because nobody asked.

    Measured on 60 to 2,000 rows, 5 to 300 answers, 1 to 20 % anomalies, good and poor detectors,
    chances even, by the scores or by another detector's, one to three rounds: of 1,710 intervals
    for 95 %, all but one (92 %) held in at least 93 % of 60 to 100 repeats, above 99 % in the mean:
    rather too wide. (How heavy "about" is was chosen on such tables.) Mean widths with 5 %
    anomalies, a good detector, 2,000 rows, and 4 questions in 10 spread evenly:

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
    ... )  # every row was asked: nothing is uncertain
    >>> audit.precision
    Estimate(value=0.6666666666666666, low=0.6666666666666666, high=0.6666666666666666)
    """
    s = check_values(scores, "scores", allow_nan=True)
    labels, pi = check_answers(y, s.size), check_chances(chances, s.size)
    round_of = (
        np.zeros(s.size) if rounds is None else check_values(rounds, "rounds", allow_nan=True)
    )
    check_one_per_row(round_of, s.size, "rounds", "number")
    # Too few rows for a rate of false alarms set the threshold to minus infinity.
    threshold = -np.inf if offset == -np.inf else check_number("offset", offset)
    level = check_number("confidence", confidence, above=0, at_most=1 - 1e-6)
    asked = ~np.isnan(pi)
    if np.isnan(round_of[asked]).any():
        raise ValueError("rounds must be numbers where chances are, but some are NaN. Pass them.")
    weights = _Weights.of(pi[asked], round_of[asked])
    of_use = (labels != 0)[asked] & np.isfinite(s[asked])
    rows = 0 if n_rows is None else check_count("n_rows", n_rows)
    # Rows for which those without an answer stand are taken to be like the others.
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
    """How many rows each answer stands for: a known part and one drawn with a chance."""

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
        """Standard deviation of what a row adds to a sum: none where it was certain to be asked."""
        return self.asked * np.sqrt(1 - self.chance)

    def effective_size(self) -> float:
        w = self.total()
        return float(w.sum() ** 2 / (w**2).sum()) if w.size else 0.0

    def drawn(self, n: int, random: np.random.Generator) -> Host:
        """Weights as they might have been, of shape (n, answers)."""
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
        """With more rows of some kinds."""
        return self._replace(**{kind: getattr(self, kind) + more for kind, more in weights.items()})

    def rates(self) -> Host:
        """Share of anomalies, hit rate, precision, false alarms, AUC; NaN of no rows."""
        anomalies, flagged = self.caught + self.missed, self.caught + self.false_alarms
        # What weights fall short of all rows was not asked about because it looked normal. Where
        # they exceed them, ratios of sums are steadier (Hájek).
        seen = self.false_alarms + self.quiet
        normal = np.where(seen > 0, np.maximum(seen, self.n_rows - anomalies), 0.0)
        rows = np.maximum(anomalies + seen, self.n_rows)
        over = anomalies, self.caught, self.caught, self.false_alarms, self.ranked
        under = rows, anomalies, flagged, normal, np.where(normal > 0, anomalies, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.stack(over) / np.stack(under)


@dataclass(frozen=True)
class _Answers:
    """Answers that take part, and how many rows they should stand for (0: not known)."""

    scores: Host
    anomaly: NDArray[np.bool_]
    flagged: NDArray[np.bool_]
    weights: _Weights
    n_rows: float

    def estimates(self, tail: float) -> list[Estimate]:
        """Share, hit rate, precision, false alarms and AUC, in this order."""
        random = np.random.default_rng(0)  # of the draws alone: equal answers, equal intervals
        n = int(np.clip(LARGEST_TABLE // max(self.scores.size, 1), LEAST_DRAWS, MOST_DRAWS))
        drawn, unseen = self._sums(self.weights.drawn(n, random)), random.standard_exponential(n)
        flagged, unflagged = (unseen * heaviest for heaviest in self._heaviest())
        either = np.maximum(flagged, unflagged)
        # What nobody was asked about, where it were the worst for each rate, and the best.
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
        """How many rows one flagged and one unflagged answer that nobody gave may stand for."""
        spread, total = self.weights.spread(), float(self.weights.total().sum())
        either = float(spread.max(initial=0.0))
        flagged = float(spread[self.flagged].max(initial=0.0))
        unflagged = float(spread[~self.flagged].max(initial=0.0))
        # Few answers may hold none of the heaviest flagged rows: halfway to the heaviest of all,
        # as weights go by factors (of the rules tried, the shortest intervals that hold).
        below = float(np.sqrt((flagged or either) * either))
        # Where no unflagged row was asked about, there could be any number of them.
        above = unflagged or (MANY_ROWS if either and not self.n_rows else 0.0)
        return below, max(above, self.n_rows - total)

    def _sums(self, weights: Host) -> _Sums:
        """Of weights of shape (draws, answers)."""
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

# A chance this close to 1 is 1: far above the rounding of a sum of a million chances.
_ROUNDING = 1e-9


def chances_of_asking(appeal: Any, n: int, *, floor: float = 0.1) -> Host:
    r"""Chances of asking about each row, for n questions that go where the appeal is.

    .. math:: \pi_i = \min(1, c \, b_i), \quad \sum_i \pi_i = n, \quad
              b_i = (1 - \mathrm{floor}) \frac{a_i}{\sum_j a_j} + \frac{\mathrm{floor}}{m}

    with the one c for which the sum is n, found exactly by sorting.

    Parameters
    ----------
    appeal : array-like of shape (m,)
        :math:`a_i \ge 0`, in any unit: how much an answer for this row would help. Where all are
        zero, all rows have the same chance.
    n : int
        Questions to ask. From m upwards, every chance is 1.
    floor : float in (0, 1], default=0.1
        Share of the questions that is spread evenly over all rows. It bounds how many rows an
        answer may stand for: :math:`1/\pi_i \le m / (\mathrm{floor} \cdot n)`. 1 asks at random.

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
    share = check_share("floor", floor, of="the questions", at_most=1)
    questions, a = check_count("n", n), check_values(appeal, "appeal")
    if a.size == 0:
        raise ValueError("appeal must hold a number for at least one row, but it is empty.")
    if not (np.isfinite(a) & (a >= 0)).all():
        bad = a[~(np.isfinite(a) & (a >= 0))][0]
        raise ValueError(
            f"appeal must be finite and not negative, got {bad:g}. To be sure that a row is "
            "asked about, make its appeal n times the sum of the others."
        )
    m = a.size
    if questions >= m:
        return np.ones(m)
    a = a / max(a.max(), np.finfo(float).tiny)  # so that the sum of the largest doubles is finite
    b = (1 - share) * (a / a.sum() if a.any() else np.full(m, 1 / m)) + share / m
    ascending = np.sort(b)
    # With the k highest certain, the others share n − k questions: c = (n − k) / (sum of others).
    others = np.cumsum(ascending)[::-1][:questions]
    left = questions - np.arange(questions)
    k = int(np.argmax(left * ascending[::-1][:questions] <= others * (1 + 1e-12)))
    return np.minimum(1.0, left[k] / others[k] * b)


def draw_questions(chances: Any, order: Any = None, random_state: Any = None) -> NDArray[np.intp]:
    r"""Rows to ask about: n distinct ones, each with exactly its chance.

    Systematic sampling (Madow 1949). The chances, laid end to end along `order`, cover
    :math:`[0, n)`; the rows drawn are those that hold :math:`u, u + 1, \dots, u + n - 1` for one
    uniform u in :math:`[0, 1)`. A row with chance π holds one of these for a share π of all u.
    Neighbours whose chances add up to 1 at most are never drawn together, so that an order in
    which like rows are neighbours spreads the questions.

    Parameters
    ----------
    chances : array-like of shape (m,)
        In (0, 1], with a whole number as their sum: see :func:`chances_of_asking`.
    order : array-like of shape (m,), optional
        Positions of the rows such that like rows follow each other. None: a random order.
    random_state : int, RandomState instance or None
        Of u, and of the order if there is none.

    Returns
    -------
    ndarray of shape (n,)
        Positions, along `order`; rows with chance 1 first.

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
    pi, random = check_chances(chances, allow_nan=False), check_random_state(random_state)
    n = round(float(pi.sum()))
    if n == 0 or abs(float(pi.sum()) - n) > 1e-6 * n:
        raise ValueError(
            f"chances must add up to the number of questions, a whole one from 1, got "
            f"{pi.sum():.6g}. Use chances_of_asking."
        )
    along = random.permutation(pi.size) if order is None else _permutation(order, pi.size)
    # Certain rows first and apart: rounding then can neither lose nor repeat one of the others.
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
    """Rows to ask about where equal rows, or rows of a group, are worth one question together.

    A unit is as appealing as its rows are in the mean. Units are drawn with chances of their own,
    then one row of each, all rows of the unit alike.

    Parameters
    ----------
    appeal : array-like of shape (m,)
        Of each row: see :func:`chances_of_asking`.
    units : array-like of shape (m,)
        Number or name of the unit that each row belongs to.
    n : int
        Questions to ask; all units are, if there are fewer.
    order : array-like of shape (m,), optional
        Positions of the rows such that like rows follow each other: a unit stands where its first
        row does. None: a random order.
    floor, random_state : float, int or RandomState
        As in :func:`chances_of_asking` and :func:`draw_questions`.

    Returns
    -------
    positions : ndarray of shape (n or the number of units,)
        Rows to ask about.
    chances : ndarray of the same shape
        The chance of the *unit* of each: with it answers stand for units, and an audit is of the
        table with one row a unit. Where the rows of a unit are equal, its answer is that of each
        of them, and this is the chance with which each of them came to be answered.

    Examples
    --------
    >>> from lpfuse.answers import ask_each_unit_once
    >>> rows, chances = ask_each_unit_once(
    ...     [1.0, 1.0, 1.0, 5.0], units=["a", "a", "b", "c"], n=2, floor=0.2, random_state=0
    ... )
    >>> rows, chances.round(3)
    (array([3, 1]), array([1. , 0.5]))
    """
    a, random = check_values(appeal, "appeal"), check_random_state(random_state)
    _, unit = np.unique(check_one_per_row(units, a.size, "units", "name"), return_inverse=True)
    sizes = np.bincount(unit)
    # Sums of the largest doubles would be infinite.
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
    r"""Weights of the rows in a loss that answered and unanswered rows teach together.

    With :math:`q_i` = 1 − `probably_normal`, the chance that row i hides an anomaly as suspected
    before its answer:

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
        In [0, 1], for each row; that of an answered row as it was without its answer.
    y : array-like of shape (m,)
        +1 answered normal, −1 answered anomaly, 0 no answer.
    chances : array-like of shape (m,)
        :math:`\pi_i` in (0, 1] for answered rows; NaN for labels from elsewhere. Not looked at
        where y = 0.
    most : float, default=10.0
        Above this weights are cut off: one row must not outweigh a table. Chosen by hand.

    Returns
    -------
    ndarray of shape (m,)
        Weights, from 0 to `most`. A row that was certain to be asked about has weight 1.

    Notes
    -----
    Augmented inverse-probability weighting (Robins, Rotnitzky and Zhao 1994). Let
    :math:`\ell^+_i, \ell^-_i` be the losses of row i as normal and as an anomaly, and guess
    :math:`g_i = (1 - q_i) \ell^+_i + q_i \ell^-_i`. With :math:`I_i = 1` for an answer,

    .. math:: g_i + \frac{I_i}{\pi_i} (\ell^{y_i}_i - g_i)

    has the mean :math:`\ell^{y_i}_i` over what is asked, *whatever* q: the loss with every row
    answered. A good guess makes it less noisy than :math:`\ell / \pi`. Its coefficients are those
    of the table, and three more: :math:`q_i` on :math:`\ell^-_i` of unanswered rows, which is left
    out because nobody calls them anomalies; :math:`q_i (1 - 1/\pi_i)` on :math:`\ell^-_i` of a row
    answered normal and :math:`(1 - q_i)(1 - 1/\pi_i)` on :math:`\ell^+_i` of one answered anomaly,
    both negative, which are set to 0 because the problem would not stay convex. What that costs:

    * A *normal* row counts as normal with mean weight exactly 1, without any bias.
    * An *anomaly* counts as one with mean weight :math:`1 - q_i (1 - \pi_i)`, and as normal with
      :math:`(1 - q_i)(1 - \pi_i)`: what an unanswered anomaly does that nothing suspects. Both
      biases vanish with :math:`\pi_i \to 1`, and the second with :math:`q_i \to 1`.
    * Cutting off at `most` takes :math:`\pi_i (w_i - \mathrm{most})` from the mean weight.

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
    normal = check_values(probably_normal, "probably_normal")
    if not ((normal >= 0) & (normal <= 1)).all():
        raise ValueError(
            f"probably_normal must lie in [0, 1], got values from {normal.min():g} to "
            f"{normal.max():g}. It is the chance that a row is normal."
        )
    limit = check_number("most", most, at_least=1)
    answers, pi = check_answers(y, normal.size), check_chances(chances, normal.size)
    guess = np.where(answers < 0, 1 - normal, normal)
    weights = np.where(answers == 0, guess, guess + (1 - guess) / np.where(answers == 0, 1.0, pi))
    return np.minimum(np.where(np.isnan(weights), 1.0, weights), limit)


def _permutation(order: Any, n: int) -> NDArray[np.intp]:
    """Return positions of n rows, each once."""
    along = check_one_per_row(order, n, "order", "position")
    if along.dtype.kind not in "iu" or not np.array_equal(np.sort(along), np.arange(n)):
        raise ValueError(
            f"order must hold each position from 0 to {n - 1} once. Pass np.argsort of something "
            "in which like rows are close."
        )
    return along.astype(np.intp)
