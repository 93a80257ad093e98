"""The page of the learning curve, from made-up rows."""

import numpy as np
import pytest

from research.common.ranks import critical_difference, friedman, mean_ranks, skillings_mack
from research.common.statistics import compare, holm
from research.common.tables import gain
from research.paper import labels_page
from research.paper.labels_page import HINDSIGHT, OURS, Areas, against_ours, setting_of

pytest.importorskip("statsmodels", reason="corrections need statsmodels")

page = labels_page.labels_page
COUNTS = (0, 1, 5, 20, 50, 100)
LIMITS = {f"set {i}": limit for i, limit in enumerate((100, 100, 50, 50, 20, 5, 1))}
LEARN = (OURS, "logistic", "best single")  # the higher up, the better
FIXED = ("sum", "bagged SVMs", "gmm alone", HINDSIGHT)


def value_of(method, name, seed, labels):
    rng = np.random.default_rng(
        [LEARN.index(method) if method in LEARN else 9, int(name[-1]), seed]
    )
    rank = (*LEARN, *FIXED[:-1]).index(method) if method != HINDSIGHT else -1
    gain = np.log1p(labels) if method in LEARN else 0.0
    return 80 - 2 * rank + gain + rng.normal(scale=0.3)


def made_up(seeds=2):
    """Ours is the best everywhere and learns from labels; sets leave as labels grow."""
    rows = []
    for name, limit in LIMITS.items():
        for seed in range(seeds):
            for k in COUNTS:
                methods = [*LEARN, *(FIXED if k == 0 else ())]
                methods += ["trees alone"] if k >= 5 else []
                for method in methods if k <= limit else []:
                    expert = method == "trees alone"
                    value = 60.0 if expert else value_of(method, name, seed, k)
                    rows.append({"set": name, "seed": seed, "setting": setting_of(k),
                                 "method": method, "metric": "auc", "value": value})  # fmt: skip
    return rows


@pytest.fixture
def areas():
    return Areas(made_up())


def test_figures_are_means_over_splits_of_available_sets(areas):
    assert areas.counts == list(COUNTS)
    assert [len(areas.sets(k)) for k in COUNTS] == [7, 7, 6, 5, 4, 2]
    table = areas.table(20, [OURS, "sum"])
    assert table.shape == (5, 2)
    mean = np.mean([value_of(OURS, "set 3", seed, 20) for seed in (0, 1)])
    assert table[3, 0] == pytest.approx(mean)


def test_methods_without_labels_stand_at_every_number(areas):
    first, later = areas.table(0, FIXED), areas.table(20, FIXED)
    np.testing.assert_array_equal(later, first[:5])


def test_experts_are_there_from_their_first_labels_on(areas):
    assert "trees alone" not in areas.methods(1)
    assert "trees alone" in areas.methods(5)
    assert np.isnan(areas.table(1, ["trees alone"])).all()
    assert areas.methods(5)[0] == OURS


def test_hindsight_is_no_contender(areas):
    assert HINDSIGHT in areas.methods(0)
    assert HINDSIGHT not in areas.contenders(0)
    assert HINDSIGHT not in against_ours(areas, 5)


def test_a_method_missing_in_some_split_is_left_out():
    rows = made_up()
    rows += [row | {"method": "genetic"} for row in rows
             if row["method"] == OURS and (row["seed"] == 0 or row["set"] == "set 0")]  # fmt: skip
    areas = Areas(rows)
    assert "genetic" not in areas.methods()
    text = page(areas, "")
    assert (
        "*genetic*: left out, for it was not measured in every split. It needs pygad: `pip" in text
    )
    assert "| genetic |" not in text


def test_comparisons_are_paired_by_set_and_corrected(areas):
    found = against_ours(areas, 20)
    ours, theirs = areas.table(20, [OURS, "sum"]).T
    assert found["sum"][0] == compare(ours, theirs)
    raw = [comparison.p_value for comparison, _ in found.values()]
    np.testing.assert_allclose([p for _, p in found.values()], holm(raw))
    assert found["sum"][0].wins == 5


