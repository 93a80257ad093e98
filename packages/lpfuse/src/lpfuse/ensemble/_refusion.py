"""What a fitted `FusedDetector` can do with its scores without fitting a detector again."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host
from lpfuse.ensemble._audit import report_gaps
from lpfuse.ensemble._calibration import HeldOutScores, OutOfFoldScores, fuse
from lpfuse.ensemble._defaults import choose_prior
from lpfuse.ensemble._members import Pool
from lpfuse.ensemble._scoring import Combination, FusedScorer, Gaps
from lpfuse.ensemble._tables import Table, impute_features


class RefusableDetector(FusedScorer):
    """Learns other weights from the out-of-fold scores at hand, and sets other thresholds."""

    detectors: Any
    fusion: Any
    scaler: Any
    threshold: Any
    false_alarm_rate: float
    contamination: float | None
    calibration: Any
    on_missing: Any
    out_of_fold_: OutOfFoldScores
    threshold_scores_: HeldOutScores

    def with_fusion(self, fusion: Any, scaler: Any = None) -> Self:
        """A copy with other weights, learnt from the same scores: no detector is fitted again.

        Parameters
        ----------
        fusion : estimator or None
            As the parameter of that name. One that looks at features is refused: they are not kept.
        scaler : transformer, optional
            As the parameter of that name; experts that see scaled scores keep the scale they had.

        Returns
        -------
        FusedDetector
            As if it had been fitted with these parameters; it shares the fitted detectors.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FixedRule, FusedDetector, GMMDetector, KernelPCADetector
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> pool = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
        >>> fused = FusedDetector(pool, random_state=0).fit(X)
        >>> fused.with_fusion(FixedRule("sum")).weights_
        array([1., 1.])
        """
        check_is_fitted(self)
        other = copy(self).set_params(fusion=fusion, scaler=scaler)
        if getattr(fusion, "uses_features", False):
            raise ValueError(f"{fusion!r} looks at the features of the rows: fit anew with it.")
        if self.contamination is not None or self.calibration == "split":
            raise ValueError(
                "The threshold rests on rows whose scores were not kept, for contamination or "
                'calibration="split" asks for it. Fit anew, or with calibration="cross".'
            )
        scores, before = self.out_of_fold_, self.held_out_
        n_anomalies = int((scores.labels[: len(before.labels)] < 0).sum())
        prior = choose_prior(other, self.detector_names_, n_anomalies)
        scaler, settled = other._choose_combination(scores, prior, {})
        chose = {"own_detectors": self.detectors is not None, "own_fusion": fusion is not None}
        combination = fuse(scaler, settled, scores, self.detector_names_, **chose)
        held_out = HeldOutScores.out_of_fold(scaler, settled, scores, before.extrapolation)
        other.held_out_ = other.threshold_scores_ = held_out[: len(before.labels)]
        other.scaler_, other.fusion_ = combination.scaler, combination.fusion
        other.feature_imputer_ = None
        other.offset_ = other.threshold_scores_.offset(other.threshold, other.false_alarm_rate)
        return other

    def _choose_combination(
        self,
        out_of_fold: OutOfFoldScores,
        prior: Mapping[str, float] | None,
        chosen: dict[str, Any],
    ) -> tuple[Any, Any]:
        raise NotImplementedError

    def _score_by(
        self,
        pool: Pool,
        combination: Combination,
        imputer: SimpleImputer | None,
        X: Table,
        labels: Host | None = None,
        *,
        report: bool = False,
    ) -> HeldOutScores:
        """Rows, normal ones by default, scored by the final detectors; `report` tells of gaps."""
        raw, errors = pool.scores(X, self.n_jobs)
        if report:
            names = [member.name for member in pool.members]
            report_gaps(raw, names, on_missing=self.on_missing, errors=errors)
        features = None if imputer is None else impute_features(imputer, X)
        labels = np.ones(len(raw)) if labels is None else labels
        return HeldOutScores.by(combination, raw, labels, features)

    def _report_gaps(self, raw: Host, errors: dict[str, str]) -> None:
        report_gaps(
            raw,
            self.detector_names_,
            on_missing=self.on_missing,
            errors=errors,
            abs_weights=self.combination_.abs_weights,
        )

    def _offset_without(self, silent: Gaps) -> float:
        """The threshold where some detectors are silent."""
        scores = self.threshold_scores_
        return scores.offset(self.threshold, self.false_alarm_rate, self.contamination, silent)
