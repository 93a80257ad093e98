"""Runs of the benchmark on tiny sizes: what is stored, and what is not measured twice."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from research.common.isolation import Stopped
from research.common.machine import commit_of
from research.common.store import read_records
from research.speed.rows import methods
from research.speed.rows import run as campaign
from research.speed.rows.__main__ import PARTS, QUICK, main, run_options
from research.speed.rows.methods import METHODS, Method
from research.speed.rows.results import ASKED
from research.speed.rows.versions import NOW, import_from, source_in

pytestmark = pytest.mark.filterwarnings("ignore")  # few rows, and rivals' own warnings

ROOT = Path(__file__).parents[4]


class InThisProcess:
    """Stands for `Isolated`: a fresh process for every cell would take the time of the test."""

    def __init__(self, quiet, threads, bench, *arguments, memory_limit):
        self.bench = bench(*arguments)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def call(self, method, *inputs, limit):
        return getattr(self.bench, method)(*inputs)


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr("gc.collect", lambda: 0)  # slow among all that a test session holds
    monkeypatch.setattr(campaign, "Isolated", InThisProcess)
    monkeypatch.setattr(campaign, "set_threads", lambda threads: None)


def options_for(part, path, *more, **changes):
    options = run_options([part, "--quick", "--out", str(path), *more])
    vars(options).update(changes)
    return options


def stored(path):
    return [r for r in read_records([path], ASKED) if r["kind"] != "environment"]


@pytest.mark.parametrize("part", ["budget", "one-row", "large"])
def test_quick_run_is_stored_and_not_repeated(part, here, tmp_path, capsys):
    path = tmp_path / "rows.jsonl"
    options = options_for(part, path, labels=[0], row_labels=[0])
    campaign.run(options)
    (record,) = stored(path)
    asked = (record["kind"], record["labels"], record["threads"], record["status"])
    assert asked == (part, 0, 1, "finished")
    capsys.readouterr()
    campaign.run(options)
    assert "finished" not in capsys.readouterr().out


def test_the_budget_has_times_for_whole_and_members(here, tmp_path):
    path = tmp_path / "rows.jsonl"
    campaign.run(options_for("budget", path, labels=[0], repeats=2))
    (record,) = stored(path)
    names = {"lpfuse", "gp", "knn", "knn subspaces", "knn samples", "histogram", "columns"}
    for clock in ("fit_seconds", "predict_seconds"):
        assert {name: len(found) for name, found in record[clock].items()} == dict.fromkeys(
            names, 2
        )
    assert record["row_seconds"].keys() == names
    assert record["experts"] == []


def test_one_row_agrees_with_its_onnx_form(here, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("skl2onnx")
    path = tmp_path / "rows.jsonl"
    campaign.run(options_for("one-row", path, row_labels=[0]))
    (record,) = stored(path)
    assert record["row_seconds"].keys() == {"score_samples", "predict", "onnx"}
    assert record["onnx_difference"] < 1e-5
    assert record["onnx_ratio"] > 0


@pytest.mark.slow
def test_every_part_reaches_the_page(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    few = QUICK | {"labels": [20], "row_labels": [0], "growth_n": [60]}
    monkeypatch.setattr("research.speed.rows.__main__.QUICK", few)
    for name in [*METHODS][2:]:
        monkeypatch.delitem(METHODS, name)
    # Two parts in processes of their own, which take seconds to start; the others in this one.
    main(["growth", "before", "--quick", "--out", str(path), "--before", str(ROOT)])
    monkeypatch.setattr(campaign, "Isolated", InThisProcess)
    monkeypatch.setattr(campaign, "set_threads", lambda threads: None)
    main(["budget", "one-row", "large", "samples", "--quick", "--out", str(path)])
    records = stored(path)
    assert {r["kind"] for r in records} == set(PARTS)
    assert {r["status"] for r in records} == {"finished"}
    page = tmp_path / "rows.md"
    main(["page", str(path), "-o", str(page)])
    assert "Nothing was measured yet" not in page.read_text()
    assert page.with_suffix(".png").stat().st_size > 1000


# ------------------------------------------------------------------------------------------ growth


def counted(calls, name, fails=lambda n: False):
    """A method that does nothing but count its fits, by number of rows."""

    def learn(training, seed):
        calls.append((name, len(training.rows), len(training.anomalies)))
        if fails(len(training.rows)):
            raise Stopped("time", "no answer")
        return lambda X: np.zeros(len(X))

    return learn


@pytest.fixture
def calls(monkeypatch):
    """Two made-up methods, of which one is too slow from 90 rows on."""
    made = []
    monkeypatch.setattr(campaign, "missing_methods", lambda: {"absent": "No module named absent"})
    for name in list(METHODS):
        monkeypatch.delitem(METHODS, name)
    monkeypatch.setitem(METHODS, "fast", Method(counted(made, "fast")))
    slow = counted(made, "slow", fails=lambda n: n >= 90)
    monkeypatch.setitem(METHODS, "slow", Method(slow, labels=0))
    monkeypatch.setitem(METHODS, "absent", Method(counted(made, "absent"), package="absent"))
    return made


def test_a_method_over_the_limit_is_not_tried_further(here, calls, tmp_path):
    path = tmp_path / "rows.jsonl"
    options = options_for("growth", path, growth_n=[60, 90, 120], repeats=1)
    campaign.run(options)
    small, middle, large = stored(path)
    assert small["fit_seconds"].keys() == {"fast", "slow"}
    assert middle["fit_seconds"].keys() == middle["predict_seconds"].keys() == {"fast"}
    assert [r["stopped"] for r in (small, middle, large)] == [{}, {"slow": "time"}, {}]
    assert large["missing"] == {"absent": "No module named absent"}
    assert ("slow", 120, 0) not in calls
    # A run that goes on knows it from the store.
    calls.clear()
    campaign.run(options_for("growth", path, growth_n=[150], repeats=1))
    assert ("fast", 150, 20) in calls
    assert {name for name, *_ in calls} == {"fast"}


def test_methods_take_turns_on_the_rows_of_one_size(here, calls, tmp_path):
    campaign.run(options_for("growth", tmp_path / "rows.jsonl", growth_n=[80], repeats=3))
    turns = [name for name, n, _ in calls if n == 80]
    assert turns == ["fast", "slow", "slow", "fast", "fast", "slow"]


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("XGBOD", "SUOD")])
def test_our_methods_learn_and_answer(name, monkeypatch):
    from research.speed.rows.data import Rows
    from research.speed.rows.members import drawn

    monkeypatch.setattr(methods, "FusedDetector", FakeFused)
    training = drawn(Rows(60, 7, METHODS[name].labels))
    answers = METHODS[name].learn(training, 0)(Rows(60, 7).unseen(5))
    assert np.shape(answers) == (5,)
    assert np.isfinite(answers).all()


class FakeFused:
    """The detector itself has tests of its own."""

    def __init__(self, random_state):
        pass

    def fit(self, X, y):
        assert (y > 0).all() == (len(X) == 60)  # the rows without labels are known to be normal
        return SimpleNamespace(predict=lambda rows: np.ones(len(rows)))


@pytest.mark.parametrize("name", ["XGBOD", "SUOD"])
def test_rivals_learn_and_answer(name, capsys):
    pytest.importorskip("pyod")
    pytest.importorskip(METHODS[name].package)
    from research.speed.rows.data import Rows
    from research.speed.rows.members import drawn

    training = drawn(Rows(60, 7, METHODS[name].labels))
    answers = METHODS[name].learn(training, 0)(Rows(60, 7).unseen(5))
    assert np.shape(answers) == (5,)
    assert capsys.readouterr().out == ""


# ------------------------------------------------------------------------------------------ before


class FakeVersion:
    """Says how long it took without doing anything."""

    turns: list[tuple[str, str]] = []

    def __init__(self, source, rows, predicted, single):
        self.name, self.seconds = ("now", 1.0) if source == NOW else ("before", 6.0)

    def fit(self):
        self.turns.append((self.name, "fit"))
        return self.seconds

    predict = row = fit


@pytest.fixture
def earlier(tmp_path):
    """A checkout with nothing but the package's name in it."""
    package = tmp_path / "earlier" / "packages" / "lpfuse" / "src" / "lpfuse"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    return tmp_path / "earlier"


