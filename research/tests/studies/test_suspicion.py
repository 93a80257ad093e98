"""The study of suspicion: parts learnt from made-up scores, and what is measured and stored."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from lpfuse import FusedDetector
from lpfuse.ensemble.defaults import ROBUST, SUSPECTED, prior_of_tables
from research.studies import suspicion
from research.studies.answers.protocols import RATES
from research.studies.suspicion import (
    GROUPS,
    REST,
    SEEDS,
    Cell,
    heap_scores,
    heap_table,
    learn_parts,
    measure_scores,
    read_scores,
    weights_table,
)

SEES, NOISE = "lof", "knn half"


def drawn(rng, group, rate=0.05, counts=True, sees=SEES):
    """All see one half of the anomalies, `sees` alone the hidden group; one member is noise."""
    test, sought = rng.normal(size=(2, 80, 1 + len(ROBUST)))
    names = (REST, *ROBUST)
    test, sought = (dict(zip(names, scores.T, strict=True)) for scores in (test, sought))
    for name in names:
        sought[name][:40] -= 0.0 if name == NOISE else 3.0
    sought[sees][40:] -= 6.0
    return Cell(group, counts, rate, test, sought)


@pytest.fixture
def cells():
    rng = np.random.default_rng(0)
    return [drawn(rng, group) for group in GROUPS[:2] for _ in range(8)]


def test_who_alone_sees_the_hidden_group_is_preferred_and_noise_has_no_part(cells):
    parts = learn_parts(cells, [0.05])
    assert sum(parts.values()) == pytest.approx(1.0)
    assert max(parts, key=parts.get) == SEES
    assert parts[NOISE] == 0.0
    areas = [np.mean([cell.auc(w) for cell in cells]) for w in (parts, {REST: 1.0})]
    assert areas[0] > areas[1] + 10


def test_other_shares_and_sets_that_confirm_have_no_say(cells):
    rng = np.random.default_rng(1)
    others = [
        drawn(rng, "choose", rate=0.1, sees="covariance"),
        drawn(rng, "choose", counts=False, sees="covariance"),
        drawn(rng, "confirm", counts=False, sees="covariance"),
    ]
    assert learn_parts(cells + 20 * others, [0.05]) == learn_parts(cells, [0.05])


def test_groups_count_alike_however_many_sets_they_have(cells):
    development = [cell for cell in cells if cell.group == "development"]
    expected = learn_parts(cells, [0.05])
    assert learn_parts(cells + 3 * development, [0.05]) == pytest.approx(expected)


# ------------------------------------------------------------------------------- measured tables


def rows_with_a_dense_group(seed, d=4):
    """Normal rows, and anomalies so close to each other that one covers the next."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(140, d))
    X[120:] = 3.0 + 0.05 * rng.normal(size=(20, d))
    return X, np.arange(140) >= 120


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A development set, and tables of either half of which some were measured."""
    folder = tmp_path_factory.mktemp("suspicion")
    for i, name in enumerate(("anomaly/set", *(f"tables/odd-{letter}" for letter in "ABC"))):
        (folder / name).parent.mkdir(exist_ok=True)
        X, is_anomaly = rows_with_a_dense_group(i)
        np.savez(folder / f"{name}.npz", X=X, y=is_anomaly.astype(int))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LPFUSE_DATA", str(folder))
        measure_scores(folder / "scores", most=2)
    return folder


@pytest.fixture
def scores(measured, monkeypatch):
    monkeypatch.setenv("LPFUSE_DATA", str(measured))
    return measured / "scores"


def test_what_is_stored_stays_and_what_is_missing_is_measured(scores, monkeypatch):
    asked = []

    def measure_once(folder, place):
        asked.append(place)
        return []

    monkeypatch.setattr(suspicion, "_measure_set", measure_once)
    measure_scores(scores)  # two of the three tables are there
    assert asked == [("tables", "odd-B")]
    assert not any("odd" in path.name for path in scores.rglob("*"))


def test_every_share_and_split_of_a_set_is_read(scores):
    cells, heaps = read_scores(scores)
    assert len(cells) == len(RATES) * (SEEDS["anomaly"] + 2 * SEEDS["tables"])
    assert {(cell.group, cell.counts) for cell in cells} == {
        ("development", True), ("choose", True), ("choose", False)
    }  # fmt: skip
    assert [heap.group for heap in heaps] == ["development", "choose"]  # of tables, every third


def test_a_dense_group_hides_from_all_but_robust_members(scores):
    cells, _ = read_scores(scores)
    hidden = [cell for cell in cells if cell.rate == 0.1]
    alone, half = (np.mean([c.auc({n: 1.0}) for c in hidden]) for n in (REST, "knn half"))
    assert half > alone
    assert learn_parts(cells, [0.1])[REST] < 0.7
    assert weights_table(cells).count("\n") == 1 + 1 + 4 + 4


def test_the_strangest_rows_of_a_heap_are_scored_without_each_other(scores):
    _, heaps = read_scores(scores)
    lines = [line.split("|") for line in heap_table(heaps).splitlines()]
    precision = {line[1].strip(): float(line[3]) for line in lines[2:]}
    assert precision["default pool, 20% rescored"] > precision["no robust members, 0% rescored"]


def test_a_heap_is_ranked_as_a_fit_ranks_its_rows():
    X, is_anomaly = rows_with_a_dense_group(0)
    found = dict(heap_scores(X, is_anomaly))
    order = np.random.default_rng(0).permutation(len(X))
    fused = FusedDetector(random_state=0).fit(X[order])
    base, others = (suspicion._under(found, f"heap|{share}|") for share in (0.0, 0.2))
    assert set(base) - set(others) == set(ROBUST)  # they are not fitted again
    weights = prior_of_tables(list(base), 0, SUSPECTED)
    told = suspicion._weighted(suspicion.scaled(base | others, base), weights)
    assert spearmanr(told, fused.fitted_scores_).statistic > 0.97  # other seeds


def test_without_scores_it_says_what_to_run(scores, tmp_path):
    with pytest.raises(FileNotFoundError, match="measure them first"):
        read_scores(tmp_path)
