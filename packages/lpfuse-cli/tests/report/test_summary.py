import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import spearmanr
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers.pools import Distance, both, normal_rows
from helpers.reports import fitted
from lpfuse import SVDD, FixedRule, FusedDetector, LpFusion, TailScaler
from lpfuse.adapters import ScoreFunction
from lpfuse_cli.fitting import fit_table
from lpfuse_cli.report import figures, summarise
from lpfuse_cli.report.measures import POINTS
from lpfuse_cli.report.summary import BINS

KEYS = [
    "headline",
    "overview",
    "remarks",
    "words",
    "created",
    "files",
    "judged_on",
    "fusion",
    "equal_weights",
    "comparisons",
    "detectors",
    "path",
    "grid",
    "certificate",
    "threshold",
    "left_range",
    "alarms",
    "alarm_list",
    "scores",
    "calibration",
    "correlation",
    "strangest",
    "data",
    "settings",
    "versions",
]


def unchanging(summary):
    return {key: value for key, value in summary.items() if key != "created"}


# -------------------------------------------------------------------------------------- as a whole


@pytest.mark.filterwarnings("ignore:.*cannot hold false alarms")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"contamination": 0.1},
        {"threshold": "g-mean"},
        {"fusion": LpFusion(p=float("inf"), class_weight="balanced")},
        {"false_alarm_rate": 0.001},  # too few rows: the threshold is minus infinity
    ],
)
def test_everything_is_json(rows, fresh, options):
    fused = fitted(*rows, **options)
    for found in (summarise(fused), summarise(fused, *fresh), summarise(fused, fresh[0])):
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        assert list(found) == KEYS


def test_the_same_model_gives_the_same_summary(labelled, summary):
    assert unchanging(summarise(labelled)) == unchanging(summary)


def test_a_model_that_was_saved_gives_the_same_summary(rows, tmp_path):
    import lpfuse

    fused = FusedDetector([("svdd", SVDD())], random_state=0).fit(*rows)
    fused.save(tmp_path / "model.lpfuse")
    assert unchanging(summarise(lpfuse.load(tmp_path / "model.lpfuse"))) == unchanging(
        summarise(fused)
    )


def test_only_what_is_fitted_has_a_summary():
    with pytest.raises(NotFittedError):
        summarise(FusedDetector())


def test_only_fused_detectors_have_a_summary(labelled):
    with pytest.raises(TypeError, match="got Pipeline"):
        summarise(make_pipeline(StandardScaler(), labelled))


def test_curves_are_small(labelled):
    X, y = both(n=2000, anomalies=1000, seed=3)
    found = summarise(labelled, X, y)
    for entry in (found["fusion"], *found["detectors"], *found["path"]):
        for curve in ("roc", "pr"):
            assert len(entry[curve][0]) == len(entry[curve][1]) <= POINTS
    assert len(json.dumps(found)) < 300_000


# ------------------------------------------------------------------------------------- what it says


def test_weights_and_certificate_are_the_models(labelled, summary):
    assert [entry["weight"] for entry in summary["detectors"]] == labelled.weights_.tolist()
    shares = [entry["share"] for entry in summary["detectors"]]
    assert shares == pytest.approx(labelled.weights_ / labelled.weights_.sum())
    assert [entry["name"] for entry in summary["detectors"]] == labelled.detector_names_
    assert summary["certificate"]["relative_gap"] == labelled.certificate_.relative_gap
    for entry in summary["path"]:
        assert np.abs(entry["shares"]).sum() == pytest.approx(1, abs=1e-6)
        assert entry["certificate"]["relative_gap"] <= 1e-7


def test_the_best_detector_and_equal_weights_are_the_rivals(summary):
    best, equal = summary["comparisons"]
    aucs = {entry["name"]: entry["auc"] for entry in summary["detectors"]}
    assert best["name"] == max(aucs, key=aucs.get)
    assert best["gain"] == pytest.approx(summary["fusion"]["auc"] - max(aucs.values()))
    assert equal["gain"] == pytest.approx(
        summary["fusion"]["auc"] - summary["equal_weights"]["auc"]
    )


