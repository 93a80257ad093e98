"""`lpfuse.paper.Pipeline` gives the figures that are stored, and what the experiments find."""

import os
from pathlib import Path

import numpy as np
import pytest

from helpers.pairwise import each_value
from lpfuse.paper import Pipeline
from research.common.datasets import load_dataset
from research.common.protocol import PAPER, SETTINGS, FittedMethod
from research.common.splits import split
from research.common.store import read_rows
from research.paper.methods import lp
from research.tests.small import small_split

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of widths far from the data

STORED = Path(__file__).parents[2] / "results" / "paper" / "uci.jsonl"
# Few and many rows, ties, gaps; splits whose choices do not hang on rounding (docs/adr/0031). Wine
# and iris come with scikit-learn: two anomalies of the latter are other than in UCI's file, and far
# enough away to make no difference.
NEEDS_DATA = pytest.mark.skipif(
    not os.environ.get("LPFUSE_DATA"), reason="LPFUSE_DATA names no folder of sets"
)
SPLITS = [
    ("wine", 0),
    ("wine", 7),
    ("iris", 3),
    *(
        pytest.param(name, seed, marks=NEEDS_DATA)
        for name, seed in [
            ("glass", 1), ("hepatitis", 2), ("haberman", 1), ("vote", 1), ("ionosphere", 0),
            ("australia", 2),
        ]
    ),
]  # fmt: skip


def fitted(parts, setting):
    """The one call; rows of a split are z-scores already."""
    training, protocol = parts.training(setting), parts.protocol
    X = np.concatenate([training.normals, training.labelled])
    y = np.repeat([1, -1], [len(training.normals), len(training.labelled)])
    pipeline = Pipeline(
        widths=protocol.widths,
        component_step=protocol.component_step,
        rhos=protocol.rhos,
        ps=protocol.ps,
        standardise=False,
        random_state=parts.seed,
    )
    return pipeline.fit(X, y, validation=(training.validation, training.labels))


@pytest.fixture(scope="module")
def stored():
    return {
        (row["set"], row["seed"], row["setting"], row["metric"]): row
        for row in read_rows(STORED)
        if row["method"] == "ℓp"
    }


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(("name", "seed"), SPLITS)
def test_the_stored_figures_to_the_last_digit(name, seed, setting, stored):
    data = load_dataset(name)
    parts = split(data.X, data.y, PAPER, seed)
    pipeline = fitted(parts, setting)
    judged = parts.judge(FittedMethod(pipeline.score_samples, pipeline.offset_))
    assert judged == {m: stored[name, seed, setting, m]["value"] for m in ("auc", "g_mean")}
    chosen = {"rho": pipeline.rho_, "p": pipeline.p_}
    assert stored[name, seed, setting, "auc"]["choices"] == chosen


@each_value(seed=range(3), setting=SETTINGS)
def test_the_method_of_the_experiments_is_the_same(setting, seed):
    parts = small_split(seed=seed)
    method, pipeline = lp()(parts.training(setting)), fitted(parts, setting)
    assert method.choices == {"rho": pipeline.rho_, "p": pipeline.p_}
    assert method.offset == pytest.approx(pipeline.offset_, abs=1e-6)
    rows = np.concatenate([parts.test, parts.sought])
    np.testing.assert_allclose(pipeline.score_samples(rows), method.score(rows), atol=1e-6)


def test_splits_choose_differently():
    """Or the comparison above would be one of constants."""
    chosen = {fitted(small_split(seed=seed), "pure").p_ for seed in range(6)}
    assert len(chosen) > 1


def test_defaults_are_the_protocols():
    told = Pipeline().get_params()
    for name in ("widths", "component_step", "rhos", "ps"):
        assert told[name] == getattr(PAPER, name)
