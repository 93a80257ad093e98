"""Choosing p, ρ and the detectors' own parameters by cross-validation on out-of-fold scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from lpfuse._arrays.operations import Host
from lpfuse._files import ANY, saved_as
from lpfuse._validation.params import check_choice, check_p
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.calibration import CalibratedFit, OutOfFoldScores
from lpfuse.ensemble.defaults import Choice, Strategy
from lpfuse.ensemble.folds import Rows, Training
from lpfuse.ensemble.pool import Member, Pool
from lpfuse.fusion.lp import PAPER_GRID, LpFusion, lp_path
from lpfuse.metrics import best_g_mean, mean_over_folds
from lpfuse.optim import LpPath
from lpfuse.scaling import TwoSidedMinMax

__all__ = ["FusedDetectorCV"]


@saved_as("SearchResult", best_params=ANY, cv_results=ANY)
@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found: the attributes of these names of a `FusedDetectorCV`."""

    best_params: dict[str, Any]
    best_score: float
    cv_results: dict[str, Host]
    path: LpPath


@dataclass(frozen=True)
class GridSearch(Strategy):
    """Choose each detector's candidate, then p and ρ, by a criterion on out-of-fold scores.

    Attributes
    ----------
    ps, rhos, grids, scoring
        The parameters of these names of a `FusedDetectorCV`.
    """

    ps: Sequence[float] = PAPER_GRID
    rhos: Sequence[float] = (5.0,)
    grids: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict)
    scoring: str = "auc"

    chooses_in_parts: ClassVar[bool] = True  # p and ρ are the point of this class

    def needs_artificial_anomalies(self, training: Training) -> bool:
        """Tell whether artificial anomalies judge: where there are no others."""
        return not (training.labels < 0).any()

    def choose_members(self, training: Training) -> list[Member]:
        """Return a member for every candidate; those of one detector have its name."""
        members = super().choose_members(training)
        for name in self.grids.keys() - {member.name for member in members}:
            raise ValueError(f"grids names {name!r}, which is none of the detectors.")
        return [variant for member in members for variant in _variants(member, self.grids)]

    def keep_members(
        self, members: Sequence[Member], scores: Host, training: Training
    ) -> NDArray[np.intp]:
        """Return, of each detector's candidates, the one that tells the classes apart best."""
        kept = []
        for name in dict.fromkeys(member.name for member in members):
            rivals = [i for i, member in enumerate(members) if member.name == name]
            if len(rivals) > 1:
                criterion = self._criterion(
                    scores[:, rivals], training.truth, training.fold_of_truth
                )
                rivals = [rivals[int(np.argmax(criterion))]]
            kept += rivals
        return np.array(kept, dtype=np.intp)

    def choose_fusion(self, scores: OutOfFoldScores, pool: Pool) -> Choice:
        """Return the scaler with the best ρ and the fusion with the best p."""
        scaler, fusion, _ = super().choose_fusion(scores, pool)
        scaler = TwoSidedMinMax() if self.scaler is None else scaler  # the one that has a ρ
        if not isinstance(fusion, LpFusion) or not isinstance(scaler, TwoSidedMinMax):
            raise ValueError(
                "FusedDetectorCV chooses p of an LpFusion and rho of a TwoSidedMinMax; got fusion="
                f"{fusion!r} and scaler={scaler!r}. For others use FusedDetector and GridSearchCV."
            )
        scalers = [clone(scaler).set_params(rho=rho) for rho in self.rhos]
        found = np.stack([self._criterion_of_path(scaler, fusion, scores) for scaler in scalers])
        ps = np.array([check_p(p) for p in self.ps])
        rho, p = np.meshgrid(np.asarray(self.rhos, dtype=float), ps, indexing="ij")
        best = max(np.ndindex(found.shape), key=lambda cell: (found[cell], p[cell]))
        scaler, fusion = scalers[best[0]], clone(fusion).set_params(p=float(p[best]))
        chosen = {
            f"{member.name}__{key}": member.last.get_params()[key]
            for member in pool.one_class
            for key in self.grids.get(member.name, ())
        }
        S, y = scores.scores[scores.usable], scores.labels[scores.usable]
        search = SearchResult(
            chosen | {"p": float(p[best]), "rho": float(rho[best])},
            float(found[best]),
            {"p": p.ravel(), "rho": rho.ravel(), "score": found.ravel()},
            _path(scaler, fusion, self.ps, S, y)[1],
        )
        return Choice(scaler, fusion, search)

    def _criterion_of_path(
        self, scaler: TwoSidedMinMax, fusion: LpFusion, scores: OutOfFoldScores
    ) -> Host:
        """Return the criterion for every p: weights from the other folds, judged on each fold."""
        fused = np.full((len(scores.labels), len(self.ps)), np.nan)
        for number in np.unique(scores.fold):
            inside = scores.fold == number
            rest = scores.usable & ~inside
            whole = inside & ~np.isnan(scores.scores).any(axis=1)
            if not (scores.labels[rest] > 0).any() or not whole.any():
                continue
            S, y = scores.scores[rest], scores.labels[rest]
            with warnings.catch_warnings():  # the final weights are warned of
                warnings.simplefilter("ignore")
                fitted, path = _path(scaler, fusion, self.ps, S, y)
                fused[whole] = fitted.transform(scores.scores[whole]) @ path.weights.T
        return self._criterion(fused, scores.truth, scores.fold)

    def _criterion(self, scores: Host, truth: Host, fold: NDArray[np.intp]) -> Host:
        """Return the criterion of each column: its mean over folds, weighted by their anomalies."""
        found = mean_over_folds(CRITERIA[self.scoring], truth, scores, fold)
        if found is None:
            raise ValueError(
                "No fold holds both normal rows and anomalies, so nothing can be chosen. Use folds "
                "that keep the share of anomalies (cv=5), or FusedDetector, which chooses nothing."
            )
        return found


