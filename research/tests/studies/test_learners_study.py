"""The study of the learners: its splits, its options, and what its tables say."""

import json
import warnings

import numpy as np
import pytest

from helpers.cases import cases
from lpfuse import SVDD, KernelPCADetector
from research.common.splits import study_split
from research.studies.learners import approximation, approximation_tables, options, study, tables
from research.studies.learners.options import OPTIONS, PAPER, SETTINGS, YARDSTICKS, Option, width

NU_SMALL = PAPER["SVDD"].but(nu=0.05)
NU_LARGE = PAPER["SVDD"].but(nu=0.5)


@pytest.fixture
def rows():
    """Normals with their number in the first column, anomalies with minus their number."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(100, 3)), rng.normal(3, 1, size=(30, 3))])
    X[:, 0] = np.r_[np.arange(1, 101), -np.arange(1, 31)]
    return X, np.repeat([False, True], [100, 30])


@pytest.fixture
def parts(rows):
    X, is_anomaly = rows
    return study_split(X[:, 1:], is_anomaly, 0, most_train=60, most_test=750)


def test_parts_share_no_row_and_training_rows_decide_the_scale(rows):
    X, is_anomaly = rows
    parts = study_split(X, is_anomaly, 1, most_train=50, most_test=750)
    assert parts.train.shape == (50, 3)
    assert parts.train.mean(axis=0) == pytest.approx(0, abs=1e-12)
    assert parts.train.std(axis=0) == pytest.approx(1)
    assert len(parts.anomalies) == 30
    assert len(parts.test) == 30
    # The first column, scaled back, numbers the rows: 1 … 100 are normal, the others anomalies.
    step = np.diff(np.sort(np.r_[parts.train[:, 0], parts.tested[:, 0]])).min()
    numbers = np.r_[parts.train[:, 0], parts.tested[:, 0]] / step
    assert len(np.unique(numbers.round())) == 50 + 30 + 30
    assert parts.train[:, 0].min() > parts.anomalies[:, 0].max()


def test_auc_is_high_where_normal_rows_score_high(parts):
    assert parts.auc(np.repeat([0.0, -1.0], [len(parts.test), len(parts.anomalies)])) == 100


def test_other_seeds_draw_other_rows(rows):
    limits = {"most_train": 50, "most_test": 750}
    train = [study_split(*rows, seed, **limits).train[:, 1] for seed in (0, 0, 1)]
    assert (train[0] == train[1]).all()
    assert (train[0] != train[2]).any()


def test_a_width_is_a_multiple_of_a_rule(parts):
    spread = parts.train.shape[1] * parts.train.var()
    assert width("scale", parts.train) == pytest.approx(1 / spread)
    assert width("0.3 scale", parts.train) == pytest.approx(0.3 / spread)
    assert width("3 median", parts.train) == pytest.approx(3 * width("median", parts.train))


def test_options_are_the_product_of_settings_and_then_the_yardsticks():
    sizes = [np.prod([len(v) for v in settings.values()]) for settings in SETTINGS.values()]
    assert len(OPTIONS) == len(set(OPTIONS)) == sum(sizes) + len(YARDSTICKS)
    assert [option.learner for option in OPTIONS[-len(YARDSTICKS) :]] == list(YARDSTICKS)
    assert set(PAPER.values()) <= set(OPTIONS)


def test_every_option_is_a_detector_with_those_settings(parts):
    for option in OPTIONS:
        parameters = options.make_detector(option, parts.train, seed=0).get_params()
        for name, value in option.settings:
            expected = width(value, parts.train) if name == "gamma" else value
            assert parameters[name] == expected


def test_aucs_come_in_the_order_of_the_options(parts):
    few = (
        NU_LARGE, PAPER["GMMDetector"], PAPER["KernelPCADetector"], NU_SMALL,
        PAPER["OneClassGP"].but(score_type="variance"), Option("LocalOutlierFactor"),
    )  # fmt: skip
    alone = [options.make_detector(option, parts.train, seed=0).fit(parts.train) for option in few]
    expected = [parts.auc(detector.score_samples(parts.tested)) for detector in alone]
    assert study.aucs_of(parts, 0, few) == pytest.approx(expected)
    assert len(set(expected)) > 3  # or the order could not be told


def test_widths_with_a_warning_are_named(parts):
    far_apart = np.random.default_rng(0).normal(size=(50, 30))
    assert study.warned_widths(parts.train) == []
    assert study.warned_widths(far_apart) == ["10 scale", "30 scale"]


def test_the_header_lists_every_option_as_it_is_read_back(tmp_path):
    path = tmp_path / "learners.jsonl"
    record = {"set": "a", "seed": 0, "auc": list(range(len(OPTIONS)))}
    about = {"versions": {}, **study.about()}
    path.write_text(f"{json.dumps(about)}\n{json.dumps(record)}\n")
    assert tables.read_aucs(path) == {option: {"a": i} for i, option in enumerate(OPTIONS)}


def test_records_are_read_back_as_means_over_seeds(tmp_path):
    stored = [
        {
            "versions": {},
            "options": [["SVDD", {"gamma": "scale", "nu": 0.1}], ["OneClassSVM", {}]],
        },
        {"set": "a", "seed": 0, "warned": ["scale"], "auc": [80.0, 70.0]},
        {"set": "a", "seed": 1, "warned": [], "auc": [90.0, 70.0]},
        {"set": "b", "seed": 0, "warned": ["scale"], "auc": [60.0, 65.0]},
    ]
    path = tmp_path / "learners.jsonl"
    path.write_text("\n".join(map(json.dumps, stored)))
    aucs = tables.read_aucs(path)
    assert aucs == {
        PAPER["SVDD"]: {"a": 85.0, "b": 60.0},
        Option("OneClassSVM"): {"a": 70.0, "b": 65.0},
    }
    assert "| of 3 fits | 0 | 0 | 0 | 0 | 2 |" in tables.warnings_table(path)


def test_sets_with_fewer_rows_than_features_are_left_out():
    assert approximation.has_enough_rows(np.repeat([False, True], [48, 9]))  # 33 train
    assert not approximation.has_enough_rows(np.repeat([False, True], [47, 9]))  # 32


def test_comparison_counts_sets():
    ours = {"a": 90.0, "b": 80.0, "c": 70.0, "d": 60.0}
    theirs = {"a": 85.0, "b": 80.0, "c": 72.0, "d": 50.0}
    means, wins, extremes = ["75.0", "71.8"], "2 : 1", "-2.0, +10.0"
    assert tables.compare(ours, theirs)[:4] == [*means, wins, extremes]
    assert tables.compare(ours, ours)[2:] == ["0 : 0", "+0.0, +0.0", "1"]


def test_a_set_does_not_influence_its_own_choice():
    aucs = {
        NU_SMALL: {"a": 100.0, "b": 50.0, "c": 50.0},
        NU_LARGE: {"a": 55.0, "b": 60.0, "c": 60.0},
    }
    # Over all sets NU_SMALL leads, but only because of "a", where it then must not be chosen.
    assert tables.left_out(aucs, list(aucs)) == {"a": 55.0, "b": 50.0, "c": 50.0}


def test_related_sets_count_once():
    by_set = {"cardio": 90.0, "Pima": 60.0, "Cardiotocography": 80.0, "landsat": 50.0}
    assert tables.once({NU_SMALL: by_set}) == {
        NU_SMALL: {"Cardiotocography": 85.0, "Pima": 60.0, "landsat": 50.0}
    }


def test_report_of_all_options_names_the_best():
    aucs = {option: {"a": 70.0, "b": 60.0 + i / 100} for i, option in enumerate(OPTIONS)}
    text = tables.report(aucs)
    assert "over 2 sets" in text
    best = [option for option in OPTIONS if option.learner == "SVDD"][-1]
    assert f"| {best} | " in text


@cases("learner", approximation.LEARNERS)
@cases("way", ["nystroem", "rows"])
def test_all_rows_approximate_perfectly(parts, learner, way):
    n = len(parts.train)
    exact, scores = (
        approximation.scores_of(parts, learner, 0.5, *choice) for choice in ((), (way, n))
    )
    tolerance = 0.02 if learner == "SVDD" else 1e-6  # libsvm stops at 1e-3
    assert np.abs(scores - exact).max() <= tolerance * np.ptp(exact)


def test_fewer_rows_are_an_exact_learner_of_those(parts):
    scores = approximation.scores_of(parts, "KPCA", 0.5, "rows", 20, seed=3)
    chosen = np.random.default_rng(3).choice(len(parts.train), 20, replace=False)
    expected = KernelPCADetector(gamma=0.5, approximation=None).fit(parts.train[chosen])
    assert scores == pytest.approx(expected.score_samples(parts.tested))


def test_drawn_landmarks_are_rows(parts):
    make = approximation.with_drawn_rows(SVDD)
    detector = make(gamma=0.1, approximation="nystroem", n_components=5, random_state=0)
    anchors = detector.fit(parts.train).features_.basis.anchors
    assert len(anchors) == 5
    assert set(map(tuple, anchors)) <= set(map(tuple, parts.train))


def test_no_more_features_than_rows(rows, monkeypatch):
    monkeypatch.setattr(approximation, "GAMMAS", ("scale",))
    sizes, ways = (16, 32, 64, 125), {"nystroem": 125, "drawn": 16}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        records = list(approximation.records_of(*rows, 0, sizes, ways))
    assert {record["n"] for record in records} == {70}
    lengths = {record["way"]: len(record["auc"]) for record in records}
    assert lengths == {"nystroem": 3, "drawn": 1}
    pairs = {(record["gamma"], record["learner"]) for record in records}
    assert len(pairs) == len(approximation.GAMMAS) * len(approximation.LEARNERS)


@pytest.fixture
def approximations():
    def record(name, way, aucs, correlations, seed=0):
        return {"set": name, "seed": seed, "n": 200, "gamma": "scale", "learner": "KPCA",
                "way": way, "exact": 80.0, "auc": aucs, "spearman": correlations}  # fmt: skip

    return [
        record("a", "drawn", [70.0, 79.0], [0.5, 0.9]),
        record("a", "drawn", [84.0, 81.0], [0.7, 0.9], seed=1),
        record("b", "drawn", [79.0], [0.8]),
        record("b", "fourier", [60.0], [0.1]),
        record("a", "nystroem", [82.0], [0.9]),
        record("b", "nystroem", [79.5], [0.75]),
    ]


def test_closeness_is_the_difference_to_exact(approximations):
    cell = approximation_tables.closeness(approximations, "KPCA", "drawn", 32, "auc")
    assert cell.by_set == {"a": [-10.0, 4.0], "b": [-1.0]}
    assert cell.mean == pytest.approx(-2.0)  # of the sets, -3 and -1
    assert cell.worst_set == ("a", -3.0)
    assert cell.worst_decile == pytest.approx(-8.2)
    ranks = approximation_tables.closeness(approximations, "KPCA", "drawn", 64, "spearman")
    assert ranks.by_set == {"a": [0.9, 0.9]}


def test_landmarks_are_compared_by_distance_from_exact(approximations):
    text = approximation_tables.landmarks(approximations)
    row = next(line for line in text.splitlines() if line.startswith("| KPCA | 32 |"))
    # |AUC − exact|: drawn rows 7 and 1, centres 2 and ½; rank correlation 0.6, 0.8 and 0.9, 0.75.
    assert row.startswith("| KPCA | 32 | 4.00, 1.25 | 2 : 0 |")
    assert "| 0.700, 0.825 | 1 : 1 |" in row
