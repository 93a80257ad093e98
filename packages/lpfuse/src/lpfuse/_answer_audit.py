"""What answers say of a detector: shares and rates with intervals, from answered rows alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._checks.answers import check_answers, check_chances
from lpfuse._checks.arguments import check_count, check_number, check_values, one_a_row
from lpfuse._format import percent

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
        """A few sentences for someone without statistics."""
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
    s = check_values(scores, "scores", may_miss=True)
    labels, pi = check_answers(y, s.size), check_chances(chances, s.size)
    round_of = np.zeros(s.size) if rounds is None else check_values(rounds, "rounds", may_miss=True)
    one_a_row(round_of, s.size, "rounds", "number")
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
