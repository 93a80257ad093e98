"""Stored passes on a device → shares of a copy, where a fit's time goes, and the figure."""

import json

import pytest

from research.speed.scaling.pass_tables import (
    alternative,
    draw_roofline,
    found_passes,
    pass_section,
)
from research.speed.scaling.results import Results
from research.speed.scaling.tables import results_page, write_tables

ENVIRONMENT = {
    "kind": "environment", "cpu": "a processor", "cores": 2, "threads": 1, "python": "3.11",
    "system": "Linux", "blas": ["openblas"], "versions": {"numpy": "2"},
    "uncommitted_changes": False,
}  # fmt: skip
DEVICE = "a device"
SIZE = 8 * 1000 * 4  # bytes of the scores


def record(kind, form, seconds, setting="negatives", **fields):
    where = {"device": DEVICE, "n": 1000, "R": 4, "setting": setting, "dtype": "float64"}
    asked = {"seed": 0, "status": "finished", "environment": "passes", **where}
    return {"kind": kind, **asked, "form": form, "seconds": seconds, **fields}


def fit(p, form, seconds, **fields):
    parts = {"entrance": 0.002, "sample": 0.0005, "partition": 0.0015, "examine": 0.001}
    calls = {"entrance": 1, "sample": 1, "partition": 2, "examine": 1}
    found = {"parts": parts, "calls": calls, "split": 0.010, "host_seconds": 0.005}
    gap = {"passes": 3.0, "relative_gap": 1e-9}
    return record("device-split", form, seconds, p=p, **found, **gap, **fields)


@pytest.fixture
def records():
    return [
        ENVIRONMENT | {"id": "passes", "commit": "fade"},
        ENVIRONMENT | {"id": "solves", "commit": "dead"},
        record("device-kernel", "copy", 1e-6, bandwidth=1e9),
        record("device-kernel", "partition 1, tiles 4 of 32, 4 warps", 5e-5, share=0.64),
        record("device-kernel", "partition 1, tiles 8 of 32, 4 warps", 4e-5, share=0.8),
        record("device-pass", "partition 1, fused", 64e-6, moved_bytes=SIZE),
        record("device-pass", "partition 1, plain", 320e-6, moved_bytes=SIZE),
        record("device-pass", "examine 9, fused", 640e-6, moved_bytes=SIZE),
        record("device-pass", "examine 9, plain", 3200e-6, moved_bytes=SIZE),
        record("device-pass", "examine 9, fused", 320e-6, "pure", moved_bytes=SIZE),
        fit("4/3", "fused", 0.011),
        fit("4/3", "plain", 0.022),
        fit("path", "fused", 1.5),
        record("device-scoring", "LpFusion.score_samples", 1.0, rows_a_second=1e3)
        | {"environment": "solves"},
    ]


def test_shares_are_bytes_a_second_over_those_of_the_copy(records):
    first, second, pure = found_passes(Results(records), DEVICE)
    assert first.shares == pytest.approx({"fused": 0.5, "plain": 0.1})
    assert second.shares == pytest.approx({"fused": 0.05, "plain": 0.01})
    assert first.kernel["seconds"] == 4e-5  # the fastest cut
    assert second.kernel is None
    assert pure.shares == pytest.approx({"fused": 0.1})


def test_a_copy_of_other_scores_is_no_unit(records):
    other = [r | {"dtype": "float32"} if r.get("form") == "copy" else r for r in records]
    assert found_passes(Results(other), DEVICE) == []


def test_tables_tell_passes_and_where_time_goes(records):
    text = pass_section(Results(records), "roofline.png")
    assert (
        "| partition, 1 | negatives | float64 | 0.32 | 10.0 % | 0.064 | 50.0 % | 0.04 | 80.0 % "
        "| tiles 8 of 32, 4 warps |"
    ) in text
    assert "| certificate, 9 | pure | float64 | – | – | 0.32 | 10.0 % | – | – | – |" in text
    assert "| negatives | 4/3 | 11 | 22 | 2 | 3 (3) | 5 | 50 % | 1.0e-09 |" in text
    assert "| negatives | the path | 1,500 | – | 2 | 3 (3) | 5 | 50 % | 1.0e-09 |" in text


def test_each_part_of_the_page_says_its_commit(records):
    text = results_page(Results(records))
    before, passes = text.split("## Passes on a device")
    assert "Measured at dead;" in before
    assert "fade" not in before
    assert "Measured on a device, commit fade." in passes


def test_the_figure_is_drawn_told_in_words_and_shown(records, tmp_path):
    (tmp_path / "scaling").mkdir()
    (tmp_path / "scaling" / "passes.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    out, guide = tmp_path / "page.md", tmp_path / "guide.md"
    guide.write_text("<!-- measured: paths -->\n<!-- end -->\n")
    write_tables(Results.load(tmp_path), out, guide)
    words = alternative(Results(records), DEVICE)
    assert words.endswith(
        "plain 1.0 % to 10.0 %; fused 5.0 % to 50.0 %; the fused kernel alone 80.0 % to 80.0 %"
    )
    assert f"![{words}](scaling-roofline.png)" in out.read_text()
    assert (tmp_path / "scaling-roofline.png").stat().st_size > 1000
    assert "| a GPU | 1,000 × 4 float64 | negatives | 22 ms | 3.0 |" in guide.read_text()


def test_comparisons_that_failed_are_named(records):
    right = record("device-check", "31×4 labels", None, right=True, worst={"dual": 0.1})
    wrong = record("device-check", "31×4 costs", None, right=False, worst={"dual": 9.0})
    none, one, both = (
        pass_section(Results([*records, *more]), "f.png").replace("\n", " ")
        for more in ([], [right], [right, wrong])
    )
    assert "did not compare the kernels" in none
    assert "in 1 of 1 comparisons." in one
    assert "in 1 of 2 comparisons; not 31×4 costs (float64)." in both


def test_without_both_forms_there_is_no_figure(records, tmp_path):
    plain = [r for r in records if not r.get("form", "").endswith("fused")]
    assert draw_roofline(Results(plain), tmp_path / "none.png") is False
    assert not (tmp_path / "none.png").exists()
    assert "none.png" not in pass_section(Results(plain), "none.png")
