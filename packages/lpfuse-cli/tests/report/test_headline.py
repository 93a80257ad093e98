import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpfuse_cli.report.sentences import alarm_words, fusing_words


def share(rows, flagged, low, high, **more):
    """Alarms among some rows, as a summary has them."""
    return {"rows": rows, "flagged": flagged, "share": flagged / rows, "low": low, "high": high} | (
        {"expected": None, "verdict": None, "excess": None} | more
    )


def alarms(**changes):
    """Of training rows, each held out."""
    return {
        "asked": 0.05,
        "of": "normal",
        "confidence": None,
        "calibration_rows": 100,
        "too_few": None,
        "rows": share(150, 45, 0.23, 0.38),
        "normal": share(100, 5, 0.016, 0.113),
        "taken_as_normal": share(100, 5, 0.016, 0.113, verdict="as expected"),
        "anomalies": share(50, 40, 0.66, 0.9),
        "unlabelled": None,
        "complete": None,
        "incomplete": None,
        "trained_on": {"rows": 150, "flatters": False, "held_out": None},
    } | changes


def facts(gain=0.02, interval=(0.01, 0.03), shares=(0.5, 0.45, 0.05), **changes):
    """A summary with just what the sentences are made of."""
    found = {
        "judged_on": {
            "origin": "out-of-fold",
            "normal": 100,
            "anomalies": 50,
            "unlabelled": 0,
            "taken_as_normal": 100,
        },
        "fusion": {"auc": 0.95, "is_flat": False},
        "equal_weights": {"auc": 0.93},
        "comparisons": [
            {
                "with": "best detector",
                "name": "lof",
                "gain": gain,
                "interval": None if interval is None else list(interval),
            }
        ],
        "detectors": [{"auc": 0.9 + 0.01 * j, "share": s} for j, s in enumerate(shares)],
        "certificate": {"status": "optimal", "relative_gap": 2.1e-9},
        "alarms": alarms(),
        "data": {"hidden_anomalies": None},
    }
    for key, value in changes.items():
        found[key] = found[key] | value if isinstance(value, dict) and found[key] else value
    return found


def headline(found):
    return [*fusing_words(found), *alarm_words(found)]


def test_a_gain_is_told_with_its_figures():
    told = headline(facts())
    assert told[0] == (
        "Fusing beat the best single detector, lof, by 2.0 points: AUC 0.950 against 0.930."
    )
    assert "more than chance" in told[1]
    assert "1.0 to 3.0" in told[1]


def test_a_loss_is_told_as_one():
    told = headline(facts(-0.02, (-0.03, -0.01)))
    assert told[0] == (
        "The best single detector, lof, beat the fusion by 2.0 points: AUC 0.950 against 0.970."
    )
    assert "only known afterwards" in told[1]


def test_what_may_be_chance_is_level():
    told = headline(facts(0.02, (-0.001, 0.041)))
    assert told[0] == "Fusing is level with the best single detector, lof: AUC 0.950 against 0.930."
    assert "may be chance (95 % interval −0.1 to 4.1)" in told[1]


@given(st.floats(-0.5, 0.5), st.floats(0, 0.5), st.integers(2, 500))
def test_no_gain_is_claimed_that_the_interval_does_not_show(gain, half, anomalies):
    found = facts(gain, (gain - half, gain + half), judged_on={"anomalies": anomalies})
    told = " ".join(headline(found))
    assert ("Fusing beat" in told) == (gain - half > 0)
    assert ("beat the fusion" in told) == (gain + half < 0)
    assert ("rough guide" in told) == (anomalies < 20)


def test_one_anomaly_cannot_tell():
    told = headline(facts(0.2, None, judged_on={"anomalies": 1}))
    assert told[0].startswith("One row of a class cannot tell")
    assert not any("difference" in sentence for sentence in told)


