import json
import warnings

import numpy as np
import polars as pl
import pytest

import lpfuse
from helpers.pumps import DETECTORS, pumps
from lpfuse import FusedDetector, GMMDetector
from lpfuse.ensemble.defaults import named_detectors
from lpfuse.ensemble.scoring import score_columns
from lpfuse.ensemble.summary import outcome, proof
from lpfuse_cli.fitting import fit_table, fuse_table
from lpfuse_cli.scoring import check_kept, score_frame


def test_a_model_is_a_fused_detector_behind_a_preparation(model):
    frame = pumps()
    X, y = model.preparation_.rows_of(frame), model.preparation_.labels(frame)
    assert X.shape == (200, len(model.preparation_.feature_names))
    assert set(y) == {1, -1}
    copy = FusedDetector(model.detectors, random_state=0).fit(X, y, order="random")
    new = pumps(50, seed=1)
    Z = model.preparation_.rows_of(new)
    np.testing.assert_array_equal(copy.score_samples(Z), model.score_samples(Z))


def test_scores_are_those_of_the_fused_detector(model):
    new = pumps(50, seed=1)
    Z = model.preparation_.rows_of(new)
    scored = score_frame(model, new)
    fused = model
    np.testing.assert_array_equal(scored["score"], fused.score_samples(Z))
    np.testing.assert_array_equal(scored["p_value"], fused.pvalues(Z))
    np.testing.assert_array_equal(scored["decision"], fused.predict(Z))
    parts = scored.select(pl.col("^contribution:.*$")).to_numpy()
    np.testing.assert_array_equal(parts, fused.contributions(Z))
    assert scored.columns == score_columns(model.detector_names_)
    assert {-1, 1} == set(scored["decision"])


def test_columns_are_carried_along(model):
    new = pumps(10, seed=1)
    scored = score_frame(model, new, keep=["serial", "when"])
    assert scored.columns == ["serial", "when", *score_columns(model.detector_names_)]
    assert scored.select("serial", "when").equals(new.select("serial", "when"))
    assert check_kept(model, ["serial", "serial"], new.columns) == ["serial"]
    with pytest.raises(ValueError, match="'score' cannot be kept"):
        check_kept(model, ["score"], ["score", *new.columns])


def test_no_rows_no_scores(model):
    assert score_frame(model, pumps(10).clear()).shape == (
        0,
        len(score_columns(model.detector_names_)),
    )


def test_labels_are_where_the_column_is(model):
    assert model.preparation_.labels(pumps(10).drop("state")) is None
    frame = pumps(3).with_columns(state=pl.Series(["ok", None, "worn"]))
    assert model.preparation_.labels(frame).tolist() == [1, 0, -1]
    assert model.label_words_ == {"normal": "ok", "anomaly": "worn"}
    strange = frame.with_columns(state=pl.Series(["ok", None, "new"]))
    assert model.preparation_.labels(strange, "open").tolist() == [1, 0, 0]
    with pytest.raises(ValueError, match=r"holds 'new' \(1 row\), which the fit did not see"):
        model.preparation_.labels(strange)
    unlabelled = fit_table(pumps(60).drop("state"), detectors=DETECTORS)
    assert (unlabelled.preparation_.label, unlabelled.preparation_.normal) == (None, None)
    assert unlabelled.preparation_.labels(pumps(60)) is None


def test_without_label_all_rows_are_normal():
    told = []
    frame = pumps(60, worn=0).drop("state")
    model = fit_table(frame, detectors=["gmm"], show_notes=told.append)
    assert told == [model.notes_]
    assert model.notes_[0] == "Label: none; all 60 rows are unlabelled."
    assert (model.out_of_fold_.labels == 1).all()


def test_empty_labels_are_unlabelled_rows():
    frame = pumps(100).with_columns(
        state=pl.when(pl.int_range(pl.len()) < 30).then(None).otherwise("state")
    )
    model = fit_table(frame, label="state", normal="ok", detectors=["gmm"])
    known = model.out_of_fold_.known
    np.testing.assert_array_equal(known, model.preparation_.labels(frame))
    assert (known[:30] == 0).all()
    assert "30 rows without a label" in model.notes_[0]


def test_the_label_is_no_feature(model):
    assert not any("state" in name for name in model.preparation_.feature_names)
    assert model.notes_[0].startswith("Label: 'state'; normal is 'ok' (")


def test_what_is_asked_for_arrives():
    progress = []
    model = fit_table(
        pumps(80),
        label="state",
        normal="ok",
        detectors=["gmm"],
        p="2",
        false_alarm_rate=0.2,
        features=["bar,flow"],
        random_state=7,
        progress=lambda *step: progress.append(step),
    )
    fused = model
    assert fused.detector_names_ == ["gmm"]
    assert (fused.fusion_.p, fused.false_alarm_rate, fused.random_state) == (2.0, 0.2, 7)
    assert model.preparation_.columns == ["bar", "flow"]
    done, total = zip(*progress, strict=True)
    assert done[-1] == total[-1] > 1


