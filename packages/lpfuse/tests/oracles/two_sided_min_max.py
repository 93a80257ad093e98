"""The two-sided min–max transformation, one number at a time."""

from math import log


def two_sided_min_max(reference, scores, rho, feature_range=(-1, 1), clip=False):
    """Lists of rows in, list of rows out; `reference` sets the thresholds."""
    columns = [
        [_scaled(s, *thresholds(known, rho), feature_range, clip) for s in column]
        for known, column in zip(
            zip(*reference, strict=True), zip(*scores, strict=True), strict=True
        )
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def thresholds(column, rho):
    lower, upper = _quantile(column, rho / 200), _quantile(column, 1 - rho / 200)
    return (lower, upper) if lower < upper else (min(column), max(column))


def _quantile(column, level):
    ordered = sorted(column)
    position = level * (len(ordered) - 1)
    below = int(position)
    if below == len(ordered) - 1:
        return ordered[-1]
    return ordered[below] + (position - below) * (ordered[below + 1] - ordered[below])


def _scaled(s, lower, upper, feature_range, clip):
    low, high = feature_range
    if lower == upper:
        return (low + high) / 2
    z = (s - lower) / (upper - lower)
    if clip is True:
        z = min(max(z, 0.0), 1.0)
    elif clip == "soft" and z < 0:
        z = -log(1 - z)
    elif clip == "soft" and z > 1:
        z = 1 + log(z)
    return low + (high - low) * z
