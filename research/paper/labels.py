"""``lpfuse reproduce labels``: what labelled anomalies are worth, to ours and to every rival.

Of each development set, 70 % of the normal rows (at most 1000 are drawn) are learnt from, 30 % are
for the test. Half of the anomalies may be labelled, the other half is sought; the first k of the
former are labelled, so that more labels contain fewer. Ours is ``FusedDetector()`` as it comes.
Rivals fuse what ours starts from, the out-of-fold scores of its six one-class detectors on one
scale. Controls have all of its detectors, experts included, and its labels: their sum, the one
that is picked, a stacker, and classifiers by themselves. Whole ensembles bring their own detectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse.adapters import as_detector
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.defaults import seeded_copy
from lpfuse.fusion import BestSingle, FixedRule, LogisticStacker
from lpfuse.scaling import TwoSidedMinMax
from research.common.datasets import anomaly_names
from research.common.drawing import figure_line
from research.common.experiment import measure_splits
from research.common.options import Options
from research.common.protocol import Protocol, area
from research.common.splits import Split
from research.common.store import Row, write_whole
from research.paper.labels_page import (
    HINDSIGHT,
    OUR_PICK,
    OUR_STACKER,
    OUR_SUM,
    OURS,
    Areas,
    draw,
    labels_page,
    setting_of,
)
from research.paper.ours import SUPERVISED
from research.paper.pooled import pooled
from research.rivals.fusion import ENSEMBLES, IGNORES_LABELS, RIVALS, TAUGHT, Rival, at_hand
from research.rivals.pools import heterogeneous

COUNTS: tuple[int, ...] = (0, 1, 2, 5, 10, 20, 50, 100)  # labels
QUICK_COUNTS: tuple[int, ...] = (0, 5, 20)
SPLIT = Protocol(training=0.7, validation=0.0, known=0.5, most_rows=1000)
QUICK_SPLIT = replace(SPLIT, most_rows=300)
FEWEST = 2  # labels that a classifier learns from: as many as experts of the pool
# The same detectors with the same labels, experts included, fused by others.
CONTROLS: dict[str, Callable[[], Any]] = {
    OUR_SUM: lambda: FixedRule("sum"),
    OUR_PICK: BestSingle,
    OUR_STACKER: LogisticStacker,
}


def run(options: Options) -> str:
    """Measure what is missing, write results, page and figure, and return the page.

    Parameters
    ----------
    options : Options
        Data sets, splits, jobs and where to store; without data sets, the development sets.
    """
    needs_sets = not (options.sets or options.show)
    counts = QUICK_COUNTS if options.quick else COUNTS
    rows = measure_splits(
        "labels",
        partial(rows_of, counts=counts),
        options,
        sets=_development_sets(options.data) if needs_sets else (),
        protocol=QUICK_SPLIT if options.quick else SPLIT,
        quick_splits=1,
        labels=counts,
        # Whether or not all of them are at hand.
        methods=[OURS, *CONTROLS, *SUPERVISED, *RIVALS, *ENSEMBLES],
    )
    areas = Areas(rows)
    drawn = figure_line(
        options.page_folder / "labels.png",
        lambda path: draw(areas, path),
        "Mean AUC of every method over the number of labelled anomalies",
    )
    text = labels_page(areas, drawn)
    write_whole(options.page_folder / "labels.md", text)
    return text


def _development_sets(data: Path | None) -> list[str]:
    names = anomaly_names(data_home=data)
    if not names:
        raise FileNotFoundError(
            "The learning curve is measured on development sets that cannot be downloaded: pass "
            "--data, or set LPFUSE_DATA, to a folder that holds them as anomaly/NAME.npz (arrays "
            "X and y, 1 for anomalies), or name data sets with --sets."
        )
    return names


def rows_of(parts: Split, counts: Sequence[int]) -> list[Row]:
    """The test AUC of every method, in per cent; at 0 labels alone for those that use none.

    Parameters
    ----------
    parts : Split
        Of which `train` and the first of `known` teach, `test` and `sought` are the test.
    counts : sequence of int
        Numbers of labels; those beyond the known anomalies are left out.
    """
    data = CurveData.of(parts.train, parts.known, parts.seed)
    rows = data.seen(np.concatenate([parts.test, parts.sought]))
    truth = np.repeat([1, -1], [len(parts.test), len(parts.sought)])
    found = {
        (k, method): 100 * float(area(truth, score(rows)))
        for k, method, score in learnt(data, counts)
    }
    found[0, HINDSIGHT] = max(found[0, alone(name)] for name in data.names)
    return [
        {"setting": setting_of(k), "method": method, "metric": "auc", "value": round(value, 4)}
        for (k, method), value in found.items()
    ]


class ScoredRows(NamedTuple):
    """ScoredRows as methods see them: features, scores of the pool, and these on one scale."""

    features: Host
    scores: Host
    scaled: Host


Score = Callable[[ScoredRows], Host]


@dataclass(frozen=True, eq=False)
class CurveData:
    """All that methods learn from in one split: there is no row of the test in it.

    Attributes
    ----------
    train : ndarray of shape (n, d)
        Normal rows.
    known : ndarray of shape (m, d)
        Anomalies that may be labelled, the first ones first.
    scaled : ndarray of shape (n + m, R)
        Out-of-fold scores of both, on one scale.
    names : tuple of str
        The R detectors.
    seen : callable
        What the pool makes of other rows.
    seed : int
        For methods that draw at random.
    """

    train: Host
    known: Host
    scaled: Host
    names: tuple[str, ...]
    seen: Callable[[Host], ScoredRows]
    seed: int

    @classmethod
    def of(cls, train: Host, known: Host, seed: int) -> CurveData:
        """Fit the pool once, for any number of labels: it learns from normal rows only."""
        pool = pooled(train, known, detectors=heterogeneous(len(train)), seed=seed)
        scaler = TwoSidedMinMax().fit(pool.normals)

        def seen(X: Host) -> ScoredRows:
            scores = pool.score(X)
            return ScoredRows(X, scores, scaler.transform(scores))

        scaled = scaler.transform(np.concatenate([pool.normals, pool.labelled]))
        return cls(train, known, scaled, pool.names, seen, seed)

    def rows(self, k: int) -> Host:
        """Normal rows, then k labelled anomalies."""
        return np.concatenate([self.train, self.known[:k]])

    def labels(self, k: int) -> Host | None:
        """±1 of these; None: all are normal."""
        return np.repeat([1.0, -1.0], [len(self.train), k]) if k else None


def learnt(data: CurveData, counts: Sequence[int]) -> Iterator[tuple[int, str, Score]]:
    """Number of labels, name, and score of each method; those that use no labels come once.

    Parameters
    ----------
    data : CurveData
        What they learn from.
    counts : sequence of int
        Numbers of labels; those beyond the known anomalies are left out.
    """
    for j, name in enumerate(data.names):
        yield 0, alone(name), _column(j)
    for k, name, fitted in _by_themselves(data, counts):
        yield k, name, _whole(fitted)
    for k in (k for k in counts if k <= len(data.known)):
        y = data.labels(k)
        ours = FusedDetector(random_state=data.seed).fit(data.rows(k), 1 if y is None else y)
        yield k, OURS, _whole(ours)
        for name, control in CONTROLS.items():
            if k or name != OUR_STACKER:
                yield k, name, _whole(ours.with_fusion(control()))
        for j, name in enumerate(ours.detector_names_):
            if name not in data.names:
                yield k, alone(f"expert {name}"), _expert(ours, j)
        for name, rival in at_hand().items():
            if k == 0 or name not in IGNORES_LABELS:
                yield k, name, _fused(rival, data, k)


def _by_themselves(data: CurveData, counts: Sequence[int]) -> Iterator[tuple[int, str, Any]]:
    """Whole ensembles, at every number of labels if they learn from some, and classifiers."""
    there = [k for k in counts if k <= len(data.known)]
    for name, make in ENSEMBLES.items():
        for k in there if name in TAUGHT else there[:1]:
            ensemble = make(data.seed, data.train.shape[1])
            yield k, name, ensemble.fit(data.rows(k), data.labels(k))
    for name, classifier in SUPERVISED.items():
        for k in (k for k in there if k >= FEWEST):
            expert = as_detector(seeded_copy(classifier, np.random.RandomState(data.seed)))
            yield k, name, expert.fit(data.rows(k), data.labels(k))


def alone(name: str) -> str:
    """What a detector of the pool is called by itself."""
    return f"{name} alone"


def _column(j: int) -> Score:
    return lambda rows: rows.scores[:, j]


def _expert(ours: FusedDetector, j: int) -> Score:
    return lambda rows: ours.detector_scores(rows.features)[:, j]


def _whole(detector: Any) -> Score:
    return lambda rows: detector.score_samples(rows.features)


def _fused(rival: Rival, data: CurveData, k: int) -> Score:
    fusion = rival(data.seed)
    looks = getattr(fusion, "uses_features", False)

    def features(X: Host) -> dict[str, Any]:
        return {"X": X} if looks else {}

    scaled, also = data.scaled[: len(data.train) + k], features(data.rows(k))
    if getattr(fusion, "needs_scorer", False):
        also["ask"] = lambda X: data.seen(X).scaled
    fusion.fit(scaled, data.labels(k), **also)
    return lambda rows: fusion.score_samples(rows.scaled, **features(rows.features))
