"""Records of candidates, certificates and solutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from lpfuse._arrays.operations import Array, Host
from lpfuse._files import NotBelowZero, saved_as

if TYPE_CHECKING:
    from lpfuse.optim.problem import Block


class Candidate(NamedTuple):
    """Proposal of a solver for one ball: a point and, optionally, a dual point.

    Attributes
    ----------
    point : array of shape (R,) or (R + 1,)
        The weights, and the intercept where one is fitted.
    alpha : array of shape (n,) or None
        Multipliers, one per row, for the hinge.
    dual_weights : array of shape (R,) or None
        The weights w̃ of the multipliers ``loss′(r(w̃))``, for least squares.
    """

    point: Host
    alpha: Array | None = None
    dual_weights: Host | None = None


class Outcome(NamedTuple):
    """Result of a solver for one ball."""

    n_iter: int
    candidate: Candidate | None = None  # final candidate; None where it was examined already
    stopped: bool = False  # by its own stopping rule rather than by the limit of steps
    own_passes: float = 0.0  # passes for this ball only


class Watch(NamedTuple):
    """A statistic to compute in a certifying pass.

    ``work(block, r, α)`` is called for each block and candidate, ``merge`` combines the results.
    The certificate does not depend on it.
    """

    work: Callable[[Block, Array, Array | None], Any]
    merge: Callable[[list[Any]], Any]


class Bounds(NamedTuple):
    """Primal and dual value of a candidate, with bounds of their rounding errors."""

    primal: float
    dual: float
    primal_error: float = 0.0
    dual_error: float = 0.0
    pull: float = 0.0  # (Σ c α y s)ᵀw is at most this, for w in the ball
    watched: Any = None  # result of the solver's `Watch`


@saved_as("Certificate", status=("optimal", "rounding", "stopped", "max_iter"))
@dataclass(frozen=True)
class Certificate(NotBelowZero):
    """Bounds of the optimum: ``primal − gap ≤ optimum ≤ primal``.

    Both sides are floating-point sums. Their rounding error is bounded by `rounding` and included
    in the gap.

    Attributes
    ----------
    primal : float
        Value f(w, b) of the weights, as computed.
    dual : float
        A lower bound of the optimum, as computed from `alpha`: recompute it with
        ``Problem.dual_value(certificate.alpha)``.
    gap : float
        ``primal − dual + rounding``: an upper bound of the suboptimality. Neither it nor
        `relative_gap` and `rounding` are below 0.
    relative_gap : float
        ``gap / max(primal, 1e-3 Σ c)``.
    passes : float
        Number of passes over the scores; a subsample counts by its share, and the validation of
        Dask scores counts, too.
    status : str
        "optimal" when the relative gap is within the tolerance, "rounding" when it would be without
        `rounding` (double precision is not enough: scale or centre the scores), "stopped" when the
        solver met its own stopping rule first, "max_iter" when it reached the limit of steps.
    rounding : float
        Upper bound of the rounding error of both sides together.
    alpha : array of shape (n,) or None
        The dual point, in [0, 1], for the hinge: on the device of the scores, and lazy for Dask
        scores.
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

    # A gap below 0 would pass every comparison with a tolerance.
    not_below_zero: ClassVar[tuple[str, ...]] = ("gap", "relative_gap", "rounding")

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
