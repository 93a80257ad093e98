"""The table of the ten data sets: who is in it, and that each of its numbers is a measured one."""

import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import rankdata

from helpers.cases import cases
from lpfuse import FixedRule
from lpfuse.metrics import best_g_mean
from research.common.comparison import Figures
from research.common.datasets import UCI
from research.common.options import Options
from research.common.protocol import SETTINGS, FittedMethod, threshold
from research.common.ranks import critical_difference, friedman
from research.common.statistics import compare, holm
from research.common.store import read_rows
from research.paper import paper
from research.paper.doubts import doubts
from research.paper.learners import LEARNERS
from research.paper.methods import fusion, lp
from research.paper.ours import SUPERVISED
from research.paper.uci import METHODS, NON_PURE, SEARCHES, ensemble, run
from research.paper.uci_page import (
    OUR_PICK,
    OUR_STACKER,
    OUR_SUM,
    OWN_NOTES,
    VALIDATED_SUM,
    comparisons,
    draw,
    out_of_fold,
    same_figures,
    uci_page,
)
from research.rivals.fusion import ENSEMBLES, NEEDS_LABELS, NOTES, RULES, at_hand
from research.tests.small import made_up_rows, rows_and_labels, small_split, tables_in, values_of

pytest.importorskip("statsmodels", reason="corrections need statsmodels")

OURS = ("lpfuse, defaults", "lpfuse, validated")
SHOWN = [*LEARNERS, "best single", "sum", "ℓp", *OURS]
ALL_KNOWN = ["lpfuse, all known"]
NUMBER = r"[+-]?\d+(?:\.\d+)?(?:e-?\d+)?"


def numbers(cell):
    return [float(number) for number in re.findall(NUMBER, cell)]


# ------------------------------------------------------------------------------------------ methods


def test_the_methods_of_the_paper_and_all_rivals_are_measured():
    assert list(METHODS)[:4] == ["GMM", "SVDD", "GP", "KPCA"]
    assert {"ℓ2", "ℓ∞", "ℓp", "ℓp, least squares", *RULES, *ENSEMBLES, *OURS} <= set(METHODS)
    stackers = {*NEEDS_LABELS, *map(out_of_fold, NEEDS_LABELS), OUR_STACKER}
    assert {*stackers, *SUPERVISED, "lpfuse, all known"} == set(NON_PURE)
    assert {OUR_SUM, OUR_PICK, VALIDATED_SUM} < set(METHODS)
    under_another_name = {"least squares", "local lp"}
    rivals = {name for name in at_hand() if not name.startswith("lp, ")} - under_another_name
    assert rivals <= {*METHODS, *NON_PURE}
    assert not set(METHODS) & set(NON_PURE)


def test_every_learnt_rival_is_at_its_best_too():
    for name in (*SEARCHES, "ℓp"):
        assert (name in METHODS) == (out_of_fold(name) in METHODS)


def test_every_rival_has_a_note():
    explained = {*NOTES, *OWN_NOTES}
    by_themselves = {*LEARNERS, *RULES, "ℓ2", "ℓ∞", "ℓp", "ℓp, least squares"}
    named = {name.removesuffix(", out of fold") for name in {*METHODS, *NON_PURE}}
    assert named - by_themselves <= explained


class Mean:
    """An ensemble that counts its fits."""

    fits = []

    def __init__(self, seed, d):
        self.made = seed, d

    def fit(self, X, y=None):
        assert y is None
        self.fits.append((*self.made, X))
        self.centre = X.mean(axis=0)
        return self

    def score_samples(self, X):
        return -np.abs(X - self.centre).sum(axis=1)


def test_one_fit_of_an_ensemble_serves_both_settings():
    parts = small_split(seed=4, columns=3)
    method = ensemble("mean", Mean)
    verdicts = [method(parts.training(setting)) for setting in SETTINGS]
    ((seed, d, X),) = Mean.fits
    assert (seed, d) == (4, 3)
    np.testing.assert_array_equal(X, parts.train)
    for setting, fitted in zip(SETTINGS, verdicts, strict=True):
        training = parts.training(setting)
        scores = -np.abs(training.validation - X.mean(axis=0)).sum(axis=1)
        np.testing.assert_array_equal(fitted.score(training.validation), scores)
        assert fitted.offset == best_g_mean(training.labels, scores)[1]


