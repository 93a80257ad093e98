"""Scores of experts that were fitted without different folds: on one level, as calm as a mean."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host


def calm_of_mean(scores: Host, by_fit: Host, fold: NDArray[np.intp]) -> Host:
    r"""How much nearer to the median the mean of K fits puts rows than one of the fits does.

    A row's score by the one fit that has not seen it scatters by what rows and what fits differ in,
    :math:`\sigma^2 + \tau^2`, the mean of all fits of a new row by :math:`\sigma^2 + \tau^2 / K`.
    How fits differ about a row, :math:`\tau^2`, is read off the others. The result is the root of
    the ratio, of rows below the median, where thresholds are. Without it, thresholds that rest on
    single fits are too low for means: 4.0 % alarms for 5 % with 5 labels, 4.4 % with 20.

    Parameters
    ----------
    scores : ndarray of shape (m, experts)
        Of some normal rows, by the fit without their fold.
    by_fit : ndarray of shape (K, m, experts)
        Of the same rows, by every fit.
    fold : ndarray of shape (m,)
        Their folds: the number of the fit that has not seen them.
    """
    n_fits = len(by_fit)
    if n_fits < 3 or len(scores) < 2:
        return np.ones(scores.shape[1])
    others = by_fit.copy()
    others[fold, np.arange(len(fold))] = np.nan
    below = scores - _median(scores)
    low = np.where(below < 0, 1.0, np.nan)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Mean of empty slice|Degrees of freedom")
        fits_differ = np.nanmean(low * np.nanvar(others, axis=0, ddof=1), axis=0)
        whole = np.nanmean(low * below**2, axis=0)
    share = np.divide(fits_differ, whole, out=np.zeros_like(whole), where=whole > 0)
    calm: Host = np.sqrt(1.0 - np.clip(np.nan_to_num(share), 0.0, 1.0) * (1.0 - 1.0 / n_fits))
    return calm


def calmed(scores: Host, calm: Host | None, normal: Host) -> Host:
    """Scores by single fits as means of fits would have them: below the median of `normal` ones."""
    if calm is None:
        return scores
    below = np.minimum(scores - _median(normal), 0.0)
    found: Host = scores - (1.0 - calm) * below
    return found


def on_one_level(scores: Host, labels: Host, fold: NDArray[np.intp]) -> Host:
    """Scores by the experts of each fold; where folds differ more than rows do, on one level.

    Experts that tell the classes apart without fail give all normal rows nearly one score, and
    those of another fold another one. That difference says nothing of the rows, but would be all
    that there is to set a scale by: with it, a hundredth of a score once counted like a standard
    deviation. Such scores are moved so that normal rows have the same median in all folds.
    """
    numbers = [number for number in np.unique(fold) if (labels[fold == number] > 0).any()]
    parts = [scores[(fold == number) & (labels > 0)] for number in numbers]
    medians = np.array([_median(part) for part in parts])
    within = _median(np.array([_median(np.abs(part - _median(part))) for part in parts]))
    apart = np.nan_to_num(_median(np.abs(medians - _median(medians)))) > np.nan_to_num(within)
    found = scores.copy()
    for number, median in zip(numbers, medians, strict=True):
        found[fold == number] += np.where(apart, np.nan_to_num(_median(medians) - median), 0.0)
    return found


def _median(scores: Host) -> Host:
    """Of each column, without gaps; NaN where there is nothing else."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="All-NaN slice")
        middle: Host = np.nanmedian(scores, axis=0)
    return middle
