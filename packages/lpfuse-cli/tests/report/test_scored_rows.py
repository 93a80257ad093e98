from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from helpers.pools import Distance, Lowest, Nearby, both, normal_rows
from helpers.reports import fitted, pool
from lpfuse import FixedRule, FusedDetectorCV, LpFusion, TwoSidedMinMax
from lpfuse.threshold import conformal_pvalues
from lpfuse_cli.report import summarise
from lpfuse_cli.report.scored_rows import GRID, on_rows, out_of_fold, path_of


def learnt_elsewhere(fused, fold, p):
    """Scaler and fusion for a fold, from the rows of the others: the naive way."""
    lessons = fused.out_of_fold_
    rest = lessons.usable & (lessons.fold != fold)
    S, y = lessons.scores[rest], lessons.labels[rest]
    scaler = TwoSidedMinMax().fit(S[y > 0])
    labels = None if (y > 0).all() else y
    return scaler, clone(fused.fusion_).set_params(p=p).fit(scaler.transform(S), labels)


# ------------------------------------------------------------------------------------ out of fold


@pytest.mark.parametrize("p", [1, 4 / 3, 4, float("inf")])
def test_fused_scores_of_a_fold_use_weights_of_others(labelled, p):
    path = path_of(labelled)
    scored, lessons = out_of_fold(labelled, path), labelled.out_of_fold_
    for fold in np.unique(lessons.fold):
        scaler, fusion = learnt_elsewhere(labelled, fold, p)
        inside = lessons.fold == fold
        expected = fusion.score_samples(scaler.transform(lessons.scores[inside]))
        column = scored.by_p[inside, path.ps.tolist().index(p)]
        assert column == pytest.approx(expected, abs=1e-4)
        if p == labelled.fusion_.p:
            assert scored.fused[inside] == pytest.approx(expected, abs=1e-9)


def test_rows_of_a_fold_do_not_teach_their_own_judges(labelled):
    path = path_of(labelled)
    before, lessons = out_of_fold(labelled, path), labelled.out_of_fold_
    inside = lessons.fold == 2
    other = clone(labelled)
    other.__dict__.update(labelled.__dict__)
    turned = replace(lessons, labels=np.where(inside, -lessons.labels, lessons.labels))
    other.result_ = replace(labelled.result_, out_of_fold=turned)
    after = out_of_fold(other, path)
    assert (after.by_p[inside] == before.by_p[inside]).all()
    assert not np.allclose(after.by_p[~inside], before.by_p[~inside])


def test_figure_at_the_chosen_p_equals_the_choice(rows):
    chosen = FusedDetectorCV(pool(), ps=[1, 2, 8], random_state=0).fit(*rows)
    found = summarise(chosen)
    assert found["fusion"]["auc"] == pytest.approx(chosen.best_score_, abs=1e-6)
    of_p = {entry["p"]: entry["auc"] for entry in found["path"]}
    for p, score in zip(chosen.cv_results_["p"], chosen.cv_results_["score"], strict=True):
        assert of_p[p] == pytest.approx(score, abs=2e-3)
    assert any("p, rho" in caveat for caveat in found["judged_on"]["caveats"])


def test_the_path_runs_through_the_model(labelled):
    path = path_of(labelled)
    assert path.ps.tolist() == sorted({*GRID, 4.0})
    at = path.ps.tolist().index(4.0)
    assert (path.weights[at] == labelled.weights_).all()
    assert path.certificates[at] is labelled.certificate_
    fusion = clone(labelled.fusion_).set_params(p=2.0)
    lessons = labelled.out_of_fold_
    fusion.fit(labelled.scaler_.transform(lessons.scores), lessons.labels)
    assert path.weights[path.ps.tolist().index(2.0)] == pytest.approx(fusion.weights_, abs=1e-4)


def test_a_p_of_its_own_joins_the_grid(rows):
    fused = fitted(*rows, fusion=LpFusion(p=2.5, class_weight="balanced"))
    entries = summarise(fused)["path"]
    assert [entry["p"] for entry in entries if entry["chosen"]] == [2.5]
    assert len(entries) == len(GRID) + 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The constraint")
