"""The adaptive level: against loops, its bound on hostile rows, its rate, and its state."""

import json
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.cases import cases
from lpfuse.threshold import conformal_pvalues
from lpfuse.time import AdaptiveLevel, Episode, alarm_episodes

CALIBRATION = np.random.default_rng(0).normal(size=300)


def evidence_of(strangeness, half_life):
    """Each value and the weighted mean up to it."""
    found = []
    for t in range(len(strangeness)):
        weights = [0.5 ** ((t - u) / half_life) for u in range(t + 1)]
        mean = sum(w * s for w, s in zip(weights, strangeness, strict=False)) / sum(weights)
        found.append(strangeness[t] + mean)
    return found


def naive_pvalues(calibration, scores, rate, half_life, window, burst):
    """In the words of the docstring, one row after the other."""
    known = sorted(evidence_of([-score for score in calibration], half_life))
    n, level, found = len(known), rate, []
    strangest = known[-max(2, n // 10) :]
    spread = sum(each - strangest[0] for each in strangest) / len(strangest)
    evidence = evidence_of([-score for score in scores], half_life)
    for t, e in enumerate(evidence):
        if e > known[-1]:
            share = 1 / (n + 1) / (1 + (e - known[-1]) / spread)
        else:
            share = (1 + sum(other >= e for other in known)) / (n + 1)
        last = evidence[max(0, t - window) : t]
        q = min(1, (n / 2 * share + sum(u >= e for u in last)) / (n / 2 + len(last)))
        alarm = q <= level and level > 0
        if alarm:
            found.append(q * rate / level)
        else:
            up_to = max(level, 0)
            found.append(rate + (1 - rate) * (q - up_to) / (1 - up_to))
        level = min(rate, level + rate / burst * (rate - alarm))
    return found


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000), st.sampled_from([0.01, 0.05, 0.3]), st.sampled_from([1, 5, 30]),
    st.sampled_from([10, 60, 2000]), st.sampled_from([1, 5, 100]), st.floats(-0.05, 0.05),
)  # fmt: skip
def test_pvalues_are_those_of_loops(seed, rate, half_life, window, burst, drift):
    rng = np.random.default_rng(seed)
    calibration, scores = rng.normal(size=60), rng.normal(size=150) + drift * np.arange(150)
    options = {"half_life": half_life, "window": window, "burst": burst}
    found = AdaptiveLevel(calibration, rate, **options).update(scores)
    expected = naive_pvalues(calibration.tolist(), scores.tolist(), rate, **options)
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    assert ((found <= rate) == (np.array(expected) <= rate)).all()


# ----------------------------------------------------------------------------------------- bounds


def most_beyond(alarms, rate):
    """The largest number of alarms beyond rate*T of any T consecutive rows."""
    total = np.concatenate([[0.0], np.cumsum(alarms - rate)])
    return float((total - np.minimum.accumulate(total)).max())


def rising(rng, n):
    return -np.linspace(0, 1e3, n)


def alternating(rng, n):
    return np.where(np.arange(n) // rng.integers(1, 200) % 2, 0.0, -50.0 - np.arange(n) / 10)


def bursts(rng, n):
    return rng.normal(size=n) - 40 * (rng.random(n) < 0.3) * np.cumsum(rng.random(n))


def waves(rng, n):
    return np.cumsum(rng.normal(size=n)) * rng.choice([0.1, 1.0, 10.0])


def tied(rng, n):
    return rng.integers(-3, 2, n) * 1.0


STREAMS = [rising, alternating, bursts, waves, tied]


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(STREAMS), st.integers(0, 10_000), st.sampled_from([0.01, 0.05, 0.2]),
    st.sampled_from([10, 100]),
)  # fmt: skip
def test_alarms_are_bounded_whatever_the_rows_do(stream, seed, rate, burst):
    scores = stream(np.random.default_rng(seed), 1500)
    alarms = AdaptiveLevel(CALIBRATION, rate, burst=burst).update(scores) <= rate
    assert most_beyond(alarms, rate) <= burst + 1 + 1e-6


