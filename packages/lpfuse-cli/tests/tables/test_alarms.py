"""Alarms asked for and measured: figures against closed forms, sentences against figures."""

from dataclasses import dataclass, field

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binom, binomtest

from helpers.pumps import DETECTORS, pumps
from lpfuse import FusedDetector, GMMDetector
from lpfuse._format import per_cent
from lpfuse.ensemble.rows import places_in_training
from lpfuse.threshold.offsets import requested_rate, share_interval
from lpfuse.time.order import UNTOLD, RowOrder
from lpfuse_cli.alarms import (
    alarm_figures,
    count_alarms,
    count_training_rows,
    describe_alarms,
    describe_request,
    differs_from_request,
    incomplete_rows,
    likely_false,
)
from lpfuse_cli.fitting import fit_table

NO_ROWS = type("Kept", (), {"values": None})()


@dataclass
class Calibrated:
    """What the figures look at of a fused detector, and nothing else."""

    n: int = 199
    false_alarm_rate: float = 0.05
    contamination: float | None = None
    threshold: str = "false-alarms"
    confidence: float | None = None
    rank: int | None = None
    held_out_: object = field(default_factory=lambda: type("H", (), {"fused": np.empty(0)})())
    rows_: object = NO_ROWS
    order_: RowOrder = UNTOLD
    windows_: None = None

    @property
    def calibration_(self):
        return np.arange(1.0, self.n + 1)

    @property
    def offset_(self):
        k = self.rank or int(self.false_alarm_rate * (self.n + 1) + 1e-9)
        return self.calibration_[k - 1] if k else -np.inf


def judged(fused, flagged, rows, **options):
    """Figures of rows of which the first are flagged."""
    X = np.random.default_rng(1).normal(size=(rows, 1))
    return alarm_figures(fused, count_alarms(fused, X, np.arange(rows) < flagged, **options))


@pytest.fixture(scope="module")
def gaussian():
    X = np.random.default_rng(0).normal(size=(200, 3))
    return FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X), X


# ------------------------------------------------------------------------------------------ figures


@given(st.integers(0, 60), st.integers(1, 60))
def test_intervals_are_those_of_clopper_and_pearson(k, n):
    k = min(k, n)
    expected = binomtest(k, n).proportion_ci(method="exact")
    np.testing.assert_allclose(share_interval(k, n), expected, atol=1e-9)


def test_what_the_docstring_of_the_threshold_says_of_199_rows():
    found = requested_rate(Calibrated())
    assert found["long_run"] == pytest.approx([0.024, 0.084], abs=1e-3)
    assert (found["asked"], found["of"], found["calibration_rows"]) == (0.05, "normal", 199)


@settings(max_examples=10)
@given(st.integers(20, 400), st.integers(1, 300))
def test_expected_alarms_are_binomial_with_a_rate_that_is_beta(n, m):
    found = judged(Calibrated(n), 0, m)["unlabelled"]["expected"]
    k = int(0.05 * (n + 1) + 1e-9)
    # By quadrature, where the library has a closed form.
    rates = beta.ppf((np.arange(4000) + 0.5) / 4000, k, n + 1 - k)
    up_to = binom.cdf(np.arange(m + 1)[:, None], m, rates).mean(axis=1)
    for share, tail in zip(found, (0.025, 0.975), strict=True):
        place = round(share * m)
        assert up_to[place] >= tail - 1e-3
        assert place == 0 or up_to[place - 1] <= tail + 1e-3


@pytest.mark.parametrize(
    ("flagged", "verdict", "excess"),
    [(20, "as expected", None), (56, "more", 38), (2, "fewer", None)],
)
def test_more_and_fewer(flagged, verdict, excess):
    found = judged(Calibrated(299), flagged, 400)["unlabelled"]
    assert (found["verdict"], found["excess"]) == (verdict, excess)


def test_where_no_rate_was_asked_for_nothing_is_compared():
    found = judged(Calibrated(threshold="g-mean"), 40, 100, labels=np.ones(100))
    assert (found["asked"], found["normal"]["verdict"]) == (None, None)
    share = Calibrated(contamination=0.1)
    assert judged(share, 40, 100, labels=np.ones(100))["normal"]["verdict"] is None
    assert judged(share, 40, 100)["unlabelled"]["verdict"] == "more"


def test_confidence_lowers_expected_alarms():
    plain, sure = Calibrated(), Calibrated(confidence=0.9, rank=6)
    ends = [judged(fused, 0, 200)["unlabelled"]["expected"][1] for fused in (plain, sure)]
    assert ends[1] < ends[0]
    assert describe_request(requested_rate(sure)) == (
        "At most 5 % false alarms were asked for, with a probability of 90 %"
    )


