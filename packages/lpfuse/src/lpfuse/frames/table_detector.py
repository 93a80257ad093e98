"""Fused detectors for data frames: `TableModel`, which files hold, and `TableDetector`."""

from __future__ import annotations

import codecs
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import ceil, floor, log, log10
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host
from lpfuse._command_package import write_card
from lpfuse._files import ANY, saved_as
from lpfuse._format import quote as in_quotes
from lpfuse._validation.params import check_norm, listed, quoted
from lpfuse._validation.tables import record_columns
from lpfuse.adapters import ScoreColumn
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.components import Explanation
from lpfuse.ensemble.rows import EmptyColumnWarning
from lpfuse.ensemble.scoring import score_columns
from lpfuse.frames.cells import as_polars, check_names, labels_of, polars_module, split_labels
from lpfuse.frames.preparation import TablePreparation, learn_preparation, learn_ranges
from lpfuse.io import save
from lpfuse.metrics import auc_over_folds
from lpfuse.threshold.offsets import TAIL

if TYPE_CHECKING:
    import polars

    from lpfuse.ensemble import FusedDetector
    from lpfuse.ensemble.components import Verdicts
    from lpfuse.frames.preparation import TablePreparation


# --------------------------------------------------------------------------------------------------
# What a fitted detector learnt, and the false alarms its threshold allows, in plain values.


def outcome(fused: FusedDetector) -> dict[str, Any]:
    """Weights, certificate, threshold and out-of-fold AUC of a fitted detector.

    Parameters
    ----------
    fused : FusedDetector
        Fitted, with weights.

    Returns
    -------
    dict
        Of numbers, texts, and dicts of these. The AUC of each detector and of their fusion is that
        of rows that they have not learnt from; there is none without labelled anomalies.
        ``alarms`` is the requested rate, and what the calibration can promise: `requested_rate`.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import FusedDetector, GMMDetector
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> found = outcome(FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X))
    >>> found["learnt_from"], found["auc"]
    ({'normal': 100, 'anomalies': 0}, None)
    """
    names = fused.detector_names_
    labels, certificate = fused.out_of_fold_.labels, fused.certificate_
    return {
        "p": float(fused.fusion_.p),
        "weights": dict(zip(names, map(float, fused.weights_), strict=True)),
        "certificate": {
            "status": certificate.status,
            "value": float(certificate.primal),
            "lower_bound": float(certificate.dual),
            "relative_gap": float(certificate.relative_gap),
        },
        "threshold": float(fused.offset_),
        "false_alarm_rate": float(fused.false_alarm_rate),
        "alarms": requested_rate(fused),
        "learnt_from": {"normal": int((labels > 0).sum()), "anomalies": int((labels < 0).sum())},
        "auc": _areas(fused, names) if (labels < 0).any() else None,
    }


def _areas(fused: FusedDetector, names: list[str]) -> dict[str, float | None]:
    """Compute the AUC of each detector and of the fusion; None without both classes in a fold."""
    out_of_fold = fused.out_of_fold_
    # Rows that were kept back come last: no detector has scores of theirs in its folds.
    held_out = fused.held_out_.fused[: len(out_of_fold.labels)]
    columns = dict(zip(names, out_of_fold.scores.T, strict=True)) | {"fusion": held_out}
    return auc_over_folds(out_of_fold.labels, columns, out_of_fold.fold)


def proof(relative_gap: float) -> str:
    """How good the weights are, in words that never promise too much.

    Examples
    --------
    >>> proof(2.1e-9), proof(0.0)
    ('proven within 1e-8 of optimal', 'proven within 1e-16 of optimal')
    """
    return f"proven within 1e{ceil(log10(max(relative_gap, 1e-16)))} of optimal"


Figures = dict[str, Any]


LEAST = 1e-9  # what rounding may take from a product that is a whole number


