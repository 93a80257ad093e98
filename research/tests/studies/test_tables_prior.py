"""The prior weights: scores that are measured once, weights of hand-made ones, file and page."""

import json
from collections import Counter

import numpy as np
import pytest
from scipy.optimize import minimize

from helpers.cases import cases
from lpfuse import FusedDetector, TailScaler, TwoSidedMinMax
from lpfuse.ensemble.defaults import ROBUST
from research.studies.tables.prior import (
    FILE,
    MOST,
    PAGE,
    RIDGE,
    ROWS,
    equal_order,
    held_out_order,
    learn_weights,
    parts_of,
    prior_content,
    prior_page,
    sides,
    write_prior,
)
from research.studies.tables.prior_scores import (
    MOST_NORMAL,
    MOST_TEST,
    TURNS,
    RawScores,
    choosing_tables,
    measure_scores,
    raw_scores,
    read_scores,
    write_scores,
)
from research.studies.tables.splits import LABELS, MODES, load_rows, split_table, table_key

NAMES = np.array(["good", "fair", "bad"])


def drawn(rng, labels=0, mode="seen"):
    """A detector that tells all, one that tells little, and one that is wrong."""
    middle = np.array([2.0, 0.5, -1.0])
    normal, test, sought = rng.normal(size=(3, 80, 3)) * [1.0, 7.0, 0.2] + [0.0, 50.0, -3.0]
    return RawScores(mode, labels, NAMES, normal, test, sought - middle * [1.0, 7.0, 0.2])


@pytest.fixture
def stored():
    rng = np.random.default_rng(0)
    return {
        f"odd-{i:02}": [
            drawn(rng, k, mode)
            for mode in TURNS[i % len(TURNS)]
            for k in LABELS
            if k or mode != "unseen"
        ]
        for i in range(12)
    }


