"""Other ways to learn the weights of the default pool, on raw scores that are measured once.

Free signs, larger balls, balls around zero, around the prior and around a multiple of it, other
losses and scales, stackers. Controls: the prior alone, the sum, labels shuffled before the weights
are learnt, and a further detector that is noise. "More labels" is a ceiling, for it learns the
weights from half of the test rows with their labels, and is judged on the other half.

    python -m research.studies.learnt_weights scores --half choose  # below build/weights
    python -m research.studies.learnt_weights learn --half choose   # rows: what every way gives
    python -m research.studies.learnt_weights page                  # from stored rows
"""

from __future__ import annotations

import json
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Collection, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm as normal_distribution
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import average_precision_score, roc_auc_score

from lpfuse import FusedDetector, LpFusion, TailScaler, TwoSidedMinMax
from lpfuse._arrays.operations import Host
from lpfuse._files import replacing
from lpfuse.ensemble.calibration import OutOfFoldScores
from lpfuse.ensemble.defaults import CERTAIN, FEW, RADII, _placements
from research.common.statistics import DRAWS
from research.common.store import write_whole
from research.common.tables import markdown, page, prose
from research.studies.running import RESULTS
from research.studies.tables.page import FEWEST
from research.studies.tables.splits import (
    HALVES,
    Mode,
    family_of,
    half_of,
    load_rows,
    source_of,
    split_table,
    table_key,
    table_names,
)

FOLDER = Path("build/weights")
ROWS = RESULTS / "learnt_weights" / "rows.jsonl"
PAGE = Path("docs/benchmarks/learnt-weights.md")
PARTS = ("names", "S", "y", "fold", "test", "sought", "prior", "fused")
# Chosen on one half of the tables, with controls: what is judged on the other half.
CHOSEN = (
    "around the prior, r = 0.5, free",
    "around 4 times the prior, r = 1, free",
    "around 4 times the prior, r by the shipped rule, free",
    "around 4 times the prior, r = 1, free, ranks",
)
CONTROLS = (
    "prior alone",
    "sum",
    "around the prior, r = 1, free",
    "around the prior, r = 1, free, shuffled labels",
)
SHIPPED = "shipped"
CONFIRMED = (SHIPPED, *CHOSEN, *CONTROLS)
PLACES: tuple[tuple[Mode, int], ...] = (
    *(("seen", k) for k in (5, 20, 100)),
    *(("unseen", k) for k in (5, 20, 100)),
    ("contaminated", 20),
)


# ------------------------------------------------------------------------------------- raw scores


class Scores(NamedTuple):
    """Raw scores of the default pool on one split of a table; high = normal."""

    names: Any  # (R,)
    S: Host  # (n, R), out of fold
    y: Host  # ±1
    fold: Any
    test: Host  # normal rows of the test
    sought: Host  # anomalies of the test
    prior: Host
    fused: Host  # of test and sought, by the fusion that ships
    weights: Host | None = None  # of the rows

    def of_test(self) -> tuple[Host, Host]:
        """Scores of the test, without gaps, and 1 where a row is normal."""
        is_normal = np.repeat([1, 0], [len(self.test), len(self.sought)])
        return np.nan_to_num(np.concatenate([self.test, self.sought])), is_normal


def asked(number: int) -> dict[Mode, list[int]]:
    """Numbers of labels by mode, of the table in this place: all of them would take too long."""
    found: dict[Mode, list[int]] = {"seen": [5, 20, 100]}
    if number % 2 == 0:
        found["unseen"] = [5, 20, 100]
    if number % 4 == 3:
        found["contaminated"] = [20]
    return found


def tables_of(half: str) -> list[str]:
    """Names of the tables of a half in an order that no name decides: any first part is a draw."""
    halves = half_of(table_names())
    return sorted((name for name in halves if halves[name] == half), key=table_key)


def measure_scores(half: str, folder: Path, limit: float) -> None:
    """Measure the tables that have no file yet; none is begun after the limit, in seconds."""
    end = time.process_time() + limit
    for number, name in enumerate(tables_of(half)):
        file = folder / half / f"{table_key(name)}.npz"
        if file.exists() or time.process_time() > end:
            continue
        found = raw_scores(*load_rows(name), asked(number))
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as out:
            np.savez_compressed(out, **found)