def test_counts_of_the_threshold_are_decisions(labelled, fresh):
    X, y = fresh
    found = summarise(labelled, X, y)
    flagged = labelled.predict(X) < 0
    assert found["threshold"]["value"] == labelled.offset_
    assert found["threshold"]["flagged"] == {
        name: int(flagged[y == side].sum())
        for name, side in {"normal": 1, "anomalies": -1, "unlabelled": 0}.items()
    }


def test_histograms_hold_every_row_once(labelled, fresh):
    X, y = fresh
    found = summarise(labelled, X, y)
    scores = labelled.score_samples(X)
    edges = found["scores"]["edges"]
    assert len(edges) == BINS + 1
    assert (edges[0], edges[-1]) == pytest.approx((scores.min(), scores.max()))
    for name, side in {"normal": 1, "anomalies": -1, "unlabelled": 0}.items():
        assert sum(found["scores"][name]) == found["judged_on"][name] == (y == side).sum()


def test_histograms_of_long_tails_leave_room_for_the_usual_rows(rows, fresh):
    heavy = fitted(*rows, scaler=TailScaler(), fusion=FixedRule())
    X, y = fresh
    far = X.copy()
    far[3] = 1e4
    found, scores = summarise(heavy, far, y)["scores"], heavy.score_samples(far)
    edges, width = np.array(found["edges"]), found["linear_width"]
    usual = scores[scores >= heavy.offset_]
    assert width == pytest.approx(np.abs(usual).mean())
    np.testing.assert_allclose(np.ptp(np.diff(np.arcsinh(edges / width))), 0, atol=1e-6)
    assert (edges[0], edges[-1]) == pytest.approx((scores.min(), scores.max()))
    counts = np.array([found[kind] for kind in ("normal", "anomalies", "unlabelled")]).sum(axis=0)
    assert counts.sum() == len(far)
    assert (counts > 0).sum() > 5  # on a linear axis all rows but one would share two bins
    assert (np.histogram(scores, BINS)[0] > 0).sum() == 2


def test_histograms_of_short_tails_are_not_bent(labelled, fresh):
    found = summarise(labelled, *fresh)["scores"]
    assert found["linear_width"] is None
    np.testing.assert_allclose(np.ptp(np.diff(found["edges"])), 0, atol=1e-7)


def test_false_alarms_are_measured_on_normal_rows(labelled, fresh):
    X, y = fresh
    pvalues = labelled.pvalues(X[y > 0])
    for entry in summarise(labelled, X, y)["calibration"]:
        assert entry["measured"] == pytest.approx((pvalues <= entry["asked"] + 1e-9).mean())
        assert entry["low"] <= entry["measured"] <= entry["high"]


def test_the_rate_that_was_asked_for_is_among_the_measured(rows):
    found = summarise(fitted(*rows, false_alarm_rate=0.123))
    assert 0.123 in [entry["asked"] for entry in found["calibration"]]


def test_false_alarms_out_of_fold_are_about_as_asked():
    found = summarise(fitted(normal_rows(400)))
    for entry in found["calibration"]:
        assert entry["low"] - 0.02 <= entry["asked"] <= entry["high"] + 0.02


def test_correlation_is_of_normal_rows(labelled, fresh):
    X, y = fresh
    found = summarise(labelled, X, y)["correlation"]
    expected = spearmanr(labelled.detector_scores(X[y > 0])).statistic
    assert found["rows"] == "normal"
    assert np.array(found["values"]) == pytest.approx(expected, abs=1e-4)


def test_correlation_out_of_fold_is_of_places_in_a_fold(summary):
    values = np.array(summary["correlation"]["values"])
    assert (np.diag(values) == 1).all()
    assert values[0, 2] > values[2, 3]  # these share columns, those do not


def test_without_anomalies_nothing_is_judged(pure):
    found = summarise(pure)
    assert found["comparisons"] == []
    assert found["fusion"]["auc"] is found["detectors"][0]["roc"] is None
    assert found["path"][0]["auc"] is None
    assert "is labelled an anomaly" in found["words"]["fusing"][0]
    assert found["calibration"]
    assert len(found["path"][0]["weights"]) == 4


