"""`LpFusion(prior=…, radius=…)`: weights near some that are known from elsewhere."""

import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from helpers.cases import cases
from helpers.contract import assert_passes_checks, refused_labels
from helpers.pairwise import pairwise
from lpfuse import LpFusion, lp_path
from lpfuse.io import load, save
from oracles import naive
from oracles.problems import FEW_P

NAMES = ["forest", "svm", "lof"]
PRIOR = [0.5, 0.3, 0.1]
BY_NAME = {"lof": 0.1, "svm": 0.3, "forest": 0.5, "absent": 7.0}


@pytest.fixture
def labelled():
    rng = np.random.default_rng(0)
    y = np.where(rng.random(120) < 0.25, -1, 1)
    return y[:, None] * [0.9, 0.4, 0.1] + rng.normal(0.0, 0.6, (120, 3)), y


class LabelsDropped(LpFusion):
    """Fit without y: scikit-learn's checks feed labels other than ±1, which we refuse."""

    def fit(self, S, y=None, sample_weight=None):
        return super().fit(S, sample_weight=sample_weight)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:Scores have no spread:UserWarning", "ignore:Some detectors give:UserWarning"
)
@pytest.mark.parametrize(
    "estimator", [LabelsDropped(radius=0.5), LabelsDropped(radius=2.0, nonnegative=True)], ids=str
)
def test_scikit_learn_contract_of_variants(estimator):
    assert_passes_checks(estimator, refused_labels())


@pairwise(p=FEW_P, loss=("hinge", "least_squares"), nonnegative=(False, True))
def test_weights_stay_within_the_radius_and_are_proven(labelled, p, loss, nonnegative):
    S, y = labelled
    fusion = LpFusion(
        p=p, loss=loss, prior=PRIOR, radius=0.2, fit_intercept=True, nonnegative=nonnegative,
        class_weight="balanced", imaginary_anomalies=3.0,
    ).fit(S, y)  # fmt: skip
    assert naive.norm(fusion.weights_ - PRIOR, p) <= 0.2 * (1 + 1e-12)
    assert fusion.certificate_.status == "optimal"
    assert np.abs(fusion.weights_ - PRIOR).max() > 1e-3
    assert fusion.prior_.tolist() == PRIOR


def test_radius_one_without_a_prior_is_the_papers_ball(labelled):
    plain, said = LpFusion().fit(*labelled), LpFusion(prior=None, radius=1).fit(*labelled)
    assert plain.weights_.tolist() == said.weights_.tolist()
    assert plain.prior_ is None


@pytest.mark.parametrize("radius", [0.25, 3.0])
def test_a_radius_alone_scales_the_ball(labelled, radius):
    S, y = labelled
    fusion, scaled = LpFusion(p=2, radius=radius).fit(S, y), LpFusion(p=2).fit(radius * S, y)
    np.testing.assert_allclose(fusion.weights_, radius * scaled.weights_, rtol=1e-4)
    assert fusion.certificate_.primal == pytest.approx(scaled.certificate_.primal, rel=2e-8)


def test_radius_zero_learns_the_intercept_alone(labelled):
    S, y = labelled
    fusion = LpFusion(prior=PRIOR, radius=0, fit_intercept=True).fit(S, y)
    assert fusion.weights_.tolist() == PRIOR
    margins = 1 - y * (S @ PRIOR)
    best = min(np.maximum(margins - y * b, 0).sum() for b in y * margins)  # b makes a residual 0
    assert fusion.certificate_.primal == pytest.approx(best, rel=1e-8)
    assert fusion.certificate_.status == "optimal"


def test_a_fitted_prior_is_not_the_users_array(labelled):
    prior = np.array(PRIOR)
    fusion = LpFusion(prior=prior, radius=0).fit(*labelled)
    prior[:] = 7.0
    assert fusion.prior_.tolist() == fusion.weights_.tolist() == PRIOR


# ---------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize("prior", [BY_NAME, pd.Series(BY_NAME)], ids=["mapping", "series"])
def test_weights_by_name_find_their_columns(labelled, frame, prior):
    S, y = labelled
    table = frame(dict(zip(NAMES, S.T, strict=True)))
    by_name = LpFusion(prior=prior, radius=0.2).fit(table, y)
    assert (
        by_name.weights_.tolist() == LpFusion(prior=PRIOR, radius=0.2).fit(S, y).weights_.tolist()
    )
    turned = frame(dict(zip(NAMES[::-1], S.T[::-1], strict=True)))
    assert LpFusion(prior=prior, radius=0).fit(turned, y).weights_.tolist() == PRIOR[::-1]


def test_detectors_without_a_name_in_the_prior_have_none(labelled):
    S, y = labelled
    fusion = LpFusion(prior={"svm": 1}, radius=0).fit(pd.DataFrame(S, columns=NAMES), y)
    assert fusion.weights_.tolist() == [0.0, 1.0, 0.0]


def test_a_series_without_names_goes_by_position(labelled):
    fusion = LpFusion(prior=pd.Series(PRIOR), radius=0).fit(*labelled)
    assert fusion.weights_.tolist() == PRIOR


