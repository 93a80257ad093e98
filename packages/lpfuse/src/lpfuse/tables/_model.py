"""TableModel: from the columns of a table to decisions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any

from lpfuse._arrays.operations import Host
from lpfuse._saved import ANY, saved_as
from lpfuse._validation.params import check_norm, quoted
from lpfuse.adapters import ScoreColumn
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.rows import EmptyColumnWarning
from lpfuse.ensemble.scoring import score_columns
from lpfuse.io import save
from lpfuse.tables._cells import check_names
from lpfuse.tables._columns import learn_preparation
from lpfuse.tables._csv_format import OPEN, TableFormat
from lpfuse.tables._explaining import ExplainedTable
from lpfuse.tables._frames import FrameJudge, as_polars
from lpfuse.tables._kinds import check_kinds
from lpfuse.tables._labels import labels_of, settle_labels
from lpfuse.tables._polars import polars_module
from lpfuse.tables._preparation import TablePreparation
from lpfuse.tables._ranges import learn_ranges

if TYPE_CHECKING:
    import polars


@saved_as("TableModel", label=ANY, normal=ANY, notes=(...,))
@dataclass(eq=False)
class TableModel(FrameJudge, ExplainedTable):
    """A fused detector for tables as people have them, with what was taken as what.

    Attributes
    ----------
    preparation : TablePreparation
        How columns become features.
    fused : FusedDetector
        Fitted to them.
    label : str or None
        The column of labels; None: all were taken as normal.
    normal : str or None
        What normal rows hold there; empty: nothing.
    notes : list of str
        What was taken as what, what was dropped and why, in sentences.
    format : TableFormat
        How files of such rows are written, as far as a user has told; for files to come.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from lpfuse.tables import TableModel
    >>> rng = np.random.default_rng(0)
    >>> pumps = pl.DataFrame({"bar": rng.normal(2.5, 0.1, 200), "flow": rng.normal(7.0, 1.0, 200)})
    >>> model = TableModel.fit(pumps, detectors=["gmm", "kpca"])
    >>> scored = model.score(pl.DataFrame({"flow": [7.0, 1.0], "bar": [2.5, 9.9]}))
    >>> scored.columns
    ['score', 'p_value', 'decision', 'contribution:gmm', 'contribution:kpca']
    >>> scored["decision"].to_list()
    [1, -1]
    """

    preparation: TablePreparation
    fused: FusedDetector
    label: str | None
    normal: str | None
    notes: list[str]
    format: TableFormat = OPEN

    @classmethod
    def fit(
        cls,
        frame: polars.DataFrame,
        *,
        label: str | None = None,
        normal: str | None = None,
        detectors: Sequence[str] | str | None = None,
        p: float | str = "auto",
        false_alarm_rate: float = 0.05,
        confidence: float | None = None,
        features: Sequence[str] = (),
        drop: Sequence[str] = (),
        categories: Sequence[str] = (),
        kinds: Mapping[str, str] | None = None,
        random_state: int = 0,
        n_jobs: int | None = None,
        progress: Callable[[int, int], None] | None = None,
        show_notes: Callable[[list[str]], None] | None = None,
    ) -> TableModel:
        """Settle what the columns are, and fit a fused detector.

        Parameters
        ----------
        frame : data frame
            Rows to learn from, of polars, pandas, narwhals or Arrow.
        label : str, optional
            The column of labels; without it all are taken as normal.
        normal : str, optional
            What normal rows hold there. All else is an anomaly, and rows that hold nothing are
            unlabelled; if `normal` is empty, these are the normal ones. It may be left out where
            the labels are 1 and −1, or one of them is "normal".
        detectors : sequence of str or "paper", optional
            Of the default pool, "svdd", "kpca", "gmm", "iforest", "lof", "logistic" and
            "random-forest", and "pyod:HBOS" and others of PyOD; None: the default pool.
        p : float or "auto", default="auto"
            The norm of the weights; "auto": that of the default fusion.
        false_alarm_rate, confidence : float, default=0.05 and None
            Share of normal rows that may be called anomalies, and how surely: `FusedDetector`.
        features, drop, categories : sequence of str
            The only columns to use; columns to leave out; columns whose numbers are names.
        kinds : mapping of str: str, optional
            What columns are, by name: "number", "category", "date", "elapsed", "id", "text" or
            "drop", see `learn_preparation`. Of all others that is found by looking at them.
        random_state, n_jobs : int, default=0 and None
            Seed, and processes.
        progress, show_notes : callables, optional
            Called with the number of fits that are done, and of all; and, before, with the notes.

        Returns
        -------
        TableModel
            Fitted.
        """
        columns, labels, normal, note = settle_labels(frame, label, normal)
        preparation = learn_preparation(
            columns,
            features=check_names(features, columns.columns),
            drop=check_names(drop, columns.columns),
            categories=check_names(categories, columns.columns),
            kinds=check_kinds(kinds or {}, columns.columns),
        )
        fused = FusedDetector(
            detectors if detectors is None or isinstance(detectors, str) else list(detectors),
            p=check_norm(p),
            false_alarm_rate=false_alarm_rate,
            confidence=confidence,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        model = cls(preparation, fused, label, normal, [note, *preparation.notes])
        return model._learn(columns, labels, progress, show_notes)

    @classmethod
    def fuse(
        cls,
        frame: polars.DataFrame,
        *,
        label: str | None = None,
        normal: str | None = None,
        high: Mapping[str, str] | None = None,
        p: float | str = "auto",
        false_alarm_rate: float = 0.05,
        features: Sequence[str] = (),
        drop: Sequence[str] = (),
        random_state: int = 0,
        show_notes: Callable[[list[str]], None] | None = None,
    ) -> TableModel:
        """The same where the columns are scores of other detectors: learn their weights.

        Parameters
        ----------
        frame : polars.DataFrame
            Scores, a column for each detector. Where one is missing, the others decide.
        high : mapping of str: {"normal", "anomaly"}, optional
            What high scores of a column mean; where it says nothing, "normal".
        label, normal, p, false_alarm_rate, features, drop, random_state, show_notes
            As in `fit`.

        Returns
        -------
        TableModel
            Fitted.
        """
        columns, labels, normal, note = settle_labels(frame, label, normal)
        preparation = learn_preparation(
            columns,
            features=check_names(features, columns.columns),
            drop=check_names(drop, columns.columns),
            scores=True,
        )
        turned = [name for name in preparation.columns if (high or {}).get(name) == "anomaly"]
        detectors = [
            (name, ScoreColumn("anomaly" if name in turned else "normal"), [place])
            for place, name in enumerate(preparation.columns)
        ]
        fused = FusedDetector(
            detectors,
            p=check_norm(p),
            false_alarm_rate=false_alarm_rate,
            random_state=random_state,
        )
        note_on_high = f"High scores mean anomaly: {quoted(turned) if turned else 'in no column'}."
        model = cls(preparation, fused, label, normal, [note, *preparation.notes, note_on_high])
        return model._learn(columns, labels, None, show_notes)

    def _learn(
        self,
        frame: polars.DataFrame,
        labels: Host,
        progress: Callable[[int, int], None] | None,
        show_notes: Callable[[list[str]], None] | None,
    ) -> TableModel:
        X = self.preparation.numbers(frame)
        learn_ranges(self.preparation, X[labels >= 0])
        if show_notes is not None:
            show_notes(self.notes)
        y = None if self.label is None else labels
        self.fused.fit(X, y, unlabelled=0, progress=progress or False)
        return self

    @property
    def feature_names(self) -> list[str]:
        """What the features are called that the detectors see."""
        return self.preparation.feature_names

    @property
    def score_columns(self) -> list[str]:
        """What the columns of `score` are called."""
        return score_columns(self.fused.detector_names_)

    def check_kept(self, keep: Sequence[str], columns: list[str]) -> list[str]:
        """Names of columns to stand before the scores, which must not have the same.

        Parameters
        ----------
        keep : sequence of str
            As a user wrote them.
        columns : list of str
            The columns that there are.
        """
        kept = check_names(keep, columns)
        clash = [name for name in kept if name in self.score_columns]
        if clash:
            raise ValueError(
                f"{quoted(clash)} cannot be kept: the scores have a column of that name. Rename it "
                "in the data."
            )
        return list(dict.fromkeys(kept))

    def labels(self, frame: polars.DataFrame) -> Host | None:
        """What the column of labels says of rows.

        Parameters
        ----------
        frame : polars.DataFrame
            Rows.

        Returns
        -------
        ndarray of shape (n,) or None
            +1 normal, −1 anomaly, 0 unlabelled; None where there is no such column.
        """
        if self.label is None or self.normal is None or self.label not in frame.columns:
            return None
        return labels_of(frame[self.label], self.normal)

    def score(
        self, frame: polars.DataFrame, *, start: int = 0, keep: Sequence[str] = ()
    ) -> polars.DataFrame:
        """Scores, p-values, decisions, and what each detector contributed.

        Parameters
        ----------
        frame : polars.DataFrame
            Rows, with the columns of the training in any order, and perhaps others.
        start : int, default=0
            Rows before these, for messages.
        keep : sequence of str, default=()
            Columns of the rows to be put before the scores.

        Returns
        -------
        polars.DataFrame
            Columns ``score`` (high = normal), ``p_value`` (small for anomalies), ``decision`` (1
            normal, −1 anomaly) and ``contribution:NAME`` for each detector, which add up to the
            score. Null where no detector could score a row, or it holds no value at all.
        """
        pl, frame = polars_module(), as_polars(frame)
        self.preparation.check(frame.columns)
        if frame.height == 0:
            empty = dict.fromkeys(self.score_columns, pl.Float64) | {"decision": pl.Int8}
            return frame.select(keep).hstack(pl.DataFrame(schema=empty))
        table = self.judged(frame, start).table
        return frame.select(keep).hstack(table) if keep else table

    def recalibrate(self, frame: polars.DataFrame) -> TableModel:
        """Move threshold, p-values and scale to rows as they come now: `FusedDetector.recalibrate`.

        Parameters
        ----------
        frame : data frame
            Normal rows that the model has not learnt from. Where they have the column of labels,
            known anomalies are left out.

        Returns
        -------
        TableModel
            This model, changed.
        """
        frame = as_polars(frame)
        labels = self.labels(frame)
        X = self.numbers(frame)
        normal = ~self.preparation.all_missing(frame).to_numpy()
        if labels is not None:
            normal &= labels >= 0
        if not normal.any():
            raise ValueError(
                f"recalibrate needs normal rows, got none among {len(X):,}. Pass rows that are not "
                "labelled as anomalies and hold some values."
            )
        with warnings.catch_warnings(action="ignore", category=EmptyColumnWarning):
            self.fused.recalibrate(X[normal])
        later = f"{int(normal.sum()):,} later rows"
        self.notes.append(f"Recalibrated: threshold, p-values and scale are those of {later}.")
        return self

    def save(self, path: str | PathLike[str], *, key: bytes | None = None) -> None:
        """Write the model to a file, without pickle; `lpfuse.load` reads it.

        Parameters
        ----------
        path : path-like
            The file. It appears whole or not at all.
        key : bytes, optional
            A secret that signs it, see :func:`lpfuse.io.save`.
        """
        save(self, path, key=key)

    def card(self, path: str | PathLike[str], X: Any = None, y: Any = None, **texts: Any) -> None:
        """Write a model card in Markdown, as :func:`lpfuse.report.write_card` does.

        Parameters
        ----------
        path : path-like
            The file. It appears whole or not at all.
        X, y : data frame and labels, optional
            To measure on; without them, the training rows out of fold.
        **texts : str
            ``title`` and ``use``.
        """
        from lpfuse.report import write_card  # late: the report stands above

        write_card(self, path, X, y, **texts)
