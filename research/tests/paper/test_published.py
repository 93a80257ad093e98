"""The pages under docs/results are what the stored rows say, and the rows hold what we promise."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from research.common.comparison import Figures
from research.common.options import Options
from research.common.store import read_rows
from research.paper.uci_page import LEARNERS, OURS

pytest.importorskip("statsmodels", reason="corrections need statsmodels")

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "research" / "results" / "paper"
PUBLISHED = ROOT / "docs" / "results"
PAGES = ("uci", "lp-effect", "loss", "weights", "speed", "convergence", "labels", "claims")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_the_rows_say(name, tmp_path, monkeypatch):
    module = import_module(f"research.paper.{name.replace('-', '_')}")
    if hasattr(module, "figure_line"):  # the picture itself is not compared
        monkeypatch.setattr(
            module, "figure_line", lambda path, draw: f"![{path.stem}]({path.name})"
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


@pytest.mark.parametrize("setting", ["pure", "non-pure"])
@pytest.mark.parametrize("rival", ["sum", "best single", *LEARNERS])
def test_ours_is_no_worse_than_the_sum_and_any_single_learner(figures, setting, rival):
    ours, theirs = (figures.means(setting, name).mean() for name in (OURS, rival))
    assert ours >= theirs


def test_with_anomalies_to_learn_from_the_gain_is_beyond_doubt(figures):
    gains = figures.means("non-pure", OURS) - figures.means("non-pure", "sum")
    assert (gains > 0).all()
    assert gains.mean() - 2.262 * gains.std(ddof=1) / np.sqrt(len(gains)) > 0  # t, 9 degrees


def test_the_readme_shows_the_published_means(figures):
    readme = (ROOT / "README.md").read_text()
    for setting in ("pure", "non-pure"):
        for name in ("sum", "best single", "ℓp", OURS):
            assert f"{figures.means(setting, name).mean():.1f}" in readme
