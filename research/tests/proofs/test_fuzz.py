"""A short run over all families: no certificate is false, nothing fails, and a run goes on."""

import numpy as np
import pytest

from helpers.cases import cases
from research.common.store import Cell
from research.proofs import fuzz
from research.proofs.families import FAMILIES, make
from research.proofs.fuzz import block, merged, outcome, run, summary
from research.proofs.quoted import QUOTED
from research.proofs.tables import refusals, table, told


@pytest.mark.parametrize("family", FAMILIES)
def test_no_certificate_is_false(family):
    if family == "tensors":
        pytest.importorskip("torch", reason="torch is not installed")
    few = 2 if family.endswith("many rows") else 4
    first = len(QUOTED.get(family, ()))
    rows = [outcome(make(family, seed)) | {"at": seed} for seed in range(first, first + few)]
    assert told([{"set": family} | summary(rows)]) == ""


@cases("family", QUOTED)
def test_no_quoted_certificate_is_false(family):
    rows = [outcome(make(family, seed)) | {"at": seed} for seed in range(len(QUOTED[family]))]
    assert told([{"set": family} | summary(rows)]) == ""


# False once, found by a run: the intercept of dual weights, blocks without labels, scales, ties.
FOUND = [
    ("blocks", 532), ("blocks", 3191), ("mixtures, least squares", 874), ("enormous scores", 4578),
    ("blocks", 1036), ("blocks", 1062), ("heavy tails", 60),
    ("decaying weights, intercept", 87),
    ("scale", 25), ("near the kink", 31), ("weights of all scales", 30), ("mixtures, intercept", 0),
    ("mixtures, least squares", 66), ("zero scores", 26), ("ties", 94), ("outliers", 194),
]  # fmt: skip


@cases(("family", "seed"), FOUND)
def test_what_a_run_has_found_stays_true(family, seed):
    found = outcome(make(family, seed))
    assert found["outcome"] not in ("false", "error"), found["why"]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_certificate_of_many_is_false(family, monkeypatch):
    monkeypatch.setattr(fuzz, "BLOCK", 25)
    assert told([{"set": family} | row for row in block(Cell(family, 1))]) == ""


def test_a_problem_is_known_by_family_and_seed():
    one, same, other = make("mixtures", 7), make("mixtures", 7), make("mixtures", 8)
    assert np.array_equal(one.S, same.S)
    assert one.parameters == same.parameters
    assert one.S.shape != other.S.shape or not np.array_equal(one.S, other.S)


def test_a_run_goes_on_and_tells_what_it_found(tmp_path):
    path = tmp_path / "fuzz.jsonl"
    few = ["plain", "ties"]
    rows = run(1, path, jobs=1, families=few)
    before = path.read_text()
    assert run(1, path, jobs=1, families=few) == rows
    assert path.read_text() == before
    assert [row["set"] for row in rows] == few
    assert sum(sum(row["outcomes"].values()) for row in rows) == 2 * fuzz.BLOCK
    head, _, *lines = table(rows).splitlines()
    assert head.startswith("| family | problems | optimal |")
    assert len(lines) == 3


def test_blocks_add_up():
    one, two = (summary([outcome(make("plain", seed)) | {"at": seed}]) for seed in (0, 1))
    both = merged([one, two])
    assert both["problems"] == 2
    assert sum(both["outcomes"].values()) == 2
    assert both["worst_excess"] == max(one["worst_excess"], two["worst_excess"])


def test_what_must_not_occur_is_told_with_its_seed():
    rows = [
        {"outcome": "optimal", "why": "", "excess": -1e-16, "claimed": 1e-9, "proven": 1e-9,
         "norm_excess": 0.0, "cautious": False, "at": 4},
        {"outcome": "false", "why": "a reason", "excess": 0.5, "claimed": 0.0, "proven": 0.5,
         "norm_excess": 0.0, "cautious": False, "at": 5},
        {"outcome": "error", "why": "ZeroDivisionError: division by zero", "at": 6},
        {"outcome": "refused", "why": "y holds 3 labels.", "at": 7},
    ]  # fmt: skip
    found = {"set": "ties"} | summary(rows)
    assert found["outcomes"] == {"error": 1, "false": 1, "optimal": 1, "refused": 1}
    assert found["worst_excess_of_true"] == -1e-16
    assert told([found]).splitlines()[0].startswith("make('ties', 5): a reason [excess 5.0e-01")
    assert "make('ties', 6): ZeroDivisionError" in told([found])
    assert refusals([found]).split() == ["1", "y", "holds", "…", "labels."]
    assert table([found]).splitlines()[-1].startswith("| all | 4 | 1 | 0 | 0 | 1 | 1 | 1 | 5e-01")
