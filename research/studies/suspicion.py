"""What robust detectors shall weigh where anomalies may hide among the rows: docs/adr/0049.

- ``python -m research.studies.suspicion measure --jobs 2`` measures raw scores of the one-class
  members, a file a set below a folder that git ignores. A set whose file is there is not measured
  again, so that a run goes on where it stopped.
- ``… weights`` learns the parts of the weights that the robust members take, from training rows of
  which 0, 1, 5 or 10 % are anomalies, and prints AUC beside the pool without robust members.
- ``… heap`` prints AUC and average precision of the fitted rows themselves, of which the strangest
  are scored by fits without all of them.

The parts maximise half the mean AUC on the development sets plus half that on every second table of
the choosing half, by coordinate ascent on the scale "tail"; the tables that confirm have no say.
The six other members keep the proportions of the prior without labels.

Those that ship, the rows "suspected" of ``prior.json``, are parts learnt so at 5 and 10 % and, for
the default share, at 0, 5 and 10 % together, rounded; at 1 % robust members got less than was
learnt. They were learnt from every second cell of the choosing half, in the order in which a
parallel run had stored them, so that they differ from those learnt here: the optimum is flat.
``… weights`` prints both.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score
from sklearn.preprocessing import StandardScaler

from lpfuse import TailScaler
from lpfuse._arrays.operations import Host
from lpfuse._files import replacing
from lpfuse.ensemble.defaults import (
    ROBUST,
    SUSPECTED,
    default_detectors,
    learnt_prior,
    make_members,
    prior_of_tables,
    seed_members,
)
from lpfuse.ensemble.pool import fit_members, group_members, leave_one_out_scores, score_members
from research.common.measure import finished
from research.common.protocol import auc
from research.common.tables import markdown
from research.studies.answers.protocols import RATES
from research.studies.answers.splits import COLLECTIONS, CollectionName, dirty_split
from research.studies.tables.prior_scores import choosing_tables
from research.studies.tables.splits import half_of, table_names

FOLDER = Path("build/suspicion")
SEEDS: dict[CollectionName, int] = {"anomaly": 2, "tables": 1}  # splits of each set
MOST_TEST = 200  # normal rows, and anomalies, that are scored
HEAP_TURNS = 3  # of the tables, every third is also scored as a heap
MOST_HEAP, FEWEST_HEAP = 3000, 60  # rows of a heap
RESCORED = (0.0, 0.1, 0.2, 0.35, 0.5)  # shares of a heap
LARGEST = 1e30  # stored scores have single precision
GROUPS = ("development", "choose", "confirm")
LEARNT_AT = ((0.01,), (0.0, 0.05, 0.1), (0.05,), (0.1,))  # assumed shares that parts are learnt for
REST = "others"  # the part of the members that are not robust
START = {REST: 0.7, "covariance": 0.08, "lof": 0.08, "knn 5": 0.08, "knn half": 0.06}
FACTORS = (0.0, 0.5, 0.75, 1.33, 2.0)  # that a part is tried with
LEAST = 0.02  # what a part that is zero grows from
GAIN, ROUND_GAIN, ROUNDS = 0.002, 0.01, 4  # AUC that a step and a round must gain, in per cent

Scores = dict[str, Host]  # by name of the member; high = normal


# ----------------------------------------------------------------------------------- measurements


def pool_scores(rows: Host, new: Host, seed: int, *, robust: bool = True) -> tuple[Scores, Scores]:
    """Leave-one-out scores of the rows that the one-class members learn from, and of new rows."""
    entries = default_detectors(len(rows), 0, suspects=robust)
    members = seed_members(make_members(entries, rows), np.random.RandomState(seed))
    of_rows: Scores = {}
    of_new: Scores = {}
    for group in group_members(members):
        fitted = fit_members([members[i] for i in group], rows)
        left_out = leave_one_out_scores(fitted, rows).T
        of_rows |= {member.name: own for member, own in zip(fitted, left_out, strict=True)}
        found = score_members(fitted, new).T
        of_new |= {member.name: column for member, column in zip(fitted, found, strict=True)}
    return of_rows, of_new


def strangeness(scores: Mapping[str, Host]) -> Host:
    """How strange the robust members call each row, as `lpfuse.ensemble.learning` has it."""
    robust = np.column_stack([scores[name] for name in ROBUST])
    low, middle, high = np.quantile(robust, [0.25, 0.5, 0.75], axis=0)
    return np.arcsinh((middle - robust) / np.where(high > low, high - low, 1.0)).mean(axis=1)


def hidden_scores(X: Host, is_anomaly: NDArray[np.bool_], seeds: int) -> Iterator[tuple[str, Host]]:
    """Scores of training rows that hold hidden anomalies, and of both kinds of test rows."""
    for seed in range(seeds):
        for rate in RATES:
            split = dirty_split(X, is_anomaly, seed, rate)
            test, sought = split.test[:MOST_TEST], split.sought[:MOST_TEST]
            train, new = pool_scores(split.rows, np.concatenate([test, sought]), seed)
            for name in train:
                normal, anomalous = np.split(new[name], [len(test)])
                parts = {"train": train[name], "test": normal, "sought": anomalous}
                yield from ((f"{rate}|{seed}|{part}|{name}", of) for part, of in parts.items())


def heap_scores(X: Host, is_anomaly: NDArray[np.bool_]) -> Iterator[tuple[str, Host]]:
    """Scores of rows by members fitted to all of them, and to all but the strangest."""
    kept = np.random.default_rng(0).permutation(len(X))[:MOST_HEAP]
    X, is_anomaly = StandardScaler().fit_transform(X[kept]), is_anomaly[kept]
    if not 0 < is_anomaly.mean() < 0.5 or len(X) < FEWEST_HEAP:
        return
    scores, _ = pool_scores(X, X[:1], 0)
    strange = strangeness(scores)
    yield "heap|is_anomaly", is_anomaly.astype(np.float64)
    yield from ((f"heap|0.0|{name}", of) for name, of in scores.items())
    for share in RESCORED[1:]:
        suspects = strange > np.quantile(strange, 1 - share)
        if suspects.any():
            _, new = pool_scores(X[~suspects], X[suspects], 0, robust=False)
            for name, of in new.items():
                scores[name] = scores[name].copy()
                scores[name][suspects] = of
                yield f"heap|{share}|{name}", scores[name]


def measure_scores(folder: Path = FOLDER, *, most: int | None = None, jobs: int = 1) -> None:
    """Measure the sets that have no file yet; of `most`, so many of either collection."""
    missing = [place for place in _places(most) if not _file(folder, *place).exists()]
    for _ in finished(partial(_measure_set, folder), missing, jobs):  # type: ignore[arg-type]
        pass  # an error comes out here


def _places(most: int | None = None) -> list[tuple[CollectionName, str]]:
    return [
        (collection, name) for collection in SEEDS for name in COLLECTIONS[collection].some(most)
    ]


def _file(folder: Path, collection: CollectionName, name: str) -> Path:
    return folder / collection / f"{COLLECTIONS[collection].key(name)}.npz"


def _measure_set(folder: Path, place: tuple[CollectionName, str]) -> list[Any]:
    collection, name = place
    rows = COLLECTIONS[collection].load(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scores without spread: the figures tell
        arrays = dict(hidden_scores(*rows, SEEDS[collection]))
        if collection == "anomaly" or COLLECTIONS[collection].some().index(name) % HEAP_TURNS == 0:
            arrays |= heap_scores(*rows)
    path = _file(folder, collection, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        stored = {
            key: np.clip(of, -LARGEST, LARGEST).astype(np.float32) for key, of in arrays.items()
        }
        np.savez_compressed(file, **stored)  # type: ignore[arg-type]
    return []


# ----------------------------------------------------------------------------------------- weights


class Cell(NamedTuple):
    """Scaled scores of one set with a share of hidden anomalies; a column each of `parts`."""

    group: str
    counts: bool  # whether parts are learnt from it
    rate: float
    test: Scores
    sought: Scores

    def auc(self, parts: Mapping[str, float]) -> float:
        """AUC of the sum of scores, in per cent."""
        return auc(*(_weighted(scores, parts) for scores in (self.test, self.sought)))


class Heap(NamedTuple):
    """Scaled scores of the rows of a set, by the share that is rescored."""

    group: str
    is_anomaly: NDArray[np.bool_]
    scores: dict[float, Scores]


def _weighted(scores: Scores, weights: Mapping[str, float]) -> Host:
    return sum((w * scores[name] for name, w in weights.items()), start=np.zeros(1))


def with_rest(scores: Scores) -> Scores:
    """Replace the members that are not robust by their sum, weighted by the prior."""
    prior = learnt_prior()["weights"][0]["weights"]  # of no labels, on this scale
    robust = {name: scores[name] for name in ROBUST}
    return {REST: _weighted(scores, prior), **robust}


def scaled(scores: Scores, reference: Scores) -> Scores:
    """Put scores on the scale "tail" of the training rows'."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scores without spread
        return {
            name: TailScaler().fit(reference[name][:, None]).transform(of[:, None])[:, 0]
            for name, of in scores.items()
        }


