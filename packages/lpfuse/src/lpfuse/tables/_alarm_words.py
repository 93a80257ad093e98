"""Alarms asked for and measured, in sentences for someone without statistics."""

from __future__ import annotations

from typing import Any

from lpfuse._validation.params import counted

Figures = dict[str, Any]


def alarm_sentences(found: Figures) -> list[str]:
    """What is worth saying of the alarms: the worst news first.

    Parameters
    ----------
    found : dict
        As `alarm_figures` makes it.
    """
    if found["rows"] is None:
        return []
    told = [*_training(found), too_few_words(found)]
    if not found["too_few"]:
        told += [_unlabelled(found), _normal(found), _anomalies(found), _incomplete(found)]
    return [sentence for sentence in told if sentence]


def parted(found: Figures) -> bool:
    """Whether asked and measured part, or cannot be compared for the rows are training rows."""
    verdicts = [(found[kind] or {}).get("verdict") for kind in ("normal", "unlabelled")]
    most = found["trained_on"]["flatters"]
    return bool(most or found["too_few"] or {"more", "fewer"} & {*verdicts})


def per_cent(share: float) -> str:
    """A share of rows, with as many digits as there is room for.

    Examples
    --------
    >>> per_cent(0.05), per_cent(0.1449), per_cent(0.0123), per_cent(0.0)
    ('5 %', '14 %', '1.2 %', '0 %')
    """
    return f"{_digits(share)} %"


def per_cent_range(low: float, high: float) -> str:
    """Two shares.

    Examples
    --------
    >>> per_cent_range(0.0213, 0.0881)
    '2.1 to 8.8 %'
    """
    return f"{_digits(low)} to {_digits(high)} %"


def _digits(share: float) -> str:
    value = 100 * share
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}" if value >= 0.95 else f"{value:.1g}"


def asked_words(found: Figures) -> str:
    """What was asked for, as the beginning of a sentence; empty where it is no rate."""
    if found["asked"] is None:
        return ""
    rate = per_cent(found["asked"])
    if found["of"] == "training":
        return f"{rate} of rows like the training rows were to be flagged"
    if found["confidence"] is not None:
        sure = per_cent(found["confidence"])
        return f"At most {rate} false alarms were asked for, with a probability of {sure}"
    return f"{rate} false alarms were asked for"


def too_few_words(found: Figures) -> str:
    """What to do where the calibration rows cannot hold the rate; empty where they can."""
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
    """A rate in tenths of a per cent, never below it."""
    return f"{-(-rate * 1000 // 1) / 10:.3g} %"


def _training(found: Figures) -> list[str]:
    learnt, share = found["trained_on"], per_cent(found["rows"]["share"])
    if not learnt["rows"]:
        return []
    what = f"{learnt['rows']:,} of {counted(found['rows']['rows'], 'row')} are rows that the model"
    if not learnt["flatters"]:
        return [f"{what} learnt from; alarms are compared for the others alone."]
    told = [
        f"{what} learnt from: what is said of them flatters.",
        f"Their share of alarms, {share}, is no measure of new rows.",
    ]
    if learnt["held_out"]:
        told[1] += (
            f" Scored by what was learnt without them, {per_cent(learnt['held_out']['share'])} of "
            "them lie below the threshold, which the normal ones among these scores set."
        )
    return told


def _measured(found: Figures) -> str:
    """So many rows, with the interval of their share."""
    interval = per_cent_range(found["low"], found["high"])
    return f"{found['flagged']:,} of {found['rows']:,}; 95 % interval {interval}"


def _like_calibration(found: Figures) -> str:
    n = counted(found["calibration_rows"], "row")
    return n if found["of"] == "training" else n.replace("row", "normal row")


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
        f"{asked_words(found)}: of {rows} like the {_like_calibration(found)} of the calibration "
        f"{per_cent_range(*kind['expected'])} are to be expected. {per_cent(kind['share'])} were "
        f"flagged ({_measured(kind)})."
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
        f"{asked_words(found)}: of {counted(kind['rows'], 'normal row')} "
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
