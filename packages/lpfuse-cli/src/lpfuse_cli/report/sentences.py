"""The summary in sentences, none of which says more than the figures do."""

from __future__ import annotations

from typing import Any

import numpy as np

from lpfuse._format import fixed, per_cent, per_cent_range
from lpfuse._validation.params import counted
from lpfuse.ensemble import FusedDetector
from lpfuse.threshold.offsets import share_interval
from lpfuse_cli.alarms import describe_alarms, describe_request, describe_shortage, share_figures

# ------------------------------------------------------------------------------- fusing and alarms

# Both chosen by hand.
FEW = 20  # rows of a class: below, an interval that rests on normal theory is a rough guide
MOST = 0.9  # of the weight: so many detectors are named as those that carry it


def fusing_words(summary: dict[str, Any]) -> list[str]:
    """Sentences: what fusing gained, where the weight lies, and what p does.

    Parameters
    ----------
    summary : dict
        What `summarise` found.
    """
    judged = [_comparison, _chance, _alone] if summary["comparisons"] else [_no_comparison]
    return [
        told for sentence in (*judged, _weights, _flat, _stopped) if (told := sentence(summary))
    ]


def alarm_words(summary: dict[str, Any]) -> list[str]:
    """Sentences: false alarms asked for and measured, anomalies found, hidden anomalies.

    Parameters
    ----------
    summary : dict
        What `summarise` found.
    """
    return [sentence for sentence in (*_alarms(summary), _hidden(summary)) if sentence]


def _no_comparison(summary: dict[str, Any]) -> str:
    lack = "normal" if summary["judged_on"]["anomalies"] else "an anomaly"
    return (
        f"None of these rows is labelled {lack}, so they cannot tell whether fusing helps, or "
        "which detector is the best."
    )


def _comparison(summary: dict[str, Any]) -> str:
    """Whether the fusion or the best detector has the higher AUC, as far as chance allows."""
    best, auc = summary["comparisons"][0], summary["fusion"]["auc"]
    figures = f"AUC {auc:.3f} against {auc - best['gain']:.3f}"
    if best["interval"] is None:
        return (
            f"One row of a class cannot tell whether fusing beats the best single detector, "
            f"{best['name']}: {figures}."
        )
    low, high = best["interval"]
    if low > 0:
        return (
            f"Fusing beat the best single detector, {best['name']}, by {points(best['gain'])}: "
            f"{figures}."
        )
    if high < 0:
        return (
            f"The best single detector, {best['name']}, beat the fusion by {points(-best['gain'])}"
            f": {figures}."
        )
    return f"Fusing is level with the best single detector, {best['name']}: {figures}."


def _chance(summary: dict[str, Any]) -> str:
    best, judged = summary["comparisons"][0], summary["judged_on"]
    if best["interval"] is None:
        return ""
    low, high = best["interval"]
    may = "is more than chance gives" if low > 0 or high < 0 else "may be chance"
    text = (
        f"The difference of {points(best['gain'])} {may} (95 % interval {_points(low)} to "
        f"{_points(high)})"
    )
    if low == high == 0:
        text = "Both rank these rows equally well"
    count = min(judged["anomalies"], judged["taken_as_normal"])
    if count < FEW:
        text += f", but with {count} rows of a class that is a rough guide"
    if low <= 0:
        text += "; which detector is the best is only known afterwards"
    return text + "."


def _alone(summary: dict[str, Any]) -> str:
    """Compare with single detectors and with equal weights."""
    aucs = [detector["auc"] for detector in summary["detectors"]]
    if len(aucs) < 2:
        return ""
    return (
        f"Alone, the {len(aucs)} detectors have AUCs from {min(aucs):.3f} to {max(aucs):.3f}, "
        f"{sum(aucs) / len(aucs):.3f} on average; fused with equal weights, "
        f"{summary['equal_weights']['auc']:.3f}."
    )


