"""Why rows of a table were flagged: by its columns, not by the features made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from lpfuse._arrays.operations import Host
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.components import Explanation
from lpfuse.tables._preparation import TablePreparation

if TYPE_CHECKING:
    import polars


class ExplainedTable:
    """A fused detector behind a preparation, which can be asked why."""

    preparation: TablePreparation
    fused: FusedDetector

    def numbers(self, frame: polars.DataFrame, start: int = 0) -> Host:
        """The features of rows."""
        raise NotImplementedError

    @property
    def feature_sources(self) -> list[str]:
        """The column that each feature was made of."""
        return [column for column, _ in self.preparation.features]

    def explain(
        self,
        frame: polars.DataFrame,
        *,
        background: Any = None,
        n_permutations: int | Literal["all"] | None = None,
        random_state: Any = 0,
    ) -> Explanation:
        """Which columns pushed the scores of rows down: see :meth:`lpfuse.FusedDetector.explain`.

        All features of a column, such as those of its categories, count as one.

        Parameters
        ----------
        frame : polars.DataFrame
            Rows, for instance alarms.
        background : int or polars.DataFrame, default=None
            Rows to compare with, or how many normal training rows to draw.
        n_permutations, random_state
            As there.

        Returns
        -------
        Explanation
            Of the columns of the table.

        Examples
        --------
        >>> import numpy as np
        >>> import polars as pl
        >>> from lpfuse.tables import TableModel
        >>> rng = np.random.default_rng(0)
        >>> bar, wet = rng.normal(2.5, 0.1, 99), ["no"] * 60 + ["yes"] * 39
        >>> pumps = pl.DataFrame({"bar": bar, "wet": wet})
        >>> model = TableModel.fit(pumps, detectors=["gmm", "histogram"])
        >>> model.explain(pl.DataFrame({"wet": ["no"], "bar": [9.9]})).reasons(0)
        ['bar']
        """
        X, given = self.numbers(frame), background
        if hasattr(given, "columns"):
            given = self.numbers(given)
        groups: dict[str, list[int]] = {name: [] for name in self.preparation.columns}
        for place, name in enumerate(self.feature_sources):
            groups[name].append(place)
        options = {"n_permutations": n_permutations, "random_state": random_state}
        return self.fused.explain(X, background=given, groups=groups, **options)
