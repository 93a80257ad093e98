"""The helper that chooses combinations of factors: which ones, and how few."""

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.pairwise import all_pairs, all_values, each_value, pairwise


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_every_pair_of_values_occurs_in_a_row(sizes):
    rows = all_pairs(*sizes)
    for a, b in combinations(range(len(sizes)), 2):
        assert {(row[a], row[b]) for row in rows} == set(product(range(sizes[a]), range(sizes[b])))
    assert all({row[a] for row in rows} == set(range(size)) for a, size in enumerate(sizes))
    assert rows == all_pairs(*sizes)


@pytest.mark.parametrize(
    ("sizes", "most"), [((9, 5), 45), ((9, 5, 2), 45), ((9, 5, 5, 2), 50), ((2,) * 8, 10)]
)
def test_rows_are_hardly_more_than_pairs_of_the_largest_factors(sizes, most):
    assert len(all_pairs(*sizes)) <= most


@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4))
def test_every_value_occurs_in_as_few_rows_as_can_be(sizes):
    rows = all_values(*sizes)
    assert len(rows) == max(sizes)
    assert all({row[a] for row in rows} == set(range(size)) for a, size in enumerate(sizes))


@pytest.mark.parametrize("cover", [pairwise, each_value])
def test_an_empty_factor_leaves_no_case(cover):
    assert cover(p=[], loss=["hinge"]).args[1] == []


@pytest.mark.parametrize("cover", [pairwise, each_value])
def test_values_come_under_the_names_of_their_factors(cover):
    names, cases = cover(p=[1.0, 2.0], variant={"plain": 0, "costs": 1}).args
    assert names == ("p", "variant")
    assert {case[0] for case in cases} == {1.0, 2.0}
    assert {case[1] for case in cases} == {"plain", "costs"}


@pairwise(first=["a", "b"], second=[(1, 2)])
def test_the_decorator_hands_values_over_as_they_are(first, second):
    assert first in ("a", "b")
    assert second == (1, 2)
