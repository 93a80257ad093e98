"""Why rows of a table were flagged: by columns as people know them."""

import numpy as np
import polars as pl
import pytest

from helpers.pumps import DETECTORS, pumps, score_table
from lpfuse_cli.fitting import fit_table, fuse_table
from lpfuse_cli.reasons import Reason, reasons
from lpfuse_cli.scoring import score_frame
from oracles.shapley import shapley_by_all_orders


@pytest.fixture(scope="module")
def model():
    return fit_table(pumps(300), label="state", normal="ok", detectors=DETECTORS)


@pytest.fixture(scope="module")
def strange():
    """A high pressure, a text that is new, a gap, and a number that a CSV file spells.

    What is new or missing is filled in.
    """
    rows = pumps(4, seed=3, worn=0.0).with_columns(pl.col("bar").fill_null(2.5))
    at = pl.int_range(pl.len())
    return rows.with_columns(
        bar=pl.when(at == 0).then(9.9).when(at == 2).then(None).otherwise("bar"),
        kind=pl.when(at == 1).then(pl.lit("zzz")).otherwise("kind"),
        flow=pl.when(at == 3).then(pl.lit("55.123456789")).otherwise(pl.col("flow").cast(str)),
    )


def test_features_of_a_column_move_together(model, strange):
    """The definition, with all features of a column as one player."""
    few, background = strange[1:3], pumps(2, seed=8)  # a new text, and a gap
    found = model.explain(few, background=background, n_permutations="all")
    assert (
        found.feature_names == model.preparation_.columns == ["bar", "flow", "wet", "when", "kind"]
    )
    X, others = model.preparation_.rows_of(few), model.preparation_.rows_of(background)
    sources = np.array([name for name, _ in model.preparation_.features])
    assert len(sources) > 4
    groups = [np.flatnonzero(sources == name) for name in found.feature_names]
    for x, values in zip(X, found.values, strict=True):
        expected = shapley_by_all_orders(model.score_samples, x, others, groups)
        np.testing.assert_allclose(values, expected, atol=1e-9)


def test_reasons_have_cells_and_what_is_usual(model, strange):
    found = reasons(model, strange)
    first = {row: found[row][0] for row in (0, 3)}
    assert [reason.name for reason in first.values()] == ["bar", "flow"]
    assert [reason.value for reason in first.values()] == [9.9, 55.123456789]
    normal = pumps(300).filter(pl.col("state") == "ok")
    flow = normal["flow"].to_numpy()
    low, high = np.quantile(flow, [0.05, 0.95])
    assert first[3].usual == pytest.approx({"low": low, "high": high})
    assert first[3].value_words() == "55.1235"
    missing = Reason("bar", None, {"low": 2.31, "high": 2.69}, -3.1, 0.25)
    assert missing.words().startswith("bar missing (usually 2.")


def test_true_and_false_are_words(model):
    rows = pumps(4, seed=3).with_columns(wet=pl.lit(True))
    spelt = rows.with_columns(wet=pl.lit("true"))
    for frame in (rows, spelt):
        told = [r for each in reasons(model, frame, most=4) for r in each if r.name == "wet"]
        for reason in told:
            assert reason.value == "true"
            assert reason.usual["text"] == "false"


def test_what_hardly_matters_is_not_told(model, strange):
    values = model.explain(strange, background=32).values
    for row, found in zip(values, reasons(model, strange), strict=True):
        assert found[0].push == pytest.approx(row.min())
        assert all(reason.push <= 0.05 * found[0].push for reason in found)


def test_scores_of_tools_are_columns_too():
    frame = score_table().drop("file")
    model = fuse_table(frame, label="fake", normal="no", high={"knn": "anomaly"})
    lowest = score_frame(model, frame)["score"].arg_sort()[:5]
    found = reasons(model, frame[lowest])
    assert all(each[0].name in {"svm", "knn"} for each in found)
    # The fused score is a sum over columns: another background changes the base, not the order.
    some = model.explain(frame[lowest], background=frame[:20])
    assert some.standard_errors.max() < 1e-9


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (Reason("a", 1.0, {"low": 0.0, "high": 0.0}, -1.0, 0.0), "a 1 (usually 0): −1"),
        (Reason("a", 1150.0, {"low": 2e3, "high": 3e3}, -1200.0, 5e-17),
         "a 1,150 (usually 2,000 to 3,000): −1,200"),
        (Reason("a", "b", None, -1.5, 0.25), "a b: −1.5 ± 0.25"),
        (Reason("a", None, {"text": "x", "share": 0.5}, -1, 0.1),
         "a missing (usually x, 50 %): −1 ± 0.1"),
        (Reason("a\x1b[31m\n", "c" * 90, None, -1, 0.1), None),
    ],
)  # fmt: skip
def test_words(reason, words):
    assert words is None or reason.words() == words
    assert "\x1b" not in reason.words()
    assert "\n" not in reason.words()
    assert len(reason.words()) < 120


def with_wards(frame, unknown):
    """A category that is "surgery" in nine of ten rows, blank where `unknown` says so."""
    at = pl.int_range(pl.len())
    ward = pl.when(at % 10 == 0).then(pl.lit("ICU")).otherwise(pl.lit("surgery"))
    return frame.with_columns(ward=pl.when(unknown).then(None).otherwise(ward))


@pytest.mark.parametrize("column", ["ward", "open"])
def test_blank_cells_do_not_count_in_what_is_usual(column):
    frame = with_wards(pumps(200), pl.int_range(pl.len()) % 3 == 0).with_columns(
        open=pl.col("ward") == "surgery"
    )
    columns = ["bar", "flow", column]
    model = fit_table(frame.select(columns), detectors=["knn"])
    rows = pumps(30, seed=4).with_columns(ward=pl.lit("ICU"), open=pl.lit(False))
    told = [r for each in reasons(model, rows, most=9) for r in each if r.name == column]
    assert told
    known = frame[column].drop_nulls()
    text, share = known.value_counts(sort=True).row(0)[0], (known == known.mode()[0]).mean()
    for reason in told:
        assert reason.usual == {"text": str(text).lower(), "share": pytest.approx(share)}
        assert "nan" not in reason.words()
