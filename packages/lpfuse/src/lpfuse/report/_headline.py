"""The summary in a few sentences, none of which says more than the figures do."""

from __future__ import annotations

from math import floor, log10
from typing import Any

from lpfuse._format import fixed
from lpfuse._validation.params import counted
from lpfuse.tables._alarm_words import (
    alarm_sentences,
    asked_words,
    per_cent,
    per_cent_range,
    too_few_words,
)

# Both chosen by hand.
FEW = 20  # rows of a class: below, an interval that rests on normal theory is a rough guide
MOST = 0.9  # of the weight: so many detectors are named as those that carry it


def fusing_words(summary: dict[str, Any]) -> list[str]:
    """Sentences: what fusing gained, where the weight lies, and the proof.

    Parameters
    ----------
    summary : dict
        What `summarise` found.
    """
    judged = [_comparison, _chance, _alone] if summary["comparisons"] else [_no_comparison]
    return [told for sentence in (*judged, _weights, _proof) if (told := sentence(summary))]


def alarm_words(summary: dict[str, Any]) -> list[str]:
    """Sentences: false alarms asked for and measured, anomalies found, hidden anomalies.

    Parameters
    ----------
    summary : dict
        What `summarise` found.
    """
    return [sentence for sentence in (*_alarms(summary), _hidden(summary)) if sentence]


def _no_comparison(summary: dict[str, Any]) -> str:
    lack = "normal rows" if summary["judged_on"]["anomalies"] else "anomalies"
    return (
        f"There are no labelled {lack} to judge by, so nothing here can tell whether fusing helps, "
        "or which detector is the best."
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
    count = min(judged["anomalies"], judged["normal"])
    if count < FEW:
        text += f", but with {count} rows of a class that is a rough guide"
    if low <= 0:
        text += "; which detector is the best is only known afterwards"
    return text + "."


def _alone(summary: dict[str, Any]) -> str:
    """What one gets without fusing, and with equal weights."""
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


def _proof(summary: dict[str, Any]) -> str:
    """The certificate in plain words; its figures are on the page for who looks for them."""
    certificate = summary["certificate"]
    if certificate is None:
        return ""
    gap = max(certificate["relative_gap"], 1e-16)  # no more digits than doubles have
    digits = floor(-log10(gap))
    start = "The weights"
    if certificate["status"] != "optimal":
        start = "The solver stopped early; the weights"
    if digits < 1:
        return f"{start} may be up to {per_cent(gap)} above the least loss."
    return f"{start} are proven optimal, to {counted(digits, 'digit')} of the loss."


def _alarms(summary: dict[str, Any]) -> list[str]:
    found = summary["alarms"]
    if summary["judged_on"]["origin"] in ("given", "learnt"):
        return alarm_sentences(found)
    if found["too_few"]:
        return [too_few_words(found)]
    return [_out_of_fold_alarms(found), _found(found)]


def _out_of_fold_alarms(found: dict[str, Any]) -> str:
    """False alarms on training rows, each by what was learnt without it."""
    normal = found["normal"]
    if normal is None or normal["verdict"] is None:
        return ""
    seen = "by what has seen them" if found["trained_on"]["flatters"] else "each held out"
    told = (
        f"{asked_words(found)}, {per_cent(normal['share'])} measured on {normal['rows']:,} normal "
        f"training rows, {seen} (95 % interval {per_cent_range(normal['low'], normal['high'])})"
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
    """A difference of AUCs in words.

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
