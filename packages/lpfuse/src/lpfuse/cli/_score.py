"""``lpfuse score``: from rows to scores, however many."""

from __future__ import annotations

from time import monotonic
from typing import Annotated

import typer

from lpfuse._format import brief
from lpfuse.cli import _options as options
from lpfuse.cli import console
from lpfuse.cli._early import check_there


def score(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A file of `lpfuse fit`.")],
    data: options.Data,
    out: Annotated[
        str,
        typer.Option(
            *options.OUTPUT,
            metavar="OUT",
            help="A .csv, .parquet or .arrow file, which appears whole or not at all; - for CSV.",
        ),
    ],
    keep: options.Keep = None,
    explain: options.Explain = 0,
    formulas: options.Formulas = False,
    chunk_rows: options.ChunkRows = 10_000,
    jobs: options.Chunks = -1,
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
    """Score the rows of a table of any size.

    Columns of the result: score (high = normal), p_value, decision (1 normal, -1 anomaly), and
    contribution:NAME of each detector, which add up to the score; with --explain also why: the
    columns that pushed the score of an alarm down. Says whether as many rows are
    called anomalies as were asked for.
    """
    silent = as_json or console.is_quiet(ctx, quiet)
    if as_json and out == options.STANDARD:
        raise ValueError("--json and -o - both want standard output. Write the scores to a file.")
    check_there(data, model=model)
    with console.remarks(silent) as remarks, console.phases(silent) as phases:
        phases.begin(f"Loading {console.called(model)}")
        # Late, for it takes seconds: the line above stands by then.
        from lpfuse.tables import check_table_target, load_model, score_file
        from lpfuse.tables._alarm_words import alarm_sentences, parted
        from lpfuse.tables._ranges import range_sentences

        check_table_target(out, [model, data])
        secret = None if key is None else key.read_bytes()
        loaded = load_model(model, trust or (), key=secret)
        began = monotonic()
        phases.begin(f"Scoring {console.called(data)}")
        scored = score_file(
            loaded,
            data,
            out,
            format=options.table_format(separator, decimal, encoding, quote, sheet),
            keep=keep or (),
            chunk_rows=chunk_rows,
            jobs=None if jobs < 1 else jobs,
            formulas=formulas,
            explain=explain,
            progress=phases.stream,
        )
        seconds = monotonic() - began
    told = [] if scored.alarms is None else alarm_sentences(scored.alarms)
    if as_json:
        counts = {"rows": scored.rows, "anomalies": scored.anomalies, "seconds": round(seconds, 3)}
        alarms = None if scored.alarms is None else {"sentences": told, **scored.alarms}
        notes = {"left_range": scored.left_range, "notes": scored.notes, "warnings": remarks}
        console.show_json({"output": out, **counts, "alarms": alarms, **notes})
    elif not silent:
        for note in scored.notes:
            typer.secho(brief(f"Note: {note}"), fg="yellow", err=True)
        outside = [
            each for each in scored.left_range if "unknown" not in each
        ]  # a note tells these
        for sentence in [*range_sentences(outside), *told]:
            console.say(sentence, err=True)
        share = scored.anomalies / max(1, scored.rows)
        target = "standard output" if out == options.STANDARD else out
        console.say(
            f"{scored.rows:,} rows scored in {seconds:.1f} s, {scored.anomalies:,} called "
            f"anomalies ({share:.1%}). Written to {target}.",
            err=True,
        )
    if check and scored.alarms is not None and parted(scored.alarms):
        raise typer.Exit(options.PARTED)