@pytest.mark.parametrize(
    ("n", "rate", "confidence", "needed", "least"),
    [(12, 0.05, None, 19, 1 / 13), (60, 0.01, None, 99, 1 / 61), (20, 0.05, 0.9, 45, 0.10875)],
)
def test_what_too_few_rows_cannot_promise(n, rate, confidence, needed, least):
    fused = Calibrated(n, rate, confidence=confidence)
    if confidence is not None:
        fused.false_alarm_rate = 0.01  # no score of the twenty will do
        assert requested_rate(fused)["too_few"]["needed"] == 230  # 0.99 ** 230 = 0.0991
        assert requested_rate(fused)["too_few"]["least_rate"] == pytest.approx(least, abs=1e-4)
        return
    assert requested_rate(fused)["too_few"] == {
        "needed": needed,
        "least_rate": pytest.approx(least),
    }
    told = describe_alarms(judged(fused, 0, 30))
    assert len(told) == 1
    assert f"It takes {needed}." in told[0]


# ----------------------------------------------------------------------------- rows of the training


def test_training_rows_are_known_by_their_values(gaussian):
    fused, X = gaussian
    rows = np.concatenate([X[[5, 3]], X[:1] + 1e-9, [[np.nan, 0.0, 0.0]]])
    assert places_in_training(fused.rows_, rows).tolist() == [5, 3, -1, -1]
    frame = pl.DataFrame(X[:4], schema=["a", "b", "c"])
    assert places_in_training(fused.rows_, frame).tolist() == [0, 1, 2, 3]
    assert places_in_training(fused.rows_, np.empty((0, 3))).tolist() == []


def test_a_detector_that_keeps_no_rows_knows_none(gaussian):
    assert places_in_training(None, gaussian[1]).tolist() == [-1] * 200


def test_training_rows_are_not_compared(gaussian):
    fused, X = gaussian
    found = alarm_figures(fused, count_alarms(fused, X, fused.predict(X) < 0))
    assert found["trained_on"]["rows"] == 200
    assert found["trained_on"]["flatters"]
    assert found["unlabelled"]["verdict"] is None
    held_out = found["trained_on"]["held_out"]
    assert held_out["flagged"] == (fused.held_out_.fused < fused.offset_).sum()
    first, second = describe_alarms(found)
    assert first == (
        "200 of 200 rows are rows that the model learnt from: their figures are optimistic."
    )
    assert "no measure of new rows. Scored by what was learnt without them, " in second
    assert differs_from_request(found)


def test_a_few_training_rows_are_left_out(gaussian):
    fused, X = gaussian
    rows = np.concatenate([X[:50], np.random.default_rng(2).normal(size=(150, 3))])
    found = alarm_figures(fused, count_alarms(fused, rows, fused.predict(rows) < 0))
    assert (found["trained_on"]["rows"], found["trained_on"]["flatters"]) == (50, False)
    assert (found["rows"]["rows"], found["unlabelled"]["rows"]) == (200, 150)
    assert "for the others alone" in describe_alarms(found)[0]


@pytest.mark.parametrize("seed", range(5))
def test_equal_rows_of_few_categories_are_no_proof(seed):
    """New rows of 16 patterns are all equal to training rows; only the table itself is known."""
    random = np.random.default_rng(seed)
    X, new = (random.random((n, 4)) < [0.2, 0.4, 0.5, 0.3] for n in (200, 300))
    fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X.astype(float))
    none = np.zeros(300, dtype=bool)
    assert (places_in_training(fused.rows_, new.astype(float)) >= 0).mean() > 0.9
    assert count_training_rows(fused, count_alarms(fused, new.astype(float), none)) == 0
    assert count_training_rows(fused, count_alarms(fused, new[:200].astype(float), none[:200])) == 0
    assert count_training_rows(fused, count_alarms(fused, X[::-1].astype(float), none[:200])) == 200


def test_counts_of_chunks_add_up(gaussian):
    fused, X = gaussian
    rows = np.concatenate([X[:30], X[:30] + 1])
    flagged, labels = fused.predict(rows) < 0, np.resize([1.0, -1.0, 0.0], 60)
    gaps = np.arange(60) % 4 == 0
    whole = count_alarms(fused, rows, flagged, labels, gaps)
    parts = [
        count_alarms(fused, rows[at], flagged[at], labels[at], gaps[at])
        for at in (slice(7), slice(7, 60))
    ]
    for name in ("table", "copies", "held_out"):
        np.testing.assert_array_equal(
            getattr(parts[0] + parts[1], name), getattr(whole, name), err_msg=name
        )
    assert whole.table.sum() == 60
    assert whole.table[:, 1].sum() == gaps.sum()
    assert whole.table[0, :, :, 1].sum() == flagged[labels > 0].sum()


# ------------------------------------------------------------------------------- gaps, and in words


