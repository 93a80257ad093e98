"""Shapley values from their definition: the mean over all orders, one mixed row at a time."""

from itertools import permutations

import numpy as np


def shapley_by_all_orders(score, x, background, groups):
    """Of one row; `score` takes rows, `groups` are lists of positions."""
    total, orders = np.zeros(len(groups)), list(permutations(range(len(groups))))
    for other in background:
        for order in orders:
            mixed = other.copy()
            before = score(mixed[None])[0]
            for g in order:
                mixed[groups[g]] = x[groups[g]]
                after = score(mixed[None])[0]
                total[g] += after - before
                before = after
    return total / (len(orders) * len(background))