def test_without_labels_the_sum_rule_is_compared_once(areas):
    assert "logistic" not in against_ours(areas, 0)
    assert "logistic" in against_ours(areas, 5)
    assert "best single" in against_ours(areas, 0)


def test_the_page_tells_all(areas):
    text = page(areas, "FIGURE")
    assert "FIGURE" in text
    for name in (OURS, "logistic †", "best single", *FIXED, "trees alone"):
        assert f"| {name} |" in text
    for head in ("1 label, 7 sets", "5 labels, 6 sets", "100 labels, 2 sets"):
        assert head in text
    mean = areas.table(5, [OURS]).mean()
    assert f"**5 labels, 6 sets**: ours {mean:.1f}; better than 0 of 6 others" in text
    assert "higher on average: none" in text
    found = skillings_mack(np.column_stack([areas.table(k, [OURS], areas.sets(0)) for k in COUNTS]))
    assert f"χ² = {found.statistic:.1f} with 5 degrees" in text
    assert "2 random splits" in text


def test_the_highest_mean_is_bold_and_ranked_first(areas):
    row = next(line for line in page(areas, "").splitlines() if line.startswith("| ours |"))
    assert row.count("**") == 2 * len(COUNTS)
    assert row.count("(1.0)") == len(COUNTS)


def test_tables_hold_what_the_tests_found(areas):
    lines = page(areas, "").splitlines()
    found, p = against_ours(areas, 20)["sum"]
    assert f" | {gain(found, p)} | " in next(line for line in lines if line.startswith("| sum | +"))
    contenders = areas.contenders(20)
    table = areas.table(20, contenders)
    row = next(line for line in lines if line.startswith("| 20 labels, 5 sets |"))
    difference = critical_difference(len(contenders), 5)
    apart = int((mean_ranks(table) - 1.0 > difference).sum())
    assert row == (
        f"| 20 labels, 5 sets | {friedman(table).p_value:.1g} | {difference:.1f} | 1.0 | 1.0 (ours)"
        f" | {apart} of 6 |"
    )
    by_set = next(line for line in lines if line.startswith("| set 4 |"))
    values = [areas.table(k, [OURS], ["set 4"])[0, 0] for k in (0, 1, 5, 20)]
    assert by_set == f"| set 4 | {' | '.join(f'{value:.1f}' for value in values)} |  |  |"


def test_whoever_is_ahead_of_ours_is_named():
    rows = [row | {"value": 99.0} if row["method"] == "sum" else row for row in made_up()]
    text = page(Areas(rows), "")
    assert "higher on average: sum." in text


def test_one_unlabelled_set_with_one_split_makes_a_page():
    rows = [row for row in made_up() if row["set"] == "set 0" and row["setting"] == "0 labels"]
    text = page(Areas(rows), "")
    assert "0 labels, 1 set " in text
    assert "[-inf, +inf]" in text
    assert "No set has an anomaly to label." in text


def test_curves_are_drawn_over_the_same_sets(areas, tmp_path, monkeypatch):
    drawn = []
    new_figure = labels_page.new_figure
    monkeypatch.setattr(
        labels_page, "new_figure", lambda *size: drawn.append(new_figure(*size)) or drawn[0]
    )
    labels_page.draw(areas, tmp_path / "labels.png")
    assert (tmp_path / "labels.png").stat().st_size > 10_000
    text = " ".join(page(areas, "").split())
    assert "the 4 sets with 50 labels or more" in text
    assert "set 0, set 1, set 2, set 3." in text
    ax = drawn[0].axes[0]
    curves = {line.get_label(): line for line in ax.lines}
    sets = ["set 0", "set 1", "set 2", "set 3"]
    ours = [areas.table(k, [OURS], sets).mean() for k in COUNTS[:-1]]
    np.testing.assert_allclose(curves[OURS].get_ydata(), ours)
    widths = [line.get_linewidth() for name, line in curves.items() if name != OURS]
    assert curves[OURS].get_linewidth() > 2 * max(widths)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "1", "5", "20", "50"]
    assert ax.get_ylim()[0] == pytest.approx(min(ours) - 10.0), "who is far below is cut off"
    assert {"sum", "logistic", "best single", "trees alone", "others"} < curves.keys()
