"""How rows are split, who sees which, and the proof that no row of the test settles anything."""

from dataclasses import asdict, fields, replace
from gc import get_referents
from math import sqrt
from types import FunctionType, ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from lpfuse.detectors import PAPER_WIDTHS
from lpfuse.metrics import best_g_mean, g_mean
from research.common.protocol import PAPER, QUICK, SETTINGS, FittedMethod, Protocol, area, threshold
from research.common.splits import split
from research.paper.learners import LEARNERS
from research.paper.uci import METHODS, NON_PURE
from research.tests.small import THIN, plant_saplings, rows_and_labels, small_split, without_cache

PARTS = ("train", "held_out", "test", "known", "sought")


def parts_of(found):
    return [getattr(found, part) for part in PARTS]


def positions(y, protocol, seed):
    """Which rows of the data are in which part: a split goes by y and the seed alone."""
    parts = parts_of(split(np.arange(len(y), dtype=float)[:, None], y, protocol, seed))
    ranks = rankdata(np.concatenate(parts)[:, 0], method="ordinal") - 1
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return dict(zip(PARTS, np.split(ranks, ends), strict=True))


# ---------------------------------------------------------------------------------------- the split


def test_the_grids_of_the_paper():
    assert (PAPER.training, PAPER.validation, PAPER.known, PAPER.teaching) == (0.7, 0.2, 0.5, 0.5)
    assert PAPER.widths == PAPER_WIDTHS == (0.01, 0.1, 0.5, 1.0, 10.0)
    assert PAPER.component_step == 4
    assert PAPER.rhos == tuple(range(1, 11))
    assert PAPER.ps == (32 / 31, 16 / 15, 8 / 7, 4 / 3, 2, 4, 8, 10, 100)
    assert PAPER.description == asdict(PAPER)


def test_the_quick_protocol_has_thinner_grids_and_nothing_else():
    grids = {"component_step", "rhos", "ps"}
    changed = {key for key, value in asdict(PAPER).items() if asdict(QUICK)[key] != value}
    assert changed == grids
    assert set(QUICK.rhos) < set(PAPER.rhos)
    assert set(QUICK.ps) < set(PAPER.ps)


@settings(max_examples=40)
@given(
    normals=st.integers(10, 90),
    anomalies=st.integers(4, 40),
    training=st.sampled_from([0.5, 0.6, 0.7]),
    validation=st.sampled_from([0.1, 0.2, 0.3]),
    known=st.sampled_from([0.3, 0.5, 0.8]),
    seed=st.integers(0, 1000),
)
def test_five_parts_share_no_row_and_use_the_shares(
    normals, anomalies, training, validation, known, seed
):
    y = np.random.default_rng(seed).permutation(np.repeat([1, -1], [normals, anomalies]))
    where = positions(y, Protocol(training, validation, known), seed)
    assert sorted(np.concatenate(list(where.values()))) == list(range(len(y)))
    for part in PARTS[:3]:
        assert (y[where[part]] > 0).all()
    for part in PARTS[3:]:
        assert (y[where[part]] < 0).all()
    shares = {"train": training, "held_out": validation, "test": 1 - training - validation}
    for part, share in shares.items():
        assert abs(len(where[part]) - share * normals) <= 1
    assert abs(len(where["known"]) - known * anomalies) <= 0.5


def test_one_seed_one_split():
    X, y = rows_and_labels()
    once, again, other = (parts_of(split(X, y, PAPER, seed)) for seed in (3, 3, 4))
    for a, b, c in zip(once, again, other, strict=True):
        np.testing.assert_array_equal(a, b)
        assert (a != c).any()


