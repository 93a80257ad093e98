"""CITATION.cff is read by programs: it has what its format asks for, and says what packages say."""

import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="the citation is YAML")

ROOT = Path(__file__).parents[1]


@pytest.fixture
def citation():
    return yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))


@pytest.fixture
def project():
    return tomllib.loads((ROOT / "packages/lpfuse/pyproject.toml").read_text())["project"]


def test_it_has_what_the_format_requires(citation):
    assert citation["cff-version"] == "1.2.0"
    assert {"authors", "cff-version", "message", "title"} <= citation.keys()
    assert citation["type"] == "software"
    for author in citation["authors"]:
        assert "name" in author or "family-names" in author


def test_it_agrees_with_the_package(citation, project):
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
    assert (
        citation["title"]
        == f"lpfuse: {project['description'][0].lower()}{project['description'][1:]}"
    )
    assert citation["authors"] == project["authors"]
    assert citation["keywords"] == project["keywords"]


def test_it_names_the_paper(citation):
    (paper,) = citation["references"]
    assert {"type", "title", "authors"} <= paper.keys()
    assert [author["family-names"] for author in paper["authors"]] == ["Nourmohammadi", "Arashloo"]
    assert "One-Class Classifier Combination" in paper["title"]
