"""Fusion weights under an ℓp-norm constraint, with a certificate of optimality."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lpfuse._arrays import operations as ops
from lpfuse._arrays.blocks import meta_of
from lpfuse._arrays.operations import Array, Host
from lpfuse._base import WeightedSum
from lpfuse._files import ANY, saved_as
from lpfuse._format import quote
from lpfuse._validation import params, tables
from lpfuse._validation.dask_blocks import check_score_blocks, warn_constant_blocks
from lpfuse.optim import SOLVERS, Certificate, LpPath, Problem, solve, solve_path
from lpfuse.optim.distributed import BlockedProblem, Costs, stratified_sample
from lpfuse.optim.problem import LOSSES

# --------------------------------------------------------------------------------------------------
# Weights given by users: one a column, or by name


# Bound of prior weights and of the radius, chosen by hand: scores of 1e90 can still be fused.
LARGEST = 1e9


def check_prior(prior: Any, R: int, names: Sequence[str] | None, nonnegative: bool) -> Host:
    """Return the prior weights of R named columns as floats, ≥ 0 if `nonnegative`.

    Examples
    --------
    >>> check_prior({"svdd": 0.5, "knn": 1}, 2, ["knn", "gmm"], True)
    array([1., 0.])
    """
    weights = _check_column_weights(prior, R, names, "prior")
    if nonnegative and float(weights.min()) < 0.0:
        raise ValueError(
            f"prior holds a negative weight, {weights.min():g}, but nonnegative=True asks for "
            "weights ≥ 0. Use nonnegative=False, or a prior without it."
        )
    return weights


def check_weights(weights: Any, R: int, names: Sequence[str] | None) -> Host:
    """Return weights ≥ 0 of R named columns, at least one positive, as floats.

    Examples
    --------
    >>> check_weights([1, 3], 2, None)
    array([1., 3.])
    """
    found = _check_column_weights(weights, R, names, "weights")
    if float(found.min()) < 0.0 or not found.any():
        raise ValueError(
            "weights must not be negative, and at least one must be positive, got "
            f"{quote(found.tolist())}. If a detector's scores are high for anomalies, flip their "
            "sign: see lpfuse.adapters."
        )
    return found


def _check_column_weights(weights: Any, R: int, names: Sequence[str] | None, called: str) -> Host:
    """Return finite weights, one for each of R columns."""
    found = params.check_values(_in_column_order(weights, names, called), called)
    if found.shape != (R,):
        raise ValueError(
            f"{called} has {found.size} weights, but there are {R} columns of scores. Give one "
            "weight a column, or a mapping from names of columns to weights."
        )
    refused = ~(np.abs(found) <= LARGEST)
    if refused.any():
        raise ValueError(
            f"{called} must be finite weights of at most {LARGEST:g}, got {found[refused][0]:g}. "
            "Scale the scores if weights must be larger."
        )
    return found


def _in_column_order(prior: Any, names: Sequence[str] | None, called: str) -> Any:
    """Order weights given by name like the columns; return anything else unchanged."""
    if hasattr(prior, "to_dict") and all(isinstance(key, str) for key in prior.index):
        prior = prior.to_dict()  # a named pandas series
    if not isinstance(prior, Mapping):
        return prior
    if names is None:
        raise ValueError(
            f"{called} is a mapping, but the columns of S have no names. Pass S as a data frame "
            f"with one column a detector, or {called} as one weight a column."
        )
    if not any(name in prior for name in names):
        raise ValueError(
            f"{called} has a weight for none of the columns: it names {quote(list(prior))}, the "
            f"columns are {quote(list(names))}. Name at least one of them."
        )
    return [prior.get(name, 0.0) for name in names]


def check_groups(groups: Any, R: int, names: Sequence[str] | None) -> Host:
    """Return the number of the group of each of R named columns, in order of appearance.

    Examples
    --------
    >>> check_groups(["kernel", "trees", "kernel"], 3, None)
    array([0, 1, 0])
    """
    if isinstance(groups, Mapping):
        if not any(name in groups for name in names or ()):
            raise ValueError(
                f"groups names {quote(list(groups))}, the columns of S are "
                f"{'without names' if names is None else quote(list(names))}. Pass S as a data "
                "frame with one column a detector, or groups as one label a column."
            )
        groups = [groups.get(name, name) for name in names or ()]
    labels = [groups] if isinstance(groups, str) or not np.iterable(groups) else list(groups)
    if len(labels) != R:
        raise ValueError(
            f"groups must have one label for each of {R} columns of scores, got "
            f"{quote(groups)}. Or pass a mapping from names of columns to labels."
        )
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return np.array([numbers[label] for label in labels])


# --------------------------------------------------------------------------------------------------
# Training scores: checked, on the host, without rows of weight zero


class LabelledScores(NamedTuple):
    """Scores of the rows to learn from, with their labels.

    Attributes
    ----------
    scores : ndarray of shape (n, R)
        High = normal.
    labels : ndarray of shape (n,)
        +1 normal, −1 anomaly; some row is normal.
    sample_weight : ndarray of shape (n,)
        How much each row counts; above 0.
    """

    scores: Host
    labels: Host
    sample_weight: Host

    @property
    def has_anomalies(self) -> bool:
        """Whether there are anomalies."""
        return bool((self.labels < 0).any())

    def balanced_weight(self) -> Host:
        """Return sample weights with equal totals of both classes and the same overall total."""
        totals = [float(self.sample_weight[self.labels == side].sum()) for side in (1.0, -1.0)]
        share = np.where(self.labels > 0, *(0.5 / total for total in totals))
        return self.sample_weight * share * sum(totals)


def labelled_scores(S: Any, y: Any, sample_weight: Any, *, warn: bool = False) -> LabelledScores:
    """Check the input of a fit; rows of weight 0 are dropped.

    Parameters
    ----------
    S : array-like of shape (n, R)
        Scores, high = normal.
    y : array-like of shape (n,), or None
        +1 normal, −1 anomaly; None: all rows are normal.
    sample_weight : array-like of shape (n,), or None
        How much each row counts; None: all the same.
    warn : bool, default=False
        Whether to warn about columns that carry no information.
    """
    checked = tables.check_scores(S)
    labels, weights = labels_and_weights(int(checked.shape[0]), y, sample_weight)
    if warn:
        tables.warn_uninformative_columns(checked, tables.column_names(S))
    kept = weights > 0
    return LabelledScores(ops.to_host(checked)[kept], labels[kept], weights[kept])


def labels_and_weights(n: int, y: Any, sample_weight: Any) -> tuple[Host, Host]:
    """Return labels ±1 and weights of n rows; by default all are normal with weight 1.

    At least one normal row must have a positive weight.
    """
    labels, weights = params.check_labels(y, n), params.check_sample_weight(sample_weight, n)
    labels = np.ones(n) if labels is None else labels
    weights = np.ones(n) if weights is None else weights
    if not weights[labels > 0].any():
        raise ValueError(
            "sample_weight is zero for every normal row, and of those that count y holds only −1 "
            "(anomaly). Give some normal row a weight above zero."
        )
    return labels, weights


# --------------------------------------------------------------------------------------------------
# The estimator and the path

IMAGINARY_SCORE = -2.0  # twice as far out as the lower threshold of a signed scale (docs/adr/0006)
# The values of p in the paper's experiments.
PAPER_GRID = (32 / 31, 16 / 15, 8 / 7, 4 / 3, 2.0, 4.0, 8.0, 10.0, 100.0)


@saved_as(
    "LpFusion",
    loss=LOSSES,
    solver=("auto", *SOLVERS),
    class_weight=("balanced",),
    prior=ANY,
    groups=ANY,
)
class LpFusion(WeightedSum):
    r"""Fuse detectors by a weighted sum whose weights are learnt under an ℓp-norm constraint.

    .. math::

        \min_{w, b} \sum_i c_i \max(0, 1 - y_i (s_i^\top w + b))
        \quad \text{subject to} \quad \|w - w_0\|_p \le r

    where row ``s_i`` holds the R scores of sample i, high = normal, and ``y_i`` is +1 for normal
    and −1 for anomalous samples. p = 1 favours a single detector, p = ∞ uses all of them. Without
    a prior the ball is ``‖w‖_p ≤ 1``; with one, the data move the weights by at most r from the
    given weights w₀. Every fit has a `Certificate`, which bounds how far the weights are from
    optimal.

    Parameters
    ----------
    p : float in [1, inf], default=4/3
        Exponent of the norm. The default is the safest without labels; with a hundred labelled
        anomalies 2 was better on the development sets (``docs/adr/0003``).
    loss : {"hinge", "least_squares"}, default="hinge"
        ``max(0, r)`` or ``r²`` of the residual ``r = 1 − y(sᵀw + b)``.
    solver : {"auto", "interior-point", "frank-wolfe", "smoothed-frank-wolfe"}, default="auto"
        "auto" and "interior-point" are the certified solver. "frank-wolfe" is Algorithm 1 of the
        paper, which need not converge; its certificate gives the gap reached. The smoothed variant
        converges slowly.
    tol : float, default=1e-8
        Relative gap to reach. For the Frank–Wolfe solvers also the largest change of a weight at
        which they stop.
    class_weight : {None, "balanced"}, default=None
        "balanced" gives normal and anomalous rows the same total cost. Advisable whenever there are
        labelled anomalies: they are few and hardly affect an unweighted sum.
    fit_intercept : bool, default=False
        Whether to learn b. Without anomalies b is not identified and stays 0.
    nonnegative : bool, default=False
        Whether weights must be ≥ 0. Advisable with few anomalies: no detector is then inverted.
    max_iter : int, default=None
        Limit of solver steps; None: 200 for the interior point, 1000 for Frank–Wolfe.
    imaginary_anomalies : float, default=0.0
        The cost of one further row, an anomaly to which every detector gives the score −2, well
        below its usual range [−1, 1]; it counts for this many labelled anomalies. It encodes the
        prior belief that detectors are useful: with few labels, or none, the weights stay near
        uniform. About 3 is advisable with an intercept, which it makes learnable from
        normal rows alone, and `class_weight="balanced"` (``docs/adr/0006``).
    prior : array-like of shape (R,) or mapping, default=None
        The centre w₀ of the ball: one weight a detector, or weights by name of the column. A
        mapping may name absent detectors; detectors that it does not name have the weight 0. Not
        negative with `nonnegative`. None: 0, the centre of the paper's ball.
    radius : float, default=1.0
        r, the distance of the weights from the prior at most. 0 keeps the prior and learns only b.
    groups : array-like of shape (R,) or mapping, default=None
        The family of each detector: one label a column, or labels by name of the column; columns
        that a mapping does not name are families of their own. The norm is then that of p over
        families, of their norms of q: p=1, q=2 leaves out whole families; p=2, q=1 chooses within
        each of them. Not with `nonnegative` and a prior together.
    q : float in [1, inf], default=2.0
        Exponent of the norm within a family. Only with `groups`.

    Attributes
    ----------
    weights_ : ndarray of shape (R,)
        The weight of each detector.
    intercept_ : float
        b; 0 without `fit_intercept`.
    offset_ : float
        ``−intercept_``: scores from here on count as normal.
    certificate_ : Certificate
        Value, lower bound, gap and relative gap of the weights, with the dual point.
    n_iter_ : int
        Steps of the solver.
    prior_ : ndarray of shape (R,) or None
        The prior in the order of the columns.
    groups_ : ndarray of shape (R,) or None
        The number of the family of each detector, in order of appearance.
    n_features_in_ : int
        Number of detectors R.
    feature_names_in_ : ndarray of shape (R,)
        Names of the detectors, when `S` had them.

    Notes
    -----
    Scores should be on one scale (`TwoSidedMinMax`, `TailScaler`) and come from rows that the
    detectors were not fitted on; `fit` warns where columns spread a hundred times as much as
    others. With scores in [0, 1] and no intercept, no weight vector can push anomalies below −1;
    use signed scores.

    Without anomalies and with p near 1 the weights favour the detector with the highest mean score,
    even one that calls everything normal.

    If the minimum is 0, the optimal weights are not unique; those nearest to the prior, or to
    uniform without one, are returned, and the compiled and the NumPy solver agree. If the minimum
    is above 0 and several weights attain it (equal or opposite columns, p = 1 or ∞), any of them
    may be returned: each is certified, and the two solvers need not agree. The same holds where an
    optimum is unique only within `tol` or rounding: columns that are equal but for 1e-9, scales of
    columns that span many orders of magnitude, and p > 2 with weights that hardly change the value.
    There, the status can differ as well.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import LpFusion
    >>> S = np.array([[0.9, 0.2], [0.8, -0.4], [-0.7, 0.3], [-0.9, -0.2]])
    >>> y = np.array([1, 1, -1, -1])
    >>> fusion = LpFusion(p=2).fit(S, y)
    >>> fusion.weights_.round(3)
    array([ 0.996, -0.091])
    >>> fusion.predict(S)
    array([ 1,  1, -1, -1])
    >>> fusion.certificate_.status, fusion.certificate_.relative_gap <= 1e-8
    ('optimal', True)

    Weights known from other tables, which may change by a tenth:

    >>> LpFusion(p=2, prior=[0.6, 0.5], radius=0.1).fit(S, y).weights_.round(3)
    array([0.7  , 0.491])
    """

    intercept_: float
    certificate_: Certificate
    n_iter_: int
    prior_: Host | None
    groups_: Host | None

    def __init__(
        self,
        p: float = 4 / 3,
        loss: Literal["hinge", "least_squares"] = "hinge",
        solver: str = "auto",
        tol: float = 1e-8,
        class_weight: Literal["balanced"] | None = None,
        fit_intercept: bool = False,
        nonnegative: bool = False,
        max_iter: int | None = None,
        imaginary_anomalies: float = 0.0,
        prior: Any = None,
        radius: float = 1.0,
        groups: Any = None,
        q: float = 2.0,
    ) -> None:
        self.p = p
        self.loss = loss
        self.solver = solver
        self.tol = tol
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.nonnegative = nonnegative
        self.max_iter = max_iter
        self.imaginary_anomalies = imaginary_anomalies
        self.prior = prior
        self.radius = radius
        self.groups = groups
        self.q = q

    def fit(self, S: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the weights.

        Parameters
        ----------
        S : array-like, or Dask array or data frame, of shape (n, R)
            Scores, high = normal. Dask collections stay in their blocks: every pass is one
            reduction on the Dask scheduler.
        y : array-like, or Dask array or series, of shape (n,), optional
            +1 normal, −1 anomaly. Without it all rows are normal.
        sample_weight : array-like, or Dask array or series, of shape (n,), optional
            The costs c_i of the rows.

        Returns
        -------
        LpFusion
            The fitted estimator.
        """
        problem = self._problem(S, y, sample_weight, params.check_p(self.p))
        solution = solve(problem, solver=self.solver, tol=self.tol, max_iter=self.max_iter)
        tables.record_columns(self, meta_of(S) if ops.is_blocked(S) else S)
        self.weights_ = solution.weights
        self.intercept_ = solution.intercept
        self.certificate_ = solution.certificate
        self.n_iter_ = solution.n_iter
        self.prior_ = problem.ball.centre
        self.groups_ = getattr(problem.ball, "of", None)
        _warn_if_not_optimal(solution.certificate, self.tol, self.solver)
        _warn_if_zero(solution.weights, self.radius)
        return self

    def _problem(self, S: Any, y: Any, sample_weight: Any, p: float) -> Problem:
        """Validate the input and return the problem; nothing is changed before."""
        self._check_parameters()
        if ops.is_blocked(S):
            return self._blocked_problem(S, y, sample_weight, p)
        names = tables.column_names(S)
        S = tables.check_scores(S)
        labels, weight = params.check_labels_like(y, S), params.check_weights_like(sample_weight, S)
        tables.warn_uninformative_columns(S, names)
        tables.warn_doubtful_scores(S, labels, names)
        centre = self._centre(int(S.shape[1]), names)
        if self.imaginary_anomalies:
            S, labels, weight = self._add_imaginary(S, labels, weight)
        if labels is not None and ops.smallest(labels) > 0:
            labels = None
        problem = Problem(
            S,
            labels,
            p=p,
            costs=self._costs(labels, weight),
            loss=self.loss,
            nonnegative=self.nonnegative,
            fit_intercept=self.fit_intercept and labels is not None,
            centre=centre,
            radius=self.radius,
            **self._norm(int(S.shape[1]), names),
        )
        problem.costs_error = self._costs_error
        return problem

    def _blocked_problem(self, S: Any, y: Any, sample_weight: Any, p: float) -> Problem:
        """Validate and sample the blocks of a Dask collection in one pass; return the problem."""
        more = None
        if self.imaginary_anomalies:
            more = IMAGINARY_SCORE, -1.0, float(self.imaginary_anomalies)
        checked = check_score_blocks(S, y, sample_weight, stratified_sample, more)
        warn_constant_blocks(checked)
        tables.warn_duplicate_columns(
            checked.also.S, tables.is_constant(checked.low, checked.high), checked.names
        )
        tables.warn_unequal_scales(checked.also.S[checked.also.y > 0], checked.names)
        problem = BlockedProblem(
            checked,
            Costs(*self._class_factors(*checked.mass)),
            p=p,
            loss=self.loss,
            nonnegative=self.nonnegative,
            fit_intercept=self.fit_intercept and checked.rows[1] > 0,
            centre=self._centre(len(checked.low), checked.names),
            radius=self.radius,
            **self._norm(len(checked.low), checked.names),
        )
        problem.costs_error = self._costs_error
        return problem

    def _centre(self, R: int, names: Sequence[str] | None) -> Host | None:
        if self.prior is None:
            return None
        return check_prior(self.prior, R, names, self.nonnegative)

    def _norm(self, R: int, names: Sequence[str] | None) -> dict[str, Any]:
        """Return what else than p the norm has: q and the groups of R named columns."""
        if self.groups is None:
            return {}
        groups = check_groups(self.groups, R, names)
        return {"groups": groups.tolist(), "q": params.check_p(self.q, "q")}

    def _add_imaginary(
        self, S: Array, labels: Array | None, weight: Array | None
    ) -> tuple[Array, Array, Array]:
        """Append one row: an anomaly that all detectors agree on."""
        n, R = S.shape
        row = ops.namespace(S).reshape(ops.filled(R, IMAGINARY_SCORE, S), (1, R))
        row = ops.namespace(S).astype(row, S.dtype)
        labels = ops.filled(n, 1.0, S) if labels is None else labels
        weight = ops.filled(n, 1.0, S) if weight is None else weight
        more = ops.filled(1, -1.0, S), ops.filled(1, float(self.imaginary_anomalies), S)
        return (
            ops.concatenate([S, row]),
            ops.concatenate([labels, more[0]]),
            ops.concatenate([weight, more[1]]),
        )

    def _costs(self, labels: Array | None, weight: Array | None) -> Array | None:
        if labels is None or self.class_weight is None:
            return weight
        mass = abs(labels) if weight is None else weight
        # Each class is summed separately: a small one would be lost in a difference of sums.
        sums = (
            ops.accurate_total(mass * ops.as_float64(side)) for side in (labels > 0, labels < 0)
        )
        factors = self._class_factors(*sums)
        return mass * ops.namespace(labels).where(labels > 0, *(f + 0.0 * mass for f in factors))

    def _class_factors(self, normal: float, anomalies: float) -> tuple[float, float]:
        """Return the factors of the costs of normal rows and anomalies, given their sums."""
        if self.class_weight is None or not normal or not anomalies:
            return 1.0, 1.0
        if min(normal, anomalies) < params.LEAST_WEIGHT:
            raise ValueError(
                f"sample_weight of the normal rows adds up to {normal:.3g}, of the anomalies to "
                f'{anomalies:.3g}: class_weight="balanced" divides by them, so both must exceed '
                f"{params.LEAST_WEIGHT:g}. Raise the weights of the lighter class, or drop its "
                "rows."
            )
        everything = normal + anomalies
        return 0.5 * everything / normal, 0.5 * everything / anomalies

    @property
    def _costs_error(self) -> float:
        """Relative rounding error of balanced costs: three sums, a quotient and a product."""
        return 8 * 2.0**-53 if self.class_weight == "balanced" else 0.0

    def _check_parameters(self) -> None:
        params.check_choice("loss", self.loss, list(LOSSES))
        params.check_choice("solver", self.solver, ["auto", *SOLVERS])
        params.check_choice("class_weight", self.class_weight, [None, "balanced"])
        params.check_number("tol", self.tol, above=0, at_most=1)
        params.check_number("imaginary_anomalies", self.imaginary_anomalies, at_least=0)
        params.check_number("radius", self.radius, at_least=0, at_most=LARGEST)
        if self.groups is not None and self.nonnegative and self.prior is not None:
            raise ValueError(
                "groups with a prior do not keep weights ≥ 0: use nonnegative=False, or no prior."
            )
        if self.max_iter is not None:
            params.check_count("max_iter", self.max_iter)

    @property
    def offset_(self) -> float:
        """Scores from here on count as normal."""
        return -self.intercept_


