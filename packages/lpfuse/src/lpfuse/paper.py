"""The method of the paper: its learners, grids, normalisation, ℓp weights and threshold.

`Pipeline` is the published method, to reproduce its results; for other work use `FusedDetector`,
which performs better (``docs/results/uci.md``). The other functions are its parts: the grid of
learners and model selection.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Array, Host, to_host
from lpfuse._base import Detector, Scorer, lazily
from lpfuse._files import saved_as
from lpfuse._format import quote
from lpfuse._validation import params, tables
from lpfuse.detectors import (
    PAPER_WIDTHS,
    SVDD,
    GMMDetector,
    KernelPCADetector,
    OneClassGP,
    fit_together,
    gamma_from_sigma,
    score_together,
)
from lpfuse.detectors.kernels import training_rows
from lpfuse.fusion.lp import PAPER_GRID, lp_path
from lpfuse.metrics import auc_of_columns, best_g_mean
from lpfuse.optim import Certificate
from lpfuse.optim.problem import LOSSES
from lpfuse.scaling import TwoSidedMinMax

__all__ = ["LEARNERS", "PAPER_RHOS", "Pipeline"]


# --------------------------------------------------------------------------------------------------
# The grid of the four learners


LEARNERS = ("GMM", "SVDD", "GP", "KPCA")  # in the order of the paper's table
TAUGHT = ("SVDD", "GP")  # those that can learn from anomalies
COMPONENTS = 3  # of the mixture, as in the paper

# Width → σ of exp(−‖x − x′‖² / 2σ²). The paper says "width" only; each form is in use somewhere.
KERNEL_FORMS: dict[str, Callable[[float], float]] = {
    "sigma": float,
    "variance": np.sqrt,
    "scale": lambda width: width / np.sqrt(2),
    "denominator": lambda width: np.sqrt(width / 2),
    "gamma": lambda width: 1 / np.sqrt(2 * width),
}


@dataclass(frozen=True)
class Candidate:
    """A learner with one setting of its grid.

    Attributes
    ----------
    learner : str
        One of `LEARNERS`.
    settings : dict
        The width ``sigma`` and the number ``q`` of components, where the learner has them.
    detector : Detector
        The learner, to be fitted.
    """

    learner: str
    settings: dict[str, float]
    detector: Any


def candidates(
    n: int,
    *,
    widths: Sequence[float] = PAPER_WIDTHS,
    component_step: int = 4,
    random_state: Any = None,
) -> list[Candidate]:
    """Return the grid for n training rows.

    Ties go to the first candidate; hence the widest kernels and the fewest components come first.

    Parameters
    ----------
    n : int
        Number of normal rows to learn from, at least 2.
    widths : sequence of float
        Widths σ of the Gaussian kernel ``exp(−‖x − x′‖² / 2σ²)``.
    component_step : int
        Kernel PCA has q = 2, 2 + step, 2 + 2·step, … up to n components.
    random_state : int, RandomState or None
        Seeds the mixture.

    Returns
    -------
    list of Candidate
        Of all learners.

    Examples
    --------
    >>> from lpfuse.paper import candidates
    >>> [(c.learner, c.settings) for c in candidates(10, widths=[0.5], component_step=4)]
    [('GMM', {}), ('SVDD', {'sigma': 0.5}), ('GP', {'sigma': 0.5}),
     ('KPCA', {'sigma': 0.5, 'q': 2}), ('KPCA', {'sigma': 0.5, 'q': 6}),
     ('KPCA', {'sigma': 0.5, 'q': 10})]
    """
    # Scores as in the paper: the mean of the process, the distance to the nearest component.
    mixture = GMMDetector(min(COMPONENTS, n), score_type="mahalanobis", random_state=random_state)
    grid = [Candidate("GMM", {}, mixture)]
    for sigma in sorted(widths, reverse=True):
        kernel: dict[str, Any] = {"gamma": gamma_from_sigma(sigma), "approximation": None}
        grid.append(Candidate("SVDD", {"sigma": sigma}, SVDD(**kernel)))
        process = OneClassGP(score_type="mean", **kernel)
        grid.append(Candidate("GP", {"sigma": sigma}, process))
        grid += [
            Candidate("KPCA", {"sigma": sigma, "q": q}, KernelPCADetector(q, **kernel))
            for q in range(2, n + 1, component_step)
        ]
    return grid


def fit_candidates(
    grid: Sequence[Candidate], X: Any, anomalies: Any = (), taught: Sequence[str] = ()
) -> Host:
    """Fit every candidate to normal rows, sharing kernel computations.

    Parameters
    ----------
    grid : sequence of Candidate
        From `candidates`; their detectors are fitted in place.
    X : array-like of shape (n, d)
        Normal rows.
    anomalies : array-like of shape (m, d), optional
        Anomalies for the learners that `taught` names.
    taught : sequence of {"SVDD", "GP"}
        Learners that learn from anomalies, too: the ball leaves them outside, as in Tax and Duin
        (2004); the process has the targets +1 and −1.

    Returns
    -------
    ndarray of shape (n, candidates)
        In-sample scores, high = normal, as in the paper.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse.paper import candidates, fit_candidates
    >>> X = np.random.default_rng(0).normal(size=(30, 2))
    >>> fit_candidates(candidates(30, widths=[1.0], component_step=20), X).shape
    (30, 5)
    """
    detectors = [candidate.detector for candidate in grid]
    taught = taught if len(anomalies) else ()
    with warnings.catch_warnings():  # widths far from the data are part of the grid
        warnings.simplefilter("ignore", UserWarning)
        fit_together([c.detector for c in grid if c.learner not in taught], X, thresholds=False)
        if taught:
            y = np.repeat([1.0, -1.0], [len(X), len(anomalies)])
            rows = training_rows(np.concatenate([X, anomalies]), y=y, share=True)
            for candidate in (c for c in grid if c.learner in taught):  # in the order of widths
                candidate.detector._fit_rows(rows, thresholds=False)
                tables.record_columns(candidate.detector, X)
        return score_together(detectors, X)


def best_per_learner(grid: Sequence[Candidate], areas: Host) -> list[int]:
    """Return the position of each learner's best candidate, in the order of `LEARNERS`.

    Parameters
    ----------
    grid : sequence of Candidate
        With at least one candidate of each learner.
    areas : ndarray of shape (candidates,)
        The criterion of each, for instance its validation AUC. Ties go to the first.

    Returns
    -------
    list of int
        One a learner.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse.paper import best_per_learner, candidates
    >>> best_per_learner(candidates(9, widths=[1.0]), np.array([0.7, 0.8, 0.9, 0.6, 0.6]))
    [0, 1, 2, 3]
    """
    rivals = [[i for i, c in enumerate(grid) if c.learner == learner] for learner in LEARNERS]
    return [max(own, key=areas.__getitem__) for own in rivals]


# --------------------------------------------------------------------------------------------------
# Selection of ρ and p by validation AUC


class Scores(NamedTuple):
    """Scores of the selected learners, high = normal: one column each."""

    normals: Host
    anomalies: Host  # used for the weights only; may be empty
    validation: Host


class Weights(NamedTuple):
    """The selected ρ, p and weights."""

    rho: float
    p: float
    scaler: TwoSidedMinMax
    weights: Host
    certificate: Certificate
    fused: Host  # of the validation rows
    areas: Host  # of every ρ and p on validation


def choose_weights(
    scores: Scores, labels: Host, ps: Sequence[float], settings: Pipeline
) -> Weights:
    """Return the weights with the highest validation AUC; ties: the first ρ, the largest p.

    Parameters
    ----------
    scores, labels : Scores, ndarray of shape (v,)
        Of all rows, and ±1 of the validation rows.
    ps : sequence of float
        The grid, ascending.
    settings : Pipeline
        With the grid of ρ, the loss, and whether scaled scores are clipped.
    """
    S = np.concatenate([scores.normals, scores.anomalies])
    y = np.repeat([1.0, -1.0], [len(scores.normals), len(scores.anomalies)])
    areas = np.empty((len(settings.rhos), len(ps)))
    best: Weights | None = None
    for i, rho in enumerate(settings.rhos):
        scaler = TwoSidedMinMax(float(rho), feature_range=(0, 1), clip=settings.clip)
        with tables.unheard_warnings():  # `fit` warns once
            path = lp_path(scaler.fit(scores.normals).transform(S), y, ps=ps, loss=settings.loss)
        fused = scaler.transform(scores.validation) @ path.weights.T
        areas[i] = auc_of_columns(labels, fused)
        j = len(ps) - 1 - int(np.argmax(areas[i, ::-1]))
        if i == 0 or areas[i, j] > areas[:i].max():
            proof = path.certificates[j]
            best = Weights(float(rho), ps[j], scaler, path.weights[j], proof, fused[:, j], areas)
    assert best is not None
    return best


# --------------------------------------------------------------------------------------------------
# The estimator


PAPER_RHOS = tuple(map(float, range(1, 11)))  # ρ of the normalisation that the paper tries
NEEDS_VALIDATION = (
    "Settings, rho, p and the threshold are selected on a validation set. Pass "
    "fit(X, y, validation=(X_val, y_val)), y_val with +1 (normal) and -1 (anomaly), at least one "
    "row of each"
)
NEEDS_TEST = (
    'threshold_on="test" selects the threshold on test rows. Pass fit(X, y, validation=..., '
    "test=(X_test, y_test)), y_test with +1 (normal) and -1 (anomaly), at least one row of each"
)
NEEDED = {"validation": NEEDS_VALIDATION, "test": NEEDS_TEST}
GRID_MATRICES = 21  # n×n matrices of float64 that a fit of the grid holds; measured


class Rows(NamedTuple):
    """Checked and standardised input of a fit."""

    normals: Host
    anomalies: Host  # may be empty
    validation: Host
    labels: Host  # ±1 of the validation rows
    test_labels: Host | None  # of the test rows, where these set the threshold


@saved_as(
    "PaperPipeline",
    loss=LOSSES,
    kernel_form=tuple(KERNEL_FORMS),
    learners_learn_from_anomalies=TAUGHT,
    threshold_on=("validation", "test"),
)
class Pipeline(Scorer):
    r"""The method of the paper, with its settings as defaults.

    Four learners are fitted to the normal rows: a Gaussian mixture (the distance to its nearest
    component), SVDD, a one-class Gaussian process (its mean) and kernel PCA, each with the setting
    of the highest validation AUC. Their in-sample scores :math:`s_{ij}` are scaled by quantiles
    :math:`l_j` and :math:`u_j` that leave ρ % of the normal rows outside, and the weights of the
    fused score minimise the hinge loss in the unit ball:

    .. math::

        s'_{ij} = \frac{s_{ij} - l_j}{u_j - l_j}, \qquad
        \min_{\|w\|_p \le 1} \sum_i \max(0, 1 - y_i \, w^\top s'_i)

    ρ and p maximise the validation AUC, the threshold the validation G-mean. One difference to the
    paper: the weights are certified optimal, not those of its Algorithm 1.

    Parameters
    ----------
    widths : sequence of float, default=(0.01, 0.1, 0.5, 1.0, 10.0)
        Widths w of the Gaussian kernel to choose from.
    kernel_form : {"sigma", "variance", "scale", "denominator", "gamma"}, default="sigma"
        What a width w means, which the paper leaves open: with D = ``‖x − x′‖²`` the kernel is
        ``exp(−D / 2w²)``, ``exp(−D / 2w)``, ``exp(−D / w²)``, ``exp(−D / w)`` or ``exp(−w D)``.
    component_step : int, default=4
        The numbers of components of kernel PCA are 2, 2 + step, 2 + 2·step, … up to the number of
        normal rows.
    rhos : sequence of float, default=(1.0, 2.0, ..., 10.0)
        Candidates for ρ.
    ps : sequence of float in [1, inf], default=(32/31, 16/15, 8/7, 4/3, 2, 4, 8, 10, 100)
        Candidates for p.
    loss : {"hinge", "least_squares"}, default="hinge"
        What the weights minimise.
    clip : bool, default=False
        Whether scaled scores are clipped to [0, 1]. The paper describes the scaling in words only.
    learners_learn_from_anomalies : bool or sequence of {"SVDD", "GP"}, default=False
        Learners that learn from the anomalies in `y`, besides the weights: the ball of the SVDD
        leaves them outside, as in Tax and Duin (2004); the process has the target −1 there. True:
        both. The others learn from normal rows only.
    threshold_on : {"validation", "test"}, default="validation"
        Rows on which the threshold has the best G-mean. "test": the rows given as `test`, to see
        how much a published G-mean may owe to it; such a figure is optimistically biased.
    standardise : bool, default=True
        Whether to standardise columns by the normal rows, as in the paper. False: the rows are
        standardised already.
    random_state : int, RandomState or None, default=None
        Seeds the mixture.

    Attributes
    ----------
    learners_ : dict of str to detector
        "GMM", "SVDD", "GP" and "KPCA" → the fitted learner with its selected setting. They expect
        standardised rows, see `learner_scores`.
    settings_ : dict of str to dict
        The chosen ``q`` and ``sigma``, that of ``exp(−D / 2σ²)`` in every form, of each learner.
    rho_, p_ : float
        The chosen ρ and p.
    scaler_ : TwoSidedMinMax
        Puts the scores of the learners on one scale.
    weights_ : ndarray of shape (4,)
        One weight a learner, in the order of `learners_`.
    certificate_ : Certificate
        Bound of the distance of the weights from the optimum.
    offset_ : float
        The threshold: scores from here on count as normal.
    validation_auc_ : ndarray of shape (len(rhos), len(ps))
        Validation AUC of every ρ, in the given order, and every p, ascending.
    standardiser_ : StandardScaler or None
        Of the columns.
    n_features_in_ : int
        Number of columns of `X`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, when `X` had them.

    See Also
    --------
    lpfuse.FusedDetector : Recommended: needs no validation set, controls the false-alarm rate, and
        performs better with labelled anomalies.

    Notes
    -----
    Ties go to the widest kernel, the fewest components, the first ρ and the largest p. Kernels are
    exact: memory grows with the square of the normal rows and time faster; the paper's sets have up
    to a thousand.

    References
    ----------
    Nourmohammadi and Arashloo (2023). ℓp-norm constrained one-class classifier combination.
    arXiv 2312.15769.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse.paper import Pipeline
    >>> rng = np.random.default_rng(0)
    >>> X, X_val = rng.normal(size=(60, 2)), rng.normal(size=(40, 2))
    >>> X_val[20:] += 3.0
    >>> y_val = np.repeat([1, -1], 20)
    >>> thin = Pipeline(component_step=20, rhos=[5.0], random_state=0)
    >>> thin = thin.fit(X, validation=(X_val, y_val))
    >>> thin.settings_["SVDD"], thin.certificate_.status
    ({'sigma': 10.0}, 'optimal')
    >>> thin.predict([[0.0, 0.0], [4.0, 4.0]])
    array([ 1, -1])

    With labelled anomalies, which are used for the weights only:

    >>> rows, y = np.concatenate([X, [[3.0, 2.0], [4.0, 3.0]]]), np.repeat([1, -1], [60, 2])
    >>> thin.fit(rows, y, validation=(X_val, y_val)).weights_.shape
    (4,)
    """

    learners_: dict[str, Detector]
    settings_: dict[str, dict[str, float]]
    standardiser_: StandardScaler | None
    scaler_: TwoSidedMinMax
    weights_: Host
    certificate_: Certificate

    def __init__(
        self,
        *,
        widths: Sequence[float] = PAPER_WIDTHS,
        kernel_form: str = "sigma",
        component_step: int = 4,
        rhos: Sequence[float] = PAPER_RHOS,
        ps: Sequence[float] = PAPER_GRID,
        loss: Literal["hinge", "least_squares"] = "hinge",
        clip: bool = False,
        learners_learn_from_anomalies: bool | Sequence[str] = False,
        threshold_on: Literal["validation", "test"] = "validation",
        standardise: bool = True,
        random_state: Any = None,
    ) -> None:
        self.widths = widths
        self.kernel_form = kernel_form
        self.component_step = component_step
        self.rhos = rhos
        self.ps = ps
        self.loss = loss
        self.clip = clip
        self.learners_learn_from_anomalies = learners_learn_from_anomalies
        self.threshold_on = threshold_on
        self.standardise = standardise
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, validation: Any = None, test: Any = None) -> Self:
        """Fit the learners, select their settings, learn the weights and set the threshold.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows without missing values, at least two of them normal.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly. Anomalies are used for the weights, and for the learners that
            `learners_learn_from_anomalies` names; without `y` all rows are normal (the paper's pure
            setting).
        validation : tuple of array-like (X_val, y_val)
            Validation rows and their labels ±1, both of which must occur.
        test : tuple of array-like (X_test, y_test), optional
            Likewise, for ``threshold_on="test"``; ignored otherwise.

        Returns
        -------
        Pipeline
            The fitted estimator.
        """
        self._check_parameters()
        rows, standardiser = self._rows(X, y, validation, test)
        grid = candidates(
            len(rows.normals),
            widths=[KERNEL_FORMS[self.kernel_form](width) for width in self.widths],
            component_step=self.component_step,
            random_state=self.random_state,
        )
        in_sample = fit_candidates(grid, rows.normals, rows.anomalies, self._taught())
        on_validation = score_together([c.detector for c in grid], rows.validation)
        chosen = best_per_learner(grid, auc_of_columns(rows.labels, on_validation))
        fitted = [grid[i].detector for i in chosen]
        scores = Scores(
            in_sample[:, chosen],
            score_together(fitted, rows.anomalies) if len(rows.anomalies) else np.empty((0, 4)),
            on_validation[:, chosen],
        )
        tables.warn_uninformative_columns(scores.normals, LEARNERS)
        ps = sorted(map(params.check_p, self.ps))
        found = choose_weights(scores, rows.labels, ps, self)
        if found.certificate.status != "optimal":
            params.warn_user(
                "The weights are certified up to a relative gap of "
                f"{found.certificate.relative_gap:.1e} ({found.certificate.status}). The scores of "
                "a learner may be nearly constant: try other widths.",
                ConvergenceWarning,
            )

        self.learners_, self.standardiser_ = dict(zip(LEARNERS, fitted, strict=True)), standardiser
        self.settings_ = {grid[i].learner: dict(grid[i].settings) for i in chosen}
        self.rho_, self.p_, self.scaler_ = found.rho, found.p, found.scaler
        self.weights_, self.certificate_ = found.weights, found.certificate
        self.validation_auc_ = found.areas
        tables.record_columns(self, X)
        labels, fused = rows.labels, found.fused
        if rows.test_labels is not None:
            labels, fused = rows.test_labels, self.score_samples(test[0])
        self.offset_ = best_g_mean(labels, fused)[1]
        return self

    @lazily()
    def score_samples(self, X: Any) -> Array:
        """Return the fused score of each row, high = normal.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, d)
            Rows with the columns that `fit` saw.

        Returns
        -------
        ndarray of shape (n,)
            ``Σ_j w_j s′_ij``.
        """
        check_is_fitted(self)
        return self.scaler_.transform(self.learner_scores(X)) @ self.weights_

    @lazily(width=lambda _: len(LEARNERS))
    def learner_scores(self, X: Any) -> Array:
        """Return the unscaled scores of the four learners.

        Parameters
        ----------
        X : array-like, or Dask array or data frame, of shape (n, d)
            Rows with the columns that `fit` saw.

        Returns
        -------
        ndarray of shape (n, 4)
            One column a learner, in the order of `learners_`, high = normal.
        """
        check_is_fitted(self)
        rows = to_host(tables.check_features(X, estimator=self))
        if self.standardiser_ is not None:
            rows = self.standardiser_.transform(rows)
        return score_together(list(self.learners_.values()), rows)

    def _check_parameters(self) -> None:
        for name in ("widths", "rhos", "ps"):
            values = getattr(self, name)
            if not isinstance(values, Sequence | np.ndarray) or len(values) == 0:
                raise ValueError(
                    f"{name} must be a sequence of candidates, at least one; got {quote(values)}."
                )
        for sigma in self.widths:
            params.check_number("widths", sigma, above=0)
        for rho in self.rhos:
            if not 0 <= params.check_number("rhos", rho) < 100:
                raise ValueError(f"rhos must be percentages from 0 to below 100, got {rho:g}.")
        for p in self.ps:
            params.check_p(p)
        params.check_count("component_step", self.component_step)
        params.check_choice("loss", self.loss, list(LOSSES))
        params.check_choice("kernel_form", self.kernel_form, list(KERNEL_FORMS))
        params.check_choice("threshold_on", self.threshold_on, list(NEEDED))
        for learner in self._taught():
            params.check_choice("learners_learn_from_anomalies", learner, [*TAUGHT, True, False])
        for name in ("clip", "standardise"):
            params.check_choice(name, getattr(self, name), [True, False])

    def _taught(self) -> Sequence[str]:
        named: Any = self.learners_learn_from_anomalies
        if isinstance(named, bool):
            return TAUGHT if named else ()
        return [named] if isinstance(named, str) or not isinstance(named, Sequence) else named

    def _rows(
        self, X: Any, y: Any, validation: Any, test: Any
    ) -> tuple[Rows, StandardScaler | None]:
        """Check and standardise all rows; return them with the standardiser."""
        rows = _check_magnitude(tables.check_features(X), tables.column_names(X))
        labels = params.check_labels(y, len(rows))
        normal = np.full(len(rows), True) if labels is None else labels > 0
        if normal.sum() < 2:
            raise ValueError(
                f"At least 2 normal rows are needed to learn from, got n_samples={normal.sum()}. "
                "Pass more rows, with +1 in y."
            )
        _check_memory(int(normal.sum()))
        expected = clone(self)
        tables.record_columns(expected, X)
        known, truth = _check_labelled("validation", validation, expected)
        deciding = None
        if self.threshold_on == "test":
            deciding = _check_labelled("test", test, expected)[1]
        normals, anomalies = rows[normal], rows[~normal]
        if not self.standardise:
            return Rows(normals, anomalies, known, truth, deciding), None
        standardiser = StandardScaler().fit(normals)
        z = standardiser.transform
        taught = z(anomalies) if len(anomalies) else anomalies
        return Rows(z(normals), taught, z(known), truth, deciding), standardiser


def _check_labelled(name: str, given: Any, expected: Pipeline) -> tuple[Host, Host]:
    """Check rows and labels of an argument of `fit` against the columns of an estimator."""
    if not isinstance(given, tuple | list) or len(given) != 2:
        got = f"no {name}" if given is None else quote(type(given).__name__)
        raise ValueError(f"{NEEDED[name]}; got {got}.")
    try:
        checked = tables.check_features(given[0], estimator=expected)
        rows = _check_magnitude(checked, tables.column_names(given[0]))
        labels = params.check_labels(given[1], len(rows))
    except (ValueError, TypeError) as error:
        short = name[: 3 + (name == "test")]
        raise type(error)(f"{name}=(X_{short}, y_{short}): {error}") from error
    if labels is None or not (labels < 0).any():
        raise ValueError(f"{NEEDED[name]}; got {len(rows)} rows and no anomaly among them.")
    return rows, labels


def _check_memory(n: int) -> None:
    """Raise where the kernel matrices of the grid would not fit into the machine's memory."""
    if not hasattr(os, "sysconf"):  # Windows does not tell
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    needed = GRID_MATRICES * 8 * n**2
    if needed > memory:
        raise ValueError(
            f"Kernels are exact: the grid needs about {needed / 2**30:,.0f} GiB for {n:,} normal "
            f"rows, and this machine has {memory / 2**30:,.0f}. Draw fewer normal rows at random, "
            "for instance sklearn.utils.resample(X_normal, replace=False, "
            f"n_samples={int(np.sqrt(memory / GRID_MATRICES / 16))}), or use FusedDetector."
        )


def _check_magnitude(rows: Array, names: Sequence[str] | None) -> Host:
    """Return rows on the host; raise if their squares would overflow."""
    found = to_host(rows)
    sizes = np.abs(found).max(axis=0)
    if sizes.max() > params.LARGEST_SCORE:
        large = params.column_labels(np.flatnonzero(sizes > params.LARGEST_SCORE), names)
        raise ValueError(params.FEATURES.too_large(large, float(sizes.max())))
    return found
