"""The paper's method in one call, against loops over single learners, and at odd tables."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler

from helpers.cases import cases
from helpers.contract import assert_passes_checks, refused_labels
from helpers.pairwise import each_value
from lpfuse import LpFusion, TwoSidedMinMax, load
from lpfuse.detectors import PAPER_WIDTHS
from lpfuse.fusion.lp import PAPER_GRID
from lpfuse.io import save
from lpfuse.metrics import auc_of_columns, best_g_mean
from lpfuse.paper import (
    LEARNERS,
    PAPER_RHOS,
    Pipeline,
    best_per_learner,
    candidates,
    fit_candidates,
)

rng = np.random.default_rng(0)
X = rng.normal([0.0, 5.0, -3.0], [1.0, 2.0, 0.1], size=(50, 3))
SHIFT = np.array([1.5, 3.0, 0.0])
X_VAL = np.concatenate([X[:20] + 0.05 * rng.normal(size=(20, 3)), X[20:32] + SHIFT])
Y_VAL = np.repeat([1, -1], [20, 12])
VALIDATION = X_VAL, Y_VAL
TAUGHT = np.concatenate([X, X[30:] + 0.2 * SHIFT]), np.repeat([1, -1], [50, 20])  # they overlap
THIN = {
    "widths": (0.5, 2.0), "component_step": 12, "rhos": (1.0, 10.0), "ps": (32 / 31, 2.0, 100.0),
    "random_state": 0,
}  # fmt: skip


def fitted(X=X, y=None, validation=VALIDATION, test=None, **changes):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Scores have no spread|Some detectors give")
        return Pipeline(**{**THIN, **changes}).fit(X, y, validation=validation, test=test)


class OwnValidation(Pipeline):
    """Fit without y, for the checks feed other labels, and choose on the rows and shifted ones."""

    def fit(self, X, y=None):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Scores have no spread|Some detectors give")
            return super().fit(X, validation=_beside(X))


def _beside(X):
    """Rows to choose on; of a table that is no table, others: `fit` refuses it in its own words."""
    rows = np.asarray(X)
    if rows.dtype == object and all(isinstance(cell, float) for cell in rows.ravel()):
        rows = rows.astype(float)
    if (
        rows.ndim != 2
        or rows.dtype.kind not in "iuf"
        or not (rows.size and np.isfinite(rows).all())
    ):
        return VALIDATION
    known = np.concatenate([rows, rows + np.maximum(rows.std(axis=0), 1e-3)])
    frame = pd.DataFrame(known, columns=X.columns) if hasattr(X, "columns") else known
    return frame, np.repeat([1, -1], len(rows))


def test_scikit_learn_contract():
    assert_passes_checks(OwnValidation(**THIN), refused_labels())


@pytest.mark.slow
def test_scikit_learn_contract_of_variants():
    assert_passes_checks(OwnValidation(**THIN, loss="least_squares"), refused_labels())


def naive(X, y, validation, settings):
    """One learner, one ρ and one p at a time: settings, ρ, p, weights, offset, score."""
    X_val, y_val = validation
    labels = np.ones(len(X)) if y is None else y
    scale = StandardScaler().fit(X[labels > 0])
    normals, taught, known = map(scale.transform, (X[labels > 0], X, X_val))
    chosen = []
    for learner in LEARNERS:
        grid = candidates(
            len(normals), widths=settings["widths"], component_step=settings["component_step"],
            random_state=0,
        )  # fmt: skip
        rivals = [clone(c.detector).fit(normals) for c in grid if c.learner == learner]
        areas = [round(roc_auc_score(y_val, rival.score_samples(known)), 12) for rival in rivals]
        chosen.append(rivals[int(np.argmax(areas))])

    def table(rows):
        return np.column_stack([learner.score_samples(rows) for learner in chosen])

    best = (-1.0,)
    for rho in settings["rhos"]:
        scaler = TwoSidedMinMax(rho, feature_range=(0, 1), clip=False).fit(table(normals))
        for p in sorted(settings["ps"], reverse=True):
            fusion = LpFusion(p).fit(scaler.transform(table(taught)), y)
            scores = fusion.score_samples(scaler.transform(table(known)))
            area = round(roc_auc_score(y_val, scores), 12)
            if area > best[0]:
                best = area, rho, p, fusion, scaler, best_g_mean(y_val, scores)[1]
    _, rho, p, fusion, scaler, offset = best
    return (
        rho,
        p,
        fusion.weights_,
        offset,
        lambda rows: fusion.score_samples(scaler.transform(table(scale.transform(rows)))),
    )


@pytest.mark.filterwarnings("ignore::UserWarning")  # of widths far from the data
@pytest.mark.parametrize(("rows", "y"), [(X, None), TAUGHT], ids=["pure", "non-pure"])
def test_the_fit_is_what_plain_loops_find(rows, y):
    pipeline = fitted(rows, y)
    rho, p, weights, offset, score = naive(rows, y, VALIDATION, THIN)
    assert (pipeline.rho_, pipeline.p_) == (rho, p)
    np.testing.assert_allclose(pipeline.weights_, weights, atol=1e-6)
    assert pipeline.offset_ == pytest.approx(offset, abs=1e-5)
    np.testing.assert_allclose(pipeline.score_samples(X_VAL), score(X_VAL), atol=1e-5)
    assert pipeline.certificate_.relative_gap <= 1e-8
    assert list(pipeline.learners_) == list(pipeline.settings_) == list(LEARNERS)
    assert pipeline.validation_auc_.max() == pytest.approx(pipeline.score(X_VAL, Y_VAL))


def test_defaults_are_the_papers():
    parameters = Pipeline().get_params()
    assert parameters == {
        "widths": (0.01, 0.1, 0.5, 1.0, 10.0),
        "kernel_form": "sigma",
        "component_step": 4,
        "rhos": tuple(range(1, 11)),
        "ps": (32 / 31, 16 / 15, 8 / 7, 4 / 3, 2.0, 4.0, 8.0, 10.0, 100.0),
        "loss": "hinge",
        "clip": False,
        "learners_learn_from_anomalies": False,
        "threshold_on": "validation",
        "standardise": True,
        "random_state": None,
    }
    assert (parameters["widths"], parameters["ps"]) == (PAPER_WIDTHS, PAPER_GRID)
    assert parameters["rhos"] == PAPER_RHOS


def test_anomalies_teach_the_weights_alone():
    pure, taught = fitted(), fitted(*TAUGHT)
    assert taught.settings_ == pure.settings_
    np.testing.assert_array_equal(taught.learner_scores(X), pure.learner_scores(X))
    assert np.abs(taught.weights_ - pure.weights_).max() > 0.01


@cases(
    ("form", "similarity"),
    [
        ("sigma", lambda D, w: np.exp(-D / (2 * w**2))),
        ("variance", lambda D, w: np.exp(-D / (2 * w))),
        ("scale", lambda D, w: np.exp(-D / w**2)),
        ("denominator", lambda D, w: np.exp(-D / w)),
        ("gamma", lambda D, w: np.exp(-w * D)),
    ],
)
def test_a_width_means_what_the_form_says(form, similarity):
    pipeline = fitted(widths=[3.0], kernel_form=form)
    rows = pipeline.standardiser_.transform(X)
    apart = euclidean_distances(rows, squared=True)
    for name in ("SVDD", "GP", "KPCA"):
        gamma = pipeline.learners_[name].kernel_.gamma
        np.testing.assert_allclose(np.exp(-gamma * apart), similarity(apart, 3.0), rtol=1e-9)


def test_scaled_scores_can_be_clipped():
    scaled = [
        pipeline.scaler_.transform(pipeline.learner_scores(X_VAL))
        for pipeline in (fitted(), fitted(clip=True))
    ]
    assert scaled[0].min() < 0
    assert (scaled[1].min(), scaled[1].max()) == (0, 1)


def test_learners_can_learn_from_anomalies():
    normals, y = X, TAUGHT[1]
    both = fitted(*TAUGHT, learners_learn_from_anomalies=True)
    rows = both.standardiser_.transform(TAUGHT[0])
    process = KernelRidge(alpha=0.01, kernel="rbf", gamma=both.learners_["GP"].kernel_.gamma)
    ball = clone(both.learners_["SVDD"]).fit(rows, y)
    scores = both.learner_scores(normals)
    known = both.standardiser_.transform(normals)
    np.testing.assert_allclose(scores[:, 2], process.fit(rows, y).predict(known), atol=1e-9)
    np.testing.assert_allclose(scores[:, 1], ball.score_samples(known), atol=1e-6)
    untaught = fitted(*TAUGHT).learner_scores(normals)
    assert (np.abs(scores - untaught).max(axis=0) > 1e-3)[[1, 2]].all()
    np.testing.assert_allclose(scores[:, [0, 3]], untaught[:, [0, 3]], atol=1e-12)
    one = fitted(*TAUGHT, learners_learn_from_anomalies=["SVDD"]).learner_scores(normals)
    np.testing.assert_allclose(one[:, 2], untaught[:, 2], atol=1e-12)
    np.testing.assert_allclose(one[:, 1], scores[:, 1], atol=1e-12)
    np.testing.assert_array_equal(  # without anomalies nothing changes
        fitted(learners_learn_from_anomalies=True).weights_, fitted().weights_
    )


def test_the_threshold_can_come_from_the_test_rows():
    other = X_VAL[::-1] + 0.3, Y_VAL[::-1]
    pipeline = fitted(test=other, threshold_on="test")
    assert pipeline.offset_ == best_g_mean(other[1], pipeline.score_samples(other[0]))[1]
    assert pipeline.offset_ != fitted(test=other).offset_
    assert fitted(test=other).offset_ == fitted().offset_
    with pytest.raises(ValueError, match=r"test=\(X_test, y_test\)\), y_test with .*; got no test"):
        fitted(threshold_on="test")


def test_rows_beyond_the_memory_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"GiB for 3,000,000 normal rows.*resample\(X_normal"):
        Pipeline().fit(np.broadcast_to(X[:1], (3_000_000, 3)), validation=VALIDATION)


def test_only_normal_rows_set_the_scale():
    other = np.concatenate([X, 1e3 + X[30:]])
    taught, pure = fitted(other, TAUGHT[1]), fitted()
    np.testing.assert_array_equal(taught.standardiser_.mean_, pure.standardiser_.mean_)


def test_rows_that_are_z_scores_can_stay_what_they_are():
    scale = StandardScaler().fit(X)
    told = fitted(scale.transform(X), None, (scale.transform(X_VAL), Y_VAL), standardise=False)
    np.testing.assert_array_equal(told.score_samples(scale.transform(X)), fitted().score_samples(X))
    assert told.standardiser_ is None


def test_ties_choose_wide_few_first_rho_and_largest_p():
    far = np.concatenate([X[:20], X[:20] + 1e3])
    pipeline = fitted(validation=(far, np.repeat([1, -1], 20)), ps=(2.0, 100.0, 4.0))
    assert (pipeline.validation_auc_ == 1).all()
    assert (pipeline.rho_, pipeline.p_) == (1.0, 100.0)
    wide = {"sigma": 2.0}
    assert pipeline.settings_ == {
        "GMM": {}, "SVDD": wide, "GP": wide, "KPCA": wide | {"q": 2}
    }  # fmt: skip


CONSTANT = np.array([1.0, 0.0, 1.0])
ODD = {
    "ties": (np.round(X), np.round(X_VAL), Y_VAL),
    "constant column": (X * CONSTANT, X_VAL * CONSTANT, Y_VAL),
    "one column": (X[:, :1], X_VAL[:, :1], Y_VAL),
    "equal rows": (np.repeat(X[:1], 50, axis=0), X_VAL, Y_VAL),
    "one anomaly": (X, X_VAL[:21], Y_VAL[:21]),
    "one normal row in validation": (X, X_VAL[19:], Y_VAL[19:]),
    "two rows": (X[:2], X_VAL, Y_VAL),
    "three rows": (X[:3], X_VAL, Y_VAL),
    "more columns than rows": (np.tile(X[:10], 20), np.tile(X_VAL, 20), Y_VAL),
    "single precision": (X.astype("f4"), X_VAL.astype("f4"), Y_VAL),
}


@each_value(case=ODD, loss=["hinge", "least_squares"])
def test_odd_tables(case, loss):
    rows, known, labels = ODD[case]
    pipeline = fitted(rows, None, (known, labels), loss=loss)
    assert np.isfinite(pipeline.score_samples(known)).all()
    assert np.isfinite(pipeline.offset_)
    assert set(pipeline.predict(known)) <= {1, -1}
    assert pipeline.certificate_.status == "optimal"
    assert pipeline.score(known, labels) == pytest.approx(pipeline.validation_auc_.max())


def test_the_paper_s_grid_at_fifty_rows():
    pipeline = fitted(
        **{name: Pipeline().get_params()[name] for name in THIN} | {"random_state": 0}
    )
    assert pipeline.validation_auc_.shape == (10, 9)
    assert pipeline.score(X_VAL, Y_VAL) > 0.9


def test_learners_that_say_nothing_are_named():
    with pytest.warns(UserWarning, match="no spread in column 'GMM'"):
        Pipeline(**THIN).fit(np.zeros((20, 3)), validation=VALIDATION)


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (None, r"validation=\(X_val, y_val\)\), y_val with .*; got no validation"),
        (X_VAL, r"; got 'ndarray'"),
        ((X_VAL, None), "32 rows and no anomaly among them"),
        ((X_VAL[:20], Y_VAL[:20]), "20 rows and no anomaly among them"),
        ((X_VAL[20:], Y_VAL[20:]), r"validation=\(X_val, y_val\): y holds only"),
        ((X_VAL, Y_VAL * 2), r"validation=\(X_val, y_val\): y must be"),
        ((X_VAL, Y_VAL[:5]), r"validation=\(X_val, y_val\): y must hold one label"),
        ((X_VAL[:, :2], Y_VAL), r"X has 2 features, but Pipeline is expecting 3"),
        ((np.where(X_VAL > 5, np.nan, X_VAL), Y_VAL), r"validation=.*NaN"),
        ((X_VAL * [1.0, 1e200, 1.0], Y_VAL), r"validation=.*beyond 1e\+100.* column 1 reach"),
    ],
)
def test_validation_that_cannot_choose_is_refused_and_changes_nothing(validation, message):
    pipeline = fitted()
    before = pipeline.score_samples(X), pipeline.learners_
    with pytest.raises(ValueError, match=message):
        pipeline.fit(X, validation=validation)
    np.testing.assert_array_equal(pipeline.score_samples(X), before[0])
    assert pipeline.learners_ is before[1]


@cases(
    ("changes", "message"),
    [
        ({"widths": []}, r"widths must be a sequence of candidates, at least one; got \[\]"),
        ({"rhos": 5.0}, "rhos must be a sequence of candidates, at least one; got 5.0"),
        ({"widths": [0.0]}, "widths must be a finite number above 0, got 0.0"),
        ({"rhos": [100.0]}, "rhos must be percentages from 0 to below 100, got 100"),
        ({"ps": [0.5]}, "p must be in"),
        ({"component_step": 0}, "component_step must be a whole number from 1"),
        ({"loss": "cubic"}, "loss must be one of"),
        ({"standardise": "no"}, "standardise must be one of"),
        ({"clip": "soft"}, "clip must be one of"),
        ({"kernel_form": "width"}, "kernel_form must be one of"),
        ({"learners_learn_from_anomalies": "GMM"}, "learners_learn_from_anomalies must be one of"),
        ({"learners_learn_from_anomalies": 5}, "learners_learn_from_anomalies must be one of"),
        ({"threshold_on": "training"}, "threshold_on must be one of"),
    ],
)
def test_parameters_are_refused_in_words(changes, message):
    with pytest.raises(ValueError, match=message):
        fitted(**changes)


def test_rows_whose_squares_overflow_are_refused():
    with pytest.raises(ValueError, match=r"^Features beyond 1e\+100 .* column 'b' reach"):
        fitted(pd.DataFrame(X * [1.0, 1e200, 1.0], columns=["a", "b", "c"]))


def test_one_normal_row_is_too_few():
    with pytest.raises(ValueError, match="At least 2 normal rows"):
        fitted(X[:3], [1, -1, -1])


def test_nothing_can_be_asked_before_fit():
    for method in ("score_samples", "learner_scores", "decision_function", "predict"):
        with pytest.raises(NotFittedError):
            getattr(Pipeline(), method)(X)


def test_frames_bring_names():
    names = ["length", "load", "age"]
    frame, known = pd.DataFrame(X, columns=names), pd.DataFrame(X_VAL, columns=names)
    pipeline = fitted(frame, None, (known, Y_VAL))
    assert pipeline.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(pipeline.score_samples(frame), fitted().score_samples(X))
    with pytest.raises(ValueError, match="feature names"):
        fitted(frame, None, (known[names[::-1]], Y_VAL))


def test_blocks_of_dask_are_scored_lazily():
    blocks = pytest.importorskip("dask.array").from_array(X, chunks=(20, 3))
    pipeline = fitted()
    lazy = pipeline.score_samples(blocks), pipeline.learner_scores(blocks)
    np.testing.assert_allclose(lazy[0].compute(), pipeline.score_samples(X))
    np.testing.assert_allclose(lazy[1].compute(), pipeline.learner_scores(X))
    with pytest.raises(TypeError, match=r"X\.compute\(\)"):
        pipeline.fit(blocks, validation=VALIDATION)


@pytest.mark.parametrize(("rows", "y"), [(X, None), TAUGHT], ids=["pure", "non-pure"])
def test_a_saved_pipeline_scores_alike(rows, y, tmp_path):
    settings = {"kernel_form": "scale", "learners_learn_from_anomalies": ["SVDD", "GP"]}
    pipeline = fitted(rows, y, **settings)
    save(pipeline, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.score_samples(X_VAL), pipeline.score_samples(X_VAL))
    assert again.settings_ == pipeline.settings_
    assert again.certificate_.gap == pipeline.certificate_.gap


def test_candidates_are_fitted_as_they_would_be_alone():
    grid = candidates(50, widths=[1.0], component_step=20, random_state=0)
    scale = StandardScaler().fit(X)
    rows = scale.transform(X)
    found = fit_candidates(grid, rows)
    for j, candidate in enumerate(grid):
        alone = clone(candidate.detector).fit(rows)
        np.testing.assert_allclose(found[:, j], alone.score_samples(rows), atol=1e-9)
    assert best_per_learner(grid, np.arange(len(grid), dtype=float)) == [0, 1, 2, len(grid) - 1]


def test_areas_are_those_of_scikit_learn():
    scores = np.round(rng.normal(size=(32, 6)), 1)  # with ties
    areas = [roc_auc_score(Y_VAL, column) for column in scores.T]
    np.testing.assert_allclose(auc_of_columns(Y_VAL, scores), areas)
    assert auc_of_columns(Y_VAL, scores[:, 0]) == pytest.approx(areas[0])
