"""Dirty rows and answers: splits as the protocol has them, who asks what, rows measured once."""

from collections import Counter
from hashlib import sha256

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest

from helpers.cases import cases
from research.studies.answers.methods import METHODS, Method, PoolRule, Rival, method_named
from research.studies.answers.protocols import ANSWERS, Question, answer, questions_for
from research.studies.answers.splits import COLLECTIONS, dirty_split
from research.studies.answers.study import Plan, measure_answers, read_answers
from research.studies.tables.splits import table_key


def made_up_set():
    """360 rows, every sixth an anomaly, without a random number."""
    i = np.arange(360.0)
    return np.column_stack([np.sin(7 * i), i * i % 101, i]), i % 6 == 5


def clouds(seed=0, normals=160, anomalies=40):
    rng = np.random.default_rng(seed)
    is_anomaly = rng.permutation(np.repeat([False, True], [normals, anomalies]))
    return rng.normal(size=(len(is_anomaly), 3)) + 3.0 * is_anomaly[:, None], is_anomaly


# ----------------------------------------------------------------------------------------- splits


@cases(
    ("seed", "rate", "digest"),
    [
        (0, 0.0, "7f6c52f92006097b"),
        (0, 0.01, "9fb96817c994f8b3"),
        (0, 0.05, "80a4eee779dfc702"),
        (0, 0.1, "63469a116cc94d15"),
        (1, 0.0, "5d41b3f83d35f5bd"),
        (1, 0.01, "6cd1c76dd19b819c"),
        (1, 0.05, "46da79c392b9ff0b"),
        (1, 0.1, "cea9c21204d8adc2"),
    ],
)
def test_rows_are_split_as_the_protocol_splits_them(seed, rate, digest):
    # Made with the script that the goals are told in: all parts, and what its generator draws next.
    *parts, rng = dirty_split(*made_up_set(), seed, rate)
    drawn = [*parts, rng.permutation(50) / 1e4]
    whole = [np.round(part * 1e4).astype(np.int64).tobytes() for part in drawn]
    assert sha256(b"".join(whole)).hexdigest()[:16] == digest


def test_at_most_half_of_the_anomalies_are_hidden():
    parts = dirty_split(*clouds(normals=400, anomalies=8), 0, 0.1)
    assert Counter(parts.truth) == {1: 200, -1: 4}
    assert len(parts.sought) == 4


def test_sets_are_drawn_evenly_in_the_order_of_their_files():
    names = COLLECTIONS["tables"]._replace(names=lambda: ["a", "a-b", "c", "d", "e"])
    assert names.some() == ["a-b", "a", "c", "d", "e"]  # a-b.npz comes before a.npz
    assert names.some(3) == ["a-b", "c", "e"]
    assert names.some(99) == names.some()


# -------------------------------------------------------------------------------------- protocols


class Recorder:
    """Low where the first feature is high; remembers what it was taught."""

    def __init__(self):
        self.taught = []

    def fit(self, X, y=None):
        self.taught.append(None if y is None else y.copy())
        return self

    def score_samples(self, X):
        return -X[:, 0]


class Asking(Recorder):
    """Asks about the first rows, with the chance ½."""

    def query(self, X, n_instances, return_chances=False):
        chosen = np.arange(n_instances)
        return (chosen, np.full(n_instances, 0.5)) if return_chances else chosen

    def teach(self, X, y, *, chances=None):
        self.taught.append((X, y, chances))
        return self


def measured(recorder, mode, protocol="answers", at=ANSWERS, **treated):
    method = Method(lambda seed: recorder, **treated)
    question = Question(protocol, mode, at, "recorder")
    return dict(answer(question, method, *clouds(), 0))


def test_the_lowest_scores_are_asked_about_and_answered_truly():
    recorder = Recorder()
    rows = measured(recorder, "lowest")
    parts = dirty_split(*clouds(), 0, 0.05)
    order = np.argsort(-parts.rows[:, 0])
    first, *later = recorder.taught
    assert first is None
    for known, n in zip(later, ANSWERS[1:], strict=True):
        expected = np.zeros(len(parts.rows), int)
        expected[order[:n]] = parts.truth[order[:n]]
        np.testing.assert_array_equal(known, expected)
        assert rows[n]["found"] == (expected < 0).sum()
    assert list(rows) == list(ANSWERS)
    assert "hits" not in rows[0]  # without a threshold


