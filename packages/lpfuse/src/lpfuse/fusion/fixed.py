"""Fixed fusion rules, which learn nothing: the baseline for those that do."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.random import sample_without_replacement
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays import operations as ops
from lpfuse._arrays.blocks import meta_of
from lpfuse._arrays.operations import Array, Host
from lpfuse._base import WeightedSum, lazily, rows_by_gaps
from lpfuse._files import saved_as
from lpfuse._validation import params
from lpfuse._validation.dask_blocks import check_score_blocks
from lpfuse._validation.tables import check_scores, column_names, record_columns
from lpfuse.fusion.lp import check_weights

Fuse = Callable[[Array, "FixedRule"], Array]


@dataclass(frozen=True)
class Rule:
    """An entry of the table ``RULES``.

    Attributes
    ----------
    fuse : callable, or None
        ``fuse(S, settings) -> scores``: from an array of shape (n, R), of any library, and the
        fitted `FixedRule`, to the n fused scores. None: the sum, with the weight 1 for every
        detector; the only rule with contributions.
    offset : float
        Fused scores from here on count as normal.
    uses_subgroups : bool
        Whether detectors are divided into subgroups, ``settings.groups_``.
    weighted : bool
        Whether detectors may have weights: ``settings.vote_weights_``, or ``weights_`` of the sum.
    """

    fuse: Fuse | None
    offset: float = 0.0
    uses_subgroups: bool = False
    weighted: bool = False


# The rules of `FixedRule`, in the order of the table in its docstring. To add one, decorate a
# function with `_register` and add a line to that table.
RULES: dict[str, Rule] = {"sum": Rule(fuse=None, weighted=True)}
# Tolerance for the rounding of sums of shares: 0.1 + 0.2 + 0.2 against 0.5 is a tie.
TIE = 1e-12
SUBGROUPS = ("partition", "bootstrap", "dynamic")
MISSING = ("raise", "ignore")


def _register(
    name: str, *, offset: float = 0.0, uses_subgroups: bool = False, weighted: bool = False
) -> Callable[[Fuse], Fuse]:
    """Register a function as a rule."""

    def enter(fuse: Fuse) -> Fuse:
        RULES[name] = Rule(fuse, offset, uses_subgroups, weighted)
        return fuse

    return enter


def _is_sum(fixed: FixedRule) -> bool:
    """Return whether the fused score is a sum over detectors, so that each has a contribution."""
    return fixed.rule in RULES and RULES[fixed.rule].fuse is None


@saved_as("FixedRule", rule=RULES, subgroups=SUBGROUPS, missing=MISSING)
class FixedRule(WeightedSum):
    r"""Fuse detectors by a fixed rule.

    With ``s_ij`` the score that detector j gives to row i, high = normal:

    ============ ==================================================== ==================
    rule         fused score of row i                                 PyOD, signs turned
    ============ ==================================================== ==================
    sum          ``Σ_j w_j s_ij``                                     Σw · ``average``
    product      ``Σ_j log 2π_ij``
    min          ``min_j s_ij``: one alarm is enough                  ``maximization``
    max          ``max_j s_ij``: an alarm must be unanimous
    median       the median of ``s_i1 … s_iR``                        ``median``
    vote         the share of detectors, by w, with ``s_ij ≥ 0``      ``majority_vote``
    trimmed_mean the mean without the ``⌊trim·R⌋`` lowest and highest
    aom          the mean over subgroups of their lowest score        ``aom``
    moa          the lowest over subgroups of their mean score        ``moa``
    ============ ==================================================== ==================

    The weights w are 1 unless `weights` is given; :class:`~lpfuse.LpFusion` learns them.

    PyOD's scores are high for anomalies. A rule named after the largest score there (maximization,
    "average of maximum", "maximum of average") takes the lowest one here: ``FixedRule("min")`` of S
    is ``−maximization(−S)``, ``FixedRule("aom")`` is ``−aom(−S)``.

    The product is that of probabilities to be normal,

    .. math:: \pi_{ij} = \tfrac12 (1 + \tanh s_{ij}) = 1 / (1 + e^{-2 s_{ij}}),

    a smooth :math:`(1 + s_{ij}) / 2` with values in (0, 1). It is taken relative to undecided
    detectors, which have probability ½, and as a sum of logarithms, which cannot underflow.

    Parameters
    ----------
    rule : str, default="sum"
        Which rule: a name of the table above.
    trim : float in [0, 0.5], default=0.25
        For "trimmed_mean": the share of detectors dropped at either end. 0 is the mean, 0.25 the
        mean of the middle half, 0.5 the median.
    n_buckets : int, default=5
        For "aom" and "moa": the number of subgroups, whose sizes differ by one at most. With as
        many subgroups as detectors, or more, each subgroup is one detector: "aom" is then the mean
        and "moa" the minimum.
    random_state : int, RandomState instance or None, default=0
        For "aom" and "moa": assigns detectors to subgroups. A number by default, so that every
        fit has the same subgroups.
    weights : array-like of shape (R,) or mapping, default=None
        For "sum" and "vote": how much each detector counts, ≥ 0, in the order of the columns or by
        their names; omitted detectors count 0. None: all count 1.
    subgroups : {"partition", "bootstrap", "dynamic"}, default="partition"
        For "aom" and "moa". "partition": each detector is in one subgroup. "bootstrap": each
        subgroup draws ``⌊R / n_buckets⌋`` of all detectors independently. "dynamic": the same, with
        a size drawn from 2 to ``⌊R / 2⌋``.
    missing : {"raise", "ignore"} or float, default="raise"
        What to do with missing scores (NaN). "raise": refuse them. "ignore": apply the rule to the
        detectors that scored the row; sum and product grow to the size that all R would give, and a
        row without any score gets NaN, an anomaly for `predict`. A number: what a missing score
        counts as, such as 0 for an undecided detector, or −1 for an alarm.

    Attributes
    ----------
    offset_ : float
        Scores from here on count as normal. ½ for "vote": at a tie the row is normal, and so is the
        vote of a detector whose score is 0. For all others 0, the fused score of a row at the
        border (score 0) of every detector.
    weights_ : ndarray of shape (R,)
        The weight of each detector. Only for "sum", as `contributions`.
    vote_weights_ : ndarray of shape (R,)
        Its share of the votes. Only for "vote".
    groups_ : list of ndarray
        Positions of the detectors of each subgroup. Only for "aom" and "moa".
    n_features_in_ : int
        Number of detectors R.
    feature_names_in_ : ndarray of shape (R,)
        Names of the detectors, when `S` had them.

    Notes
    -----
    Scores should be signed and on one scale (`TwoSidedMinMax`): 0 is the decision boundary.

    With ``missing="ignore"`` and ``A_i`` the detectors that scored row i, the sum is
    ``Σ_{j∈A_i} w_j s_ij · Σ_j w_j / Σ_{j∈A_i} w_j``, the product
    ``R / |A_i| · Σ_{j∈A_i} log 2π_ij``, a vote the share of the weights of ``A_i``, and a subgroup
    is its part in ``A_i``; the others do not depend on R.

    A vote has only R + 1 different scores. If a larger share of the normal rows than the requested
    false-alarm rate has no vote, a `FusedDetector` flags no row.

    Where R is a multiple of `n_buckets`, a partition is the one that PyOD draws for the same
    `random_state` (``method="static"``; it refuses other R), and "bootstrap" draws what PyOD's
    ``bootstrap_estimators=True`` draws from the same ``RandomState``. With an integer seed, and
    always in "dynamic", PyOD reseeds for each subgroup, so that all of them are equal; here they
    differ. See ``docs/adr/0028``.

    References
    ----------
    Kittler, Hatef, Duin and Matas (1998). On combining classifiers. IEEE Transactions on Pattern
    Analysis and Machine Intelligence 20(3), 226–239.

    Tax and Duin (2001). Combining one-class classifiers. Multiple Classifier Systems, 299–308.

    Aggarwal and Sathe (2015). Theoretical foundations and algorithms for outlier ensembles. ACM
    SIGKDD Explorations 17(1), 24–47. (AOM, MOA)

    Examples
    --------
    >>> from lpfuse import FixedRule
    >>> S = [[1.0, 0.5], [-1.0, 0.25]]
    >>> rule = FixedRule("sum").fit(S)
    >>> rule.score_samples(S)
    array([ 1.5 , -0.75])
    >>> rule.predict(S)
    array([ 1, -1])
    >>> FixedRule("max").fit(S).score_samples(S)
    array([1.  , 0.25])
    >>> FixedRule(weights=[1, 3]).fit(S).score_samples(S)
    array([ 2.5 , -0.25])
    >>> FixedRule(missing="ignore").fit(S).score_samples([[1.0, float("nan")]])
    array([2.])
    """

    missing: Any = "raise"  # also of files of earlier versions
    groups_: list[Any]
    vote_weights_: Host

    def __init__(
        self,
        rule: str = "sum",
        trim: float = 0.25,
        n_buckets: int = 5,
        random_state: Any = 0,
        weights: Any = None,
        subgroups: str = "partition",
        missing: Any = "raise",
    ) -> None:
        self.rule = rule
        self.trim = trim
        self.n_buckets = n_buckets
        self.random_state = random_state
        self.weights = weights
        self.subgroups = subgroups
        self.missing = missing

    def fit(self, S: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Check the data and store its shape.

        Parameters
        ----------
        S : array-like, or Dask array or data frame, of shape (n, R)
            Scores, high = normal.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly. Checked, otherwise unused.
        sample_weight : array-like of shape (n,), optional
            Checked, otherwise unused.

        Returns
        -------
        FixedRule
            The rule, ready to score.
        """
        params.check_choice("rule", self.rule, tuple(RULES))
        params.check_number("trim", self.trim, at_least=0, at_most=0.5)
        buckets = params.check_count("n_buckets", self.n_buckets)
        params.check_choice("subgroups", self.subgroups, SUBGROUPS)
        if self.missing not in MISSING:
            params.check_number("missing", self.missing, hint="Or pass 'raise' or 'ignore'.")
        random = check_random_state(self.random_state)
        gaps = self.missing != "raise"
        R, head = _check_width(S, y, sample_weight, gaps), meta_of(S) if ops.is_blocked(S) else S
        rule = RULES[self.rule]
        weights = self._checked_weights(R, head)
        for former in ("weights_", "vote_weights_", "groups_"):  # of an earlier fit
            self.__dict__.pop(former, None)
        if rule.fuse is None:
            self.weights_ = weights
        elif rule.weighted:
            self.vote_weights_ = weights / weights.sum()
        if rule.uses_subgroups:
            self.groups_ = _draw_subgroups(self.subgroups, R, buckets, random)
        self.offset_ = rule.offset
        record_columns(self, head)
        return self

    def _checked_weights(self, R: int, S: Any) -> Host:
        if self.weights is None:
            return np.ones(R)
        if not RULES[self.rule].weighted:
            able = " or ".join(repr(name) for name, rule in RULES.items() if rule.weighted)
            raise ValueError(
                f"weights require rule {able}, got rule={self.rule!r}. Omit weights, or use one of "
                "these rules."
            )
        return check_weights(self.weights, R, column_names(S))

    @lazily()
    def score_samples(self, S: Any) -> Array:
        """Return the fused score of each row, high = normal.

        Parameters
        ----------
        S : array-like, or Dask array or data frame, of shape (n, R)
            Scores, high = normal.

        Returns
        -------
        array of shape (n,)
            Fused scores.
        """
        fuse = RULES[self.rule].fuse if self.rule in RULES else None
        if fuse is None:
            return super().score_samples(S)
        S = self._read(S)
        scores, ignore = ops.as_float64(S), self.missing == "ignore"
        fused = self._fuse_present(fuse, scores) if ignore else fuse(scores, self)
        return ops.beside(fused, S)

    @available_if(_is_sum)  # type: ignore[untyped-decorator]
    def contributions(self, S: Any) -> Array:
        """Return the contribution of each detector to the fused score of the rule "sum".

        Parameters
        ----------
        S : array-like, or Dask array or data frame, of shape (n, R)
            Scores, high = normal.

        Returns
        -------
        array of shape (n, R)
            ``w_j s_ij``, in a new array.
        """
        return super().contributions(S)

    def _read(self, S: Any) -> Array:
        """Return checked scores; missing ones stay NaN where they are to be ignored."""
        check_is_fitted(self)
        S = check_scores(S, estimator=self, missing=self.missing != "raise")
        return S if self.missing in MISSING else ops.fill_nan(S, self.missing)

    def _checked(self, S: Any) -> tuple[Array, Array]:
        S = self._read(S)
        xp = ops.namespace(S)
        weights = xp.astype(ops.like(self.weights_, S), S.dtype, copy=False)
        if self.missing == "ignore":
            present = xp.astype(~xp.isnan(S), S.dtype) @ weights
            present = xp.where(present > 0, present, xp.full_like(present, np.nan))
            S = ops.fill_nan(S, 0.0) * (xp.sum(weights) / present)[:, None]
        return S, weights

    def _fuse_present(self, fuse: Fuse, S: Array) -> Array:
        """Apply a rule to the detectors that scored each row; rows with the same ones at once."""
        fused = ops.filled(S.shape[0], np.nan, S)
        for rows, gaps in rows_by_gaps(np.isnan(ops.to_host(S))):
            present, part = np.flatnonzero(~gaps), copy(self)
            if RULES[self.rule].weighted:
                weights = self.vote_weights_[present]
                part.vote_weights_ = weights / (weights.sum() or np.nan)  # NaN: none has a weight
            groups = [np.isin(present, group) for group in getattr(self, "groups_", ())]
            part.groups_ = [np.flatnonzero(group) for group in groups if group.any()]
            if len(present):
                scores = ops.take(ops.take(S, np.flatnonzero(rows)), present, axis=1)
                fused = ops.put(fused, np.flatnonzero(rows), fuse(scores, part))
        return fused


