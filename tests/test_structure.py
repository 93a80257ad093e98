"""The code stays small enough to know: its size, how it is cut, and what a call walks through.

The sizes are the maintainers' budget (tools/budget.py). No limit here is raised: what does not fit
pushes something else out.
"""

import pytest

from research.structure import WALKS, call_figures, core_figures, size_of, walk, walks


def over(figures):
    return {name: each[:2] for name, each in figures.items() if each.found > each.most}


def test_the_core_is_within_its_budget():
    assert over(core_figures()) == {}


def test_users_have_few_options_to_choose():
    assert over(call_figures()) == {}


@pytest.mark.slow
def test_calls_walk_through_few_files():
    found = walks()
    assert found.keys() == WALKS.keys()
    for call, files in found.items():
        assert len(files) <= WALKS[call], "\n".join([call, *files])


def test_a_walk_is_the_files_that_are_entered():
    from lpfuse.metrics import g_mean

    assert walk(lambda: None) == []
    assert "lpfuse/metrics.py" in walk(lambda: g_mean([1, -1], [1, -1]))


def test_lines_of_code_are_no_comments_docstrings_or_blanks(tmp_path):
    text = '"""Says\n\nsomething."""\n\nimport os\n\n# why\nx = """a\n\nb"""  # so\n'
    (tmp_path / "a.py").write_text(text)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "b.py").write_text("y = 1\n")
    assert size_of(tmp_path) == (1, 3, 1, 1)
