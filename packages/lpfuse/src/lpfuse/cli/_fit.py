"""``lpfuse fit``: from a table to a model."""

from __future__ import annotations

from typing import Any

import typer

from lpfuse._format import printable
from lpfuse.cli import _options as options
from lpfuse.cli import console
from lpfuse.cli._early import check_there, settled_detectors


def fit(
    ctx: typer.Context,
    train: options.Train,
    model: options.NewModel,
    label: options.Label = None,
    normal: options.Normal = None,
    detectors: options.Detectors = None,
    p: console.Norm = "auto",
    false_alarm_rate: options.FalseAlarms = 0.05,
    confidence: options.Confidence = None,
    features: options.Features = None,
    drop: options.Drop = None,
    categories: options.Categories = None,
    kinds: options.As = None,
    sample: options.Sample = None,
    seed: console.Seed = 0,
    key: options.Key = None,
    jobs: options.Processes = 1,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    quote: options.Quote = None,
    sheet: options.Sheet = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Fit several detectors to a table and fuse them into one model.

    Says first what it takes as label, as normal and as features, what it drops, and why.

    All rows are used, and held in memory: 200,000 rows of 22 columns, a CSV file of 77 MB, take
    1 GB. Some detectors keep samples (neighbours 2,000 rows, forests of columns 10,000); the
    others, the weights and the threshold see all rows. Of a table that is larger than the memory,
    draw rows with --sample.
    """
    from lpfuse._files import check_target, write_errors

    silent = as_json or console.is_quiet(ctx, quiet)
    check_there(train)
    check_target(model, [train])
    secret = None if key is None else key.read_bytes()
    with console.remarks(silent) as remarks, console.phases(silent) as phases:
        phases.begin(f"Reading {console.called(train)}")
        names = settled_detectors(p, false_alarm_rate, confidence, detectors)
        # Late, for it takes seconds: the line above stands by then.
        from lpfuse.tables import TableModel, outcome

        phases.restart_clock()
        told = options.table_format(separator, decimal, encoding, quote, sheet)
        draw = {} if sample is None else {"most": sample, "label": label, "normal": normal}
        frame, rows, drawn = _read(train, draw, seed, format=told, progress=phases.stream)

        def show_notes(notes: list[str]) -> None:
            phases.end()
            if not silent:
                introduce(ctx, train, (rows, frame.width), [*drawn, *notes])
                console.say("  If a column is something else, say so: --as COLUMN=KIND.")
            phases.begin("Fitting")

        phases.begin("Preparing columns")
        fitted = TableModel.fit(
            frame,
            label=label,
            normal=normal,
            detectors=names,
            p=p,
            false_alarm_rate=false_alarm_rate,
            confidence=confidence,
            features=features or (),
            drop=drop or (),
            categories=categories or (),
            kinds=options.kinds_of(kinds),
            random_state=seed,
            n_jobs=jobs,
            progress=phases.progress,
            show_notes=show_notes,
        )
        fitted.notes[:0] = drawn
        fitted.format = told
        phases.begin(f"Writing {console.called(model)}")
        found = outcome(fitted.fused)
        with write_errors(model.name):
            fitted.save(model, key=secret)
    if as_json:
        notes = {"notes": fitted.notes, "warnings": remarks}
        told_of = {"features": fitted.feature_names, "columns": fitted.preparation.kinds}
        console.show_json({"model": str(model), **told_of, **found, **notes})
    elif not silent:
        console.show(f"\n{console.weights_table(found)}", False)
        typer.echo(f"\n{conclusion(found)}")
        console.say(f"\nSaved {model}. Next: lpfuse score {model} DATA -o scores.csv")


def _read(
    source: str, draw: dict[str, Any], seed: int, **options: Any
) -> tuple[Any, int, list[str]]:
    """The rows to learn from, how many there are, and notes: how they are written, and drawn."""
    from lpfuse.tables import read_sample, read_table

    notes: list[str] = []
    if not draw:
        frame = read_table(source, notes=notes, **options)
        return frame, frame.height, notes
    frame, rows = read_sample(source, **draw, seed=seed, notes=notes, **options)
    drawn = f"Sample: {frame.height:,} of {rows:,} rows, drawn by chance"
    most = draw["most"] // 2
    taken = "" if draw["label"] is None else f"; of anomalies all, up to {most:,}"
    return frame, rows, [*notes, *([f"{drawn}{taken}."] if frame.height < rows else [])]


def introduce(ctx: typer.Context, source: str, shape: tuple[int, int], notes: list[str]) -> None:
    """Say what a table was taken for."""
    console.say(f"{source}: {shape[0]:,} rows, {shape[1]:,} columns")
    for note in notes:
        about, _, rest = console.in_options(note, console.options_of(ctx.command)).partition(":")
        typer.echo(f"  {typer.style(printable(about), bold=True)}:{printable(rest)}")


def conclusion(found: dict[str, Any]) -> str:
    """Certificate, p, rows and threshold in sentences."""
    from lpfuse.tables import proof

    rows = found["learnt_from"]
    learnt = f"{rows['normal']:,} normal rows and {rows['anomalies']:,} anomalies"
    lines = [
        f"Weights {proof(found['certificate']['relative_gap'])} (p = {found['p']:g}), learnt from "
        f"{learnt}.",
    ]
    if found["auc"]:
        lines.append("AUC: of rows that neither the detectors nor the weights had seen.")
    return "\n".join([*lines, threshold_words(found)])


def threshold_words(found: dict[str, Any]) -> str:
    """What the threshold promises of new rows, or why there is none."""
    from lpfuse.tables._alarm_words import per_cent, per_cent_range, too_few_words

    alarms = found["alarms"]
    if alarms["too_few"]:
        return too_few_words(alarms)
    below = f"A score below {found['threshold']:.4g} is an anomaly"
    if alarms["long_run"] is None:
        return f"{below}."
    sure, about = alarms["confidence"], "about"
    if sure is not None:
        about = f"with a probability of {per_cent(sure)}, at most"
    return (
        f"{below}; {about} {per_cent(alarms['asked'])} of all normal rows will be (95 % interval "
        f"{per_cent_range(*alarms['long_run'])}, by a calibration with "
        f"{alarms['calibration_rows']:,} rows)."
    )