def test_features_are_z_scores_by_the_training_normals():
    X, y = rows_and_labels(columns=3)
    where = positions(y, PAPER, 0)
    train = X[where["train"]]
    for part, rows in zip(PARTS, parts_of(split(X, y, PAPER, 0)), strict=True):
        by_hand = (X[where[part]] - train.mean(axis=0)) / train.std(axis=0)
        np.testing.assert_allclose(rows, by_hand, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("part", PARTS[1:])
def test_no_other_row_moves_the_scale_or_the_medians(part):
    X, y = rows_and_labels()
    X[::3, 0] = np.nan
    where = positions(y, PAPER, 0)
    before = split(X, y, PAPER, 0)
    X[where[part]] = -50.0
    after = split(X, y, PAPER, 0)
    for name in set(PARTS) - {part}:
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert (getattr(after, part) != getattr(before, part)).any()


def test_gaps_are_filled_with_medians_of_the_training_normals():
    X, y = rows_and_labels()
    X[:, 0] **= 3  # a mean that is not the median
    where = positions(y, PAPER, 0)
    gaps = [where[part][0] for part in PARTS]
    X[gaps, 0] = np.nan
    median = np.median(X[where["train"][1:], 0])
    filled = np.append(X[where["train"][1:], 0], median)
    for rows in parts_of(split(X, y, PAPER, 0)):
        np.testing.assert_allclose(rows[0, 0], (median - filled.mean()) / filled.std())


@pytest.mark.parametrize("idle", [np.nan, 7.0])
def test_columns_that_tell_nothing_survive(idle):
    X, y = rows_and_labels(columns=3)
    X[:, 1] = idle
    for rows in parts_of(split(X, y, PAPER, 0)):
        assert rows.shape[1] == 3
        assert (rows[:, 1] == 0).all()
        assert np.isfinite(rows).all()


def test_a_column_that_training_never_saw_stays_finite():
    X, y = rows_and_labels()
    X[positions(y, PAPER, 0)["train"], 0] = np.nan
    assert all(np.isfinite(rows).all() for rows in parts_of(split(X, y, PAPER, 0)))


def test_at_most_so_many_rows_of_each_class():
    y = rows_and_labels(normals=60, anomalies=24)[1]
    parts = parts_of(split(y[:, None].astype(float), y, replace(PAPER, most_rows=20), 0))
    assert [len(rows) for rows in parts] == [14, 4, 2, 10, 10]
    normal, anomaly = (np.unique(np.concatenate(rows)) for rows in (parts[:3], parts[3:]))
    assert (normal, anomaly) == (0, -2), "z-scores of the labels"


def test_parts_may_be_empty():
    X, y = rows_and_labels()
    found = split(X, y, Protocol(training=0.9, validation=0.0), 0)
    assert found.held_out.shape == (0, 2)
    assert len(found.train) == 54


# ---------------------------------------------------------------------------------- training data


def test_pure_training_data_keep_all_anomalies_for_validation():
    parts = small_split()
    training = parts.training("pure")
    assert training.is_pure
    assert training.labelled.shape == (0, 2)
    np.testing.assert_array_equal(training.normals, parts.train)
    np.testing.assert_array_equal(training.validation[training.labels > 0], parts.held_out)
    np.testing.assert_array_equal(training.validation[training.labels < 0], parts.known)


@pytest.mark.parametrize("teaching", [0.25, 0.5])
def test_known_anomalies_teach_or_validate_but_not_both(teaching):
    parts = small_split(replace(THIN, teaching=teaching))
    training = parts.training("non-pure")
    kept = training.validation[training.labels < 0]
    assert not training.is_pure
    assert len(training.labelled) == teaching * len(parts.known)
    together = [tuple(row) for row in (*training.labelled, *kept)]
    assert len(set(together)) == len(together) == len(parts.known)
    assert set(together) == {tuple(row) for row in parts.known}
    np.testing.assert_array_equal(training.validation[training.labels > 0], parts.held_out)


def test_both_lessons_share_their_work():
    parts = small_split()
    assert parts.training("pure").cache is parts.training("non-pure").cache is parts.cache
    assert small_split().cache is not parts.cache


# ------------------------------------------------------------------------------------------ figures

eighths = st.integers(-16, 16).map(lambda value: value / 8)  # ties are common


@st.composite
def labels_and_scores(draw):
    y = draw(st.permutations([1, -1, *draw(st.lists(st.sampled_from([1, -1]), max_size=20))]))
    shape = (len(y), draw(st.integers(1, 4)))
    return np.array(y), draw(arrays(np.float64, shape, elements=eighths))


@given(labels_and_scores())
def test_areas_of_all_columns_are_those_of_scikit_learn(given_):
    y, scores = given_
    expected = [roc_auc_score(y, column) for column in scores.T]
    np.testing.assert_allclose(area(y, scores), expected, atol=1e-12)
    assert area(y, scores[:, 0]) == area(y, scores)[0]
    assert np.ndim(area(y, scores[:, 0])) == 0


def test_areas_that_are_equal_are_equal_to_the_last_digit():
    """Or ties between settings would be settled by rounding."""
    y = np.repeat([1, -1], [7, 13])
    scores = np.random.default_rng(0).normal(size=20)
    found = area(y, np.column_stack([scores, np.exp(scores), 1e9 + scores.argsort().argsort()]))
    assert len(set(found)) == 1


@pytest.mark.parametrize("offset", [-0.5, 0.0, 0.7, 100.0])
def test_judgement_on_the_test_rows(offset):
    parts = small_split(normals=100, anomalies=40)
    fitted = FittedMethod(lambda X: np.round(-np.abs(X).sum(axis=1), 1), offset - 1.5)
    rows = np.concatenate([parts.test, parts.sought])
    labels = np.repeat([1, -1], [10, 20])
    scores = fitted.score(rows)
    called_normal = scores >= fitted.offset
    judged = parts.judge(fitted)
    assert judged["auc"] == pytest.approx(100 * roc_auc_score(labels, scores))
    tpr, tnr = called_normal[:10].mean(), (~called_normal[10:]).mean()
    assert judged["g_mean"] == pytest.approx(100 * sqrt(tpr * tnr))
    assert judged["g_mean"] == 100 * g_mean(labels, np.where(called_normal, 1, -1))


def test_a_score_on_the_threshold_is_normal():
    parts = small_split()
    judged = parts.judge(
        FittedMethod(lambda X: np.where(np.isin(X, parts.test).all(axis=1), 1, 0), 1.0)
    )
    assert judged == {"auc": 100.0, "g_mean": 100.0}


def test_the_threshold_has_the_best_g_mean_on_validation():
    training = small_split().training("pure")
    scores = -np.abs(training.validation).sum(axis=1)
    offset = threshold(training, scores)
    tried = {
        value: g_mean(training.labels, np.where(scores >= value, 1, -1))
        for value in (offset, *scores, scores.max() + 1)
    }
    assert tried[offset] == max(tried.values())
    assert offset == best_g_mean(training.labels, scores)[1]


# --------------------------------------------------------------------- the test rows settle nothing


def everything_within(start):
    """All arrays that an object holds, in whatever it holds."""
    seen, queue, found = set(), [start], []
    while queue:
        thing = queue.pop()
        if id(thing) in seen or isinstance(thing, ModuleType | type):
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            found.append(thing)
        if isinstance(thing, FunctionType):  # not the module that it is defined in
            queue += [thing.__closure__, thing.__defaults__, thing.__dict__]
        else:
            queue += get_referents(thing)
    return found


def secrets_in(found, parts):
    """Arrays that hold a row of the test."""
    secret = {row.tobytes() for row in (*parts.test, *parts.sought)}
    for array in found:
        like_features = array.dtype == np.float64 and array.shape[1:] == parts.test.shape[1:]
        if any(np.shares_memory(array, part) for part in (parts.test, parts.sought)) or (
            like_features and secret & {row.tobytes() for row in array}
        ):
            yield array


LIGHT = [*LEARNERS, "best single", "sum", "ℓp", "templates", "dynamic"]


@pytest.mark.parametrize("setting", SETTINGS)
def test_training_data_hold_no_test_row_even_after_judgement(setting):
    parts = small_split(columns=3)
    training = parts.training(setting)
    assert not list(secrets_in(everything_within(training), parts))
    for name in LIGHT:
        parts.judge(METHODS[name](training))
    found = everything_within(training)
    assert len(found) > 20, "nothing was looked through"
    assert any(np.shares_memory(array, parts.train) for array in found)
    assert not list(secrets_in(found, parts))


def test_the_search_for_test_rows_can_find_them():
    parts = small_split()
    row = parts.test[1:2].copy()
    parts.cache["method"] = [{"deep": lambda X: X - row}]
    assert len(list(secrets_in(everything_within(parts.training("pure")), parts))) == 1


def test_training_data_are_the_same_whatever_the_test():
    parts = small_split()
    for changes in ({"test": parts.test + 9}, {"test": parts.sought, "sought": parts.test}):
        for setting in SETTINGS:
            honest, other = parts.training(setting), replace(parts, **changes).training(setting)
            for field in fields(honest):
                one, two = (getattr(training, field.name) for training in (honest, other))
                assert one is two or np.array_equal(one, two), field.name


@pytest.fixture(scope="module")
def splits():
    """One split three times: honest, with exchanged labels of the test, with garbage in it."""
    parts = small_split(normals=40, anomalies=16)
    rng = np.random.default_rng(1)
    garbage = {name: rng.normal(3, 9, getattr(parts, name).shape) for name in ("test", "sought")}
    swapped = {"test": parts.sought, "sought": parts.test}
    return [parts, without_cache(parts, **swapped), without_cache(parts, **garbage)]


@pytest.fixture
def saplings(monkeypatch):
    plant_saplings(monkeypatch)


def learnt(method, parts, settings):
    """What a method settles, judged on the way as in a real run; and how it is judged."""
    probe = np.random.default_rng(2).normal(size=(12, parts.train.shape[1]))
    settled, judged = [], []
    for setting in settings:
        fitted = method(parts.training(setting))
        judged.append(parts.judge(fitted))
        settled.append((fitted.offset, fitted.choices, fitted.score(probe).tolist()))
    return settled, judged


# They fit many learners for each of three splits; the others are there to fail at once.
SLOW = {"iterative", "bagged SVMs", "dynamic bootstraps", "genetic"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name
        for name in (*METHODS, *NON_PURE)
    ],
)
def test_no_row_of_the_test_settles_anything(name, splits, saplings):
    method = {**METHODS, **NON_PURE}[name]
    chances = SETTINGS if name in METHODS else SETTINGS[1:]
    (settled, judged), *others = (learnt(method, parts, chances) for parts in splits)
    assert [found for found, _ in others] == [settled, settled]
    (_, mirrored), (_, garbled) = others
    assert garbled != judged, "the corruption does not reach the judge"
    for one, two in zip(judged, mirrored, strict=True):
        assert two["auc"] == pytest.approx(100 - one["auc"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["SVDD", "KPCA", "best single", "sum", "ℓp", "lpfuse, validated"])
def test_labels_of_validation_do_settle_things(name, saplings):
    """So that the test above can fail: what validation says is heard."""
    training = small_split(replace(THIN, rhos=(1.0, 40.0)), normals=80).training("pure")
    flipped = without_cache(training, labels=-training.labels)
    assert METHODS[name](training).choices != METHODS[name](flipped).choices


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["GMM", "sum", "ℓ2", "dynamic bootstraps", "lpfuse, defaults"])
def test_thresholds_come_from_validation(name, splits, saplings):
    training = without_cache(splits[0].training("pure"))
    moved = without_cache(training, labels=-training.labels)
    assert METHODS[name](training).offset != METHODS[name](moved).offset
