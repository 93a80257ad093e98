"""What a manager asks first: how many alarms, how many of them are false, what to do now.

Counts come from labels where there are some, from the calibration elsewhere; what neither tells is
said to be unknown.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lpfuse._validation.params import counted
from lpfuse.ensemble import FusedDetector
from lpfuse.tables._alarm_figures import share_figures, share_interval
from lpfuse.tables._alarm_words import per_cent, per_cent_range, too_few_words

Summary = dict[str, Any]

# All chosen by hand:
FIRST = 10  # alarms to look at first: as many as the page explains
HALF = 0.5  # of the rows flagged, found or right: where words and advice change

ELSEWHERE = "labelled anomalies of the training"  # that recall is measured on, where rows have none


def overview(fused: FusedDetector, found: Summary, commands: Summary) -> Summary:
    """Counts, precision, recall, the sentences that tell them, and what to do next.

    Parameters
    ----------
    fused : FusedDetector
        Fitted.
    found : dict
        The other parts of the summary.
    commands : dict
        How to score the rows and how to ask about them, as `_summary` words it; None: not known.

    Returns
    -------
    dict
        ``alarms`` and ``rows``: how many; ``right`` and ``wrong``: alarms by their labels, None
        without such; ``likely_false``: of the alarms without a label, see `likely_false`, or None;
        ``precision``: share of right alarms, ``value``, ``low``, ``high`` and whether it is
        ``measured``, or None; ``recall``: share of anomalies found in the same terms and ``on``
        which rows, or None; ``sentences`` and ``next``.
    """
    alarms, origin = found["alarms"], found["judged_on"]["origin"]
    guessed = origin not in ("given", "learnt") and found["data"]["hidden_anomalies"] is not None
    counts: Summary = {
        "alarms": alarms["rows"]["flagged"],
        "rows": alarms["rows"]["rows"],
        "guessed": guessed,  # training rows that nobody looked at count as normal
        **_by_label(alarms, guessed),
        "likely_false": (alarms["unlabelled"] or {}).get("false"),
    }
    counts |= {"precision": _precision(counts, alarms), "recall": _recall(fused, found)}
    told = [_first(counts, found), *_quality(counts, found)]
    steps = _next(counts, found, commands)
    return counts | {"sentences": [each for each in told if each], "next": steps}


def _by_label(alarms: Summary, guessed: bool) -> Summary:
    """Alarms that labels call right and wrong; None where there are no such rows, or no labels."""
    flatters = alarms["trained_on"]["flatters"]
    flagged = {
        kind: None if alarms[kind] is None or flatters else alarms[kind]["flagged"]
        for kind in ("anomalies", "normal")
    }
    return {"right": flagged["anomalies"], "wrong": None if guessed else flagged["normal"]}


def _precision(counts: Summary, alarms: Summary) -> Summary | None:
    """Measured by labels of both kinds; expected by the calibration; else unknown."""
    right, wrong, false = counts["right"], counts["wrong"], counts["likely_false"]
    if right is not None and wrong is not None:
        if right + wrong == 0:
            return None
        low, high = share_interval(right, right + wrong)
        return {"value": right / (right + wrong), "low": low, "high": high, "measured": True}
    flagged = (alarms["unlabelled"] or {}).get("flagged")
    if not false or not flagged:
        return None
    value, low, high = (1 - false[key] / flagged for key in ("value", "high", "low"))
    return {"value": value, "low": low, "high": high, "measured": False}


def _recall(fused: FusedDetector, found: Summary) -> Summary | None:
    """Of labelled anomalies; without any, of those of the training, each held out."""
    kind = found["alarms"]["anomalies"]
    if found["alarms"]["trained_on"]["flatters"]:
        return None
    if kind is None:
        held = fused.held_out_
        scores = held.fused[(held.labels < 0) & ~np.isnan(held.fused)]
        kind = share_figures(scores < fused.offset_)
        on = ELSEWHERE
    else:
        on = "labelled anomalies"
    if kind is None:
        return None
    told = {key: kind[key] for key in ("rows", "flagged", "low", "high")}
    return {"value": kind["share"], **told, "on": on}


# -------------------------------------------------------------------------------------- sentences


def _first(counts: Summary, found: Summary) -> str:
    """How many alarms, how many of them false."""
    alarms, f = found["alarms"], counts["alarms"]
    training = found["judged_on"]["origin"] not in ("given", "learnt")
    rows = counted(counts["rows"], "training row" if training else "row")
    start = f"{counted(f, 'alarm') if f else 'No alarms'} among {rows}"
    if alarms["trained_on"]["flatters"] and not training:
        learnt = alarms["trained_on"]["rows"]
        which = "them" if learnt == counts["rows"] else f"{learnt:,} of them"
        return f"{start}, but the model learnt from {which}: how many are false cannot be told."
    if alarms["too_few"]:
        return f"{start}, and there can be none: the model has too few normal rows to set a limit."
    if not f:
        return f"{start}."
    parts = [*_labelled_part(counts), *_open_part(counts, alarms)]
    return f"{start}: {'; '.join(parts)}." if parts else f"{start}."


def _labelled_part(counts: Summary) -> list[str]:
    right, wrong = counts["right"], counts["wrong"]
    if right is None and wrong is None:
        return []
    told = [] if right is None else [f"{right:,} {_are(right)} labelled anomalies"]
    told += [] if wrong is None else [f"{wrong:,} {_are(wrong)} false"]
    return [" and ".join(told)]


def _open_part(counts: Summary, alarms: Summary) -> list[str]:
    """Alarms that no label judges."""
    kind, false = alarms["unlabelled"], counts["likely_false"]
    if counts["guessed"]:
        many = alarms["normal"]["flagged"]
        return [f"nobody has looked at {_which(many, counts)}"] if many else []
    if kind is None or not kind["flagged"]:
        return []
    f = kind["flagged"]
    which = _which(f, counts)
    if false is None:
        many = f"how many of {which} are" if f > 1 else f"whether {which} is"
        return [f"{many} false is not known"]
    if false["high"] >= f:
        return [f"all of {which} may be false" if f > 1 else f"{which} may be false"]
    ends = f"{false['low']:,} to {false['high']:,}"
    many = f"about {false['value']:,} of {which} are likely false ({ends})"
    if false["value"] == 0:
        many = f"likely none of {which} is false (at most {false['high']:,})"
    return [f"{many}, if what is normal has not changed" if _drowns(kind) else many]


def _drowns(kind: Summary) -> bool:
    """Whether alarms are so many that a change of what is normal is the likelier reason."""
    return kind.get("verdict") == "more" and kind["share"] > HALF


def _which(many: int, counts: Summary) -> str:
    """Alarms without a label, as a sentence about all alarms calls them."""
    if many == counts["alarms"]:
        return "it" if many == 1 else "them"
    return f"{'the' if many > 1 else 'the one'} {f'{many:,} ' if many > 1 else ''}without a label"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _quality(counts: Summary, found: Summary) -> list[str]:
    """Precision beside recall, and what they rest on."""
    alarms, recall = found["alarms"], counts["recall"]
    if alarms["trained_on"]["flatters"] or alarms["too_few"]:
        return []
    told = [_precision_words(counts, found)]
    if recall is None:
        return [*told, "Recall, the share of anomalies found, is not known: none is labelled."]
    held_out = ", each held out" if recall["on"] == ELSEWHERE else ""
    return [
        *told,
        f"Recall: {recall['flagged']:,} of {recall['rows']:,} {recall['on']} were found{held_out} "
        f"({per_cent(recall['value'])}; 95 % interval {_range(recall)}).",
    ]


def _precision_words(counts: Summary, found: Summary) -> str:
    alarms, precision = found["alarms"], counts["precision"]
    if counts["alarms"] == 0:
        return ""
    if precision is None:
        why = "nobody has looked at these rows" if counts["guessed"] else _why_unknown(found)
        return f"Precision, the share of right alarms, is not known: {why}."
    share, ends = per_cent(precision["value"]), _range(precision)
    if precision["measured"]:
        odd, known = (alarms[kind]["rows"] for kind in ("anomalies", "normal"))
        return (
            f"Precision: {share} of the alarms with a label are right (95 % interval {ends}), "
            f"where {odd:,} of {odd + known:,} such rows are anomalies."
        )
    if precision["low"] == 0:
        return (
            f"Precision, expected: {ends} of the alarms are right, for normal rows alone would "
            "give as many; nobody has labelled these rows."
        )
    return (
        f"Precision, expected: about {share} of the alarms are right ({ends}), if what is normal "
        "has not changed since the training; nobody has labelled these rows."
    )


def _why_unknown(found: Summary) -> str:
    alarms = found["alarms"]
    if alarms["normal"] is None and alarms["anomalies"] is not None:
        return "no row is labelled normal"
    if alarms["unlabelled"] is not None:
        return "there are no labels, and the threshold was not set by a rate of false alarms"
    return "no row is labelled an anomaly"


def _range(figure: Summary) -> str:
    return per_cent_range(figure["low"], figure["high"])


# ------------------------------------------------------------------------------------ what to do


def _next(counts: Summary, found: Summary, commands: Summary) -> list[str]:
    """What to do, the most urgent first."""
    alarms = found["alarms"]
    if alarms["trained_on"]["flatters"] and found["judged_on"]["origin"] == "learnt":
        return [
            "Judge rows that are new to the model, or give the report none: then each training row "
            "is judged by what was learnt without it."
        ]
    if alarms["too_few"]:
        return [too_few_words(alarms).removeprefix("Nothing can be called an anomaly: ")]
    steps = [_recalibrate(alarms), _look(counts), _missed(counts), _too_many_false(counts)]
    return [step for step in (*steps, _ask(counts, alarms, commands)) if step]


def _recalibrate(alarms: Summary) -> str:
    """Where normal rows have changed, or seem to have."""
    normal, open_rows = alarms["normal"] or {}, alarms["unlabelled"] or {}
    if normal.get("verdict") == "more" and not alarms["trained_on"]["flatters"]:
        return "Recalibrate: normal rows give more alarms than asked for. Fit again with them."
    if open_rows and _drowns(open_rows):
        return (
            "Check the data first: so many alarms are seldom anomalies. Do all columns hold what "
            "they held in the training, in the same units? If these rows are normal, recalibrate: "
            "fit again with them."
        )
    return ""


def _look(counts: Summary) -> str:
    f = counts["alarms"]
    if f == 0:
        return "There is nothing to look at."
    if f <= FIRST:
        return "Look at the alarm below." if f == 1 else f"Look at the {f} alarms below."
    return f"Look at the strongest {FIRST} first: they are the least likely to be false."


def _missed(counts: Summary) -> str:
    recall = counts["recall"]
    if recall is None or recall["value"] >= HALF:
        return ""
    return (
        "Most known anomalies are missed: label more of their kind and fit again, or ask for a "
        "higher rate of false alarms."
    )


def _too_many_false(counts: Summary) -> str:
    precision = counts["precision"]
    if precision is None or not precision["measured"] or precision["value"] >= HALF:
        return ""
    return (
        "More alarms are false than right: if missing a few more anomalies costs less, ask for a "
        "lower rate of false alarms."
    )


def _ask(counts: Summary, alarms: Summary, commands: Summary) -> str:
    """Labels tell what nothing else does."""
    if counts["right"] is not None and counts["wrong"] is not None:
        return ""
    how = f" {commands['ask']}" if commands["ask"] else ""
    fewer = (alarms["unlabelled"] or {}).get("verdict") == "fewer"
    why = (
        "There are fewer alarms than normal rows alone should give; a few labels tell why"
        if fewer
        else "Ask for labels: a few answers tell how many alarms are right"
    )
    return f"{why}.{how}" if not how else f"{why}:{how}"
