"""Summary of a fused detector in plain values: the source of page, card and figures."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host
from lpfuse._files import as_json, versions
from lpfuse._format import MISSING, name_of_p
from lpfuse._validation.params import Labels, counted, read_labels
from lpfuse._validation.tables import check_table, column_names, is_frame, to_known_frame
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.rows import hash_rows
from lpfuse.ensemble.summary import UNMOVED, describe_learning
from lpfuse.frames import column_changes
from lpfuse.frames.cells import as_polars
from lpfuse.frames.preparation import describe_ranges
from lpfuse.optim import Certificate, LpPath
from lpfuse.plots import ContributionsDisplay, PathDisplay, WeightsDisplay
from lpfuse_cli.alarms import (
    KINDS,
    Kept,
    alarm_list,
    cells_of,
    check_kept_columns,
    count_given_alarms,
    count_training_alarms,
    measured_rates,
    rows_with_gaps,
    threshold,
)
from lpfuse_cli.reasons import Reason, reasons, unusual_columns, unusual_numbers
from lpfuse_cli.report.measures import (
    FALSE_ALARM_RATES,
    RECALLS,
    auc_difference,
    bins,
    places,
    rank_correlation,
    rounded,
    separation,
)
from lpfuse_cli.report.scored_rows import (
    ORIGINS,
    ScoredRows,
    given_labels,
    on_rows,
    out_of_fold,
    path_of,
)
from lpfuse_cli.report.sentences import alarm_words, fusing_words, overview
from lpfuse_cli.scoring import rows_of
from lpfuse_cli.tables import describe_numbers

# -------------------------------------------------------------------------------------- separation

POINTS_OF_A_P = 120  # of a curve: fewer than of the fusion's, for the page carries one for every p


def separations(fused: FusedDetector, scored: ScoredRows, path: LpPath | None) -> dict[str, Any]:
    """Measure how well fusion, detectors and path separate anomalies from normal rows."""
    known = scored[(scored.taken != 0) & ~np.isnan(scored.raw).any(axis=1)]
    known = known[np.isin(known.fold, known.fold[known.taken > 0])]  # rows that compare
    y, detectors = known.taken, []
    can_judge = bool((y > 0).any() and (y < 0).any())

    def judged(scores: Host, **options: Any) -> dict[str, Any]:
        if not can_judge:
            return dict.fromkeys(NOTHING)
        return separation(y, scores, known.fold, **options)

    weights = getattr(fused.fusion_, "weights_", None)
    for j, entry in enumerate(fused.detectors_):
        detectors.append({**_detector(*entry), **_weight(weights, j), **judged(known.raw[:, j])})
    comparisons = []
    if can_judge:
        best = max(range(len(detectors)), key=lambda j: detectors[j]["auc"])
        rivals = {"best detector": known.raw[:, best], "equal weights": known.equal}
        comparisons = [
            {"with": name, **auc_difference(y, known.fused, scores, known.fold)}
            for name, scores in rivals.items()
        ]
        comparisons[0]["name"] = detectors[best]["name"]
    return {
        "fusion": {**_fusion(fused), **judged(known.fused)},
        "equal_weights": judged(known.equal),
        "comparisons": comparisons,
        "detectors": detectors,
        "path": []
        if path is None
        else [
            {
                "p": as_json(p),
                "label": name_of_p(p),
                "chosen": p == fused.fusion_.p,
                "weights": rounded(w),
                "shares": rounded(_shares(w)),
                "certificate": certificate_figures(certificate),
                **judged(known.by_p[:, k], points=POINTS_OF_A_P),
            }
            for k, (p, w, certificate) in enumerate(
                zip(path.ps.tolist(), path.weights, path.certificates, strict=True)
            )
        ],
        "grid": {"false_alarm_rates": list(FALSE_ALARM_RATES), "recalls": list(RECALLS)},
    }


NOTHING = ("auc", "average_precision", "roc", "pr", "found_at", "precision_at")


def _fusion(fused: FusedDetector) -> dict[str, Any]:
    p = getattr(fused.fusion_, "p", None)
    own = (
        {"p": None, "label": None} if p is None else {"p": as_json(float(p)), "label": name_of_p(p)}
    )
    return {"what": type(fused.fusion_).__name__, **own, "is_flat": False}


def _detector(name: str, estimator: Any, columns: Any) -> dict[str, Any]:
    return {
        "name": name,
        "what": _described(estimator),
        "columns": None if columns is None else len(columns),
    }


def _described(estimator: Any) -> str:
    """Name the classes that a detector is made of."""
    if isinstance(estimator, Pipeline):
        return " → ".join(_described(step) for _, step in estimator.steps)
    if isinstance(estimator, FrozenEstimator):
        return _described(estimator.estimator)
    adapted = getattr(estimator, getattr(estimator, "_adapts", ""), None)
    if adapted is not None:
        return _described(adapted)
    return getattr(estimator, "__name__", type(estimator).__name__)


def _weight(weights: Host | None, j: int) -> dict[str, float | None]:
    if weights is None:
        return {"weight": None, "share": None}
    return {"weight": float(weights[j]), "share": float(_shares(weights)[j])}


def _shares(weights: Host) -> Host:
    total = np.abs(weights).sum()
    return weights / total if total > 0 else np.zeros_like(weights)


def certificate_figures(certificate: Certificate | None) -> dict[str, Any] | None:
    """Return a certificate as plain values."""
    if certificate is None:
        return None
    figures = ("primal", "dual", "gap", "relative_gap")
    return {
        "status": certificate.status,
        **{figure: as_json(getattr(certificate, figure)) for figure in figures},
    }


# --------------------------------------------------------------------------------- the lowest rows

# Chosen by hand, for a page that is read in a few minutes:
ROWS = 10  # that are shown one by one
COLUMNS = 5  # of such a row, those that pushed its score down most
ROWS_TO_COMPARE = 32  # with a row that is explained, where no training rows are kept

Explain = Callable[[NDArray[np.intp]], list[list[Reason]]]


def lowest_rows(scored: ScoredRows, explain: Explain | None) -> list[dict[str, Any]]:
    """Return the rows farthest below the threshold, with contributions.

    Parameters
    ----------
    scored : ScoredRows
        Scored rows.
    explain : callable, optional
        Positions of rows ↦ the columns that pushed the score of each down.
    """
    # By margin, for the threshold depends on which detectors could score a row; by score where it
    # is infinite.
    lowest = scored[np.lexsort((scored.fused, scored.margin))[:ROWS]]
    is_sum = lowest.parts.shape == lowest.raw.shape
    parts = np.where(np.isnan(lowest.raw), np.nan, lowest.parts)
    found = [None] * len(lowest.rows) if explain is None else explain(lowest.rows)
    return [
        {
            "row": int(row),
            "label": int(lowest.labels[i]),
            "score": float(lowest.fused[i]),
            "margin": as_json(lowest.margin[i]),
            "p_value": as_json(lowest.pvalues[i]),
            "contributions": rounded(parts[i]) if is_sum else None,
            "reasons": None if why is None else [_plain(reason) for reason in why],
        }
        for i, (row, why) in enumerate(zip(lowest.rows, found, strict=True))
    ]


def explainer(model: Any, given: Any, X: Any, names: list[str], scored: ScoredRows) -> Explain:
    """Return a function that explains the scores of rows.

    Parameters
    ----------
    model, given : FusedDetector, and rows as they were given
        What was fitted to a data frame explains its columns.
    X, names : array or data frame, and list of str
        Rows as the fused detector takes them, and the names of their columns.
    scored : ScoredRows
        Those that could be scored.
    """
    if model.preparation_ is not None:
        return lambda rows: reasons(model, given[rows], most=COLUMNS, X=X[rows])
    others = None
    if model.rows_.values is None:  # it learnt from words: rows that it calls normal must do
        best_first = scored.rows[np.argsort(-scored.margin, kind="stable")]
        normal = best_first[: max(1, int((scored.margin >= 0).sum()))]
        spread = np.linspace(0, len(normal) - 1, min(len(normal), ROWS_TO_COMPARE)).astype(int)
        others = _safe_indexing(X, normal[spread], axis=0)
    return lambda rows: reasons(model, _safe_indexing(X, rows, axis=0), names, COLUMNS, others)


def _plain(reason: Reason) -> dict[str, Any]:
    """Convert a reason to plain values and words."""
    told = {"held": reason.value_words(), "usually": reason.usual_words()}
    return {**asdict(reason), **told, "pushed": reason.push_words()}


# ------------------------------------------------------------------------------------- the summary

BINS = 40  # chosen by hand: bars wide enough to see on a phone


def summarise(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    names: Sequence[Any] | None = None,
    keep: Any = None,
    files: Mapping[str, str] | None = None,
    numbers: int | Sequence[int] = 0,
) -> dict[str, Any]:
    """Summarise a fused detector: quality, alarms, weights and evidence, in plain values.

    Parameters
    ----------
    model : FusedDetector
        Fitted.
    X : array-like or data frame of shape (n, d), optional
        Rows that the model has not learnt from; training rows are known again, and the summary says
        so. Without them the training rows are judged, each by detectors and weights that were
        learnt without its fold.
    y : array-like of shape (n,), optional
        +1 normal, −1 anomaly, 0 unknown; without it all rows are unknown, unless `X` has the
        column of labels that the model was taught by.
    names : sequence of d str, optional
        Names of the columns of `X`, where it has none.
    keep : data frame, or mapping of str to sequence of n, optional
        Columns that are shown of each row, such as ids and times.
    files : mapping of {"model", "data"} to str, optional
        What the model and the rows are called on the page.
    numbers : int or sequence of n int, default=0
        The number of the first row, from which the others are counted, or of all of them: those
        of a file as `lpfuse_cli.tables.read_table` gives them. Of training rows, those that were
        fitted, in their order; see `training_numbers`.

    Returns
    -------
    dict
        Values that JSON has: ``headline`` (all sentences), ``overview`` (alarms, how many of them
        are false, precision, recall, what to do), ``remarks`` (what to know before one believes
        it), ``words`` (sentences on fusing and on alarms), ``files``, ``judged_on``, ``fusion``,
        ``equal_weights``, ``comparisons``, ``detectors``, ``path`` (for a grid of p; empty for a
        fusion without p), ``certificate``, ``threshold``, ``left_range`` (columns of a table whose
        values are none that the training knew), ``alarms`` (asked for, expected,
        measured), ``alarm_list`` (the strongest, row by row), ``scores`` (histograms),
        ``calibration``, ``correlation``, ``strangest``, ``data``, ``settings``, ``versions``,
        ``created``. None stands for what is not known; what needs anomalies is None without them.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import FusedDetector, GMMDetector, KernelPCADetector
    >>> from lpfuse_cli.report import summarise
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(100, 2)), rng.normal(3, 1, size=(20, 2))])
    >>> y = np.repeat([1, -1], [100, 20])
    >>> detectors = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
    >>> summary = summarise(FusedDetector(detectors, random_state=0).fit(X, y))
    >>> [detector["name"] for detector in summary["detectors"]]
    ['kpca', 'gmm']
    >>> summary["judged_on"]["anomalies"], summary["fusion"]["auc"] > 0.9
    (20, True)
    """
    if not isinstance(model, FusedDetector):
        raise TypeError(
            f"A summary is made of a FusedDetector, got {type(model).__name__}. Of a Pipeline, "
            "pass the last step, and the rows as they reach it."
        )
    fused = model
    check_is_fitted(fused)
    path = path_of(fused)
    left_range: list[dict[str, Any]] = []
    if X is None:
        if keep is not None:
            raise ValueError("keep holds columns of X: pass the rows as well.")
        scored, explain, kept = out_of_fold(fused, path), None, {}
        called = _numbers_of_learnt_rows(fused, numbers)
        unusual = _unusual_training_rows(model)
        alarms, flagged = count_training_alarms(fused, scored)
        labels = given_labels(fused.out_of_fold_)
    else:
        given, X, labels, names = _rows(model, X, y, names)
        called = lambda row: _number(numbers, row)  # noqa: E731
        kept = check_kept_columns(keep, len(labels))
        scored = on_rows(fused, path, given, labels)
        explain = explainer(model, given, X, names, scored)
        unusual = _unusual_rows(model, given, X, names)
        if model.preparation_ is not None:
            left_range, _ = column_changes(model.preparation_, given, X)
        gaps = rows_with_gaps(model, given, X)
        alarms, flagged = count_given_alarms(fused, X, labels, scored, *gaps)
        if alarms["trained_on"]["flatters"]:
            scored = replace(scored, origin="learnt")
    if not len(scored.rows):
        raise ValueError(
            "There is no row that a detector with a weight could score, so nothing to report on. "
            "Fill in missing cells, or pass other rows."
        )
    found: dict[str, Any] = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "files": {key: (files or {}).get(key) for key in ("model", "data")},
        "judged_on": {**_judged_on(fused, scored), "numbering": _numbering(numbers)},
        **separations(fused, scored, path),
        "certificate": certificate_figures(fused.certificate_),
        "threshold": threshold(fused, scored),
        "left_range": left_range,
        "alarms": alarms,
        "alarm_list": alarm_list(scored, labels, flagged, kept, unusual),
        "scores": _histograms(scored),
        "calibration": measured_rates(fused, scored),
        "correlation": _correlation(scored),
        "strangest": [
            row | {"kept": cells_of(kept, row["row"])} for row in lowest_rows(scored, explain)
        ],
        "data": _data(model),
        "settings": _settings(fused),
        "versions": versions(),
    }
    for row in found["strangest"]:
        row["row"] = called(row["row"])
    for listed in found["alarm_list"]["rows"]:
        listed[0] = called(listed[0])
    if _is_flat(found["path"]):
        found["path"] = []
        found["fusion"]["is_flat"] = True
    return _told(model, found, kept)


def _number(numbers: int | Sequence[int], row: int) -> int:
    return int(numbers + row if isinstance(numbers, int) else numbers[row])


def training_numbers(model: FusedDetector) -> int | list[int]:
    """Return what the training rows are called in their file.

    Parameters
    ----------
    model : FusedDetector
        Fitted. Where it does not know the numbers, they are those of a file with a header in row 1
        and no empty lines.
    """
    numbers = None if model.preparation_ is None else model.preparation_.row_numbers
    return FIRST_ROW if numbers is None else numbers.tolist()


FIRST_ROW = 2  # in a spreadsheet the header is row 1


def _numbers_of_learnt_rows(
    fused: FusedDetector, numbers: int | Sequence[int]
) -> Callable[[int], int | None]:
    """Positions of rows that were learnt from ↦ their numbers.

    Copies that were dropped and rows that were set aside are not among the rows learnt from, which
    are found among those that were fitted by their values. None for rows that came with answers.
    """
    given, kept = getattr(fused, "fitted_rows_", None), fused.rows_.values
    if given is None or kept is None:
        return lambda row: _number(numbers, row)
    own = hash_rows(kept)
    places = _places_in_order(own, given)
    # Rows whose implausible cells were blanked are equal to none; they stand between their
    # neighbours.
    free, lost = np.flatnonzero(~np.isin(given, own)), np.flatnonzero(places < 0)
    for run in np.split(lost, np.flatnonzero(np.diff(lost) > 1) + 1) if len(lost) else []:
        before = places[run[0] - 1] if run[0] else -1
        behind = places[run[-1] + 1] if run[-1] + 1 < len(places) else len(given)
        between = free[(before < free) & (free < behind)]
        if len(between) == len(run):
            places[run] = between
    return lambda row: None if places[row] < 0 else _number(numbers, int(places[row]))


def _places_in_order(sought: Host, among: Host) -> NDArray[np.intp]:
    """Find values among others, the k-th of equal ones at the k-th of their places; −1: nowhere.

    Examples
    --------
    >>> _places_in_order(np.array([7.0, 5.0, 7.0, 9.0]), np.array([5.0, 7.0, 7.0, 5.0]))
    array([ 1,  0,  2, -1])
    """
    order, there = np.argsort(sought, kind="stable"), np.argsort(among, kind="stable")
    values, known = sought[order], among[there]
    nth = np.arange(len(values)) - np.searchsorted(values, values)
    at = np.searchsorted(known, values) + nth
    inside = np.minimum(at, len(known) - 1)
    found = np.empty(len(sought), dtype=np.intp)
    found[order] = np.where((at < len(known)) & (known[inside] == values), there[inside], -1)
    return found


def _numbering(numbers: int | Sequence[int]) -> str:
    first = [numbers] if isinstance(numbers, int) else numbers
    return describe_numbers(None if numbers == 0 else first)


def _is_flat(path: list[dict[str, Any]]) -> bool:
    """Whether the weights are the same for every p."""
    shares = np.array([entry["shares"] for entry in path])
    return len(path) > 1 and bool((np.ptp(shares, axis=0) < UNMOVED).all())


Unusual = Callable[[NDArray[np.intp]], list[str]] | None


def _unusual_rows(model: FusedDetector, given: Any, X: Any, names: list[str]) -> Unusual:
    """Positions of given rows ↦ what is unusual in each; None where that is not known."""
    made, known = model.preparation_, model.rows_.values
    if made is not None:
        return lambda rows: unusual_columns(model, given[rows], X[rows])
    if known is None or not isinstance(X, np.ndarray) or X.dtype.kind not in "biuf":
        return None
    normal = known[model.held_out_.labels > 0]
    return lambda rows: unusual_numbers(X[rows].astype(np.float64), names, normal)


def _unusual_training_rows(model: FusedDetector) -> Unusual:
    """Positions of training rows ↦ what is unusual in each; None where they are not kept."""
    made, known = model.preparation_, model.rows_.values
    if known is None or len(known) < len(model.out_of_fold_.labels):
        return None
    if made is not None:
        return lambda rows: unusual_columns(model, None, known[rows])
    named = getattr(model, "feature_names_in_", None)
    names = [f"column {j}" for j in range(known.shape[1])] if named is None else list(named)
    normal = known[model.held_out_.labels > 0]
    return lambda rows: unusual_numbers(known[rows], names, normal)


PROVEN = re.compile(r"proven within 1e-(\d+) of optimal")


def _in_digits(proof: re.Match[str]) -> str:
    """Say without a power of ten how good weights are."""
    return f"proven optimal, to {counted(int(proof[1]), 'digit')} of the loss"


def _told(model: Any, found: dict[str, Any], kept: Kept) -> dict[str, Any]:
    """Add the sentences to the figures."""
    commands = _commands(model, found, kept)
    found["alarm_list"]["command"] = commands["score"]
    first = overview(model, found, commands)
    learnt = describe_learning(model) if hasattr(model.fusion_, "weights_") else []
    learnt = [PROVEN.sub(_in_digits, sentence) for sentence in learnt]
    words = {"fusing": [*fusing_words(found), *learnt], "alarms": alarm_words(found)}
    return {
        "headline": [*first["sentences"], *words["alarms"], *words["fusing"]],
        "overview": first,
        "remarks": [*describe_ranges(found["left_range"]), *found["judged_on"]["caveats"]],
        "words": words,
        **found,
    }


def _commands(model: Any, found: dict[str, Any], kept: Kept) -> dict[str, str | None]:
    """How to write all alarms, and how to ask about rows; None where no file is known."""
    named, data = found["files"]["model"], found["files"]["data"]
    if found["judged_on"]["origin"] not in ("given", "learnt") or not (named and data):
        return {"score": None, "ask": None}
    files = f"{shlex.quote(named)} {shlex.quote(data)}"
    also = "".join(f" --keep {shlex.quote(name)}" for name in kept)
    is_table = model.preparation_ is not None
    score = f"lpfuse score {files} -o scores.csv{also}" if is_table else None
    return {"score": score, "ask": f"lpfuse ask {files} -o questions.html"}


def _rows(
    model: FusedDetector, X: Any, y: Any, names: Sequence[Any] | None
) -> tuple[Any, Any, Host, list[str]]:
    """Rows as the detector takes them, their features and labels, and the names of features."""
    made, words = model.preparation_, getattr(model, "label_words_", None) or {}
    if made is not None and is_frame(given := to_known_frame(X)):
        frame = as_polars(given)
        X, given = made.rows_of(frame), rows_of(model, frame)
        names = made.feature_names if names is None else names
        if model.windows_ is not None:
            X, names = model.follow().features(given), model.windows_.names_of(names)
        known = made.labels(frame) if y is None else None
        y = y if known is None else Labels(known, {}, [])
    else:
        given = X = check_table(X, estimator=model)
        known = getattr(model, "feature_names_in_", None)
        names = next(each for each in (names, column_names(X), known, ()) if each is not None)
    d = X.shape[1]
    names = list(map(str, names)) if len(names) else [f"column {j}" for j in range(d)]
    if len(names) != d:
        raise ValueError(f"names must be one for each column of X: {d}, got {len(names)}.")
    read = None
    if y is not None:
        read = read_labels(y, X.shape[0], call=None, is_later=True, **words)
    return given, X, np.zeros(X.shape[0]) if read is None else read.values, names


# ----------------------------------------------------------------------- scores, threshold, alarms


def _judged_on(fused: FusedDetector, scored: ScoredRows) -> dict[str, Any]:
    y, gaps = scored.labels, int(np.isnan(scored.raw).any(axis=1).sum())
    caveats = []
    if scored.origin != "given" and hasattr(fused, "best_params_"):
        chosen = ", ".join(fused.best_params_)
        caveats.append(f"Chosen on the same rows, so figures are slightly optimistic: {chosen}.")
    if (fused.out_of_fold_.labels < 0).any() and not (fused.held_out_.labels < 0).any():
        caveats.append("Artificial anomalies taught the weights; they judge nothing here.")
    if scored.origin == "learnt":
        caveats.append(
            "Without these rows the report judges each training row by what was learnt without it."
        )
    if (scored.taken > y).any() and (y < 0).any():
        caveats.append("Rows without a label count as normal in AUCs, curves and calibration.")
    if gaps:
        caveats.append(f"{gaps} rows lack a detector's score; curves and AUCs leave them out.")
    return {
        "origin": scored.origin,
        "words": ORIGINS[scored.origin],
        "caveats": caveats,
        "rows": len(y),
        **{name: int((y == side).sum()) for name, side in KINDS.items()},
        "taken_as_normal": int((scored.taken > 0).sum()),
    }


def _histograms(scored: ScoredRows) -> dict[str, Any]:
    scores, y = scored.fused, scored.labels
    edges, width = bins(scores, scored.margin >= 0, BINS)
    return {
        "edges": rounded(edges),
        "linear_width": width,
        **{
            name: np.histogram(scores[y == side], edges)[0].tolist() for name, side in KINDS.items()
        },
    }


def _correlation(scored: ScoredRows) -> dict[str, Any]:
    """Of normal rows: detectors that find anomalies agree on those anyway."""
    whole = scored[~np.isnan(scored.raw).any(axis=1)]
    normal = whole[whole.taken > 0]
    rows, which = (normal, "normal") if len(normal.rows) > 2 else (whole, "all")
    all_alike = np.ones(len(rows.rows))
    placed = [places(all_alike, column, rows.fold) for column in rows.raw.T]
    return {"rows": which, "values": rank_correlation(np.column_stack(placed))}


# ----------------------------------------------------------------------------------------- setting


def _data(model: Any) -> dict[str, Any]:
    fused, made = model, model.preparation_
    taught = fused.out_of_fold_.labels
    return {
        "columns": int(fused.n_features_in_),
        "label": None if made is None else made.label,
        "normal": None if made is None else made.normal,
        "notes": [str(note) for note in fused.notes_],
        "taught": {"normal": int((taught > 0).sum()), "anomalies": int((taught < 0).sum())},
        "hidden_anomalies": _hidden_anomalies(fused),
    }


def _hidden_anomalies(fused: FusedDetector) -> dict[str, Any] | None:
    """Estimate the share of anomalies among training rows; None if all are labelled."""
    known, chances = fused.out_of_fold_.known, fused.out_of_fold_.chances
    if known is None or known.all():
        return None
    asked = 0 if chances is None else int((~np.isnan(chances)).sum())
    return {**fused.contamination_._asdict(), "answers": asked}


def _settings(fused: FusedDetector) -> dict[str, str]:
    """Return the parameters as Python writes them."""
    asked = fused.get_params(deep=False)
    del asked["detectors"], asked["n_jobs"]
    asked |= {"scaler": fused.scaler_, "fusion": fused.fusion_}
    chosen = getattr(fused, "best_params_", {})
    with warnings.catch_warnings():  # of parameters that compare oddly with their defaults
        warnings.simplefilter("ignore")
        written = {name: " ".join(repr(value).split()) for name, value in asked.items()}
    return written | {f"chosen {name}": repr(value) for name, value in chosen.items()}


# ----------------------------------------------------------------------------------------- figures


def figures(summary: dict[str, Any]) -> dict[str, Any]:
    """Draw weights, path and contributions, as far as the fusion has them.

    Parameters
    ----------
    summary : dict
        What `summarise` returned.

    Returns
    -------
    dict
        ``"weights"``, ``"path"``, ``"strangest"``: displays of `lpfuse.plots`, drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import FusedDetector, GMMDetector, KernelPCADetector
    >>> from lpfuse_cli.report import figures, summarise
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> detectors = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
    >>> summary = summarise(FusedDetector(detectors, random_state=0).fit(X))
    >>> sorted(figures(summary))
    ['path', 'strangest', 'weights']
    """
    names = [detector["name"] for detector in summary["detectors"]]
    path, rows, proof = summary["path"], summary["strangest"], summary["certificate"]
    drawn: dict[str, Any] = {}
    if summary["detectors"][0]["weight"] is not None:
        weights = [detector["weight"] for detector in summary["detectors"]]
        certificate = None if proof is None else Certificate(**proof, passes=0.0)
        drawn["weights"] = WeightsDisplay(weights, names, certificate).plot()
    if path:
        ps, weights = [float(each["p"]) for each in path], [each["weights"] for each in path]
        drawn["path"] = PathDisplay(ps, weights, names, float(summary["fusion"]["p"])).plot()
    if rows and rows[0]["contributions"] is not None:
        parts = [
            [float("nan") if part is None else part for part in row["contributions"]]
            for row in rows
        ]
        drawn["strangest"] = ContributionsDisplay(
            parts,
            names,
            scores=[row["score"] for row in rows],
            offset=[row["score"] - float(row["margin"]) for row in rows],
            rows=[MISSING if row["row"] is None else row["row"] for row in rows],
        ).plot()
    return drawn
