"""What a fitted `FusedDetector` can do with its scores without fitting a detector again."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import RandomState
from sklearn.impute import SimpleImputer
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host
from lpfuse.ensemble._audit import report_gaps
from lpfuse.ensemble._calibration import HeldOutScores, OutOfFoldScores, fuse
from lpfuse.ensemble._defaults import choose_prior
from lpfuse.ensemble._experts import FittedPool
from lpfuse.ensemble._members import Pool
from lpfuse.ensemble._scoring import Combination, FusedScorer, Gaps
from lpfuse.ensemble._tables import Table, fit_imputer, impute_features
from lpfuse.ensemble._training import Training, collect_scores


class Settled(NamedTuple):
    """What a fit leaves: see the attributes of `FusedDetector`."""

    pool: Pool
    combination: Combination
    imputer: SimpleImputer | None
    out_of_fold: OutOfFoldScores
    held_out: HeldOutScores
    threshold_scores: HeldOutScores
    offset: float


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
    artificial_anomalies: bool
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
        if self.calibration == "split":
            raise ValueError(
                'With calibration="split" the threshold rests on rows whose scores were not kept. '
                'Fit anew, or with calibration="cross".'
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
        rule = other.threshold, other.false_alarm_rate, other.contamination
        other.offset_ = other.threshold_scores_.offset(*rule)
        return other

    def _settle(
        self, training: Training, found: FittedPool, chosen: dict[str, Any], random: RandomState
    ) -> Settled:
        """From the scores of a pool to all that a fit leaves: fuse, then calibrate."""
        pool, scores, two_folds_out, weights = found
        names = [member.name for member in pool.members]
        imputer = None
        if getattr(self.fusion, "uses_features", False):
            imputer = fit_imputer(training.X, training.labels)
        out_of_fold = collect_scores(
            training, scores, two_folds_out, names, self.artificial_anomalies, imputer, weights,
            random,
        )  # fmt: skip
        in_folds = (out_of_fold.labels != 0) & (out_of_fold.fold >= 0)
        report_gaps(scores[in_folds], names, on_missing=self.on_missing)

        # Fuse.
        prior = choose_prior(self, names, int((training.labels < 0).sum()))
        scaler, fusion = self._choose_combination(out_of_fold, prior, chosen)
        chose = {"own_detectors": self.detectors is not None, "own_fusion": self.fusion is not None}
        combination = fuse(scaler, fusion, out_of_fold, names, **chose)

        # Calibrate, by rows that the weights at hand were not learnt from.
        extrapolation = 0.0 if two_folds_out is None else training.extrapolation
        held_out = HeldOutScores.out_of_fold(scaler, fusion, out_of_fold, extrapolation)
        held_out = every = held_out[: len(training.labels)]
        if training.kept_back is not None:
            # Rows that nothing has learnt from take the place of normal ones out of fold.
            unseen = self._score_by(pool, combination, imputer, training.kept_back)
            every = HeldOutScores.concatenate([unseen, held_out])
            held_out = HeldOutScores.concatenate([unseen, held_out[held_out.labels <= 0]])
        threshold_scores = held_out if self.contamination is None else every
        offset = threshold_scores.offset(self.threshold, self.false_alarm_rate, self.contamination)
        out_of_fold = replace(out_of_fold, features=None)
        return Settled(pool, combination, imputer, out_of_fold, held_out, threshold_scores, offset)

    def _remember(self, settled: Settled) -> None:
        """The end of a fit: one that was refused leaves no trace."""
        self.pool_, self.feature_imputer_ = settled.pool, settled.imputer
        self.scaler_, self.fusion_ = settled.combination.scaler, settled.combination.fusion
        self.out_of_fold_, self.held_out_ = settled.out_of_fold, settled.held_out
        self.threshold_scores_, self.offset_ = settled.threshold_scores, settled.offset

    def _choose_combination(
        self,
        out_of_fold: OutOfFoldScores,
        prior: Mapping[str, float] | None,
        chosen: dict[str, Any],
    ) -> tuple[Any, Any]:
        raise NotImplementedError

    def _score_by(
        self, pool: Pool, combination: Combination, imputer: SimpleImputer | None, X: Table
    ) -> HeldOutScores:
        """Normal rows scored by the final detectors."""
        raw, errors = pool.scores(X, self.n_jobs)
        names = [member.name for member in pool.members]
        report_gaps(raw, names, on_missing=self.on_missing, errors=errors)
        features = None if imputer is None else impute_features(imputer, X)
        return HeldOutScores.by(combination, raw, np.ones(len(raw)), features)

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