def test_without_labels_nothing_is_known_of_the_rows(labelled, fresh):
    found = summarise(labelled, fresh[0])
    assert found["judged_on"]["unlabelled"] == found["judged_on"]["rows"] == 75
    assert found["calibration"] == []
    assert found["correlation"]["rows"] == "all"
    assert {row["label"] for row in found["strangest"]} == {0}


@pytest.mark.filterwarnings("ignore:.*cannot hold false alarms")
def test_infinity_has_a_name(rows):
    found = summarise(fitted(*rows, false_alarm_rate=0.001))
    assert found["threshold"]["value"] == "-inf"
    assert found["strangest"][0]["margin"] == "inf"
    scores = [row["score"] for row in found["strangest"]]
    assert scores == sorted(scores)
    assert scores[0] == pytest.approx(found["scores"]["edges"][0])
    assert found["path"][-1]["p"] == "inf"
    assert found["path"][-1]["label"] == "∞"
    assert sum(found["threshold"]["flagged"].values()) == 0


# --------------------------------------------------------------------------------- strangest rows


def test_strangest_rows_come_first_with_what_makes_them_strange(labelled, fresh, columns):
    X, y = fresh
    X = X.copy()
    X[11] = [0.0, 900.0, 0.0, 0.0]
    found = summarise(labelled, X, y, names=columns)["strangest"]
    assert found[0]["row"] == 11
    reason = found[0]["reasons"][0]
    assert (reason["name"], reason["value"], reason["held"]) == ("feature 1", 900.0, "900")
    margins = [row["margin"] for row in found]
    assert margins == sorted(margins)
    for row in found:
        assert row["score"] == pytest.approx(sum(row["contributions"]), abs=1e-6)
        assert row["score"] == pytest.approx(labelled.score_samples(X)[row["row"]])
        assert row["label"] == y[row["row"]]


def test_reasons_are_shapley_values_of_what_the_model_says(labelled, fresh):
    X, y = fresh
    normal = labelled.rows_.values[labelled.held_out_.labels > 0]
    low, high = np.quantile(normal, [0.05, 0.95], axis=0)
    for row in summarise(labelled, X, y)["strangest"]:
        exact = labelled.explain(X[[row["row"]]], background=normal, n_permutations="all")
        pushes = [reason["push"] for reason in row["reasons"]]
        assert pushes == sorted(pushes)
        for reason in row["reasons"]:
            j = int(reason["name"].split()[-1])
            assert reason["push"] + 2 * reason["error"] < 0
            assert abs(reason["push"] - exact.values[0, j]) < 6 * reason["error"]
            assert reason["value"] == pytest.approx(X[row["row"], j])
            assert reason["usual"] == pytest.approx({"low": low[j], "high": high[j]})


def test_columns_that_no_detector_sees_are_no_reason(rows):
    X, y = rows
    X = np.column_stack([X, np.ones(len(X)), np.r_[100.0, np.zeros(len(X) - 1)]])
    alone = [("far", Distance(), [0, 1, 2, 3])]
    found = summarise(fitted(X, y, alone), X, y)["strangest"]
    told = {reason["name"] for row in found for reason in row["reasons"]}
    assert told
    assert told <= {f"column {j}" for j in range(4)}


def test_out_of_fold_rows_have_no_reasons(summary):
    assert {row["reasons"] is None for row in summary["strangest"]} == {True}


# ---------------------------------------------------------------------------------------- the input


@pytest.mark.parametrize("kind", [pd.DataFrame, lambda X, columns: pl.DataFrame(X, schema=columns)])
def test_data_frames_bring_their_names(rows, fresh, columns, kind):
    frame = kind(rows[0], columns=columns) if kind is pd.DataFrame else kind(rows[0], columns)
    fused = fitted(frame, rows[1], [("far", Distance(), columns[:2])])
    new = kind(fresh[0], columns=columns) if kind is pd.DataFrame else kind(fresh[0], columns)
    found = summarise(fused, new, fresh[1])
    assert {f["name"] for row in found["strangest"] for f in row["reasons"]} <= {*columns}
    assert found["detectors"][0]["columns"] == 2