@_register("product")
def _product(S: Array, settings: FixedRule) -> Array:
    xp = ops.namespace(S)
    # 2π = 1 + tanh s. Below zero that cancels: 1 + tanh(−s) = exp(−2s) (1 + tanh s).
    fused = xp.sum(xp.log1p(xp.tanh(xp.abs(S))) - 2.0 * ops.positive_part(-S), axis=1)
    return fused * (settings.n_features_in_ / S.shape[1])  # for detectors without a score


@_register("min")
def _min(S: Array, settings: FixedRule) -> Array:
    return ops.namespace(S).min(S, axis=1)


@_register("max")
def _max(S: Array, settings: FixedRule) -> Array:
    return ops.namespace(S).max(S, axis=1)


@_register("median")
def _median(S: Array, settings: FixedRule) -> Array:
    return _trimmed(S, 0.5)


@_register("vote", offset=0.5, weighted=True)  # half of the votes are enough
def _vote(S: Array, settings: FixedRule) -> Array:
    xp = ops.namespace(S)
    votes = xp.astype(S >= 0, S.dtype)
    if settings.weights is None:
        return xp.mean(votes, axis=1)
    share = votes @ ops.like(settings.vote_weights_, S)
    return xp.where(xp.abs(share - 0.5) < TIE, xp.full_like(share, 0.5), share)