def requested_rate(fused: FusedDetector) -> Figures:
    """Return the requested rate of false alarms, and the calibration that holds it.

    Parameters
    ----------
    fused : FusedDetector
        Fitted.

    Returns
    -------
    dict
        ``asked``: the rate; None where the threshold was set by something else. ``of``: of which
        rows. ``confidence``: the probability with which the rate is kept; None: on average.
        ``calibration_rows``: n. ``long_run``: ends of the 95 % interval of the share of alarms
        among ever more of such rows. ``too_few``: None or, where n rows cannot hold the rate, the
        number that can, and the least rate that n rows can.
    """
    n, confidence = len(fused.calibration_), getattr(fused, "confidence", None)
    found: Figures = {"asked": None, "of": "normal", "confidence": confidence}
    if fused.contamination is not None:
        found |= {"asked": float(fused.contamination), "of": "training", "confidence": None}
    elif fused.threshold == "false-alarms":
        found["asked"] = float(fused.false_alarm_rate)
    too_few = None
    if found["asked"] is not None and np.isneginf(fused.offset_):
        too_few = _rows_needed(found["asked"], n, found["confidence"])
    found |= {"calibration_rows": n, "too_few": too_few, "long_run": None}
    if found["asked"] is not None and too_few is None and n:
        least, most = threshold_ranks(fused, found)
        ends = beta.ppf(TAIL, least, n + 1 - least), beta.ppf(1 - TAIL, most, n + 1 - most)
        found["long_run"] = [float(end) for end in ends]
    return found


def _rows_needed(rate: float, n: int, confidence: float | None) -> Figures:
    """Compute the rows needed: the lowest of n scores holds rates from 1/(n + 1) on.

    With probability `confidence`: from 1 − (1 − confidence)^(1/n) on, by Beta(1, n).
    """
    if confidence is None:
        return {"needed": ceil(1 / rate - 1 - LEAST), "least_rate": 1 / (n + 1)}
    least = 1.0 if n == 0 else 1 - (1 - confidence) ** (1 / n)
    return {"needed": ceil(log(1 - confidence) / log(1 - rate) - LEAST), "least_rate": least}


def threshold_ranks(fused: FusedDetector, asked: Figures) -> tuple[int, int]:
    """Between which ranks the threshold lies among the n calibration scores.

    The rule sets the k-th smallest, k = ⌊rate (n + 1)⌋. Fewer scores lie below where some are
    equal, and where the rate is held with a probability: that lowers the threshold on purpose.
    """
    n = asked["calibration_rows"]
    if asked["of"] == "training":  # halfway between two scores of all rows, not of normal ones
        k = floor(asked["asked"] * n + LEAST)
        return max(k, 1), min(k + 1, n)
    below = int(np.searchsorted(fused.calibration_, fused.offset_)) + 1
    k = floor(asked["asked"] * (n + 1) + LEAST)
    most = below if asked["confidence"] is not None else k
    return max(1, min(k, below)), min(max(1, most), n)


# --------------------------------------------------------------------------------------------------

# In the order in which they are believed where several fit: commas stand in numbers, too.
SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}


DECIMALS = {".": "points", ",": "commas"}


QUOTES = ('"', "'", "none")


# Names of Python for them; no others, for a name leads to code.
ENCODINGS = (
    "utf-8", "utf-16", "utf-16-le", "utf-16-be", "iso8859-1", "iso8859-2", "iso8859-5",
    "iso8859-7", "iso8859-9", "iso8859-15", "cp437", "cp850", "cp1250", "cp1251", "cp1252",
    "cp1253", "cp1254", "cp1257", "koi8-r", "mac-roman", "shift_jis", "euc_jp", "euc_kr", "big5",
    "gb18030",
)  # fmt: skip


