"""``lpfuse score``: from rows to scores, however many."""

from __future__ import annotations

from time import monotonic
from typing import Annotated

import typer

from lpfuse.cli import console
from lpfuse.cli._fit import Keep


def score(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A file of `lpfuse fit`.")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A .csv, .parquet or .arrow file; - for CSV.")
    ],
    out: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="A .csv, .parquet or .arrow file, which appears whole or not at all; - for CSV.",
        ),
    ],
    keep: Keep = None,
    chunk_rows: Annotated[int, typer.Option(min=1, metavar="INT", help="Rows at a time.")] = 10_000,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            min=-1,
            metavar="INT",
            help="Chunks scored at a time.",
            show_default="cores, up to 8",
        ),
    ] = -1,
    trust: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="A type of another maker that MODEL may hold."),
    ] = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Score the rows of a table of any size.

    Columns of the result: score (high = normal), p_value, decision (1 normal, -1 anomaly), and
    contribution:NAME of each detector, which add up to the score.
    """
    from lpfuse.tables._model import load_model
    from lpfuse.tables._reading import STANDARD
    from lpfuse.tables._scoring import score_file
    from lpfuse.tables._writing import check_table_target

    silent = as_json or console.is_quiet(ctx, quiet)
    if as_json and out == STANDARD:
        raise ValueError("--json and -o - both want standard output. Write the scores to a file.")
    check_table_target(out, [model, data])
    with console.remarks(silent) as remarks:
        loaded = load_model(model, trust or ())
        began = monotonic()
        with console.stream("Scoring", silent) as progress:
            tally = score_file(
                loaded,
                data,
                out,
                keep=keep or (),
                chunk_rows=chunk_rows,
                jobs=None if jobs < 1 else jobs,
                progress=progress,
            )
        seconds = monotonic() - began
    if as_json:
        counts = {"rows": tally.rows, "anomalies": tally.anomalies, "seconds": round(seconds, 3)}
        console.show_json({"output": out, **counts, "notes": tally.notes, "warnings": remarks})
    elif not silent:
        for note in tally.notes:
            typer.secho(f"Note: {note}", fg="yellow", err=True)
        share = tally.anomalies / max(1, tally.rows)
        typer.echo(
            f"{tally.rows:,} rows scored in {seconds:.1f} s, {tally.anomalies:,} called anomalies "
            f"({share:.1%}). Written to {'standard output' if out == STANDARD else out}.",
            err=True,
        )