def _weights(summary: dict[str, Any]) -> str:
    shares = [detector["share"] for detector in summary["detectors"]]
    if None in shares or not any(shares):
        return ""
    ordered = sorted(map(abs, shares), reverse=True)
    count = next(k for k in range(1, len(ordered) + 1) if sum(ordered[:k]) >= MOST - 1e-9)
    if count == len(ordered) > 1:
        return (
            f"All {count} detectors count; the largest has {_per_cent(ordered[0])} of the weight."
        )
    verb = "carries" if count == 1 else "carry"
    some = f"{count} of {len(ordered)} detectors" if len(ordered) > 1 else "The one detector"
    return f"{some} {verb} {_per_cent(sum(ordered[:count]))} of the weight."


def _flat(summary: dict[str, Any]) -> str:
    if not summary["fusion"]["is_flat"]:
        return ""
    return "p makes no difference: from 1 to ∞ the weights are the same."


def _stopped(summary: dict[str, Any]) -> str:
    """Say that a solver stopped early; what is proven of the weights is told with their origin."""
    certificate = summary["certificate"]
    if certificate is None or certificate["status"] == "optimal":
        return ""
    gap = per_cent(certificate["relative_gap"])
    return f"The solver stopped early; the weights may be up to {gap} above the least loss."


def _alarms(summary: dict[str, Any]) -> list[str]:
    found = summary["alarms"]
    if summary["judged_on"]["origin"] in ("given", "learnt"):
        return describe_alarms(found)
    if found["too_few"]:
        return [describe_shortage(found)]
    return [found.get("promise", ""), _out_of_fold_alarms(found), _found(found)]


def _out_of_fold_alarms(found: dict[str, Any]) -> str:
    """Describe the false alarms on training rows, out of fold."""
    normal = found["taken_as_normal"]
    if normal is None or normal["verdict"] is None:
        return ""
    which = "training rows that are no known anomalies"
    which = which if found["unlabelled"] else "normal training rows"
    seen = "by fits that include them" if found["trained_on"]["flatters"] else "each held out"
    told = (
        f"{describe_request(found)}, {per_cent(normal['share'])} measured on {normal['rows']:,} "
        f"{which}, {seen} (95 % interval "
        f"{per_cent_range(normal['low'], normal['high'])})"
    )
    if normal["verdict"] == "more":
        return f"{told}. That is more: if rows belong together, fit with groups."
    if normal["verdict"] == "fewer":
        return f"{told}. That is fewer than was asked for."
    return f"{told}."


def _found(found: dict[str, Any]) -> str:
    anomalies = found["anomalies"]
    if anomalies is None:
        return ""
    interval = per_cent_range(anomalies["low"], anomalies["high"])
    return (
        f"The threshold finds {anomalies['flagged']:,} of {anomalies['rows']:,} anomalies "
        f"(95 % interval {interval})."
    )


def points(difference: float) -> str:
    """Format a difference of AUCs.

    Examples
    --------
    >>> points(0.0123), points(-0.00001), points(0.0101)
    ('1.2 points', '0.0 points', '1.0 points')
    """
    return f"{_points(difference)} points"


def _per_cent(share: float) -> str:
    return f"{100 * share:.3g} %" if share < 0.1 else f"{share:.0%}".replace("%", " %")


def _points(difference: float) -> str:
    return fixed(100 * difference, 1)


def _hidden(summary: dict[str, Any]) -> str:
    """How many anomalies hide among rows that nobody looked at."""
    share = summary["data"]["hidden_anomalies"]
    if share is None:
        return ""
    low, high = (f"{100 * share[end]:.2g}" for end in ("low", "high"))
    if not share["answers"]:
        return (
            "How many of the training rows without a label are anomalies is not known: up to "
            f"{high} % would be no surprise. A few answers tell more: lpfuse ask."
        )
    return (
        f"By {counted(share['answers'], 'answer')}, about {100 * share['value']:.2g} % of the "
        f"training rows are anomalies (95 % interval {low} to {high} %)."
    )


# ------------------------------------------------------------------------------------ the overview

Summary = dict[str, Any]

# All chosen by hand:
FIRST = 10  # alarms to look at first: as many as the page explains
HALF = 0.5  # of the rows flagged, found or right: where words and advice change

ELSEWHERE = "labelled anomalies of the training"  # that recall is measured on, where rows have none