@saved_as("FusedDetectorCV", scoring=("auc", "g-mean"), grids=(...,))
class FusedDetectorCV(FusedDetector):
    r"""Choose p, ρ and the detectors' parameters of a `FusedDetector` by cross-validation.

    All choices are made on out-of-fold scores. First each detector's candidates (`grids`) are
    compared by how well they separate normal rows from anomalies; kernel learners on the same rows
    share distances, kernels and decompositions. Then, for each ρ and fold, weights for all p are
    learnt from the other folds in one pass of the path solver, and evaluated on the fold:

    .. math:: (p, \rho) = \arg\max \; \frac{\sum_k m_k A_k(p, \rho)}{\sum_k m_k}

    with ``A_k`` the criterion on fold k and ``m_k`` the number of anomalies in it. Ties are broken
    in favour of the largest p.

    Without labelled anomalies, the criterion uses artificial anomalies: normal rows with added
    noise (see `artificial_anomalies`). This assumes that anomalies look like them.

    With ``fit(..., kind=...)``, each fold hides a kind of anomalies from weights and experts, so p
    is chosen for unknown kinds.

    Parameters
    ----------
    detectors : None, "paper" or list, default=None
        As in `FusedDetector`.
    ps : sequence of float in [1, inf]
        Candidates for p; by default the paper's nine.
    rhos : sequence of float, default=(5.0,)
        Candidates for ρ of `TwoSidedMinMax`; the paper's are 1 to 10.
    grids : mapping, optional
        For a detector's name, ``{parameter: values}`` of the detector itself, behind whatever
        prepares its rows: ``{"svdd": {"gamma": [0.1, 1.0]}, "kpca": {"n_components": [2, 6]}}``.
        Only for detectors that learn from normal rows.
    scoring : {"auc", "g-mean"}, default="auc"
        The criterion: area under the ROC curve, or the best geometric mean of the hit rates.
    scaler : TwoSidedMinMax, optional
        Its `rho` is replaced.
    fusion : LpFusion, optional
        Its `p` is replaced.
    prior, cv, artificial_anomalies, threshold
        As in `FusedDetector`, but without a prior by default. Artificial anomalies are used in the
        criterion if none is labelled; with ``artificial_anomalies=True`` also for the weights.
    false_alarm_rate, contamination, confidence, calibration, n_jobs, random_state
        As in `FusedDetector`.

    Attributes
    ----------
    best_params_ : dict
        The chosen ``p``, ``rho``, and for each detector with a grid ``name__parameter``.
    best_score_ : float
        The criterion of the chosen p and ρ.
    cv_results_ : dict of ndarray
        ``p``, ``rho`` and ``score`` of every candidate.
    path_ : LpPath
        Weights for all `ps`, with the chosen ρ, learnt from all rows.

    See Also
    --------
    FusedDetector : All other attributes and methods.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import GMMDetector, KernelPCADetector
    >>> from lpfuse.selection import FusedDetectorCV
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(200, 3)), rng.normal(2, 1, size=(20, 3))])
    >>> y = np.repeat([1, -1], [200, 20])
    >>> detectors = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
    >>> fused = FusedDetectorCV(
    ...     detectors, ps=[1, 2, 100], grids={"kpca": {"n_components": [2, 6]}}, random_state=0
    ... ).fit(X, y)
    >>> sorted(fused.best_params_)
    ['kpca__n_components', 'p', 'rho']
    >>> fused.path_.weights.shape
    (3, 2)
    """

    def __init__(
        self,
        detectors: Any = None,
        *,
        ps: Sequence[float] = PAPER_GRID,
        rhos: Sequence[float] = (5.0,),
        grids: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
        scoring: Literal["auc", "g-mean"] = "auc",
        scaler: Any = None,
        fusion: Any = None,
        prior: Any = None,
        cv: Any = 5,
        artificial_anomalies: bool = False,
        threshold: str = "false-alarms",
        false_alarm_rate: float = 0.05,
        contamination: float | None = None,
        confidence: float | None = None,
        calibration: Literal["auto", "cross", "plain", "split"] = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            detectors,
            scaler=scaler,
            fusion=fusion,
            prior=prior,
            cv=cv,
            artificial_anomalies=artificial_anomalies,
            threshold=threshold,
            false_alarm_rate=false_alarm_rate,
            contamination=contamination,
            confidence=confidence,
            calibration=calibration,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.ps = ps
        self.rhos = rhos
        self.grids = grids
        self.scoring = scoring

    def with_fusion(self, fusion: Any, scaler: Any = None) -> Self:
        """Refuse: what was chosen, was chosen for the fusion at hand."""
        raise TypeError(
            "FusedDetectorCV chose its parameters for the fusion that it was fitted with: fit anew."
        )

    def teach(self, X: Any, y: Any, *, chances: Any = None) -> Self:
        """Refuse: what was chosen, was chosen for the labels at hand."""
        raise TypeError(
            "FusedDetectorCV chose its parameters for the labels that it was fitted with: fit anew "
            "with the answers as y."
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("scoring", self.scoring, tuple(CRITERIA))
        for name, values in (("ps", self.ps), ("rhos", self.rhos)):
            if len(values) == 0:
                raise ValueError(f"{name} is empty: give at least one candidate.")
        for p in self.ps:
            check_p(p)

    def _strategy(self, rows: Rows | CalibratedFit) -> GridSearch:
        return GridSearch(
            **self._choices(rows),
            ps=self.ps,
            rhos=self.rhos,
            grids=dict(self.grids or {}),
            scoring=self.scoring,
        )

    @property
    def best_params_(self) -> dict[str, Any]:
        """The chosen parameters."""
        return self.result_.search.best_params

    @property
    def best_score_(self) -> float:
        """The criterion of the chosen p and ρ."""
        return self.result_.search.best_score

    @property
    def cv_results_(self) -> dict[str, Host]:
        """The criterion of every candidate."""
        return self.result_.search.cv_results

    @property
    def path_(self) -> LpPath:
        """Weights for all `ps`, with the chosen ρ, learnt from all rows."""
        return self.result_.search.path

    saved_formerly: ClassVar[frozenset[str]] = FusedDetector.saved_formerly | {
        "best_params_", "best_score_", "cv_results_", "path_"
    }  # fmt: skip

    @classmethod
    def upgrade_saved(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Bring attributes of a file of an earlier version into today's form.

        Parameters
        ----------
        values : dict
            Attributes by name.

        Returns
        -------
        dict
            As that of `FusedDetector`, with what the search found.
        """
        found: list[Any] = [
            values.get(each) for each in ("best_params_", "best_score_", "cv_results_", "path_")
        ]
        values = super().upgrade_saved(values)
        if found[0] is not None and "result_" in values:
            values["result_"] = replace(values["result_"], search=SearchResult(*found))
        return values


def _g_mean(y: Host, scores: Host) -> float:
    return best_g_mean(y, scores)[0]


CRITERIA: dict[str, Callable[[Host, Host], float]] = {"auc": roc_auc_score, "g-mean": _g_mean}


def _variants(member: Member, grids: Mapping[str, Any]) -> list[Member]:
    """Return the member with each combination of the parameters in its grid."""
    if member.name not in grids:
        return [member]
    if member.learns_from_anomalies:
        raise ValueError(
            f"grids names {member.name!r}, which learns from anomalies. Only detectors that learn "
            "from normal rows can be chosen here; wrap the classifier in GridSearchCV instead."
        )
    return [
        member.with_estimator(_with(member, values)) for values in ParameterGrid(grids[member.name])
    ]


def _with(member: Member, values: Mapping[str, Any]) -> Any:
    estimator = clone(member.estimator)
    (estimator[-1] if isinstance(estimator, Pipeline) else estimator).set_params(**values)
    return estimator


def _path(
    scaler: TwoSidedMinMax, fusion: LpFusion, ps: Sequence[float], S: Host, y: Host
) -> tuple[TwoSidedMinMax, LpPath]:
    """Fit a scaler to normal rows, and learn weights for every p."""
    fitted = clone(scaler).fit(S[y > 0])
    parameters = fusion.get_params()
    del parameters["p"], parameters["solver"]
    labels = None if (y > 0).all() else y
    return fitted, lp_path(fitted.transform(S), labels, ps=ps, **parameters)
