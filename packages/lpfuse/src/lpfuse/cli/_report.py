"""``lpfuse report``: a page that shows what a model is worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lpfuse.cli import _options as options
from lpfuse.cli import console

if TYPE_CHECKING:
    import polars

DEFAULT = Path("report.html")


def report(
    ctx: typer.Context,
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A file of `lpfuse fit`, or of Python's save.")
    ],
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="Rows that the model has not learnt from; a .csv, .parquet or .arrow file. "
            "Without it the training rows are judged, each by what was learnt without it.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(*options.OUTPUT, metavar="FILE", help="The page.", show_default=str(DEFAULT)),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="The column of DATA that tells normal rows from anomalies.",
            show_default="as in the training",
        ),
    ] = None,
    normal: Annotated[
        str | None, typer.Option(metavar="VALUE", help="What the label of normal rows is.")
    ] = None,
    trust: options.Trust = None,
    key: options.Key = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Write a page for the team: weights, curves for every p, false alarms, the strangest rows.

    One file of HTML that needs no network. With --json the figures behind it go to standard
    output, and the page is written only if -o names it.
    """
    from lpfuse._files import check_target, write_errors
    from lpfuse.report import write_report

    silent = as_json or console.is_quiet(ctx, quiet)
    target = out if out is not None or as_json else DEFAULT
    if target is not None:
        check_target(target, [model, *([] if data is None else [data])])
    if data is None and (label is not None or normal is not None):
        raise ValueError("--label and --normal tell what a column of DATA means: name the file.")
    with console.remarks(silent):
        loaded = _loaded(model, trust or (), None if key is None else key.read_bytes())
        rows = () if data is None else _rows(loaded, data, label, normal)
        summary = _summary(model, loaded, rows)
    if target is not None:
        with write_errors(target.name):
            write_report(summary, target)
    if as_json:
        console.show_json(summary)
    elif silent:
        typer.echo(target)
    else:
        console.say("\n".join(summary["headline"]))
        console.say(f"\nWritten to {target}. Open it in a browser.")


def _loaded(path: Path, trusted: Any, key: bytes | None) -> Any:
    """A fused detector, bare or with what prepares its tables."""
    from lpfuse import FusedDetector, load
    from lpfuse.tables import TableModel, load_model

    path = path.expanduser()
    if path.is_file():
        model = load(path, trusted, key=key)
        if isinstance(model, FusedDetector):
            return model
        if not isinstance(model, TableModel):
            raise ValueError(
                f"{path} holds {type(model).__name__}. A report needs a fused detector, of "
                "`lpfuse fit` or of FusedDetector.save."
            )
    return load_model(path, trusted, key=key)


def _summary(path: Path, model: Any, rows: tuple[Any, ...]) -> dict[str, Any]:
    """What there is to say; a file that was tampered with may hold anything."""
    from lpfuse.report import summarise

    try:
        return summarise(model, *rows)
    except ValueError as error:
        error.add_note(f"The model is {path}.")
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise ValueError(
            f"{path} cannot be reported on: it is damaged, or of another version of lpfuse "
            f"({type(error).__name__}: {error}). Fit the model again, or restore the file."
        ) from error


def _rows(model: Any, data: str, label: str | None, normal: str | None) -> tuple[Any, Any]:
    """Rows as `summarise` takes them, and their labels."""
    from lpfuse.tables import TableModel, read_table
    from lpfuse.tables._labels import labels_of, settle_normal
    from lpfuse.tables._preparation import check_names

    frame, y = read_table(data), None
    if frame.height == 0:
        raise ValueError(f"{data} has no rows to judge by.")
    if label is None and normal is not None:
        raise ValueError(f"--normal {normal} says nothing without --label COLUMN.")
    if label is not None:
        (label,) = check_names([label], frame.columns)
        y = labels_of(frame[label], settle_normal(frame[label], normal))
        frame = frame.drop(label)
    return (frame if isinstance(model, TableModel) else _columns(model, frame)), y


def _columns(fused: Any, frame: polars.DataFrame) -> Any:
    """The columns that a fused detector was fitted to: by their names, where it knows names."""
    import numpy as np

    from lpfuse.tables._columns import typed
    from lpfuse.tables._preparation import check_names, numbers_of

    names = getattr(fused, "feature_names_in_", None)
    if names is None:
        return np.column_stack([numbers_of(typed(column)) for column in frame])
    for name in names:
        check_names([name], frame.columns)
    return frame.select(map(typed, frame.select(names.tolist())))
