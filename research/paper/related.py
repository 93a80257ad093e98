"""``lpfuse reproduce related``: rivals that the paper quotes and the other pages leave out.

A stack of several SVDDs with the cosine, rules for rows with missing cells, and joints of one-class
experts for many classes: codes, templates, dynamic weights.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import sklearn.datasets
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from lpfuse._arrays.operations import Host
from lpfuse.detectors import (
    SVDD,
    GMMDetector,
    KernelPCADetector,
    OneClassGP,
    fit_together,
    score_together,
)
from lpfuse.fusion import FixedRule
from lpfuse.scaling import TwoSidedMinMax
from research.common.experiment import measure_splits
from research.common.measure import Cell, measure
from research.common.options import Options
from research.common.protocol import SETTINGS, TrainingData, auc
from research.common.splits import Split
from research.common.store import Row, read_rows, write_whole
from research.common.tables import markdown, page, prose
from research.paper.learners import LEARNERS, FittedGrid, Tables
from research.paper.methods import PAPER_PRESET, Preset, best_single, fusion, lp
from research.rivals.classes import (
    Codes,
    DynamicWeights,
    LpPerClass,
    SumOfExperts,
    Templates,
    code_of,
    units_of,
)
from research.rivals.missing import RULES, AvailableRule, ColumnExperts
from research.rivals.templates import CosineSimilarity

MISSING = (0.0, 0.1, 0.3, 0.5)  # share of the cells of validation and test
FILLED = ("four learners, sum", "four learners, ℓp")
STACKS = ("cosine", "sum", "best single", "ℓp")
CLASSES = ("iris", "wine", "breast cancer", "digits")
MOST_ROWS = 600  # of a set with classes


def run(options: Options) -> str:
    """Measure what is missing, write results and page, and return the page."""
    rows = measure_splits("related", split_rows, options, missing=MISSING, stacks=STACKS)
    seeds = 1 if options.quick else options.seeds
    cells = [Cell(name, seed) for seed in range(seeds) for name in CLASSES]
    path = options.out / "classes.jsonl"
    if options.show:
        of_classes = read_rows(path)
    else:
        protocol = {"joints": list(_joints(2, 0)), "rows": MOST_ROWS, "experts": LEARNERS}
        of_classes = measure(class_rows, cells, path, protocol=protocol, jobs=options.jobs)
    text = related_page(rows, of_classes)
    write_whole(options.page_folder / "related.md", text)
    return text


# ------------------------------------------------------------------------------------------ stacks


def stack_tables(training: TrainingData) -> Tables:
    """In-sample scores of an SVDD for each width of the paper: several SVDDs, as in Lai et al."""
    grid = FittedGrid.of(training)
    chosen = [i for i, c in enumerate(grid.grid) if c.learner == "SVDD"]
    fitted = [grid.grid[i].detector for i in chosen]
    labelled = training.labelled
    return Tables(
        [f"SVDD, width {grid.grid[i].settings['sigma']:g}" for i in chosen],
        grid.normals[:, chosen],
        score_together(fitted, labelled) if len(labelled) else np.empty((0, len(chosen))),
        score_together(fitted, training.validation),
        partial(score_together, fitted),
        {},
    )


STACK = Preset("svdd stack", stack_tables, PAPER_PRESET.scaler)
SIGNED_STACK = Preset("signed svdd stack", stack_tables)  # the cosine reads where 0 lies


def split_rows(parts: Split) -> list[Row]:
    """Stacks, and rules for missing cells, on one split."""
    stacks = {
        "cosine": fusion(lambda seed: CosineSimilarity(), SIGNED_STACK),
        "sum": fusion(lambda seed: FixedRule("sum"), STACK),
        "best single": best_single(STACK),
        "ℓp": lp(preset=STACK),
    }
    rows = []
    for setting in SETTINGS:
        training = parts.training(setting)
        for name in STACKS:
            value = parts.judge(stacks[name](training))["auc"]
            rows.append({"setting": setting, "method": name, "metric": "auc", "value": value})
    return [*rows, *_missing_rows(parts)]


# ----------------------------------------------------------------------------------- missing cells


def _missing_rows(parts: Split) -> Iterable[Row]:
    """Rules over experts of single columns, and the four learners on rows filled with means."""
    for share in MISSING:
        rng = np.random.default_rng([parts.seed, round(100 * share)])
        names = ("held_out", "test", "known", "sought")
        holes = {name: _with_holes(getattr(parts, name), share, rng) for name in names}
        # Features are z-scores of the training rows: 0 is their mean.
        means: dict[str, Any] = {name: np.nan_to_num(rows) for name, rows in holes.items()}
        filled = replace(parts, **means)
        training = filled.training("pure")
        training = replace(training, cache={"fitted grid": FittedGrid.of(parts.training("pure"))})
        found = {
            "four learners, sum": fusion(lambda seed: FixedRule("sum")),
            "four learners, ℓp": lp(),
        }
        values = {name: filled.judge(method(training))["auc"] for name, method in found.items()}
        experts = ColumnExperts().fit(parts.train)
        own = experts.scores(parts.train)
        for rule in RULES:
            fitted = AvailableRule(rule).fit(own)
            scored = [fitted.score_samples(experts.scores(holes[n])) for n in ("test", "sought")]
            values[rule] = auc(*scored)
        for name, value in values.items():
            yield {
                "setting": f"{share:.0%} missing",
                "method": name,
                "metric": "auc",
                "value": value,
            }


def _with_holes(rows: Host, share: float, rng: np.random.Generator) -> Host:
    """A copy with so many cells missing at random."""
    return np.where(rng.random(rows.shape) < share, np.nan, rows)


# ----------------------------------------------------------------------------------------- classes


def class_rows(cell: Cell) -> list[Row]:
    """Accuracy of every joint on one split of a set with classes, in %."""
    X, labels = load_classes(cell.set, cell.seed)
    train, rest, y_train, y_rest = train_test_split(
        X, labels, train_size=0.5, stratify=labels, random_state=cell.seed
    )
    known, test, y_known, y_test = train_test_split(
        rest, y_rest, train_size=0.5, stratify=y_rest, random_state=cell.seed
    )
    scale = StandardScaler().fit(train)
    train, known, test = map(scale.transform, (train, known, test))
    classes = int(labels.max()) + 1
    code = code_of(classes, cell.seed)
    profiles = {
        coded: profiles_of(train, units_of(y_train, code if coded else None, classes), known, test)
        for coded in (False, True)
    }
    rows = []
    for name, (joint, coded) in _joints(classes, cell.seed).items():
        of_known, of_test = profiles[coded]
        predicted = joint.fit(of_known, y_known, known).predict(of_test, test)
        rows.append((name, 100 * float(np.mean(predicted == y_test))))
    both, y = np.concatenate([train, known]), np.concatenate([y_train, y_known])
    supervised = LogisticRegression(max_iter=2000).fit(both, y)
    rows.append(("logistic regression, supervised", 100 * float(supervised.score(test, y_test))))
    return [
        {"setting": "classes", "method": name, "metric": "accuracy", "value": value}
        for name, value in rows
    ]


def _joints(classes: int, seed: int) -> dict[str, tuple[Any, bool]]:
    """Name → joint, and whether it reads the bits of a code instead of classes."""
    code = code_of(classes, seed)
    return {
        "sum of experts": (SumOfExperts(), False),
        "ℓp weights of each class": (LpPerClass(), False),
        "decision templates": (Templates(), False),
        "dynamic weights across classes": (DynamicWeights(), False),
        "ECOC": (Codes(code), True),
        "ECOC, experts selected by genetic search": (Codes(code, select=True, seed=seed), True),
        "ECOC, decision templates of the bits": (Templates(), True),
    }


def load_classes(name: str, seed: int) -> tuple[Host, Host]:
    """Rows and classes of a set of scikit-learn, at most `MOST_ROWS` drawn with a seed."""
    X, labels = getattr(sklearn.datasets, f"load_{name.replace(' ', '_')}")(return_X_y=True)
    chosen = np.random.default_rng(seed).permutation(len(X))[:MOST_ROWS]
    return X[chosen], labels[chosen]


def profiles_of(train: Host, units: Sequence[NDArray[np.bool_]], *others: Host) -> list[Host]:
    """Signed scores of the paper's four learners for each unit: (rows, units, learners)."""
    profiles = []
    for chosen in units:
        rows = train[chosen]
        experts = [
            GMMDetector(min(3, len(rows)), score_type="mahalanobis", random_state=0),
            SVDD(),
            OneClassGP("mean"),
            KernelPCADetector(min(10, len(rows) - 1)),
        ]
        fit_together(experts, rows, thresholds=False)
        scaler = TwoSidedMinMax(5.0).fit(score_together(experts, rows))
        profiles.append([scaler.transform(score_together(experts, X)) for X in others])
    return [np.stack(part, axis=1) for part in zip(*profiles, strict=True)]


