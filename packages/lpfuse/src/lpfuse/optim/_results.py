"""What a solve returns: weights with their certificate."""

from __future__ import annotations

from dataclasses import dataclass, field

from lpfuse._arrays.operations import Array, Host
from lpfuse._saved import ANY, saved_as


@saved_as("Certificate", status=ANY)
@dataclass(frozen=True)
class Certificate:
    """Proof of how far weights can be from optimal: ``dual ≤ optimum ≤ primal``.

    Attributes
    ----------
    primal : float
        Value f(w, b) of the weights.
    dual : float
        A lower bound of the optimum, proven by `alpha`: recompute it with
        ``Problem.dual_value(certificate.alpha)``.
    gap : float
        ``primal − dual``: the weights are at most this much worse than the best ones.
    relative_gap : float
        ``gap / max(primal, 1e-3 Σ c)``.
    passes : float
        How often the scores were read; a subsample counts by its share, and of scores of Dask the
        pass that checks them too.
    status : str
        "optimal" when the relative gap is within the tolerance, "stopped" when the solver met its
        own stopping rule first, "max_iter" when it ran out of steps.
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
