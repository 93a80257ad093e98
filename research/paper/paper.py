"""The figures that the paper prints, as data: to be shown beside ours, never to be reached.

S. Nourmohammadi and S. Rahimzadeh Arashloo, "ℓp-Norm Constrained One-Class Classifier Combination".
Figures are in %, a standard deviation is over ten random splits, and some cannot be right:
:func:`impossible_cells`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil, floor

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.datasets import UCI as DATASETS  # its Table 1: samples, normals, features


@dataclass(frozen=True)
class Mean:
    """A mean and, where it is printed, the standard deviation."""

    mean: float
    std: float | None = None


@dataclass(frozen=True)
class Doubt:
    """A cell of the UCI table, and what speaks against it."""

    set: str
    method: str
    metrics: tuple[str, ...]
    reason: str


# "pure" and "non-pure" are the method of the paper; what comes after it is from the literature.
METHODS = (
    "GMM", "SVDD", "GP", "KPCA", "pure", "non-pure",
    "Fatemifar", "DEOD homogeneous", "DEOD heterogeneous", "FNDF",
)  # fmt: skip


def _read(table: str) -> dict[str, dict[str, Mean]]:
    """Set → method → figure, for the cells that are printed; rows in the order of `DATASETS`."""
    rows = [line.split() for line in table.strip().splitlines()]
    return {
        name: {
            method: Mean(*map(float, cell.split("±")))
            for method, cell in zip(METHODS, row, strict=True)
            if cell != "-"
        }
        for name, row in zip(DATASETS, rows, strict=True)
    }


OWN = METHODS[:6]  # measured by the paper itself

# metric → set → method → figure.
UCI = {
    "auc": _read("""
83.91±4.5  97.18±1.0  97.45±1.1  80.92±3.4  99.97±0.0  99.98±0.0  -      -      -      -
86.07±9.3  90.00±5.4  89.39±5.0  85.26±8.7  96.98±1.0  98.39±1.1  -      84.53  85.93  94.9
96.67±1.4  78.76±1.5  97.55±4.3  67.64±1.1  98.12±1.2  99.99±0.0  -      90.76  92.06  -
86.16±6.8  85.13±3.0  88.95±4.3  72.23±9.1  92.39±4.4  95.21±3.1  -      83.00  84.34  62.1
93.32±2.3  95.84±1.3  95.24±0.8  94.68±1.2  99.95±0.0  99.98±0.0  -      91.65  92.6   95.0
93.51±3.2  94.31±2.3  86.18±2.8  94.65±3.4  98.18±1.2  99.39±0.4  -      90.77  90.6   -
85.47±5.8  87.22±6.3  87.38±7.3  83.96±4.0  92.83±6.3  94.17±4.3  -      81.04  78.90  90.8
75.64±2.1  73.08±2.1  72.57±2.1  66.50±2.1  79.73±0.1  85.20±0.0  -      -      -      -
63.70±1.0  63.40±1.0  59.34±1.3  52.16±1.3  68.29±0.0  69.61±0.0  -      -      -      -
70.13±1.1  54.77±1.0  70.06±1.0  53.12±1.0  73.43±0.0  78.64±0.0  -      -      -      -
"""),
    "g_mean": _read("""