# ---------------------------------------------------------------------------- where scores live


@pytest.mark.parametrize("loss", ["hinge", "least_squares"])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_dask_torch_and_numpy_give_one_answer(labelled, loss, nonnegative):
    torch = pytest.importorskip("torch")
    S, y = labelled
    fusion = LpFusion(
        p=2, loss=loss, prior=PRIOR, radius=0.2, nonnegative=nonnegative, fit_intercept=True
    )
    expected = clone(fusion).fit(S, y)
    blocks = clone(fusion).fit(da.from_array(S, chunks=(50, 3)), da.from_array(y, chunks=50))
    tensors = clone(fusion).fit(torch.asarray(S), torch.asarray(y))
    single = clone(fusion).fit(S.astype(np.float32), y)
    frame = dd.from_pandas(pd.DataFrame(S, columns=NAMES), npartitions=3)
    labels = dd.from_pandas(pd.Series(y), npartitions=3)
    named = clone(fusion).set_params(prior=BY_NAME).fit(frame, labels)
    for other, digits in ((blocks, 1e-7), (tensors, 1e-7), (named, 1e-7), (single, 1e-5)):
        assert other.certificate_.status == "optimal"
        primal = expected.certificate_.primal
        assert other.certificate_.primal == pytest.approx(primal, rel=digits)
    prior = torch.asarray(PRIOR, dtype=torch.float32)
    assert LpFusion(prior=prior, radius=0).fit(S, y).weights_ == pytest.approx(PRIOR, rel=1e-7)


def test_a_path_goes_around_the_prior(labelled):
    S, y = labelled
    path = lp_path(S, y, ps=[1, 2, float("inf")], prior=PRIOR, radius=0.2, nonnegative=True)
    for p, w, certificate in zip(path.ps, path.weights, path.certificates, strict=True):
        assert naive.norm(w - PRIOR, p) <= 0.2 * (1 + 1e-12)
        assert certificate.status == "optimal"
    alone = LpFusion(p=2, prior=PRIOR, radius=0.2, nonnegative=True).fit(S, y)
    assert path.certificates[1].primal == pytest.approx(alone.certificate_.primal, rel=2e-8)


@pytest.mark.parametrize("prior", [PRIOR, np.array(PRIOR), tuple(PRIOR), BY_NAME], ids=str)
def test_a_fusion_with_a_prior_is_saved_and_loaded(labelled, tmp_path, prior):
    S, y = labelled
    table = pd.DataFrame(S, columns=NAMES)
    fusion = LpFusion(prior=prior, radius=0.2).fit(table, y)
    save(fusion, tmp_path / "fusion.lpfuse")
    again = load(tmp_path / "fusion.lpfuse")
    assert again.score_samples(table).tolist() == fusion.score_samples(table).tolist()
    assert np.array_equal(again.prior_, fusion.prior_)
    refitted = clone(again).fit(table, y)
    assert refitted.weights_.tolist() == fusion.weights_.tolist()
    assert refitted.get_params()["radius"] == 0.2


# --------------------------------------------------------------------------------------- misuse

MISUSE = {
    "too few": ({"prior": [1.0]}, "prior has 1 weights, but there are 3 columns"),
    "a number": ({"prior": 1.0}, "prior must"),
    "a table": ({"prior": [PRIOR]}, "prior must"),
    "words": ({"prior": ["a", "b", "c"]}, "could not convert|prior"),
    "NaN": ({"prior": [0.1, np.nan, 0.2]}, "prior must be numbers"),
    "infinite": ({"prior": [0.1, np.inf, 0.2]}, "prior must be finite weights"),
    "too large": ({"prior": [0.1, 1e20, 0.2]}, "prior must be finite weights of at most 1e"),
    "negative": ({"prior": [0.1, -0.2, 0.2], "nonnegative": True}, "prior holds a negative weight"),
    "no names": ({"prior": BY_NAME}, "the columns of S have no names"),
    "radius negative": ({"radius": -1.0}, "radius must be a finite number at least 0"),
    "radius NaN": ({"radius": np.nan}, "radius must be a finite number"),
    "radius infinite": ({"radius": np.inf}, "radius must be a finite number"),
    "radius a word": ({"radius": "1"}, "radius must be a finite number"),
    "radius a truth": ({"radius": True}, "radius must be a finite number"),
}


@cases("misuse", MISUSE)
def test_unusable_priors_are_refused_before_anything_changes(labelled, misuse):
    parameters, message = MISUSE[misuse]
    fusion = LpFusion(**parameters)
    with pytest.raises(ValueError, match=message):
        fusion.fit(*labelled)
    assert not hasattr(fusion, "weights_")


def test_a_mapping_that_names_no_column_is_refused(labelled):
    S, y = labelled
    with pytest.raises(ValueError, match="prior has a weight for none of the columns"):
        LpFusion(prior={"gmm": 1.0}).fit(pd.DataFrame(S, columns=NAMES), y)


def test_small_weights_of_a_small_ball_are_not_called_zero(labelled):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LpFusion(radius=1e-8).fit(*labelled)
