"""The study of scores: what it measures, and that the decision tells what is stored."""

import re
from pathlib import Path

import numpy as np
import pytest

from lpfuse import GMMDetector, OneClassGP
from research.common.splits import study_split
from research.common.store import read_rows
from research.studies.learners import score_types

ROOT = Path(__file__).parents[3]
ADR = ROOT / "docs" / "adr" / "0029-scores-of-the-learners.md"
STORED = ROOT / score_types.FILE


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(120, 3)), rng.normal(2, 1, size=(30, 3))])
    return X, np.repeat([False, True], [120, 30])


def test_figures_are_those_of_detectors_fitted_one_by_one(rows):
    clean, dirty = score_types.records_of_rows(*rows, 0, "choose")
    parts = study_split(*rows, 0, most_train=800, most_test=600)
    hidden = round(0.05 * len(parts.train))
    assert (clean["n"], dirty["n"]) == (len(parts.train), len(parts.train) + hidden)
    density = OneClassGP("density").fit(parts.train)
    expected = parts.auc(density.score_samples(parts.tested))
    assert clean["auc"]["OneClassGP density gamma=scale"] == pytest.approx(expected, abs=0.01)
    mixture = GMMDetector(3, "mahalanobis", random_state=0)
    mixture.fit(np.concatenate([parts.train, parts.anomalies[:hidden]]))
    sought = parts._replace(anomalies=parts.anomalies[hidden:])  # what is hidden is not sought
    expected = sought.auc(mixture.score_samples(sought.tested))
    found = dirty["auc"]["GMMDetector mahalanobis n_components=3"]
    assert found == pytest.approx(expected, abs=0.01)


def test_every_score_of_both_learners_is_measured():
    made = score_types.options()
    assert {d.score_type for d in made.values() if isinstance(d, OneClassGP)} == {
        "mean", "variance", "density", "ratio"
    }  # fmt: skip
    assert len(made) == 4 * 2 + 2 * 3


def test_the_decision_tells_what_is_stored():
    report = score_types.report(read_rows(STORED))
    sections = dict(re.findall(r"^(\w+, \w+) rows\n\n(.*?)(?=\n\n\w|\Z)", report, re.S | re.M))
    assert list(sections) == [
        "choose, clean", "choose, dirty", "confirm, clean", "confirm, dirty", "pyod, dirty"
    ]  # fmt: skip
    told = ADR.read_text()
    titles = {
        "process, variance": "OneClassGP variance, gamma=scale",
        r"\*\*process, density\*\*": "OneClassGP density, gamma=scale",
        "process, ratio": "OneClassGP ratio, gamma=scale",
        r"\*\*mixture, log-likelihood\*\*": "GMMDetector log_likelihood, n_components=3",
    }
    for title, option in titles.items():
        (line,) = re.findall(rf"^\| {title} \| (.*) \|$", told, re.MULTILINE)
        for cell, table in zip(line.split(" | "), sections.values(), strict=True):
            (row,) = re.findall(rf"^\| {option} \| (.*) \|$", table, re.MULTILINE)
            _, before, after, won, p_value = row.split(" | ")
            assert cell in (f"{before} → {after} ({won}, {p_value})", f"{before} → {after}")


def test_both_halves_have_thirty_unnamed_tables():
    stored = read_rows(STORED)
    sets = {
        role: {row["set"] for row in stored if row["role"] == role}
        for role in ("choose", "confirm")
    }
    assert {role: len(found) for role, found in sets.items()} == {"choose": 60, "confirm": 30}
    assert not sets["choose"] & sets["confirm"]
    assert all(re.fullmatch("[0-9a-f]{8}", name) for name in sets["confirm"])


def test_the_defaults_are_what_was_decided():
    assert OneClassGP().score_type == "density"
    assert GMMDetector().score_type == "log_likelihood"
