import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.cases import cases
from helpers.pairwise import each_value
from lpfuse_faces import _spectrum as module
from lpfuse_faces._spectrum import (
    Stretch,
    azimuthal_profiles,
    azimuthal_profiles_of,
    filtered_spectra,
    fit_stretch,
    spectrum_images,
)

SIDES = (2, 3, 16, 17, 24, 45)


def noise(side, seed=0, deviation=20.0):
    return 128 + deviation * np.random.default_rng(seed).normal(size=(side, side))


def radii(side):
    """In cycles per pixel, zero in the middle."""
    waves = np.arange(side) - side // 2
    return np.sqrt(waves[:, None] ** 2 + waves**2) / side


def high_pass(side):
    with np.errstate(divide="ignore"):
        return 1 / (1 + (0.1 / radii(side)) ** 4)


def hann(side):
    one = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(side) / side)
    return one[:, None] * one


def naive_spectrum(patch):
    """The definition, by a discrete Fourier transform written out as a matrix, in float64."""
    patch = np.asarray(patch, dtype=np.float64)
    side, window = len(patch), hann(len(patch))
    waves = np.arange(side) - side // 2
    dft = np.exp(-2j * np.pi * np.outer(waves, np.arange(side)) / side)
    transformed = dft @ (window * (patch - patch.mean())) @ dft.T
    return np.log1p(np.abs(transformed) / np.sqrt((window**2).sum())) * high_pass(side)


