"""Made-up tables, the network that reads them, and how it is judged."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from research.common.protocol import auc  # noqa: E402
from research.incontext.__main__ import RESULTS  # noqa: E402
from research.incontext.evaluate import BLENDS, SHARES, chosen_weight, score_rows, summary  # noqa: E402
from research.incontext.network import Network, halves, tokens  # noqa: E402
from research.incontext.train import rank_loss, train  # noqa: E402
from research.incontext.world import (  # noqa: E402
    KINDS,
    MOST_COLUMNS,
    MOST_HIDDEN,
    WORLDS,
    Dice,
    World,
    draw_batch,
)

ROOT = Path(__file__).parents[3]
SMALL = {"width": 24, "layers": 2, "heads": 2, "cell": 8}


def _near(rows: np.ndarray, n: int) -> np.ndarray:
    z = (rows - rows[:n].mean(0)) / (rows[:n].std(0) + 1e-6)
    distance = np.sqrt(((z[n:, None] - z[None, :n]) ** 2).sum(2))
    return np.sort(distance, axis=1)[:, 4]


@pytest.mark.parametrize("kind", KINDS)
def test_anomalies_of_each_kind_are_unusual(kind):
    """Five nearest neighbours tell them from normal rows; shuffled, they do not."""
    world, dice = World({kind: 1.0}, two_kinds=0.0, clean=1.0), Dice(1, "cpu")
    found, mixed = [], []
    random = np.random.default_rng(0)
    for _ in range(15):
        rows, is_anomaly, _ = draw_batch(dice, world, 4, 64, 32, parts=2)
        for table, truth in zip(rows.numpy(), is_anomaly.numpy()[:, 64:], strict=True):
            far = _near(table, 64)
            found.append(auc(-far[~truth], -far[truth]))
            other = random.permutation(truth)
            mixed.append(auc(-far[~other], -far[other]))
    assert np.mean(found) > 56
    assert abs(np.mean(mixed) - 50) < 3.5


@pytest.mark.parametrize("name", WORLDS)
def test_tables_of_each_world(name):
    dice, shares, columns = Dice(2, "cpu"), [], set()
    for _ in range(6):
        rows, is_anomaly, labels = draw_batch(dice, WORLDS[name], 8, 48, 8)
        assert torch.isfinite(rows).all()
        assert rows.shape[:2] == is_anomaly.shape == (8, 48 + 16)
        assert not is_anomaly[:, 48:56].any()
        assert is_anomaly[:, 56:].all()
        # Labels are true, and of context rows alone.
        assert labels.shape == (8, 48)
        assert (torch.where(is_anomaly[:, :48], -1, 1) == labels)[labels != 0].all()
        shares += is_anomaly[:, :48].float().mean(1).tolist()
        columns.add(rows.shape[2])
    assert min(shares) == 0.0
    assert 0.02 < np.mean(shares) < MOST_HIDDEN
    assert max(columns) <= MOST_COLUMNS
    assert len(columns) > 1


def test_the_same_seed_draws_the_same_tables():
    drawn = [draw_batch(Dice(seed, "cpu"), WORLDS["classes"], 4, 32, 4) for seed in (3, 3, 4)]
    assert torch.equal(drawn[0].rows, drawn[1].rows)
    assert drawn[0].rows.shape != drawn[2].rows.shape or not torch.equal(
        drawn[0].rows, drawn[2].rows
    )


def test_tokens_of_a_row_depend_on_no_other_row_that_is_scored():
    rows = torch.randn(2, 50, 6, generator=torch.Generator().manual_seed(0))
    masks = halves(6, torch.Generator().manual_seed(1))
    all_rows, few = tokens(rows, 40, masks), tokens(rows[:, :43], 40, masks)
    for whole, part in zip(all_rows, few, strict=True):
        torch.testing.assert_close(whole[:, :43], part)


def test_scores_do_not_depend_on_the_order_of_the_context():
    random = np.random.default_rng(0)
    context, new = random.normal(size=(60, 5)), random.normal(size=(9, 5))
    net = Network(**SMALL).eval()
    torch.nn.init.normal_(net.label)
    order = random.permutation(60)
    labels = random.integers(-1, 2, 60).astype(float)
    found = score_rows(net, context, new, labels=labels)
    np.testing.assert_allclose(
        score_rows(net, context[order], new, labels=labels[order]), found, atol=1e-4
    )
    # Labels matter: without them, the scores are others.
    assert np.abs(score_rows(net, context, new) - found).max() > 1e-3


def test_more_columns_than_the_network_has_and_long_contexts():
    random = np.random.default_rng(0)
    found = score_rows(
        Network(**SMALL).eval(), random.normal(size=(2500, 40)), random.normal(size=(3, 40)),
        with_context=True,
    )  # fmt: skip
    assert found.shape == (2503,)
    assert np.isfinite(found).all()


def test_tokens_know_distances_and_dependence():
    """Against plain loops: the first distance, and what the other columns do not tell."""
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 1))
    rows = np.hstack([x, x + 0.1 * random.normal(size=(80, 1)), random.normal(size=(80, 2))])
    rows = np.vstack([rows, [[1.0, -1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]]])
    given = tokens(torch.tensor(rows[None], dtype=torch.float32), 80, halves(4))
    z = (rows - rows[:80].mean(0)) / rows[:80].std(0, ddof=1)
    nearest = np.sqrt(((z[80:, None] - z[None, :80]) ** 2).sum(2)).min(1) / 2
    np.testing.assert_allclose(given.profile[0, 80:, 0], np.log(nearest + 1e-2), atol=1e-3)
    rest = given.cells[0, 80:, :2, 5]  # |residual| − 0.8 of the two columns that agree
    assert rest[0].min() > rest[1].max() + 1


def test_rank_loss_is_the_mean_over_pairs():
    random = np.random.default_rng(0)
    scores, truth = random.normal(size=(3, 12)), random.random((3, 12)) < 0.4
    truth[2] = False  # without pairs: it does not count
    among = random.random((3, 12)) < 0.8
    naive = []
    for s, y, a in zip(scores[:2], truth, among, strict=False):
        pairs = [
            np.log1p(np.exp(s[j] - s[i]))
            for i in range(12) for j in range(12) if a[i] and a[j] and y[i] and not y[j]
        ]  # fmt: skip
        naive.append(np.mean(pairs))
    found = rank_loss(*(torch.tensor(x) for x in (scores, truth, among)))
    assert float(found) == pytest.approx(np.mean(naive))


@pytest.mark.parametrize("makers", [0, 1])
def test_training_goes_on_where_it_stopped(tmp_path, makers):
    for steps in (2, 3):
        train(
            "classes", 60, tmp_path, total=120, device="cpu", most_steps=steps, makers=makers,
            **SMALL,
        )  # fmt: skip
        about = json.loads((tmp_path / "about.json").read_text())
        assert about["steps"] == steps
        assert about["tables"] == 8 * steps
        assert about["sha256"] == sha256((tmp_path / "net.pt").read_bytes()).hexdigest()


def test_summary_chooses_by_the_choosing_sets_alone():
    """The confirming sets would take another weight."""
    rows = []
    for group, best in (("development", 0.2), ("choose", 0.2), ("confirm", 0.5)):
        for i in range(4):
            row = {"group": group, "set": f"{group}{i}", "rate": 0.05 * (i % 3), "pilot": False}
            row |= {"net": 70.0, "n": 50}
            areas = [80.0] + [81.0 + i / 10 if w == best else 79.0 for w in BLENDS[1:]]
            rows.append({**row, "both": dict.fromkeys(SHARES, areas)})
    assert chosen_weight(rows, "0.0") == 0.2
    confirm = [line for line in summary(rows).splitlines() if line.startswith("| confirm, pool")]
    assert all("0.2 |" in line and "-1.00" in line for line in confirm)


@pytest.mark.parametrize("run", ["short", "long"])
def test_the_decision_shows_what_is_stored(run):
    with open(RESULTS.with_name(f"{run}.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    page = (ROOT / "docs" / "adr" / "0051-no-network-in-context.md").read_text(encoding="utf-8")
    asked = [
        line for line in summary(rows).splitlines() if line.startswith(("| confirm", "| pilot"))
    ]
    assert len(asked) == 8
    assert [line for line in asked if line not in page] == []
