"""The pages under docs/results are what the stored rows say, and the rows hold what we promise."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from helpers.cases import cases
from research.common.comparison import Figures
from research.common.options import Options
from research.common.store import read_rows
from research.paper.uci_page import LEARNERS, OUR_PICK, OUR_STACKER, OUR_SUM, OURS, VALIDATED_SUM
from research.rivals.fusion import ENSEMBLES, RIVALS, RULES
from research.tests.small import tables_in

pytest.importorskip("statsmodels", reason="corrections need statsmodels")

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "research" / "results" / "paper"
PUBLISHED = ROOT / "docs" / "results"
PAGES = (
    "uci",
    "lp-effect",
    "loss",
    "weights",
    "speed",
    "convergence",
    "labels",
    "claims",
    "contamination",
    "related",
    "readings",
)


@cases("name", PAGES)
def test_a_page_says_what_the_rows_say(name, tmp_path, monkeypatch):
    module = import_module(f"research.paper.{name.replace('-', '_')}")
    if hasattr(module, "figure_line"):  # the picture itself is not compared
        monkeypatch.setattr(
            module, "figure_line", lambda path, draw, words: f"![{words}]({path.name})"
        )
    page = module.run(Options(out=RESULTS, pages=tmp_path, show=True))
    assert page == (PUBLISHED / f"{name}.md").read_text()
    assert (tmp_path / f"{name}.md").read_text() == page
    assert not list(RESULTS.glob("*.md"))


@pytest.fixture(scope="module")
def figures():
    return Figures(read_rows(RESULTS / "uci.jsonl"))


def test_the_published_run_is_the_full_one(figures):
    assert (len(figures.sets), figures.seeds) == (10, 10)
    assert figures.are_the_papers


@cases("setting", ["pure", "non-pure"])
@cases("rival", ["sum", "best single", *LEARNERS])
def test_ours_beats_or_equals_the_sum_and_single_learners(figures, setting, rival):
    ours, theirs = (figures.means(setting, name).mean() for name in (OURS, rival))
    assert ours >= theirs


def test_with_anomalies_to_learn_from_the_gain_is_beyond_doubt(figures):
    gains = figures.means("non-pure", OURS) - figures.means("non-pure", "sum")
    assert (gains > 0).all()
    assert gains.mean() - 2.262 * gains.std(ddof=1) / np.sqrt(len(gains)) > 0  # t, 9 degrees


IN_THE_SUMMARY = {
    "best single learner, picked on validation": "best single",
    "sum rule": "sum",
    "ℓp fusion as published (the paper prints 89.98 and 92.05)": "ℓp",
    "the best of the literature's methods": "",
    "**lpfuse**, choosing on the same validation rows": OURS,
    "plain sum of the very same detectors": VALIDATED_SUM,
    "**`FusedDetector()`**, nothing chosen": "lpfuse, defaults",
    "plain sum of its detectors": OUR_SUM,
    "one of its detectors, picked on validation, experts included": OUR_PICK,
    "stacker on its scores": OUR_STACKER,
    "extremely randomised trees alone": "trees alone",
}


def test_the_summary_shows_the_published_means_with_their_controls(figures):
    tables = tables_in((PUBLISHED / "paper.md").read_text())
    (table,) = (found for found in tables if "sum rule" in found)
    assert list(table) == list(IN_THE_SUMMARY)
    for row, method in IN_THE_SUMMARY.items():
        for setting, (_, cell) in zip(("pure", "non-pure"), table[row], strict=True):
            value = cell.strip("*")
            if not method:
                value, _, method_here = value.partition(" ")
                rivals = [m for m in figures.methods(setting) if is_of_the_literature(m)]
                best = max(rivals, key=lambda m: figures.means(setting, m).mean())
                assert method_here == f"({best})"
                assert value == f"{figures.means(setting, best).mean():.1f}"
            elif method in figures.methods(setting):
                assert value == f"{figures.means(setting, method).mean():.1f}", (row, setting)
            else:
                assert value == "–"


def test_the_summary_counts_the_verdicts():
    table = tables_in((PUBLISHED / "claims.md").read_text())[0]
    verdicts = [dict(cells)["verdict"].strip("*") for cells in table.values()]
    words = (
        "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve", "thirteen", "fourteen",
    )  # fmt: skip
    summary = " ".join((PUBLISHED / "paper.md").read_text().split())
    assert f"Of the paper's {words[len(verdicts)]} claims" in summary
    hold, open_, refuted = (words[verdicts.count(v)] for v in ("holds", "not shown", "refuted"))
    assert f"[{hold} hold, {open_} are not shown, {refuted} are refuted](claims.md)" in summary


def is_of_the_literature(method):
    """Learnt by others, not a fixed rule, a single learner, ℓp or ours."""
    name = method.removesuffix(", out of fold")
    return name in {*RIVALS, *ENSEMBLES} and name not in {*RULES, "best single"}
