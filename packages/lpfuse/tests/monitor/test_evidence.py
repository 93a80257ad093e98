"""The martingale against enumeration, simulation and a naive version."""

from itertools import product
from math import lgamma, log

import numpy as np
import pytest

from lpfuse.monitor import (
    LEVELS,
    MEMORY,
    ON_RECENT,
    TRUST,
    Alternatives,
    Evidence,
    ReferenceBins,
    StreamHistory,
    block_sizes,
    count_blocks,
    normal_scores,
    uniform_numbers,
)


def evidence_of(gaps, streams=1):
    gaps = np.asarray(gaps, dtype=float)
    return Evidence.before(gaps, Alternatives.of_values(gaps), streams)


def urn_probability(gaps, places):
    """Of a sequence of bins, row by row: a bin is drawn by its gaps and the rows already there."""
    counts, chance = np.array(gaps, dtype=float), 1.0
    for place in places:
        chance *= counts[place] / counts.sum()
        counts[place] += 1
    return chance


@pytest.mark.parametrize("blocks", [(1, 1, 1), (3,), (2, 1)])
def test_mean_is_one_by_enumeration(blocks):
    # Of all sequences of three rows, by the exact probability of each, whatever the blocks.
    gaps, mean, total = [1, 2, 4], 0.0, 0.0
    for places in product(range(3), repeat=3):
        found = evidence_of(gaps)
        counts = count_blocks(np.array(places, dtype=np.int8)[:, None], 3, np.array(blocks))
        logs = found.update(counts, np.array(blocks))
        chance = urn_probability(gaps, places)
        total += chance
        mean += chance * np.exp(logs[-1, 0])
    assert total == pytest.approx(1, abs=1e-12)
    assert mean == pytest.approx(1, abs=1e-12)


