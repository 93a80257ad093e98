"""``lpfuse report``: a page that shows what a model is worth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lpfuse.cli import _options as options
from lpfuse.cli import console
from lpfuse.cli._early import check_there
from lpfuse.cli._models import load_detector, model_errors

DEFAULT = Path("report.html")


def report(
    ctx: typer.Context,
    model: options.Model,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="Rows that the model has not learnt from; a .csv, .parquet, .arrow or .xlsx file. "
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
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar=options.COLUMN,
            help="Show a column of DATA with each row, such as an id or a time; may be repeated.",
        ),
    ] = None,
    trust: options.Trust = None,
    key: options.Key = None,
    check: options.Check = False,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    quote: options.Quote = None,
    sheet: options.Sheet = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Write a page for the team: alarms, how many of them are false, weights, curves for every p.

    One file of HTML that needs no network. With --json the figures behind it go to standard
    output, and the page is written only if -o names it.
    """
    from lpfuse._files import check_target, write_errors

    check_there(data, model=model)
    silent = as_json or console.is_quiet(ctx, quiet)
    target = out if out is not None or as_json else DEFAULT
    if target is not None:
        check_target(target, [model, *([] if data is None else [data])])
    if data is None and (label is not None or normal is not None):
        raise ValueError("--label and --normal tell what a column of DATA means: name the file.")
    if data is None and keep:
        raise ValueError("--keep shows columns of DATA: name the file.")
    with console.remarks(silent), console.phases(silent) as phases:
        phases.begin(f"Loading {console.called(model)}")
        # Late, for it takes seconds: the line above stands by then.
        from lpfuse.report import summarise, write_report
        from lpfuse.tables._alarm_words import parted

        loaded = load_detector(model, trust or (), key, "A report")
        told = options.table_format(separator, decimal, encoding, quote, sheet)
        rows: tuple[Any, ...] = ()
        kept, files = None, {"model": model.name}
        if data is not None:
            rows, kept = _rows(loaded, data, told, label, normal, keep or (), phases)
            files["data"] = data if data == options.STANDARD else console.called(data)
        judged = f"{len(rows[0]):,} rows" if rows else "the training rows"
        phases.begin(f"Judging {judged}")
        with model_errors(model, "reported on"):
            summary = summarise(loaded, *rows, keep=kept, files=files)
        if target is not None:
            phases.begin(f"Writing {console.called(target)}")
            with write_errors(target.name):
                write_report(summary, target)
    if as_json:
        console.show_json(summary)
    elif silent:
        typer.echo(target)
    else:
        console.say(_told(summary))
        console.say(f"\nWritten to {target}. Open it in a browser.")
    if check and parted(summary["alarms"]):
        raise typer.Exit(options.PARTED)


def _told(summary: dict[str, Any]) -> str:
    """The sentences of the page: what a manager asks, what to do, what it rests on."""
    first, words = summary["overview"], summary["words"]
    steps = [f"  {step}" for step in first["next"]]
    rest = [*summary["remarks"], *words["alarms"], *words["fusing"]]
    return "\n".join([*first["sentences"], "", "Next", *steps, "", *rest])


def _rows(
    model: Any,
    data: str,
    told: Any,
    label: str | None,
    normal: str | None,
    keep: Sequence[str],
    phases: console.Phases,
) -> tuple[tuple[Any, Any], Any]:
    """Rows as `summarise` takes them with their labels, and the columns to show."""
    from lpfuse.tables import TableModel, read_table
    from lpfuse.tables._answers import features_of
    from lpfuse.tables._cells import check_names
    from lpfuse.tables._labels import labels_of, settle_normal

    phases.begin(f"Reading {console.called(data)}")
    known = model.format if isinstance(model, TableModel) else told
    frame, y = read_table(data, format=told | known, progress=phases.stream), None
    if frame.height == 0:
        raise ValueError(f"{data} has no rows to judge by.")
    if label is None and normal is not None:
        raise ValueError(f"--normal {normal} says nothing without --label COLUMN.")
    kept = frame.select(check_names(keep, frame.columns)) if keep else None
    if label is not None:
        (label,) = check_names([label], frame.columns)
        y = labels_of(frame[label], settle_normal(frame[label], normal))
        frame = frame.drop(label)
    return (frame if isinstance(model, TableModel) else features_of(model, frame), y), kept
