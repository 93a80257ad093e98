"""Readings of the paper: each is the one call with its parameters, and the page adds them up."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.cases import cases
from lpfuse.paper import KERNEL_FORMS
from research.common.datasets import load_uci
from research.common.protocol import SETTINGS, FittedMethod
from research.paper import readings
from research.paper.readings import VARIANTS, Reading, every_reading, split_rows
from research.paper.readings_page import PLAIN, ReadingFigures, readings_page, without_teaching
from research.tests.small import small_split, tables_in

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of widths far from the data


def rows_of(parts, *chosen):
    """The rows of some readings alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readings, "every_reading", lambda: list(chosen))
        return split_rows(parts)


def called(parts, setting, reading, **others):
    """What the one call gives under a reading."""
    training, protocol = parts.training(setting), parts.protocol
    pipeline = reading.pipeline(
        widths=protocol.widths, component_step=protocol.component_step, rhos=protocol.rhos,
        ps=protocol.ps, standardise=False, random_state=parts.seed, **others,
    )  # fmt: skip
    X = np.concatenate([training.normals, training.labelled])
    y = np.repeat([1, -1], [len(training.normals), len(training.labelled)])
    tested = np.concatenate([parts.test, parts.sought])
    truth = np.repeat([1, -1], [len(parts.test), len(parts.sought)])
    pipeline.fit(X, y, validation=(training.validation, training.labels), test=(tested, truth))
    return pipeline, parts.judge(FittedMethod(pipeline.score_samples, pipeline.offset_))


@cases(
    "reading",
    [
        Reading(),
        *(Reading(kernel_form=form, taught=("SVDD",)) for form in KERNEL_FORMS),
        Reading(clip=True),
        Reading(clip=True, taught=("SVDD", "GP")),
    ],
)
def test_a_reading_is_the_one_call_with_its_parameters(reading):
    parts = small_split(seed=1)
    rows = rows_of(parts, reading, Reading(kernel_form=reading.kernel_form, clip=reading.clip))
    for setting in SETTINGS:
        name = reading.name if setting == "non-pure" else without_teaching(reading.name)
        pipeline, judged = called(parts, setting, reading)
        _, on_test = called(parts, setting, reading, threshold_on="test")
        found = {
            row["metric"]: row
            for row in rows
            if (row["setting"], row["reading"]) == (setting, name)
        }
        assert found["auc"]["values"]["ℓp"] == pytest.approx(judged["auc"], abs=1e-3)
        assert found["g_mean"]["values"]["ℓp"] == pytest.approx(judged["g_mean"], abs=1e-3)
        told = found["g_mean, threshold on test"]["values"]["ℓp"]
        assert told == pytest.approx(on_test["g_mean"], abs=1e-3)
        assert found["auc"]["choices"] == {"rho": pipeline.rho_, "p": pipeline.p_}


def test_names_tell_readings_apart():
    names = [reading.name for reading in every_reading()]
    assert len(set(names)) == len(names) == 45
    assert names[0] == PLAIN
    assert sum("HINDSIGHT" in name for name in names) == 3


def test_only_hindsight_looks_at_labels_of_the_test():
    """Anomalies and normal rows of the test change places: choices may not."""
    parts = small_split(seed=2)
    swapped = replace(parts, test=parts.sought, sought=parts.test, cache={})
    others = [Reading(), Reading(scores="batch"), Reading(scores="out of fold")]
    last = Reading(chosen_on="test")

    def choices(split, *chosen):
        return [row["choices"] for row in rows_of(split, *chosen) if row["metric"] == "auc"]

    assert choices(parts, *others[::2]) == choices(swapped, *others[::2])

    def areas(split):
        rows = [row for row in rows_of(split, Reading(), last) if row["metric"] == "auc"]
        return {(row["setting"], row["reading"]): row["values"]["GMM"] for row in rows}

    found, turned = areas(parts), areas(swapped)
    for setting in SETTINGS:  # one candidate: nothing to choose
        assert found[setting, PLAIN] == pytest.approx(100 - turned[setting, PLAIN])


def test_hindsight_is_never_below_for_a_single_learner():
    parts = small_split(seed=3)
    rows = [r for r in rows_of(parts, Reading(), Reading(chosen_on="test")) if r["metric"] == "auc"]
    of = {(row["setting"], row["reading"]): row["values"] for row in rows}
    for setting in SETTINGS:
        for learner in ("SVDD", "GP", "KPCA"):
            told = of[setting, "HINDSIGHT: chosen on test"][learner]
            assert told >= of[setting, PLAIN][learner]


def test_batches_have_quantiles_of_their_own():
    rng = np.random.default_rng(0)
    tables = {
        part: rng.normal(shift, 1 + shift, size=(200, 2))
        for shift, part in enumerate(("normals", "anomalies", "validation", "test"))
    }
    mapped = readings._by_batch(tables, 10.0)
    for part in ("validation", "test"):
        np.testing.assert_allclose(
            np.quantile(mapped[part], [0.05, 0.95], axis=0),
            np.quantile(tables["normals"], [0.05, 0.95], axis=0),
            atol=0.1,
        )
        assert np.abs(mapped[part] - tables[part]).max() > 1
    assert mapped["anomalies"] is tables["anomalies"]


def test_rows_of_all_parts_scale_features():
    parts = small_split(seed=0)
    scaled = readings._scaled_by_all_rows(parts)
    names = ("train", "held_out", "test", "known", "sought")
    whole = np.concatenate([getattr(scaled, name) for name in names])
    np.testing.assert_allclose(whole.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(whole.std(axis=0), 1)


def test_species_and_row_numbers():
    iris = load_uci("iris")
    found = {
        name: np.flatnonzero(change(iris).y > 0)
        for name, (base, change) in VARIANTS.items()
        if base == "iris"
    }
    assert {name: rows.tolist() for name, rows in found.items()} == {
        "iris, setosa": list(range(50)),
        "iris, versicolor": list(range(50, 100)),
    }
    numbered = VARIANTS["glass, with its row number"][1](iris)
    assert numbered.X[:, 0].tolist() == list(range(1, 151))
    assert numbered.feature_names[0] == "row number"
    np.testing.assert_array_equal(numbered.X[:, 1:], iris.X)


def test_pages_show_the_mean_over_splits(tmp_path):
    rows = [
        {"set": "iris", "seed": seed, "setting": setting, "reading": PLAIN, "metric": metric,
         "values": dict.fromkeys(("GMM", "SVDD", "GP", "KPCA", "sum", "ℓp"), value)}
        for seed, value in enumerate((90.0, 92.0))
        for setting in SETTINGS
        for metric in ("auc", "g_mean", "g_mean, threshold on test")
    ]  # fmt: skip
    assert ReadingFigures(rows).of(PLAIN, "pure", "ℓp") == [91.0]
    table = tables_in(readings_page(rows))[0]
    assert dict(table[PLAIN])["ℓp, pure"] == "91.0"