# ----------------------------------------------------------------------------------------- the page


@pytest.fixture(scope="module")
def rows():
    return made_up_rows(UCI, 3, SHOWN, ALL_KNOWN)


@pytest.fixture(scope="module")
def text(rows):
    return uci_page(Figures(rows), "![uci](uci.png)")


COLUMNS = [
    *((learner, learner, "pure", learner) for learner in LEARNERS),
    ("sum, pure", "sum", "pure", None),
    ("ℓp, pure", "ℓp", "pure", "pure"),
    ("ℓp, non-pure", "ℓp", "non-pure", "non-pure"),
    ("lpfuse, validated, pure", "lpfuse, validated", "pure", None),
    ("lpfuse, validated, non-pure", "lpfuse, validated", "non-pure", None),
]  # head, method, setting, column of the paper


@pytest.mark.parametrize(("place", "metric"), [(0, "auc"), (1, "g_mean")])
def test_main_tables_hold_means_deviations_and_published_figures(rows, text, place, metric):
    table = tables_in(text)[place]
    assert len(table) == 11
    for name in UCI:
        cells = table[f"{UCI[name].code} {UCI[name].title}"]
        for (head, cell), (expected, method, setting, column) in zip(cells, COLUMNS, strict=True):
            assert head == expected
            values = values_of(rows, set=name, method=method, setting=setting, metric=metric)
            told = [np.mean(values), np.std(values, ddof=1)]
            if column:
                told.append(paper.UCI[metric][name][column].mean)
            np.testing.assert_allclose(numbers(cell), told, atol=0.0501)
            assert ("(" in cell) == (column is not None)
    for (_, cell), (_, method, setting, column) in zip(table["**mean**"], COLUMNS, strict=True):
        told = [np.mean(values_of(rows, method=method, setting=setting, metric=metric))]
        if column:
            told.append(np.mean([row[column].mean for row in paper.UCI[metric].values()]))
        np.testing.assert_allclose(numbers(cell), told, atol=0.0501)


def mean_by_set(rows, setting, method, metric="auc"):
    wanted = {"setting": setting, "method": method, "metric": metric}
    names = dict.fromkeys(row["set"] for row in rows)
    return [np.mean(values_of(rows, set=name, **wanted)) for name in names]


def test_gains_are_those_of_paired_tests_with_holm_s_correction(rows, text):
    contenders = ["ℓp", *OURS, *ALL_KNOWN]
    for place, setting in enumerate(SETTINGS):
        table = tables_in(text)[2 + place]
        assert list(table) == ["sum", "best single"]
        there = contenders if setting == "non-pure" else contenders[:-1]
        stored = comparisons(Figures(rows), setting)
        assert list(stored) == [(name, r) for name in there for r in ("sum", "best single")]
        for name in there:
            found = [
                compare(mean_by_set(rows, setting, name), mean_by_set(rows, setting, reference))
                for reference in ("sum", "best single")
            ]
            p_values = holm([each.p_value for each in found])
            for reference, each, p_value in zip(table, found, p_values, strict=True):
                cell, mean = dict(table[reference])[name], each.difference
                told = [mean.mean, mean.low, mean.high, each.wins, each.ties, each.losses]
                np.testing.assert_allclose(numbers(cell)[:-1], told, atol=0.0501)
                assert numbers(cell)[-1] == pytest.approx(p_value, rel=0.06)
                assert stored[name, reference] == replace(each, p_value=p_value)


def test_our_controls_do_not_apply_to_the_published_fusion():
    rows = made_up_rows(UCI, 2, [*SHOWN, OUR_SUM, VALIDATED_SUM])
    found = comparisons(Figures(rows), "pure")
    assert ("ℓp", "sum") in found
    assert ("ℓp", OUR_SUM) not in found
    assert ("lpfuse, defaults", OUR_SUM) in found


