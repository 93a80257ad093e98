"""Questions with known chances: exact chances, unbiased sums, intervals that hold."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import roc_auc_score

from helpers.cases import cases
from lpfuse.answers import (
    answer_weights,
    ask_each_unit_once,
    audit_answers,
    chances_of_asking,
    draw_questions,
)

RATES = ("anomaly_share", "hit_rate", "precision", "false_alarm_rate", "auc")
nan = float("nan")


class FixedStart(np.random.RandomState):
    """A source of randomness whose next uniform number is known."""

    def __init__(self, u):
        super().__init__(0)
        self.u = u

    def random_sample(self, *_args, **_kwargs):
        return self.u


def drawn_at(chances, order, u):
    return draw_questions(chances, order, FixedStart(u))


def bisected_chances(appeal, n, floor):
    """min(1, c·b) with c by halving."""
    appeal = np.asarray(appeal, float)
    even = np.full(appeal.size, 1 / appeal.size)
    b = (1 - floor) * (appeal / appeal.sum() if appeal.any() else even) + floor * even
    low, high = 0.0, n / b.min()
    for _ in range(200):
        c = (low + high) / 2
        low, high = (c, high) if np.minimum(1, c * b).sum() < n else (low, c)
    return np.minimum(1, high * b)


# --- chances


@given(
    st.lists(st.sampled_from([0.0, 1e-3, 1.0, 1.0, 7.0, 1e6]), min_size=1, max_size=30),
    st.integers(1, 35),
    st.sampled_from([0.05, 0.3, 1.0]),
)
@example([0.0, 0.0, 0.0], 2, 0.1)
def test_chances_fill_up_exactly(appeal, n, floor):
    chances = chances_of_asking(appeal, n, floor=floor)
    m = len(appeal)
    assert chances.sum() == pytest.approx(min(n, m), rel=1e-12)
    assert (chances <= 1).all()
    assert (chances >= min(1, floor * n / m) * (1 - 1e-12)).all()
    if n < m:
        np.testing.assert_allclose(chances, bisected_chances(appeal, n, floor), rtol=1e-9)


def test_chances_keep_the_order_and_ignore_the_unit():
    appeal = np.random.default_rng(0).lognormal(sigma=3, size=500)
    chances = chances_of_asking(appeal, 40)
    assert (np.diff(chances[np.argsort(appeal)]) >= 0).all()
    np.testing.assert_allclose(chances_of_asking(appeal * 1e290, 40), chances)
    np.testing.assert_allclose(chances_of_asking(appeal * 1e-290, 40), chances)


def test_a_million_rows():
    appeal = np.random.default_rng(0).pareto(0.5, size=1_000_000)
    chances = chances_of_asking(appeal, 1000)
    assert chances.sum() == pytest.approx(1000, rel=1e-9)
    assert len(np.unique(draw_questions(chances, random_state=0))) == 1000


@cases("appeal", [[], [1.0, np.inf], [1.0, -1.0], [1.0, nan], [[1.0]]])
def test_appeals_without_a_meaning_are_refused(appeal):
    with pytest.raises(ValueError, match="appeal"):
        chances_of_asking(appeal, 1)


@cases(("n", "floor"), [(0, 0.1), (1.5, 0.1), (1, 0.0), (1, 1.1)])
def test_numbers_of_questions_and_floors_without_a_meaning_are_refused(n, floor):
    with pytest.raises(ValueError, match=r"^(n|floor) must be"):
        chances_of_asking([1.0, 2.0, 3.0], n, floor=floor)


# --- drawing


@given(
    st.lists(st.integers(0, 20), min_size=2, max_size=12),
    st.integers(1, 11),
    st.randoms(use_true_random=False),
)
@settings(max_examples=60)
def test_each_row_is_drawn_for_its_share_of_all_starts(appeal, n, random):
    """Over u the sample is constant between the fractions of the cumulated chances: a sum."""
    m = len(appeal)
    n = min(n, m)
    chances = chances_of_asking(appeal, n)
    order = np.array(random.sample(range(m), m))
    others = order[chances[order] < 1]
    cuts = np.unique(np.concatenate([[0, 1], np.cumsum(chances[others]) % 1]))
    asked = np.zeros(m)
    for low, high in pairwise(cuts):
        sample = drawn_at(chances, order, (low + high) / 2)
        assert len(set(sample)) == len(sample) == n
        asked[sample] += high - low
    np.testing.assert_allclose(asked, chances, atol=1e-9)


def test_chances_hold_in_many_draws():
    chances = chances_of_asking(np.arange(20.0), 5)
    random = np.random.RandomState(0)
    draws = 4000
    asked = np.zeros(20)
    for _ in range(draws):
        asked[draw_questions(chances, random_state=random)] += 1
    assert (np.abs(asked / draws - chances) < 4.5 * np.sqrt(0.25 / draws)).all()


@pytest.mark.parametrize("m", [1, 3, 1000, 100_003])
def test_no_start_loses_or_repeats_a_draw(m):
    appeal = np.random.default_rng(m).pareto(0.7, size=m)
    for n in {1, m // 3, m - 1, m} - {0}:
        chances = chances_of_asking(appeal, n)
        for u in (0.0, 1e-17, 0.5, np.nextafter(1, 0)):
            assert len(np.unique(drawn_at(chances, np.arange(m), u))) == n


def test_neighbours_that_share_one_question_are_never_drawn_together():
    chances = np.tile([0.5, 0.3, 0.2], 10)
    for seed in range(200):
        drawn = draw_questions(chances, np.arange(30), random_state=seed)
        assert sorted(drawn // 3) == list(range(10))


def test_draws_depend_on_random_state_alone():
    chances = chances_of_asking(np.arange(50.0), 10)
    np.testing.assert_array_equal(
        draw_questions(chances, None, 3), draw_questions(chances, None, 3)
    )
    assert len({tuple(draw_questions(chances, None, seed)) for seed in range(9)}) > 1


@cases(
    ("chances", "order", "sentence"),
    [
        ([0.5, 0.0, 0.5], None, "between 1e-18 and 1, got 0 in row 1"),
        ([0.5, 1.5], None, "got 1.5 in row 1"),
        ([0.5, nan, 0.5], None, "NaN"),
        ([0.5, 0.3], None, "sum to the number of questions"),
        ([], None, "sum to the number of questions"),
        ([0.5, 0.5], [0, 0], "a permutation of 0 to 1"),
        ([0.5, 0.5], [0], "one position for each row"),
    ],
)
def test_draws_that_cannot_be_made_are_refused(chances, order, sentence):
    with pytest.raises(ValueError, match=sentence):
        draw_questions(chances, order)


# --- units


def test_a_unit_is_asked_once_for_all_its_rows():
    units = np.array(["a", "b", "a", "c", "a", "b", "d", "e"])
    appeal = np.array([1.0, 4.0, 1.0, 2.0, 1.0, 4.0, 0.0, 1.0])
    of_unit = dict(zip("abcde", chances_of_asking([1.0, 4.0, 2.0, 0.0, 1.0], 3), strict=True))
    random, draws, asked = np.random.RandomState(0), 3000, np.zeros(8)
    for _ in range(draws):
        rows, chances = ask_each_unit_once(appeal, units, 3, random_state=random)
        assert len(set(units[rows])) == 3
        assert chances == pytest.approx([of_unit[unit] for unit in units[rows]])
        asked[rows] += 1
    expected = [of_unit[unit] / (units == unit).sum() for unit in units]
    assert (np.abs(asked / draws - expected) < 4.5 * np.sqrt(0.25 / draws)).all()


def test_all_units_are_asked_where_questions_abound():
    rows, chances = ask_each_unit_once(np.ones(6), [0, 0, 1, 1, 2, 2], 9, random_state=0)
    assert sorted(rows // 2) == [0, 1, 2]
    assert (chances == 1).all()


def test_units_keep_the_order_of_their_first_rows():
    """Units (0, 1) and (2, 3) share a question each where their rows are neighbours."""
    order = np.array([4, 5, 0, 1, 6, 7, 2, 3])
    units = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    for seed in range(50):
        rows, _ = ask_each_unit_once(np.ones(8), units, 2, order=order, random_state=seed)
        assert sorted(unit in (2, 0) for unit in units[rows]) == [False, True]


# --- weights


def test_means_over_what_is_asked_by_enumeration():
    """Over all samples of two rows: the loss with every row answered, but for what is named."""
    chances = np.array([0.9, 0.5, 0.4, 0.2])
    truth = np.array([1, -1, 1, -1])
    normal = np.array([0.95, 0.3, 0.6, 0.8])
    q = 1 - normal
    as_normal, as_anomaly, negative = np.zeros(4), np.zeros(4), np.zeros((2, 4))
    # A design with these chances: that of systematic sampling, each start with its length.
    cuts = np.unique(np.concatenate([[0, 1], np.cumsum(chances) % 1]))
    for low, high in pairwise(cuts):
        asked = np.isin(np.arange(4), drawn_at(chances, np.arange(4), (low + high) / 2))
        y = np.where(asked, truth, 0)
        weights = answer_weights(normal, y, chances, most=100)
        as_normal += (high - low) * np.where(y >= 0, weights, 0)
        as_anomaly += (high - low) * np.where(y < 0, weights, 0)
        left_out = 1 - 1 / chances
        negative[0] += (high - low) * np.where(y < 0, (1 - q) * left_out, 0)
        negative[1] += (high - low) * np.where(y > 0, q * left_out, np.where(y == 0, q, 0))
    is_normal = truth > 0
    np.testing.assert_allclose(as_normal[is_normal], 1)
    np.testing.assert_allclose(as_anomaly[~is_normal], (1 - q * (1 - chances))[~is_normal])
    np.testing.assert_allclose(as_normal[~is_normal], ((1 - q) * (1 - chances))[~is_normal])
    # With the parts that are left out it is the loss with every row answered, term by term.
    np.testing.assert_allclose(as_normal + negative[0], is_normal, atol=1e-12)
    np.testing.assert_allclose(as_anomaly + negative[1], ~is_normal, atol=1e-12)


def test_known_and_certain_rows_count_once_and_weights_are_capped():
    weights = answer_weights(
        [0.2, 0.7, 0.7, 0.5, 0.9], [1, -1, 1, 1, -1], [nan, nan, 1.0, 0.01, 0.01]
    )
    np.testing.assert_allclose(weights, [1, 1, 1, 10, 10])


@cases(
    ("normal", "y", "chances", "sentence"),
    [
        ([0.5, 1.2], [1, -1], [0.5, 0.5], "probably_normal must lie in"),
        ([0.5, 0.5], [1, 2], [0.5, 0.5], r"y must be \+1"),
        ([0.5, 0.5], [1], [0.5, 0.5], "one label for each row"),
        ([0.5, 0.5], [1, -1], [0.5], "one number for each row"),
        ([0.5, 0.5], [1, -1], [0.5, 0.0], "A row that could not be asked about has no chance"),
        ([0.5, 0.5], ["ok", "odd"], [0.5, 0.5], "Choose one of"),
    ],
)
def test_answers_that_cannot_be_used_are_refused(normal, y, chances, sentence):
    with pytest.raises(ValueError, match=sentence):
        answer_weights(normal, y, chances)


# --- audit


def naive_rates(s, y, offset):
    flagged, anomaly = s < offset, y < 0
    return [
        anomaly.mean(),
        flagged[anomaly].mean(),
        anomaly[flagged].mean(),
        flagged[~anomaly].mean(),
        roc_auc_score(y, s),
    ]


def some_table(n=60, seed=0):
    random = np.random.default_rng(seed)
    y = np.where(random.uniform(size=n) < 0.2, -1, 1)
    return np.round(random.normal(size=n) + y, 1), y  # with ties


def test_every_row_answered_leaves_nothing_uncertain():
    s, y = some_table()
    audit = audit_answers(s, y, np.ones(60), offset=0.0, n_rows=60)
    for rate, expected in zip(RATES, naive_rates(s, y, 0.0), strict=True):
        assert getattr(audit, rate) == pytest.approx((expected, expected, expected))
    assert audit.effective_size == pytest.approx(60)


def test_answers_are_weighted_by_their_inverse_chance():
    """A weight of k is k equal rows."""
    s, y = some_table(40)
    times = np.random.default_rng(1).integers(1, 6, size=40)
    audit = audit_answers(s, y, 1 / times, offset=0.3)
    expected = naive_rates(np.repeat(s, times), np.repeat(y, times), 0.3)
    assert [getattr(audit, rate).value for rate in RATES] == pytest.approx(expected)
    assert all(getattr(audit, rate).low < getattr(audit, rate).high for rate in RATES)


def test_sums_over_rounds_are_unbiased_by_enumeration():
    """Two rounds on five rows, chances of the second by the answers of the first."""
    y = np.array([-1, 1, -1, 1, 1])
    expected_share = 0.0
    for first in combinations(range(5), 2):
        rest = [row for row in range(5) if row not in first]
        # Two questions of five alike, then one of three, the rows in unequal shares.
        lots = (
            np.array([1.0, 2.0, 3.0]) if (y[list(first)] < 0).any() else np.array([4.0, 1.0, 1.0])
        )
        lots /= lots.sum()
        for row, chance in zip(rest, lots, strict=True):
            rows = [*first, row]
            audit = audit_answers(
                np.zeros(3), y[rows], [0.4, 0.4, chance], offset=1.0, rounds=[1, 1, 2]
            )
            # The number of anomalies: their share of the weights, times all weights.
            weights = np.array([2 / 3 / 0.4 + 1 / 3] * 2 + [1 / 3 / chance])
            expected_share += 0.1 * chance * audit.anomaly_share.value * weights.sum()
    assert expected_share == pytest.approx(2)


def test_labels_from_elsewhere_and_unknown_answers_do_not_take_part():
    s, y = some_table(30)
    chances = np.full(30, 0.5)
    alone = audit_answers(s, y, chances, offset=0.0)
    with_others = audit_answers(
        np.append(s, [5.0, nan, -9.0, np.inf]),
        np.append(y, [-1, 1, 0, -1]),
        np.append(chances, [nan, 0.1, 0.1, 0.1]),
        offset=0.0,
    )
    assert with_others.n_elsewhere == 1
    assert with_others.n_left_out == 3
    assert [getattr(with_others, rate) for rate in RATES] == [
        getattr(alone, rate) for rate in RATES
    ]
    assert "1 labels that nobody was asked for" in with_others.summary()
    assert "3 answers are left out" in with_others.summary()


def test_what_the_answers_do_not_say_is_not_made_up():
    only_normal = audit_answers([1.0, 2.0], [1, 1], [0.1, 0.1], offset=0.0)
    assert np.isnan(only_normal.hit_rate.value)
    assert only_normal.hit_rate[1:] == only_normal.auc[1:] == only_normal.precision[1:] == (0, 1)
    assert only_normal.anomaly_share.value == 0 < 0.5 < only_normal.anomaly_share.high
    assert "No answer is an anomaly" in only_normal.summary()
    assert "No row asked about is flagged" in only_normal.summary()
    only_anomalies = audit_answers([-1.0, 2.0], [-1, -1], [0.1, 0.1], offset=0.0)
    assert np.isnan([only_anomalies.false_alarm_rate.value, only_anomalies.auc.value]).all()
    assert "No answer is a normal row" in only_anomalies.summary()
    nothing = audit_answers([], [], [], offset=0.0)
    assert nothing.summary().startswith("0 answers took part")
    assert all(getattr(nothing, rate)[1:] == (0, 1) for rate in RATES)


def test_a_threshold_that_flags_nothing_can_be_audited():
    s, y = some_table(30)
    audit = audit_answers(s, y, np.full(30, 0.5), offset=-np.inf)
    assert audit.hit_rate.value == audit.false_alarm_rate.value == 0 < audit.hit_rate.high
    assert np.isnan(audit.precision.value)


def test_rows_that_nobody_asked_about_may_hide_anomalies():
    """Flagged rows alone were asked about: of missed anomalies nothing is known."""
    for n_rows in (None, 1000):
        audit = audit_answers(
            np.full(20, -1.0), [-1] * 10 + [1] * 10, np.full(20, 0.5), offset=0.0, n_rows=n_rows
        )
        assert audit.hit_rate.value == 1
        assert audit.hit_rate.low < 0.2
        assert 0.25 < audit.precision.low < 0.5 < audit.precision.high < 0.75


def test_equal_small_chances_give_the_interval_of_clopper_and_pearson():
    y = np.repeat([-1, 1], [4, 26])
    low, high = audit_answers(np.zeros(30), y, np.full(30, 1e-6), offset=-1.0).anomaly_share[1:]
    exact = binomtest(4, 30).proportion_ci(0.95, method="exact")
    assert (low, high) == pytest.approx((exact.low, exact.high), abs=0.015)


def test_more_confidence_and_fewer_answers_widen():
    s, y = some_table(60)
    widths = [
        np.diff(audit_answers(s[:n], y[:n], np.full(n, 0.1), offset=0.0, confidence=c).auc[1:])[0]
        for n, c in ((60, 0.5), (60, 0.95), (15, 0.95))
    ]
    assert widths == sorted(widths)


def test_the_summary_is_plain():
    s, y = some_table(60)
    said = audit_answers(s, y, np.full(60, 0.5), offset=0.0, n_rows=120).summary()
    assert "Of the anomalies, about" in said
    assert "hold with 95 % confidence" in said
    assert "nan" not in said


@cases(
    ("change", "sentence"),
    [
        ({"y": [1, 5]}, r"y must be \+1"),
        ({"y": [1]}, "one label for each row"),
        ({"chances": [0.5, 0.0]}, "got 0 in row 1"),
        ({"chances": [0.5, -1]}, "got -1 in row 1"),
        ({"chances": [0.5]}, "one number for each row"),
        ({"rounds": [1]}, "rounds must hold one number for each row"),
        ({"rounds": [1, nan]}, "rounds must be numbers where chances are"),
        ({"offset": nan}, "offset must be"),
        ({"confidence": 95}, "confidence must be"),
        ({"n_rows": 0}, "n_rows must be"),
    ],
)
def test_audits_that_cannot_be_made_are_refused(change, sentence):
    good = {"scores": [0.0, 1.0], "y": [-1, 1], "chances": [0.5, 0.5], "offset": 0.5}
    with pytest.raises(ValueError, match=sentence):
        audit_answers(**(good | change))


@pytest.mark.slow
@pytest.mark.parametrize(("rounds", "other"), [(2, 0.0), (1, 1.0)])
def test_intervals_hold(rounds, other):
    """Coverage of 95 % intervals, also where another detector chose the questions."""
    random, cells = np.random.default_rng(0), []
    n_rows, repeats = 1000, 50
    for n, share, shift, floor in product((6, 40), (0.02, 0.1), (0.7, 3.0), (0.1, 1.0)):
        covered = np.zeros(5)
        for _ in range(repeats):
            y = np.repeat([-1, 1], [int(share * n_rows), n_rows - int(share * n_rows)])
            s = random.normal(size=n_rows) + shift * (y > 0)
            offset = float(np.quantile(s[y > 0], 0.05))
            left, asked, known = np.arange(n_rows), [], []
            for _ in range(rounds):
                chosen_by = s[left] + other * random.normal(size=left.size)
                appeal = 1 / (10 + np.argsort(np.argsort(chosen_by))) ** 2
                chances = chances_of_asking(appeal, n // rounds, floor=floor)
                drawn = draw_questions(chances, random_state=int(random.integers(2**31)))
                asked.append(left[drawn])
                known.append(chances[drawn])
                left = np.delete(left, drawn)
            rows = np.concatenate(asked)
            audit = audit_answers(
                s[rows], y[rows], np.concatenate(known), offset=offset, n_rows=n_rows,
                rounds=np.repeat(np.arange(rounds), n // rounds),
            )  # fmt: skip
            found = [getattr(audit, rate) for rate in RATES]
            covered += [
                e.low <= true <= e.high
                for e, true in zip(found, naive_rates(s, y, offset), strict=True)
            ]
        cells.append(covered / repeats)
    # With 50 repeats at 95 %, three standard errors are 9 points.
    assert np.mean(cells) >= 0.95
    assert np.min(cells) >= 0.86
