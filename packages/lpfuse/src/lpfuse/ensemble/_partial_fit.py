"""`FusedDetector.partial_fit`: scale, weights, threshold, and members that can, follow new rows."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_random_state

from lpfuse._arrays.operations import Host, is_blocked
from lpfuse._saved import ANY, saved_as
from lpfuse._validation.params import check_answers
from lpfuse._validation.tables import check_table
from lpfuse.ensemble._calibration import HeldOutScores
from lpfuse.ensemble._defaults import asked_fusion
from lpfuse.ensemble._explaining import ExplainableDetector
from lpfuse.ensemble._kept_rows import KeptRows, numbers_of
from lpfuse.ensemble._pool import Pool
from lpfuse.ensemble._scoring import Combination, scale_scores
from lpfuse.ensemble._tables import Table
from lpfuse.ensemble._training import draw_seed
from lpfuse.ensemble._updating import update_pool
from lpfuse.fusion.lp import LpFusion
from lpfuse.threshold import THRESHOLD_RULES

# Share of the new normal rows that calibrates and teaches nothing: weights and scale need fewer
# normal rows than a threshold does, which rests on one row in twenty of these.
CALIBRATES = 0.5
KEPT = 1000  # the last rows that calibrate: false alarms then scatter by 0.7 points around 5 %
RENEWED = 0.1  # share of them that must be new before all are scored again


@saved_as("FollowedRows", updated=ANY)
@dataclass
class FollowedRows:
    """What `FusedDetector.partial_fit` has seen, and the rows that calibrate.

    Attributes
    ----------
    n_taught, n_anomalies, n_calibrating : int
        Rows so far that weights, scale and members learnt from; the anomalies among them; and
        normal rows that were kept from all of these, to calibrate.
    updated : list of str
        Names of the members that learn from new rows; all others stay as they were fitted.
    values : ndarray of shape (m, d)
        The last of the rows that calibrate.
    fresh : int
        Those of them that came after the threshold was last set by them.
    calibrated : bool
        Whether it has been.
    """

    n_taught: int = 0
    n_anomalies: int = 0
    n_calibrating: int = 0
    updated: list[str] = field(default_factory=list)
    values: Host | None = None
    fresh: int = 0
    calibrated: bool = False


class FollowingDetector(ExplainableDetector):
    """Learns from rows as they come, without fitting anew."""

    following_: FollowedRows

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from new rows: weights, scale and threshold follow, and members that can.

        The first call is a `fit`. Later ones deal the normal rows out at random: half of them
        teach, the other half calibrates and teaches nothing. Anomalies teach.

        * *Members* with a ``partial_fit`` of their own learn from the rows that teach: one-class
          ones (such as :class:`~sklearn.linear_model.SGDOneClassSVM`) from normal rows, experts
          (:class:`~sklearn.linear_model.SGDClassifier`) from both classes; of a pipeline the last
          step. All others stay as they were fitted.
        * *Scale*: `TwoSidedMinMax` and `TailScaler` go on with the normal rows that teach.
        * *Weights*: :meth:`lpfuse.LpFusion.partial_fit`, with its bounds on what can be lost to
          the average and to the best fixed weights. Other fusions stay as they are.
        * *Threshold and p-values*: `recalibrate`, on up to 1,000 of the last rows that calibrate,
          from as many on as the rate takes (19 for 5 %) and whenever a tenth of them is new. Before
          that, rows of the fit stand in, fused by the new weights.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            New rows.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly, 0 where nobody looked: such rows teach nothing. Without it all
            rows are normal. In the first call as `fit` has it.

        Returns
        -------
        FusedDetector
            This detector, changed; :attr:`following_` counts. Where something is refused it stays
            what it was.

        Notes
        -----
        **What is promised.** No row that calibrates has taught anything, so a new normal row that
        is exchangeable with the rows in the buffer raises an alarm with at most the probability
        `false_alarm_rate`, as `recalibrate` has it, each time the threshold is set. Until a tenth
        of these is new, members that learn have moved on since they scored them. Where rows drift,
        the buffer is of the last rows, and the rate is off by as much as these differ from the
        next. Labels for rows that were chosen, such as alarms, make the rate that of such rows.

        Weights around a prior that few labels had left where it is may go as far from it as zero
        is: what can be lost to the prior is bounded by the mixture, not by held-out rows.

        `teach` and `with_fusion` learn from the rows of the fit, and forget what came later.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FusedDetector
        >>> rng = np.random.default_rng(0)
        >>> fused = FusedDetector(["gmm", "histogram"], random_state=0)
        >>> fused = fused.partial_fit(rng.normal(size=(500, 3)))  # a fit
        >>> moved = rng.normal(size=(2000, 3)) + 0.6
        >>> before = float(np.mean(fused.predict(moved[1000:]) < 0))
        >>> for batch in np.split(moved[:1000], 50):
        ...     fused = fused.partial_fit(batch)
        >>> after = float(np.mean(fused.predict(moved[1000:]) < 0))
        >>> bool(before > 0.1), bool(after < 0.08)
        (True, True)
        """
        if not hasattr(self, "pool_"):
            return self.fit(X, y)
        if is_blocked(X):
            raise ValueError("partial_fit takes rows in memory: pass a block of Dask at a time.")
        self._check_parameters()
        table = check_table(X, estimator=self)
        n = table.shape[0]
        labels = np.ones(n) if y is None else check_answers(y, n)
        rows = replace(getattr(self, "following_", FollowedRows()))
        raw = self._raw_scores(table)[0]
        calibrates = self._deal_out(labels, rows) & ~np.isnan(raw).all(axis=1)
        teach = np.flatnonzero((labels != 0) & ~calibrates & ~np.isnan(raw).any(axis=1))

        pool, combination = self.pool_, self.combination_
        if len(teach):
            taught = labels[teach]
            view = _safe_indexing(table, teach, axis=0)
            pool, rows.updated = update_pool(pool, view, raw[teach], taught)
            combination = self._follow(raw[teach], taught)
            rows.n_taught += len(teach)
            rows.n_anomalies += int((taught < 0).sum())
        self._keep(rows, table, calibrates)
        # From here on nothing is refused.
        self._settle_into(pool, combination)
        self.following_ = rows
        self._recalibrate_if_due(rows)
        return self

    def _deal_out(self, labels: Host, rows: FollowedRows) -> NDArray[np.bool_]:
        """Which of the rows calibrate: normal ones, by lot.

        The lot is drawn anew for each call, from the seed and the rows so far, so that a saved
        detector goes on as this one does.
        """
        given = self.random_state is not None
        seed = draw_seed(check_random_state(self.random_state)) if given else 0
        drawn = np.random.default_rng([seed, rows.n_taught, rows.n_calibrating])
        return np.asarray((labels > 0) & (drawn.random(len(labels)) < CALIBRATES))

    def _follow(self, raw: Host, labels: Host) -> Combination:
        """Copies of scale and weights that have learnt from raw scores of new rows."""
        scaler, fusion = self.scaler_, self.fusion_
        known = self.out_of_fold_
        usable = known.usable
        S, y = known.scores[usable], known.labels[usable]
        begins = isinstance(fusion, LpFusion) and not hasattr(fusion, "online_")
        if self.feature_imputer_ is None and hasattr(scaler, "partial_fit"):
            # A fit keeps no rows, but we do: from these the scale goes on exactly.
            goes_on = hasattr(scaler, "running_")
            scaler = deepcopy(scaler) if goes_on else clone(scaler).partial_fit(S[y > 0])
            if (labels > 0).any():
                scaler.partial_fit(raw[labels > 0])
        if not hasattr(fusion, "partial_fit"):
            return Combination(scaler, fusion)
        fusion = deepcopy(fusion)
        if begins:
            weights = known.weights_of(usable)
            weights = np.ones(len(y)) if weights is None else weights
            self._free(fusion)
            fusion.start_online(scale_scores(self.scaler_, S), y, weights)
        return Combination(scaler, fusion.partial_fit(scale_scores(scaler, raw), labels))

    def _free(self, fusion: LpFusion) -> None:
        """Let default weights leave a prior that few labels had left where it is."""
        if asked_fusion(self) is None and fusion.radius == 0 and fusion.prior_ is not None:
            fusion.set_params(radius=float(np.linalg.norm(fusion.prior_)))

    def _keep(self, rows: FollowedRows, table: Table, calibrates: NDArray[np.bool_]) -> None:
        """Take new rows that calibrate into the buffer; words are not kept."""
        numbers = numbers_of(_safe_indexing(table, np.flatnonzero(calibrates), axis=0))
        rows.n_calibrating += int(calibrates.sum())
        if numbers is None or self.rows_.values is None:
            return
        both = [numbers] if rows.values is None else [rows.values, numbers]
        rows.values = np.concatenate(both)[-KEPT:]
        rows.fresh = min(rows.fresh + len(numbers), len(rows.values))

    def _settle_into(self, pool: Pool, combination: Combination) -> None:
        """The new members, scale and weights, with the rows that calibrate as they are."""
        if combination.scaler is self.scaler_ and combination.fusion is self.fusion_:
            self.pool_ = pool
            return
        held_out = self.held_out_
        if self.feature_imputer_ is None:
            end = len(held_out.labels) - self.unseen_.n_kept_back
            raw = self.out_of_fold_.scores[:end]
            if self.unseen_.n_kept_back:
                raw = np.concatenate([raw, self.unseen_.scores])
            fused = HeldOutScores.by(combination, raw, held_out.labels)
            held_out = replace(fused, calibrates=held_out.calibrates)
        offset = self._offset_by(held_out)
        self.pool_, self.held_out_, self.offset_ = pool, held_out, offset
        self.scaler_, self.fusion_ = combination.scaler, combination.fusion

    def _recalibrate_if_due(self, rows: FollowedRows) -> None:
        """Set the threshold by the buffer, where it is large enough and enough of it is new."""
        by_rate = self.contamination is None and not THRESHOLD_RULES[self.threshold].needs_anomalies
        if rows.values is None or not by_rate or not rows.fresh:
            return
        if rows.calibrated and rows.fresh < RENEWED * len(rows.values):
            return
        if self._promise_of(len(rows.values)).k == 0:
            return
        buffer = KeptRows(rows.values, self.rows_.names, self.rows_.of_polars)
        self.recalibrate(buffer.table(), scale=False)
        rows.fresh, rows.calibrated = 0, True
