"""``lpfuse watch``: verdicts on rows as they arrive."""

from __future__ import annotations

import tomllib
from pathlib import Path
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
ENDING, DRIFT = "When to end", "Drift and alarms"
CSV = ("separator", "decimal", "encoding", "quote", "header_row")
NEEDED = {"model": "a model", "source": "a source of rows", "output": "an output"}
# Settings that the file of --config alone has, and what all of them are.
RARE: dict[str, Any] = dict.fromkeys(("separator", "decimal", "encoding", "quote"), str)
RARE |= {"header-row": int, "batch-rows": int, "batch-seconds": (int, float)}
RARE |= {"drift-level": (int, float)}
TEXTS = ("model", "source", "output", "page", "metrics", "time-column", "on-drift", "on-alarm")
KEYS: dict[str, Any] = {
    **dict.fromkeys((*TEXTS, "reference", "key"), str),
    **dict.fromkeys(("keep", "trust"), list),
    **dict.fromkeys(("replayed", "once", "until-drift", "json", "quiet"), bool),
    "late": (int, float), "jobs": int, **RARE,
}  # fmt: skip
WORDS: dict[Any, str] = {
    str: "a text in quotes", list: 'a list of texts, such as ["serial"]', bool: "true or false",
    int: "a whole number", (int, float): "a number",
}  # fmt: skip
PASSED = (
    "page", "keep", "time_column", "late", "metrics", "replayed", "once", "until_drift", "on_drift",
    "on_alarm", "reference",
)  # fmt: skip