def adversary(level, rng, n):
    """Try some scores on a copy of the level, and send one that is an alarm, if there is any."""
    sent, most = [], 0.0
    for _ in range(n):
        tried = [*(most - rng.exponential(5, 2)), *rng.normal(size=2)]
        found = [deepcopy(level).update([score])[0] for score in tried]
        score = tried[int(np.argmin(found))]
        most = min(most, score)
        sent.append(level.update([score])[0])
    return np.array(sent)


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10_000))
def test_an_adversary_who_sees_the_pvalues_does_not_get_beyond_the_bound(seed):
    rng = np.random.default_rng(seed)
    level = AdaptiveLevel(CALIBRATION[:40], 0.1, burst=10)
    level.update(rng.normal(size=rng.integers(0, 50)))
    alarms = adversary(level, rng, 120) <= 0.1
    assert most_beyond(alarms, 0.1) <= 11 + 1e-6
    assert alarms.sum() > 0.1 * 120 + 5  # it gets most of what it can


def test_a_fixed_level_breaks_that_bound():
    scores = rising(None, 1500)
    alarms = conformal_pvalues(CALIBRATION, scores) <= 0.05
    assert most_beyond(alarms, 0.05) > 1000
    unbounded = AdaptiveLevel(CALIBRATION, 0.05, burst=10**9).update(scores) <= 0.05
    assert most_beyond(unbounded, 0.05) > 1000


def test_independent_rows_have_the_rate_that_was_asked():
    shares = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        scores = rng.standard_t(4, size=1000)
        shares.append(np.mean(AdaptiveLevel(scores[:200], 0.05).update(scores[200:]) <= 0.05))
    error = np.std(shares) / np.sqrt(200)
    assert 0.035 < np.mean(shares) < 0.05 + 3 * error
    assert np.quantile(shares, 0.9) < 0.075


def test_slow_drift_keeps_the_rate_and_a_fixed_level_does_not():
    rng = np.random.default_rng(3)
    scores = rng.normal(size=6000) - np.linspace(0, 4, 6000)
    p = AdaptiveLevel(CALIBRATION, 0.05).update(scores)
    assert 0.03 < np.mean(p <= 0.05) < 0.075
    assert np.mean(conformal_pvalues(CALIBRATION, scores) <= 0.05) > 0.4


def test_a_strange_stretch_is_found_and_then_absorbed():
    rng = np.random.default_rng(4)
    scores = rng.normal(size=4000)
    scores[2000:] -= 8
    alarms = AdaptiveLevel(CALIBRATION, 0.05).update(scores) <= 0.05
    assert alarms[2000:2060].mean() > 0.9
    assert alarms[2000:].sum() <= 0.05 * 2000 + 101
    assert alarms[3500:].mean() < 0.1


# ------------------------------------------------------------------------------- rows as they come


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_batches_and_restarts_are_one_call_to_the_bit(seed, sizes):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=sum(sizes))
    scores[rng.random(len(scores)) < 0.05] = np.nan
    options = {"window": 30, "burst": 3}
    at_once = AdaptiveLevel(CALIBRATION, 0.1, **options).update(scores)
    parts, state = [], AdaptiveLevel(CALIBRATION, 0.1, **options).state()
    for part in np.split(scores, np.cumsum(sizes)[:-1]):
        level = AdaptiveLevel(CALIBRATION, 0.1, **options).restore(json.loads(json.dumps(state)))
        parts.append(level.update(part))
        state = level.state()
    np.testing.assert_array_equal(np.concatenate(parts), at_once)
    np.testing.assert_array_equal(np.isnan(at_once), np.isnan(scores))


