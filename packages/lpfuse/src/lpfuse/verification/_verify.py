"""The entrance of the checker: which fit, which rows, and in which arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import to_host
from lpfuse._checks.arguments import check_labels, check_sample_weight
from lpfuse._checks.tables import check_scores, column_names
from lpfuse._format import quote
from lpfuse.verification._claims import Fit, Verification
from lpfuse.verification._problem import Stated
from lpfuse.verification._rows import CompensatedRows, ExactRows, OutOfRangeError, Rows

# Scores up to this many are read in rational numbers at once, which takes 0.2 to 0.4 s; more, in
# pairs of floats, at 0.1 to 0.3 µs each instead of 2 to 4, and in rational numbers where those
# leave a doubt.
EXACT_SCORES = 100_000
PARAMETERS = {
    "p", "loss", "tol", "class_weight", "fit_intercept", "nonnegative", "imaginary_anomalies",
    "prior", "radius",
}  # fmt: skip


def verify(fusion: Any, S: Any = None, y: Any = None, sample_weight: Any = None) -> Verification:
    r"""Check the certificate of fitted weights, by code that shares nothing with the solver.

    The problem is stated anew from the rows and the parameters of the fusion. Of the fit only its
    weights, its intercept and its certificate are read, and both sides of

    .. math::

        \sum_i c_i \operatorname{gain}(\alpha_i) - \max_{\|w - w_0\|_p \le r} v^\top w
        \;\le\; \text{optimum} \;\le\; f(w, b), \qquad v = \sum_i c_i \alpha_i y_i s_i

    are recomputed: in rational numbers up to 100,000 scores, with compensated sums and a proven
    bound of their rounding beyond, and in rational numbers where that leaves a doubt.

    Parameters
    ----------
    fusion : LpFusion or FusedDetector
        Fitted, with a ``certificate_``.
    S : array-like of shape (n, R)
        The scores that it was fitted to. Not for a `FusedDetector`, which keeps them.
    y : array-like of shape (n,), optional
        The labels, as in ``fit``.
    sample_weight : array-like of shape (n,), optional
        The weights of the rows, as in ``fit``.

    Returns
    -------
    Verification
        Whether it `holds`, both sides between two floats each, and what does not hold, in
        sentences: weights outside the ball, other rows than those of the fit, a gap that the dual
        point does not prove.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import LpFusion, verify
    >>> S = np.array([[0.9, 0.2], [0.8, -0.4], [-0.7, 0.3], [-0.9, -0.2]])
    >>> y = np.array([1, 1, -1, -1])
    >>> fusion = LpFusion(p=2).fit(S, y)
    >>> found = verify(fusion, S, y)
    >>> found.holds, found.arithmetic, found.relative_gap <= 1e-8
    (True, 'exact', True)
    >>> fusion.weights_ = fusion.weights_[::-1]
    >>> print(verify(fusion, S, y))
    The certificate does not hold, recomputed in exact arithmetic: These rows give the weights
    the value ..., where ... was claimed: ...
    """
    if S is None:
        fusion, S, y, sample_weight = _kept_by(fusion, y, sample_weight)
    parameters = _parameters_of(fusion)
    names = column_names(S, fusion)
    scores = to_host(check_scores(S, estimator=fusion))
    n = len(scores)
    labels, weights = check_labels(y, n), check_sample_weight(sample_weight, n)
    ones = np.ones(n)
    stated = Stated.of(
        scores,
        ones if labels is None else labels,
        ones if weights is None else weights,
        names,
        parameters,
    )
    fit = Fit.of(fusion, parameters, stated)
    kinds: list[type[Rows]] = [ExactRows]
    if scores.size > EXACT_SCORES:
        kinds = [CompensatedRows, ExactRows]
    for kind in kinds:
        try:
            found = fit.judged(stated, kind)
        except OutOfRangeError:
            continue
        if found is not None:
            return found
    raise AssertionError("exact arithmetic leaves no doubt")


def _kept_by(fused: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any, Any]:
    """The fusion inside a `FusedDetector`, and the rows that it was learnt from."""
    kept = getattr(fused, "out_of_fold_", None)
    if kept is None or not hasattr(fused, "fusion_"):
        check_is_fitted(fused)
        raise TypeError(
            f"{quote(type(fused).__name__)} keeps no scores of its training rows: pass those that "
            "it was fitted to, verify(fusion, S, y, sample_weight)."
        )
    if y is not None or sample_weight is not None:
        raise TypeError(
            "A FusedDetector keeps the scores, labels and weights that its fusion was learnt from: "
            "call verify(fused) without y and sample_weight."
        )
    usable = kept.usable
    S, labels = kept.scores[usable], kept.labels[usable]
    # The scale of the fit, which normal rows set: `recalibrate` may have moved `scaler_` since.
    scaler = clone(fused.scaler_).fit(S[labels > 0])
    return fused.fusion_, np.asarray(scaler.transform(S)), labels, kept.weights_of(usable)


def _parameters_of(fusion: Any) -> Mapping[str, Any]:
    """What the problem is stated by; a fusion that proves nothing is refused."""
    check_is_fitted(fusion)
    parameters: dict[str, Any] = fusion.get_params(deep=False)
    if not (hasattr(fusion, "certificate_") and parameters.keys() >= PARAMETERS):
        raise TypeError(
            f"{quote(type(fusion).__name__)} comes without a certificate, so there is nothing to "
            "verify. Weights with a proof are those of LpFusion, also inside a FusedDetector."
        )
    return parameters