def test_rows_with_gaps_and_new_texts():
    model = fit_table(pumps(100), label="state", normal="ok", detectors=DETECTORS)
    frame = pumps(5, seed=3).with_columns(
        bar=pl.Series([2.5, None, float("nan"), 2.5, 2.5]),
        kind=pl.Series(["a", "a", "b", "new", None]),
    )
    assert incomplete_rows(model.preparation_, frame).tolist() == [False, True, True, True, True]


def test_sentences_about_rows_without_labels():
    told = describe_alarms(judged(Calibrated(299), 56, 400))
    assert told == [
        "5 % false alarms were asked for: of 400 rows like the 299 rows of the calibration "
        "2.2 to 8.5 % are to be expected. 14 % were flagged (56 of 400; 95 % interval 11 to 18 %). "
        "Either these rows hold anomalies, about 38 more than the rate explains, or what is normal "
        "has changed since the training."
    ]
    assert describe_alarms(judged(Calibrated(299), 20, 400))[0].endswith(
        "Normal rows alone would give as many; a few anomalies would not show in that."
    )
    assert "fewer than normal rows alone" in describe_alarms(judged(Calibrated(299), 0, 400))[0]


def test_sentences_about_labelled_rows():
    labels = np.repeat([1.0, -1.0], [360, 40])
    told = describe_alarms(judged(Calibrated(299), 18, 400, labels=labels))
    assert told == [
        "5 % false alarms were asked for: of 360 normal rows 2.2 to 8.6 % are to be expected after "
        "a calibration with 299. 5 % were flagged (18 of 360; 95 % interval 3 to 7.8 %), as asked.",
        "Of 40 rows labelled anomalies 0 % were found (0 of 40; 95 % interval 0 to 8.8 %).",
    ]
    assert "which is more: " in describe_alarms(judged(Calibrated(299), 60, 400, labels=labels))[0]


def test_sentences_about_gaps():
    gaps = np.arange(400) < 40
    found = judged(Calibrated(299), 30, 400, gaps=gaps)
    assert describe_alarms(found)[-1] == (
        "40 rows lack a cell or hold a text that the training did not: 75 % of them were flagged "
        "(30 of 40; 95 % interval 59 to 87 %), of the complete ones 0 %: alarms of these may be "
        "about what is missing."
    )
    one = judged(Calibrated(299), 0, 400, gaps=np.arange(400) < 1)
    assert describe_alarms(one)[-1].startswith("1 row lacks a cell or holds a text")
    assert describe_alarms(judged(Calibrated(), 3, 9, gaps=np.ones(9, bool)))[-1].endswith(
        "No row is complete."
    )


@given(st.floats(0, 1))
def test_a_share_in_words_is_near(share):
    written = float(per_cent(share).removesuffix(" %"))
    assert abs(written - 100 * share) <= max(0.5, 0.05 * 100 * share)
    assert (written == 0) == (share == 0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 200), st.integers(19, 500), st.integers(1, 200))
def test_whatever_the_figures_sentences_agree_with_the_verdict(flagged, n, rows):
    found = judged(Calibrated(n), min(flagged, rows), rows)
    told, verdict = " ".join(describe_alarms(found)), found["unlabelled"]["verdict"]
    assert ("Either these rows hold" in told) == (verdict == "more")
    assert ("fewer than" in told) == (verdict == "fewer")
    assert differs_from_request(found) == (verdict != "as expected")


# ----------------------------------------------------------------------------------- false alarms


@pytest.mark.parametrize(("anomalies", "found"), [(0, 1.0), (5, 0.7), (50, 1.0), (400, 0.7)])
def test_the_interval_of_false_alarms_holds_them(anomalies, found):
    """Scores are uniform, so that the oracle is a simulation of the whole: calibration and rows."""
    rng, n, m, k, trials = np.random.default_rng(0), 199, 500, 10, 600
    inside = above = 0
    for _ in range(trials):
        threshold = np.sort(rng.random(n))[k - 1]
        false = int((rng.random(m - anomalies) < threshold).sum())
        flagged = false + round(found * anomalies)
        told = likely_false(m, flagged, (k, k), n)
        assert told["low"] <= told["value"] <= told["high"] <= flagged
        inside += told["low"] <= false <= told["high"]
        above += false > told["high"]
    slack = 3 * np.sqrt(0.05 * 0.95 / trials)
    assert above / trials <= 0.025 + slack
    if found == 1.0:
        assert inside / trials >= 0.95 - slack


def test_false_alarms_at_the_ends():
    assert likely_false(10, 0, (1, 1), 19) == {"value": 0, "low": 0, "high": 0}
    assert likely_false(10, 10, (1, 1), 19)["low"] == 0  # all may be anomalies
    assert likely_false(1, 1, (19, 19), 19)["high"] == 1
