"""Discoveries in a stream: as defined, saved and continued, and rarely false."""

from math import log, log2, nan, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lpfuse.io import load, save
from lpfuse.threshold import OnlineDiscoveries, conformal_pvalues, control_false_discoveries

METHODS = ["batch-bh", "lond", "lord", "saffron", "addis"]
pvalues_of_some = st.lists(
    st.floats(0, 1) | st.floats(0, 0.02) | st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=30
)
batches_of_some = st.lists(pvalues_of_some, max_size=6)


def slow(j):
    return 0.07720838 * log(max(j, 2)) / (j * np.exp(sqrt(log(j))))


def fast(j):
    return 0.43749016584 / j**1.6  # 1 / ζ(1.6)


def test_shares_sum_to_one_at_most():
    j = np.arange(1, 2_000_000)
    rest = j[-1] ** -0.6 / 0.6 * fast(1)  # the integral of what is left
    assert fast(j).sum() + rest == pytest.approx(1, abs=1e-6)
    j = np.arange(1, 100_000)
    v = sqrt(log(j[-1] + 0.5))  # the integral by v² = log j: more than half is left
    rest = 0.07720838 * 2 * np.exp(-v) * (v**3 + 3 * v**2 + 6 * v + 6)
    assert sum(map(slow, j)) + rest == pytest.approx(0.976, abs=1e-3)


def naive_investing(values, rate, method):
    """LORD++, SAFFRON and ADDIS one row after the other, in the words of their papers."""
    low, high = {"lord": (None, 1), "saffron": (0.5, 1), "addis": (0.25, 0.5)}[method]
    gamma = slow if method == "lord" else fast
    times, declared = [], []
    for t in range(1, len(values) + 1):

        def steps(after, t=t):  # rows after that one, and before this, that move the clock
            between = values[after : t - 1]
            return len([p for p in between if low is None or low < p <= high])

        level = rate / 2 * gamma(1 + steps(0))
        for j, time in enumerate(times):
            level += (rate if j else rate / 2) * gamma(1 + steps(time))
        if low is not None:
            level = min(low, (high - low) * level)
        declared.append(values[t - 1] <= level)
        if declared[-1]:
            times.append(t)
    return declared


@pytest.mark.parametrize("method", ["lord", "saffron", "addis"])
@settings(max_examples=50)
@given(batches=batches_of_some, rate=st.sampled_from([0.05, 0.2, 0.5]))
def test_rows_one_after_the_other_as_defined(method, batches, rate):
    stream = OnlineDiscoveries(rate, method)
    found = [flag for batch in batches for flag in stream.update(batch)]
    assert found == naive_investing([p for batch in batches for p in batch], rate, method)
    assert stream.n_discoveries_ == sum(found)
    assert stream.n_rows_ == len(found)


