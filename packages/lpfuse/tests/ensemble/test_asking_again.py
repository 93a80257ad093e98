"""What was taught is not asked about again."""

import numpy as np

from lpfuse import FusedDetector, GMMDetector


def test_a_second_round_asks_about_other_rows():
    X = np.random.default_rng(0).normal(size=(60, 2))
    fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X)
    asked: set[int] = set()
    for _ in range(4):
        rows, chances = fused.query(X, 10, return_chances=True)
        assert asked.isdisjoint(rows.tolist())
        asked |= set(rows.tolist())
        fused.teach(X[rows], np.where(rows % 7 == 0, -1, 1), chances=chances)
    assert fused.audit_answers().n_answers == 40


def test_where_all_rows_were_taught_any_may_be_asked_about():
    X = np.random.default_rng(0).normal(size=(20, 2))
    fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X)
    fused.teach(X, np.ones(20))
    assert len(fused.query(X, 3)) == 3