# ------------------------------------------------------------------------------------ raw scores


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Two choosing tables, of either turn, and two that confirm."""
    (tmp_path / "tables").mkdir()
    rng = np.random.default_rng(0)
    for name in ("odd-A", "odd-B", "odd-C", "odd-D"):
        X = rng.normal(size=(74, 3))
        X[60:] += np.repeat([-4.0, 4.0], [5, 9])[:, None]  # kinds of 5 and of 9 anomalies
        np.savez(tmp_path / "tables" / f"{name}.npz", X=X, y=np.arange(74) >= 60)
    monkeypatch.setenv("LPFUSE_DATA", str(tmp_path))
    return tmp_path


def test_raw_scores_are_those_the_scale_is_fitted_to(tables):
    (found,) = raw_scores("odd-A", ["contaminated"], [5])
    split = split_table(*load_rows("odd-A"), 0, "contaminated")
    training = split.training(5)
    fused = FusedDetector(random_state=0).fit(training.X, training.y)
    kept = ~np.isin(fused.detector_names_, ROBUST)
    assert (~kept).sum() == len(ROBUST)
    assert found.names.tolist() == np.array(fused.detector_names_)[kept].tolist()
    normal = fused.out_of_fold_.scores[: len(split.train), kept]  # hidden ones count as normal
    np.testing.assert_array_equal(np.sort(found.normal, axis=0), np.sort(normal, axis=0))
    np.testing.assert_array_equal(found.test, fused.detector_scores(split.test)[:, kept])
    np.testing.assert_array_equal(found.sought, fused.detector_scores(split.sought)[:, kept])


def test_without_labels_no_kind_is_unseen(tables):
    assert raw_scores("odd-A", ["unseen"], [0]) == []


def test_what_is_missing_is_measured_and_what_is_stored_stays(tables, tmp_path):
    folder, stored = tmp_path / "scores", [drawn(np.random.default_rng(0))]
    write_scores(folder / f"{table_key('odd-A')}.npz", stored)
    measure_scores(folder)
    found = read_scores(folder)
    assert list(found) == choosing_tables() == ["odd-A", "odd-C"]
    np.testing.assert_allclose(found["odd-A"][0].test, stored[0].test, rtol=1e-6)
    asked = [(raw.mode, raw.labels) for raw in found["odd-C"]]
    assert asked == [*(("seen", k) for k in (0, 5, 20)), *(("contaminated", k) for k in (0, 5))]
    (again,) = raw_scores("odd-C", ["seen"], [0])
    np.testing.assert_allclose(found["odd-C"][0].sought, again.sought, rtol=1e-6)
    assert not any("odd" in path.name for path in folder.iterdir())


def test_so_many_rows_are_kept_at_most(tables):
    X = np.random.default_rng(0).normal(size=(1700, 2))
    X[1100:] += 3.0
    np.savez(tables / "tables" / "odd-A.npz", X=X, y=np.arange(1700) >= 1100)
    (found,) = raw_scores("odd-A", ["seen"], [0])
    assert [len(rows) for rows in found[3:]] == [MOST_NORMAL, MOST_TEST, MOST_TEST]


@pytest.fixture
def paths(tmp_path, monkeypatch):
    """Scores of 12 choosing tables of 14; file and page to write."""
    (tmp_path / "tables").mkdir()
    for i in range(28):
        (tmp_path / "tables" / f"odd-{i:02}.npz").touch()
    monkeypatch.setenv("LPFUSE_DATA", str(tmp_path))
    return tmp_path / "scores", tmp_path / "prior.json", tmp_path / "prior.md"


def test_file_and_page_are_written_from_stored_scores(paths, stored):
    folder, out, page = paths
    for name, scores in zip(choosing_tables(), stored.values(), strict=False):
        write_scores(folder / f"{table_key(name)}.npz", scores)
    write_prior(folder, out, page)
    content = json.loads(out.read_text())
    assert content["provenance"].startswith("12 of the 14 tables")
    assert content == prior_content(read_scores(folder), 14)
    assert page.read_text() == prior_page(read_scores(folder), content)


@pytest.mark.parametrize(
    ("n", "error", "message"),
    [(0, FileNotFoundError, "measure them first"), (2, ValueError, "2 tables, which cannot be")],
)
def test_too_few_scores_write_nothing(paths, stored, n, error, message):
    folder, out, page = paths
    for name, scores in list(zip(choosing_tables(), stored.values(), strict=False))[:n]:
        write_scores(folder / f"{table_key(name)}.npz", scores)
    with pytest.raises(error, match=message):
        write_prior(*paths)
    assert not out.exists()
    assert not page.exists()


# --------------------------------------------------------------------------------------- weights


@pytest.mark.parametrize(("scale", "scaler"), [("tail", TailScaler), ("two-sided", TwoSidedMinMax)])
def test_normal_training_rows_set_the_scale(stored, scale, scaler):
    raw = stored["odd-00"][1]
    part = parts_of({"odd-00": [raw]}, scale, raw.labels)[0]
    fitted = scaler().fit(raw.normal)
    np.testing.assert_allclose(part.test, fitted.transform(raw.test), rtol=1e-12)
    np.testing.assert_allclose(part.sought, fitted.transform(raw.sought), rtol=1e-12)


def test_differences_are_cut(stored):
    part = parts_of(stored, "tail", 0)[0]
    for away in (-1e6, 1e6):
        far = part._replace(sought=part.sought - away)
        assert (far.differences() == np.copysign(MOST, away)).all()


@cases(("scale", "labels"), ROWS)
def test_weights_are_the_minimum(stored, scale, labels):
    parts = parts_of(stored, scale, labels)

    def naive(w):
        losses = [np.mean(np.log1p(np.exp(-(part.differences() @ w)))) for part in parts]
        return np.mean(losses) + RIDGE / 2 * ((w - w.mean()) ** 2).sum()

    bounds = [(0.0, None)] * 3
    best = minimize(naive, np.ones(3) / 3, method="Nelder-Mead", bounds=bounds, tol=1e-10).x
    found = learn_weights(parts)
    np.testing.assert_allclose(list(found.values()), best / best.sum(), atol=2e-3)
    assert found["good"] > found["fair"] > found["bad"] == 0.0


def test_the_file_has_rows_per_scale_and_label_count(stored):
    content = prior_content(stored, 15)
    shipped = json.loads(FILE.read_text(encoding="utf-8"))
    assert content["version"] == shipped["version"] == 3
    assert list(content) == list(shipped)
    assert content["suspected"] == shipped["suspected"]  # learnt by another study
    assert content["provenance"].startswith("12 of the 15 tables")
    assert prior_content(stored, 12)["provenance"].startswith("12 tables")
    assert [(row["scale"], row["labels"]) for row in content["weights"]] == [
        ("tail", 0), ("tail", 5), ("two-sided", 5), ("two-sided", 20), ("two-sided", 100),
    ]  # fmt: skip
    for row in content["weights"]:
        parts = parts_of(stored, row["scale"], row["labels"])
        assert row["weights"] == learn_weights(parts)


# ------------------------------------------------------------------------------------------ page


def test_both_halves_hold_tables_of_all_modes(stored):
    counts = Counter((part.side, part.mode) for part in parts_of(stored, "tail", 5))
    assert counts == {(side, mode): 6 if mode == "seen" else 3 for side in (0, 1) for mode in MODES}


def test_tables_of_a_source_are_in_one_half():
    found = sides(["odd-A", "odd-B", "odd-C-a1", "odd-C-a2", "ovr-C", "ovr-D", "ovr-E"])
    assert list(found.values()) == [0, 0, 1, 1, 1, 0, 0]


def test_each_half_is_read_by_weights_of_the_other(stored):
    parts = parts_of(stored, "two-sided", 20)
    weights = [learn_weights([part for part in parts if part.side == side]) for side in (1, 0)]
    wanted = []
    for mode in MODES:
        orders = []
        for part in parts:
            if part.mode == mode:
                w = np.array(list(weights[part.side].values()))
                gaps = (part.test @ w)[:, None] - part.sought @ w
                orders.append(100 * ((gaps > 0) + (gaps == 0) / 2).mean())
        wanted.append(np.mean(orders))
    np.testing.assert_allclose(held_out_order(parts), wanted, rtol=1e-9)


def test_what_is_left_out_is_missed_as_it_deserves(stored):
    parts = parts_of(stored, "two-sided", 5)
    whole = held_out_order(parts)
    assert (whole > equal_order(parts) + 5).all()
    assert (held_out_order([part.without("good") for part in parts]) < whole - 5).all()
    assert (abs(held_out_order([part.without("bad") for part in parts]) - whole) < 1).all()


def test_the_page_has_all_members_and_both_scales(stored):
    text = prior_page(stored, prior_content(stored, 12))
    assert all(f"| {name} |" in text and f"| without {name} |" in text for name in NAMES)
    for scale in ("two-sided", "tail"):
        told = held_out_order(parts_of(stored, scale, 20))
        assert " / ".join(f"{value:.1f}" for value in told) in text.split(f"| {scale} |")[1]
    assert " / – / " in text  # unseen kinds without labels


def test_the_page_shows_the_weights_of_the_package():
    content = json.loads(FILE.read_text(encoding="utf-8"))
    shown = PAGE.read_text(encoding="utf-8")
    assert [(row["scale"], row["labels"]) for row in content["weights"]] == list(ROWS)
    for name in content["weights"][-1]["weights"]:
        weights = [row["weights"].get(name) for row in content["weights"]]
        cells = ["" if weight is None else f"{weight:.2f}" for weight in weights]
        assert "| " + " | ".join([name, *cells]) + " |" in shown
    assert content["provenance"].partition(" of docs")[0] in " ".join(shown.split())