def test_weights_of_another_solver_stay_the_models(rows):
    slow = LpFusion(p=2, solver="frank-wolfe", class_weight="balanced", max_iter=3)
    fused = fitted(*rows, fusion=slow)
    (chosen,) = (entry for entry in summarise(fused)["path"] if entry["chosen"])
    assert chosen["weights"] == pytest.approx(fused.weights_, abs=1e-7)
    assert chosen["certificate"]["status"] != "optimal"
    path = path_of(fused)
    scored = out_of_fold(fused, path)
    assert (scored.by_p[:, path.ps.tolist().index(2.0)] == scored.fused).all()


def test_p_values_compare_with_the_other_folds(labelled):
    scored, lessons = out_of_fold(labelled, None), labelled.out_of_fold_
    for fold in np.unique(lessons.fold):
        inside = lessons.fold == fold
        normal = ~inside & (lessons.labels > 0)
        expected = conformal_pvalues(scored.fused[normal], scored.fused[inside])
        assert (scored.pvalues[inside] == expected).all()


@pytest.mark.parametrize("taught", [True, False])
def test_artificial_anomalies_judge_nothing(taught):
    X = normal_rows(80)
    if taught:
        fused = fitted(X, artificial_anomalies=True)
    else:
        fused = FusedDetectorCV(pool(), ps=[1, 2], random_state=0).fit(X)
    assert (fused.out_of_fold_.truth < 0).any()
    found = summarise(fused)
    assert found["judged_on"]["rows"] == 80
    assert found["judged_on"]["anomalies"] == 0
    assert found["fusion"]["auc"] is None
    told = any("Artificial" in caveat for caveat in found["judged_on"]["caveats"])
    assert told is taught


def test_real_anomalies_judge_also_where_artificial_ones_were_allowed(rows):
    found = summarise(fitted(*rows, artificial_anomalies=True))
    assert found["judged_on"]["anomalies"] == 24
    assert found["fusion"]["auc"] > 0.5


def test_single_anomaly_is_scored_by_fits_without_it():
    X, y = both(n=60, anomalies=1)
    fused = fitted(X, y)
    found = summarise(fused)
    (row,) = np.flatnonzero(y < 0)
    scaler, fusion = learnt_elsewhere(fused, fused.out_of_fold_.fold[row], 4.0)
    expected = fusion.score_samples(scaler.transform(fused.out_of_fold_.scores[[row]]))[0]
    assert out_of_fold(fused, None).fused[row] == pytest.approx(expected)
    assert found["comparisons"][0]["interval"] is None


def test_a_fold_without_normal_rows_compares_nothing(rows):
    X, y = rows
    normal, odd = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
    tests = [normal[::2], np.append(normal[1::2], odd[:8]), odd[8:]]
    splits = [(np.setdiff1d(np.arange(len(y)), test), test) for test in tests]
    fused = fitted(X, y, cv=splits)
    found = summarise(fused)
    inside = np.isin(np.arange(len(y)), tests[1])
    for j, detector in enumerate(found["detectors"]):
        expected = roc_auc_score(y[inside], fused.out_of_fold_.scores[inside, j])
        assert detector["auc"] == pytest.approx(expected)


@pytest.mark.parametrize("cv", ["in-sample", "prefit"])
def test_where_the_rows_come_from_is_told(rows, cv):
    X, y = rows
    detectors = [(name, made.fit(X[y > 0])) for name, made in [("far", Distance())]]
    found = summarise(fitted(X, y, detectors, cv=cv))
    assert found["judged_on"]["origin"] == cv
    assert ("optimistic" in found["judged_on"]["words"]) == (cv == "in-sample")


def test_split_calibration_judges_the_rows_that_were_learnt_from(rows):
    X, y = rows
    found = summarise(fitted(X, y, calibration="split"))
    assert found["judged_on"]["normal"] == 96
    assert found["judged_on"]["anomalies"] == 24


# ------------------------------------------------------------------------------------- given rows