def raw_scores(X: Host, is_anomaly: Any, modes: dict[Mode, list[int]]) -> dict[str, Any]:
    """Arrays by ``mode|labels|part``, of the modes and numbers that the table is large enough for.

    A split whose fit is refused is left out.
    """
    found: dict[str, Any] = {}
    for mode, counts in modes.items():
        split = split_table(X, is_anomaly, 0, mode)
        for labels in split.label_counts(counts) if split else []:
            training = split.training(labels)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    fused = FusedDetector(random_state=0).fit(training.X, training.y)
                except ValueError:
                    continue
                rows = np.concatenate([split.test, split.sought])
                out, scores = fused.out_of_fold_, fused.detector_scores(rows)
                m, kept = len(split.test), out.usable
                values = (
                    np.array(fused.detector_names_), out.scores[kept], out.labels[kept],
                    out.fold[kept], scores[:m], scores[m:], fused.fusion_.prior_,
                    fused.score_samples(rows),
                )  # fmt: skip
            cell = f"{mode}|{labels}|"
            found |= {cell + part: value for part, value in zip(PARTS, values, strict=True)}
            if out.weights is not None:
                found[cell + "weights"] = out.weights[kept]
    return found


def read_scores(path: Path) -> dict[tuple[str, int], Scores]:
    """What one table's file holds, by mode and number of labels."""
    with np.load(path, allow_pickle=False) as arrays:
        cells = dict.fromkeys(key.rpartition("|")[0] for key in arrays.files)
        found = {}
        for cell in cells:
            mode, labels = cell.split("|")
            weights = f"{cell}|weights"
            found[mode, int(labels)] = Scores(
                *(arrays[f"{cell}|{part}"] for part in PARTS),
                arrays[weights] if weights in arrays.files else None,
            )
        return found


# ------------------------------------------------------------------------------------------- ways

# Scaled scores (n, R), labels ±1, weights of the rows or None, prior (R,) → weights (R,)
Way = Callable[[Host, Host, Host | None, Host], Host]


def ball(
    times: float | None, radius: float, *, signs: str = "free", p: float = 2.0, loss: Any = "hinge"
) -> Way:
    """The ball around so many times the prior, or around zero; radii are told in ‖prior‖_p."""

    def weights(S: Host, y: Host, c: Host | None, prior: Host) -> Host:
        fusion = fusion_of(prior, times, radius, signs=signs, p=p, loss=loss)
        return fusion.fit(S, y, c).weights_

    return weights


def fusion_of(
    prior: Host, times: float | None, radius: float, *, signs: str, p: float = 2.0, loss: Any
) -> LpFusion:
    """The fusion of `ball`; around zero the radius is one of its own."""
    return LpFusion(
        p=p,
        loss=loss,
        class_weight="balanced",
        fit_intercept=True,
        nonnegative=signs == "nonnegative",
        prior=None if times is None else times * prior,
        radius=radius if times is None else radius * float(np.linalg.norm(prior, p)),
    )


def balanced(y: Host, c: Host | None) -> Host:
    """Weights of rows of which either class has half."""
    c = np.ones(len(y)) if c is None else c
    return np.where(y > 0, 0.5 * c / c[y > 0].sum(), 0.5 * c / c[y < 0].sum())


def stacker(strength: float) -> Way:
    """Logistic regression, with the inverse of its penalty."""

    def weights(S: Host, y: Host, c: Host | None, prior: Host) -> Host:
        model = LogisticRegression(C=strength, class_weight="balanced", max_iter=500)
        return model.fit(S, y, c).coef_[0]

    return weights


def ridge(S: Host, y: Host, c: Host | None, prior: Host) -> Host:
    """Ridge regression of the labels; leave-one-out errors choose the penalty."""
    return RidgeCV(np.logspace(-2, 4, 13)).fit(S, y, len(y) * balanced(y, c)).coef_


def logistic_around(times: float, penalty: float) -> Way:
    """Logistic loss plus ``penalty / 2 · ‖w − times · prior‖²``."""

    def weights(S: Host, y: Host, c: Host | None, prior: Host) -> Host:
        cost = balanced(y, c)

        def loss(z: Host) -> tuple[float, Host]:
            away = z[:-1] - times * prior
            margin = y * (S @ z[:-1] + z[-1])
            slope = -cost * y * expit(-margin)
            value = cost @ np.logaddexp(0.0, -margin) + penalty / 2 * away @ away
            return float(value), np.append(S.T @ slope + penalty * away, slope.sum())

        start = np.append(times * prior, 0.0)
        return minimize(loss, start, jac=True, method="L-BFGS-B").x[:-1]

    return weights