@given(st.integers(0, 10_000), st.integers(0, 59))
def test_later_scores_change_no_earlier_pvalue(seed, now):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=60)
    other = np.concatenate([scores[:now], rng.permutation(scores[now:]) - 3])
    found, moved = (AdaptiveLevel(CALIBRATION, 0.05).update(each) for each in (scores, other))
    np.testing.assert_array_equal(found[:now], moved[:now])
    assert not np.array_equal(found[now:], moved[now:])


def test_a_missing_score_leaves_the_level_as_it_was():
    level = AdaptiveLevel(CALIBRATION, 0.05)
    before = level.state()
    assert np.isnan(level.update([np.nan, np.nan])).all()
    assert level.state() == before
    assert level.update([]).shape == (0,)


def test_the_strangest_of_all_is_an_alarm_and_its_pvalue_orders_rows():
    found = [AdaptiveLevel(CALIBRATION, 0.05).update([s])[0] for s in (-5.0, -50.0, -500.0)]
    assert 0.05 > found[0] > found[1] > found[2] > 0


@cases("constant", [0.0, 5.0, -0.3, 1 / 3, -1e9])
def test_ties_alone_are_no_alarms(constant):
    level = AdaptiveLevel(np.full(100, constant), 0.05)
    assert (level.update(np.full(500, constant)) > 0.05).all()
    assert level.update([constant - 1 - abs(constant)])[0] <= 0.05


@cases(
    "call, words",
    [
        (lambda: AdaptiveLevel([], 0.05), "calibration"),
        (lambda: AdaptiveLevel([1.0, np.nan], 0.05), "calibration"),
        (lambda: AdaptiveLevel(CALIBRATION, 0.0), "rate"),
        (lambda: AdaptiveLevel(CALIBRATION, 0.7), "rate"),
        (lambda: AdaptiveLevel(CALIBRATION, 0.05, window=0), "window"),
        (lambda: AdaptiveLevel(CALIBRATION, 0.05, burst=1.5), "burst"),
        (lambda: AdaptiveLevel(CALIBRATION, 0.05, half_life=0), "half_life"),
        (lambda: AdaptiveLevel(CALIBRATION, 0.05).update([[1.0]]), "scores"),
    ],
)
def test_what_cannot_be_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


# --------------------------------------------------------------------------------------- episodes


def naive_episodes(alarms, quiet, longest):
    found = []
    for row, alarm in enumerate(alarms):
        if alarm:
            if found and row - found[-1][-1] <= quiet and row - found[-1][0] < longest:
                found[-1].append(row)
            else:
                found.append([row])
    return found


@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 60))
def test_episodes_are_those_of_loops(seed, quiet, longest):
    rng = np.random.default_rng(seed)
    p = rng.random(200) ** rng.integers(1, 4)
    p[rng.random(200) < 0.1] = np.nan
    found = alarm_episodes(p, 0.1, quiet=quiet, longest=longest)
    expected = naive_episodes(p <= 0.1, quiet, longest)
    assert [(each.start, each.end) for each in found] == [(rows[0], rows[-1]) for rows in expected]
    for each, rows in zip(found, expected, strict=True):
        assert each.n_alarms == len(rows)
        assert each.pvalue == p[each.strongest] == min(p[row] for row in rows)
        assert each.start_time is None
    assert sum(each.n_alarms for each in found) == np.sum(p <= 0.1)
    for one, other in pairwise(found):
        assert other.start - one.end > quiet or other.start - one.start >= longest


def test_episodes_tell_their_times():
    p = [0.5, 0.01, 0.001, 0.9]
    days = ["2024-02-28", "2024-02-29", "2024-03-01", "2024-03-02"]
    (found,) = alarm_episodes(p, 0.05, time=np.array(days, dtype="datetime64[D]"))
    start = np.datetime64("2024-02-29").astype(int) * 86_400.0
    assert found == Episode(1, 2, 2, 2, 0.001, start, start + 86_400)
    assert alarm_episodes([0.5], 0.05) == []
    assert alarm_episodes([], 0.05) == []
    with pytest.raises(ValueError, match="each of the 4 rows"):
        alarm_episodes(p, 0.05, time=days[:2])