98.34±0.0  99.17±0.2  90.53±0.7  69.23±0.2  99.80±0.0  99.91±0.0  99.27  -      -      -
62.76±1.5  89.08±0.9  90.45±0.2  80.58±0.2  92.93±3.8  93.43±3.1  90.02  -      -      -
94.05±3.4  77.13±5.4  89.37±4.7  67.55±3.2  95.54±4.5  96.54±3.1  92.57  -      -      -
79.07±8.0  85.11±4.0  86.08±4.0  80.13±6.1  90.08±4.0  92.86±0.0  -      -      -      -
86.02±0.0  90.55±0.0  95.91±0.0  96.95±0.0  98.99±0.0  99.90±0.0  -      -      -      -
93.50±7.4  78.88±4.0  82.36±2.1  81.64±3.9  97.90±2.3  98.20±2.4  96.54  -      -      -
83.39±6.4  87.18±5.3  88.10±6.6  87.18±5.5  89.23±7.0  90.81±5.1  -      -      -      -
73.44±1.4  69.31±2.2  71.54±1.6  63.60±2.4  75.38±0.7  79.42±0.0  71.48  -      -      -
62.88±1.0  61.23±1.0  58.29±1.3  51.56±1.3  66.57±0.0  66.74±0.0  60.32  -      -      -
68.46±2.1  50.32±2.0  68.46±1.5  51.03±2.0  75.00±0.0  81.00±0.0  71.23  -      -      -
"""),
}

# Setting → norm (∞ is the sum rule) → AUC, averaged over the ten data sets.
LP_EFFECT = {
    "pure": {"l2": 87.87, "linf": 87.90, "lp": 89.98},
    "non-pure": {"l2": 89.13, "linf": 89.14, "lp": 92.05},
}

# Setting → loss → AUC, averaged over the ten data sets.
LOSS = {
    "pure": {"least_squares": 88.70, "hinge": 89.98},
    "non-pure": {"least_squares": 89.92, "hinge": 92.05},
}

# p → precision (largest change of a weight in the last step) → times faster than CVX, on banknotes.
SPEED_UP = {
    32 / 31: {1e-2: 898.2, 1e-3: 146.0, 1e-4: 134.9},
    8 / 7: {1e-2: 19.2, 1e-3: 15.9, 1e-4: 14.6},
    2.0: {1e-2: 36.3, 1e-3: 27.2, 1e-4: 26.1},
    100.0: {1e-2: 31.0, 1e-3: 21.8, 1e-4: 18.8},
}

SPLITS = 10

# The kinds of forgery in the columns of its two tables, under the names of their folders.
FORGERIES = ("Deepfakes", "FaceSwap", "FaceShifter", "Face2Face", "NeuralTextures")
THIS_WORK = "This work"


def _read_forgeries(table: str) -> dict[str, dict[str, float]]:
    """Method → kind of forgery → AUC, for the cells that are printed."""
    rows = [line.rsplit(maxsplit=len(FORGERIES)) for line in table.strip().splitlines()]
    return {
        method: {
            kind: float(cell) for kind, cell in zip(FORGERIES, cells, strict=True) if cell != "-"
        }
        for method, *cells in rows
    }


# Quality → method → left-out kind of forgery → AUC of videos. All methods but the last are quoted
# from the literature. "We report the AUC and the accuracy", it says: no accuracy is printed.
FACEFORENSICS = {
    "c40": _read_forgeries("""
Miao et al. (2022)         86.8  -     -     73.0  -
Sun et al. (2021)          75.6  68.1  -     72.4  60.8
F²Trans-S (2023)           86.9  -     -     76.5  -
F²Trans-B (2023)           88.7  -     -     77.7  -
Tran et al. (2023)         74.7  -     -     72.7  -
This work                  99.2  97.2  99.2  73.8  74.2
"""),
    "c23": _read_forgeries("""
