"""Fused detectors of tables with a column of labels, and of tables of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lpfuse import FusedDetector
from lpfuse._validation.params import Labels, check_norm, quoted
from lpfuse.adapters import ScoreColumn
from lpfuse.frames import TablePreparation, learn_preparation
from lpfuse_cli.tables import split_labels

if TYPE_CHECKING:
    import polars

Show = Callable[[list[str]], None]


def fit_table(
    frame: polars.DataFrame,
    *,
    label: str | None = None,
    normal: Any = None,
    anomaly: Any = None,
    detectors: Sequence[str] | str | None = None,
    p: float | str = "auto",
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
    decimal: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    show_notes: Show | None = None,
    random_state: int = 0,
    **parameters: Any,
) -> FusedDetector:
    """Fit a fused detector to a table.

    Parameters
    ----------
    frame : data frame
        Rows to learn from, of polars, pandas, narwhals or Arrow.
    label : str, optional
        The column of labels; without it, rows are unlabelled.
    normal, anomaly : str or list of str, optional
        What normal rows hold there, and anomalies, as in :meth:`lpfuse.FusedDetector.fit`. Rows
        that hold nothing are unlabelled; if `normal` is empty, these are the normal ones. Both may
        be left out where the labels are 1, −1 and 0, or one of them is "normal".
    detectors : sequence of str or "paper", optional
        Names, see :class:`lpfuse.FusedDetector`; None: the default pool.
    p : float or "auto", default="auto"
        The norm of the weights; "auto": that of the default fusion.
    features, drop, categories, kinds, decimal
        As in :func:`lpfuse.frames.learn_preparation`.
    progress, show_notes : callables, optional
        Called with the number of fits that are done, and of all; and, before, with the notes.
    random_state : int, default=0
        Seed.
    **parameters
        Of :class:`lpfuse.FusedDetector`.

    Returns
    -------
    FusedDetector
        Fitted.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from lpfuse_cli.fitting import fit_table
    >>> rng = np.random.default_rng(0)
    >>> pumps = pl.DataFrame(
    ...     {"bar": rng.normal(2.5, 0.1, 200), "state": ["ok"] * 195 + ["worn"] * 5}
    ... )
    >>> fused = fit_table(pumps, label="state", normal="ok", detectors=["gmm", "kpca"])
    >>> fused.notes_
    ["Label: 'state'; normal is 'ok' (195 rows); anomalies are 'worn' (5).", "Numbers: 'bar'."]
    """
    columns, labels, words, note = split_labels(frame, label, normal, anomaly)
    made = learn_preparation(
        columns,
        features=features,
        drop=drop,
        categories=categories,
        kinds=kinds,
        decimal=decimal,
    )
    listed = detectors if detectors is None or isinstance(detectors, str) else list(detectors)
    fused = FusedDetector(listed, p=check_norm(p), random_state=random_state, **parameters)
    made.label, made.told = label, (note, *made.told)
    return _fit(fused, made, words, columns, labels, progress, show_notes)


def fuse_table(
    frame: polars.DataFrame,
    *,
    label: str | None = None,
    normal: Any = None,
    anomaly: Any = None,
    high: Mapping[str, str] | None = None,
    p: float | str = "auto",
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    decimal: str | None = None,
    show_notes: Show | None = None,
    random_state: int = 0,
    **parameters: Any,
) -> FusedDetector:
    """Learn the weights of columns that are scores of other detectors.

    Parameters
    ----------
    frame : data frame
        Scores, a column for each detector. Where one is missing, the others decide.
    high : mapping of str: {"normal", "anomaly"}, optional
        What high scores of a column mean; where it says nothing, "normal".
    label, normal, anomaly, p, features, drop, decimal, show_notes, random_state, **parameters
        As in `fit_table`.

    Returns
    -------
    FusedDetector
        Fitted.
    """
    columns, labels, words, note = split_labels(frame, label, normal, anomaly)
    made = learn_preparation(columns, features=features, drop=drop, scores=True, decimal=decimal)
    turned = [name for name in made.columns if (high or {}).get(name) == "anomaly"]
    detectors = [
        (name, ScoreColumn("anomaly" if name in turned else "normal"), name)
        for name in made.columns
    ]
    fused = FusedDetector(detectors, p=check_norm(p), random_state=random_state, **parameters)
    note_on_high = f"High scores mean anomaly: {quoted(turned) if turned else 'in no column'}."
    made.label, made.told = label, (note, note_on_high, *made.told)
    return _fit(fused, made, words, columns, labels, None, show_notes)


def _fit(
    fused: FusedDetector,
    made: TablePreparation,
    words: Mapping[str, Any],
    columns: polars.DataFrame,
    labels: Any,
    progress: Callable[[int, int], None] | None,
    show_notes: Show | None,
) -> FusedDetector:
    made.normal, made.anomaly = words.get("normal"), words.get("anomaly")
    if show_notes is not None:
        show_notes(made.notes)
    y = None if made.label is None else Labels(labels, dict(words), [])
    return fused.fit(columns, y, columns=made, progress=progress or False)
