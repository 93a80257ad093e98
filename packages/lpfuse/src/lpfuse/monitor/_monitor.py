"""DriftMonitor: watches the rows that a fused detector is asked about, for as long as they come."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host
from lpfuse._saved import ANY, saved_as
from lpfuse._validation.params import check_count, check_share
from lpfuse._validation.tables import check_table
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.components import Verdicts
from lpfuse.monitor._counts import StreamCounts, block_sizes
from lpfuse.monitor._reference import FEWEST, numbers_at, reference_of
from lpfuse.monitor._status import Drift, DriftStatus
from lpfuse.monitor._streams import WatchedStreams


@saved_as("DriftMonitor", column_names_=ANY, detector_names_=ANY)
class DriftMonitor:
    r"""Say when rows stop being like those that a fused detector was calibrated on.

    Every row of the stream falls into a bin of the reference rows' values: for the fused score,
    for the score of each of R detectors, and for each of d columns. A bet against "rows still come
    as the reference did" multiplies what was staked on it by a martingale :math:`E_t`, whose mean
    stays 1 as long as that is true, whatever the law of the rows (see `lpfuse.monitor`). Drift is
    declared of a stream of numbers that has the share :math:`v` of the level once
    :math:`E_t \ge 1 / (v \, \mathrm{level})`, so that

    .. math:: P(\text{drift is ever declared} \mid \text{nothing changes}) \le \mathrm{level}

    over any length of time. Half of the level goes to the columns, a quarter to the tenth of the
    rows that the fused score finds strangest, a tenth to the other rows, the rest to the detectors.

    Parameters
    ----------
    level : float in (0, 0.5], default=0.01
        The chance of a false drift alarm, ever.
    first_rows : int, default=300
        Rows of the stream that scores are compared with where there is no other reference.
    random_state : int, default=0
        Breaks ties.

    Attributes
    ----------
    n_rows_ : int
        Rows so far.
    status_ : DriftStatus
        What is to be said of them.
    n_reference_ : tuple of two ints
        Rows that columns and scores are compared with; 0 while that is not known.

    Notes
    -----
    **What is promised** rests on rows that are exchangeable with the reference while nothing
    changes, for instance independent. Where a row is like the one before, as measurements of each
    second are, ten rows tell less than ten, and false alarms are more: hand over every k-th row, or
    means of k rows. Copies that `fit` left out make training rows another reference than the
    stream; and a detector that was fitted to normal rows alone, watching rows of which some are
    anomalies, will find these: pass a `reference` of rows as they come.

    **What cannot be told.** Rows that have changed before the first one comes are compared with the
    reference alone, and what its n rows leave open is not found, however long it lasts: with 400
    rows half of the shifts of 0.4 standard deviations in one of ten columns, with 50 rows most of
    those of 1. Rows of the stream that were calm count as further reference. Scores see each row by
    itself, so that an order that changes is not seen. See :attr:`DriftStatus.kind` for what
    "more anomalies" may be as well.

    **After an alarm** the monitor goes on. Once the model was recalibrated or fitted again, make a
    new one.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import FusedDetector
    >>> from lpfuse.monitor import DriftMonitor
    >>> rng = np.random.default_rng(0)
    >>> fused = FusedDetector(["gmm", "kpca"], random_state=0).fit(rng.normal(size=(3000, 4)))
    >>> monitor = DriftMonitor().fit(fused)
    >>> X = rng.normal(size=(2000, 4))
    >>> monitor.update(X, fused.verdicts(X)).alarm
    False
    >>> X = rng.normal(size=(500, 4))
    >>> X[:, 2] += 0.5  # a sensor is off by half a standard deviation
    >>> status = monitor.update(X, fused.verdicts(X))
    >>> status.kind, status.drifts[0].stream, status.drifts[0].what
    ('normal has changed', 'column:2', 'higher')
    """

    def __init__(
        self, *, level: float = 0.01, first_rows: int = 300, random_state: int = 0
    ) -> None:
        self.level = level
        self.first_rows = first_rows
        self.random_state = random_state

    def fit(self, fused: FusedDetector, reference: Any = None, *, column_names: Any = None) -> Self:
        """Learn what rows are to be compared with; forget all rows so far.

        Parameters
        ----------
        fused : FusedDetector
            Fitted. It is not kept.
        reference : array-like or data frame of shape (n, d), optional
            Rows as they usually come, with as many anomalies as usual, that `fused` has not learnt
            from. Without them columns are compared with the training rows (other than known
            anomalies), and scores with the rows that were kept back for calibration; where none
            were, below 2,000 normal rows, with the first `first_rows` of the stream.
        column_names : list of str, optional
            What columns are called; by default as `fused` knows them.

        Returns
        -------
        DriftMonitor
            Ready for the first row.
        """
        check_is_fitted(fused)
        check_share("level", self.level, of="the streams that do not change")
        if check_count("first_rows", self.first_rows) < FEWEST:
            raise ValueError(f"first_rows must be at least {FEWEST}, got {self.first_rows}.")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        found = reference_of(fused, reference, column_names)
        self.seed_ = seed
        self.positions_, self.column_names_ = found.positions, found.names
        self.detector_names_ = list(fused.detector_names_)
        self.n_features_in_ = fused.n_features_in_
        self.n_rows_ = 0
        self.drifts_: list[Drift] = []
        # Columns, if there is a reference of them; and scores, as soon as there is one.
        self.columns_: WatchedStreams | None = None
        self.scores_: WatchedStreams | None = None
        self.first_scores_ = np.empty((0, 1 + len(self.detector_names_)))
        if found.columns is not None:
            self.columns_ = WatchedStreams.columns(found.columns, found.names, seed)
        if found.scores is not None:
            self.scores_ = WatchedStreams.scores(found.scores, self.detector_names_, seed + 1)
        return self

    # ------------------------------------------------------------------------- rows, one by one

    def update(self, X: Any, verdicts: Verdicts) -> DriftStatus:
        """Take in the next rows.

        Parameters
        ----------
        X : array-like or data frame of shape (m, d), or (d,) for one row
            Rows, in the order in which they came.
        verdicts : Verdicts
            What the detector says of them, ``fused.verdicts(X)``.

        Returns
        -------
        DriftStatus
            What is to be said of all rows so far.
        """
        return self.update_counts(self.count(X, verdicts))

    def count(self, X: Any, verdicts: Verdicts, *, first_row: int | None = None) -> StreamCounts:
        """What `update_counts` takes of rows: small, and made without changing the monitor.

        Workers of a cluster count, and one monitor takes the counts in.

        Parameters
        ----------
        X, verdicts
            As in `update`.
        first_row : int, optional
            How many rows of the stream were before these, for breaking ties; by default as many as
            the monitor has seen.

        Returns
        -------
        StreamCounts
            Counts of the bins; ``+`` puts those of later rows behind.
        """
        if not hasattr(self, "seed_"):
            raise NotFittedError("This monitor has nothing to compare with: call fit(fused) first.")
        start = self.n_rows_ if first_row is None else first_row
        scores = np.column_stack([verdicts.scores, verdicts.detector_scores])
        values = self._column_values(X, len(scores))
        rows = block_sizes(len(scores))
        columns = None if self.columns_ is None else self.columns_.count(values, start, rows)
        if self.scores_ is None:
            return StreamCounts(rows, columns, None, scores)
        return StreamCounts(rows, columns, self.scores_.count(scores, start, rows), None)

    def update_counts(self, counts: StreamCounts) -> DriftStatus:
        """Take in the counts of the next rows, in their order.

        Parameters
        ----------
        counts : StreamCounts
            By `count` of this monitor, or of a copy that knows the same reference.

        Returns
        -------
        DriftStatus
            What is to be said of all rows so far.
        """
        rows, start = counts.rows, self.n_rows_
        found = []
        if self.columns_ is not None and counts.columns is not None:
            found = self.columns_.update(counts.columns, rows, self.level, start)
        blocks = counts.scores
        if counts.waiting is not None:
            later = self._after_first_rows(counts.waiting)
            start += len(counts.waiting) - len(later)
            if self.scores_ is not None and len(later):
                rows = block_sizes(len(later))
                blocks = self.scores_.count(later, start, rows)
        if self.scores_ is not None and blocks is not None:
            found += self.scores_.update(blocks, rows, self.level, start)
        self._declare(found)
        self.n_rows_ += int(counts.rows.sum())
        return self.status_

    @property
    def status_(self) -> DriftStatus:
        """What is to be said of all rows so far."""
        evidence: dict[str, float] = {}
        shifts: dict[str, float] = {}
        spreads: dict[str, float] = {}
        for streams in filter(None, (self.scores_, self.columns_)):
            evidence |= streams.evidence
            mean, deviation = streams.history.latest()
            shifts |= dict(zip(streams.names, mean.tolist(), strict=True))
            spreads |= dict(zip(streams.names, deviation.tolist(), strict=True))
        waiting = 0 if self.scores_ is not None else self.first_rows - len(self.first_scores_)
        return DriftStatus(
            self.n_rows_, self.level, list(self.drifts_), evidence, shifts, spreads, waiting
        )

    @property
    def n_reference_(self) -> tuple[int, int]:
        """Rows that columns and scores are compared with; 0 while that is not known."""
        both = self.columns_, self.scores_
        columns, scores = (0 if each is None else int(each.bins.gaps.sum()) - 1 for each in both)
        return columns, scores

    def merge(self, other: DriftMonitor) -> Self:
        """Take in a monitor of other rows, which compared with the same reference.

        Parameters
        ----------
        other : DriftMonitor
            Fitted in the same way, to the same detector.

        Returns
        -------
        DriftMonitor
            This one, which knows of the rows of both.

        Notes
        -----
        Evidence becomes the mean of both, which the level holds for if the two were not asked apart
        before. That is weaker than `count` where rows are, and `update_counts` in one place, which
        loses nothing.
        """
        pairs = [(self.columns_, other.columns_), (self.scores_, other.scores_)]
        if not all(_same_reference(one, two) for one, two in pairs):
            raise ValueError(
                "Monitors can be merged that compare with the same reference. Fit both to one "
                "detector with rows that were kept back, or with one reference."
            )
        n = self.n_rows_ + other.n_rows_
        found = list(other.drifts_)
        for one, two in pairs:
            if one is not None and two is not None:
                found += one.merge(two, self.level, n)
        self._declare(found)
        self.n_rows_ = n
        return self

    def _after_first_rows(self, scores: Host) -> Host:
        """The scores that are left once the first ones have become the reference."""
        if self.scores_ is not None:  # counted by a copy that did not know of it
            return scores
        missing = self.first_rows - len(self.first_scores_)
        self.first_scores_ = np.concatenate([self.first_scores_, scores[:missing]])
        if len(self.first_scores_) == self.first_rows:
            self.scores_ = WatchedStreams.scores(
                self.first_scores_, self.detector_names_, self.seed_ + 1
            )
            self.first_scores_ = self.first_scores_[:0]
        return scores[missing:]

    def _declare(self, found: list[Drift]) -> None:
        """Note what was not known before, in the order in which it was proven."""
        known = {each.stream for each in self.drifts_}
        self.drifts_ += sorted(
            (each for each in found if each.stream not in known), key=lambda each: each.declared
        )

    def _column_values(self, X: Any, n: int) -> Host:
        X = np.reshape(X, (1, -1)) if np.ndim(X) == 1 and not hasattr(X, "columns") else X
        table = check_table(X)
        if table.shape != (n, self.n_features_in_):
            raise ValueError(
                f"X and verdicts must be of the same rows, and of {self.n_features_in_} columns; "
                f"got rows of shape {table.shape} and {n} verdicts. Pass X and fused.verdicts(X)."
            )
        if self.columns_ is None:
            return np.empty((n, 0))
        return numbers_at(table, self.positions_)


def _same_reference(one: WatchedStreams | None, two: WatchedStreams | None) -> bool:
    if one is None or two is None:
        return one is two
    same = one.names == two.names and one.bins.edges.shape == two.bins.edges.shape
    return same and bool((one.bins.edges == two.bins.edges).all())