def lp_path(
    S: Any,
    y: Any = None,
    *,
    ps: Sequence[float] = PAPER_GRID,
    sample_weight: Any = None,
    **parameters: Any,
) -> LpPath:
    """Compute fusion weights for a grid of p, sharing work between them.

    Parameters
    ----------
    S : array-like, or Dask array or data frame, of shape (n, R)
        Scores, high = normal.
    y : array-like, or Dask array or series, of shape (n,), optional
        +1 normal, −1 anomaly. Without it all rows are normal.
    ps : sequence of float
        The grid; by default the nine values of the paper.
    sample_weight : array-like of shape (n,), optional
        The costs c_i of the rows.
    **parameters
        Parameters of `LpFusion`, except `p` and `solver`.

    Returns
    -------
    LpPath
        With ``ps``, ``weights`` (one row a p), ``intercepts`` and ``certificates``.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import lp_path
    >>> S = np.random.default_rng(0).normal([1.0, 0.5, 0.1], 0.5, size=(200, 3))
    >>> path = lp_path(S, ps=[1, 2, float("inf")])
    >>> path.weights.round(2)
    array([[1.  , 0.  , 0.  ],
           [0.88, 0.47, 0.1 ],
           [1.  , 1.  , 0.23]])
    """
    for name in {"p", "solver"} & parameters.keys():
        raise TypeError(f"lp_path does not accept {name}: it solves for every p of ps.")
    fusion = LpFusion(**parameters)
    grid = [params.check_p(p) for p in ps]
    if not grid:
        raise ValueError("ps is empty: give at least one p in [1, inf].")
    problem = fusion._problem(S, y, sample_weight, grid[0])
    solutions = solve_path(problem, grid, tol=fusion.tol, max_iter=fusion.max_iter)
    for solution in solutions:
        _warn_if_not_optimal(solution.certificate, fusion.tol, fusion.solver)
    return LpPath(
        np.array(grid),
        np.stack([solution.weights for solution in solutions]),
        np.array([solution.intercept for solution in solutions]),
        [solution.certificate for solution in solutions],
    )


def _warn_if_zero(weights: Host, radius: float) -> None:
    if float(np.abs(weights).max()) < 1e-6 * min(radius or 1.0, 1.0):
        warnings.warn(
            "The best weights are zero: under these costs no detector separates the classes, and "
            "fused scores carry no information. Check the direction of the scores (high = normal), "
            "or try fit_intercept=False.",
            UserWarning,
            stacklevel=3,
        )


def _warn_if_not_optimal(certificate: Certificate, tol: float, solver: str) -> None:
    if certificate.status == "optimal":
        return
    if certificate.status == "rounding":
        remedy = "Rounding limits the certificate: scale and centre the scores, or raise tol."
    elif "frank" in solver:
        remedy = 'solver="auto" reaches it.'
    else:
        remedy = "Rescale the scores, raise max_iter, or accept a larger tol."
    warnings.warn(
        f"The weights are within a relative gap of {certificate.relative_gap:.1e} of the best "
        f"ones, short of tol={tol:.1e} ({certificate.status}). {remedy}",
        ConvergenceWarning,
        stacklevel=3,
    )
