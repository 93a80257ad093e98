"""Which score of `OneClassGP` and of `GMMDetector` finds anomalies best: the choice of the default.

``LPFUSE_DATA=… python -m research.studies.learners.score_types`` measures what is not stored yet
and prints the table of docs/adr/0029; ``--show`` prints it from the stored rows alone.

Sets are of three kinds: those that *choose* (the development sets, and 30 tables of the choosing
half), those that *confirm* (30 tables of the other half), and the rows that PyOD generates, raw
and with a tenth of anomalies among them, as its examples fit detectors to them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lpfuse import GMMDetector, OneClassGP
from lpfuse._arrays.operations import Host
from lpfuse.detectors import KernelWidthWarning, fit_together, score_together
from research.common.measure import measure, versions
from research.common.protocol import auc
from research.common.splits import study_split
from research.common.store import Cell, Record, read_rows
from research.common.tables import markdown
from research.studies.running import RESULTS, load_set, paired, set_names, study_parser
from research.studies.tables.splits import half_of, load_rows, table_key, table_names

FILE = RESULTS / "score_types.jsonl"
TABLES = 30  # of each half
MOST_TRAIN, MOST_TEST = 800, 600  # rows; chosen by hand, so that all takes minutes
HIDDEN = 0.05  # share of the training rows that are anomalies nobody labelled, where there are some
GENERATED = "pyod"  # before the number of features of generated rows
GENERATED_SIZES = (2, 5, 10)
LEARNERS = {
    "OneClassGP": (OneClassGP, ("mean", "variance", "density", "ratio")),
    "GMMDetector": (GMMDetector, ("mahalanobis", "log_likelihood")),
}
GAMMAS = ("scale", "narrow")
COMPONENTS = (1, 3, 10)


def options() -> dict[str, OneClassGP | GMMDetector]:
    """Every score of every learner, beside the settings that it may depend on."""
    processes = {
        f"OneClassGP {score} gamma={gamma}": OneClassGP(score_type=score, gamma=gamma)
        for gamma in GAMMAS
        for score in LEARNERS["OneClassGP"][1]
    }
    mixtures = {
        f"GMMDetector {score} n_components={k}": GMMDetector(k, score_type=score, random_state=0)
        for k in COMPONENTS
        for score in LEARNERS["GMMDetector"][1]
    }
    return {**processes, **mixtures}


# --------------------------------------------------------------------------------------- the sets


def evenly(names: Sequence[str], count: int) -> list[str]:
    """So many of the names, at equal distances.

    Examples
    --------
    >>> evenly("abcdef", 3)
    ['a', 'c', 'e']
    """
    return [names[i * len(names) // count] for i in range(min(count, len(names)))]


def sets() -> dict[str, tuple[str, str]]:
    """What stored rows call a set: where it lies, and whether it chooses or confirms."""
    halves = half_of(table_names())
    found = {name: (name, "choose") for name in set_names()}
    for half in ("choose", "confirm"):
        drawn = evenly([name for name in table_names() if halves[name] == half], TABLES)
        found |= {table_key(name): (name, half) for name in drawn}
    return found | {f"{GENERATED} {d}": ("", GENERATED) for d in GENERATED_SIZES}


# ----------------------------------------------------------------------------------- measurements


def records_of(cell: Cell) -> list[Record]:
    """AUC of every option on a set, from normal rows alone and with hidden anomalies among them."""
    place, role = sets()[cell.set]
    if role == GENERATED:
        return [_record(role, "dirty", *generated(int(cell.set.split()[1]), cell.seed))]
    X, is_anomaly = load_set(place) if place == cell.set else load_rows(place)
    return records_of_rows(X, is_anomaly, cell.seed, role)


def records_of_rows(X: Host, is_anomaly: Host, seed: int, role: str) -> list[Record]:
    """The same, of rows; hidden anomalies are not sought."""
    limits = {"most_train": MOST_TRAIN, "most_test": MOST_TEST, "most_anomalies": MOST_TEST}
    parts = study_split(X, is_anomaly, seed, **limits)
    hidden = min(round(HIDDEN * len(parts.train)), len(parts.anomalies) // 2)
    records = [_record(role, "clean", parts.train, parts.test, parts.anomalies)]
    if hidden:
        dirty = np.concatenate([parts.train, parts.anomalies[:hidden]])
        records.append(_record(role, "dirty", dirty, parts.test, parts.anomalies[hidden:]))
    return records


def generated(d: int, seed: int) -> tuple[Host, Host, Host]:
    """Rows of ``pyod.utils.data.generate_data``: to learn from, and normal and other new ones."""
    from pyod.utils.data import generate_data

    train, new, _, is_anomaly = generate_data(
        n_train=300, n_test=300, n_features=d, contamination=0.1, random_state=seed
    )
    return train, new[is_anomaly == 0], new[is_anomaly == 1]


def _record(role: str, rows: str, train: Host, normal: Host, anomalies: Host) -> Record:
    made = options()
    with warnings.catch_warnings():  # widths are far from some sets, mixtures large for others
        for category in (KernelWidthWarning, ConvergenceWarning):
            warnings.simplefilter("ignore", category)
        fit_together(list(made.values()), train, thresholds=False)
    scores = score_together(list(made.values()), np.concatenate([normal, anomalies]))
    areas = [round(auc(*np.split(column, [len(normal)])), 2) for column in scores.T]
    found = dict(zip(made, areas, strict=True))
    return {"role": role, "rows": rows, "n": len(train), "d": train.shape[1], "auc": found}


def measure_missing(path: Path, seeds: int, jobs: int) -> None:
    """Measure the cells that are not stored yet."""
    known = versions()
    opening = {"python": known.pop("python"), "versions": known}
    cells = [Cell(name, seed) for seed in range(seeds) for name in sets()]
    measure(records_of, cells, path, protocol=None, opening=opening, jobs=jobs)


# -------------------------------------------------------------------------------------- the table


def report(rows: Sequence[Record]) -> str:
    """Mean AUC of each score, and how it compares, set by set, with the paper's."""
    head = ["learner and score", "sets", "paper's score", "this score", "won : lost", "Wilcoxon"]
    parts = []
    places = [
        (role, kind) for role in ("choose", "confirm", GENERATED) for kind in ("clean", "dirty")
    ]
    for role, kind in places:
        here = [row for row in rows if (row["role"], row["rows"]) == (role, kind)]
        if here:
            body = [line for learner in LEARNERS for line in _lines(here, learner)]
            parts.append(f"{role}, {kind} rows\n\n{markdown([head, *body], numbers=False)}")
    return "\n\n".join(parts)


