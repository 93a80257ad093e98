"""How many rows were called anomalies, by what is known of them: counts that add up over chunks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import betabinom, norm, poisson
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse._files import as_json
from lpfuse._format import MISSING, per_cent, per_cent_range, quote, readable, shortened
from lpfuse._validation.params import counted
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.rows import places_in_training
from lpfuse.frames import TablePreparation
from lpfuse.threshold import THRESHOLD_RULES
from lpfuse.threshold.offsets import TAIL, requested_rate, share_interval, threshold_ranks
from lpfuse.time.order import TIME

if TYPE_CHECKING:
    import polars

    from lpfuse_cli.report.scored_rows import ScoredRows

# ------------------------------------------------------------------------------------------ counts

Mask = NDArray[np.bool_]
KINDS = {"normal": 1, "anomalies": -1, "unlabelled": 0}
# Standard deviations that rows must be above the copies of training rows that chance gives: 1 batch
# of 700 fresh ones is.
SURE = 3.0
MOST = 0.5  # of the rows, from where on a table is taken as one of training rows
# Of the rows that are equal to training rows; if fewer are copies, nobody can say which. By hand.
CLEAR = 0.9


@dataclass(frozen=True, eq=False)
class AlarmCounts:
    """Counts of rows; those of two batches can be added.

    Attributes
    ----------
    table : ndarray of shape (3, 2, 2, 2)
        Rows by label (as in `KINDS`), whether a row has gaps, whether a training row equals it, and
        whether it was called an anomaly.
    copies : ndarray of shape (n,)
        How many rows are equal to each of the n training rows; of equal ones, one has all.
    held_out : ndarray of shape (2,)
        Copies of training rows whose held-out scores are known: how many, and how many of these
        scores lie below the threshold.
    """

    table: NDArray[np.intp]
    copies: NDArray[np.intp]
    held_out: NDArray[np.intp]

    def __add__(self, other: AlarmCounts) -> AlarmCounts:
        return AlarmCounts(
            self.table + other.table, self.copies + other.copies, self.held_out + other.held_out
        )


def count_alarms(
    fused: FusedDetector,
    X: Any,
    flagged: Mask,
    labels: Host | None = None,
    gaps: Mask | None = None,
) -> AlarmCounts:
    """Count rows by what is known of them.

    Parameters
    ----------
    fused : FusedDetector
        Fitted.
    X : array or data frame of shape (n, d)
        Rows as it takes them.
    flagged : ndarray of shape (n,) of bool
        Which of them were called anomalies.
    labels : ndarray of shape (n,), optional
        +1 normal, −1 anomaly, 0 unlabelled; None: all unlabelled.
    gaps : ndarray of shape (n,) of bool, optional
        Which lack a cell, or hold a text that was not in the training; None: none.
    """
    n = len(flagged)
    place = places_in_training(getattr(fused, "rows_", None), X)
    known = place >= 0
    labels = np.zeros(n) if labels is None else labels
    gaps = np.zeros(n, dtype=bool) if gaps is None else gaps
    kind = np.select([labels > 0, labels < 0], [0, 1], 2)
    cell = np.ravel_multi_index((kind, gaps + 0, known + 0, flagged + 0), (3, 2, 2, 2))
    rows, held_out = n_training(fused), fused.held_out_.fused
    below = np.zeros(2, dtype=np.intp)
    if len(held_out) == rows:  # in the order of the rows, unless some were kept back
        scores = held_out[place[known]]
        # A row that no detector could score is called an anomaly, held out or not.
        below = np.array([known.sum(), (~(scores >= fused.offset_)).sum()])
    return AlarmCounts(
        np.bincount(cell, minlength=24).reshape(3, 2, 2, 2),
        np.bincount(place[known], minlength=rows),
        below,
    )


def n_training(fused: FusedDetector) -> int:
    """How many training rows a detector keeps."""
    rows = getattr(fused, "rows_", None)
    return 0 if rows is None or rows.values is None else len(rows.values)


def incomplete_rows(preparation: TablePreparation, frame: polars.DataFrame) -> Mask:
    """Which rows lack a cell, or hold a text that was not in the training.

    Parameters
    ----------
    preparation : TablePreparation
        How columns become features.
    frame : polars.DataFrame
        Rows.
    """
    found = np.zeros(frame.height, dtype=bool)
    for column in preparation.cells(frame).fill_nan(None):
        found |= column.is_null().to_numpy()
    for new in preparation.unknown_texts(frame).values():
        found |= new.fill_null(False).to_numpy()
    return found


def count_training_rows(fused: FusedDetector, counts: AlarmCounts) -> int:
    r"""How many rows are training rows, beyond those that are equal to some by chance.

    Where rows repeat, as those of few categories do, new rows are equal to training rows, too. So
    what counts is the overlap with c copies of each training row, :math:`\sum \min(b, c)` for b
    equal rows, beside that of new rows. One of these is equal to a training row with c copies with
    a chance of about :math:`(c - 1)/(n - 1)`, as one of them is to the n − 1 others, so that b is a
    Poisson variable of mean :math:`\lambda = m (c - 1)/(n - 1)`, and

    .. math:: E \min(b, c) = \sum_{k=1}^c P(b \ge k), \qquad
              E \min(b, c)^2 = \sum_{k=1}^c (2k - 1) P(b \ge k)

    Parameters
    ----------
    fused : FusedDetector
        Fitted.
    counts : AlarmCounts
        Of m rows.

    Returns
    -------
    int
        0 where chance alone gives as many, where they are few among others that are equal to
        training rows by chance, and where the detector keeps no training rows.
    """
    n, m = len(counts.copies), int(counts.table.sum())
    equal = int(counts.copies.sum())
    if equal == 0:
        return 0
    training = np.bincount(places_in_training(fused.rows_, fused.rows_.values), minlength=n)
    if _is_same_table(counts.copies, training):
        return equal
    overlap = int(np.minimum(counts.copies, training).sum())
    expected = variance = 0.0
    sizes, times = np.unique(training[training > 1], return_counts=True)
    for c, patterns in zip(sizes.tolist(), times.tolist(), strict=True):
        k = np.arange(1, c + 1)
        reach = poisson.sf(k - 1, m * (c - 1) / (n - 1))
        mean = reach.sum()
        expected += patterns * mean
        variance += patterns * (((2 * k - 1) * reach).sum() - mean**2)
    if overlap <= expected + SURE * np.sqrt(variance):
        return 0
    # A share q of training rows overlaps in qm + (1 − q) times what new rows do.
    copied = equal if m <= expected else round((overlap - expected) / (m - expected) * m)
    return min(copied, equal) if copied >= min(MOST * m, CLEAR * equal) else 0


def _is_same_table(copies: NDArray[np.intp], training: NDArray[np.intp]) -> bool:
    """Whether rows are the training rows, each as often, and chance would hardly have it so.

    The chance is that of a multinomial variable to be its mean, ``n! Π (c/n)^c / c!``.
    """
    if not (copies == training).all():
        return False
    n, c = training.sum(), training[training > 0]
    chance = gammaln(n + 1) + (c * np.log(c / n) - gammaln(c + 1)).sum()
    return bool(chance < norm.logsf(SURE))


# ----------------------------------------------------------------------------------------- figures

Figures = dict[str, Any]


def describe_promise(fused: FusedDetector) -> str:
    """Say what is promised where rows come in time, or why nothing is; empty for other rows."""
    order = fused.order_
    return (
        "" if order.order != TIME and not order.because else fused.calibration_promise_.sentence()
    )


def asked_rate(fused: FusedDetector) -> Figures:
    """Return the requested rate, and what is promised of it.

    Returns
    -------
    dict
        What `requested_rate` gives; ``promise``: the sentence of `describe_promise`, beside which
        no interval is told; ``adaptive``: whether alarms follow slow changes, by p-values.
    """
    found, promise = requested_rate(fused), describe_promise(fused)
    found |= {"promise": promise, "adaptive": fused.windows_ is not None}
    return found | {"long_run": None} if promise else found


def describe_level(rate: float) -> str:
    """Say what is an anomaly where the level follows slow changes."""
    return f"A row is an anomaly where its p-value among the last rows is at most {per_cent(rate)}"


def alarm_figures(fused: FusedDetector, counts: AlarmCounts) -> Figures:
    """Compare the alarms of some rows with those that were asked for.

    Parameters
    ----------
    fused : FusedDetector
        Fitted.
    counts : AlarmCounts
        Of rows that it has judged.

    Returns
    -------
    dict
        What `asked_rate` gives; ``rows``, ``normal``, ``anomalies``, ``unlabelled``,
        ``complete``, ``incomplete`` (a cell is missing, or holds a text that was not in the
        training), each None where there is no such row, else a dict of ``rows``, ``flagged``,
        ``share``, ``low`` and ``high``, the ends of its 95 % interval; ``trained_on``: ``rows``
        that the detector learnt from, whether these are so many that the whole ``flatters``, and
        the share of them whose ``held_out`` scores lie below the threshold.

        ``normal`` and ``unlabelled`` have ``expected`` as well: the ends of the 95 % interval of
        flagged ones among as many new rows like those of the calibration; and ``verdict``: "more",
        "fewer" or "as expected"; ``unlabelled`` also has ``false``, see `likely_false`. They are
        None where there is nothing to compare with.
    """
    learnt, asked = count_training_rows(fused, counts), asked_rate(fused)
    most = learnt >= MOST * counts.table.sum() > 0
    # New rows alone are compared, if there are others among them.
    table = counts.table[:, :, 0] if learnt and not most else counts.table.sum(axis=2)
    found: Figures = {**asked, "rows": _share(*counts.table.sum(axis=(0, 1, 2)))}
    for place, kind in enumerate(KINDS):
        found[kind] = _share(*table[place].sum(axis=0))
        if found[kind] is not None:
            found[kind]["dependent"] = bool(asked["promise"])
    for kind in ("normal", "unlabelled"):
        if found[kind] is not None:
            # A share of all rows, anomalies included, says nothing of normal rows alone.
            fits = kind == "unlabelled" or asked["of"] == "normal"
            found[kind] |= _compared(fused, asked if fits and not most else None, found[kind])
    for place, kind in enumerate(("complete", "incomplete")):
        found[kind] = _share(*counts.table[:, place].sum(axis=(0, 1)))
    held_out, below = counts.held_out
    known = _share(held_out - below, below) if learnt else None
    found["trained_on"] = {"rows": learnt, "flatters": bool(most), "held_out": known}
    return found


def share_figures(flagged: Any) -> Figures | None:
    """How many rows were flagged, their share, and its interval; None of no rows.

    Parameters
    ----------
    flagged : ndarray of shape (n,) of bool
        Which were.

    Examples
    --------
    >>> share_figures(np.array([True, False, False, False]))["share"]
    0.25
    """
    return _share((~flagged).sum(), flagged.sum())


def _share(others: Any, flagged: Any) -> Figures | None:
    k, n = int(flagged), int(flagged) + int(others)
    if n == 0:
        return None
    low, high = share_interval(k, n)
    return {"rows": n, "flagged": k, "share": k / n, "low": low, "high": high}


def _compared(fused: FusedDetector, asked: Figures | None, found: Figures) -> Figures:
    """How many alarms are to be expected, and whether there are as many."""
    if asked is None or asked["long_run"] is None:
        return {"expected": None, "verdict": None, "excess": None, "false": None}
    n, m, flagged = asked["calibration_rows"], found["rows"], found["flagged"]
    least, most = threshold_ranks(fused, asked)
    low = int(betabinom.ppf(TAIL, m, least, n + 1 - least))
    high = int(betabinom.ppf(1 - TAIL, m, most, n + 1 - most))
    verdict = "more" if flagged > high else "fewer" if flagged < low else "as expected"
    # Of the rows that are no anomalies the asked share is flagged: f = a + rate (m − a).
    rate = asked["asked"]
    excess = round((flagged - rate * m) / (1 - rate)) if verdict == "more" else None
    compared = {"expected": [low / m, high / m], "verdict": verdict, "excess": excess}
    false = likely_false(m, flagged, (least, most), n) if asked["of"] == "normal" else None
    return compared | {"false": false}


def likely_false(m: int, flagged: int, ranks: tuple[int, int], n: int) -> Figures:
    r"""How many of the alarms among m rows are false, if normal rows are as in the calibration.

    Of :math:`m_0` normal rows a beta-binomial number V is flagged. There are at most m of them and,
    where no anomaly is missed, at least those that are not flagged. As V grows with :math:`m_0`,

    .. math:: \min(f, q_{0.025}(m - f)) \le V \le \min(f, q_{0.975}(m))

    holds with a probability of 95 % or more, f being the alarms and q quantiles of the number for
    so many normal rows. With anomalies that are missed the upper end holds, too.

    Parameters
    ----------
    m, flagged : int
        Rows, and alarms among them.
    ranks : tuple of int
        Between which ranks the threshold lies among the calibration scores.
    n : int
        How many of these there are.

    Returns
    -------
    dict
        ``value``: what is to be expected, where no anomaly is missed, the mean of the solution of
        :math:`f = a + r (m - a)`; ``low`` and ``high``.

    Examples
    --------
    >>> likely_false(1000, 143, (13, 13), 268)
    {'value': 44, 'low': 20, 'high': 81}
    >>> likely_false(1000, 10, (13, 13), 268)  # fewer than normal rows alone would give
    {'value': 10, 'low': 10, 'high': 10}
    """
    least, most = ranks
    rate = (least + most) / 2 / (n + 1)
    low = min(flagged, int(betabinom.ppf(TAIL, m - flagged, least, n + 1 - least)))
    high = min(flagged, int(betabinom.ppf(1 - TAIL, m, most, n + 1 - most)))
    value = rate * (m - flagged) / (1 - rate) if rate < 1 else flagged
    return {"value": max(low, min(high, round(value))), "low": low, "high": high}


# --------------------------------------------------------------------------------------- sentences


def describe_alarms(found: Figures) -> list[str]:
    """Describe the alarms in sentences, the worst news first.

    Parameters
    ----------
    found : dict
        As `alarm_figures` makes it.
    """
    if found["rows"] is None:
        return []
    told = [*_training(found), describe_shortage(found)]
    if not found["too_few"]:
        told.append(found.get("promise", ""))
        told += [_unlabelled(found), _normal(found), _anomalies(found), _incomplete(found)]
    return [sentence for sentence in told if sentence]


def differs_from_request(found: Figures) -> bool:
    """Whether asked and measured part, or cannot be compared for the rows are training rows."""
    kinds = ("normal", "unlabelled", "taken_as_normal")
    verdicts = [(found.get(kind) or {}).get("verdict") for kind in kinds]
    most = found["trained_on"]["flatters"]
    return bool(most or found["too_few"] or {"more", "fewer"} & {*verdicts})


def describe_request(found: Figures) -> str:
    """Describe the requested rate as the start of a sentence; empty without a rate."""
    if found["asked"] is None:
        return ""
    rate = per_cent(found["asked"])
    if found["of"] == "training":
        return f"{rate} of rows like the training rows were to be flagged"
    if found["confidence"] is not None:
        sure = per_cent(found["confidence"])
        return f"At most {rate} false alarms were asked for, with a probability of {sure}"
    return f"{rate} false alarms were asked for"


def describe_shortage(found: Figures) -> str:
    """Advise where too few calibration rows hold the rate; empty where they suffice."""
    lack = found["too_few"]
    if not lack:
        return ""
    n, sure = found["calibration_rows"], ""
    if found["confidence"] is not None:
        sure = f" with a probability of {per_cent(found['confidence'])}"
    return (
        f"Nothing can be called an anomaly: {counted(n, 'normal row')} cannot hold false alarms to "
        f"{per_cent(found['asked'])}{sure}. It takes {lack['needed']:,}. Fit to more normal rows, "
        f"or ask for a rate of {_at_least(lack['least_rate'])} or more."
    )


def _at_least(rate: float) -> str:
    """Round a rate up to tenths of a per cent."""
    return f"{-(-rate * 1000 // 1) / 10:.3g} %"


def _training(found: Figures) -> list[str]:
    learnt, share = found["trained_on"], per_cent(found["rows"]["share"])
    if not learnt["rows"]:
        return []
    what = f"{learnt['rows']:,} of {counted(found['rows']['rows'], 'row')} are rows that the model"
    if not learnt["flatters"]:
        return [f"{what} learnt from; alarms are compared for the others alone."]
    told = [
        f"{what} learnt from: their figures are optimistic.",
        f"Their share of alarms, {share}, is no measure of new rows.",
    ]
    if learnt["held_out"]:
        told[1] += (
            f" Scored by what was learnt without them, {per_cent(learnt['held_out']['share'])} of "
            "them lie below the threshold, which the normal ones among these scores set."
        )
    return told


def _measured(found: Figures) -> str:
    """So many rows, with the interval of their share where they stand for themselves."""
    if found.get("dependent"):
        return f"{found['flagged']:,} of {found['rows']:,}"
    interval = per_cent_range(found["low"], found["high"])
    return f"{found['flagged']:,} of {found['rows']:,}; 95 % interval {interval}"


def _unlabelled(found: Figures) -> str:
    kind = found["unlabelled"]
    if kind is None or found["trained_on"]["flatters"]:
        return ""
    rows = counted(kind["rows"], "row")
    if found["normal"] or found["anomalies"]:
        rows = rows.replace("row", "unlabelled row")
    if kind["expected"] is None:
        return f"Of {rows} {per_cent(kind['share'])} were flagged ({_measured(kind)})."
    told = (
        f"{describe_request(found)}: of {rows} like the "
        f"{counted(found['calibration_rows'], 'row')} of the calibration "
        f"{per_cent_range(*kind['expected'])} are to be expected. "
        f"{per_cent(kind['share'])} were flagged ({_measured(kind)})."
    )
    normal = found["of"] == "normal"
    if kind["verdict"] == "more":
        return (
            f"{told} Either these rows hold anomalies, about {kind['excess']:,} more than the rate "
            "explains, or what is normal has changed since the training."
        )
    if kind["verdict"] == "fewer" and normal:
        return (
            f"{told} That is fewer than normal rows alone should give: the training rows may have "
            "held anomalies, which lower the threshold, or these rows vary less."
        )
    if kind["verdict"] == "fewer":
        return f"{told} That is fewer: these rows hold fewer anomalies, or vary less."
    which = "Normal rows alone" if normal else "The training rows"
    return f"{told} {which} would give as many; a few anomalies would not show in that."


def _normal(found: Figures) -> str:
    kind = found["normal"]
    if kind is None or found["trained_on"]["flatters"]:
        return ""
    told = (
        f"Of {counted(kind['rows'], 'row')} labelled normal {per_cent(kind['share'])} were flagged"
    )
    if kind["expected"] is None:
        return f"{told} ({_measured(kind)})."
    told = (
        f"{describe_request(found)}: of {counted(kind['rows'], 'normal row')} "
        f"{per_cent_range(*kind['expected'])} are to be expected after a calibration with "
        f"{found['calibration_rows']:,}. {per_cent(kind['share'])} were flagged "
        f"({_measured(kind)})"
    )
    if kind["verdict"] == "more":
        return (
            f"{told}, which is more: these normal rows are not like those of the training, or some "
            "are labelled wrongly. If they are normal, fit again with them."
        )
    if kind["verdict"] == "fewer":
        return (
            f"{told}, which is fewer: the training rows may have held anomalies, which lower the "
            "threshold, or these rows vary less."
        )
    return f"{told}, as asked."


def _anomalies(found: Figures) -> str:
    kind = found["anomalies"]
    if kind is None or found["trained_on"]["flatters"]:
        return ""
    rows = (
        f"{counted(kind['rows'], 'row')} labelled {'anomaly' if kind['rows'] == 1 else 'anomalies'}"
    )
    return f"Of {rows} {per_cent(kind['share'])} were found ({_measured(kind)})."


def _incomplete(found: Figures) -> str:
    gaps, whole = found["incomplete"], found["complete"]
    if gaps is None:
        return ""
    do = "lacks a cell or holds" if gaps["rows"] == 1 else "lack a cell or hold"
    told = (
        f"{counted(gaps['rows'], 'row')} {do} a text that the training did not: "
        f"{per_cent(gaps['share'])} of them were flagged ({_measured(gaps)})"
    )
    if whole is None:
        return f"{told}. No row is complete."
    told += f", of the complete ones {per_cent(whole['share'])}"
    if gaps["low"] > whole["high"]:
        told += ": alarms of these may be about what is missing"
    return f"{told}."


# ------------------------------------------------------------------------------ alarms of a report

Columns = dict[str, Host]
# That people ask for; chosen by hand.
RATES = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)


def threshold(fused: FusedDetector, scored: ScoredRows) -> dict[str, Any]:
    """Where it lies, what set it, and what it does to the rows."""
    if fused.windows_ is not None:
        rule = describe_level(asked_rate(fused)["asked"])
    elif fused.contamination is not None:
        rule = f"{fused.contamination:.3g} of unseen rows like the training rows lie below it"
    else:
        words = THRESHOLD_RULES[fused.threshold].words
        rule = words.format(false_alarm_rate=fused.false_alarm_rate)
    flagged = scored.margin < 0
    return {
        "value": as_json(fused.offset_),
        "rule": rule,
        "false_alarm_rate": fused.false_alarm_rate,
        "flagged": {
            name: int(flagged[scored.labels == side].sum()) for name, side in KINDS.items()
        },
    }


def measured_rates(fused: FusedDetector, scored: ScoredRows) -> list[dict[str, float]]:
    """Rates of false alarms that could be asked for, and those measured; none of training rows."""
    pvalues = scored.pvalues[scored.taken > 0]
    pvalues = pvalues[~np.isnan(pvalues)]
    if scored.origin == "learnt" or not len(pvalues):
        return []
    return calibration_table(pvalues, np.array(sorted({*RATES, float(fused.false_alarm_rate)})))


def rows_with_gaps(model: Any, rows: Any, X: Any) -> tuple[Mask, Mask]:
    """Which rows lack some value, and which lack all.

    Parameters
    ----------
    model : FusedDetector
        Of tables, a text that the training did not hold counts as missing.
    rows, X : data frame, array or data frame
        Rows as they were given, and as the fused detector takes them.
    """
    if model.preparation_ is not None:
        return (
            incomplete_rows(model.preparation_, rows),
            model.preparation_.all_missing(rows).to_numpy(),
        )
    cells = numeric_columns(X, [str(j) for j in range(X.shape[1])]).values()
    some = np.zeros(X.shape[0], dtype=bool)
    for column in cells:
        some |= np.isnan(column)
    return some, np.zeros_like(some)


def count_given_alarms(
    fused: FusedDetector, X: Any, labels: Host, scored: ScoredRows, some: Mask, all_: Mask
) -> tuple[Figures, NDArray[np.intp]]:
    """Of rows that were given: see `alarm_figures`; and which rows are alarms.

    Parameters
    ----------
    fused, X, labels : FusedDetector, array or data frame, ndarray of shape (n,)
        Rows as the detector takes them, and what they are.
    scored : ScoredRows
        Those that could be scored; the others are called anomalies, as `predict` does.
    some, all_ : ndarray of shape (n,) of bool
        What `rows_with_gaps` found.
    """
    flagged = np.ones(len(labels), dtype=bool)
    flagged[scored.rows] = scored.margin < 0
    flagged |= all_
    counts = count_alarms(fused, X, flagged, labels, some)
    return alarm_figures(fused, counts), np.flatnonzero(flagged)


def count_training_alarms(
    fused: FusedDetector, scored: ScoredRows
) -> tuple[Figures, NDArray[np.intp]]:
    """Of training rows, each scored by what was learnt without its fold: as `count_given_alarms`.

    Its threshold is that of the other folds, as p-values have it, where a rate of false alarms was
    asked for on average. ``taken_as_normal`` are all but known anomalies, of which the calibration
    is a part; its verdict is whether the interval of their share holds that rate. Gaps are not
    known any more.
    """
    found = asked_rate(fused)
    rate, flagged, normal = found["asked"], scored.margin < 0, scored.taken > 0
    if found["of"] != "normal":
        rate = None
    elif rate is not None and found["confidence"] is None and not found["too_few"]:
        flagged = np.where(normal, scored.pvalues <= rate + 1e-12, flagged)
    found["rows"] = share_figures(flagged)
    for kind, side in KINDS.items():
        found[kind] = share_figures(flagged[scored.labels == side])
    found["taken_as_normal"] = share_figures(flagged[normal])
    for kind in ("normal", "unlabelled", "taken_as_normal"):
        if found[kind] is not None:
            found[kind] |= {"expected": None, "verdict": None, "excess": None, "false": None}
    compares = rate is not None and not found["too_few"] and not found["promise"]
    if (taken := found["taken_as_normal"]) and rate is not None and compares:
        at_most = found["confidence"] is not None
        few = taken["high"] < rate and not at_most
        taken["verdict"] = "more" if taken["low"] > rate else "fewer" if few else "as expected"
    n, flatters = len(scored.rows), scored.origin == "in-sample"
    learnt = {"rows": n, "flatters": flatters, "held_out": None}
    found |= {"complete": None, "incomplete": None, "trained_on": learnt}
    return found, scored.rows[flagged]


def calibration_table(pvalues: Host, rates: Host) -> list[dict[str, float]]:
    """Asked rates of false alarms, and measured ones with the range that chance leaves them.

    Parameters
    ----------
    pvalues : ndarray of shape (n,)
        Of normal rows.
    rates : ndarray
        Asked.

    Returns
    -------
    list of dict
        ``asked``, ``measured``, and the ends of the Clopper–Pearson interval, ``low``, ``high``.

    Examples
    --------
    >>> import numpy as np
    >>> calibration_table(np.array([0.05, 0.3, 0.6, 0.9]), np.array([0.1]))[0]["measured"]
    0.25
    """
    n = len(pvalues)
    table = []
    for rate in rates:
        k = int((pvalues <= rate + 1e-12).sum())
        low, high = share_interval(k, n)
        table.append({"asked": float(rate), "measured": k / n, "low": low, "high": high})
    return table


def numeric_columns(X: Any, names: list[str]) -> Columns:
    """Return the numeric columns of a table by name.

    Examples
    --------
    >>> numeric_columns(np.array([[1.0, 2.0], [3.0, 4.0]]), ["a", "b"])["b"]
    array([2., 4.])
    """
    columns = [np.asarray(_safe_indexing(X, j, axis=1)) for j in range(len(names))]
    return {
        name: values.astype(np.float64)
        for name, values in zip(names, columns, strict=True)
        if values.dtype.kind in "biuf"
    }


# ------------------------------------------------------------------------------ the list of alarms

# Chosen by hand: 200 screens to page through, and half a megabyte of the page at most.
MOST_LISTED = 5_000
LONGEST = 120  # letters of a cell that is shown

Kept = dict[str, Sequence[Any]]


def check_kept_columns(keep: Any, n: int) -> Kept:
    """Columns to show of each row, by name, checked.

    Parameters
    ----------
    keep : data frame, mapping of str to sequence, or None
        Columns of n values.
    n : int
        Rows.

    Examples
    --------
    >>> check_kept_columns({"serial": ["P-1", "P-2"]}, 2)
    {'serial': ['P-1', 'P-2']}
    """
    if keep is None:
        return {}
    names = keep.keys() if isinstance(keep, Mapping) else getattr(keep, "columns", None)
    if names is None:
        raise TypeError(
            "keep must be a data frame or a dict of columns, such as {'serial': serials}, got "
            f"{type(keep).__name__}."
        )
    kept: Kept = {str(name): list(keep[name]) for name in names}
    for name, values in kept.items():
        if len(values) != n:
            raise ValueError(
                f"keep needs a value for each row: {n:,}, got {counted(len(values), 'value')} of "
                f"{quote(name)}."
            )
    return kept


def cells_of(kept: Kept, row: int) -> list[str | None]:
    """Return the cells of a row in the kept columns as text, None where empty."""
    values = (column[row] for column in kept.values())
    # What is not equal to itself is NaN, or pandas' NaT.
    return [None if v is None or v != v else shortened(str(v), LONGEST) for v in values]


def alarm_list(
    scored: ScoredRows,
    labels: Host,
    flagged: NDArray[np.intp],
    kept: Kept,
    unusual: Callable[[NDArray[np.intp]], list[str]] | None = None,
) -> dict[str, Any]:
    """Alarms as rows of a table, the farthest below the threshold first.

    Parameters
    ----------
    scored : ScoredRows
        Rows that have a score.
    labels : ndarray of shape (n,)
        Of all rows, by position.
    flagged : ndarray of int
        Positions of the rows that were called anomalies; those without a score come last.
    kept : dict
        As `check_kept_columns` makes it.
    unusual : callable, optional
        Positions of rows ↦ what is unusual in each, in words.

    Returns
    -------
    dict
        ``total``: alarms; ``kept``: names of the columns; ``rows``: of each of the strongest
        (`MOST` at most) its position, label, score, p-value, what is unusual in it (None: not
        known), and what it holds in the columns.
    """
    alarms = scored[np.isin(scored.rows, flagged)]
    alarms = alarms[np.lexsort((alarms.fused, alarms.margin))[:MOST_LISTED]]
    why = [None] * len(alarms.rows) if unusual is None else unusual(alarms.rows)
    rows: list[list[Any]] = [
        [int(row), int(labels[row]), _short(alarms.fused[i]), _short(alarms.pvalues[i]), why[i]]
        for i, row in enumerate(alarms.rows)
    ]
    silent = np.setdiff1d(flagged, scored.rows)[: MOST_LISTED - len(rows)]
    rows += [[int(row), int(labels[row]), None, None, None] for row in silent]
    return {
        "total": len(flagged),
        "kept": list(kept),
        "rows": [[*row, *cells_of(kept, row[0])] for row in rows],
    }


def _short(value: float) -> float | None:
    """Six digits, which are more than one sees and fewer than doubles have."""
    return None if np.isnan(value) else float(f"{value:.6g}")


# ----------------------------------------------------------------------------- the list as a table

KNOWN = {1: ("normal", "normal"), -1: ("anomaly", "odd"), 0: ("unlabelled", "unknown")}
PAGE, CARDS = 25, 10  # alarms at a time, on a screen and on a phone; chosen by hand

# Places in a row of the list; columns that users keep follow.
ROW, LABEL, SCORE, P_VALUE, WHY, KEPT = range(6)


def alarm_table(summary: dict[str, Any]) -> dict[str, Any]:
    """Columns, the first page of rows, and what is said above.

    Parameters
    ----------
    summary : dict
        What `summarise` returned.

    Returns
    -------
    dict
        ``columns``: place in the rows of ``alarm_list``, name, and whether the name is a user's, of
        each column in the order shown; ``rows``: of cells, as texts; ``words``; ``command``.
    """
    found = summary["alarm_list"]
    columns = [(ROW, "row", False)]
    columns += [(KEPT + k, name, True) for k, name in enumerate(found["kept"])]
    if any(row[LABEL] for row in found["rows"]):
        columns.append((LABEL, "known as", False))
    if any(row[WHY] is not None for row in found["rows"]):
        columns.append((WHY, "why", False))
    columns += [(SCORE, "score", False), (P_VALUE, "p-value", False)]
    return {
        "columns": columns,
        "page": PAGE,
        "cards": CARDS,
        "rows": [
            [_text(row[place], place) for place, *_ in columns] for row in found["rows"][:PAGE]
        ],
        "words": _words(summary),
        "command": found["command"] if found["total"] > len(found["rows"]) else None,
    }


def _text(value: Any, place: int) -> str:
    if value is None:
        return MISSING
    if place == LABEL:
        return KNOWN[value][0]
    return readable(value) if place in (SCORE, P_VALUE) else str(value)


def _words(summary: dict[str, Any]) -> str:
    found = summary["alarm_list"]
    total, shown = found["total"], len(found["rows"])
    if not total:
        return "No row lies below the threshold."
    which = "" if summary["judged_on"]["origin"] in ("given", "learnt") else " of the training data"
    told = f"{counted(total, 'alarm')}, the strongest first. Rows{which} "
    told += f"{summary['judged_on']['numbering']}."
    if shown < total:
        told = f"The strongest {shown:,} of {told}"
        if not found["command"]:
            told += " In Python, predict tells all of them."
    if any(row[WHY] is not None for row in found["rows"]):
        told += (
            " Why: the columns that are farthest out of the range of 98 % of the normal training "
            "rows."
        )
    silent = sum(row[SCORE] is None for row in found["rows"])
    if silent:
        told += f" {counted(silent, 'row')} could not be scored, and count as alarms."
    return told
