"""Everything at once is what the methods say one by one."""

from copy import deepcopy

import numpy as np
import pandas as pd
import polars as pl
import pytest

from helpers.pools import Journal, Witness, numbered
from lpfuse import FixedRule, FusedDetector, GMMDetector, KernelPCADetector
from lpfuse_cli.scoring import score_frame

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))


def fused(**options):
    detectors = [("kpca", KernelPCADetector(), [0, 1]), ("gmm", GMMDetector(random_state=0), [2])]
    return FusedDetector(detectors, random_state=0, **options).fit(X)


def test_verdicts_are_what_the_methods_say():
    model, rows = fused(), RNG.normal(size=(9, 3))
    found = model.verdicts(rows)
    np.testing.assert_array_equal(found.scores, model.score_samples(rows))
    np.testing.assert_array_equal(found.decision, model.decision_function(rows))
    np.testing.assert_array_equal(found.pvalues, model.pvalues(rows))
    np.testing.assert_array_equal(found.contributions, model.contributions(rows))
    np.testing.assert_array_equal(found.detector_scores, model.detector_scores(rows))


@pytest.mark.filterwarnings("ignore:Some detectors could not score")
def test_silent_detectors_are_made_up_for():
    model, rows = fused(), RNG.normal(size=(6, 3))
    rows[0, 2] = rows[1, 0] = np.nan
    rows[2] = np.nan
    found = model.verdicts(rows)
    np.testing.assert_array_equal(found.decision, model.decision_function(rows))
    np.testing.assert_array_equal(found.pvalues, model.pvalues(rows))
    assert np.isnan(found.scores).tolist() == [False, False, True, False, False, False]


def test_what_is_no_sum_has_no_contributions():
    found = fused(fusion=FixedRule("max")).verdicts(X[:4])
    assert found.contributions is None
    assert found.scores.shape == (4,)


def watched(**options):
    journal = Journal()
    detectors = [("witness", Witness(journal)), ("gmm", GMMDetector(random_state=0))]
    model = FusedDetector(detectors, random_state=0, **options).fit(numbered(X))
    return model, journal


@pytest.mark.filterwarnings("ignore:In column 0, numbers only grow")
def test_the_detectors_are_asked_once():
    model, journal = watched()
    before = len(journal.asked)
    model.verdicts(numbered(X)[:5])
    assert len(journal.asked) == before + 1


@pytest.mark.filterwarnings("ignore:In column 0, numbers only grow")
def test_plain_calibration_changes_the_threshold_alone():
    (cross, all_fits), (plain, fewer_fits) = watched(), watched(calibration="plain")
    # All rows, five folds; and for "cross" the same without each of five parts.
    assert (len(all_fits.fits), len(fewer_fits.fits)) == (36, 6)
    rows = numbered(X)
    np.testing.assert_array_equal(cross.score_samples(rows), plain.score_samples(rows))
    assert (plain.unseen_.by, cross.unseen_.by) == ("plain", "cross")
    assert plain.offset_ != cross.offset_


# -------------------------------------------------------------------------------------- data frames

NAMES = ["score", "p_value", "decision", "contribution:kpca", "contribution:gmm"]


def check_columns(found, model, rows):
    np.testing.assert_array_equal(found["score"], model.score_samples(rows))
    np.testing.assert_array_equal(found["p_value"], model.pvalues(rows))
    np.testing.assert_array_equal(found["decision"], model.predict(rows))
    parts = np.column_stack([found[name] for name in NAMES[3:]])
    np.testing.assert_array_equal(parts, model.contributions(rows))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_of_the_library_of_the_rows(library):
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame}[library]
    columns = dict(zip("abc", X.T, strict=True))
    detectors = [("kpca", KernelPCADetector(), [0, 1]), ("gmm", GMMDetector(random_state=0), [2])]
    model = FusedDetector(detectors, random_state=0).fit(frame(columns))
    rows = frame({name: column[:6] * 2 for name, column in columns.items()})
    found = model.verdicts(rows).to_frame()
    assert type(found) is type(rows)
    assert list(found.columns) == NAMES
    check_columns(found, model, rows)


def test_the_index_of_rows_is_kept_and_ids_stand_before():
    model = fused()
    rows = pd.DataFrame(X[:4], index=pd.Index(["P-7", "P-3", "P-9", "P-1"], name="serial"))
    found = model.verdicts(rows).to_frame(site=pd.Series(["n", "s", "n", "s"]))
    assert found.index.equals(rows.index)
    assert found.columns.tolist() == ["site", *NAMES]
    assert found.loc["P-3", "site"] == "s"
    check_columns(found, model, rows)
    assert model.verdicts(rows).to_frame("polars", serial=rows.index)["serial"][1] == "P-3"


def test_arrays_become_a_frame_of_what_is_installed():
    found = fused().verdicts(X[:3])
    assert isinstance(found.to_frame(), pd.DataFrame)
    check_columns(found.to_frame("polars"), fused(), X[:3])


@pytest.mark.filterwarnings("ignore:Some detectors could not score")
def test_rows_without_a_score_are_missing_and_called_anomalies():
    found = fused().verdicts(np.vstack([X[:2], np.full(3, np.nan)]))
    assert found.to_frame()["score"].isna().tolist() == [False, False, True]
    assert found.to_frame("polars")["score"].is_null().to_list() == [False, False, True]
    assert found.to_frame("polars")["decision"].to_list()[-1] == -1


def test_clashing_columns_and_unknown_libraries_raise():
    found = fused().verdicts(X[:2])
    with pytest.raises(ValueError, match="'score': the scores have a column of that name"):
        found.to_frame(score=[1, 2])
    with pytest.raises(ValueError, match="library must be one of 'pandas', 'polars'; got 'dask'"):
        found.to_frame("dask")


def test_fusion_without_sum_has_no_contribution_columns():
    found = fused(fusion=FixedRule("max")).verdicts(X[:2]).to_frame()
    assert found.columns.tolist() == NAMES[:3]


def test_verdicts_are_a_tuple_of_five_arrays():
    found = fused().verdicts(X[:2])
    scores, *_ = found
    assert len(found) == 5
    assert scores is found.scores
    again = deepcopy(found)  # as other processes send it
    assert again.to_frame().equals(found.to_frame())


def test_the_columns_are_those_of_tables():
    frame = pl.DataFrame(X, schema=["a", "b", "c"])
    model = FusedDetector(["kpca", "gmm"]).fit(frame)
    assert score_frame(model, frame).columns == model.verdicts(frame).to_frame("polars").columns