def read_scores(folder: Path = FOLDER) -> tuple[list[Cell], list[Heap]]:
    """What is stored, scaled."""
    cells: list[Cell] = []
    heaps: list[Heap] = []
    halves, learning = half_of(table_names()), choosing_tables()[::2]
    for collection, name in _places():
        path = _file(folder, collection, name)
        if not path.exists():
            continue
        group = GROUPS[0] if collection == "anomaly" else halves[name]
        counts = collection == "anomaly" or name in learning
        with np.load(path, allow_pickle=False) as arrays:
            stored = {key: arrays[key].astype(np.float64) for key in arrays.files}
        for rate in RATES:
            for seed in range(SEEDS[collection]):
                train, *of = (
                    _under(stored, f"{rate}|{seed}|{part}|") for part in ("train", "test", "sought")
                )
                test, sought = (with_rest(scaled(scores, train)) for scores in of)
                cells.append(Cell(group, counts, rate, test, sought))
        if "heap|is_anomaly" in stored:
            base = _under(stored, "heap|0.0|")
            rescored = {
                share: scaled(base | _under(stored, f"heap|{share}|"), base) for share in RESCORED
            }
            heaps.append(Heap(group, stored["heap|is_anomaly"] > 0, rescored))
    if not cells:
        raise FileNotFoundError(
            f"There are no scores in {folder}: measure them first "
            "(`python -m research.studies.suspicion measure`)."
        )
    return cells, heaps