def test_given_rows_are_scored_as_the_model_scores_them(labelled, fresh):
    X, y = fresh
    path = path_of(labelled)
    scored = on_rows(labelled, path, X, y)
    assert (scored.parts == labelled.contributions(X)).all()
    assert (scored.raw == labelled.detector_scores(X)).all()
    assert (scored.margin == labelled.decision_function(X)).all()
    assert (scored.pvalues == labelled.pvalues(X)).all()
    scaled = labelled.scaler_.transform(scored.raw)
    assert scored.by_p == pytest.approx(scaled @ path.weights.T, abs=1e-9)
    assert scored.equal == pytest.approx(scaled.sum(axis=1))


def test_silent_detectors_leave_the_others_to_decide(rows):
    X, y = rows
    fused = fitted(X, y)
    gappy = X.copy()
    gappy[:5, 0] = np.nan
    empty = X.copy()
    empty[:5] = np.nan  # nobody can score these
    with pytest.warns(UserWarning, match="could not score"):
        found = summarise(fused, empty, y)
    assert found["judged_on"]["rows"] == len(y) - 5

    alone = [("first", Distance(), [0]), ("last", Distance(), [3])]
    fused = fitted(X, y, alone, fusion=FixedRule("sum"))
    with pytest.warns(UserWarning, match="could not score"):
        found = summarise(fused, gappy, y)
    assert found["judged_on"]["rows"] == len(y)
    assert "5 rows lack a detector's score" in found["judged_on"]["caveats"][-1]
    silent = {row["row"]: row["contributions"] for row in found["strangest"]}
    for row in set(silent) & set(range(5)):
        assert silent[row][0] is None
        assert silent[row][1] is not None


def test_gaps_do_not_hide_behind_other_values_of_p(rows, fresh):
    alone = [("first", Distance(), [0]), ("second", Distance(), [1])]
    fused = fitted(*rows, alone, fusion=LpFusion(p=float("inf")))
    gappy = fresh[0].copy()
    gappy[0, 1] = np.nan
    path = path_of(fused)
    with pytest.warns(UserWarning, match="could not score"):
        scored = on_rows(fused, path, gappy, fresh[1])
    first = fused.scaler_.transform(np.nan_to_num(scored.raw[:1]))[0, 0]
    for fused_score, weights in zip(scored.by_p[0], path.weights, strict=True):
        if abs(weights[0]) > 1e-3:  # who speaks, speaks for both
            expected = np.sign(weights[0]) * np.abs(weights).sum() * first
            assert fused_score == pytest.approx(expected)


def test_rows_that_nobody_can_score_are_no_evidence(labelled):
    with (
        pytest.warns(UserWarning, match="could not score"),
        pytest.raises(ValueError, match="no row that a detector with a weight could score"),
    ):
        summarise(labelled, np.full((3, 4), np.nan))


# ---------------------------------------------------------------------------------- other fusions


def test_a_fixed_rule_has_weights_but_no_path(rows):
    found = summarise(fitted(*rows, fusion=FixedRule("sum")))
    assert found["path"] == []
    assert found["fusion"]["p"] is None
    assert found["certificate"] is None
    assert [detector["share"] for detector in found["detectors"]] == [0.25] * 4
    assert found["fusion"]["auc"] == pytest.approx(found["equal_weights"]["auc"])


def test_a_fusion_that_is_no_sum_has_scores_only(rows, fresh):
    fused = fitted(*rows, fusion=Lowest())
    for found in (summarise(fused), summarise(fused, *fresh)):
        assert found["detectors"][0]["weight"] is None
        assert found["strangest"][0]["contributions"] is None
        assert 0 <= found["fusion"]["auc"] <= 1
        assert not any("weight." in sentence for sentence in found["headline"])


def test_a_fusion_that_looks_at_features_needs_rows(rows, fresh):
    fused = fitted(*rows, fusion=Nearby())
    with pytest.raises(ValueError, match="Give the report rows"):
        summarise(fused)
    assert summarise(fused, *fresh)["fusion"]["auc"] > 0
