"""What solvers, the certifier and users hand to each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lpfuse._arrays.operations import Array, Host
from lpfuse._saved import ANY, saved_as

if TYPE_CHECKING:
    from lpfuse.optim.problem import Block


class Candidate(NamedTuple):
    """What a solver proposes for one ball: a point, and a dual point that may prove it.

    Attributes
    ----------
    point : array of shape (R,) or (R + 1,)
        The weights, and the intercept where one is fitted.
    alpha : array of shape (n,) or None
        Multipliers, one a row, for the hinge.
    dual_weights : array of shape (R,) or None
        The weights w̃ that stand for the multipliers ``loss′(r(w̃))``, for least squares.
    """

    point: Host
    alpha: Array | None = None
    dual_weights: Host | None = None


class Outcome(NamedTuple):
    """How a solver ended for one ball."""

    n_iter: int  # its steps
    candidate: Candidate | None = None  # its last word; None where it has been examined already
    stopped: bool = False  # by a rule of its own rather than for want of steps
    own_passes: float = 0.0  # over the scores, that served no other ball


class Watch(NamedTuple):
    """What a solver would like to learn from the same pass, while rows and residuals are at hand.

    ``work(block, r, α)`` is asked for each block and candidate, ``merge`` joins its answers. The
    certificate does not depend on it.
    """

    work: Callable[[Block, Array, Array | None], Any]
    merge: Callable[[list[Any]], Any]


class Bounds(NamedTuple):
    """Both sides of a candidate, each with what rounding may have done to it."""

    primal: float
    dual: float
    primal_error: float = 0.0
    dual_error: float = 0.0
    pull: float = 0.0  # (Σ c α y s)ᵀw is at most this, for w in the ball
    watched: Any = None  # what the solver's `Watch` has seen


@saved_as("Certificate", status=ANY)
@dataclass(frozen=True)
class Certificate:
    """Proof of how far weights can be from optimal: ``primal − gap ≤ optimum ≤ primal``.

    Both sides are sums of floating-point numbers. What their rounding can amount to at most is
    bounded and counted: the inequality holds for the numbers as they are, up to `rounding`.

    Attributes
    ----------
    primal : float
        Value f(w, b) of the weights, as computed.
    dual : float
        A lower bound of the optimum, as computed from `alpha`: recompute it with
        ``Problem.dual_value(certificate.alpha)``.
    gap : float
        ``primal − dual + rounding``: the weights are at most this much worse than the best ones.
    relative_gap : float
        ``gap / max(primal, 1e-3 Σ c)``.
    passes : float
        How often the scores were read; a subsample counts by its share, and of scores of Dask the
        pass that checks them too.
    status : str
        "optimal" when the relative gap is within the tolerance, "rounding" when it would be but for
        `rounding` (double precision cannot prove it: scale or centre the scores), "stopped" when
        the solver met its own stopping rule first, "max_iter" when it ran out of steps.
    rounding : float
        At most this much can rounding have changed both sides together.
    alpha : array of shape (n,) or None
        The dual point, in [0, 1], for the hinge: beside the scores, and lazy where these are of
        Dask.
    dual_weights : array of shape (R,) or None
        For least squares a dual point needs only R numbers, weights w̃ that may lie outside the
        ball: ``α = Problem.dual_point(dual_weights)``.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    passes: float
    status: str
    rounding: float = 0.0
    alpha: Array | None = field(default=None, repr=False, compare=False)
    dual_weights: Host | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return (
            f"{self.status}: value {self.primal:.6g}, at most {self.gap:.1e} above the optimum "
            f"(relative gap {self.relative_gap:.1e}, {self.passes:.1f} passes over the scores)"
        )


@dataclass(frozen=True)
class Solution:
    """Weights, intercept and certificate; `n_iter` counts the steps of the solver."""

    weights: Host
    intercept: float
    certificate: Certificate
    n_iter: int
