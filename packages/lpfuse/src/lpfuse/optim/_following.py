r"""Weights that follow: a gradient learner over the ball, and a mixture that cannot lose much.

Rounds t = 1, 2, … bring convex losses; a strategy names a point of a convex set before it sees the
loss. `SafeMixture` stands between two strategies: beside one, the *base*, its regret is a constant,
however many rounds there are; beside the other it grows like the root of the squared differences.
It is (A, B)-Prod of Sani, Neu and Lazaric (2014), averaged over a grid of learning rates, so that
neither the number of rounds nor the size of the losses has to be known. `GradientLearner` is
projected gradient descent with the step of AdaGrad's norm version, which competes with the best
fixed point.

References
----------
Sani, Neu and Lazaric (2014). Exploiting easy data in online optimization. NeurIPS 27.

Even-Dar, Kearns, Mansour and Wortman (2008). Regret to the best vs. regret to the average. Machine
Learning 72, 21–37.

Cutkosky (2020). Better full-matrix regret via parameter-free online learning. NeurIPS 33. (gains
that are not heard once the share is 1)

Streeter and McMahan (2010). Less regret via online conditioning. arXiv 1002.4862. (the step)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._saved import saved_as
from lpfuse.optim.balls import LpBall

# Learning rates of the mixture: 1/2, 1/4, …, in units of one over the first scale. Forty of them
# serve losses that grow a millionfold over a million million rounds.
N_RATES = 40
# 2^-k: what account k holds of the capital, and its rate in units of one over the first scale.
SHARES = 2.0 ** -np.arange(1.0, N_RATES + 1)
# What may be lost to the base before trust in the other strategy is gone, in units of the scale:
# with it the share of the other one starts at exactly 1, for Σ 2^-k · 2^-k = 1/3.
CAPITAL = 3.0
# How far outside the ball, relatively, is inside: far above rounding, far below what weights mean.
INSIDE = 1e-9
MOST_CUTS = 50  # halfspaces cut before a point is scaled into the ball; two or three are usual


@saved_as("SafeMixture")
class SafeMixture:
    r"""How much to trust another strategy beside a base, so that next to nothing can be lost.

    With gains :math:`g_t = \ell_t(\text{base}) - \ell_t(\text{other})` and the share
    :math:`\beta_t` of the other one, convex losses make
    :math:`\ell_t(\text{mix}) \le \ell_t(\text{base}) - \beta_t g_t`. For each rate η_k there is an
    account :math:`W_k`, from which the part η_k is staked on the next gain:

    .. math:: \beta_t = \min\Big(1, \sum_k \eta_k W_k\Big), \qquad
        W_k \leftarrow W_k (1 + \eta_k g_t)

    with no stake above 1/(2h), where h is the largest :math:`|g|` so far; gains are not heard while
    the sum is above 1, and are cut to ±h of the rounds before.

    Parameters
    ----------
    scale : float
        A first guess of h, above 0.

    Attributes
    ----------
    share : float
        :math:`\beta_t` of the round to come. It starts at 1.
    scale : float
        h.

    Notes
    -----
    With :math:`h` and :math:`V = \sum \tilde g_t^2` after T rounds, :math:`\tilde g_t` the gains
    that were heard, a_k the first capital of account k, and any number of refills:

    .. math::

        \sum_t \ell_t(\text{mix}) - \ell_t(\text{base}) &\le 7 h, \\
        \sum_t \ell_t(\text{mix}) - \ell_t(\text{other}) &\le 7 h + \min_{k: \eta_k \le 1/2h}
        \Big\{ \eta_k V + \frac{1}{\eta_k} \Big( \ln \frac{1}{a_k \eta_k} - 1 \Big) \Big\}

    *Proof.* Let z be the sum of the stakes, β = min(1, z), and :math:`\tilde g = 0` where z > 1 and
    the gain is positive. For u = 0 and u = 1 :math:`(u - \beta) g \le (u - z) \tilde g`: equal
    where z ≤ 1; else β = 1, and the left side is :math:`(u - 1) g`, which is at most 0 for g > 0
    and, for g ≤ 0, at most :math:`(u - z) g`. All accounts together hold what was paid in,
    :math:`C \le 3h + 3h`, and :math:`\sum z_t \tilde g_t`; no stake exceeds half an account, so
    they are never negative. With u = 0 the first line follows, h more for gains that were cut,
    since what is cut off adds up to h at most. With u = 1 the sum is at most
    :math:`\sum \tilde g_t - \sum_k W_k + 7h`, and as :math:`1 + x \ge e^{x - x^2}` for
    :math:`|x| \le 1/2`, :math:`W_k \ge a_k e^{\eta_k G - \eta_k^2 V}` with
    :math:`G = \sum \tilde g_t`; the largest value of :math:`G - W_k` over all G is the second line.
    Best is about :math:`\sqrt{V \ln V}`.

    Examples
    --------
    >>> mixture = SafeMixture(1.0)
    >>> round(mixture.share, 6)
    1.0
    >>> for _ in range(100):  # the other strategy loses, round after round
    ...     mixture.update(-1.0)
    >>> mixture.share < 1e-3, mixture.bound_to_base()
    (True, 7.0)
    """

    def __init__(self, scale: float) -> None:
        self.scale = self.first_scale = float(scale)
        self.wealth = CAPITAL * self.scale * SHARES
        self.squares = 0.0
        self.refills = 0
        self._stake()

    def _stake(self) -> None:
        """The stakes of the round to come, as parts of the accounts, and their sum."""
        self.parts = np.minimum(SHARES / self.first_scale, 0.5 / self.scale)
        self.stake = float(self.parts @ self.wealth)

    @property
    def share(self) -> float:
        """The share of the other strategy in the round to come."""
        return min(self.stake, 1.0)

    def update(self, gain: float) -> None:
        """Hear by how much the other strategy was better than the base in this round."""
        heard = min(max(gain, -self.scale), self.scale)
        if not (heard > 0.0 and self.stake > 1.0):
            self.wealth = self.wealth * (1.0 + heard * self.parts)
            self.squares += heard * heard
            self.stake = float(self.parts @ self.wealth)
        size = abs(gain)
        if size > self.scale:
            self.wealth = self.wealth + CAPITAL * (size - self.scale) * SHARES
            self.scale = size
            self._stake()

    def refill(self) -> None:
        """Give the other strategy a new chance, as it has changed; all refills add up to 3h."""
        self.refills += 1
        added = CAPITAL * self.scale / (self.refills * (self.refills + 1))
        self.wealth = self.wealth + added * SHARES
        self._stake()

    def bound_to_base(self) -> float:
        """Return what can have been lost to the base so far, proven."""
        return 7.0 * self.scale

    def bound_to_other(self) -> float:
        """Return what can have been lost to the other strategy so far, proven."""
        rates = SHARES / self.first_scale
        allowed = rates <= 0.5 / self.scale
        rate, paid = rates[allowed], CAPITAL * self.first_scale * SHARES[allowed]
        if not rate.size:  # losses have grown a million millionfold
            return np.inf
        lost = rate * self.squares + (-np.log(paid * rate) - 1.0) / rate
        return float(lost.min()) + 7.0 * self.scale


@saved_as("GradientLearner")
@dataclass(eq=False)
class GradientLearner:
    r"""Projected gradient descent over weights in the ball, and an intercept in an interval.

    .. math:: w_{t+1} = \Pi\big(w_t - \eta_t g_t\big), \qquad
        \eta_t = \frac{D}{\sqrt{2 G_t}}, \qquad G_t = G_0 + \sum_{s \le t} \|g_s\|^2

    with D the diameter of the ball; the same for the intercept, by itself.

    Attributes
    ----------
    point : ndarray of shape (R + 1,)
        Weights and intercept.
    low, high : float
        The interval of the intercept.
    diameter : float
        Of the ball.
    squares : ndarray of shape (2,)
        G of weights and of the intercept. :math:`G_0` are squared slopes of rows that the first
        point was learnt from, lest the first step leads away from it.

    Notes
    -----
    For all weights u in the ball and all intercepts in the interval, with squared slopes
    :math:`G_w` and :math:`G_b` in all, :math:`G_0` included,

    .. math:: \sum_t \ell_t(w_t, b_t) - \ell_t(u, b) \le \sqrt 2
        \big( D_w \sqrt{G_w} + D_b \sqrt{G_b} \big)

    since convexity makes it a sum over both blocks of
    :math:`\langle g_t, w_t - u \rangle \le (\|w_t - u\|^2 - \|w_{t+1} - u\|^2) / 2\eta_t
    + \eta_t \|g_t\|^2 / 2`, which telescopes to :math:`D^2 / 2\eta_T` and
    :math:`D \sqrt{G / 2}`. Of the projection only this was used, that it brings a point
    nearer to all points of the ball: see `drawn_in`.
    """

    point: Host
    low: float
    high: float
    diameter: float
    squares: Host

    @classmethod
    def start(
        cls, ball: LpBall, point: Host, reach: float = 0.0, squares: Host | None = None
    ) -> GradientLearner:
        """At a point of the ball, with slopes of rows that it was learnt from.

        Parameters
        ----------
        ball : LpBall
            Where the weights are.
        point : ndarray of shape (R + 1,)
            Weights and intercept.
        reach : float
            How far the intercept may go from there; 0: it stays.
        squares : ndarray of shape (2,), optional
            :math:`G_0` of weights and of the intercept.
        """
        b, before = float(point[-1]), np.zeros(2) if squares is None else squares.copy()
        diameter = diameter_of(ball, len(point) - 1)
        return cls(point.copy(), b - reach, b + reach, diameter, before)

    def update(self, ball: LpBall, slope: Host) -> None:
        """Move against the slope of the loss, of shape (R + 1,), at `point`."""
        of_weights, of_intercept = slope[:-1], float(slope[-1])
        size = float(of_weights @ of_weights)
        if size > 0.0:
            self.squares[0] += size
            step = self.diameter / sqrt(2.0 * self.squares[0])
            self.point[:-1] = drawn_in(ball, self.point[:-1] - step * of_weights)
        if of_intercept != 0.0 and self.high > self.low:
            self.squares[1] += of_intercept**2
            step = (self.high - self.low) / sqrt(2.0 * self.squares[1])
            moved = float(self.point[-1]) - step * of_intercept
            self.point[-1] = min(max(moved, self.low), self.high)

    def bound(self) -> float:
        """Return what can have been lost to the best fixed point so far, proven."""
        sizes = np.sqrt(2.0 * self.squares)
        # A millionth more, for points that are inside but for `INSIDE`.
        return float((1.0 + 1e-6) * (sizes @ [self.diameter, self.high - self.low]))


def diameter_of(ball: LpBall, R: int) -> float:
    """Return the Euclidean diameter of the ball, or a little more.

    Examples
    --------
    >>> diameter_of(LpBall(1.0), 9), diameter_of(LpBall(float("inf")), 9)
    (2.0, 6.0)
    """
    reach = ball.radius * R ** max(0.5 - 1.0 / ball.p, 0.0)
    # Without negative entries two points of a ball around 0 are at right angles at most.
    return reach * (sqrt(2.0) if ball.nonnegative and ball.centre is None else 2.0)


def drawn_in(ball: LpBall, x: Host) -> Host:
    """Return a point of the ball that is nearer than x to all points of the ball.

    Nearer, or as near, is all that gradient descent needs, and far cheaper than the nearest point:
    x is projected onto the halfspace that touches the ball's norm at x, ``nᵀ(w − w₀) ≤ r`` with n
    the slope of ``‖w − w₀‖_p`` there, and onto w ≥ 0, in turn. Each contains the ball, so no
    distance to a point of the ball grows. From one step outside two or three cuts are enough.

    Examples
    --------
    >>> drawn_in(LpBall(2.0), np.array([3.0, 4.0])).round(6)
    array([0.6, 0.8])
    """
    radius, p, floor = ball.radius, ball.p, ball.nonnegative
    if radius == 0.0:
        return ball.preferred(x.size) if ball.centre is not None else np.zeros_like(x)
    if p == np.inf:
        v = np.clip(ball.from_centre(x), -radius, radius)
        return ball.scale_into(ball.at(v))
    for _ in range(MOST_CUTS):
        if floor:
            x = np.maximum(x, 0.0)
        v = ball.from_centre(x)
        norm = ball.norm(v)
        if norm <= radius * (1.0 + INSIDE):
            break
        normal = np.sign(v) * (np.abs(v) / norm) ** (p - 1.0)
        x = x - (norm - radius) / float(normal @ normal) * normal
    return ball.scale_into(x)
