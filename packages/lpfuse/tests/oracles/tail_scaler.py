"""The scale on which the loudest detector is heard, one number at a time."""

from math import log

from oracles.two_sided_min_max import thresholds


def tail_scaler(reference, scores):
    """Lists of rows in, list of rows out; `reference` sets the quartiles."""
    columns = [
        [_scaled(s, *thresholds(known, 50)) for s in column]
        for known, column in zip(
            zip(*reference, strict=True), zip(*scores, strict=True), strict=True
        )
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def _scaled(s, lower, upper):
    deviation = (upper - lower) / 1.349
    z = (s - (lower + upper) / 2) / deviation if deviation else 0.0
    below = max(0.0, 1 - z)
    if below > 10:
        below = 10 * (1 + log(below / 10))
    return -((below / 2) ** 3)
