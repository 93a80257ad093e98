"""The stored figures of FusedDetector(): safe with any number of labels, kinds seen or not."""

from pathlib import Path

import numpy as np
import pytest

from helpers.cases import cases
from research.common.store import read_rows
from research.studies.fusion.verify import LABELS, SITUATIONS, means_of, table

RECORDS = read_rows(Path(__file__).parents[2] / "results" / "studies" / "fused.jsonl")
NOISE = 2.0  # standard errors of a mean difference
CELLS = [(situation, labels) for situation in SITUATIONS for labels in LABELS]


def gains(situation, labels, rival):
    """Ours minus theirs, for every set."""
    ours, theirs = (means_of(RECORDS, situation, labels, key) for key in ("ours", rival))
    return ours - theirs


@cases(("situation", "labels"), CELLS)
def test_the_mean_is_never_below_the_average(situation, labels):
    assert gains(situation, labels, "average").mean() > 0


@cases("rival", ["picked", "picked_expert"])
@cases(("situation", "labels"), [cell for cell in CELLS if cell[1]])
def test_the_mean_is_within_noise_of_the_picked_detector(situation, labels, rival):
    gain = gains(situation, labels, rival)
    assert gain.mean() > -NOISE * gain.std(ddof=1) / np.sqrt(len(gain))


@pytest.mark.parametrize(("labels", "first_look"), [(5, 85.2), (20, 86.3)])
def test_the_first_look_is_beaten_on_the_anomaly_sets(labels, first_look):
    anomaly_sets = [record for record in RECORDS if not record["set"].startswith(("d0", "d1"))]
    assert means_of(anomaly_sets, "seen", labels, "ours").mean() > first_look


def test_the_table_shows_every_cell():
    lines = table(RECORDS).splitlines()
    assert len(lines) == 2 + len(CELLS)
    assert lines[2].startswith("| seen | 0 | 30 | 84.0 | 83.9 (13 : 11")