@pytest.mark.parametrize(("anomalies", "lack"), [(0, "an anomaly"), (5, "normal")])
def test_without_both_classes_there_is_no_verdict(anomalies, lack):
    told = headline(facts(comparisons=[], judged_on={"anomalies": anomalies}))
    assert told[0].startswith(f"None of these rows is labelled {lack}, so they")
    assert not any(re.search("AUC|beat|level", sentence) for sentence in told)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ((0.5, 0.45, 0.05), "2 of 3 detectors carry 95 % of the weight."),
        ((0.91, 0.09), "1 of 2 detectors carries 91 % of the weight."),
        ((0.3, -0.35, 0.35), "All 3 detectors count; the largest has 35 % of the weight."),
        ((1.0,), "The one detector carries 100 % of the weight."),
    ],
)
def test_who_carries_the_weight(shares, expected):
    assert expected in headline(facts(shares=shares))


@pytest.mark.parametrize("shares", [(None, None), (0.0, 0.0)])
def test_no_weights_no_sentence_about_them(shares):
    assert not any("of the weight" in sentence for sentence in headline(facts(shares=shares)))


def test_a_solver_that_stopped_early_is_told():
    loose = facts(certificate={"status": "max_iter", "relative_gap": 0.2})
    told = "The solver stopped early; the weights may be up to 20 % above the least loss."
    assert told in headline(loose)
    assert not any("solver" in sentence for sentence in headline(facts()))
    assert not any("solver" in sentence for sentence in headline(facts(certificate=None)))


def test_where_p_does_nothing_it_is_said():
    told = "p makes no difference: from 1 to ∞ the weights are the same."
    assert told in headline(facts(fusion={"is_flat": True}))
    assert told not in headline(facts())


def test_false_alarms_and_what_is_found():
    assert headline(facts())[-2:] == [
        "5 % false alarms were asked for, 5 % measured on 100 normal training rows, each held out "
        "(95 % interval 1.6 to 11 %).",
        "The threshold finds 40 of 50 anomalies (95 % interval 66 to 90 %).",
    ]
    more = share(100, 15, 0.09, 0.24, verdict="more")
    assert "That is more: " in headline(facts(alarms={"taken_as_normal": more}))[-2]
    fewer = share(400, 1, 0.0, 0.01, verdict="fewer")
    assert headline(facts(alarms={"taken_as_normal": fewer}))[-2].endswith(
        "fewer than was asked for."
    )
    blind = facts(alarms={"too_few": {"needed": 999, "least_rate": 0.0099}, "asked": 0.001})
    assert headline(blind)[-1] == (
        "Nothing can be called an anomaly: 100 normal rows cannot hold false alarms to 0.1 %. It "
        "takes 999. Fit to more normal rows, or ask for a rate of 1 % or more."
    )
    unlabelled = facts(
        comparisons=[],
        alarms={"anomalies": None, "normal": None, "taken_as_normal": None},
        judged_on={"anomalies": 0},
    )
    assert not any("false alarms" in sentence for sentence in headline(unlabelled))


def test_that_rows_taught_the_model_is_said():
    learnt = {"rows": 148, "flatters": True, "held_out": None}
    found = facts(judged_on={"origin": "learnt"}, alarms={"trained_on": learnt})
    assert alarm_words(found)[0].startswith("148 of 150 rows are rows that the model learnt from")
    assert not any("asked for" in sentence for sentence in headline(found))


def test_anomalies_among_rows_that_nobody_looked_at():
    share = {"value": 0.042, "low": 0.005, "high": 0.14, "answers": 20}
    assert headline(facts(data={"hidden_anomalies": share}))[-1] == (
        "By 20 answers, about 4.2 % of the training rows are anomalies (95 % interval 0.5 to 14 %)."
    )
    told = headline(facts(data={"hidden_anomalies": share | {"answers": 0, "high": 0.23}}))[-1]
    assert told.startswith(
        "How many of the training rows without a label are anomalies is not known"
    )
    assert "up to 23 %" in told


def test_equal_figures_have_no_interval():
    told = headline(facts(0.0, (0.0, 0.0), judged_on={"anomalies": 15}))
    assert told[1].startswith("Both rank these rows equally well, but with 15 rows of a class")
    assert "0.0 points" not in " ".join(told)