def test_at_random_all_methods_are_asked_the_same():
    one, other = Recorder(), Asking()
    measured(one, "random")
    measured(other, "random")
    for mine, theirs in zip(one.taught[1:], other.taught[1:], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert [np.count_nonzero(known) for known in one.taught[1:]] == list(ANSWERS[1:])


def test_a_detector_asks_by_its_own_rule():
    recorder = Asking()
    measured(recorder, "own")
    np.testing.assert_array_equal(np.flatnonzero(recorder.taught[-1]), np.arange(40))


def test_a_detector_is_taught_with_the_chances_of_asking():
    recorder = Asking()
    measured(recorder, "taught")
    parts = dirty_split(*clouds(), 0, 0.05)
    assert len(recorder.taught) == 5
    X, y, chances = recorder.taught[2]  # the second round
    np.testing.assert_array_equal(X, parts.rows[5:10])
    np.testing.assert_array_equal(y, parts.truth[5:10])
    np.testing.assert_array_equal(chances, np.full(5, 0.5))


def test_sessions_learn_from_each_answer():
    recorder = Recorder()
    rows = measured(recorder, "one by one", keeps=True)
    assert [np.count_nonzero(known) for known in recorder.taught[1:]] == list(range(1, 41))
    assert list(rows) == list(ANSWERS)


def test_what_learns_nothing_is_fitted_once():
    recorder = Recorder()
    rows = measured(recorder, "lowest", learns=False)
    assert len(recorder.taught) == 1
    assert len({row["auc"] for row in rows.values()}) == 1


def test_flagged_rows_are_counted():
    class Half(Recorder):
        def predict(self, X):
            return np.where(X[:, 0] > 0, -1, 1)

    row = measured(Half(), "dirty", "dirty", (0.1,))[0.1]
    parts = dirty_split(*clouds(), 0, 0.1)
    assert row["false_alarms"] == round(100 * (parts.test[:, 0] > 0).mean(), 3)
    assert row["hits"] == round(100 * (parts.sought[:, 0] > 0).mean(), 3)


def test_labels_beside_hidden_anomalies():
    recorder = Recorder()
    measured(recorder, "contaminated", "contaminated", (5,))
    assert Counter(recorder.taught[0]) == {0: 126, -1: 5}
    assert measured(recorder, "contaminated", "contaminated", (100,)) == {}  # 14 stand for 20


def test_methods_are_asked_what_they_can_answer():
    def asked(protocol, method):
        return [(q.mode, *q.at) for q in questions_for(protocol, "name", method)]

    plain = Method(lambda seed: Recorder())
    assert asked("dirty", plain._replace(needs_answers=True)) == []
    assert [at for _, at in asked("contaminated", plain._replace(needs_answers=True))] == [
        5, 20, 100,
    ]  # fmt: skip
    assert [at for _, at in asked("contaminated", plain._replace(learns=False))] == [0]
    modes = {
        "lowest random": plain,
        "lowest": plain._replace(learns=False),
        "one by one lowest random": plain._replace(keeps=True),
        "own taught lowest random": Method(lambda seed: Asking()),
    }
    for expected, method in modes.items():
        assert " ".join(mode for mode, *_ in asked("answers", method)) == expected


# ---------------------------------------------------------------------------------------- methods


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("iterative", "XGBOD")])
@pytest.mark.filterwarnings("ignore::UserWarning")  # few labels: experts stay away
def test_a_method_scores_normal_rows_higher(name):
    pytest.importorskip(METHODS[name].package)
    parts = dirty_split(*clouds(), 0, 0.1)
    known = np.where(np.arange(len(parts.rows)) < 60, parts.truth, 0)
    assert Counter(known)[-1] >= 2
    detector = METHODS[name].make(0).fit(parts.rows)
    if METHODS[name].learns:
        detector = METHODS[name].make(0).fit(parts.rows, known)
    scores = [detector.score_samples(part).mean() for part in (parts.test, parts.sought)]
    assert scores[0] > scores[1]


def test_a_classifier_is_an_isolation_forest_without_known_anomalies():
    parts = dirty_split(*clouds(), 0, 0.1)
    forest = IsolationForest(random_state=0).fit(parts.rows)
    known = np.where(parts.truth > 0, 1, 0)
    for y in (None, known):
        rival = Rival("ExtraTrees", 0).fit(parts.rows, y)
        np.testing.assert_array_equal(
            rival.score_samples(parts.test), forest.score_samples(parts.test)
        )
        np.testing.assert_array_equal(rival.predict(parts.test), forest.predict(parts.test))
    rival = Rival("ExtraTrees", 0).fit(parts.rows, parts.truth)
    scores = rival.score_samples(parts.test)
    assert 0 <= scores.min() <= scores.max() <= 1
    np.testing.assert_array_equal(rival.predict(parts.test), np.where(scores < 0.5, -1, 1))


