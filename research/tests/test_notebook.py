"""Notebooks run from a clone; that of the paper shows what the stored rows say."""

import re
from copy import deepcopy
from pathlib import Path

import pytest

from helpers.cases import cases
from research import notebook
from research.common.comparison import Figures
from research.common.store import read_rows
from research.tests.small import tables_in

nbformat = pytest.importorskip("nbformat", reason="notebooks need nbformat")
pytest.importorskip("nbclient", reason="notebooks are run by nbclient")

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(((?!https?:)[^)#]+)[^)]*\)")
PAGES = ROOT / "docs" / "results"


@pytest.fixture(scope="module")
def stored():
    return nbformat.read(notebook.PAPER, as_version=4)


def text_of(book, cell):
    return "\n".join(text for name, text in notebook.shown(book) if name == cell)


def table_of(book, cell):
    (found,) = tables_in(text_of(book, cell))
    return {row: dict(cells) for row, cells in found.items()}


def page_table(page, number):
    table = tables_in((PAGES / f"{page}.md").read_text(encoding="utf-8"))[number]
    return {row: dict(cells) for row, cells in table.items()}


def test_there_is_a_notebook_for_each_person():
    names = {path.stem for path in notebook.NOTEBOOKS}
    assert names == {"paper", "pyod_user", "analyst", "researcher"}


@cases("path", notebook.NOTEBOOKS)
def test_a_notebook_is_valid_and_was_run_in_order(path):
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not any(output.output_type == "error" for cell in code for output in cell.outputs)
    assert path.stat().st_size < 100_000
    for target in LINK.findall("\n".join(cell.source for cell in book.cells)):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize(("cell", "number"), [("table-2", 0), ("table-2-g-mean", 1)])
def test_table_2_is_that_of_the_page(stored, cell, number):
    page = page_table("uci", number)
    table = table_of(stored, cell)
    assert table.keys() == page.keys()
    for row, cells in table.items():
        assert cells.items() <= page[row].items()


def test_the_norms_are_those_of_the_page(stored):
    page = page_table("lp-effect", 0)
    assert table_of(stored, "norms") == {row: page[row] for row in list(page)[:2]}


def test_the_speed_ups_are_those_of_the_page(stored):
    page = tables_in((PAGES / "speed.md").read_text(encoding="utf-8"))[0]
    shown = table_of(stored, "speed")
    assert shown.keys() == page.keys()
    for row, cells in shown.items():
        # The page has each solver's speed-up twice: of the whole call and of the solver alone.
        paper, whole, _, gap, lpfuse, _, lpfuse_gap, *_ = (cell for _, cell in page[row])
        assert list(cells.values()) == [paper, whole, gap, lpfuse, lpfuse_gap]


def test_the_verdicts_are_those_of_the_page(stored):
    assert table_of(stored, "claims") == page_table("claims", 0)


def test_live_figures_are_the_stored_ones(stored):
    rows = table_of(stored, "live")
    assert len(rows) == 10
    for cells in rows.values():
        for setting in ("pure", "non-pure"):
            assert cells[f"{setting}, AUC"] == cells[f"{setting}, stored"]


def test_the_text_has_the_stored_means(stored):
    figures = Figures(read_rows(ROOT / "research" / "results" / "paper" / "uci.jsonl"))
    shown = ("lpfuse, defaults", "ℓp", "trees alone")
    means = [f"{figures.means('non-pure', method).mean():.1f}" for method in shown]
    assert re.findall(r"\d\d\.\d", stored.cells[-1].source) == means


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the kernel's own machinery
@pytest.mark.parametrize("path", notebook.NOTEBOOKS, ids=lambda path: path.stem)
def test_a_run_shows_what_is_stored(path):
    pytest.importorskip("cvxpy", reason="the notebook of the paper times cvxpy")
    pytest.importorskip("statsmodels", reason="comparisons need statsmodels")
    pytest.importorskip("pyod", reason="a notebook for users of PyOD")
    stored = nbformat.read(path, as_version=4)
    assert list(notebook.shown(notebook.executed(path))) == list(notebook.shown(stored))


@pytest.mark.filterwarnings("ignore")
def test_a_cell_that_fails_is_told(stored, tmp_path):
    from nbclient.exceptions import CellExecutionError

    broken = deepcopy(stored)
    broken.cells = [nbformat.v4.new_code_cell("1 / 0")]
    nbformat.write(broken, tmp_path / "broken.ipynb")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        notebook.executed(tmp_path / "broken.ipynb")