def test_detectors_are_configured_for_their_rows():
    frame = pumps(60)
    model = fit_table(frame, label="state", normal="ok", detectors=["kpca"])
    few, many = (named_detectors(["kpca"], n=n)[0][1][-1].approximation for n in (60, 100_000))
    assert model.detectors_[0][1][-1].approximation == few != many


@pytest.mark.parametrize(("p", "expected"), [("auto", 4.0), (1, 1.0), ("inf", np.inf), (3.5, 3.5)])
def test_the_norm(p, expected):
    model = fuse_table(score_table(), label="fake", normal="no", p=p, high={"knn": "anomaly"})
    assert model.fusion_.p == expected


@pytest.mark.parametrize("p", ["two", 0.5, "nan"])
def test_norms_that_are_none(p):
    with pytest.raises(ValueError, match="p must be"):
        fit_table(pumps(60), p=p)


def test_the_default_pool():
    model = fit_table(pumps(60), label="state", normal="ok", features=["flow"])
    one_class = [name for name, _ in lpfuse.ensemble.components.default_detectors(60, 0)]
    assert model.detector_names_[: len(one_class)] == one_class
    assert model.fusion is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"label": "stat"}, "There is no column 'stat'. Did you mean 'state'?"),
        ({"normal": "ok"}, "normal='ok' says what labels mean, but not in which column"),
        ({"drop": ["bra"]}, "There is no column 'bra'. Did you mean 'bar'?"),
        ({"features": ["bra"]}, "There is no column 'bra'"),
        ({"categories": ["kinds"]}, "There is no column 'kinds'. Did you mean 'kind'?"),
        ({"detectors": ["gnm"]}, "There is no detector 'gnm'. Did you mean 'gmm'?"),
        ({"false_alarm_rate": 5}, "false_alarm_rate must be"),
    ],
)
def test_mistakes_are_told_with_a_remedy(options, told):
    with pytest.raises(ValueError, match=r"\. ") as refusal:
        fit_table(pumps(30), **options)
    assert told in str(refusal.value)


def test_a_table_without_rows_teaches_nothing():
    with pytest.raises(ValueError, match="The table has no rows"):
        fit_table(pumps(30).clear())


# ------------------------------------------------------------------------------------------- fuse


def score_table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    fake = rng.random(n) < 0.2
    return pl.DataFrame(
        {
            "file": [f"{i}.png" for i in range(n)],
            "svm": rng.normal(size=n) - 2 * fake,
            "knn": rng.normal(size=n) + 2 * fake,
            "fake": np.where(fake, "yes", "no"),
        }
    )


def test_scores_of_others_are_fused_as_they_are():
    frame = score_table()
    model = fuse_table(frame, label="fake", normal="no", high={"knn": "anomaly"})
    S = frame.select("svm", -pl.col("knn")).to_numpy()
    y = np.where(frame["fake"] == "no", 1, -1)
    np.testing.assert_array_equal(model.detector_scores(model.preparation_.rows_of(frame)), S)
    scaler = lpfuse.TwoSidedMinMax().fit(S, y)
    fusion = lpfuse.ensemble.components.default_fusion().fit(scaler.transform(S), y)
    np.testing.assert_allclose(model.weights_, fusion.weights_, atol=1e-6)
    np.testing.assert_allclose(
        score_frame(model, frame)["score"], fusion.score_samples(scaler.transform(S)), atol=1e-6
    )
    assert model.notes_[1] == "High scores mean anomaly: 'knn'."
    assert "Dropped: 'file', it holds text, not scores." in model.notes_


