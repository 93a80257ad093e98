"""Small data, thin grids, made-up results and a reader of tables, for tests of experiments."""

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, IsolationForest
from sklearn.metrics import roc_auc_score

from research.common.protocol import Protocol
from research.common.splits import split
from research.paper import ours

THIN = Protocol(widths=(0.5, 2.0), component_step=20, rhos=(1.0, 10.0), ps=(32 / 31, 2.0, 100.0))


def rows_and_labels(normals=60, anomalies=24, columns=2, shift=1.5, seed=0):
    """Two clouds that overlap, in no order."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([1, -1], [normals, anomalies]))
    X = rng.normal(size=(len(y), columns)) + shift * (y[:, None] < 0)
    return X, y


def small_split(protocol=THIN, seed=0, **shape):
    return split(*rows_and_labels(**shape), protocol, seed)


def small_training(setting="pure", **options):
    return small_split(**options).training(setting)


def easy_training(setting="pure", protocol=THIN):
    """The anomalies are so far away that every setting is perfect on validation."""
    return small_training(setting, protocol=protocol, shift=1000.0)


def without_cache(parts_or_training, **changes):
    """A changed copy that shares no work with its original."""
    return replace(parts_or_training, cache={}, **changes)


def plant_saplings(monkeypatch):
    """Forests of three trees, which are quick to fit, and as many rounds of boosting."""
    isolation = partial(IsolationForest, n_estimators=3)

    def trees(**settings):
        return ExtraTreesClassifier(**{**settings, "n_estimators": 3})

    def boosting(**settings):
        return HistGradientBoostingClassifier(**{**settings, "max_iter": 3})

    # The default pool imports them where it makes its experts.
    monkeypatch.setattr("sklearn.ensemble.ExtraTreesClassifier", trees)
    monkeypatch.setattr("sklearn.ensemble.HistGradientBoostingClassifier", boosting)
    monkeypatch.setattr(ours, "IsolationForest", isolation)


def exact_auc(labels, scores):
    """Scikit-learn's, without the rounding errors that would tell equals apart."""
    return round(roc_auc_score(labels, scores), 12)


def made_up_rows(sets, seeds, methods, non_pure=(), metrics=("auc", "g_mean")):
    """Made-up results: `methods` in both settings, `non_pure` in the non-pure one."""
    rng = np.random.default_rng(0)
    measured = [*product(["pure"], methods), *product(["non-pure"], [*methods, *non_pure])]
    return [
        {"set": name, "seed": seed, "setting": setting, "method": method, "metric": metric,
         "value": float(rng.uniform(60, 100))}
        for seed, name, (setting, method), metric in product(
            range(seeds), sets, measured, metrics
        )
    ]  # fmt: skip


def values_of(rows, **wanted):
    """The values of the rows that are like this."""
    return [row["value"] for row in rows if wanted.items() <= row.items()]


def tables_in(text):
    """Every Markdown table of a page: row → column → cell."""
    tables, lines = [], []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            lines.append([cell.strip() for cell in line.strip("|").split("|")])
        elif lines:
            (_, *heads), rule, *body = lines
            assert set("".join(rule)) <= {"-", ":"}
            assert all(len(row) == len(heads) + 1 for row in body)
            tables.append({row[0]: list(zip(heads, row[1:], strict=True)) for row in body})
            lines = []
    return tables