# -------------------------------------------------------------------------------------------- page


def related_page(rows: Sequence[Row], of_classes: Sequence[Row]) -> str:
    """Three tables."""
    settings = [f"{share:.0%} missing" for share in MISSING]
    rules = [*RULES, *FILLED]
    return page(
        "# Rivals of the related work",
        prose(
            """Methods that the paper quotes and that the table of [ten data sets](uci.md) does not
            hold, in the style of their papers; what those do not print is ours. Written by `lpfuse
            reproduce related` from `related.jsonl` and `classes.jsonl`."""
        ),
        "## A stack of SVDDs and the cosine",
        prose(
            f"""Lai et al. (2002) stack the outputs of several SVDDs and compare the vectors by the
            cosine. Here an SVDD for each of the paper's five widths; the cosine is to the mean
            vector of the training normals. ρ, and p of ℓp, are chosen on validation. Mean test AUC
            in %,
            {_scope(rows)}."""
        ),
        markdown(_table(rows, SETTINGS, STACKS)),
        "## Rows with missing cells",
        prose(
            f"""Juszczak and Duin (2004) combine one-class classifiers of single features, and use
            those whose feature is there. Here a normal density for each column, and a rule over the
            densities. The four learners are the paper's, on rows whose gaps are filled with means
            of the training rows. Cells of validation and test are missing at random, training rows
            are
            whole. Mean test AUC in %, {_scope(rows)}, pure."""
        ),
        markdown(_table(rows, settings, rules)),
        "## Many classes",
        prose(
            f"""The paper's four learners for each class, or for each bit of an error-correcting
            output code of twice as many bits as classes (Krawczyk et al. 2015); joints learn from
            validation rows. Accuracy in %, {_scope(of_classes)} of scikit-learn, at most
            {MOST_ROWS} rows of each. Logistic regression learns from training and validation rows,
            as a
            control."""
        ),
        markdown(_table(of_classes, CLASSES, _methods(of_classes), by="set", metric="accuracy")),
    )


def _scope(rows: Sequence[Row]) -> str:
    seeds, sets = len({row["seed"] for row in rows}), len({row["set"] for row in rows})
    splits = "one random split" if seeds == 1 else f"{seeds} random splits"
    return f"{splits} of each of {sets} sets" if sets > 1 else f"{splits} of one set"


def _methods(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def _table(
    rows: Sequence[Row],
    columns: Sequence[str],
    methods: Sequence[str],
    by: str = "setting",
    metric: str = "auc",
) -> list[list[str]]:
    """Means over sets of the means over splits; the best of a column in bold."""
    found: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["metric"] == metric:
            found[row[by], row["method"]][row["set"]].append(row["value"])
    means = {key: float(np.mean([np.mean(v) for v in of.values()])) for key, of in found.items()}
    table = [["", *columns]]
    for method in methods:
        cells = []
        for column in columns:
            told = f"{means[column, method]:.1f}"
            best = f"{max(means[column, other] for other in methods):.1f}"
            cells.append(f"**{told}**" if told == best else told)
        table.append([method, *cells])
    return table