@saved_as(
    "TableFormat",
    separator=tuple(SEPARATORS),
    decimal=tuple(DECIMALS),
    encoding=ENCODINGS,
    quote=QUOTES,
    sheet=ANY,
)
@dataclass(frozen=True)
class TableFormat:
    r"""How a table is written; what is None is found by looking at its beginning.

    Parameters
    ----------
    separator : {",", ";", "tab", "\t", "|"}, optional
        What stands between the cells of a CSV file.
    decimal : {".", ","}, optional
        What stands before the decimals of numbers; the other one may stand between thousands.
    encoding : str, optional
        Such as "utf-8", "utf-16", "cp1252" (Windows), "latin-1".
    quote : {'"', "'", "none"}, optional
        What stands around cells that hold separators.
    sheet : str, optional
        Of a spreadsheet; None: the first.

    Examples
    --------
    >>> TableFormat(separator="tab", encoding="latin-1").checked()
    TableFormat(separator='\t', decimal=None, encoding='iso8859-1', quote=None, sheet=None)
    >>> TableFormat(decimal="comma").checked()
    Traceback (most recent call last):
    ValueError: decimal='comma' is none of '.', ','. Name one of these.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    quote: str | None = None
    sheet: str | None = None

    def checked(self) -> TableFormat:
        """Return the same format in canonical names; refuse unknown ones."""
        separator = {"tab": "\t", "\\t": "\t"}.get(str(self.separator), self.separator)
        encoding = self.encoding
        if encoding is not None:
            try:
                encoding = codecs.lookup(encoding.replace("latin-1", "latin1")).name
            except LookupError:
                encoding = self.encoding
        known = {
            "separator": (separator, ("tab", *SEPARATORS)),
            "decimal": (self.decimal, tuple(DECIMALS)),
            "encoding": (encoding, ENCODINGS),
            "quote": (self.quote, QUOTES),
        }
        for name, (value, choices) in known.items():
            if value is not None and value not in choices:
                shown = ", ".join(in_quotes(each) for each in choices if each != "\t")
                told = in_quotes(str(getattr(self, name)))
                raise ValueError(f"{name}={told} is none of {shown}. Name one of these.")
        return replace(self, separator=separator, encoding=encoding)

    def __or__(self, others: TableFormat) -> TableFormat:
        """Merge two formats; this one takes precedence."""
        names = [field.name for field in fields(self)]
        return TableFormat(
            *(
                getattr(others, name) if getattr(self, name) is None else getattr(self, name)
                for name in names
            )
        )

    @property
    def words(self) -> str:
        """What is not as everywhere (commas, points, UTF-8, double quotes), as a phrase."""
        told = []
        if self.separator not in (None, ","):
            told.append(f"{SEPARATORS[str(self.separator)]} between columns")
        if self.decimal == ",":
            told.append("decimal commas")
        if self.encoding not in (None, "utf-8"):
            told.append(f"encoding {self.encoding}")
        if self.quote not in (None, '"'):
            told.append("no quotes" if self.quote == "none" else "single quotes")
        if self.sheet is not None:
            told.append(f"sheet {in_quotes(self.sheet)}")
        return listed(told) if told else ""


OPEN = TableFormat()  # all is to be found


# -------------------------------------------------------------------------- scores of a data frame


class ScoredFrame(NamedTuple):
    """All that one pass over n rows, at least one, gives.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Their features, NaN where nothing is known.
    nothing : ndarray of shape (n,) of bool
        Which of them hold no value at all.
    verdicts : Verdicts
        What the fused detector says; of rows that hold nothing, what it says of zeros.
    table : polars.DataFrame of n rows
        The columns of `lpfuse.frames.TableModel.score`.
    """

    X: Host
    nothing: NDArray[np.bool_]
    verdicts: Verdicts
    table: polars.DataFrame


class FrameScorer:
    """What a model of tables says of the rows of a data frame, in scikit-learn's words."""

    preparation: TablePreparation
    fused: FusedDetector

    def numbers(self, frame: polars.DataFrame, start: int = 0) -> Host:
        """Return the features of rows, see :meth:`TablePreparation.numbers`.

        Parameters
        ----------
        frame, start : polars.DataFrame, int
            Rows, and how many were before these, for messages.
        """
        self.preparation.check(frame.columns)
        return self.preparation.numbers(frame, start)

    def judged(self, frame: polars.DataFrame, start: int = 0) -> ScoredFrame:
        """Features, verdicts and the table of scores, from one pass.

        Parameters
        ----------
        frame, start : polars.DataFrame, int
            At least one row, and how many were before these, for messages.
        """
        pl = polars_module()
        X = self.numbers(frame, start)
        nothing = self.preparation.all_missing(frame).to_numpy()
        given = X
        if nothing.any() and not self.preparation.scores:
            # Told of in words of their own; their scores are taken away below.
            given = np.where(nothing[:, None], 0.0, X)
        # `column_changes` names them.
        with warnings.catch_warnings(action="ignore", category=EmptyColumnWarning):
            found = self.fused.verdicts(given)
        parts = found.contributions
        assert parts is not None  # tables are fused by weighted sums
        # No score, or one of cells that were all lent: an anomaly, for nothing speaks for it.
        decisions = np.where((found.decision >= 0) & ~nothing, 1, -1).astype(np.int8)
        columns = [found.scores, found.pvalues, decisions, *parts.T]
        names = score_columns(self.fused.detector_names_)
        table = pl.DataFrame(dict(zip(names, columns, strict=True)))
        numbers = pl.selectors.float().fill_nan(None)
        table = table.with_columns(pl.when(~pl.Series(nothing)).then(numbers).name.keep())
        return ScoredFrame(X, nothing, found, table)

    def score_samples(self, X: Any) -> Host:
        """Fused score of each row, high = normal.

        Parameters
        ----------
        X : data frame of n rows
            Of pandas, polars, narwhals or Arrow, with the columns of the training in any order, and
            perhaps others.

        Returns
        -------
        ndarray of shape (n,)
            Scores; NaN of a row without any value, or that no detector could score.
        """
        return self._ask(self.fused.score_samples, X)

    def decision_function(self, X: Any) -> Host:
        """``score_samples(X)`` minus the threshold: negative for anomalies.

        Parameters
        ----------
        X : data frame of n rows
            As in `score_samples`.

        Returns
        -------
        ndarray of shape (n,)
            Signed distances; NaN where there is no score.
        """
        return self._ask(self.fused.decision_function, X)

    def pvalues(self, X: Any) -> Host:
        """How unusual each row is among normal ones: small for anomalies.

        Parameters
        ----------
        X : data frame of n rows
            As in `score_samples`.

        Returns
        -------
        ndarray of shape (n,)
            Conformal p-values; NaN of a row without any value.
        """
        return self._ask(self.fused.pvalues, X)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """+1 for normal rows, −1 for anomalies, and where there is no score.

        Parameters
        ----------
        X : data frame of n rows
            As in `score_samples`.

        Returns
        -------
        ndarray of shape (n,)
            +1 or −1.
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def _ask(self, method: Any, X: Any) -> Host:
        frame = as_polars(X)
        self.preparation.check(frame.columns)
        with warnings.catch_warnings(action="ignore", category=EmptyColumnWarning):
            found = method(self.preparation.numbers(frame))
        # Medians that nobody measured would be the most usual row there is.
        return np.where(self.preparation.all_missing(frame).to_numpy(), np.nan, found)


# --------------------------------------------------------------------------------------- the model


@saved_as("TableModel", label=ANY, normal=ANY, anomaly=ANY, notes=(...,))
@dataclass(eq=False)
class TableModel(FrameScorer):
    """A fused detector for tables as people have them, with what was taken as what.

    Attributes
    ----------
    preparation : TablePreparation
        How columns become features.
    fused : FusedDetector
        Fitted to them.
    label : str or None
        The column of labels; None: all were taken as normal.
    normal, anomaly : str, list of str or None
        What normal rows hold there (empty: nothing), and anomalies; as given or found.
    notes : list of str
        What was taken as what, what was dropped and why, in sentences.
    format : TableFormat
        How files of such rows are written, as far as a user has told; for files to come.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from lpfuse.frames import TableModel
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
    normal: Any
    notes: list[str]
    format: TableFormat = OPEN
    anomaly: Any = None

    @classmethod
    def fit(
        cls,
        frame: polars.DataFrame,
        *,
        label: str | None = None,
        normal: Any = None,
        anomaly: Any = None,
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
        normal, anomaly : str or list of str, optional
            What normal rows hold there, and anomalies, as in `FusedDetector.fit`. Rows that hold
            nothing are unlabelled; if `normal` is empty, these are the normal ones. Both may be
            left out where the labels are 1, −1 and 0, or one of them is "normal".
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
        columns, labels, words, note = split_labels(frame, label, normal, anomaly)
        preparation = learn_preparation(
            columns,
            features=features,
            drop=drop,
            categories=categories,
            kinds=kinds,
        )
        fused = FusedDetector(
            detectors if detectors is None or isinstance(detectors, str) else list(detectors),
            p=check_norm(p),
            false_alarm_rate=false_alarm_rate,
            confidence=confidence,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        notes = [note, *preparation.notes]
        model = cls(preparation, fused, label, words.get("normal"), notes)
        model.anomaly = words.get("anomaly")
        return model._learn(columns, labels, progress, show_notes)

    @classmethod
    def fuse(
        cls,
        frame: polars.DataFrame,
        *,
        label: str | None = None,
        normal: Any = None,
        anomaly: Any = None,
        high: Mapping[str, str] | None = None,
        p: float | str = "auto",
        false_alarm_rate: float = 0.05,
        features: Sequence[str] = (),
        drop: Sequence[str] = (),
        random_state: int = 0,
        show_notes: Callable[[list[str]], None] | None = None,
    ) -> TableModel:
        """Learn the weights of columns that are scores of other detectors.

        Parameters
        ----------
        frame : polars.DataFrame
            Scores, a column for each detector. Where one is missing, the others decide.
        high : mapping of str: {"normal", "anomaly"}, optional
            What high scores of a column mean; where it says nothing, "normal".
        label, normal, anomaly, p, false_alarm_rate, features, drop, random_state, show_notes
            As in `fit`.

        Returns
        -------
        TableModel
            Fitted.
        """
        columns, labels, words, note = split_labels(frame, label, normal, anomaly)
        preparation = learn_preparation(
            columns,
            features=features,
            drop=drop,
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
        notes = [note, *preparation.notes, note_on_high]
        model = cls(preparation, fused, label, words.get("normal"), notes)
        model.anomaly = words.get("anomaly")
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
        """Return the labels of rows.

        Parameters
        ----------
        frame : polars.DataFrame
            Rows.

        Returns
        -------
        ndarray of shape (n,) or None
            +1 normal, −1 anomaly, 0 unlabelled; None where there is no such column.
        """
        if self.label is None or self.label not in frame.columns:
            return None
        words = {"normal": self.normal, "anomaly": self.anomaly}
        return labels_of(frame[self.label], **words, is_later=True).values

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

    @property
    def feature_sources(self) -> list[str]:
        """The column that each feature was made of."""
        return [column for column, _ in self.preparation.features]

    def explain(
        self,
        frame: polars.DataFrame,
        *,
        background: Any = None,
        n_permutations: int | Literal["all"] | None = None,
        random_state: Any = 0,
    ) -> Explanation:
        """Explain the scores of rows by columns, see :meth:`lpfuse.FusedDetector.explain`.

        All features of a column, such as those of its categories, count as one.

        Parameters
        ----------
        frame : polars.DataFrame
            Rows, for instance alarms.
        background : int or polars.DataFrame, default=None
            Rows to compare with, or how many normal training rows to draw.
        n_permutations, random_state
            As there.

        Returns
        -------
        Explanation
            Of the columns of the table.

        Examples
        --------
        >>> import numpy as np
        >>> import polars as pl
        >>> from lpfuse.frames import TableModel
        >>> rng = np.random.default_rng(0)
        >>> bar, wet = rng.normal(2.5, 0.1, 99), ["no"] * 60 + ["yes"] * 39
        >>> pumps = pl.DataFrame({"bar": bar, "wet": wet})
        >>> model = TableModel.fit(pumps, detectors=["gmm", "histogram"])
        >>> model.explain(pl.DataFrame({"wet": ["no"], "bar": [9.9]})).reasons(0)
        ['bar']
        """
        X, given = self.numbers(frame), background
        if hasattr(given, "columns"):
            given = self.numbers(given)
        groups: dict[str, list[int]] = {name: [] for name in self.preparation.columns}
        for place, name in enumerate(self.feature_sources):
            groups[name].append(place)
        options = {"n_permutations": n_permutations, "random_state": random_state}
        return self.fused.explain(X, background=given, groups=groups, **options)

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
        """Write a model card in Markdown, as :func:`lpfuse_cli.report.write_card` does.

        Parameters
        ----------
        path : path-like
            The file. It appears whole or not at all.
        X, y : data frame and labels, optional
            To measure on; without them, the training rows out of fold.
        **texts : str
            ``title`` and ``use``.
        """
        write_card(self, path, X, y, **texts)


# ----------------------------------------------------------------------------------- the estimator


class TableDetector(FrameScorer, OutlierMixin, BaseEstimator):
    """A `FusedDetector` for data frames with text, dates, gaps and columns that name the rows.

    Columns become features as on the command line (`learn_preparation`); ``notes_`` say what each
    was taken as. `make_table_detector` makes one in a line.

    Parameters
    ----------
    detector : FusedDetector, default=None
        A copy of it is fitted to the features; None: ``FusedDetector()``.
    features, drop, categories : sequence of str, default=()
        The only columns to use; columns to leave out; columns whose numbers are names.
    kinds : mapping of str: str, default=None
        What columns are, by name, where looking at them would not tell: see `learn_preparation`.

    Attributes
    ----------
    model_ : TableModel
        What was fitted: preparation and detector. `save` writes it, and ``lpfuse score`` reads it.
    fused, preparation : FusedDetector and TablePreparation
        Its parts, fitted.
    notes_ : list of str
        What was taken as what, what was dropped and why.
    offset_ : float
        The threshold of `score_samples`.
    n_features_in_, feature_names_in_ : int, ndarray
        The columns of the data frame.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from lpfuse.frames import make_table_detector
    >>> rng = np.random.default_rng(0)
    >>> pumps = pd.DataFrame(
    ...     {
    ...         "bar": rng.normal(2.5, 0.1, 300),
    ...         "kind": rng.choice(["axial", "radial"], 300),
    ...     }
    ... )
    >>> pumps.loc[::20, "bar"] = None
    >>> detector = make_table_detector(random_state=0).fit(pumps)
    >>> detector.predict(pd.DataFrame({"kind": ["axial", "axial"], "bar": [2.5, 9.9]}))
    array([ 1, -1])
    >>> print(detector.notes_[1])
    Categories, a feature for each: 'kind' (2 texts).
    """

    def __init__(
        self,
        detector: FusedDetector | None = None,
        *,
        features: Sequence[str] = (),
        drop: Sequence[str] = (),
        categories: Sequence[str] = (),
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        self.detector = detector
        self.features = features
        self.drop = drop
        self.categories = categories
        self.kinds = kinds

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Settle what the columns are, and fit the detector.

        Parameters
        ----------
        X : data frame of n rows
            Of pandas, polars, narwhals or Arrow, without labels.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly, 0 where nobody looked.
        **fit_params
            Further arguments of `FusedDetector.fit`: groups, kind, chances, unlabelled.

        Returns
        -------
        TableDetector
            The fitted estimator.
        """
        frame = as_polars(X)
        if frame.height == 0:
            raise ValueError("The table has no rows. Bring some to learn from.")
        made = FusedDetector() if self.detector is None else clone(self.detector)
        if not isinstance(made, FusedDetector):
            raise TypeError(f"detector must be a FusedDetector or None, got {in_quotes(made)}.")
        preparation = learn_preparation(
            frame,
            features=self.features,
            drop=self.drop,
            categories=self.categories,
            kinds=self.kinds,
        )
        fused = made.fit(preparation.numbers(frame), y, **fit_params)
        self.model_ = TableModel(preparation, fused, None, None, preparation.notes)
        record_columns(self, frame)
        return self

    @property
    def preparation(self) -> TablePreparation:  # type: ignore[override]
        """How columns become features."""
        check_is_fitted(self, "model_")
        return self.model_.preparation

    @property
    def fused(self) -> FusedDetector:  # type: ignore[override]
        """The fitted detector of these features."""
        check_is_fitted(self, "model_")
        return self.model_.fused

    @property
    def notes_(self) -> list[str]:
        """What was taken as what, in sentences."""
        return self.model_.notes

    @property
    def offset_(self) -> float:
        """The threshold."""
        return self.model_.fused.offset_

    def save(self, path: str | PathLike[str], *, key: bytes | None = None) -> None:
        """Write what was fitted to a file, for ``lpfuse score`` and `lpfuse.load`.

        Parameters
        ----------
        path : path-like
            The file. `lpfuse.load` makes a `TableModel` of it, with the same answers.
        key : bytes, optional
            A secret that signs it, see :func:`lpfuse.io.save`.
        """
        check_is_fitted(self, "model_")
        self.model_.save(path, key=key)


def make_table_detector(
    *,
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    **parameters: Any,
) -> TableDetector:
    """Make a fused detector for data frames with text, dates, gaps and names of rows.

    Parameters
    ----------
    features, drop, categories, kinds
        As in `TableDetector`.
    **parameters
        Of :class:`lpfuse.FusedDetector`: false_alarm_rate, random_state and so on.

    Returns
    -------
    TableDetector
        With ``fit``, ``predict``, ``score_samples``, ``decision_function``, ``pvalues``, ``save``.

    Examples
    --------
    >>> from lpfuse.frames import make_table_detector
    >>> make_table_detector(false_alarm_rate=0.01, drop=["id"])
    TableDetector(detector=FusedDetector(false_alarm_rate=0.01), drop=['id'])
    """
    made = FusedDetector(**parameters)
    return TableDetector(made, features=features, drop=drop, categories=categories, kinds=kinds)
