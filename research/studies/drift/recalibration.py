"""What a new scale is worth beside a new threshold, where columns have moved."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import numpy as np
from sklearn.metrics import roc_auc_score

from lpfuse import FusedDetector
from lpfuse._arrays.operations import Host
from research.common.store import Record

WIDTH, TRAINING, CALIBRATION, FRESH, SEEDS = 6, (500, 3_000), (60, 400, 3_000), 3_000, 5
FIRST = np.eye(WIDTH)[0]
MOVES: dict[str, Callable[[Host], Host]] = {
    "nothing has moved": lambda rows: rows,
    "all columns 0.6 σ higher": lambda rows: rows + 0.6,
    "one column 2 σ higher": lambda rows: rows + 2 * FIRST,
    "one column twice as wide": lambda rows: rows * (1 + FIRST),
}


def measure() -> list[Record]:
    """False alarms before and after, and AUC with the old scale and the new one."""
    return [record for seed in range(SEEDS) for n in TRAINING for record in _of_model(n, seed)]


def _of_model(n: int, seed: int) -> list[Record]:
    rng = np.random.default_rng([seed, n])
    fused = FusedDetector(random_state=seed).fit(rng.normal(size=(n, WIDTH)))
    found = []
    for move, moved in MOVES.items():
        rows = moved(rng.normal(size=(FRESH + max(CALIBRATION), WIDTH)))
        fresh, earlier = rows[:FRESH], rows[FRESH:]
        anomalies = moved(rng.normal(size=(500, WIDTH)) + np.array([0, 0, 0, 2.5, 2.5, 0]))
        for m in CALIBRATION:
            record: Record = {"move": move, "training": n, "calibration": m, "seed": seed}
            record["alarms_before"] = _alarms(fused, fresh)
            for name, scale in (("old", False), ("new", True)):
                changed = deepcopy(fused).recalibrate(earlier[:m], scale=scale)
                record[f"alarms_{name}"] = _alarms(changed, fresh)
                record[f"auc_{name}"] = _auc(changed, fresh, anomalies)
            found.append(record)
    return found


def _alarms(fused: FusedDetector, rows: Host) -> float:
    return round(float(np.mean(fused.predict(rows) < 0)), 4)


def _auc(fused: FusedDetector, rows: Host, anomalies: Host) -> float:
    truth = np.repeat([1, 0], [len(rows), len(anomalies)])
    scores = fused.score_samples(np.concatenate([rows, anomalies]))
    return round(float(roc_auc_score(truth, scores)), 4)
