"""What a fitted `FusedDetector` can do with its scores without fitting a detector again."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.random import RandomState
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host
from lpfuse.adapters import has_known_direction
from lpfuse.ensemble._audit import report_gaps
from lpfuse.ensemble._calibration import HeldOutScores, OutOfFoldScores, fuse
from lpfuse.ensemble._defaults import asked_fusion, choose_prior
from lpfuse.ensemble._experts import FittedPool
from lpfuse.ensemble._pool import Pool
from lpfuse.ensemble._scoring import Combination, FusedScorer, Gaps
from lpfuse.ensemble._tables import fit_imputer
from lpfuse.ensemble._training import Training, collect_scores
from lpfuse.ensemble._unseen import Learnt, UnseenRows
from lpfuse.threshold import integrative_pvalues


class Settled(NamedTuple):
    """What a fit leaves: see the attributes of `FusedDetector`."""

    learnt: Learnt
    held_out: HeldOutScores
    unseen: UnseenRows
    offset: float


class RefusableDetector(FusedScorer):
    """Learns other weights from the out-of-fold scores at hand, and sets other thresholds."""

    detectors: Any
    fusion: Any
    p: Any = "auto"  # also of files of FusedDetectorCV that were written without it
    scaler: Any
    threshold: Any
    false_alarm_rate: float
    contamination: float | None
    calibration: Any
    on_missing: Any
    artificial_anomalies: bool
    confidence: float | None
    out_of_fold_: OutOfFoldScores
    unseen_: UnseenRows

    # Whether scale and fusion are chosen anew without each part. Here the choice is how far weights
    # may leave the prior, one of four steps, and one row in thousands does not move it.
    _chooses_in_parts = False

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
        other = copy(self).set_params(fusion=fusion, scaler=scaler, p="auto")
        if getattr(fusion, "uses_features", False):
            raise ValueError(f"{fusion!r} looks at the features of the rows: fit anew with it.")
        n = len(self.held_out_.labels) - self.unseen_.n_kept_back
        learnt = other._fuse(self.out_of_fold_, self.pool_, None, {})
        learnt = learnt._replace(held_out=learnt.held_out[:n])  # without artificial anomalies
        with warnings.catch_warnings():  # what there is to say was said of all rows
            warnings.simplefilter("ignore")
            others = [
                other._fuse(part.out_of_fold, self.pool_, None, {}, learnt.combination)
                for part in self.unseen_.parts
            ]
        other._remember(other._settle(learnt, others, self.unseen_))
        return other

    def integrative_pvalues(self, X: Any, method: str = "ratio") -> Host:
        """P-values that labelled anomalies sharpen, as valid as `pvalues` are.

        Among the detectors, and their fused score, those count that tell labelled anomalies from
        normal rows: see :func:`lpfuse.threshold.integrative_pvalues`.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.
        method : {"ratio", "best"}, default="ratio"
            How the scores of the detectors become one p-value.

        Returns
        -------
        ndarray of shape (n,)
            P-values; NaN where a detector is silent.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FusedDetector, GMMDetector, KernelPCADetector
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(size=(300, 2)), rng.normal(3, 1, size=(20, 2))])
        >>> y = np.repeat([1, -1], [300, 20])
        >>> pool = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
        >>> fused = FusedDetector(pool, calibration="split", random_state=0).fit(X, y)
        >>> fused.integrative_pvalues([[3.0, 3.0], [0.0, 0.0]]) < 0.05
        array([ True, False])
        """
        check_is_fitted(self)
        known = self.out_of_fold_.known
        if self.unseen_.by != "split" or known is None or not (known < 0).any():
            raise ValueError(
                "Integrative p-values compare with normal rows that were kept back, and with "
                f'labelled anomalies; got calibration by "{self.unseen_.by}" and '
                f"{0 if known is None else int((known < 0).sum())} anomalies. Fit with "
                'calibration="split" and some y = -1, or use pvalues.'
            )
        anomalies, kept_back = np.flatnonzero(known < 0), self.unseen_.n_kept_back
        fused, (raw, features) = self.held_out_.fused, self._raw_scores(X)
        return integrative_pvalues(
            np.column_stack([self.unseen_.scores, fused[-kept_back:]]),
            np.column_stack([self.out_of_fold_.scores[anomalies], fused[anomalies]]),
            np.column_stack([raw, self.combination_.score_samples(raw, features)]),
            method,
        )

    def _learn(
        self,
        training: Training,
        found: FittedPool,
        chosen: dict[str, Any],
        random: RandomState,
        whole: Combination | None = None,
    ) -> Learnt:
        """From the scores of a pool to weights, and held-out scores of the rows.

        Where these are a part, `whole` is what was learnt from all rows.
        """
        pool, scores, weights, calm = found
        names = [member.name for member in pool.members]
        imputer = None
        if getattr(self.fusion, "uses_features", False):
            imputer = fit_imputer(training.X, training.labels)
        out_of_fold = collect_scores(
            training, scores, names, self.artificial_anomalies, imputer, weights, random
        )
        if getattr(self.fusion, "needs_scorer", False) and isinstance(training.X, np.ndarray):
            out_of_fold = replace(out_of_fold, ask=lambda X: pool.scores(X)[0])
        in_folds = (out_of_fold.labels != 0) & (out_of_fold.fold >= 0)
        report_gaps(scores[in_folds], names, on_missing=self.on_missing)
        learnt = self._fuse(out_of_fold, pool, imputer, chosen, whole)
        return learnt._replace(held_out=learnt.held_out[: len(training.labels)], calm=calm)

    def _fuse(
        self,
        out_of_fold: OutOfFoldScores,
        pool: Pool,
        imputer: SimpleImputer | None,
        chosen: dict[str, Any],
        whole: Combination | None = None,
    ) -> Learnt:
        """Scale and weights, learnt from out-of-fold scores; for a part, of the kind of `whole`."""
        names = [member.name for member in pool.members]
        known = out_of_fold.labels if out_of_fold.known is None else out_of_fold.known
        if whole is None or self._chooses_in_parts:
            prior = choose_prior(self, names, int((known < 0).sum()))
            scaler, fusion = self._choose_combination(out_of_fold, prior, chosen)
        else:
            scaler, fusion = clone(whole.scaler), clone(whole.fusion)
        asked = asked_fusion(self) is not None
        chose = {"own_detectors": self.detectors is not None, "own_fusion": asked}
        told = np.array([has_known_direction(member.last) for member in pool.members])
        combination = fuse(scaler, fusion, out_of_fold, names, known_direction=told, **chose)
        held_out = HeldOutScores.out_of_fold(scaler, fusion, out_of_fold)
        out_of_fold = replace(out_of_fold, features=None, ask=None)  # for no other weights
        return Learnt(pool, combination, imputer, out_of_fold, held_out)

    def _settle(self, learnt: Learnt, others: Sequence[Learnt], unseen: UnseenRows) -> Settled:
        """Calibrate: the threshold, by rows that nothing has seen."""
        held_out = unseen.calibrate(learnt, others)
        return Settled(learnt, held_out, unseen.without_features(), self._offset_by(held_out))

    def _offset_by(self, held_out: HeldOutScores, silent: Gaps | None = None) -> float:
        rule = self.threshold, self.false_alarm_rate, self.contamination
        return held_out.offset(*rule, silent, self.confidence)

    def _remember(self, settled: Settled) -> None:
        """The end of a fit: one that was refused leaves no trace."""
        learnt = settled.learnt
        self.pool_, self.feature_imputer_ = learnt.pool, learnt.imputer
        self.scaler_, self.fusion_ = learnt.combination.scaler, learnt.combination.fusion
        self.out_of_fold_, self.held_out_ = learnt.out_of_fold, settled.held_out
        self.unseen_, self.offset_ = settled.unseen, settled.offset

    def _choose_combination(
        self,
        out_of_fold: OutOfFoldScores,
        prior: Mapping[str, float] | None,
        chosen: dict[str, Any],
    ) -> tuple[Any, Any]:
        raise NotImplementedError

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
        return self._offset_by(self.held_out_, silent)