def naive_profile(spectrum, bins):
    side, rings = len(spectrum), [[] for _ in range(bins)]
    for row in range(side):
        for column in range(side):
            squared = (row - side // 2) ** 2 + (column - side // 2) ** 2
            if 4 * squared <= side**2:
                # The last k with (k · side)² ≤ (2 · bins)² · squared, in whole numbers.
                k = max(k for k in range(bins) if (k * side) ** 2 <= (2 * bins) ** 2 * squared)
                rings[k].append(spectrum[row, column])
    known = [k for k in range(bins) if rings[k]]
    return np.interp(range(bins), known, [np.mean(rings[k]) for k in known])


def test_spectra_agree_with_the_definition():
    patches = [noise(side, seed) for seed in range(2) for side in SIDES]
    for spectrum, patch in zip(filtered_spectra(patches), patches, strict=True):
        assert spectrum.dtype == np.float32
        np.testing.assert_allclose(spectrum, naive_spectrum(patch), rtol=1e-4, atol=1e-5)


def test_integers_give_the_same_result_and_stay_unchanged():
    patch = noise(24).astype(np.uint8)
    before = patch.copy()
    np.testing.assert_array_equal(
        filtered_spectra([patch])[0], filtered_spectra([patch.astype(np.float32)])[0]
    )
    np.testing.assert_array_equal(patch, before)


@pytest.mark.parametrize("sides", [(24, 16), (256, 16), (400,)])
def test_what_is_transformed_together_does_not_matter(sides):
    """All patches of a side at once, two of them, or one: 2¹⁷ pixels are transformed together."""
    patches = [noise(side, seed) for seed in range(4) for side in sides]
    together = filtered_spectra(patches)
    for spectrum, patch in zip(together, patches, strict=True):
        np.testing.assert_array_equal(spectrum, filtered_spectra([patch])[0])
    np.testing.assert_array_equal(
        azimuthal_profiles_of(patches, 8),
        np.vstack([azimuthal_profiles_of([p], 8) for p in patches]),
    )


@cases(("across", "down"), [(8, 0), (0, 12), (6, 10), (6, -10), (-5, 7)])
def test_a_wave_appears_at_its_frequency_and_its_opposite(across, down):
    side = 48
    x, y = np.meshgrid(np.arange(side), np.arange(side))
    wave = np.cos(2 * np.pi * (across * x + down * y) / side)
    spectrum = filtered_spectra([wave])[0]
    highest = {tuple(place) for place in np.argwhere(spectrum > 0.999 * spectrum.max())}
    middle = side // 2
    assert highest == {(middle + down, middle + across), (middle - down, middle - across)}


@cases("side", SIDES)
def test_a_spectrum_is_symmetric_and_empty_in_the_middle(side):
    spectrum = filtered_spectra([noise(side)])[0]
    opposite = -(np.arange(side) - side // 2) + side // 2
    inside = opposite < side  # an even side has one frequency without an opposite one
    square = spectrum[np.ix_(inside, inside)]
    np.testing.assert_allclose(square, square[::-1, ::-1], rtol=1e-4)
    assert spectrum[side // 2, side // 2] == 0


@pytest.mark.parametrize("side", [17, 32])
def test_the_energy_is_that_of_the_windowed_patch(side):
    patch = noise(side)
    spectrum = filtered_spectra([patch])[0].astype(np.float64)
    away = radii(side) > 0
    magnitudes = np.expm1(spectrum[away] / high_pass(side)[away])
    window = hann(side)
    windowed = window * (patch - patch.mean())
    energy = (magnitudes**2).sum() + windowed.sum() ** 2 / (window**2).sum()
    expected = side**2 * (windowed**2).sum() / (window**2).sum()
    np.testing.assert_allclose(energy, expected, rtol=1e-4)


def test_noise_has_its_own_level_however_large_the_patch():
    for side, patches in ((16, 400), (48, 40), (180, 4)):
        spectra = filtered_spectra([noise(side, seed, deviation=7) for seed in range(patches)])
        far = radii(side) > 0.25
        magnitudes = np.expm1(np.array(spectra)[:, far] / high_pass(side)[far])
        np.testing.assert_allclose(np.sqrt((magnitudes**2).mean()), 7, rtol=0.02)


def test_brightness_is_ignored_and_double_contrast_adds_log_two():
    patch = noise(64)
    plain, brighter, stronger = filtered_spectra([patch, patch + 50, 2 * patch])
    np.testing.assert_allclose(brighter, plain, atol=1e-3)
    loud = naive_spectrum(patch) > 3
    added = (stronger - plain)[loud] / high_pass(64)[loud]
    assert loud.sum() > 100
    np.testing.assert_allclose(added, np.log(2), atol=0.03)


@each_value(side=SIDES, bins=[1, 5, 64])
def test_profiles_agree_with_loops_over_rings(side, bins):
    spectrum = np.random.default_rng(1).random((side, side)).astype(np.float32)
    profile = azimuthal_profiles([spectrum], bins)
    assert profile.dtype == np.float32
    np.testing.assert_allclose(profile, [naive_profile(spectrum, bins)], rtol=1e-5)


@given(
    sides=st.lists(st.integers(2, 40), min_size=1, max_size=4),
    bins=st.integers(1, 70),
    seed=st.integers(0, 99),
)
def test_half_a_spectrum_gives_the_same_profiles(sides, bins, seed):
    patches = [noise(side, seed) for side in sides]
    two_steps = azimuthal_profiles(filtered_spectra(patches), bins)
    assert np.isfinite(two_steps).all()
    np.testing.assert_allclose(azimuthal_profiles_of(patches, bins), two_steps, rtol=1e-4)


def test_rings_of_a_flat_spectrum_are_flat_without_corners():
    level = np.where(radii(20) > 0.5, 99.0, 3.0)
    np.testing.assert_allclose(azimuthal_profiles([level], 64), np.full((1, 64), 3.0), rtol=1e-6)


def test_profiles_forget_direction():
    patch = noise(30)
    np.testing.assert_allclose(
        azimuthal_profiles_of([patch]), azimuthal_profiles_of([patch.T]), rtol=1e-3, atol=1e-4
    )


def test_a_patch_without_contents_has_an_empty_spectrum():
    assert not filtered_spectra([np.full((16, 16), 200, dtype=np.uint8)])[0].any()
    assert not azimuthal_profiles_of([np.full((16, 16), 200, dtype=np.uint8)]).any()


def test_nothing_comes_of_nothing():
    assert filtered_spectra([]) == []
    assert azimuthal_profiles([], 8).shape == azimuthal_profiles_of([], 8).shape == (0, 8)
    assert spectrum_images([], 4, 0.0, 1.0).shape == (0, 4, 4)


@cases("shape", [(3, 4), (4,), (4, 4, 3), (1, 1)])
def test_anything_but_grey_squares_is_refused(shape):
    for function in (filtered_spectra, azimuthal_profiles, azimuthal_profiles_of):
        with pytest.raises(ValueError, match=r"Expected grey squares .* at position 1"):
            function([np.ones((4, 4)), np.ones(shape)])


def test_rings_are_counted_from_one():
    with pytest.raises(ValueError, match="bins must be a whole number from 1, got 0"):
        azimuthal_profiles([np.ones((4, 4))], 0)


def test_what_is_kept_between_calls_cannot_be_changed():
    for kept in (module._window(8), module._high_pass(8), module._whole_from_half(8)):
        assert not kept.flags.writeable


def test_a_stretch_lies_at_quantiles_of_region_pixels():
    rng = np.random.default_rng(0)
    spectra = {
        "face": [rng.normal(size=(60, 60)) for _ in range(5)],
        "nose": [rng.exponential(size=(side, side)) for side in (20, 30)],
    }
    stretch = fit_stretch(spectra, share=0.02)
    for region, pictures in spectra.items():
        pixels = np.concatenate([picture.ravel() for picture in pictures])
        assert abs((pixels < stretch.low[region]).mean() - 0.02) < 1.5e-3
        assert abs((pixels > stretch.high[region]).mean() - 0.02) < 1.5e-3


def test_a_stretch_can_be_learnt_from_streamed_pairs():
    pictures = [np.arange(12.0).reshape(2, 6) + k for k in range(4)]
    pairs = ((region, [picture]) for picture in pictures for region in ("face", "nose"))
    at_once = fit_stretch({"face": pictures, "nose": pictures}, share=0.1)
    assert fit_stretch(pairs, share=0.1) == at_once
    assert fit_stretch([("face", []), ("face", pictures)], 0) == Stretch({"face": 0}, {"face": 14})


def test_a_stretch_goes_through_json():
    stretch = fit_stretch({"face": [noise(8)]})
    assert Stretch(**json.loads(json.dumps(asdict(stretch)))) == stretch


@pytest.mark.parametrize("pictures", [[], [np.ones((4, 4))]])
def test_spectra_without_spread_set_no_stretch(pictures):
    with pytest.raises(ValueError, match="spectra of region 'nose' have no spread"):
        fit_stretch({"face": [noise(8)], "nose": pictures})


@pytest.mark.parametrize("share", [-0.1, 0.5, "1%"])
def test_a_share_is_less_than_half(share):
    with pytest.raises(ValueError, match="share must be a finite number"):
        fit_stretch({"face": [noise(8)]}, share)


def test_pictures_are_stretched_and_clipped():
    spectrum = np.array([[-1.0, 1.0], [2.0, 9.0]])
    np.testing.assert_allclose(spectrum_images([spectrum], 2, 1, 3), [[[0, 0], [0.5, 1]]])


def test_pictures_shrink_by_averages_and_grow_smoothly():
    large, small = noise(12, deviation=0.1) - 128, np.array([[0.0, 1.0], [0.0, 1.0]])
    images = spectrum_images([large, small], 6, -1, 1)
    assert images.dtype == np.float32
    means = large.reshape(6, 2, 6, 2).mean(axis=(1, 3))
    np.testing.assert_allclose(images[0], (means + 1) / 2, rtol=1e-5)
    assert (np.diff(images[1], axis=1) >= 0).all()
    assert len(np.unique(images[1].round(4))) > 2


def test_low_must_be_below_high():
    with pytest.raises(ValueError, match=r"low must be below high, got low=1, high=1"):
        spectrum_images([np.ones((4, 4))], 4, 1, 1)
