"""Methods × data sets × splits under the protocol: measured once, read back as figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from lpfuse._arrays.operations import Host
from research.common.datasets import UCI
from research.common.experiment import measure_splits
from research.common.options import Options
from research.common.protocol import SETTINGS, Method
from research.common.splits import Split
from research.common.store import Row

Methods = Mapping[str, Method]


class Figures:
    """Rows, by method and data set.

    Examples
    --------
    >>> from research.common.comparison import Figures
    >>> row = {"set": "iris", "seed": 0, "setting": "pure", "method": "sum", "metric": "auc"}
    >>> figures = Figures([row | {"value": 97.0}, row | {"seed": 1, "value": 99.0}])
    >>> figures.means("pure", "sum")
    array([98.])
    """

    def __init__(self, rows: Sequence[Row], quick: bool = False) -> None:
        self.quick = quick
        self.sets = tuple(dict.fromkeys(row["set"] for row in rows))
        splits = {name: {row["seed"] for row in rows if row["set"] == name} for name in self.sets}
        self.fewest_seeds = min(map(len, splits.values()), default=0)
        self.seeds = max(map(len, splits.values()), default=0)
        self._values: dict[tuple[str, str, str], dict[str, list[float]]] = {}
        for row in rows:
            key = row["setting"], row["method"], row["metric"]
            self._values.setdefault(key, {}).setdefault(row["set"], []).append(row["value"])

    @property
    def scope(self) -> str:
        """How much was measured, in words."""
        few, many = self.fewest_seeds, self.seeds
        splits = "one random split" if many == 1 else f"{many} random splits"
        if few < many:  # of a run that goes on
            splits = f"{few} to {many} random splits"
        of = "one data set" if len(self.sets) == 1 else f"each of {len(self.sets)} data sets"
        return f"{splits} of {of}" + (", a quick run with thin grids" if self.quick else "")

    @property
    def are_the_papers(self) -> bool:
        """Whether these are the paper's ten sets, all of them."""
        return set(self.sets) == set(UCI)

    def methods(self, setting: str, metric: str = "auc") -> list[str]:
        """Methods that were measured in a setting, in the order of the rows."""
        return [m for s, m, k in self._values if (s, k) == (setting, metric)]

    def of(self, setting: str, method: str, name: str, metric: str = "auc") -> Host:
        """Values on one data set, one a split."""
        return np.array(self._values[setting, method, metric][name])

    def means(self, setting: str, method: str, metric: str = "auc") -> Host:
        """Means over splits, one a data set."""
        return np.array([self.of(setting, method, name, metric).mean() for name in self.sets])

    def table(self, setting: str, methods: Sequence[str], metric: str = "auc") -> Host:
        """Means over splits: data sets × methods."""
        return np.column_stack([self.means(setting, method, metric) for method in methods])


def measure_methods(
    name: str, methods: Methods, options: Options, non_pure: Methods | None = None
) -> list[Row]:
    """Rows of every method on every split; what is stored is not measured again.

    Parameters
    ----------
    name : str
        Of the experiment, and so of its file.
    methods : mapping
        Measured in both settings.
    options : Options
        Data sets, splits, jobs and where to store.
    non_pure : mapping, optional
        Methods that learn from anomalies alone; measured in the non-pure setting.
    """
    non_pure = non_pure or {}
    work = partial(_rows, methods=methods, non_pure=non_pure)
    return measure_splits(name, work, options, quick_splits=1, methods=[*methods, *non_pure])


def _rows(parts: Split, methods: Methods, non_pure: Methods) -> list[Row]:
    """All methods on one split."""
    rows: list[Row] = []
    for setting in SETTINGS:
        training = parts.training(setting)
        for method, learn in {**methods, **(non_pure if setting == "non-pure" else {})}.items():
            fitted = learn(training)
            measured = [
                {"setting": setting, "method": method, "metric": metric, "value": value}
                for metric, value in parts.judge(fitted).items()
            ]
            if fitted.choices:
                measured[0]["choices"] = fitted.choices
            rows += measured
    return rows