def shuffled(way: Way) -> Way:
    """The same, with labels that belong to other rows."""

    def weights(S: Host, y: Host, c: Host | None, prior: Host) -> Host:
        return way(S, np.random.default_rng(0).permutation(y), c, prior)

    return weights


CANDIDATE = ball(4, 1.0)


def prior_alone(S: Host, y: Host, c: Host | None, prior: Host) -> Host:
    """The prior itself."""
    return prior


WAYS: dict[str, Way] = {
    "prior alone": prior_alone,
    "sum": lambda S, y, c, prior: np.ones_like(prior),
    **{
        f"around the prior, r = {r:g}, {signs}": ball(1, r, signs=signs)
        for r in (0.5, 1.0, 2.0, 4.0)
        for signs in ("nonnegative", "free")
    },
    **{f"around the prior, r = 1, free, p = {n}": ball(1, 1.0, p=p)
       for n, p in (("4/3", 4 / 3), ("4", 4.0))},
    "around the prior, r = 1, free, least squares": ball(1, 1.0, loss="least_squares"),
    **{f"around zero, r = {r:g}, {signs}": ball(None, r, signs=signs)
       for r in (1.0, 3.0) for signs in ("nonnegative", "free")},
    **{f"around zero, r = 1, free, p = {n}": ball(None, 1.0, p=p)
       for n, p in (("4/3", 4 / 3), ("4", 4.0))},
    **{f"around 4 times the prior, r = {r:g}, {signs}": ball(4, r, signs=signs)
       for r in (1.0, 2.0) for signs in ("nonnegative", "free")},
    "around 8 times the prior, r = 2, free": ball(8, 2.0),
    **{f"logistic loss around 4 times the prior, penalty {k:g}": logistic_around(4, k)
       for k in (0.01, 0.03)},
    **{f"logistic stacker, C = {k:g}": stacker(k) for k in (0.01, 0.1, 1.0)},
    "ridge stacker": ridge,
    "around the prior, r = 1, free, shuffled labels": shuffled(ball(1, 1.0)),
    "around 4 times the prior, r = 1, free, shuffled labels": shuffled(CANDIDATE),
}  # fmt: skip


def by_rule(scores: Scores, S: Host, times: float, signs: str) -> Host:
    """Weights around the prior at the radius that held-out anomalies speak for, as shipped."""
    held_out = OutOfFoldScores(
        scores.S, scores.y, scores.fold, scores.y, None, weights=scores.weights
    )
    fusion = partial(fusion_of, scores.prior, times, signs=signs, loss="hinge")
    chosen, best = 0.0, _placements(fusion(0.0), held_out, TwoSidedMinMax())
    for radius in RADII:
        found = _placements(fusion(radius), held_out, TwoSidedMinMax())
        gain = found - best
        error = float(np.std(gain, ddof=1)) / np.sqrt(gain.size) if gain.size > 1 else np.inf
        if gain.size and float(gain.mean()) > CERTAIN * error:
            chosen, best = radius, found
    return fusion(chosen).fit(S, scores.y, scores.weights).weights_ if chosen else scores.prior


def ranks(of: Host, rows: Host) -> Host:
    """Half the normal quantile of the rank of each score among those of normal rows."""
    ordered = np.sort(of, axis=0)
    sides = ("left", "right")
    counts = [
        [np.searchsorted(ordered[:, j], rows[:, j], side) for side in sides]
        for j in range(rows.shape[1])
    ]
    return normal_distribution.ppf((np.mean(counts, axis=1).T + 0.5) / (len(of) + 1)) / 2


