"""TableDetector: a fused detector that takes data frames as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Self

from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils.validation import check_is_fitted

from lpfuse._format import quote
from lpfuse._validation.tables import remember_columns
from lpfuse.ensemble import FusedDetector
from lpfuse.tables._cells import check_names
from lpfuse.tables._columns import learn_preparation
from lpfuse.tables._frames import FrameJudge, as_polars
from lpfuse.tables._kinds import check_kinds
from lpfuse.tables._model import TableModel
from lpfuse.tables._preparation import TablePreparation


class TableDetector(FrameJudge, OutlierMixin, BaseEstimator):
    """A `FusedDetector` for data frames with text, dates, gaps and columns that name the rows.

    Columns become features as on the command line (`learn_preparation`); ``notes_`` say what each
    was taken as. `make_table_detector` makes one in a line.

    Parameters
    ----------
    detector : FusedDetector, default=None
        A copy of it is fitted to the features; None: ``FusedDetector()``.
    features, drop, categories : sequence of str, default=()
        The only columns to use; columns to leave out; columns whose numbers are names.
    kinds : mapping of str: str, default=None
        What columns are, by name, where looking at them would not tell: see `learn_preparation`.

    Attributes
    ----------
    model_ : TableModel
        What was fitted: preparation and detector. `save` writes it, and ``lpfuse score`` reads it.
    fused, preparation : FusedDetector and TablePreparation
        Its parts, fitted.
    notes_ : list of str
        What was taken as what, what was dropped and why.
    offset_ : float
        The threshold of `score_samples`.
    n_features_in_, feature_names_in_ : int, ndarray
        The columns of the data frame.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from lpfuse.tables import make_table_detector
    >>> rng = np.random.default_rng(0)
    >>> pumps = pd.DataFrame(
    ...     {
    ...         "bar": rng.normal(2.5, 0.1, 300),
    ...         "kind": rng.choice(["axial", "radial"], 300),
    ...     }
    ... )
    >>> pumps.loc[::20, "bar"] = None
    >>> detector = make_table_detector(random_state=0).fit(pumps)
    >>> detector.predict(pd.DataFrame({"kind": ["axial", "axial"], "bar": [2.5, 9.9]}))
    array([ 1, -1])
    >>> print(detector.notes_[1])
    Categories, a feature for each: 'kind' (2 texts).
    """

    def __init__(
        self,
        detector: FusedDetector | None = None,
        *,
        features: Sequence[str] = (),
        drop: Sequence[str] = (),
        categories: Sequence[str] = (),
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        self.detector = detector
        self.features = features
        self.drop = drop
        self.categories = categories
        self.kinds = kinds

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Settle what the columns are, and fit the detector.

        Parameters
        ----------
        X : data frame of n rows
            Of pandas, polars, narwhals or Arrow, without labels.
        y : array-like of shape (n,), optional
            +1 normal, −1 anomaly, 0 where nobody looked.
        **fit_params
            Further arguments of `FusedDetector.fit`: groups, kind, chances, unlabelled.

        Returns
        -------
        TableDetector
            The fitted estimator.
        """
        frame = as_polars(X)
        if frame.height == 0:
            raise ValueError("The table has no rows. Bring some to learn from.")
        made = FusedDetector() if self.detector is None else clone(self.detector)
        if not isinstance(made, FusedDetector):
            raise TypeError(f"detector must be a FusedDetector or None, got {quote(made)}.")
        preparation = learn_preparation(
            frame,
            features=check_names(self.features, frame.columns),
            drop=check_names(self.drop, frame.columns),
            categories=check_names(self.categories, frame.columns),
            kinds=check_kinds(self.kinds or {}, frame.columns),
        )
        fused = made.fit(preparation.numbers(frame), y, **fit_params)
        self.model_ = TableModel(preparation, fused, None, None, preparation.notes)
        remember_columns(self, frame)
        return self

    @property
    def preparation(self) -> TablePreparation:  # type: ignore[override]
        """How columns become features."""
        check_is_fitted(self, "model_")
        return self.model_.preparation

    @property
    def fused(self) -> FusedDetector:  # type: ignore[override]
        """The fitted detector of these features."""
        check_is_fitted(self, "model_")
        return self.model_.fused

    @property
    def notes_(self) -> list[str]:
        """What was taken as what, in sentences."""
        return self.model_.notes

    @property
    def offset_(self) -> float:
        """The threshold."""
        return self.model_.fused.offset_

    def save(self, path: str | PathLike[str], *, key: bytes | None = None) -> None:
        """Write what was fitted to a file, for ``lpfuse score`` and `lpfuse.load`.

        Parameters
        ----------
        path : path-like
            The file. `lpfuse.load` makes a `TableModel` of it, with the same answers.
        key : bytes, optional
            A secret that signs it, see :func:`lpfuse.io.save`.
        """
        check_is_fitted(self, "model_")
        self.model_.save(path, key=key)


def make_table_detector(
    *,
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    **parameters: Any,
) -> TableDetector:
    """A fused detector for data frames as they come: text, dates, gaps, names of rows.

    Parameters
    ----------
    features, drop, categories, kinds
        As in `TableDetector`.
    **parameters
        Of :class:`lpfuse.FusedDetector`: false_alarm_rate, random_state and so on.

    Returns
    -------
    TableDetector
        With ``fit``, ``predict``, ``score_samples``, ``decision_function``, ``pvalues``, ``save``.

    Examples
    --------
    >>> from lpfuse.tables import make_table_detector
    >>> make_table_detector(false_alarm_rate=0.01, drop=["id"])
    TableDetector(detector=FusedDetector(false_alarm_rate=0.01), drop=['id'])
    """
    made = FusedDetector(**parameters)
    return TableDetector(made, features=features, drop=drop, categories=categories, kinds=kinds)
