"""Another threshold for rows that have changed: the detectors and their weights stay."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host, is_blocked
from lpfuse._format import percent
from lpfuse._validation.params import check_choice
from lpfuse._validation.tables import check_table
from lpfuse.ensemble._calibration import HeldOutScores
from lpfuse.ensemble._kept_rows import kept_rows, numbers_of, places_of
from lpfuse.ensemble._scoring import Combination
from lpfuse.ensemble._subsample import draw_from_blocks
from lpfuse.ensemble._teaching import TeachableDetector
from lpfuse.ensemble._unseen import UnseenRows
from lpfuse.threshold import THRESHOLD_RULES, CalibrationPromise, calibration_promise

# Of so many rows a third sets the scale, and the rest the threshold; of fewer, all the threshold.
SCALE_FROM, SCALE_SHARE = 200, 1 / 3


class RecalibratableDetector(TeachableDetector):
    """Moves threshold, p-values and scale to where normal rows are now."""

    subsample: int

    def recalibrate(self, X: Any, *, scale: bool | Literal["auto"] = "auto") -> Self:
        r"""Move threshold, p-values and scale together to other normal rows; nothing is fitted.

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (n, d)
            Normal rows as they come now, that nothing has learnt from. Of Dask, `subsample` rows
            are drawn.
        scale : bool or "auto", default="auto"
            Whether a third of the rows, drawn at random, sets the scale of each detector's scores
            anew, and the others the threshold. "auto": from 200 rows on.

        Returns
        -------
        FusedDetector
            This detector, changed. Where something is refused it stays what it was.

        Notes
        -----
        **What is promised.** With m rows that set the threshold, and no part in anything else, a
        new normal row that is exchangeable with them is called an anomaly with the probability

        .. math:: \alpha - \frac{1}{m + 1} < P(\text{false alarm}) \le \alpha

        as after ``calibration="split"``, on the left if scores have no ties; with `confidence`, see
        :func:`lpfuse.threshold.conformal_offset`. Earlier rows no longer count: where X is of one
        shift or one machine, that is what the promise is of. Anomalies in X raise fewer alarms: the
        rate then holds for rows as in X.

        **What stays.** Detectors and weights; so a new kind of normal rows that the detectors find
        as strange as anomalies costs hits, and calls for a new fit. `teach` and `with_fusion` keep
        the rows for the threshold, and learn the scale from the training rows again.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FusedDetector
        >>> rng = np.random.default_rng(0)
        >>> fused = FusedDetector(["gmm", "histogram"], random_state=0).fit(
        ...     rng.normal(size=(500, 3))
        ... )
        >>> X = rng.normal(size=(2000, 3)) + 0.6  # the rows have moved
        >>> round(float(np.mean(fused.predict(X[1000:]) < 0)), 2)
        0.14
        >>> fused = fused.recalibrate(X[:1000])
        >>> round(float(np.mean(fused.predict(X[1000:]) < 0)), 2)
        0.04
        """
        check_is_fitted(self)
        check_choice("scale", scale, (True, False, "auto"))
        self._check_recalibratable()
        random = check_random_state(self.random_state)
        if is_blocked(X):
            X, _ = draw_from_blocks(X, None, None, None, self.subsample, random)
        table = check_table(X, estimator=self)
        self._warn_of_training_rows(table)
        raw, features = self._raw_scores(table)
        sets_scale = self._rows_for_scale(raw, scale, random)
        calibrates = np.flatnonzero(~sets_scale)
        scored = calibrates[~np.isnan(raw[calibrates]).all(axis=1)]
        promise = self._promise_of(len(scored))
        if promise.k == 0:
            raise ValueError(f"{promise.sentence()} The detector was left as it is.")

        combination = self.combination_
        end = len(self.held_out_.labels) - self.unseen_.n_kept_back
        seen = self.held_out_[:end]
        if sets_scale.any():
            scaler = clone(self.scaler_).fit(raw[sets_scale])
            combination = Combination(scaler, self.fusion_)
            # On the new scale, for reports and audits; by the weights at hand.
            if features is None:
                known = self.out_of_fold_.scores[:end]
                seen = HeldOutScores.by(combination, known, seen.labels)
        ones = np.ones(len(scored))
        new = HeldOutScores.by(
            combination, raw[scored], ones, None if features is None else features[scored]
        )
        seen = replace(seen, calibrates=np.zeros(end, dtype=bool))
        held_out = HeldOutScores.concatenate([seen, new])
        offset = self._offset_by(held_out)

        if self.rows_.values is not None:
            both = self.rows_.table(slice(end)), _safe_indexing(table, scored, axis=0)
            self.rows_ = replace(kept_rows(*both), n_added=self.rows_.n_added)
        known = np.column_stack([ones, np.full(len(scored), np.nan)])
        self.unseen_ = UnseenRows("split", scores=raw[scored], known=known)
        self.rounds_ = np.concatenate([self.rounds_[:end], np.zeros(len(scored), np.intp)])
        self.scaler_, self.held_out_, self.offset_ = combination.scaler, held_out, offset
        return self

    def _promise_of(self, n: int) -> CalibrationPromise:
        return calibration_promise(max(n, 1), self.false_alarm_rate, self.confidence)

    def _rows_for_scale(
        self, raw: Host, scale: bool | Literal["auto"], random: np.random.RandomState
    ) -> Any:
        """Rows that set the scale: some of those that all detectors score, or none."""
        chosen = np.zeros(len(raw), dtype=bool)
        whole = np.flatnonzero(~np.isnan(raw).any(axis=1))
        if scale is False or (scale == "auto" and len(whole) < SCALE_FROM):
            return chosen
        chosen[random.permutation(whole)[: int(SCALE_SHARE * len(whole))]] = True
        return chosen

    def _check_recalibratable(self) -> None:
        if THRESHOLD_RULES[self.threshold].needs_anomalies or self.contamination is not None:
            by = f"contamination={self.contamination}"
            if self.contamination is None:
                by = f'threshold="{self.threshold}"'
            raise ValueError(
                "recalibrate takes normal rows, and sets the threshold by a rate of false alarms; "
                f'here it is set by {by}. Fit with threshold="false-alarms", or fit again.'
            )

    def _warn_of_training_rows(self, table: Any) -> None:
        known, rows = self.rows_.values, numbers_of(table)
        if known is None or rows is None:
            return
        end = len(known) - self.unseen_.n_kept_back
        share = float(np.mean(places_of(known[:end], rows) >= 0))
        if share > 0.5:
            warnings.warn(
                f"{percent(share)} of the rows are training rows, which the detectors know: their "
                "scores flatter, and false alarms will exceed the rate. Recalibrate on rows that "
                "came later.",
                UserWarning,
                stacklevel=3,
            )
