"""The pages on p and on the loss: what is measured for them, and that each number is one of it."""

import re
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from research.common.comparison import Figures
from research.common.datasets import UCI
from research.common.options import Options
from research.common.protocol import PAPER, QUICK, SETTINGS, FittedMethod
from research.common.splits import split
from research.common.statistics import compare, corrected
from research.common.store import read_rows
from research.paper import ablation, loss, lp_effect, paper
from research.paper.ablation import LOSSES, PRESETS, grid, method_name
from research.paper.methods import PAPER_PRESET, lp
from research.tests.small import THIN, made_up_rows, rows_and_labels, tables_in, values_of

QUICK_PS = sorted({*QUICK.ps, inf})


def names(ps=QUICK_PS):
    return [
        method_name(preset, loss, p) for preset in PRESETS for loss in LOSSES for p in (None, *ps)
    ]


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Made-up results in place of measured ones."""

    def of(sets, seeds, **changes):
        rows = made_up_rows(sets, seeds, names(), metrics=("auc",))
        found = lambda options: Figures(rows, options.quick)  # noqa: E731
        monkeypatch.setattr(lp_effect, "ablation", found)
        monkeypatch.setattr(loss, "ablation", found)
        return rows, Options(tmp_path, quick=True, **changes)

    return of


def mean_of(rows, setting, name):
    return np.mean(values_of(rows, setting=setting, method=name))


def by_set(rows, setting, name):
    sets = dict.fromkeys(row["set"] for row in rows)
    return [np.mean(values_of(rows, setting=setting, method=name, set=each)) for each in sets]


def check_gain(cell, ours, theirs, corrected_p_value):
    found = compare(ours, theirs)
    *told, p_value = (float(number) for number in re.findall(r"[+-]?\d+(?:\.\d+)?", cell))
    mean = found.difference
    expected = [mean.mean, mean.low, mean.high, found.wins, found.ties, found.losses]
    np.testing.assert_allclose(told, expected, atol=0.0501)
    assert p_value == pytest.approx(corrected_p_value, rel=0.06)


# --------------------------------------------------------------------------------- what is measured


def test_every_p_is_measured_for_both_losses_and_presets():
    measured = dict(ablation.every_method(Options(quick=True)))
    assert list(measured) == names()
    assert len(measured) == 2 * 2 * (1 + len(QUICK_PS))
    assert grid(Options()) == sorted({*PAPER.ps, inf})
    assert 2.0 in grid(Options())
    assert 2.0 in grid(Options(quick=True))


def test_names_tell_methods_apart():
    assert method_name("ours", "hinge", 32 / 31) == "ours, hinge, p = 32/31"
    assert method_name("ours", "hinge", inf) == "ours, hinge, p = ∞"
    assert method_name("paper", "least_squares", None) == "paper, least_squares, p chosen"
    assert len(set(names(PAPER.ps))) == len(names(PAPER.ps))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_methods_do_what_their_names_say():
    measured = dict(ablation.every_method(Options(quick=True)))
    protocol = replace(THIN, ps=QUICK.ps)
    probe = np.random.default_rng(1).normal(size=(9, 2))
    training = split(*rows_and_labels(), protocol, 0).training("non-pure")
    for kind, p in (("hinge", 8 / 7), ("least_squares", 100.0), ("hinge", None)):
        fitted = measured[method_name("paper", kind, p)](training)
        expected = lp(None if p is None else [p], kind, PAPER_PRESET)(training)
        assert fitted.choices == expected.choices
        np.testing.assert_array_equal(fitted.score(probe), expected.score(probe))


def test_both_pages_read_one_file(tmp_path, monkeypatch):
    seen = []
    fitted = FittedMethod(lambda X: -np.abs(X).sum(axis=1), -1.0)
    methods = {name: lambda training: seen.append(training) or fitted for name in names()}
    monkeypatch.setattr(ablation, "every_method", lambda options: methods.items())
    options = Options(tmp_path, quick=True, sets=("iris",))
    first = lp_effect.run(options)
    measured = len(seen)
    assert measured == 2 * len(names())
    second = loss.run(options)
    assert len(seen) == measured, "the second page measures nothing"
    assert "a quick run" in first
    assert "a quick run" in second
    assert (tmp_path / "lp-effect.md").read_text() == first
    assert (tmp_path / "loss.md").read_text() == second
    assert (tmp_path / "lp-effect.png").read_bytes().startswith(b"\x89PNG")
    assert len(read_rows(tmp_path / "ablation.jsonl")) == 4 * len(names())


# ---------------------------------------------------------------------------------- the effect of p


def test_the_page_on_p_is_made_of_stored_numbers(stored):
    rows, options = stored(UCI, 2)
    text = lp_effect.run(options)
    means, gains = tables_in(text)
    assert list(means) == ["printed in the paper", "measured, paper", "measured, ours"]
    norms = {"ℓ2": ("l2", 2.0), "ℓ∞": ("linf", inf), "ℓp": ("lp", None)}
    heads = [f"{setting}, {norm}" for setting in SETTINGS for norm in norms]
    for row in means.values():
        assert [head for head, _ in row] == heads
    for setting in SETTINGS:
        for norm, (key, p) in norms.items():
            cells = {name: dict(row)[f"{setting}, {norm}"] for name, row in means.items()}
            assert cells["printed in the paper"] == f"{paper.LP_EFFECT[setting][key]:.2f}"
            for preset in PRESETS:
                mean = mean_of(rows, setting, method_name(preset, "hinge", p))
                assert cells[f"measured, {preset}"] == f"{mean:.2f}"
    for preset in PRESETS:
        for setting in SETTINGS:
            chosen = by_set(rows, setting, method_name(preset, "hinge", None))
            for norm, p in (("ℓ2", 2.0), ("ℓ∞", inf)):
                cell = dict(gains[preset])[f"{setting}, ℓp − {norm}"]
                fixed = by_set(rows, setting, method_name(preset, "hinge", p))
                found = lp_effect.comparisons(Figures(rows), preset)
                assert found[setting, norm] == compare(chosen, fixed)
                check_gain(cell, chosen, fixed, corrected(found)[setting, norm].p_value)
    assert "a quick run" in text
    assert "](lp-effect.png)" in text


# ----------------------------------------------------------------------------------------- the loss


def test_the_page_on_the_loss_is_made_of_stored_numbers(stored):
    rows, options = stored(UCI, 2)
    means, gains = tables_in(loss.run(options))
    assert list(means) == ["printed in the paper", "measured, paper", "measured, ours"]
    for setting in SETTINGS:
        for kind, told in (("hinge", "hinge"), ("least_squares", "least squares")):
            cells = {name: dict(row)[f"{setting}, {told}"] for name, row in means.items()}
            assert cells["printed in the paper"] == f"{paper.LOSS[setting][kind]:.2f}"
            for preset in PRESETS:
                mean = mean_of(rows, setting, method_name(preset, kind, None))
                assert cells[f"measured, {preset}"] == f"{mean:.2f}"
        for preset in PRESETS:
            hinge, squares = (
                by_set(rows, setting, method_name(preset, kind, None)) for kind in LOSSES
            )
            found = loss.comparisons(Figures(rows), preset)
            assert found[setting] == compare(hinge, squares)
            cell = dict(gains[preset])[f"{setting}, hinge − least squares"]
            check_gain(cell, hinge, squares, corrected(found)[setting].p_value)


# --------------------------------------------------------------------------------------- other sets


@pytest.mark.parametrize("module", [lp_effect, loss])
def test_published_averages_stand_beside_the_ten_sets_only(stored, module):
    for sets in (["iris", "wine"], [*UCI, "pumps.csv"]):
        _, options = stored(sets, 2)
        assert list(tables_in(module.run(options))[0]) == ["measured, paper", "measured, ours"]


@pytest.mark.parametrize("module", [lp_effect, loss])
def test_one_split_of_one_set_has_no_deviation(stored, module):
    rows, options = stored(["pumps.csv"], 1)
    text = module.run(options)
    (means,) = tables_in(text)
    cells = [float(cell) for row in means.values() for _, cell in row]
    assert all(any(abs(cell - row["value"]) < 0.00501 for row in rows) for cell in cells)
    assert not re.search(r"\b(inf|nan)\b", text)
    assert "one random split of one data set" in text
