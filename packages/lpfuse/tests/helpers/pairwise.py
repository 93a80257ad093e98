"""Parametrize a test by few combinations of its factors instead of by all of them.

Most faults depend on one factor or on two of them together. Use as a decorator::

    @pairwise(p=GRID, loss=["hinge", "least_squares"], variant=VARIANTS)
    def test_the_optimum_is_proven(p, loss, variant): ...

It runs 45 cases instead of 90, in which each value of a factor meets each value of every other one.
Two factors by themselves have no fewer pairs than combinations: `each_value` is for factors that do
not interact. Cases do not change from run to run.
"""

from itertools import combinations, cycle, islice, product

import pytest


def pairwise(**factors):
    """Parametrize a test so that every two values of two factors occur together."""
    return _parametrized(all_pairs, factors)


def each_value(**factors):
    """Parametrize a test so that every value of every factor occurs."""
    return _parametrized(all_values, factors)


def all_pairs(*sizes):
    """Return rows of positions in which every two positions of two factors occur together.

    Greedy: each row starts with a pair that is still missing, and takes for every other factor the
    position that brings most of the missing pairs, of equal ones the one used least so far.
    """
    columns = range(len(sizes))
    if len(sizes) < 2:
        return list(product(*map(range, sizes)))
    missing = {
        (a, i, b, j): None  # a dict keeps the order, so that rows are the same in every process
        for a, b in combinations(columns, 2)
        for i, j in product(range(sizes[a]), range(sizes[b]))
    }
    used = [[0] * size for size in sizes]
    rows = []
    while missing:
        a, i, b, j = next(iter(missing))
        row = {a: i, b: j}
        for c in columns:
            if c not in row:
                row[c] = max(
                    range(sizes[c]),
                    key=lambda k: (
                        sum(_pair(c, k, d, m) in missing for d, m in row.items()),
                        -used[c][k],
                    ),
                )
        for c, k in row.items():
            used[c][k] += 1
        for pair in combinations(row.items(), 2):
            missing.pop(_pair(*pair[0], *pair[1]), None)
        rows.append(tuple(row[c] for c in columns))
    return sorted(rows)


def all_values(*sizes):
    """Return as many rows as the largest factor has values; the others start over."""
    if 0 in sizes:
        return []
    return list(islice(zip(*(cycle(range(size)) for size in sizes), strict=True), max(sizes)))


def _pair(a, i, b, j):
    return (a, i, b, j) if a < b else (b, j, a, i)


def _parametrized(rows, factors):
    values = {name: list(each) for name, each in factors.items()}
    cases = [
        tuple(each[k] for each, k in zip(values.values(), row, strict=True))
        for row in rows(*map(len, values.values()))
    ]
    return pytest.mark.parametrize(tuple(values), cases)
