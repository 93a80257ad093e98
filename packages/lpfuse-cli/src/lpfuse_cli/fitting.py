"""Fused detectors of tables with a column of labels, and of tables of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from lpfuse import FusedDetector
from lpfuse._format import quote
from lpfuse._validation.params import Labels, check_choice, check_norm, quoted
from lpfuse.adapters import ScoreColumn
from lpfuse.ensemble.rows import hash_rows, look_at_order
from lpfuse.frames import TablePreparation, learn_preparation
from lpfuse.frames.cells import NO_DATE, check_names, order_of
from lpfuse.time.order import RANDOM, TIME
from lpfuse_cli.tables import split_labels
from lpfuse_cli.times import in_words, read_times, times_of_training

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
    time: str | None = None,
    order: str | None = None,
    look_for_time: bool = True,
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
    time : str, optional
        The column that tells when rows were, see :meth:`lpfuse.FusedDetector.fit`.
    order : {"time", "random"}, optional
        What the order of rows means. None, without `time`: a column of dates in whose order rows
        are is taken as their time, where consecutive rows resemble each other.
    look_for_time : bool, default=True
        Whether such a column is looked for.
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
    how: dict[str, Any] = {"categories": categories, "decimal": decimal}
    how |= {"features": features, "drop": drop, "kinds": kinds}
    told: tuple[str, ...] = (note,)
    if order is not None:
        check_choice("order", order, (TIME, RANDOM))
    if time is not None and order == RANDOM:
        raise ValueError("Pass time or order='random', not both: times say that the order counts.")
    if time is not None:
        (time,) = check_names([time], columns.columns)
    elif look_for_time and order != RANDOM:
        time = find_time(columns, order, how)
        if time is not None:
            told = note, _found_time(columns[time])
    seconds, times = None, tuple[str, ...]()
    if time is not None:
        seconds, written = times_of_training(columns[time])
        columns, times = columns.drop(time), (time, written)
    made = learn_preparation(columns, **_without(how, time))
    made.times = times
    made.kinds_dropped |= dict.fromkeys(times[:1], "time")
    listed = detectors if detectors is None or isinstance(detectors, str) else list(detectors)
    fused = FusedDetector(listed, p=check_norm(p), random_state=random_state, **parameters)
    if len(told) == 1 and (time or order == TIME):
        by = f"in the order of {quote(time)}" if time else "in their order, at even intervals"
        told = note, f"Time: rows are {by}."
    made.label, made.told = label, (*told, *made.told)
    fitted = _fit(
        fused, made, words, columns, labels, progress, show_notes, time=seconds, order=order
    )
    fitted.time_column_ = time
    return fitted


def find_time(frame: polars.DataFrame, order: str | None, how: Mapping[str, Any]) -> str | None:
    """Return the first column of dates in whose order rows are; None where order tells nothing.

    Parameters
    ----------
    frame : polars.DataFrame
        Rows.
    order : {"time", None}
        None: rows must also resemble those before them.
    how : dict
        How columns are prepared.
    """
    for name in frame.columns:
        written = None if name in how["drop"] else order_of(frame[name])
        if written in (None, NO_DATE):
            continue
        days = read_times(frame[name], str(written))
        if np.isnan(days).any() or (np.diff(days) < 0).any() or days[0] == days[-1]:
            continue
        with suppress(ValueError):  # the fit refuses it in words of its own
            made = learn_preparation(frame.drop(name), **_without(how, name))
            numbers = made.numbers(frame)
            first = np.unique(hash_rows(numbers), return_index=True)[1]  # without copies
            names, places = made.feature_names, made.lasting
            if order or look_at_order(None, numbers[np.sort(first)], names, places).because:
                return name
    return None


def _found_time(column: polars.Series) -> str:
    seconds, _ = times_of_training(column)
    steps = np.diff(seconds)
    apart = in_words(float(np.median(steps[steps > 0])))
    return (
        f"Time: rows are in the order of {quote(column.name)} ({apart} apart) and resemble those "
        "before them, so they are judged as rows in time. If the order means nothing, say "
        "order='random'."
    )


def _without(how: Mapping[str, Any], time: str | None) -> dict[str, Any]:
    """Leave the column of times out of what users said of columns."""
    kinds = {name: kind for name, kind in (how["kinds"] or {}).items() if name != time}
    listed = {key: [n for n in how[key] if n != time] for key in ("features", "drop", "categories")}
    return {**how, **listed, "kinds": kinds}


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
    **order: Any,
) -> FusedDetector:
    made.normal, made.anomaly = words.get("normal"), words.get("anomaly")
    if show_notes is not None:
        show_notes(made.notes)
    y = None if made.label is None else Labels(labels, dict(words), [])
    return fused.fit(columns, y, columns=made, progress=progress or False, **order)