def watch(
    ctx: typer.Context,
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A model file of `lpfuse fit`.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="SOURCE",
            help="A growing .csv file; a folder of .csv and .parquet files; - for CSV on standard "
            "input; or kafka://host:port/topic?NAME=VALUE&… with client settings, and "
            "columns=a,b,c if messages are CSV lines.",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            *options.OUTPUT,
            metavar="OUT",
            help="A .csv or .jsonl file to append verdicts to, or a folder/ for Parquet files.",
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="A .toml file with model, source, output, long option names, and "
            f"{', '.join(RARE)}. Options of the command line take precedence.",
        ),
    ] = None,
    page: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A status page (.html), updated continuously."),
    ] = None,
    keep: options.Keep = None,
    time_column: Annotated[
        str | None,
        typer.Option(
            metavar=options.COLUMN,
            help="Time column; rows earlier than the previous one are noted.",
        ),
    ] = None,
    replayed: Annotated[
        bool,
        typer.Option(
            "--replayed",
            help="Standard input starts from its first row again: skip scored rows.",
        ),
    ] = False,
    late: Annotated[
        float,
        typer.Option(
            min=0.0,
            metavar="SECONDS",
            help="Wait this long for late rows and sort them by time (models fitted with --time).",
        ),
    ] = 0.0,
    metrics: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Counts for Prometheus (.prom), updated with the page."),
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Stop at the current end of the source.", rich_help_panel=ENDING
        ),
    ] = False,
    until_drift: Annotated[
        bool,
        typer.Option(
            "--until-drift",
            help=f"Stop with exit code {DRIFTED} when drift is declared.",
            rich_help_panel=ENDING,
        ),
    ] = False,
    on_drift: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Command to run once when drift is declared; gets the details as JSON on stdin.",
            rich_help_panel=DRIFT,
        ),
    ] = None,
    on_alarm: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="Command to run once per episode of alarms (models fitted with --time).",
            rich_help_panel=DRIFT,
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="Typical rows of the stream, for comparison.",
            show_default="training and calibration rows",
            rich_help_panel=DRIFT,
        ),
    ] = None,
    jobs: options.Chunks = -1,
    trust: options.Trust = None,
    key: options.Key = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print a JSON object per batch, and one at the end."),
    ] = False,
    quiet: console.Quiet = False,
) -> None:
    """Score rows as they arrive, each exactly once, and detect drift.

    Prints a line per batch and, for models fitted with --time, per episode of alarms. The same
    command continues where it stopped. Invalid rows are counted by reason and affect no other row.
    """
    told = {
        "model": model, "source": source, "output": out, "page": page, "keep": keep,
        "time_column": time_column, "replayed": replayed, "late": late, "metrics": metrics,
        "once": once, "until_drift": until_drift, "on_drift": on_drift, "on_alarm": on_alarm,
        "reference": reference, "jobs": jobs, "trust": trust, "key": key, "json": as_json,
        "quiet": quiet,
    }  # fmt: skip
    given = {name: value for name, value in told.items() if _is_told(ctx, name)}
    read = {} if config is None else read_config(config)
    chosen = {**told, **read, **given}
    model, source, out = (chosen[name] for name in ("model", "source", "output"))
    if None in (model, source, out):
        lacking = next(name for name in ("model", "source", "output") if chosen[name] is None)
        raise ValueError(
            f"watch needs {NEEDED[lacking]}. Say lpfuse watch MODEL SOURCE -o OUT, or name it in "
            f'the file of --config: {lacking} = "…".'
        )
    as_json, until_drift, jobs = chosen["json"], chosen["until_drift"], chosen["jobs"]
    silent = as_json or console.is_quiet(ctx, chosen["quiet"])
    if chosen["page"] is not None:
        check_page(chosen["page"])
    there = None if source.startswith(KAFKA) else source
    check_there(there, chosen["reference"], model=model)
    key = None if chosen["key"] is None else Path(chosen["key"])
    format = options.table_format(**{name: read[name] for name in CSV if name in read})
    others = {name: read[name] for name in ("batch_rows", "batch_seconds", "drift_level")
              if name in read}  # fmt: skip
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

        def on_episode(_: Any, line: str) -> None:
            if not silent:
                console.say(line, err=True)

        settings = {name: chosen[name] for name in PASSED if chosen[name] is not None}
        found = run(
            model,
            source,
            out,
            **settings,
            **others,
            jobs=None if jobs < 1 else jobs,
            format=format,
            trusted=chosen["trust"] or (),
            key=console.read_key(key),
            on_batch=on_batch,
            on_episode=on_episode,
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
        if found.promise:
            console.say(found.promise, err=True)
        gathered = "" if found.episodes is None else f" in {counted(found.episodes, 'episode')}"
        console.say(
            f"{ENDS[found.ended]} {counted(found.rows, 'row')} in all, {found.judged:,} judged, "
            f"{found.alarms:,} called anomalies{gathered}. Written to {out}.",
            err=True,
        )
    if until_drift and found.drift is not None:
        raise typer.Exit(DRIFTED)


def _is_told(ctx: typer.Context, name: str) -> bool:
    """Whether the command line tells a value."""
    parameter = {"output": "out", "json": "as_json"}.get(name, name)
    return str(ctx.get_parameter_source(parameter)).endswith("COMMANDLINE")


def read_config(path: str) -> dict[str, Any]:
    """Read the file of ``--config``; return values by the names of parameters.

    Parameters
    ----------
    path : str
        A file of TOML.
    """
    from lpfuse._validation.params import did_you_mean

    file = Path(path).expanduser()
    if not file.is_file():
        raise FileNotFoundError(f"There is no file {quote(path)}. Name the file of settings.")
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f'{file.name} is no TOML: {error}. A line of it reads: page = "status.html".'
        ) from error
    read: dict[str, Any] = {}
    for name, value in found.items():
        kind = KEYS.get(name)
        if kind is None:
            raise ValueError(
                f"{file.name}: there is no setting {quote(name)}.{did_you_mean(name, KEYS)} There "
                f"are {', '.join(KEYS)}."
            )
        fits = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
        if not fits or (kind is list and not all(isinstance(each, str) for each in value)):
            raise ValueError(f"{file.name}: {name} must be {WORDS[kind]}, got {quote(str(value))}.")
        read[name.replace("-", "_")] = value
    return read
