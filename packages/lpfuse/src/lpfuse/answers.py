"""Questions with known chances, and what their answers say.

A person who answers is asked about few rows, and about strange ones first. Their answers are no
fair sample; they are one as soon as it is known with which chance each row was asked:
:func:`chances_of_asking` sets these chances, :func:`draw_questions` and :func:`ask_each_unit_once`
draw rows with exactly these, :func:`answer_weights` lets the answers teach, and
:func:`audit_answers` judges a detector by them. Arrays in, arrays out: no model is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from lpfuse._answer_audit import AnswerAudit, Estimate, audit_answers
from lpfuse._arrays.operations import Host
from lpfuse._checks.answers import check_answers, check_chances
from lpfuse._checks.arguments import check_count, check_number, check_share, check_values, one_a_row

__all__ = [
    "AnswerAudit", "Estimate", "answer_weights", "ask_each_unit_once", "audit_answers",
    "chances_of_asking", "draw_questions",
]  # fmt: skip

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
    pi, random = check_chances(chances, may_miss=False), check_random_state(random_state)
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
    _, unit = np.unique(one_a_row(units, a.size, "units", "name"), return_inverse=True)
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
    """Positions of n rows, each once."""
    along = one_a_row(order, n, "order", "position")
    if along.dtype.kind not in "iu" or not np.array_equal(np.sort(along), np.arange(n)):
        raise ValueError(
            f"order must hold each position from 0 to {n - 1} once. Pass np.argsort of something "
            "in which like rows are close."
        )
    return along.astype(np.intp)