def fused_by(scores: Scores) -> dict[str, Callable[[], Host]]:
    """What tells the fused scores of the test, by way: nothing is learnt before it is called."""
    rows, _ = scores.of_test()
    y, c, prior, normal = scores.y, scores.weights, scores.prior, scores.S[scores.y > 0]
    scaler, tail = TwoSidedMinMax().fit(normal), TailScaler().fit(normal)
    S, T = scaler.transform(scores.S), scaler.transform(rows)
    scales = {
        "tail": (tail.transform(scores.S), tail.transform(rows)),
        "ranks": (ranks(normal, scores.S), ranks(normal, rows)),
    }
    rng = np.random.default_rng(0)
    noisy = [np.column_stack([each, rng.normal(size=len(each))]) for each in (S, T)]

    def apply(way: Way, here: Host, there: Host, prior: Host = prior) -> Host:
        return there @ way(here, y, c, prior)

    def ruled(times: float) -> Host:
        return T @ by_rule(scores, S, times, "free")

    around = "around 4 times the prior, r = 1, free, "
    return (
        {SHIPPED: lambda: scores.fused}
        | {name: partial(apply, way, S, T) for name, way in WAYS.items()}
        | {
            f"around {times} times the prior, r by the shipped rule, free": partial(ruled, times)
            for times in (1, 4)
        }
        | {around + "a noise detector more": partial(apply, CANDIDATE, *noisy, np.append(prior, 0))}
        | {
            f"prior alone, {name}": partial(apply, prior_alone, *both)
            for name, both in scales.items()
        }
        | {around + name: partial(apply, CANDIDATE, *both) for name, both in scales.items()}
    )


def ceiling(scores: Scores) -> tuple[float, float]:
    """AUC of weights that half of the test rows teach, on the other half: the mean of both turns.

    With that of the shipped fusion on the same halves.
    """
    rows, is_normal = scores.of_test()
    rows = TwoSidedMinMax().fit(scores.S[scores.y > 0]).transform(rows)
    side = np.random.default_rng(0).permutation(len(rows)) % 2
    found = []
    for half in (0, 1):
        here, there = side != half, side == half
        if min(is_normal[here].sum(), is_normal[there].sum()) and not (
            is_normal[here].all() or is_normal[there].all()
        ):
            fit = stacker(1.0)(rows[here], 2.0 * is_normal[here] - 1, None, scores.prior)
            values = (rows[there] @ fit, scores.fused[there])
            found.append([100 * float(roc_auc_score(is_normal[there], v)) for v in values])
    means = np.mean(found, axis=0) if found else (np.nan, np.nan)
    return float(means[0]), float(means[1])


# ------------------------------------------------------------------------------------------- rows


def learn(half: str, folder: Path, out: Path) -> None:
    """Append a row for every table, mode and number of labels that has scores, but no row."""
    rows = read(out) if out.exists() else []
    stored = {(row["table"], row["mode"], row["labels"]) for row in rows}
    ways = None if half == "choose" else CONFIRMED
    for name in tables_of(half):
        key, file = table_key(name), folder / half / f"{table_key(name)}.npz"
        if not file.exists():
            continue
        new = {k: v for k, v in read_scores(file).items() if (key, *k) not in stored}
        source = sha256(f"{family_of(name)}|{source_of(name)}".encode()).hexdigest()[:8]
        about = {"table": key, "source": source, "half": half}
        with out.open("a", encoding="utf-8") as lines:
            lines.writelines(json.dumps(about | row) + "\n" for row in rows_of(new, ways))


