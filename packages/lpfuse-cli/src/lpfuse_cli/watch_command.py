"""``lpfuse watch``: verdicts on rows as they arrive."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lpfuse._format import brief, quote
from lpfuse_cli import console
from lpfuse_cli import console as options
from lpfuse_cli.console import check_page, check_there

DRIFTED = 4  # the exit code of --until-drift, where drift was declared
KAFKA = "kafka://"
ENDS = {
    "source": "The source has ended.",
    "signal": "Ended by a signal.",
    "drift": "Drift was declared.",
}
BATCHES, ENDING, DRIFT = "Batches", "When to end", "Drift"
CSV = ("separator", "decimal", "encoding", "quote", "header_row")


def watch(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A file of `lpfuse fit`.")],
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A .csv file that grows; a folder that .csv and .parquet files are put into; - "
            "for CSV; or kafka://host:port/topic?NAME=VALUE&… with settings of the client, and "
            "columns=a,b,c where messages are lines of CSV.",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            *options.OUTPUT,
            metavar="OUT",
            help="A .csv file to append verdicts to, or a folder/ for Parquet files.",
        ),
    ],
    page: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A status page, .html, rewritten as rows come."),
    ] = None,
    keep: options.Keep = None,
    time_column: Annotated[
        str | None,
        typer.Option(
            metavar=options.COLUMN, help="Rows whose time here steps back are not scored."
        ),
    ] = None,
    replayed: Annotated[
        bool,
        typer.Option(
            "--replayed",
            help="Standard input starts with its first row again: skip rows that were scored.",
        ),
    ] = False,
    csv: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help=f"How CSV is written: {', '.join(CSV)}; may be repeated.",
            show_default="as in training, or found in the first rows",
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option("--once", help="End where the source ends now.", rich_help_panel=ENDING),
    ] = False,
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
            help="Probability that drift is ever declared without a change.",
            rich_help_panel=DRIFT,
        ),
    ] = 0.01,
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
            min=1, metavar=options.INT, help="Rows scored together.", rich_help_panel=BATCHES
        ),
    ] = 10_000,
    batch_seconds: Annotated[
        float,
        typer.Option(
            min=0.0,
            metavar="SECONDS",
            help="How long rows wait for others. The state is saved every 2 of these, the page "
            "written every 5, a Parquet file every 60.",
            rich_help_panel=BATCHES,
        ),
    ] = 1.0,
    jobs: options.Chunks = -1,
    trust: options.Trust = None,
    key: options.Key = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="A JSON object for each batch, and one at the end, alone."),
    ] = False,
    quiet: console.Quiet = False,
) -> None:
    """Score rows as they arrive, each exactly once, and detect drift.

    Prints a line for each batch. Continues where it ended, however it was ended. A row that cannot
    be read or scored is counted by reason and affects no other row.
    """
    silent = as_json or console.is_quiet(ctx, quiet)
    if page is not None:
        check_page(page)
    check_there(None if source.startswith(KAFKA) else source, reference, model=model)
    format = options.table_format(**_csv_settings(csv))
    with console.remarks(silent) as remarks:
        if not silent:
            console.say(f"Loading {console.called(model)} …", err=True)
        # Late, for it takes seconds: the line above is shown by then.
        from lpfuse._validation.params import counted
        from lpfuse_cli.watch import watch as run

        def on_batch(progress: Any) -> None:
            if as_json:
                console.show_json(progress.values())
            elif not silent:
                console.say(progress.line(), err=True)

        found = run(
            model,
            source,
            out,
            page=page,
            keep=keep or (),
            time_column=time_column,
            once=once,
            until_drift=until_drift,
            on_drift=on_drift,
            drift_level=drift_level,
            reference=reference,
            batch_rows=batch_rows,
            batch_seconds=batch_seconds,
            replayed=replayed,
            jobs=None if jobs < 1 else jobs,
            format=format,
            trusted=trust or (),
            key=console.read_key(key),
            on_batch=on_batch,
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


def _csv_settings(given: list[str] | None) -> dict[str, Any]:
    """Split settings of CSV into names and values.

    Examples
    --------
    >>> _csv_settings(["separator=tab", "decimal=,", "header_row=3"])
    {'separator': 'tab', 'decimal': ',', 'header_row': 3}
    """
    found: dict[str, Any] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or name.strip() not in CSV:
            raise ValueError(
                f"--csv must be NAME=VALUE with a NAME of {', '.join(CSV)}; got {quote(text)}."
            )
        found[name.strip()] = int(value) if value.isdecimal() else value
    return found