def test_where_a_score_is_missing_the_others_decide():
    gap = pl.int_range(pl.len()) < 5
    frame = score_table().with_columns(svm=pl.when(gap).then(None).otherwise("svm"))
    with pytest.warns(UserWarning, match=r"'svm' \(5 of 300 rows\)"):
        model = fuse_table(frame, label="fake", normal="no", high={"knn": "anomaly"})
    with pytest.warns(UserWarning, match="The others decide"):
        scored = score_frame(model, frame)
    Z = model.preparation_.rows_of(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(scored["decision"], model.predict(Z))
        np.testing.assert_array_equal(scored["p_value"], model.pvalues(Z))
    assert (scored["contribution:svm"][:5] == 0).all()
    assert scored["score"].null_count() == 0


def test_unscorable_row_is_null_and_anomaly():
    model = fuse_table(score_table(), label="fake", normal="no", high={"knn": "anomaly"})
    with pytest.warns(UserWarning, match="No detector with a weight could score 1"):
        scored = score_frame(model, pl.DataFrame({"svm": [None, 1.0], "knn": [None, 0.0]}))
    assert scored["score"].is_null().to_list() == [True, False]
    assert scored["p_value"].is_null().to_list() == [True, False]
    assert scored["decision"].to_list() == [-1, 1]


# -------------------------------------------------------------------------------------- the outcome


def test_the_outcome_is_plain_and_true(model):
    found = outcome(model)
    assert json.loads(json.dumps(found)) == found
    names = model.detector_names_
    assert found["weights"] == dict(zip(names, model.weights_, strict=True))
    labels = model.preparation_.labels(pumps())
    assert found["learnt_from"] == {
        "normal": int((labels > 0).sum()),
        "anomalies": int((labels < 0).sum()),
    }
    assert found["threshold"] == model.offset_
    assert found["certificate"]["lower_bound"] <= found["certificate"]["value"]
    assert found["certificate"]["status"] == "optimal"


def naive_area(scores, labels, fold):
    """How often a normal row scores above an anomaly of its fold, as seen by the anomalies."""
    places = []
    for score, number in zip(scores[labels < 0], fold[labels < 0], strict=True):
        rivals = scores[(labels > 0) & (fold == number)]
        places.append(np.mean((rivals > score) + 0.5 * (rivals == score)))
    return np.mean(places)


def test_the_auc_is_out_of_fold_and_within_folds(model):
    areas, labels = outcome(model)["auc"], model.preparation_.labels(pumps())
    lessons = model.out_of_fold_
    for name, column in zip(model.detector_names_, lessons.scores.T, strict=True):
        assert areas[name] == pytest.approx(naive_area(column, labels, lessons.fold))
    assert list(areas)[-1] == "fusion"
    fused = model.held_out_.fused
    assert areas["fusion"] == pytest.approx(naive_area(fused, labels, lessons.fold))


def test_calibration_rows_do_not_count_in_auc():
    random = np.random.default_rng(0)
    X, y = random.normal(size=(300, 2)), np.repeat([1, -1], [270, 30])
    X[y < 0] += 3.0
    fused = FusedDetector([("gmm", GMMDetector())], calibration="split", random_state=0).fit(X, y)
    learnt, areas = fused.out_of_fold_, outcome(fused)["auc"]
    n = len(learnt.labels)
    assert n < len(fused.held_out_.labels) == 300
    for name, scores in (("gmm", learnt.scores[:, 0]), ("fusion", fused.held_out_.fused[:n])):
        assert areas[name] == pytest.approx(naive_area(scores, learnt.labels, learnt.fold))


def test_rows_without_a_score_do_not_count_in_the_auc():
    frame = score_table().with_columns(
        svm=pl.when(pl.int_range(pl.len()) < 5).then(None).otherwise("svm")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fuse_table(frame, label="fake", normal="no")
    there = slice(5, None)
    svm, labels, fold = (
        frame["svm"].to_numpy(),
        model.preparation_.labels(frame),
        model.out_of_fold_.fold,
    )
    expected = naive_area(svm[there], labels[there], fold[there])
    assert outcome(model)["auc"]["svm"] == pytest.approx(expected)


def test_no_auc_without_anomalies():
    assert outcome(fuse_table(score_table().drop("fake")))["auc"] is None


@pytest.mark.parametrize(
    ("gap", "told"), [(1e-9, "1e-9"), (1.1e-9, "1e-8"), (0.3, "1e0"), (-1, "1e-16")]
)
def test_the_proof_never_promises_too_much(gap, told):
    assert proof(gap) == f"proven within {told} of optimal"


# ------------------------------------------------------------------------------------------- files


def test_saved_and_loaded_it_scores_the_same(model, tmp_path):
    path = tmp_path / "pumps.lpfuse"
    model.save(path)
    new = pumps(30, seed=2)
    copy = lpfuse.load(path)
    assert isinstance(copy, FusedDetector)
    assert score_frame(copy, new).equals(score_frame(model, new))
    assert copy.preparation_.labels(new).tolist() == model.preparation_.labels(new).tolist()
    assert (copy.notes_, copy.preparation_.label, copy.preparation_.normal) == (
        model.notes_,
        model.preparation_.label,
        model.preparation_.normal,
    )
    assert copy.preparation_.feature_names == model.preparation_.feature_names
    np.testing.assert_array_equal(copy.preparation_.rows_of(new), model.preparation_.rows_of(new))
    assert vars(copy.preparation_) == vars(model.preparation_)
    assert copy.preparation_.format == model.preparation_.format