def test_beside_columns_of_text_rows_are_compared_with_rows_given(rows):
    X, y = rows
    frame = pd.DataFrame(X, columns=list("abcd")).assign(kind="x")
    fused = fitted(frame, y, [("far", Distance(), list("ab"))])
    names = {f["name"] for row in summarise(fused, frame, y)["strangest"] for f in row["reasons"]}
    assert names
    assert names <= {"a", "b"}  # nothing else is looked at


def test_names_must_fit(labelled, fresh):
    with pytest.raises(ValueError, match="one for each column of X: 4, got 2"):
        summarise(labelled, *fresh, names=["a", "b"])


def test_labels_are_checked(labelled, fresh):
    with pytest.raises(ValueError, match=r"\+1"):
        summarise(labelled, fresh[0], np.arange(75))
    with pytest.raises(ValueError, match="features"):
        summarise(labelled, fresh[0][:, :2])


def test_detectors_are_described_by_their_classes(rows):
    X, y = rows
    listed = [
        ("svdd", make_pipeline(StandardScaler(), SVDD())),
        ("forest", RandomForestClassifier(5)),
        ("frozen", FrozenEstimator(Distance().fit(X))),
        ("own", ScoreFunction(lambda X: X[:, 0], high="anomaly")),
    ]
    found = summarise(fitted(X, y, listed))
    told = {entry["name"]: entry["what"] for entry in found["detectors"]}
    assert told["svdd"] == "StandardScaler → SVDD"
    assert told["forest"] == "RandomForestClassifier"
    assert told["frozen"] == "Distance"
    assert found["settings"]["random_state"] == "0"
    assert "LpFusion" in found["settings"]["fusion"]


# ----------------------------------------------------------------------------------------- tables


@pytest.fixture(scope="module")
def table():
    X, y = both(n=80, anomalies=20)
    names = {f"c{j}": X[:, j] for j in range(4)}
    return pl.DataFrame({**names, "state": np.where(y > 0, "ok", "bad")})


def test_a_model_of_tables(table):
    model = fit_table(table, label="state", normal="ok", detectors=["gmm", "kpca"])
    found = summarise(model, table)
    assert found["judged_on"]["anomalies"] == 20
    assert found["data"]["label"] == "state"
    assert found["data"]["normal"] == "ok"
    assert found["data"]["notes"] == model.notes_
    same = summarise(
        model, table.drop("state").to_pandas(), np.where(table["state"] == "ok", 1, -1)
    )
    for key in set(KEYS) - {"created", "data"}:
        assert found[key] == same[key]
    without = summarise(model, table.drop("state"))
    assert without["judged_on"]["unlabelled"] == 100


# ---------------------------------------------------------------------------------------- figures


def test_figures_show_the_summary(summary, labelled):
    import matplotlib.pyplot as plt

    drawn = figures(summary)
    assert sorted(drawn) == ["path", "strangest", "weights"]
    weights = [bar.get_width() for bar in drawn["weights"].bars_]
    assert sorted(weights) == pytest.approx(sorted(labelled.weights_))
    assert len(drawn["path"].lines_) == 4
    assert drawn["path"].chosen_p == 4.0
    assert drawn["strangest"].scores_.get_xdata()[0] == summary["strangest"][0]["score"]
    plt.close("all")


@pytest.mark.filterwarnings("ignore:.*cannot hold false alarms")
def test_figures_leave_out_what_there_is_not(rows):
    import matplotlib.pyplot as plt

    from helpers.pools import Lowest

    assert figures(summarise(fitted(*rows, fusion=Lowest()))) == {}
    endless = figures(summarise(fitted(*rows, false_alarm_rate=0.001)))
    assert sorted(endless) == ["path", "strangest", "weights"]
    plt.close("all")
