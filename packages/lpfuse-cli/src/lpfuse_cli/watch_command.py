"""``lpfuse watch``: verdicts on rows as they arrive."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lpfuse._format import brief
from lpfuse_cli import console, options
from lpfuse_cli.options import check_there

DRIFTED = 4  # the exit code of --until-drift, where drift was declared
KAFKA = "kafka://"
ENDS = {
    "source": "The source has ended.",
    "rows": "So many rows were asked for.",
    "idle": "No row came for as long as was asked for.",
    "signal": "Told to end.",
    "drift": "Drift was declared.",
}
BATCHES, ENDING, DRIFT = "Batches and the page", "When to end", "Drift"
SPECIAL = "Standard input and Kafka"


def watch(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A file of `lpfuse fit`.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A .csv file that grows; a folder that .csv and .parquet files are put into; - "
            "for CSV; or kafka://host:port/topic.",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            *options.OUTPUT,
            metavar="OUT",
            help="A .csv file that verdicts are added to, or a folder/ for parts of Parquet.",
        ),
    ],
    page: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A status page, .html, written anew as rows come."),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Remembers how far it has come.", show_default="OUT.watch"
        ),
    ] = None,
    keep: options.Keep = None,
    time_column: Annotated[
        str | None,
        typer.Option(
            metavar=options.COLUMN, help="Rows whose time here steps back are not judged."
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option("--once", help="End where the source ends now.", rich_help_panel=ENDING),
    ] = False,
    rows: Annotated[
        int | None,
        typer.Option(
            min=1, metavar=options.INT, help="End after so many rows.", rich_help_panel=ENDING
        ),
    ] = None,
    idle_timeout: Annotated[
        float | None, options.seconds(ENDING, "End after so long without a row.")
    ] = None,
    until_drift: Annotated[
        bool,
        typer.Option(
            "--until-drift",
            help=f"End with exit code {DRIFTED} when drift is declared.",
            rich_help_panel=ENDING,
        ),
    ] = False,
    on_drift: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Run once when drift is declared, with the facts as JSON on its standard input.",
            rich_help_panel=DRIFT,
        ),
    ] = None,
    drift_level: Annotated[
        float,
        typer.Option(
            metavar=options.FLOAT,
            help="The chance that drift is ever declared though nothing changes.",
            rich_help_panel=DRIFT,
        ),
    ] = 0.01,
    drift_rows: Annotated[
        int,
        typer.Option(
            min=1,
            metavar=options.INT,
            help="Rows of a batch at most that are compared for drift.",
            rich_help_panel=DRIFT,
        ),
    ] = 2_000,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Rows as they usually come, to compare with.",
            show_default="those of the training and the calibration",
            rich_help_panel=DRIFT,
        ),
    ] = None,
    batch_rows: Annotated[
        int,
        typer.Option(
            min=1, metavar=options.INT, help="Rows judged together.", rich_help_panel=BATCHES
        ),
    ] = 10_000,
    batch_seconds: Annotated[
        float, options.seconds(BATCHES, "How long rows wait for others.")
    ] = 1.0,
    page_seconds: Annotated[float, options.seconds(BATCHES, "Between two pages.")] = 5.0,
    commit_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="SECONDS",
            help="Between two moments from which a later start goes on, and between parts.",
            show_default="2, or 60 for a folder",
            rich_help_panel=BATCHES,
        ),
    ] = None,
    settle: Annotated[
        float, options.seconds(BATCHES, "That a file of a folder must not have changed.")
    ] = 2.0,
    replayed: Annotated[
        bool,
        typer.Option(
            "--replayed",
            help="Standard input begins with its first row again: leave out what was judged.",
            rich_help_panel=SPECIAL,
        ),
    ] = False,
    csv_columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Messages of Kafka are lines of CSV, with these cells; else JSON objects.",
            rich_help_panel=SPECIAL,
        ),
    ] = None,
    kafka: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A setting of Kafka's client; may be repeated.",
            rich_help_panel=SPECIAL,
        ),
    ] = None,
    formulas: options.Formulas = False,
    jobs: options.Chunks = -1,
    trust: options.Trust = None,
    key: options.Key = None,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    quote: options.Quote = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="A JSON object for each batch, and one at the end, alone."),
    ] = False,
    quiet: console.Quiet = False,
) -> None:
    """Judge rows as they arrive, each exactly once, and say when they drift.

    A line for each batch. Goes on where it ended, whatever ended it. A row that cannot be read or
    judged costs itself alone: it is counted, by why.
    """
    silent = as_json or console.is_quiet(ctx, quiet)
    check_there(None if source.startswith(KAFKA) else source, reference, model=model)
    with console.remarks(silent) as remarks:
        if not silent:
            console.say(f"Loading {console.called(model)} …", err=True)
        # Late, for it takes seconds: the line above stands by then.
        from lpfuse._validation.params import counted
        from lpfuse.watch import watch as run

        secret = None if key is None else key.read_bytes()

        def tell(told: Any) -> None:
            if as_json:
                console.show_json(told.values())
            elif not silent:
                console.say(told.line(), err=True)

        found = run(
            model,
            source,
            out,
            page=page,
            state=state,
            keep=keep or (),
            time_column=time_column,
            once=once,
            rows=rows,
            idle_timeout=idle_timeout,
            until_drift=until_drift,
            on_drift=on_drift,
            drift_level=drift_level,
            drift_rows=drift_rows,
            reference=reference,
            batch_rows=batch_rows,
            batch_seconds=batch_seconds,
            page_seconds=page_seconds,
            commit_seconds=commit_seconds,
            settle=settle,
            replayed=replayed,
            csv_columns=[name.strip() for name in (csv_columns or "").split(",") if name.strip()],
            kafka=_settings(kafka),
            jobs=None if jobs < 1 else jobs,
            formulas=formulas,
            format=options.table_format(separator, decimal, encoding, quote, None),
            trusted=trust or (),
            key=secret,
            tell=tell,
        )
    if as_json:
        console.show_json({"output": out, **vars(found), "warnings": remarks})
    elif not silent:
        for remark in found.remarks:
            typer.secho(brief(f"Note: {remark}"), fg="yellow", err=True)
        for what, times in found.notes.items():
            console.say(f"Noted {counted(times, 'time')}: {what}.", err=True)
        if found.drift is not None:
            console.say(found.drift["sentence"], err=True)
        console.say(
            f"{ENDS[found.ended]} {counted(found.rows, 'row')} in all, {found.judged:,} judged, "
            f"{found.alarms:,} called anomalies. Written to {out}.",
            err=True,
        )
    if until_drift and found.drift is not None:
        raise typer.Exit(DRIFTED)


def _settings(given: list[str] | None) -> dict[str, str]:
    found = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise ValueError("--kafka gives a setting of the client: NAME=VALUE.")
        found[name.strip()] = value
    return found
