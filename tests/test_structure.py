"""The house stays one to live in: its size, and the rooms that a call walks through."""

import pytest

from research.structure import CORE, ROOT, size_of, walk, walks


def test_the_core_is_small_enough_to_know():
    assert size_of(CORE).code <= 15_000


@pytest.fixture(scope="module")
def found():
    return walks()


@pytest.mark.parametrize(
    ("call", "most"),
    [
        ("LpFusion.fit", 12),
        ("FusedDetector.fit", 25),
        ("FusedDetector.predict", 12),
        ("lpfuse score", 20),
    ],
)
def test_a_call_walks_through_few_files(found, call, most):
    assert len(found[call]) <= most, "\n".join(found[call])


def test_a_walk_counts_files_that_are_entered():
    from lpfuse.metrics import g_mean

    assert walk(lambda: None) == []
    assert walk(lambda: g_mean([1, -1], [1, -1])) >= ["lpfuse/metrics.py"]


def test_no_file_holds_more_than_an_idea():
    long = {
        str(path.relative_to(ROOT)): lines
        for folder in ("packages", "research")
        for path in (ROOT / folder).rglob("*.py")
        if "tests" not in path.parts and (lines := len(path.read_text().splitlines())) > 350
    }
    assert long == {}