def test_a_pyod_rule_flags_a_tenth_of_normal_rows():
    parts = dirty_split(*clouds(normals=600), 0, 0.0)
    rules = {rule: PoolRule(rule, 0).fit(parts.rows) for rule in ("sum", "min")}
    for rule in rules.values():
        assert 0.05 < (rule.predict(parts.test) < 0).mean() < 0.16
    found = [rule.score_samples(parts.sought) for rule in rules.values()]
    assert (5 * found[1] <= found[0] + 1e-9).all()  # R · min ≤ sum


def test_a_name_that_nobody_knows():
    with pytest.raises(ValueError, match=r"no method 'PineTree'.*PineForest.*module:function"):
        method_named("PineTree")


# ------------------------------------------------------------------------------------------- rows


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for collection, names in {"anomaly": ["Stamps", "Wilt"], "tables": ["odd-A", "ovr-c"]}.items():
        (tmp_path / collection).mkdir()
        for seed, name in enumerate(names):
            X, is_anomaly = clouds(seed, 120, 30)
            np.savez(tmp_path / collection / f"{name}.npz", X=X, y=is_anomaly.astype(int))
    monkeypatch.setenv("LPFUSE_DATA", str(tmp_path))
    return tmp_path


def test_rows_are_measured_once_and_go_on(folder):
    path = folder / "rows.jsonl"
    plan = Plan("dirty", ("isolation forest",), seeds=2)
    measure_answers(plan, path)
    written = path.read_text()
    asked = Counter((row["set"], row["at"]) for row in read_answers([path]))
    assert asked == {(s, r): 2 for s in ("Stamps", "Wilt") for r in (0.0, 0.01, 0.05, 0.1)}
    measure_answers(plan, path)
    assert path.read_text() == written
    lines = written.splitlines(keepends=True)
    path.write_text("".join(lines[:-3]))
    measure_answers(plan, path)
    assert len(path.read_text().splitlines()) == len(lines)


def test_a_run_of_answers_is_measured_whole(folder, monkeypatch):
    path = folder / "rows.jsonl"
    monkeypatch.setitem(METHODS, "recorder", Method(lambda seed: Recorder()))
    plan = Plan("answers", ("recorder",), most=1)
    measure_answers(plan, path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))  # 40 answers at random are lost
    measure_answers(plan, path)
    rows = read_answers([path])
    assert Counter(row["mode"] for row in rows) == {"lowest": 5, "random": 5}
    assert [row["found"] for row in rows if row["at"] == 0] == [0, 0]


def test_tables_are_not_named(folder):
    path = folder / "rows.jsonl"
    for protocol in ("dirty", "answers", "contaminated"):
        measure_answers(Plan(protocol, ("isolation forest",), "tables"), path)
    rows = read_answers([path])
    assert {row["set"] for row in rows} == {table_key("odd-A"), table_key("ovr-c")}
    assert {row["kind"] for row in rows} == {"dirty", "answers", "contaminated"}
    assert "odd-A" not in path.read_text()


def test_a_failure_is_told_and_tried_again(folder, monkeypatch, capsys):
    def broken(seed):
        raise MemoryError("too many rows")

    path = folder / "rows.jsonl"
    monkeypatch.setitem(METHODS, "broken", Method(broken))
    plan = Plan("dirty", ("broken", "isolation forest"), most=1)
    measure_answers(plan, path)
    assert "broken failed on Stamps: MemoryError: too many rows" in capsys.readouterr().err
    assert {row["method"] for row in read_answers([path])} == {"isolation forest"}
    monkeypatch.setitem(METHODS, "broken", Method(lambda seed: Recorder()))
    measure_answers(plan, path)
    assert {row["method"] for row in read_answers([path])} == {"isolation forest", "broken"}


def test_a_missing_package_leaves_its_method_out_with_a_word(folder, monkeypatch, capsys):
    absent = Method(lambda seed: Recorder(), "no_such_package")
    monkeypatch.setitem(METHODS, "absent", absent)
    measure_answers(Plan("dirty", ("absent",)), folder / "rows.jsonl")
    assert "absent is left out: no_such_package is not installed." in capsys.readouterr().err


def test_only_some_ways_to_ask():
    plan = Plan("answers", ("ExtraTrees",), modes=("random",))
    assert [question.mode for question in plan.questions()] == ["random"]
