"""The fit on paper: what was planted in the measurements comes back, and sums are as by hand."""

import pytest

from research.speed.scaling.growth import PowerLaw
from research.speed.scaling.plan import BLOCK_BYTES, FETCH_RATE, TASKS_A_BLOCK, Model, plan

CELLS = [(1e5, 4), (1e6, 4), (1e5, 36), (1e6, 36), (4e6, 36)]
LAW = PowerLaw.fitted(*zip(*CELLS, strict=True), [1e-8 * n * R for n, R in CELLS])
MODEL = Model(R=50, fixed=2.0, rate=1e9, passes=3.2, task_seconds=1e-3, in_memory=LAW)


def fit(n, workers, passes=3.0, fixed=0.7, rate=4e8):
    size = 8 * n * 36
    seconds = fixed + passes * size / (workers * rate)
    return {
        "R": 36, "workers": workers, "passes": passes, "score_bytes": size, "seconds": seconds,
    }  # fmt: skip


def test_the_model_recovers_what_was_planted():
    records = [fit(5e5, 1), fit(2e6, 1), fit(1e6, 2, passes=3.2), fit(2e6, 2)]
    model = Model.fitted(records, 1e-4, LAW)
    assert model.fixed == pytest.approx(0.7)
    assert model.rate == pytest.approx(4e8)
    assert (model.R, model.passes, model.task_seconds) == (36, 3.2, 1e-4)


def test_noise_cannot_make_the_fixed_part_negative():
    assert Model.fitted([fit(5e5, 1, fixed=-0.05), fit(2e6, 1)], 1e-4, LAW).fixed == 0.0


@pytest.mark.parametrize(
    ("rate", "task_seconds", "limit"),
    [(1e6, 1e-6, "work"), (1e12, 1e-6, "storage"), (1e12, 1.0, "scheduling")],
)
def test_a_pass_takes_as_long_as_its_slowest_part(rate, task_seconds, limit):
    model = Model(50, 2.0, rate, 3.2, task_seconds, LAW)
    found = plan(model, 1e6, 100, 8, 20)
    size = 1e6 * 100 * 8
    by_hand = {
        "work": size / 20 / rate,
        "storage": size / 3 / FETCH_RATE,  # three machines, one of them half empty
        "scheduling": size / BLOCK_BYTES * TASKS_A_BLOCK * task_seconds,
    }
    assert found.limit == limit
    assert found.pass_seconds == pytest.approx(by_hand[limit])
    between = 1e-8 * 60_000 * 100 + 8 * 60_000 * 100 / FETCH_RATE  # of 60,000 undecided rows
    assert found.seconds == pytest.approx(2.0 + 4 * (between + by_hand[limit]))  # 3.2 → 4 passes


def test_sizes_of_a_plan():
    found = plan(MODEL, 1e9, 100, 4, 64)
    assert found.pass_bytes == 4e11
    assert found.worker_bytes == 4e11 / 64
    assert found.back_bytes == pytest.approx(8 * 100 * 4e6)  # 4 · n^(2/3) rows
    assert found.passes == 4


def test_more_workers_never_take_longer():
    seconds = [plan(MODEL, 1e9, 100, 8, workers).seconds for workers in (8, 16, 32, 64, 256)]
    assert seconds == sorted(seconds, reverse=True)