def test_urn_matches_ranks_of_independent_rows(rng):
    # Bins of two rows after four reference rows, over many draws of all six, against the urn.
    gaps, seen = np.array([1.0, 2.0, 2.0]), np.zeros((3, 3))
    for _ in range(20_000):
        drawn = rng.exponential(size=6)
        edges = np.sort(drawn[:4])[[0, 2]]
        first, second = np.searchsorted(edges, drawn[4:])
        seen[first, second] += 1
    expected = [[urn_probability(gaps, (i, j)) for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(seen / seen.sum(), expected, atol=0.012)


def test_recursion_is_sum_over_starts_and_alternatives(rng):
    """The recursion against the definition: every start of every law, kept apart."""
    gaps = np.array([1.0, 3.0, 5.0, 1.0])
    alternatives = Alternatives.of_values(gaps)
    found = Evidence.before(gaps, alternatives, 2)
    sizes = np.array([4, 1, 7, 2])
    blocks = np.stack([rng.multinomial(n, gaps / gaps.sum(), size=2) for n in sizes]).astype(float)
    logs = found.update(blocks, sizes)

    def left(row):
        return 1 / (1 + log(1 + row / 2000))

    for stream in range(2):
        counts, recent, starts, row = gaps.copy(), np.zeros(4), [], 0
        for i, n in enumerate(sizes):
            block = blocks[i, stream]
            null = lgamma(counts.sum()) - lgamma(counts.sum() + n)
            null += sum(lgamma(c + m) - lgamma(c) for c, m in zip(counts, block, strict=True))
            guess = recent + TRUST * gaps / gaps.sum()
            laws = [*alternatives.laws, guess / guess.sum()]
            shares = [*((1 - ON_RECENT) * alternatives.stakes), ON_RECENT]
            starts.append([(left(row) - left(row + n)) * share for share in shares])
            ratios = [np.exp(block @ np.log(law) - null) for law in laws]
            starts = [[a * b for a, b in zip(each, ratios, strict=True)] for each in starts]
            counts, recent, row = counts + block, recent * np.exp(-n / MEMORY) + block, row + n
            value = left(row) + sum(map(sum, starts))
            assert logs[i, stream] == pytest.approx(log(value), abs=1e-9)


@pytest.mark.parametrize(
    ("n", "kind"), [(20, "continuous"), (300, "ties"), (20, "gaps"), (300, "heavy")]
)
def test_false_alarm_rate_stays_below_level(rng, n, kind):
    streams, level = 400, 0.1
    reference, rows = (rng.standard_t(1 if kind == "heavy" else 30, size=(m, streams))
                       for m in (n, 1500))  # fmt: skip
    if kind == "ties":
        reference, rows = np.rint(reference), np.rint(rows)
    if kind == "gaps":
        reference[rng.random(reference.shape) < 0.3] = np.nan
        rows[rng.random(rows.shape) < 0.3] = np.nan
    bins = ReferenceBins.of(reference, 1)
    sizes = block_sizes(len(rows))
    found = Evidence.before(bins.gaps, Alternatives.of_values(bins.gaps), streams)
    logs = found.update(count_blocks(bins.places(rows, 0), len(bins.gaps), sizes), sizes)
    alarms = int((logs.max(axis=0) >= -log(level)).sum())
    assert alarms <= level * streams  # 40; about 10 are usual, 3 % of a binomial lie above 52


def test_late_change_is_found_and_dated(rng):
    reference, rows = rng.normal(size=(2000, 20)), rng.normal(size=(8000, 20))
    rows[6000:] += 0.5
    bins, sizes = ReferenceBins.of(reference, 1), np.full(80, 100)
    found = Evidence.before(bins.gaps, Alternatives.of_values(bins.gaps), 20)
    logs = found.update(count_blocks(bins.places(rows, 0), len(bins.gaps), sizes), sizes)
    first = np.argmax(logs >= log(20 / 0.01), axis=0) * 100  # twenty streams share 1 %
    assert (first >= 6000).all()
    assert np.median(first) <= 6300
    names, since = zip(*(found.leading(j) for j in range(20)), strict=True)
    assert set(names) <= {"higher", "otherwise"}
    assert np.median(np.abs(np.array(since) - 6000)) <= 200


# ------------------------------------------------------------------------------------------- bins


@pytest.mark.parametrize("n", [20, 50, 2_000])
def test_bins_hold_all_gaps_with_single_ends(rng, n):
    bins = ReferenceBins.of(rng.normal(size=(n, 3)), 0)
    assert bins.gaps.sum() == n + 1
    assert bins.gaps[0] == bins.gaps[-1] == 1
    assert len(bins.gaps) <= len(LEVELS) + 3
    outside = bins.places(np.array([[-99.0] * 3, [99.0] * 3]), 0)
    assert (outside == [[0], [len(bins.gaps) - 1]]).all()


def test_places_match_naive_search(rng):
    reference = rng.integers(0, 5, size=(60, 2)).astype(float)
    reference[::7] = np.nan
    bins = ReferenceBins.of(reference, 3)
    rows = rng.integers(-1, 7, size=(200, 2)).astype(float)
    rows[::5, 1] = np.nan
    drawn = uniform_numbers(3, np.arange(10, 210), 2)
    for i in range(200):
        for j in range(2):
            value = -np.inf if np.isnan(rows[i, j]) else rows[i, j]
            edges = zip(bins.edges[:, j], bins.ranks_among_ties[:, j], strict=True)
            naive = sum((edge, rank) < (value, drawn[i, j]) for edge, rank in edges)
            assert bins.places(rows, 10)[i, j] == naive


def test_places_do_not_depend_on_batches(rng):
    bins = ReferenceBins.of(np.rint(rng.normal(size=(100, 3))), 5)
    rows = np.rint(rng.normal(size=(50, 3)))
    apart = [bins.places(rows[i : i + 1], 7 + i) for i in range(50)]
    np.testing.assert_array_equal(bins.places(rows, 7), np.concatenate(apart))


def test_tie_breaking_numbers_are_uniform_and_uncorrelated():
    drawn = uniform_numbers(12, np.arange(-5_000, 5_000), 6)
    assert abs(drawn.mean() - 0.5) < 0.006
    assert abs(drawn.var() - 1 / 12) < 0.003
    correlation = np.corrcoef(drawn.T) - np.eye(6)
    assert np.abs(correlation).max() < 0.04
    assert len(np.unique(drawn)) == drawn.size


# ---------------------------------------------------------------------------------------- history


def test_history_stays_small_and_has_latest_rows(rng):
    gaps = np.full(20, 1.0)
    history = StreamHistory.empty(1)
    for i in range(700):
        usual = rng.multinomial(100, gaps / 20) if i < 600 else np.append(np.zeros(19), 100)
        history = history.with_blocks(usual[None, None].astype(float), np.array([100]), gaps)
    assert len(history.rows) <= 64
    assert history.rows.sum() == 70_000
    mean, deviation = history.latest()
    assert mean[0] == pytest.approx(normal_scores(gaps)[-1])
    assert deviation[0] == pytest.approx(0, abs=1e-6)


def test_normal_scores_have_mean_zero():
    gaps = np.array([1.0, 4.0, 10.0, 4.0, 1.0])
    assert gaps @ normal_scores(gaps) == pytest.approx(0, abs=1e-12)
