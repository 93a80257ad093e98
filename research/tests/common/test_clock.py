"""Rivals take turns, and slow runs are repeated less. No time is asserted."""

import pytest

from research.common.clock import race, ratio, repeats_for


@pytest.fixture(autouse=True)
def without_garbage_collections(monkeypatch):
    """The clock asks for one before each run: slow among all that a test session holds."""
    monkeypatch.setattr("gc.collect", lambda: 0)


def test_rivals_take_turns_and_rejected_ones_do_not_run_again():
    order = []
    actions = {name: lambda name=name: order.append(name) for name in "abc"}
    samples = race(actions, lambda results: {"a": True, "b": True, "c": False}, most=3)
    assert order == ["a", "b", "c", "b", "a", "a", "b"]
    assert {name: len(times) for name, times in samples.items()} == {"a": 3, "b": 3}


def test_the_judge_sees_the_first_results():
    seen = {}
    race({"a": lambda: 7}, lambda results: seen.update(results) or {"a": False}, most=1)
    assert seen == {"a": 7}


def test_ratio_pairs_the_rounds_that_both_ran_in():
    samples = {"slow": [2.0, 30.0], "fast": [1.0, 10.0, 99.0], "none": []}
    assert ratio(samples, "slow", "fast") == 2.5
    assert ratio(samples, "slow", "none") is None
    assert ratio(samples, "slow", "missing") is None


def test_slow_runs_are_repeated_less():
    limits = {"budget": 4.0, "slow": 60.0}
    assert [repeats_for(s, 31, **limits) for s in (1e-3, 0.5, 20.0, 100.0)] == [31, 8, 3, 1]
    assert repeats_for(20.0, 2, **limits) == 2


def test_whoever_times_itself_is_believed():
    samples = race(
        {"a": lambda: (2.0, "done")}, lambda results: {"a": results["a"] == "done"}, most=3,
        timer=lambda action: action(),
    )  # fmt: skip
    assert samples == {"a": [2.0, 2.0, 2.0]}
