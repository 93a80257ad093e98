"""The model card: what it says is what was fitted, and texts of others stay text."""

import re

import numpy as np
import polars as pl
import pytest

from helpers.pools import Lowest, both, normal_rows
from helpers.reports import NASTY, fitted, pool
from lpfuse import FusedDetector
from lpfuse_cli.fitting import fit_table
from lpfuse_cli.report import summarise, write_card
from lpfuse_cli.report.card import BY, LIMITS, MOST_COLUMNS, escaped

SECTIONS = [
    "Intended use", "Data", "Detectors and weights", "Calibration", "What was measured", "Limits",
    "Settings", "Versions",
]  # fmt: skip


def card_of(model, folder, *rows, **texts):
    model.card(folder / "card.md", *rows, **texts)
    return (folder / "card.md").read_text(encoding="utf-8")


def rows_of(card, first):
    """The table whose head begins with a word, as lists of cells."""
    start = card.index(f"| {first} |")
    lines = card[start:].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_a_card_has_all_its_sections_in_their_order(labelled, tmp_path):
    card = card_of(labelled, tmp_path)
    assert re.findall(r"^## (.*)$", card, re.M) == SECTIONS
    assert card.startswith("# Model card\n")
    assert card.endswith("|\n")


def test_its_figures_are_those_of_the_summary(labelled, summary, tmp_path):
    card = card_of(labelled, tmp_path)
    head, _, *rows = rows_of(card, "detector")
    assert [row[0] for row in rows] == labelled.detector_names_
    weights = [float(row[head.index("weight")].replace("−", "-")) for row in rows]
    np.testing.assert_allclose(weights, labelled.weights_, rtol=5e-3)
    assert [row[head.index("columns")] for row in rows] == ["all", "all", "all", "1"]
    aucs = [float(row[head.index("AUC")]) for row in rows]
    np.testing.assert_allclose(aucs, [found["auc"] for found in summary["detectors"]], atol=5e-4)
    assert "120 normal, 24 anomalies" in card
    assert f"| rests on | {len(labelled.calibration_)} normal rows |" in card
    assert BY[labelled.unseen_.by] in card
    measured = summary["alarms"]["normal"]
    assert f"{measured['flagged']} of {measured['rows']} rows" in card
    assert "| measured on normal rows |" in card
    gap = float(re.search(r"relative gap of at most (\S+)", card)[1].replace("−", "-"))
    assert gap >= summary["certificate"]["relative_gap"]


def test_versions_and_limits_are_there(labelled, summary, tmp_path):
    card = card_of(labelled, tmp_path)
    assert dict(rows_of(card, "package")[2:]) == summary["versions"]
    assert all(limit in card for limit in LIMITS)


def test_rows_given_are_what_is_measured_on(labelled, fresh, tmp_path):
    judged = summarise(labelled, *fresh)["judged_on"]
    card = card_of(labelled, tmp_path, *fresh)
    assert "On the rows given to the report" in card
    assert f"{judged['normal']} normal, {judged['anomalies']} anomalies" in card


def test_without_anomalies_nothing_is_claimed_of_finding_them(pure, tmp_path):
    card = card_of(pure, tmp_path)
    assert "average precision" not in card
    assert "None of these rows is labelled an anomaly" in card
    assert "| labels | 100 unlabelled |" in card
    assert "| measured on rows taken as normal |" in card


def test_the_use_is_the_authors_to_tell(pure, tmp_path):
    assert "The intended use is not stated" in card_of(pure, tmp_path)
    card = card_of(pure, tmp_path, title="Pumps", use="Pumps of one plant.")
    assert card.startswith("# Pumps\n")
    assert "\n\nPumps of one plant.\n\n" in card
    assert "The intended use" not in card


def test_a_fusion_without_a_proof_says_so(rows, tmp_path):
    card = card_of(fitted(*rows, fusion=Lowest()), tmp_path)
    assert "There is no proof" in card
    assert "relative gap" not in card


@pytest.mark.parametrize(
    "options", [{"contamination": 0.1}, {"threshold": "g-mean"}], ids=["contamination", "g-mean"]
)
def test_threshold_without_rate_claims_no_calibration_rows(rows, options, tmp_path):
    card = card_of(fitted(*rows, **options), tmp_path)
    assert "| p-values rest on | 120 normal rows |" in card
    assert "| rests on |" not in card
    assert "| false alarms |" not in card


def test_without_normal_rows_no_false_alarms_are_measured(labelled, fresh, tmp_path):
    X, _ = fresh
    card = card_of(labelled, tmp_path, X, np.zeros(len(X)))
    assert "| measured on normal rows | nothing: no row is known to be normal |" in card


def test_figures_that_flatter_are_called_so(rows, tmp_path):
    card = card_of(fitted(*rows, cv="in-sample"), tmp_path)
    assert "The detectors were fitted to the rows of this measurement, so it is optimistic." in card


def test_too_few_rows_for_the_rate_are_told(tmp_path):
    with pytest.warns(UserWarning, match="false alarms"):
        fused = fitted(normal_rows(30), false_alarm_rate=0.001)
    assert "Nothing can be called an anomaly" in card_of(fused, tmp_path)