Sun et al. (2021)          92.7  64.0  -     80.2  77.3
F²Trans-S (2023)           97.4  -     -     90.5  -
F²Trans-B (2023)           98.9  -     -     94.0  -
Wang et al. (2023)         92.9  70.5  -     90.1  91.9
Zhu et al. (2023)          99.4  83.6  -     94.6  79.2
Haliassos et al. (2021)    99.7  90.1  -     99.7  99.1
This work                  99.9  99.9  99.4  96.2  97.9
"""),
}

FORGERY_CLAIMS = {"c40": 4, "c23": 3}  # subsets of five on which it is ahead, by its own words


def forgery_leads(quality: str) -> dict[str, float | None]:
    """How far the paper is ahead of the best rival that it prints, in points of AUC.

    Parameters
    ----------
    quality : "c23" or "c40"
        High or low.

    Returns
    -------
    dict
        Kind of forgery → lead, negative where a rival is better, None where there is no rival: the
        paper counts such a kind among those on which it "performs better than the existing
        methods".

    Examples
    --------
    >>> from research.paper.paper import forgery_leads
    >>> {kind: lead and round(lead, 1) for kind, lead in forgery_leads("c40").items()}
    {'Deepfakes': 10.5, 'FaceSwap': 29.1, 'FaceShifter': None, 'Face2Face': -3.9, ...}
    """
    table = FACEFORENSICS[quality]
    leads: dict[str, float | None] = {}
    for kind, own in table[THIS_WORK].items():
        rivals = [row[kind] for name, row in table.items() if name != THIS_WORK and kind in row]
        leads[kind] = own - max(rivals) if rivals else None
    return leads


def impossible_cells() -> list[Doubt]:
    r"""Cells of the UCI table that no ten splits can give, by arithmetic alone.

    **AUC and G-mean.** A threshold that keeps the share a of the normals and rejects the share b
    of the anomalies shows a·b of their pairs to be in the right order, so that AUC ≥ a·b = G² on
    each split, whatever the threshold, and over splits

    .. math:: \overline{\mathrm{AUC}} \ge \overline{G^2} \ge \bar{G}^2.

    (There is a ceiling too, G²·(1 − ln G²) without tied scores, but only for the threshold that is
    the best on the test rows, which an honest choice need not be.)

    **Grain.** With n normals and m anomalies in the test, the AUC of a split is a multiple of
    1/(2nm), and a mean of ten is a multiple of a tenth of that; G² is a multiple of 1/(nm). Ten
    values with their mean between two neighbouring possible values, `low` and `high`, have a
    standard deviation of at least

    .. math:: \sqrt{(\mathrm{mean} - \mathrm{low})\,(\mathrm{high} - \mathrm{mean})}.

    Whatever is not known is taken in the paper's favour: figures may be rounded or cut off, and so
    may the shares of the rows. That AUC and G-mean are those of one model is taken for granted.

    Returns
    -------
    list of Doubt
        With two metrics, at least one of the two figures is wrong.

    Examples
    --------
    >>> from research.paper.paper import impossible_cells
    >>> for doubt in impossible_cells():
    ...     print(doubt.set, doubt.method, *doubt.metrics)
    banknotes GMM auc g_mean
    banknotes SVDD auc g_mean
    iris pure auc
    iris non-pure g_mean
    """
    found = []
    for name, method in product(DATASETS, OWN):
        auc, g_mean = (UCI[metric][name][method] for metric in ("auc", "g_mean"))
        floor_of_auc = _range(g_mean)[0] ** 2 / 100
        if _range(auc)[1] < floor_of_auc:
            below = f"AUC is {auc.mean:.2f}, but G² is {floor_of_auc:.2f} or more"
            found.append(Doubt(name, method, ("auc", "g_mean"), below))
        for metric, cell in (("auc", auc), ("g_mean", g_mean)):
            if reason := _against_the_grain(name, metric, cell):
                found.append(Doubt(name, method, (metric,), reason))
    return found


def suspicious_cells() -> list[Doubt]:
    """Cells of the UCI table whose standard deviation over ten splits is printed as 0.0.

    Each split draws its test normals, 10 % of all, anew. Where they are few, ten splits that agree
    to a tenth of a point are ten times the same split, or one. Means from 99.95 up are left out:
    so near to 100 little can vary.

    Returns
    -------
    list of Doubt
        The reason gives the number of test normals and what one of them weighs.

    Examples
    --------
    >>> from research.paper.paper import suspicious_cells
    >>> suspicious_cells()[-1].reason
    '81.00±0.0 on 12 test normals: a single one is 8.3 % of the hit rate'
    """
    found = []
    for name, method, metric in product(DATASETS, OWN, UCI):
        cell = UCI[metric][name][method]
        if cell.std == 0 and cell.mean < 99.95:
            normals = round(DATASETS[name].normals / 10)
            weight = f"a single one is {100 / normals:.1f} % of {_WEIGHS_ON[metric]}"
            reason = f"{cell.mean:.2f}±0.0 on {normals} test normals: {weight}"
            found.append(Doubt(name, method, (metric,), reason))
    return found


_WEIGHS_ON = {"auc": "the pairs", "g_mean": "the hit rate"}


def _against_the_grain(name: str, metric: str, cell: Mean) -> str | None:
    sizes = _test_sizes(name)
    spread, normals, anomalies = min((_least_std(metric, cell, *size), *size) for size in sizes)
    rows = f"{normals} normals and {anomalies} anomalies"
    if spread >= (cell.std or 0.0) + 0.1:  # no rounding or cutting off hides that much
        return f"ten splits with {rows} and mean {cell.mean:.2f} deviate by {spread:.2f} or more"
    if metric == "auc" and not any(_is_mean_of_aucs(cell, *size) for size in sizes):
        return f"no mean of ten AUCs on {rows} is {cell.mean:.2f}"
    return None


def _test_sizes(name: str) -> list[tuple[int, int]]:
    """Normals and anomalies in the test, whichever way 70, 20 and 50 % are rounded."""
    normals = DATASETS[name].normals
    anomalies = DATASETS[name].samples - normals
    fewest = normals - ceil(normals * 7 / 10) - ceil(normals * 2 / 10)
    most = normals - floor(normals * 7 / 10) - floor(normals * 2 / 10)
    halves = range(anomalies // 2, ceil(anomalies / 2) + 1)
    return list(product(range(fewest, most + 1), halves))


def _range(cell: Mean) -> tuple[float, float]:
    """Where a figure may lie that is printed with two decimals, rounded or cut off."""
    return cell.mean - 0.005, cell.mean + 0.01


def _least_std(metric: str, cell: Mean, normals: int, anomalies: int) -> float:
    """Lower bound of the standard deviation of any number of splits with that mean."""
    pairs = normals * anomalies
    if metric == "auc":
        values: Host = np.arange(2 * pairs + 1) / (2 * pairs) * 100
    else:
        hits = np.unique(np.outer(np.arange(normals + 1), np.arange(anomalies + 1)))
        values = np.sqrt(hits / pairs) * 100
    least, most = _range(cell)
    if ((least <= values) & (values <= most)).any():
        return 0.0
    low, high = values[values < least].max(), values[values > most].min()
    return float(np.sqrt(min((mean - low) * (high - mean) for mean in (least, most))))


def _is_mean_of_aucs(cell: Mean, normals: int, anomalies: int) -> bool:
    grains = 2 * normals * anomalies * SPLITS / 100
    least, most = _range(cell)
    return ceil(least * grains) <= most * grains - 1e-9