def test_versions_take_turns_and_are_known_by_their_commit(
    here, earlier, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(campaign, "VersionBench", FakeVersion)
    monkeypatch.setattr(campaign, "commit_of", lambda folder: "abc")
    path = tmp_path / "rows.jsonl"
    options = options_for("before", path, "--before", str(earlier), repeats=2)
    campaign.run(options)
    (record,) = stored(path)
    assert record["before_commit"] == "abc"
    assert record["fit_seconds"] == {"now": [1.0, 1.0], "before": [6.0, 6.0]}
    assert "6.00×" in capsys.readouterr().out
    order = [name for name, _ in FakeVersion.turns[:4]]
    assert order == ["now", "before", "before", "now"]
    campaign.run(options)
    assert "finished" not in capsys.readouterr().out
    monkeypatch.setattr(campaign, "commit_of", lambda folder: "def")
    campaign.run(options)
    assert [record["before_commit"] for record in stored(path)] == ["abc", "def"]


def test_without_another_version_the_part_is_left_out(here, tmp_path, capsys):
    campaign.run(options_for("before", tmp_path / "rows.jsonl"))
    assert "left out" in capsys.readouterr().out
    assert stored(tmp_path / "rows.jsonl") == []


def test_a_version_is_found_in_checkout_and_source(earlier, tmp_path):
    source = earlier / "packages" / "lpfuse" / "src"
    assert source_in(earlier) == source_in(source) == source.resolve()
    assert source_in(ROOT) == NOW.resolve()
    with pytest.raises(FileNotFoundError, match="expected a checkout"):
        source_in(tmp_path)


def test_a_version_is_not_mistaken_for_one_that_was_imported(earlier):
    with pytest.raises(RuntimeError, match="before it was known"):
        import_from(source_in(earlier))


def test_a_folder_without_history_has_no_commit(tmp_path):
    assert commit_of(tmp_path) == "none"


def test_parts_can_be_named():
    assert run_options(["growth", "large"]).parts == ["growth", "large"]
    assert run_options([]).parts == list(PARTS)
    with pytest.raises(SystemExit):
        run_options(["pages"])
    assert run_options(["--quick"]).out != run_options([]).out
