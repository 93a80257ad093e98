"""Norms of weights over families of learners: does a group ball beat the ℓp ball?

A pool has learners (`LEARNERS`) on several views of the columns (`views`): its families are the
views, or the learners. Weights are learnt from out-of-fold scores with 0 to 100 labelled anomalies,
under every norm of `NORMS`. Controls: the sum of the same pool, which is also the prior alone; the
groups with shuffled labels; the ℓp ball; a ball around the sum. `local_scores` has weights of their
own in regions, around those of all rows; its controls are random parts of the rows, and one region.
Stored rows also hold an elastic ball (``l1_ratio=…``), which was measured once and left (ADR 0053).

    python -m research.studies.norms --tables --half both --jobs 14 --limit 165 --out FILE
    python -m research.studies.norms --show FILE [FILE …]
"""

from __future__ import annotations

import json
import time
import warnings
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
from sklearn.preprocessing import QuantileTransformer

from lpfuse import LpFusion, TwoSidedMinMax
from research.common.measure import versions
from research.common.store import json_line
from research.common.tables import markdown
from research.studies.tables.splits import half_of, load_rows, split_table, table_key, table_names

Array = np.ndarray
LABELS = (0, 5, 20, 100)
FOLDS = 3
MOST_ROWS, MOST_TEST = 600, 400  # chosen by hand, so that a table takes seconds
LEARNERS = ("forest", "lof", "mixture", "neighbours")
REGIONS, RADIUS = (1, 3, 6), 0.5  # of local weights
GROUPINGS = ("views", "learners", "shuffled")
GROUPED = {
    f"p={p:.3g} q={q:.3g} {grouping}": {"p": p, "q": q, "groups": grouping}
    for grouping in GROUPINGS
    for p, q in ((1.0, 2.0), (1.0, np.inf), (2.0, 1.0), (4 / 3, 4.0))
}
PLAIN = {f"p={p:.3g}": {"p": p} for p in (1.0, 4 / 3, 2.0, 4.0)}
NORMS: dict[str, dict[str, Any]] = {
    **PLAIN,
    **GROUPED,
    **{
        f"free r={r:g} {name}": {**norm, "radius": r, "nonnegative": False}
        for r in (1.0, 3.0)
        for name, norm in (PLAIN | GROUPED).items()
        if norm.get("p") != 4.0 and norm.get("q") not in (4.0, np.inf)
    },
    **{
        f"prior {name}": {**norm, "around": 0.3, "nonnegative": False}
        for name, norm in (PLAIN | GROUPED).items()
        if name == "p=2" or norm.get("q") == 2.0
    },
}