def _lines(rows: Sequence[Record], learner: str) -> list[list[str]]:
    settings = (
        [f"gamma={gamma}" for gamma in GAMMAS]
        if learner == "OneClassGP"
        else [f"n_components={k}" for k in COMPONENTS]
    )
    papers, *others = LEARNERS[learner][1]
    lines = []
    for setting in settings:
        base = means(rows, f"{learner} {papers} {setting}")
        for score in others:
            ours = means(rows, f"{learner} {score} {setting}")
            found = paired(ours, base, decimals=6)
            name = f"{learner} {score}, {setting}"
            lines.append(
                [name, str(len(ours)), found.theirs, found.ours, found.won_lost, found.p_value]
            )
    return lines


def means(rows: Sequence[Record], option: str) -> dict[str, float]:
    """Set → AUC of an option, mean over seeds."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row["set"], []).append(row["auc"][option])
    return {name: float(np.mean(values)) for name, values in found.items()}


def main() -> None:
    parser = study_parser("research.studies.learners.score_types", __doc__, seeds=2, out=FILE)
    chosen = parser.parse_args()
    if not chosen.show:
        measure_missing(chosen.out, chosen.seeds, chosen.jobs)
    print(report(read_rows(chosen.out)))


if __name__ == "__main__":
    main()