def test_what_is_the_same_by_construction_has_no_rank():
    rows = made_up_rows(UCI, 2, ["sum", "min"])
    copies = [row | {"method": "AOM"} for row in rows if row["method"] == "sum"]
    figures = Figures([*rows, *copies])
    assert same_figures(figures, "pure") == {"AOM": "sum"}
    everyone = tables_in(uci_page(figures, ""))[-1]
    assert dict(everyone["AOM"])["rank"] == "(sum)"
    assert {float(everyone[name][1][1]) for name in ("sum", "min")} <= {
        k / 10 for k in range(10, 21)
    }


def test_the_quoted_literature_stands_beside_what_the_paper_prints():
    rows = made_up_rows(UCI, 2, ["sum", "iterative", "genetic", out_of_fold("genetic")])
    table = tables_in(uci_page(Figures(rows), ""))[-2]
    glass = dict(table["D4 Glass"])
    assert glass["iterative (FNDF), AUC"].endswith("(62.10)")
    assert "(" not in glass["genetic (Fatemifar), G-mean"], "nothing is printed there"
    haberman = dict(table["D9 Haberman"])
    assert haberman["genetic, out of fold (Fatemifar), G-mean"].endswith("(60.32)")


def test_doubts_are_told_with_their_arithmetic(text):
    flat = " ".join(text.split())
    assert "4 cells, by arithmetic alone" in flat
    assert "20 cells have a standard deviation of 0.0" in flat
    assert text.count("test normals: a single one is") == 20
    assert doubts(["my.csv"]) == []


def test_the_last_table_holds_everyone(rows, text):
    table = tables_in(text)[4]
    assert list(table) == [*SHOWN, *ALL_KNOWN]
    for place, setting in enumerate(SETTINGS):
        names = SHOWN if setting == "pure" else [*SHOWN, *ALL_KNOWN]
        aucs = np.column_stack([mean_by_set(rows, setting, name) for name in names])
        ranks = rankdata(-aucs, axis=1).mean(axis=0)
        for name, auc, rank in zip(names, aucs.mean(axis=0), ranks, strict=True):
            (head, *_), *_ = cells = table[name][3 * place : 3 * place + 3]
            assert head == f"{setting}: AUC"
            g_mean = np.mean(mean_by_set(rows, setting, name, "g_mean"))
            found = [float(cell) for _, cell in cells]
            np.testing.assert_allclose(found, [auc, rank, g_mean], atol=0.0501)
        rank_head = cells[1][0]
        assert f"p = {friedman(aucs).p_value:.1g}" in rank_head
        assert f"CD {critical_difference(len(names), 10):.1f}" in rank_head
    assert [cell for _, cell in table["lpfuse, all known"][:3]] == ["", "", ""]


def test_the_page_says_what_it_shows(text):
    assert text.startswith("# The paper's ten data sets\n\n3 random splits of each of 10 data sets")
    assert "![uci](uci.png)" in text
    assert "- *best single*: of the four learners" in text
    assert "genetic" not in text, "notes are for methods that were measured"
    assert text.count("D1 Banknotes, GMM, AUC and G-mean: AUC is 83.91") == 1
    assert "quick" not in text


def test_the_page_of_a_quick_run_says_so(rows):
    assert "a quick run with thin grids" in uci_page(Figures(rows, quick=True), "").split("##")[0]


# --------------------------------------------------------------------------- other sets and methods


def test_other_sets_have_no_published_figures():
    rows = made_up_rows(["iris", "pumps.csv"], 2, SHOWN)
    text = uci_page(Figures(rows), "")
    main, *_ = tables_in(text)
    assert list(main) == ["D5 Iris", "pumps.csv", "**mean**"]
    beside = {name: ["(" in cell for _, cell in cells] for name, cells in main.items()}
    assert any(beside["D5 Iris"])
    assert not any(beside["pumps.csv"])
    assert not any(beside["**mean**"])
    assert not text.startswith("# The paper's")
    assert "- D5 Iris, pure" in text
    assert "Banknotes" not in text