def _under(stored: Mapping[str, Host], start: str) -> Scores:
    return {key.removeprefix(start): of for key, of in stored.items() if key.startswith(start)}


def learn_parts(cells: Sequence[Cell], rates: Sequence[float]) -> dict[str, float]:
    """Parts, with sum 1, that maximise the mean AUC for these rates; groups count alike.

    A step multiplies one part by a factor, and is kept where the mean gains by it.
    """
    asked = [cell for cell in cells if cell.counts and cell.rate in rates]
    groups = [[cell for cell in asked if cell.group == group] for group in GROUPS]

    def objective(parts: Mapping[str, float]) -> float:
        return float(np.mean([np.mean([c.auc(parts) for c in of]) for of in groups if of]))

    parts = dict(START)
    best = objective(parts)
    for _ in range(ROUNDS):
        before = best
        for name in parts:
            for factor in FACTORS:
                tried = {**parts, name: factor * max(parts[name], LEAST * (factor > 1))}
                found = objective(tried) if any(tried.values()) else -np.inf
                if found > best + GAIN:
                    best, parts = found, tried
        if best < before + ROUND_GAIN:
            break
    total = sum(parts.values())
    return {name: part / total for name, part in parts.items()}


def weights_table(cells: Sequence[Cell]) -> str:
    """Parts by assumed share, with AUC by the share that is hidden, as Markdown."""
    listed: dict[str, Mapping[str, float]] = {"no robust members": {REST: 1.0}}
    for rates in LEARNT_AT:
        title = f"learnt at {', '.join(f'{rate:.0%}' for rate in rates)}"
        listed[title] = learn_parts(cells, rates)
    for row in learnt_prior()["suspected"]:
        rest = 1 - sum(row["weights"].values())
        listed[f"shipped for {row['share']:.0%}"] = {REST: rest, **row["weights"]}
    told = " / ".join(f"{100 * rate:.0f}" for rate in RATES)
    head = ["", *START, *(f"{group}, {told} % hidden" for group in GROUPS)]
    rows = []
    for title, parts in listed.items():
        weights = [f"{parts.get(name, 0.0):.3f}" for name in START]
        rows.append([title, *weights, *(_areas(cells, group, parts) for group in GROUPS)])
    return markdown([head, *rows])


def _areas(cells: Sequence[Cell], group: str, parts: Mapping[str, float]) -> str:
    found = [[c.auc(parts) for c in cells if (c.group, c.rate) == (group, rate)] for rate in RATES]
    return " / ".join(f"{np.mean(of):.2f}" if of else "–" for of in found)


def heap_table(heaps: Sequence[Heap]) -> str:
    """AUC and average precision of fitted rows by the share that is rescored, as Markdown."""
    names = list(learnt_prior()["weights"][0]["weights"])
    alone, joined = (prior_of_tables(n, 0, SUSPECTED) for n in (names, [*names, *ROBUST]))
    assert alone is not None
    assert joined is not None
    sides = {"development sets": True, "tables": False}
    rows = [["", *(f"{side}, {what}" for side in sides for what in ("AUC", "precision"))]]
    for title, weights in (("no robust members", alone), ("default pool", joined)):
        for share in RESCORED:
            cells = []
            for is_development in sides.values():
                here = [h for h in heaps if (h.group == GROUPS[0]) == is_development]
                pairs = [(h.is_anomaly, -_weighted(h.scores[share], weights)) for h in here]
                areas = [auc(-s[~y], -s[y]) for y, s in pairs]
                precisions = [100 * average_precision_score(y, s) for y, s in pairs]
                cells += [f"{np.mean(of):.1f}" if of else "–" for of in (areas, precisions)]
            rows.append([f"{title}, {share:.0%} rescored", *cells])
    return markdown(rows)


def main() -> None:
    parser = ArgumentParser("python -m research.studies.suspicion", description=__doc__)
    parser.add_argument("command", choices=["measure", "weights", "heap"])
    parser.add_argument("--jobs", type=int, default=1, help="sets measured at a time")
    parser.add_argument("--most", type=int, help="sets of each collection, drawn evenly")
    parser.add_argument("--scores", type=Path, default=FOLDER, help="where scores are stored")
    options = parser.parse_args()
    if options.command == "measure":
        measure_scores(options.scores, most=options.most, jobs=options.jobs)
        return
    cells, heaps = read_scores(options.scores)
    print(weights_table(cells) if options.command == "weights" else heap_table(heaps))


if __name__ == "__main__":
    main()
