"""The power law of cost: planted exponents come back, within limits that mean what they say."""

from itertools import product

import numpy as np
import pytest

from research.speed.scaling.growth import PowerLaw

CELLS = list(product([1e5, 3e5, 1e6, 4e6], [4, 12, 36, 128]))
N, R = (np.array(column) for column in zip(*CELLS, strict=True))


def seconds(a, alpha, beta, spread=0.0, seed=0):
    noise = np.random.default_rng(seed).normal(0.0, spread, len(N))
    return a * N**alpha * R**beta * np.exp(noise)


def test_planted_exponents_come_back_exactly_without_noise():
    law = PowerLaw.fitted(N, R, seconds(3e-7, 0.8, 1.1))
    assert law.alpha.value == pytest.approx(0.8)
    assert law.beta.value == pytest.approx(1.1)
    assert law.alpha.high - law.alpha.low < 1e-6
    low, middle, high = law.seconds([1e9], 100)
    assert middle[0] == pytest.approx(3e-7 * 1e9**0.8 * 100**1.1)
    assert low[0] <= middle[0] <= high[0]


def test_limits_hold_the_truth_as_often_as_they_say():
    laws = [PowerLaw.fitted(N, R, seconds(1e-7, 0.9, 0.7, 0.2, seed)) for seed in range(400)]
    alphas = np.mean([law.alpha.low <= 0.9 <= law.alpha.high for law in laws])
    betas = np.mean([law.beta.low <= 0.7 <= law.beta.high for law in laws])
    true = 1e-7 * 2e6**0.9 * 50**0.7
    bands = [law.seconds(2e6, 50) for law in laws]
    curves = np.mean([low[0] <= true <= high[0] for low, _, high in bands])
    assert all(0.91 < covered < 0.985 for covered in (alphas, betas, curves))


def test_the_band_is_narrowest_amid_the_measurements():
    law = PowerLaw.fitted(N, R, seconds(1e-7, 0.9, 0.7, 0.2))
    low, _, high = law.seconds([1e3, 6e5, 1e9], 20)
    width = high / low
    assert width[1] < width[0]
    assert width[1] < width[2]


@pytest.mark.parametrize("chosen", [slice(0, 3), N == 1e5, R == 36])
def test_too_little_to_tell_is_refused(chosen):
    with pytest.raises(ValueError, match="several n and R"):
        PowerLaw.fitted(N[chosen], R[chosen], seconds(1, 1, 1)[chosen])


def test_rows_alone_have_a_law_of_their_own():
    n = np.array([1e3, 1e4, 1e5])
    law = PowerLaw.fitted(n, None, 2e-6 * n**1.3)
    assert law.alpha.value == pytest.approx(1.3)
    assert law.seconds([1e6])[1][0] == pytest.approx(2e-6 * 1e6**1.3)
    with pytest.raises(ValueError, match="in n needs 3 measurements over several n"):
        PowerLaw.fitted(n[:2], None, n[:2])