def views(X: Array, train: Array, seed: int, useless: int) -> list[Array]:
    """Columns as they are, their ranks, their principal components, and two random halves.

    Of useless views each column is shuffled: they tell nothing of a row.
    """
    rng = np.random.default_rng([seed, 7])
    order = rng.permutation(X.shape[1])
    cut = max(1, X.shape[1] // 2)
    ranks = QuantileTransformer(n_quantiles=min(100, len(train)), random_state=0).fit(train)
    components = PCA(whiten=True, random_state=0, n_components=min(10, *train.shape)).fit(train)
    halves = order[:cut], order[cut:] if X.shape[1] > 1 else order
    whole = [X, ranks.transform(X), components.transform(X), X[:, halves[0]], X[:, halves[1]]]
    return whole + [rng.permuted(X, axis=0) for _ in range(useless)]


def scores_of(train: Array, rows: Array, seed: int) -> Array:
    """One column a learner, high = normal."""
    k = max(1, min(10, len(train) // 2))
    mixture = GaussianMixture(3, covariance_type="diag", reg_covar=1e-3, random_state=seed)
    near = NearestNeighbors(n_neighbors=k).fit(train)
    found = (
        IsolationForest(n_estimators=30, random_state=seed).fit(train).score_samples(rows),
        LocalOutlierFactor(n_neighbors=k, novelty=True).fit(train).score_samples(rows),
        mixture.fit(train).score_samples(rows),
        -np.log(1e-3 + near.kneighbors(rows)[0].mean(axis=1)),
    )
    return np.nan_to_num(np.column_stack(found), nan=0.0, posinf=1e6, neginf=-1e6)


def pool_scores(
    train: Array, known: Array, test: Array, seed: int, useless: int
) -> tuple[Array, Array, Array]:
    """Scaled scores of the pool: out of fold for training rows and labelled anomalies."""
    everything = np.concatenate([train, known, test])
    n, m = len(train), len(known)
    folds = np.random.default_rng(seed).permutation(n) % FOLDS, np.arange(m) % FOLDS
    columns = []
    for view in views(everything, train, seed, useless):
        part, whole = view[: n + m], scores_of(view[:n], view[n + m :], seed)
        fold, out = np.concatenate(folds), np.empty((n + m, len(LEARNERS)))
        for k in range(FOLDS):
            if (fold == k).any():
                out[fold == k] = scores_of(part[:n][folds[0] != k], part[fold == k], seed)
        columns.append(np.concatenate([out, whole]))
    S = np.column_stack(columns)
    S = TwoSidedMinMax().fit(S[:n]).transform(S)
    return S[:n], S[n : n + m], S[n + m :]


def groups_of(grouping: str, R: int, seed: int) -> Array:
    """The family of each column; shuffled ones have the sizes of the views."""
    view, learner = np.divmod(np.arange(R), len(LEARNERS))
    if grouping == "shuffled":
        return np.random.default_rng([seed, 11]).permutation(view)
    return view if grouping == "views" else learner


def fusion_of(norm: dict[str, Any], R: int, seed: int) -> LpFusion:
    """The default problem of ADR 0006 under this norm."""
    norm = dict(norm)
    around = norm.pop("around", None)
    if "groups" in norm:
        norm["groups"] = groups_of(norm["groups"], R, seed)
    if around is not None:
        norm |= {"prior": np.full(R, R**-0.25), "radius": around}
    norm = {"nonnegative": True, "imaginary_anomalies": 3.0} | norm
    return LpFusion(**({"fit_intercept": True, "class_weight": "balanced"} | norm))


def local_scores(
    S: Array, y: Array, test: Array, regions: tuple[Array, Array], around: LpFusion
) -> Array:
    """Scores of the test under weights of its region, around those of a fusion.

    A region without anomalies, or without normal rows, keeps the weights of all.
    """
    found = test @ around.weights_
    for k in set(regions[0]):
        mine, there = regions[0] == k, regions[1] == k
        if (y[mine] > 0).any() and (y[mine] < 0).any():
            fusion = LpFusion(
                p=2.0, prior=around.weights_, radius=RADIUS, fit_intercept=True,
                class_weight="balanced", imaginary_anomalies=3.0,
            ).fit(S[mine], y[mine])  # fmt: skip
            found[there] = test[there] @ fusion.weights_
    return found


def rows_of(
    name: str, half: str, X: Array, is_anomaly: Array, useless: int, seed: int
) -> list[dict[str, Any]]:
    """AUC in per cent of every norm and control, for each number of labels there are."""
    parts = split_table(X, is_anomaly, seed, "seen")
    if parts is None:
        return []
    train, known = parts.train[:MOST_ROWS], parts.known[: max(LABELS)]
    test = np.concatenate([parts.test[:MOST_TEST], parts.sought[:MOST_TEST]])
    train, known, test = (np.nan_to_num(each) for each in (train, known, test))  # gaps: the mean
    truth = np.repeat([1, 0], [min(len(parts.test), MOST_TEST), min(len(parts.sought), MOST_TEST)])
    S, of_known, of_test = pool_scores(train, known, test, seed, useless)
    rng = np.random.default_rng([seed, 13])
    clusters = {k: KMeans(k, n_init=2, random_state=seed).fit(train) for k in REGIONS}
    cells = {
        f"{k} regions": (np.concatenate([c.labels_, c.predict(known)]), c.predict(test))
        for k, c in clusters.items()
    }
    cells["3 random parts"] = tuple(rng.permutation(each) for each in cells["3 regions"])
    found = []
    for labels in LABELS:
        if labels > len(known):
            continue
        T = np.concatenate([S, of_known[:labels]])
        y = np.repeat([1, -1], [len(S), labels])
        aucs = {"sum": of_test.sum(axis=1)}
        gap = 0.0
        for title, norm in NORMS.items():
            fusion = fusion_of(norm, T.shape[1], seed).fit(T, y)
            gap = max(gap, fusion.certificate_.relative_gap)
            aucs[title] = fusion.score_samples(of_test)
            if title == "p=4":
                for kind, (here, there) in cells.items():
                    aucs[kind] = local_scores(T, y, of_test, (here[: len(T)], there), fusion)
        values = {k: round(100 * float(roc_auc_score(truth, v)), 3) for k, v in aucs.items()}
        found.append(
            {
                "set": name,
                "half": half,
                "seed": seed,
                "labels": labels,
                "useless": useless,
                "gap": gap,
                "auc": values,
            }
        )
    return found


def development_sets() -> Iterator[tuple[str, str, Array, Array]]:
    """The 20 anomaly sets and the 10 of UCI."""
    from research.studies.running import load_set, set_names

    for name in set_names():
        yield name, "development", *load_set(name)


def tables(half: str) -> Iterator[tuple[str, str, Array, Array]]:
    """Tables of one half or both, which alternate, in an order that no name decides."""
    halves = half_of(table_names())
    of_half = [
        [n for n in sorted(halves, key=table_key) if halves[n] == h] for h in ("choose", "confirm")
    ]
    order = [n for pair in zip(*of_half, strict=False) for n in pair]
    order += [n for n in halves if n not in order]
    for name in order:
        if half in (halves[name], "both"):
            yield table_key(name), halves[name], *load_rows(name)


def measure(
    sets: Iterable[Any], seeds: int, jobs: int, limit: float, out: Path | None
) -> list[dict[str, Any]]:
    """Rows of all sets, written as they come; no set is begun after the limit, in seconds."""
    end = time.monotonic() + limit
    if out is not None and not out.exists():
        out.write_bytes(json_line({"versions": versions()}))

    def cells() -> Iterator[Any]:
        for seed in range(seeds):
            for each in sets:
                if time.monotonic() < end:
                    yield joblib.delayed(_quiet)(*each, seed)

    rows: list[dict[str, Any]] = []
    parallel = joblib.Parallel(jobs, pre_dispatch="n_jobs", return_as="generator_unordered")
    for part in parallel(cells()):
        rows += part
        if out is not None:
            with out.open("ab") as file:
                file.writelines(map(json_line, part))
    return rows


@contextmanager
def quietly() -> Iterator[None]:
    """Without warnings of odd data."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _quiet(*cell: Any) -> list[dict[str, Any]]:
    with quietly():
        try:
            return rows_of(*cell)
        except (ValueError, np.linalg.LinAlgError) as error:
            return [{"set": cell[0], "half": cell[1], "seed": cell[-1], "failed": str(error)[:200]}]


# ------------------------------------------------------------------------------------------ tables


def gains(rows: Sequence[dict[str, Any]], half: str, labels: int, over: str) -> dict[str, Array]:
    """AUC of every norm less that of another, set by set; seeds are averaged."""
    by_set: Any = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.get("labels") == labels and row["half"] == half:
            for name, value in row["auc"].items():
                by_set[name][row["set"]].append(value - row["auc"][over])
    return {name: np.array([np.mean(v) for v in sets.values()]) for name, sets in by_set.items()}


def told(values: Array) -> str:
    """Mean and standard error."""
    return f"{values.mean():+.2f} ± {values.std() / max(1, len(values) - 1) ** 0.5:.2f}"


KINDS = {
    "ℓp": lambda name: name.split()[-1].startswith("p=") and "q=" not in name,
    "elastic": lambda name: "l1_ratio" in name,
    "groups": lambda name: name.endswith(("views", "learners")),
    "regions": lambda name: name in ("3 regions", "6 regions"),
}
CONTROLS = {"views": "shuffled", "learners": "shuffled", "3 regions": "1 regions"}


def control_of(name: str) -> str:
    """What the form is compared with: shuffled groups, all rows as one region, else the sum."""
    for end, instead in (*CONTROLS.items(), ("6 regions", "1 regions")):
        if name.endswith(end):
            return name.removesuffix(end) + instead
    return "sum"


def chosen_on(rows: Sequence[dict[str, Any]], half: str, labels: Any) -> dict[str, str]:
    """Of each kind the form with the best mean gain over the sum."""
    found = gains(rows, half, labels, "sum")
    return {
        kind: max(filter(is_one, found), key=lambda name: found[name].mean())
        for kind, is_one in KINDS.items()
        if any(map(is_one, found))
    }


def chosen_page(rows: Sequence[dict[str, Any]]) -> str:
    """Of each kind the form with the best mean on the choosing half, judged on the confirming."""
    table = [("labels", "kind", "chosen", "over the sum", "over the best ℓp", "over its control")]
    for labels in LABELS:
        over_sum, of_kind = gains(rows, "confirm", labels, "sum"), chosen_on(rows, "choose", labels)
        for kind, name in of_kind.items():
            lp, control = of_kind["ℓp"], control_of(name)
            others = (told(over_sum[name] - over_sum[other]) for other in (lp, control))
            table.append((str(labels), kind, name, told(over_sum[name]), *others))
    return markdown(table)


def page_of(rows: Sequence[dict[str, Any]]) -> str:
    """Mean gains over the sum for each half and number of labels; the best on the choosing half."""
    rows = [row for row in rows if "auc" in row]
    parts = []
    halves = [h for h in ("choose", "confirm", "development") if any(r["half"] == h for r in rows)]
    for labels in LABELS:
        found = {h: gains(rows, h, labels, "sum") for h in halves}
        head = ("norm", *(f"{h} ({len(each['sum'])})" for h, each in found.items()))
        first = found[halves[0]]
        names = sorted(first, key=lambda name: -first[name].mean())
        lines = [(name, *(told(found[h][name]) for h in halves)) for name in names]
        parts += [f"## {labels} labels", markdown([head, *lines])]
    if {"choose", "confirm"} <= set(halves):
        parts += ["## Chosen on one half, judged on the other", chosen_page(rows)]
    return "\n\n".join(parts)


def main() -> None:
    """Measure, or show stored rows."""
    parser = ArgumentParser("python -m research.studies.norms", description=__doc__)
    parser.add_argument(
        "--tables", action="store_true", help="the tables, not the development sets"
    )
    parser.add_argument("--half", default="both", choices=("choose", "confirm", "both"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--useless", type=int, default=0, help="views that tell nothing")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1e9, help="seconds")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path, nargs="+")
    options = parser.parse_args()
    if options.show:
        lines = [line for path in options.show for line in path.read_text().splitlines()]
        print(page_of([json.loads(line) for line in lines]))
        return
    chosen = tables(options.half) if options.tables else development_sets()
    sets = [(*each, options.useless) for each in chosen]
    rows = measure(sets, options.seeds, options.jobs, options.limit, options.out)
    print(page_of(rows))


if __name__ == "__main__":
    main()