def rows_of(
    found: dict[tuple[str, int], Scores], ways: Collection[str] | None = None
) -> list[dict[str, Any]]:
    """AUC and average precision of all ways, or of some, in per cent.

    With fewer labels than the shipped fusion learns from, there is no row.
    """
    rows = []
    for (mode, labels), scores in found.items():
        if (scores.y < 0).sum() < FEW:
            continue
        is_normal = scores.of_test()[1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            all_ways = fused_by(scores)
            fused = {name: all_ways[name]() for name in all_ways if ways is None or name in ways}
            more = ceiling(scores)
        auc = {k: round(100 * float(roc_auc_score(is_normal, v)), 3) for k, v in fused.items()}
        precision = {
            k: round(100 * float(average_precision_score(1 - is_normal, -v)), 3)
            for k, v in fused.items()
        }
        row = {"mode": mode, "labels": labels, "auc": auc, "precision": precision}
        if not np.isnan(more[0]):
            row["more_labels"] = [round(value, 3) for value in more]
        rows.append(row)
    return rows


def read(path: Path = ROWS) -> list[dict[str, Any]]:
    """Stored rows."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# ------------------------------------------------------------------------------------------- page


def told(gains: Sequence[float], sources: Sequence[str], seed: int = 0) -> str:
    """Mean and 95 % interval; the bootstrap draws sources, whose tables are alike.

    Examples
    --------
    >>> told([-1.0, 3.0] * 60, [f"{i}" for i in range(120)])
    '+1.00 [+0.63, +1.37]'
    """
    number = np.unique(np.asarray(sources), return_inverse=True)[1]
    sums, counts = np.bincount(number, np.asarray(gains, dtype=np.float64)), np.bincount(number)
    drawn = np.random.default_rng(seed).integers(len(sums), size=(DRAWS, len(sums)))
    low, high = np.percentile(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1), [2.5, 97.5])
    return f"{np.mean(gains):+.2f} [{low:+.2f}, {high:+.2f}]"


def table_of(rows: Sequence[dict[str, Any]], figure: str, ways: Collection[str]) -> str:
    """Gains of some ways over the fusion that ships, by mode and number of labels.

    What fewer than `FEWEST` tables were measured on is left out.
    """
    of = {place: [r for r in rows if (r["mode"], r["labels"]) == place] for place in PLACES}
    of = {place: there for place, there in of.items() if len(there) >= FEWEST}
    head = ["", *(f"{mode}, {labels} labels ({len(of[mode, labels])})" for mode, labels in of)]
    means = [f"{np.mean([row[figure][SHIPPED] for row in there]):.2f}" for there in of.values()]
    lines = [head, [f"**{SHIPPED}**", *means]]
    for name in rows[0][figure]:
        if name in ways and name != SHIPPED:
            gains = [
                ([row[figure][name] - row[figure][SHIPPED] for row in there],
                 [row["source"] for row in there])
                for there in of.values()
            ]  # fmt: skip
            lines.append([name, *(told(*each) for each in gains)])
    if figure == "auc":
        cells = []
        for there in of.values():
            have = [row for row in there if "more_labels" in row]
            gains = [row["more_labels"][0] - row["more_labels"][1] for row in have]
            cells.append(told(gains, [row["source"] for row in have]) if have else "")
        lines.append(["*more labels: half of the test teaches the weights*", *cells])
    return markdown(lines)


def page_of(rows: Sequence[dict[str, Any]]) -> str:
    """The page, from stored rows."""
    parts = [
        "# Other ways to learn the weights of the default pool",
        prose(
            f"""Do weights pay that may be negative, or that may move farther from the prior? The
            detectors of `FusedDetector()` score the tables of [all](tables.md) once, one split
            each; every way learns its weights from the same out-of-fold scores, and is judged on
            the same test rows. The figure is the gain over the weights that ship (a ball around the
            prior, weights of at least 0, a radius that held-out anomalies speak for) in points,
            with a 95 % interval over sources of tables; in brackets the number of tables. Radii
            around a prior are multiples of its norm. Scores are on the scale of `TwoSidedMinMax`
            unless another one is named. On the half "confirm" only what was chosen on the other is
            judged, with controls, and mostly with 20 labels or more. Figures of fewer than
            {FEWEST} tables are not shown. Written by
            `python -m research.studies.learnt_weights page`; decision
            [0060](../adr/0060-free-signs-do-not-pay.md)."""
        ),
    ]
    ways = {"choose": rows[0]["auc"], "confirm": CONFIRMED}
    for half in HALVES:
        mine = [row for row in rows if row["half"] == half]
        if mine:
            tables = len({row["table"] for row in mine})
            for figure, title in (("auc", "AUC"), ("precision", "average precision")):
                parts.append(f'## {title}, {tables} tables of the half "{half}"')
                parts.append(table_of(mine, figure, ways[half]))
    return page(*parts)


def main() -> None:
    """Measure scores, learn from them, or write the page."""
    parser = ArgumentParser("python -m research.studies.learnt_weights", description=__doc__)
    parser.add_argument("step", choices=("scores", "learn", "page"))
    parser.add_argument("--half", default="choose", choices=HALVES)
    parser.add_argument("--scores", type=Path, default=FOLDER, help="where raw scores are")
    parser.add_argument("--limit", type=float, default=1e9, help="seconds of the processor")
    parser.add_argument("--out", type=Path, default=ROWS)
    options = parser.parse_args()
    if options.step == "scores":
        measure_scores(options.half, options.scores, options.limit)
    elif options.step == "learn":
        learn(options.half, options.scores, options.out)
    else:
        write_whole(PAGE, page_of(read(options.out)))


if __name__ == "__main__":
    main()