def test_one_split_of_one_set_has_no_deviation():
    rows = made_up_rows(["pumps.csv"], 1, SHOWN, ALL_KNOWN)
    text = uci_page(Figures(rows), "")
    main, _, everyone = tables_in(text)
    assert list(main) == ["pumps.csv"]
    for (_, cell), (_, method, setting, _) in zip(main["pumps.csv"], COLUMNS, strict=True):
        (value,) = values_of(rows, method=method, setting=setting, metric="auc")
        assert cell == f"{value:.1f}"
    assert len(everyone) == len(SHOWN) + 1
    assert not re.search(r"\b(inf|nan)\b", text)
    assert "One random split of one data set" in text
    assert "paper's table that cannot be right" not in text


@cases("sets", [["iris"], ["iris", "wine", "glass"]])
@cases(
    ("methods", "non_pure"),
    [
        (["sum"], []),
        (["sum", "mine"], []),
        (["mine", "yours", "theirs"], ["stacker"]),
        (["ℓp", "best single", "mine"], []),
        ([], ["logistic", "mine"]),
    ],
)
def test_pages_of_any_methods(tmp_path, sets, methods, non_pure):
    rows = made_up_rows(sets, 2, methods, non_pure)
    figures = Figures(rows)
    everyone = tables_in(uci_page(figures, ""))[-1]
    assert list(everyone) == [*methods, *non_pure]
    for name in everyone:
        setting = "pure" if name in methods else "non-pure"
        auc = np.mean(mean_by_set(rows, setting, name))
        assert dict(everyone[name])[f"{setting}: AUC"] == f"{auc:.1f}"


@pytest.mark.parametrize(
    ("sets", "methods"), [(["iris"], ["sum"]), (list(UCI), SHOWN), (["a"], [])]
)
def test_the_figure_is_drawn(tmp_path, sets, methods):
    figures = Figures(made_up_rows(sets, 2, methods, ALL_KNOWN))
    draw(figures, tmp_path / "uci.png")
    assert (tmp_path / "uci.png").read_bytes().startswith(b"\x89PNG")


# ------------------------------------------------------------------------------------------ at work


@pytest.fixture
def options(tmp_path):
    """A quick run on a table of one's own."""
    X, y = rows_and_labels()
    pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": y}).write_csv(tmp_path / "pumps.csv")
    return Options(tmp_path / "out", quick=True, sets=(str(tmp_path / "pumps.csv"),))


def far_from_the_middle(training):
    def score(X):
        return -np.abs(X).max(axis=1)

    return FittedMethod(score, threshold(training, score(training.validation)))


def test_a_method_of_one_s_own_beside_the_others(options):
    methods = {
        "sum": METHODS["sum"],
        "mine": far_from_the_middle,
        "my p": lp([1.5]),
        "my rule": fusion(lambda seed: FixedRule("aom", n_buckets=2)),
    }
    text = run(options, methods, {})
    assert options.out.joinpath("uci.md").read_text() == text
    assert options.out.joinpath("uci.png").exists()
    rows = read_rows(options.out / "uci.jsonl")
    everyone = tables_in(text)[-1]
    assert list(everyone) == list(methods)
    for name in methods:
        (value,) = values_of(rows, setting="pure", method=name, metric="auc")
        assert dict(everyone[name])["pure: AUC"] == f"{value:.1f}"


def test_what_is_stored_is_shown_without_work(options, tmp_path):
    methods = {"mine": far_from_the_middle}
    text = run(options, methods, methods)

    def lazy(training):
        raise AssertionError("show measures nothing")

    shown = replace(options, show=True)
    assert run(shown, {"mine": lazy}, {"mine": lazy}) == text
    with pytest.raises(FileNotFoundError, match="Leave --show out"):
        run(shown, {"yours": lazy}, {})
