"""The page about certificates is what the stored sums say, and they hold what we promise."""

from pathlib import Path

from research.common.store import read_document
from research.proofs.families import FAMILIES
from research.proofs.fuzz import merged
from research.proofs.tables import page_of

ROOT = Path(__file__).parents[3]
PUBLISHED = read_document(ROOT / "research" / "results" / "proofs" / "summary.json")


def test_the_page_says_what_is_stored():
    page = ROOT / "docs" / "benchmarks" / "certificates.md"
    assert page.read_text() == page_of(PUBLISHED)


def test_no_certificate_of_the_published_run_is_false():
    assert list(PUBLISHED["families"]) == list(FAMILIES)
    every = merged(list(PUBLISHED["families"].values()))
    assert every["problems"] >= 200_000
    assert every["told"] == []
    assert every["worst_excess"] <= 1e-12