def overview(fused: FusedDetector, found: Summary, commands: Summary) -> Summary:
    """Collect counts, precision, recall, sentences about them, and next steps.

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
        without such; ``guessed``: whether rows without a label count as normal where rates are
        measured; ``likely_false``: of the alarms without a label, see `likely_false`, or None;
        ``precision``: share of right alarms, ``value``, ``low``, ``high`` and whether it is
        ``measured``, or None; ``recall``: share of anomalies found in the same terms and ``on``
        which rows, or None; ``sentences`` and ``next``.
    """
    alarms, origin = found["alarms"], found["judged_on"]["origin"]
    guessed = origin not in ("given", "learnt") and alarms["unlabelled"] is not None
    counts: Summary = {
        "alarms": alarms["rows"]["flagged"],
        "rows": alarms["rows"]["rows"],
        "guessed": guessed,
        **_by_label(alarms),
        "likely_false": (alarms["unlabelled"] or {}).get("false"),
    }
    counts |= {"precision": _precision(counts, alarms), "recall": _recall(fused, found)}
    told = [_first(counts, found), *_quality(counts, found)]
    steps = _next(counts, found, commands)
    return counts | {"sentences": [each for each in told if each], "next": steps}


def _by_label(alarms: Summary) -> Summary:
    """Alarms that labels call right and wrong; None where there are no such rows, or no labels."""
    flatters = alarms["trained_on"]["flatters"]
    flagged = {
        kind: None if alarms[kind] is None or flatters else alarms[kind]["flagged"]
        for kind in ("anomalies", "normal")
    }
    return {"right": flagged["anomalies"], "wrong": flagged["normal"]}


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
        return f"{start}, but the model learnt from {which}: how many are false is unknown."
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
        return f"Precision, the share of right alarms, is not known: {_why_unknown(counts, found)}."
    share, ends = per_cent(precision["value"]), _range(precision)
    if precision["measured"]:
        odd, known = (alarms[kind]["rows"] for kind in ("anomalies", "normal"))
        return (
            f"Precision: {share} of the alarms with a label are right (95 % interval {ends}), "
            f"where {odd:,} of {odd + known:,} such rows are anomalies."
        )
    if precision["low"] == 0:
        return (
            f"Precision, expected: {ends} of the alarms are right, because normal rows alone "
            "would give as many; these rows have no labels."
        )
    return (
        f"Precision, expected: about {share} of the alarms are right ({ends}), if what is normal "
        "has not changed since the training; these rows have no labels."
    )


def _why_unknown(counts: Summary, found: Summary) -> str:
    right, wrong = counts["right"], counts["wrong"]
    if right is not None:
        return "no row is labelled normal" if wrong is None else "no alarm has a label"
    if wrong is None and counts["guessed"]:
        return "none of these rows has a label"
    if found["alarms"].get("promise"):
        return "these rows have no labels"
    if found["alarms"]["unlabelled"] is not None and not counts["guessed"]:
        return "there are no labels, and the threshold was not set by a rate of false alarms"
    return "no row is labelled an anomaly"


def _range(figure: Summary) -> str:
    return per_cent_range(figure["low"], figure["high"])


# ------------------------------------------------------------------------------------ what to do


def _next(counts: Summary, found: Summary, commands: Summary) -> list[str]:
    """List the next steps, the most urgent first."""
    alarms = found["alarms"]
    if alarms["trained_on"]["flatters"] and found["judged_on"]["origin"] == "learnt":
        return [
            "Report on new rows, or without DATA: then each training row is scored by fits without "
            "it."
        ]
    if alarms["too_few"]:
        return [describe_shortage(alarms).removeprefix("Nothing can be called an anomaly: ")]
    steps = [_recalibrate(alarms), _look(counts), _missed(counts), _too_many_false(counts)]
    return [step for step in (*steps, _ask(counts, alarms, commands)) if step]


def _recalibrate(alarms: Summary) -> str:
    """Where normal rows have changed, or seem to have."""
    normal, open_rows = alarms["normal"] or {}, alarms["unlabelled"] or {}
    normal = alarms.get("taken_as_normal") or normal
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
        return "There are no alarms to inspect."
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