def test_rows_kept_back_artificial_anomalies_and_answers_are_counted(rows, tmp_path):
    X, y = rows
    split = card_of(fitted(X, y, calibration="split"), tmp_path)
    assert "| rows kept back | 24 |" in split
    assert "nothing has learnt from them" in split
    made = card_of(fitted(X[y > 0], artificial_anomalies=True), tmp_path)
    assert re.search(r"\| artificial anomalies \| \d+ \|", made)
    taught = fitted(X).teach(normal_rows(3, seed=5), [1, 1, -1])
    assert "| rows that came with answers | 3 |" in card_of(taught, tmp_path)


def test_columns_of_a_frame_are_named(rows, tmp_path):
    X, y = rows
    frame = pl.DataFrame(X, schema=["a", "b", "c", "d"])
    card = card_of(FusedDetector(["gmm"], random_state=0).fit(frame, y), tmp_path)
    assert [row[:2] for row in rows_of(card, "column")[2:]] == [[name, "number"] for name in "abcd"]


def table_model(X, y, names):
    table = pl.DataFrame(X, schema=names).with_columns(
        site=pl.Series(["north", "south"] * (len(X) // 2)),
        serial=pl.Series(range(len(X))),
        state=pl.Series(np.where(y > 0, "ok", "worn")),
    )
    return fit_table(table, label="state", normal="ok", detectors=["gmm", "kpca"])


def test_kinds_ranges_and_dropped_columns_of_a_table(rows, tmp_path):
    X, y = rows
    card = card_of(table_model(X, y, ["a", "b", "c", "d"]), tmp_path)
    used, dropped = card.split("Not used:")
    kinds = {row[0]: row[1] for row in rows_of(used, "column")[2:]}
    assert kinds == dict.fromkeys("abcd", "number") | {"site": "category"}
    assert rows_of(dropped, "column")[2][0] == "serial"
    assert "| column of labels | state |" in card
    assert "| label of normal rows | ok |" in card


def test_hostile_names_stay_text_in_their_cells(rows, tmp_path):
    nasty = f"{NASTY}| x | [a](http://b.c) `d` **e** https://f.g\n# h"
    names = [f"{nasty}{j}" for j in range(4)]
    listed = [(f"{nasty}{j}", *rest) for j, (_, *rest) in enumerate(pool())]
    fused = fitted(rows[0], rows[1], listed)
    fused.feature_names_in_ = np.array(names, dtype=object)
    card = card_of(fused, tmp_path, title=nasty, use=nasty)
    for text in ("<", "`d`", "**e**", "http://", "https://"):
        assert not re.search(rf"(?<!\\){re.escape(text)}", card.replace("`FusedDetector`", ""))
    assert [line for line in card.splitlines() if line.startswith("## ")] == [
        f"## {name}" for name in SECTIONS
    ]
    for first, width in {"detector": 7, "column": 2}.items():
        assert {len(row) for row in rows_of(card, first)} == {width}
    assert "\u202e" not in card
    assert "\u2028" not in card


@pytest.mark.parametrize("start", ["#", "-", "+", "=", "1.", "12)"])
def test_no_text_begins_a_block(start):
    assert re.match(r"\d*\\", escaped(f"{start} x"))


def test_numbers_are_left_readable():
    assert escaped("0.05") == "0.05"


def test_a_wide_table_is_cut_and_told(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, MOST_COLUMNS + 5))
    fused = fitted(X)
    fused.feature_names_in_ = np.array([f"x{j}" for j in range(X.shape[1])], dtype=object)
    card = card_of(fused, tmp_path)
    assert "And 5 columns more." in card
    assert len(rows_of(card, "column")) == 2 + MOST_COLUMNS


def test_nothing_is_left_where_it_fails(pure, tmp_path):
    with pytest.raises(TypeError, match="made of a FusedDetector, got"):
        write_card(object(), tmp_path / "card.md")
    with pytest.raises(OSError, match=r"No such file|cannot find"):
        pure.card(tmp_path / "none" / "card.md")
    assert list(tmp_path.iterdir()) == []


def test_a_card_is_replaced_as_a_page_is(pure, tmp_path):
    card_of(pure, tmp_path, title="old")
    X, _ = both(n=40)
    assert card_of(fitted(X), tmp_path, title="new").startswith("# new\n")
    assert [path.name for path in tmp_path.iterdir()] == ["card.md"]


def test_columns_are_counted_as_they_are_used(labelled, tmp_path):
    assert "columns of numbers" not in card_of(labelled, tmp_path)
    frame = pl.DataFrame(
        {
            "row": [f"P{k}" for k in range(60)],
            "kind": ["a", "b"] * 30,
            "x": np.random.default_rng(0).normal(size=60),
        }
    )
    card = card_of(FusedDetector(["gmm"], random_state=0).fit(frame), tmp_path)
    assert "| columns | 3, of which 2 are used |" in card
    card = card_of(FusedDetector(["gmm"], random_state=0).fit(frame[["kind", "x"]]), tmp_path)
    assert "| columns | 2 |" in card
