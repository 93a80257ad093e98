"""``lpfuse fuse``: weights for scores that other tools made."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from lpfuse.cli import console
from lpfuse.cli._fit import (
    Drop,
    FalseAlarms,
    Features,
    Keep,
    Label,
    Norm,
    Normal,
    Seed,
    conclusion,
    introduce,
    weights_table,
)

MEANINGS = ("normal", "anomaly")


def fuse(
    ctx: typer.Context,
    scores: Annotated[
        str, typer.Argument(metavar="SCORES", help="A .csv, .parquet or .arrow file; - for CSV.")
    ],
    label: Label = None,
    normal: Normal = None,
    direction: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COL=anomaly",
            help="What high scores of a column mean, or of all: --direction anomaly. May be "
            "repeated.",
            show_default="normal",
        ),
    ] = None,
    p: Norm = "auto",
    out: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="OUT", help="A file for the scores; - for CSV."),
    ] = None,
    keep: Keep = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", help="A file for the weights, for `lpfuse score`."),
    ] = None,
    false_alarm_rate: FalseAlarms = 0.05,
    features: Features = None,
    drop: Drop = None,
    seed: Seed = 0,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Learn how far to trust scores that other tools made, and prove it.

    SCORES has a column for each tool. Where a score is missing, the others decide.
    """
    from lpfuse.tables import TableModel
    from lpfuse.tables._outcome import outcome
    from lpfuse.tables._reading import STANDARD, read_table
    from lpfuse.tables._writing import check_table_target, check_target, said, table_writer

    if as_json and out == STANDARD:
        raise ValueError("--json and -o - both want standard output. Write the scores to a file.")
    silent = as_json or out == STANDARD or console.is_quiet(ctx, quiet)
    if out is not None:
        check_table_target(out, [scores])
    if model is not None:
        check_target(model, [scores])
    frame = read_table(scores)

    def tell(notes: list[str]) -> None:
        if not silent:
            introduce(scores, frame.shape, notes)
            typer.echo()

    with console.remarks(silent) as remarks:
        fitted = TableModel.fuse(
            frame,
            label=label,
            normal=normal,
            high=directions(direction or [], frame.columns),
            p=p,
            false_alarm_rate=false_alarm_rate,
            features=features or (),
            drop=drop or (),
            random_state=seed,
            tell=tell,
        )
        if out is not None:
            fused = fitted.score(frame, keep=fitted.check_kept(keep or (), frame.columns))
            with table_writer(out) as add:
                add(fused)
    if model is not None:
        with said(model.name):
            fitted.save(model)
    found = outcome(fitted.fused)
    if as_json:
        console.show_json({**found, "notes": fitted.notes, "warnings": remarks})
    elif out != STANDARD:
        console.show(weights_table(found), silent)
    if not silent:
        typer.echo(f"\n{conclusion(found)}")
        for name in upside_down(found, remarks):
            hint = f"--direction {quote(f'{name}=anomaly')}"
            typer.echo(f"If high scores of {name!r} mean anomaly, say so: {hint}")
        for file in filter(None, (out, model)):
            typer.echo(f"Written to {file}.")


def upside_down(found: dict[str, Any], remarks: list[str]) -> list[str]:
    """Columns that seem to have another direction than was said."""
    doubt = any("score known anomalies above normal rows" in remark for remark in remarks)
    return [name for name, area in found["auc"].items() if (area or 1) < 0.5] if doubt else []


def directions(given: list[str], columns: list[str]) -> dict[str, str]:
    """What high scores mean, by column.

    Examples
    --------
    >>> directions(["anomaly", "b=normal"], ["a", "b"])
    {'a': 'anomaly', 'b': 'normal'}
    """
    from lpfuse.tables._labels import check_names

    high: dict[str, str] = {}
    for text in given:
        column, equals, meaning = text.rpartition("=")
        if meaning not in MEANINGS:
            raise ValueError(
                f"--direction says what high scores mean: COL=anomaly or COL=normal; got {text!r}."
            )
        high |= dict.fromkeys(check_names([column], columns) if equals else columns, meaning)
    return high
