"""``lpfuse fuse``: weights for scores that other tools made."""

from __future__ import annotations

from pathlib import Path
from shlex import quote as in_shell
from typing import Annotated, Any

import typer

from lpfuse._format import quote as in_quotes
from lpfuse.cli import _options as options
from lpfuse.cli import console
from lpfuse.cli._early import check_there, settled_detectors
from lpfuse.cli._fit import conclusion, introduce

MEANINGS = ("normal", "anomaly")
DOUBT = "Does a high score mean normal there?"  # in every `DirectionWarning`


def fuse(
    ctx: typer.Context,
    scores: options.Scores,
    label: options.Label = None,
    normal: options.Normal = None,
    direction: options.Direction = None,
    p: console.Norm = "auto",
    out: Annotated[
        str | None,
        typer.Option(*options.OUTPUT, metavar="OUT", help="A file for the scores; - for CSV."),
    ] = None,
    keep: options.Keep = None,
    formulas: options.Formulas = False,
    model: options.Weights = None,
    false_alarm_rate: options.FalseAlarms = 0.05,
    features: options.Features = None,
    drop: options.Drop = None,
    seed: console.Seed = 0,
    key: options.Key = None,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    quote: options.Quote = None,
    sheet: options.Sheet = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Learn how far to trust scores that other tools made, and prove it.

    SCORES has a column for each tool. Where a score is missing, the others decide.
    """
    check_there(scores)
    settled_detectors(p, false_alarm_rate)
    from lpfuse._files import write_errors
    from lpfuse.tables import TableModel, outcome, read_table, table_writer

    silent = as_json or out == options.STANDARD or console.is_quiet(ctx, quiet)
    _check_targets(scores, out, model, as_json)
    secret = None if key is None else key.read_bytes()

    def show_notes(notes: list[str]) -> None:
        if not silent:
            introduce(ctx, scores, frame.shape, [*written, *notes])
            typer.echo()

    with console.remarks(silent) as remarks:
        told = options.table_format(separator, decimal, encoding, quote, sheet)
        written: list[str] = []
        frame = read_table(scores, format=told, notes=written)
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
            show_notes=show_notes,
        )
        fitted.notes[:0], fitted.format = written, told
        if out is not None:
            fused = fitted.score(frame, keep=fitted.check_kept(keep or (), frame.columns))
            with table_writer(out, formulas=formulas) as add:
                add(fused)
    if model is not None:
        with write_errors(model.name):
            fitted.save(model, key=secret)
    found = outcome(fitted.fused)
    if as_json:
        console.show_json({**found, "notes": fitted.notes, "warnings": remarks})
    elif out != options.STANDARD:
        console.show(console.weights_table(found), silent)
    if not silent:
        _conclude(found, remarks, [out, model])


def _check_targets(scores: str, out: str | None, model: Path | None, as_json: bool) -> None:
    """Refuse, before any work, files that cannot be written."""
    from lpfuse._files import check_target
    from lpfuse.tables import check_table_target

    if as_json and out == options.STANDARD:
        raise ValueError("--json and -o - both want standard output. Write the scores to a file.")
    if out is not None:
        check_table_target(out, [scores])
    if model is not None:
        check_target(model, [scores])


def _conclude(found: dict[str, Any], remarks: list[str], files: list[Any]) -> None:
    """What came of it, what may be wrong, and where it is."""
    typer.echo(f"\n{conclusion(found)}")
    for name in upside_down(found, remarks):
        hint = f"--direction {in_shell(f'{name}=anomaly')}"
        console.say(f"If high scores of {in_quotes(name)} mean anomaly, say so: {hint}")
    for file in filter(None, files):
        console.say(f"Written to {file}.")


def upside_down(found: dict[str, Any], remarks: list[str]) -> list[str]:
    """Columns that a warning calls turned round: their names stand at its beginning."""
    told = [remark.partition(" (")[0] for remark in remarks if DOUBT in remark]
    return [name for name in found["weights"] if any(repr(name) in names for names in told)]


def directions(given: list[str], columns: list[str]) -> dict[str, str]:
    """What high scores mean, by column.

    Examples
    --------
    >>> directions(["anomaly", "b=normal"], ["a", "b"])
    {'a': 'anomaly', 'b': 'normal'}
    """
    from lpfuse.tables._cells import check_names

    high: dict[str, str] = {}
    for text in given:
        column, equals, meaning = text.rpartition("=")
        if meaning not in MEANINGS:
            raise ValueError(
                "--direction says what high scores mean: COL=anomaly or COL=normal; got "
                f"{in_quotes(text)}."
            )
        high |= dict.fromkeys(check_names([column], columns) if equals else columns, meaning)
    return high
