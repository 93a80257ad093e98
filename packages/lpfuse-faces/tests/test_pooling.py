import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from helpers.cases import cases
from lpfuse_faces._pooling import check_pooling, frame_shares, pooled

FRAMES = arrays(float, st.integers(1, 9), elements=st.floats(-9, 9))
QUANTILES = st.floats(0, 1)


def test_the_mean_of_each_video_wherever_its_frames_stand():
    scores, video = np.array([1.0, 10.0, 3.0, 20.0, 5.0]), np.array([2, 0, 2, 0, 2])
    np.testing.assert_array_equal(pooled(scores, video, 4), [15.0, np.nan, 3.0, np.nan])


def test_no_frames_at_all():
    assert np.isnan(pooled([], np.empty(0, dtype=int), 2)).all()


@given(FRAMES, QUANTILES)
def test_quantiles_are_numpys(scores, q):
    found = pooled(scores, np.zeros(len(scores), dtype=int), 1, q)
    np.testing.assert_allclose(found, np.quantile(scores, q), atol=1e-12)


@given(FRAMES, QUANTILES | st.just("mean"))
def test_shares_add_up_to_one_and_to_the_score(scores, pooling):
    shares = frame_shares(scores, pooling)
    assert shares.min() >= 0
    assert shares.sum() == pytest.approx(1)
    expected = pooled(scores, np.zeros(len(scores), dtype=int), 1, pooling)
    np.testing.assert_allclose(shares @ scores, expected, atol=1e-12)


@cases("pooling", ["mean", 0.0, 0.5, 1.0])
def test_frames_without_a_score_do_not_count(pooling):
    scores, video = np.array([np.nan, 2.0, 7.0, np.nan]), np.array([0, 0, 0, 1])
    expected = pooled([2.0, 7.0], [0, 0], 1, pooling)[0]
    np.testing.assert_array_equal(pooled(scores, video, 2, pooling), [expected, np.nan])


@cases("wrong", ["median", 1.5, -0.1, None, np.nan])
def test_other_pooling_is_refused(wrong):
    with pytest.raises(ValueError, match=r'pooling must be.*or pass "mean"'):
        check_pooling(wrong)
