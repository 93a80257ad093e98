"""Everything at once is what the methods say one by one."""

import numpy as np
import pytest

from helpers.pools import Journal, Witness, numbered
from lpfuse import FixedRule, FusedDetector, GMMDetector, KernelPCADetector

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


def test_the_detectors_are_asked_once():
    model, journal = watched()
    before = len(journal.asked)
    model.verdicts(numbered(X)[:5])
    assert len(journal.asked) == before + 1


def test_plain_calibration_changes_the_threshold_alone():
    (cross, all_fits), (plain, fewer_fits) = watched(), watched(calibration="plain")
    # All rows, five folds; and for "cross" the same without each of five parts.
    assert (len(all_fits.fits), len(fewer_fits.fits)) == (36, 6)
    rows = numbered(X)
    np.testing.assert_array_equal(cross.score_samples(rows), plain.score_samples(rows))
    assert (plain.unseen_.by, cross.unseen_.by) == ("plain", "cross")
    assert plain.offset_ != cross.offset_