@_register("trimmed_mean")
def _trimmed_mean(S: Array, settings: FixedRule) -> Array:
    return _trimmed(S, settings.trim)


@_register("aom", uses_subgroups=True)
def _average_of_minima(S: Array, settings: FixedRule) -> Array:
    xp = ops.namespace(S)
    lowest = [xp.min(ops.take(S, group, axis=1), axis=1) for group in settings.groups_]
    return xp.mean(xp.stack(lowest), axis=0)


@_register("moa", uses_subgroups=True)
def _minimum_of_averages(S: Array, settings: FixedRule) -> Array:
    xp = ops.namespace(S)
    means = [xp.mean(ops.take(S, group, axis=1), axis=1) for group in settings.groups_]
    return xp.min(xp.stack(means), axis=0)


def _trimmed(S: Array, trim: float) -> Array:
    """Return the mean of each row without its ``⌊trim·R⌋`` lowest and highest scores."""
    R = S.shape[1]
    cut = min(int(trim * R), (R - 1) // 2)  # one or two detectors stay
    xp = ops.namespace(S)
    return xp.mean(xp.sort(S, axis=1)[:, cut : R - cut], axis=1)


def _draw_subgroups(how: str, R: int, buckets: int, rng: np.random.RandomState) -> list[Any]:
    """Return positions of the detectors of each subgroup."""
    if how == "partition":
        return np.array_split(rng.permutation(R), min(buckets, R))
    sizes = [max(1, R // buckets)] * buckets
    if how == "dynamic":
        sizes = rng.randint(min(2, R), max(2, R // 2) + 1, size=buckets).tolist()
    return [
        sample_without_replacement(R, min(size, R), random_state=rng).astype(np.intp)
        for size in sizes
    ]


def _check_width(S: Any, y: Any, sample_weight: Any, missing: bool) -> int:
    """Check scores, labels and weights; return the number of detectors."""
    if ops.is_blocked(S):
        return check_score_blocks(S, y, sample_weight).width
    n, R = check_scores(S, missing=missing).shape
    params.check_labels(y, n)
    params.check_sample_weight(sample_weight, n)
    return int(R)