def mark_of(row, now):
    """The row whose reading of the clock stands for that of `row`, when page `now` begins."""
    return next(
        mark
        for mark in range(row, -1, -1)
        if mark % 2 ** int(log2(max((now - mark) // 256, 1))) == 0
    )


def levels_in_long_memory(values, declared, rate, method, *, forgetful):
    """The levels of a stream with these discoveries, each from the definition."""
    low, high = {"lord": (-1, 1), "saffron": (0.5, 1), "addis": (0.25, 0.5)}[method]
    gamma = np.vectorize(slow if method == "lord" else fast, otypes=[float])(
        np.arange(1, len(values) + 2)
    )
    clock = np.cumsum((values > low) & (values <= high))  # after each row
    found, levels = np.flatnonzero(declared), []
    stands_for = found.copy()
    for t in range(len(values)):
        page = t // 64 * 64
        if forgetful and t == page:
            stands_for = np.array([mark_of(row, page) if row < page else row for row in found])
        earlier = stands_for[found < t].astype(int)
        now = clock[t - 1] if t else 0
        earned = np.full(len(earlier), rate)
        earned[:1] /= 2
        level = rate / 2 * gamma[now] + earned @ gamma[now - clock[earlier]]
        levels.append(min(low, (high - low) * level) if low > 0 else level)
    return np.array(levels)


@pytest.mark.parametrize("method", ["lord", "saffron", "addis"])
def test_long_streams_are_remembered_in_few_marks(method):
    rng = np.random.default_rng(5)
    values = np.where(rng.random(5000) < 0.05, 1e-3 * rng.random(5000), rng.random(5000))
    stream = OnlineDiscoveries(0.1, method)
    cuts = np.sort(rng.choice(np.arange(1, 5000), 60, replace=False))
    declared = np.concatenate([stream.update(batch) for batch in np.split(values, cuts)])
    assert declared.sum() > 100
    as_defined = levels_in_long_memory(values, declared, 0.1, method, forgetful=True)
    np.testing.assert_array_equal(declared, values <= as_defined)
    # What the proofs take: no level is above that of the published rule with these discoveries.
    published = levels_in_long_memory(values, declared, 0.1, method, forgetful=False)
    assert (as_defined <= published * (1 + 1e-12)).all()
    np.testing.assert_array_equal(as_defined[:512], published[:512])
    np.testing.assert_allclose(as_defined, published, rtol=0.03)


@pytest.mark.parametrize("method", ["lord", "saffron", "addis"])
def test_single_rows_and_batches_are_one_stream(method):
    rng = np.random.default_rng(6)
    values = np.where(rng.random(1500) < 0.1, 1e-3 * rng.random(1500), rng.random(1500))
    whole, single = OnlineDiscoveries(0.1, method), OnlineDiscoveries(0.1, method)
    flags = [bool(single.update([value])[0]) for value in values]
    assert whole.update(values).tolist() == flags
    np.testing.assert_array_equal(whole.marks_, single.marks_)


@given(batches=batches_of_some, rate=st.sampled_from([0.05, 0.2, 0.5]))
def test_batches_by_their_own_rate_as_defined(batches, rate):
    """Zrnic et al. (2020), with every batch of the past remembered."""
    stream, past = OnlineDiscoveries(rate), []
    for t, batch in enumerate(filter(None, batches), start=1):
        m, before = len(batch), sum(found for _, found, _ in past)
        spent = sum(own * most / (most + before - found) for own, found, most in past if own)
        own = max(0.0, rate * sum(map(fast, range(1, t + 1))) - spent) * (m + before) / m

        def chosen(values, own=own, m=m):
            enough = [r for r in range(1, m + 1) if sorted(values)[r - 1] <= own * r / m]
            return [bool(enough) and p <= own * max(enough) / m for p in values]

        top = batch.index(max(batch))
        flags = chosen(batch)
        past.append((own, sum(flags), sum(chosen([*batch[:top], 0.0, *batch[top + 1 :]]))))
        assert stream.update(batch).tolist() == flags


@pytest.mark.parametrize("method", METHODS)
def test_the_memory_of_an_endless_stream_is_bounded(method):
    rng = np.random.default_rng(7)
    stream, sizes = OnlineDiscoveries(0.1, method), []
    for _ in range(2):
        values = np.where(rng.random(15_000) < 0.05, 1e-4 * rng.random(15_000), rng.random(15_000))
        for batch in np.split(values, 750):
            stream.update(batch)
        sizes.append(sum(v.nbytes for v in vars(stream).values() if isinstance(v, np.ndarray)))
    assert stream.n_discoveries_ > (20 if method == "lond" else 1000)
    # A new octave of rows takes 256 marks of three numbers; excesses are those of batches of 20.
    assert sizes[1] - sizes[0] <= 24 * (256 + 64)
    assert sizes[1] <= 24 * (256 * 10 + 64)


@given(batches=batches_of_some, rate=st.sampled_from([0.05, 0.2, 0.5]))
def test_batches_by_the_number_of_discoveries_as_defined(batches, rate):
    stream, before = OnlineDiscoveries(rate, "lond"), 0
    for t, batch in enumerate(filter(None, batches), start=1):
        line = rate * fast(t) / len(batch)
        enough = [
            r for r in range(1, len(batch) + 1) if sorted(batch)[r - 1] <= line * (before + r)
        ]
        chosen = [bool(enough) and p <= line * (before + max(enough)) for p in batch]
        assert stream.update(batch).tolist() == chosen
        before += sum(chosen)


def test_the_first_batch_is_the_rule_of_one_batch():
    rng = np.random.default_rng(0)
    pvalues = rng.random(300) ** 3
    rate = 0.2 * fast(1)
    assert OnlineDiscoveries(0.2).method == "batch-bh"
    for method in ("batch-bh", "lond"):
        found = OnlineDiscoveries(0.2, method).update(pvalues)
        np.testing.assert_array_equal(found, control_false_discoveries(pvalues, rate))
        assert found.any()


@pytest.mark.parametrize("method", METHODS)
def test_the_same_as_another_library(method):
    """online-fdr, which has grown beside this project, where it is installed."""
    theirs = pytest.importorskip(
        "online_fdr.p_values", reason="online-fdr is not installed: no second opinion"
    )
    rate = 0.1
    make = {
        "batch-bh": lambda: theirs.BatchBH(rate),
        "lond": lambda: theirs.BatchPRDS(rate),  # LOND, on batches of one row
        "lord": lambda: theirs.LordPlusPlus(rate, rate / 2),
        "saffron": lambda: theirs.Saffron(rate, rate / 2, 0.5),
        "addis": lambda: theirs.Addis(rate, rate / 2, 0.25, 0.5),
    }[method]
    rng = np.random.default_rng(1)
    for size in (1,) if method == "lond" else (1, 40):
        values = np.where(rng.random(800) < 0.2, 1e-3 * rng.random(800), rng.random(800))
        ours, other = OnlineDiscoveries(rate, method), make()
        for start in range(0, 800, size):
            batch = values[start : start + size]
            if method in ("batch-bh", "lond"):
                expected = other.test_batch(batch.tolist())
            else:
                expected = [other.test_one(p) for p in batch.tolist()]
            assert ours.update(batch).tolist() == expected
        assert ours.n_discoveries_ > 50 or size == 1


@given(batches=batches_of_some)
def test_batches_are_read_better_than_by_batch_prds(batches):
    # Zrnic et al. (2020): the rule of one batch at rate · γ · (m + D) / m; ours declares no less.
    stream, before = OnlineDiscoveries(0.2, "lond"), 0
    for t, batch in enumerate(filter(None, batches), start=1):
        own = min(1.0, 0.2 * fast(t) * (len(batch) + before) / len(batch))
        before += int(control_false_discoveries(batch, own).sum())
        stream.update(batch)
        assert stream.n_discoveries_ >= before


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=30)
@given(batches=batches_of_some)
def test_a_missing_pvalue_is_never_declared_and_does_not_count(method, batches):
    whole, gaps = OnlineDiscoveries(0.2, method), OnlineDiscoveries(0.2, method)
    for batch in batches:
        found = gaps.update([nan, *batch])
        assert found.dtype == bool
        assert not found[0]
        np.testing.assert_array_equal(found[1:], whole.update(batch))


@pytest.mark.parametrize("method", METHODS)
def test_a_stream_is_saved_and_continued(method, tmp_path):
    rng = np.random.default_rng(2)
    values = np.where(rng.random(600) < 0.2, 1e-4, rng.random(600))
    whole, half = OnlineDiscoveries(0.1, method), OnlineDiscoveries(0.1, method)
    expected = [whole.update(batch) for batch in np.split(values, 6)]
    for batch in np.split(values, 6)[:3]:
        half.update(batch)
    save(half, tmp_path / "stream.lpfuse")
    again = load(tmp_path / "stream.lpfuse")
    for batch, flags in zip(np.split(values, 6)[3:], expected[3:], strict=True):
        np.testing.assert_array_equal(again.update(batch), flags)
    assert again.n_discoveries_ == whole.n_discoveries_ > 50


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "share", [*(pytest.param(share, marks=pytest.mark.slow) for share in (0.0, 0.05)), 0.3]
)
def test_false_discoveries_of_one_calibration_set_stay_within_the_rate(method, share):
    """At level 0.001: the mean share of false discoveries, over sets, is at most 11 % for 10 %."""
    rng = np.random.default_rng(3)
    false, found = [], []
    for _ in range(100):
        normal = rng.random(1000) >= share
        scores = rng.normal(size=1000) - 4.0 * ~normal
        pvalues = conformal_pvalues(rng.normal(size=999), scores)
        stream = OnlineDiscoveries(0.1, method)
        declared = np.concatenate([stream.update(batch) for batch in np.split(pvalues, 10)])
        false.append((declared & normal).sum() / max(declared.sum(), 1))
        found.append((declared & ~normal).sum() / max((~normal).sum(), 1))
    assert np.mean(false) <= 0.11 + 3.1 * np.std(false) / 10
    if share == 0.3 and method != "lord":
        assert np.mean(found) > 0.5


def test_few_calibration_rows_end_a_stream_of_single_rows():
    # What the docstring says of n = 1,000: the least p-value, and when it is above the level.
    least = 1 / 1001

    def first_in_vain(method, before):
        for wait in range(100):
            stream = OnlineDiscoveries(0.1, method)
            stream.update([before] * wait)
            if not stream.update([least])[0]:
                return wait
        return None

    assert first_in_vain("lord", 0.9) == 1
    assert first_in_vain("saffron", 0.9) == 4


def test_what_cannot_be_used_is_told():
    with pytest.raises(ValueError, match=r"rate must be .*write 0\.05 for 5 %"):
        OnlineDiscoveries(5).update([0.5])
    with pytest.raises(ValueError, match="method must be"):
        OnlineDiscoveries(0.1, "bonferroni").update([0.5])
    stream = OnlineDiscoveries(0.1)
    with pytest.raises(ValueError, match=r"pvalues must lie in \[0, 1\]"):
        stream.update([0.1, 1.5])
    assert stream.n_rows_ == 0


def state_of(stream):
    return {name: np.array(value).tolist() for name, value in vars(stream).items()}


@pytest.mark.parametrize("method", METHODS)
def test_interrupted_update_leaves_the_stream_unchanged(method, monkeypatch):
    stream = OnlineDiscoveries(0.1, method)
    stream.update(np.linspace(1e-5, 1, 100))
    before = state_of(stream)
    within = {"batch-bh": "_decide_batch_bh", "lond": "_decide_lond"}.get(method, "_decide_page")
    original, calls = getattr(OnlineDiscoveries, within), []

    def interrupted(*arguments):
        found = original(*arguments)
        calls.append(found)
        if len(calls) == (3 if within == "_decide_page" else 1):
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(OnlineDiscoveries, within, interrupted)
    with pytest.raises(KeyboardInterrupt):
        stream.update(np.linspace(1e-6, 1, 300))
    assert state_of(stream) == before


FORGED = [None, -1, 2**62, 10**30, 0.5, nan, "text", [], {}, np.array(["a"]), np.full(5, nan)]
COUNTS = ["n_rows_", "n_batches_", "n_discoveries_", "clock_"]
ARRAYS = ["excess_", "committed_", "invested_", "earned_", "marks_", "clocks_"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [*COUNTS, *ARRAYS])
def test_damaged_state_is_refused_in_a_sentence(name):
    for method in METHODS:
        for value in FORGED:
            stream = OnlineDiscoveries(0.1, method)
            stream.update(np.linspace(1e-5, 1, 100))
            setattr(stream, name, value)
            with pytest.raises(ValueError, match=r"is damaged.*Restore its file from a copy, or"):
                stream.update([1e-6, 0.4])
            assert getattr(stream, name) is value
