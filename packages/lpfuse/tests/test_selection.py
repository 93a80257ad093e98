"""FusedDetectorCV against a plain search over everything it may choose from."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lpfuse import (
    SVDD,
    FixedRule,
    FusedDetector,
    FusedDetectorCV,
    GMMDetector,
    KernelPCADetector,
    LpFusion,
    OneClassGP,
    TwoSidedMinMax,
)
from lpfuse.metrics import best_g_mean

rng = np.random.default_rng(0)
NORMAL = rng.normal(size=(120, 3))
X = np.concatenate([NORMAL, rng.normal(1.5, 1.0, size=(12, 3))])
Y = np.repeat([1.0, -1.0], [120, 12])
PAIR = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
PS = [1.0, 2.0, np.inf]


def criterion_of(p, rho, out_of_fold, criterion):
    """The mean over folds, weighted by anomalies, of a plain fit to the other folds."""
    values, counts = [], []
    for fold in np.unique(out_of_fold.fold):
        inside = (out_of_fold.fold == fold) & (out_of_fold.truth != 0)
        rest = (out_of_fold.fold != fold) & (out_of_fold.labels != 0)
        S, y = out_of_fold.scores, out_of_fold.labels
        scaler = TwoSidedMinMax(rho=rho).fit(S[rest & (y > 0)])
        fusion = LpFusion(
            p=p, class_weight="balanced", fit_intercept=True, nonnegative=True,
            imaginary_anomalies=3.0,
        ).fit(scaler.transform(S[rest]), y[rest])  # fmt: skip
        values.append(
            criterion(out_of_fold.truth[inside], fusion.score_samples(scaler.transform(S[inside])))
        )
        counts.append((out_of_fold.truth[inside] < 0).sum())
    return np.average(values, weights=counts)


@pytest.mark.parametrize(
    ("scoring", "criterion"),
    [("auc", roc_auc_score), ("g-mean", lambda y, s: best_g_mean(y, s)[0])],
)
def test_every_candidate_is_judged_as_a_plain_search_would(scoring, criterion):
    fused = FusedDetectorCV(PAIR, ps=PS, rhos=[2, 10], scoring=scoring, random_state=0).fit(X, Y)
    results = fused.cv_results_
    assert results["p"].tolist() == PS * 2
    assert results["rho"].tolist() == [2.0] * 3 + [10.0] * 3
    naive = [
        criterion_of(p, rho, fused.out_of_fold_, criterion)
        for p, rho in zip(results["p"], results["rho"], strict=True)
    ]
    np.testing.assert_allclose(results["score"], naive, atol=1e-6)
    best = max(zip(results["score"], results["p"], results["rho"], strict=True))
    assert fused.best_score_ == best[0]
    assert fused.best_params_["p"] == best[1]


def test_the_result_is_the_fused_detector_with_the_chosen_parameters():
    grids = {"kpca": {"n_components": [2, 20], "gamma": [0.1, 1.0]}}
    settings = {"ps": PS, "rhos": [2, 10], "grids": grids, "random_state": 0}
    chosen = FusedDetectorCV(PAIR, calibration="plain", **settings).fit(X, Y)
    best = chosen.best_params_
    assert sorted(best) == ["kpca__gamma", "kpca__n_components", "p", "rho"]
    kpca = KernelPCADetector(best["kpca__n_components"], gamma=best["kpca__gamma"])
    plain = FusedDetector(
        [("kpca", kpca), ("gmm", GMMDetector())],
        scaler=TwoSidedMinMax(rho=best["rho"]),
        fusion=clone(chosen.fusion_),
        calibration="plain",
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Many weights|The constraint")
        plain.fit(X, Y)
    assert plain.fusion_.p == best["p"]
    np.testing.assert_allclose(chosen.score_samples(X), plain.score_samples(X), atol=1e-7)
    assert chosen.offset_ == pytest.approx(plain.offset_, abs=1e-7)
    # Rows calibrate by parameters that were chosen without them, which changes the threshold alone.
    hidden = FusedDetectorCV(PAIR, **settings).fit(X, Y)
    np.testing.assert_array_equal(hidden.score_samples(X), chosen.score_samples(X))
    assert hidden.best_params_ == best
    assert hidden.unseen_.by == "cross"


def test_each_detector_gets_the_candidate_that_separates_best():
    # With a tiny width all unseen rows are alike, which can only be worse.
    grids = {"svdd": {"gamma": [1e6, 0.3]}, "gp": {"gamma": [0.3, 1e6]}}
    detectors = [
        ("svdd", make_pipeline(StandardScaler(), SVDD())),
        ("gp", make_pipeline(StandardScaler(), OneClassGP())),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of that width
        fused = FusedDetectorCV(detectors, ps=[2], grids=grids, random_state=0).fit(X, Y)
    assert fused.best_params_["svdd__gamma"] == fused.best_params_["gp__gamma"] == 0.3
    assert [name for name, _, _ in fused.detectors_] == ["svdd", "gp"]
    assert fused.detectors_[0][1][-1].gamma == 0.3


def test_the_path_is_that_of_all_rows():
    fused = FusedDetectorCV(PAIR, ps=PS, random_state=0).fit(X, Y)
    assert fused.path_.ps.tolist() == PS
    chosen = PS.index(fused.best_params_["p"])
    np.testing.assert_allclose(fused.path_.weights[chosen], fused.weights_, atol=1e-6)
    assert all(certificate.status == "optimal" for certificate in fused.path_.certificates)


def test_without_anomalies_shaken_rows_judge_but_do_not_teach():
    fused = FusedDetectorCV(PAIR, ps=PS, random_state=0).fit(NORMAL)
    out_of_fold = fused.out_of_fold_
    assert len(out_of_fold.labels) == 2 * len(NORMAL)
    assert (out_of_fold.labels[len(NORMAL) :] == 0).all()
    assert (out_of_fold.truth[len(NORMAL) :] == -1).all()
    assert 0.5 < fused.best_score_ < 1
    taught = FusedDetectorCV(PAIR, ps=PS, artificial_anomalies=True, random_state=0).fit(NORMAL)
    assert (taught.out_of_fold_.labels[len(NORMAL) :] == -1).all()


def test_a_hidden_kind_decides_on_p_for_unseen_kinds():
    # An expert knows the labelled kinds; of a kind that is hidden it knows nothing.
    far = [(6.0, 0.0, 0.0), (-6.0, 0.0, 0.0), (0.0, 6.0, 0.0), (0.0, -6.0, 0.0)]
    kind = np.repeat(np.arange(5), [120, 6, 6, 6, 6])
    rows = np.concatenate([NORMAL, *(rng.normal(centre, 0.3, size=(6, 3)) for centre in far)])
    y = np.where(kind == 0, 1, -1)
    pool = [("trees", ExtraTreesClassifier(30)), ("gmm", GMMDetector())]
    told = FusedDetectorCV(pool, random_state=0).fit(rows, y, kind=kind)
    untold = FusedDetectorCV(pool, random_state=0).fit(rows, y)
    names = told.detector_names_
    abs_weights = [w[names.index("trees")] / w.sum() for w in (told.weights_, untold.weights_)]
    assert abs_weights[0] < abs_weights[1]


def test_ties_go_to_the_largest_p():
    clear = np.concatenate([NORMAL, rng.normal(20.0, 1.0, size=(10, 3))])
    y = np.repeat([1, -1], [120, 10])
    fused = FusedDetectorCV(PAIR, ps=[1, 4, 2], random_state=0).fit(clear, y)
    assert (fused.cv_results_["score"] == 1).all()
    assert fused.best_params_["p"] == 4


@pytest.mark.slow
def test_the_choice_does_not_depend_on_the_number_of_jobs():
    pool = [("forest", IsolationForest(n_estimators=10)), *PAIR]
    one, two = (FusedDetectorCV(pool, ps=PS, n_jobs=n, random_state=3).fit(X, Y) for n in (1, 2))
    np.testing.assert_array_equal(one.score_samples(X), two.score_samples(X))
    assert one.best_params_ == two.best_params_


def test_a_refused_fit_changes_nothing():
    fused = FusedDetectorCV(PAIR, ps=PS, random_state=0).fit(X, Y)
    before = fused.score_samples(X), fused.best_params_
    with pytest.raises(ValueError, match="y must be"):
        fused.fit(X, Y * 2)
    np.testing.assert_array_equal(fused.score_samples(X), before[0])
    assert fused.best_params_ is before[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ps": []}, "ps is empty"),
        ({"rhos": []}, "rhos is empty"),
        ({"ps": [0.5]}, "p must be"),
        ({"scoring": "f1"}, "scoring must be one of 'auc', 'g-mean'"),
        ({"grids": {"svm": {"nu": [0.1]}}}, "grids names 'svm', which is none of the detectors"),
        ({"fusion": FixedRule("sum")}, "chooses p of an LpFusion and rho of a TwoSidedMinMax"),
        ({"scaler": StandardScaler()}, "chooses p of an LpFusion and rho of a TwoSidedMinMax"),
        (
            {"detectors": [*PAIR, ("trees", ExtraTreesClassifier(5))],
             "grids": {"trees": {"max_depth": [1, 2]}}},
            "'trees', which learns from anomalies",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_chosen_is_refused_in_words(changes, message):
    with pytest.raises(ValueError, match=message):
        FusedDetectorCV(PAIR, random_state=0).set_params(**changes).fit(X, Y)


def test_folds_without_both_classes_leave_nothing_to_choose_by():
    anomalies = np.arange(120, 132)
    splits = [
        (np.arange(60, 120), np.arange(60)),
        (np.r_[np.arange(60), anomalies], np.arange(60, 120)),
    ]
    with pytest.raises(ValueError, match="No fold holds both normal rows and anomalies"):
        FusedDetectorCV(PAIR, ps=PS, cv=splits, random_state=0).fit(X, Y)
