"""The commands that fit, use and judge models of tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from shlex import quote as in_shell
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lpfuse._files import check_writable, write_errors
from lpfuse._format import brief, printable
from lpfuse._format import quote as in_quotes
from lpfuse_cli import console
from lpfuse_cli import console as options
from lpfuse_cli.console import check_fit_options, check_page, check_there

if TYPE_CHECKING:
    from lpfuse.frames import TableFormat

# --------------------------------------------------------------------------------------------- fit


@options.with_table_options
def fit(
    ctx: typer.Context,
    train: options.Train,
    model: options.NewModel,
    label: options.Label = None,
    normal: options.Normal = None,
    anomaly: options.Anomaly = None,
    detectors: options.Detectors = None,
    p: console.Norm = "auto",
    false_alarm_rate: options.FalseAlarms = 0.05,
    confidence: options.Confidence = None,
    features: options.Features = None,
    drop: options.Drop = None,
    categories: options.Categories = None,
    kinds: options.As = None,
    time: options.Time = None,
    order: options.Order = None,
    sample: options.Sample = None,
    seed: console.Seed = 0,
    key: options.Key = None,
    jobs: options.Processes = 1,
    table: options.TableOptions = options.AS_FOUND,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Fit several detectors to a table and fuse them into one model.

    Prints the labels, the type of each column, and the columns that are dropped, before it starts.

    All rows are held in memory: 200,000 rows of 22 columns, a CSV file of 77 MB, take 1 GB. For
    larger tables, use --sample.
    """
    silent = as_json or console.is_quiet(ctx, quiet)
    check_there(train)
    check_writable(model, [train])
    if sample is not None and (time is not None or order == "time"):
        raise ValueError(
            "--sample draws rows by chance, and rows in time need those before them. Leave "
            "--sample out, or pass the part of the file that counts."
        )
    secret = console.read_key(key)
    with console.remarks(silent) as remarks, console.phases(silent) as phases:
        phases.begin(f"Reading {console.called(train)}")
        names = check_fit_options(p, false_alarm_rate, confidence, detectors, jobs)
        # Late, for it takes seconds: the line above stands by then.
        console.import_scikit_learn()
        import numpy as np

        from lpfuse.ensemble.summary import outcome
        from lpfuse_cli.fitting import fit_table
        from lpfuse_cli.tables import how_prepared, numbered_errors

        phases.restart_clock()
        told = table.format()
        draw = {"most": sample, "label": label, "normal": normal, "anomaly": anomaly}
        draw = {} if sample is None else draw
        numbers: list[int] = []
        formats: list[TableFormat] = []
        hints: list[tuple[str, str]] = []
        reading: dict[str, Any] = {"hints": hints, "progress": phases.stream, "formats": formats}
        frame, rows, drawn = _read(train, draw, seed, numbers, format=told, **reading)

        def show_notes(notes: list[str]) -> None:
            phases.end()
            if not silent:
                print_notes(ctx, train, (rows, frame.width), [*drawn, *notes])
                console.say("  If a column is something else, say so: --as COLUMN=KIND.")
            phases.begin("Fitting")

        phases.begin("Preparing columns")
        with (
            nullcontext() if jobs == 1 else console.exit_on_signals(),
            numbered_errors(lambda: numbers, hints),
        ):
            fitted = fit_table(
                frame,
                label=label,
                normal=normal,
                anomaly=anomaly,
                detectors=names,
                p=p,
                false_alarm_rate=false_alarm_rate,
                confidence=confidence,
                features=features or (),
                drop=drop or (),
                categories=categories or (),
                kinds=options.parse_kinds(kinds),
                decimal=_settled_decimal(told, formats),
                time=time,
                order=order,
                look_for_time=sample is None,
                random_state=seed,
                n_jobs=jobs,
                progress=phases.progress,
                show_notes=show_notes,
            )
        made = how_prepared(fitted)
        made.told, made.format = (*drawn, *made.told), told
        made.row_numbers = np.array(numbers)
        phases.begin(f"Writing {console.called(model)}")
        found = _with_promise(fitted, outcome(fitted))
        with write_errors(model.name):
            fitted.save(model, key=secret)
    if as_json:
        notes = {"notes": fitted.notes_, "warnings": remarks}
        told_of = {"features": made.feature_names, "columns": fitted.columns_}
        console.show_json({"model": str(model), **told_of, **found, **notes})
    elif not silent:
        console.show(f"\n{console.weights_table(found)}", False)
        typer.echo(f"\n{conclusion(found)}")
        console.say(f"\nSaved {model}. Next: lpfuse score {model} DATA -o scores.csv")


def _read(
    source: str, draw: dict[str, Any], seed: int, numbers: list[int], **options: Any
) -> tuple[Any, int, list[str]]:
    """Read the training rows; return them, how many there are in the file, and notes.

    `numbers` gets those of the rows.
    """
    from lpfuse_cli.tables import read_sample, read_table

    notes: list[str] = []
    if not draw:
        frame = read_table(source, notes=notes, numbers=numbers, **options)
        return frame, frame.height, notes
    frame, rows = read_sample(source, **draw, seed=seed, notes=notes, numbers=numbers, **options)
    drawn = f"Sample: {frame.height:,} of {rows:,} rows, drawn by chance"
    most = draw["most"] // 2
    taken = "" if draw["label"] is None else f"; of anomalies all, up to {most:,}"
    return frame, rows, [*notes, *([f"{drawn}{taken}."] if frame.height < rows else [])]


def _settled_decimal(told: TableFormat, formats: list[TableFormat]) -> str | None:
    """Return the decimal sign of cells that were read: a point, where that leaves no doubt."""
    is_settled = told.decimal is not None or any(each.decimal == "," for each in formats)
    return "." if is_settled else None


def print_notes(ctx: typer.Context, source: str, shape: tuple[int, int], notes: list[str]) -> None:
    """Say what a table was taken for."""
    from lpfuse._validation.params import counted

    console.say(f"{source}: {counted(shape[0], 'row')}, {counted(shape[1], 'column')}")
    for note in notes:
        about, _, rest = console.in_options(note, console.options_of(ctx.command)).partition(":")
        typer.echo(f"  {typer.style(printable(about), bold=True)}:{printable(rest)}")


def _with_promise(fused: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Add what is promised where rows come in time, or look as if they did."""
    alarms, order = {**found["alarms"], "promise": "", "adaptive": False}, fused.order_
    if order.order == "time" or order.because:
        from lpfuse_cli.alarms import asked_rate

        alarms = asked_rate(fused)
    return {**found, "alarms": alarms}


UNSEEN = "AUC: of rows that neither the detectors nor the weights had seen."
UNSEEN_BY_WEIGHTS = (
    "AUC: of rows that the weights had not seen; whether the tools that made the scores had seen "
    "them is not known here."
)


def conclusion(found: dict[str, Any], unseen: str = UNSEEN) -> str:
    """Say what was learnt from which rows, and what the threshold promises."""
    lines = list(found["sentences"])
    if found["auc"]:
        lines.append(unseen)
    return "\n".join([*lines, threshold_words(found)])


def threshold_words(found: dict[str, Any]) -> str:
    """Describe the false alarms to expect, or why there is no threshold."""
    from lpfuse._format import per_cent, per_cent_range
    from lpfuse_cli.alarms import describe_level, describe_shortage

    alarms = found["alarms"]
    if alarms["too_few"]:
        return describe_shortage(alarms)
    below = f"A score below {found['threshold']:.4g} is an anomaly"
    below = describe_level(alarms["asked"]) if alarms["adaptive"] else below
    if alarms["long_run"] is None:
        return f"{below}. {alarms['promise']}".rstrip()
    sure, about = alarms["confidence"], "about"
    if sure is not None:
        about = f"with a probability of {per_cent(sure)}, at most"
    return (
        f"{below}; {about} {per_cent(alarms['asked'])} of all normal rows will be (95 % interval "
        f"{per_cent_range(*alarms['long_run'])}, by a calibration with "
        f"{alarms['calibration_rows']:,} rows)."
    )


# -------------------------------------------------------------------------------------------- fuse

MEANINGS = ("normal", "anomaly")
DOUBT = "Does a high score mean normal there?"  # in every `DirectionWarning`


@options.with_table_options
def fuse(
    ctx: typer.Context,
    scores: options.Scores,
    label: options.Label = None,
    normal: options.Normal = None,
    anomaly: options.Anomaly = None,
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
    table: options.TableOptions = options.AS_FOUND,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Learn certified weights for scores of other tools.

    SCORES has one column per tool. Scores may be missing.
    """
    check_there(scores)
    check_fit_options(p, false_alarm_rate)
    import numpy as np

    from lpfuse.ensemble.summary import outcome
    from lpfuse_cli.fitting import fuse_table
    from lpfuse_cli.scoring import check_kept, score_frame
    from lpfuse_cli.tables import how_prepared, numbered_errors, read_table, table_writer

    silent = as_json or out == options.STANDARD or console.is_quiet(ctx, quiet)
    _check_targets(scores, out, model, as_json)
    secret = console.read_key(key)

    def show_notes(notes: list[str]) -> None:
        if not silent:
            print_notes(ctx, scores, frame.shape, [*written, *notes])
            typer.echo()

    with console.remarks(silent, _say_direction) as remarks:
        told = table.format()
        written: list[str] = []
        numbers: list[int] = []
        formats: list[TableFormat] = []
        hints: list[tuple[str, str]] = []
        frame = read_table(
            scores, format=told, notes=written, numbers=numbers, formats=formats, hints=hints
        )
        with numbered_errors(lambda: numbers, hints):
            fitted = fuse_table(
                frame,
                label=label,
                normal=normal,
                anomaly=anomaly,
                high=parse_directions(direction or [], frame.columns),
                p=p,
                false_alarm_rate=false_alarm_rate,
                features=features or (),
                drop=drop or (),
                decimal=_settled_decimal(told, formats),
                random_state=seed,
                show_notes=show_notes,
            )
        made = how_prepared(fitted)
        made.told, made.format = (*written, *made.told), told
        made.row_numbers = np.array(numbers)
        if out is not None:
            kept = check_kept(fitted, keep or (), frame.columns)
            fused = score_frame(fitted, frame, keep=kept)
            with table_writer(out, formulas=formulas) as add:
                add(fused)
    if model is not None:
        with write_errors(model.name):
            fitted.save(model, key=secret)
    found = _with_promise(fitted, outcome(fitted))
    if as_json:
        console.show_json({**found, "notes": fitted.notes_, "warnings": remarks})
    elif out != options.STANDARD:
        console.show(console.weights_table(found), silent)
    if not silent:
        _conclude(found, remarks, [out, model])


def _check_targets(scores: str, out: str | None, model: Path | None, as_json: bool) -> None:
    """Refuse, before any work, files that cannot be written."""
    from lpfuse_cli.tables import check_table_target

    if as_json and out == options.STANDARD:
        raise ValueError("--json and -o - both want standard output. Write the scores to a file.")
    if out is not None:
        check_table_target(out, [scores])
    if model is not None:
        check_writable(model, [scores])


def _conclude(found: dict[str, Any], remarks: list[str], files: list[Any]) -> None:
    """Print the conclusion, likely wrong directions, and the files written."""
    typer.echo(f"\n{conclusion(found, UNSEEN_BY_WEIGHTS)}")
    for name in reversed_columns(found, remarks):
        hint = f"--direction {in_shell(f'{name}=anomaly')}"
        console.say(f"If high scores of {in_quotes(name)} mean anomaly, say so: {hint}")
    for file in filter(None, files):
        console.say(f"Written to {file}.")


def _say_direction(remark: str) -> str:
    """Say in a warning of columns that seem reversed how the command turns them."""
    seen, doubt, _ = remark.partition(DOUBT)
    return f"{seen}{doubt} If not, say --direction COLUMN=anomaly." if doubt else remark


def reversed_columns(found: dict[str, Any], remarks: list[str]) -> list[str]:
    """Columns that a warning calls turned round: their names stand at its beginning."""
    told = [remark.partition(" (")[0] for remark in remarks if DOUBT in remark]
    return [name for name in found["weights"] if any(repr(name) in names for names in told)]


def parse_directions(given: list[str], columns: list[str]) -> dict[str, str]:
    """Parse what high scores mean, by column.

    Examples
    --------
    >>> parse_directions(["anomaly", "b=normal"], ["a", "b"])
    {'a': 'anomaly', 'b': 'normal'}
    """
    from lpfuse.frames.cells import check_names

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


# ------------------------------------------------------------------------------------------- score


@options.with_table_options
def score(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model file of `lpfuse fit`.")],
    data: options.Data,
    out: Annotated[
        str,
        typer.Option(
            *options.OUTPUT,
            metavar="OUT",
            help="A .csv, .xlsx, .parquet or .arrow file; - for CSV on standard output.",
        ),
    ],
    keep: options.KeepOrId = None,
    explain: options.Explain = 0,
    formulas: options.Formulas = False,
    chunk_rows: options.ChunkRows = 10_000,
    jobs: options.Chunks = -1,
    trust: options.Trust = None,
    key: options.Key = None,
    check: options.Check = False,
    table: options.TableOptions = options.AS_FOUND,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Score the rows of a table of any size.

    The output has the id column, score (high = normal), p_value, decision (1 normal, -1 anomaly),
    why (for alarms, the columns farthest outside their usual range) and contribution:NAME of each
    detector; contributions sum to the score. CSV uses the separator and decimal sign of DATA. The
    alarm rate is compared with the expected one.
    """
    silent = as_json or console.is_quiet(ctx, quiet)
    if as_json and out == options.STANDARD:
        raise ValueError("--json and -o - both want standard output. Write the scores to a file.")
    check_there(data, model=model)
    told_of_all = ".* holds texts or units that the training did not"
    with console.remarks(silent, but=told_of_all) as remarks, console.phases(silent) as phases:
        phases.begin(f"Loading {console.called(model)}")
        # Late, for it takes seconds: the line above stands by then.
        console.import_scikit_learn()
        from lpfuse._validation.params import counted
        from lpfuse.frames.preparation import describe_ranges
        from lpfuse_cli.alarms import describe_alarms, differs_from_request
        from lpfuse_cli.scoring import load_model, score_file
        from lpfuse_cli.tables import check_table_target

        check_table_target(out, [model, data])
        secret = console.read_key(key)
        loaded = load_model(model, trust or (), key=secret)
        began = monotonic()
        phases.begin(f"Scoring {console.called(data)}")
        scored = score_file(
            loaded,
            data,
            out,
            format=table.format(),
            keep=None if keep is None else [name for name in keep if name],
            chunk_rows=chunk_rows,
            jobs=None if jobs < 1 else jobs,
            formulas=formulas,
            explain=explain,
            progress=phases.stream,
        )
        seconds = monotonic() - began
    told = [] if scored.alarms is None else describe_alarms(scored.alarms)
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
        for sentence in [*describe_ranges(outside), *told]:
            console.say(sentence, err=True)
        share = scored.anomalies / max(1, scored.rows)
        target = "standard output" if out == options.STANDARD else out
        console.say(
            f"{counted(scored.rows, 'row')} scored in {seconds:.1f} s, {scored.anomalies:,} called "
            f"anomalies ({share:.1%}). Written to {target}.",
            err=True,
        )
    if check and scored.alarms is not None and differs_from_request(scored.alarms):
        raise typer.Exit(options.PARTED)


# ------------------------------------------------------------------------------------------ report

REPORT = Path("report.html")


@options.with_table_options
def report(
    ctx: typer.Context,
    model: options.Model,
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="New rows: a .csv, .parquet, .arrow or .xlsx file. Without DATA the training rows "
            "are used, each scored by fits without it.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            *options.OUTPUT,
            metavar="FILE",
            help="The HTML file to write.",
            show_default=str(REPORT),
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            metavar="COL",
            help="The label column of DATA.",
            show_default="as in fit",
        ),
    ] = None,
    normal: options.Normal = None,
    anomaly: options.Anomaly = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar=options.COLUMN,
            help="Show this column of DATA with each row, such as an id or a time; may be "
            "repeated; '' for none.",
            show_default="the id column",
        ),
    ] = None,
    trust: options.Trust = None,
    key: options.Key = None,
    check: options.Check = False,
    table: options.TableOptions = options.AS_FOUND,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Write an HTML report: alarms, likely false alarms, weights, curves for each p.

    The page is one file and works offline. With --json the figures go to standard output, and the
    page is written only with -o.
    """
    check_there(data, model=model)
    silent = as_json or console.is_quiet(ctx, quiet)
    target = out if out is not None or as_json else REPORT
    if target is not None:
        check_writable(target, [model, *([] if data is None else [data])])
        check_page(target)
    if data is None and (label, normal, anomaly) != (None, None, None):
        raise ValueError(
            "--label, --normal and --anomaly tell what a column of DATA means: name the file."
        )
    if data is None and keep:
        raise ValueError("--keep shows columns of DATA: name the file.")
    with console.remarks(silent), console.phases(silent) as phases:
        phases.begin(f"Loading {console.called(model)}")
        # Late, for it takes seconds: the line above stands by then.
        console.import_scikit_learn()
        from lpfuse_cli.alarms import differs_from_request
        from lpfuse_cli.report import summarise, write_report
        from lpfuse_cli.report.summary import training_numbers
        from lpfuse_cli.scoring import load_detector, model_errors
        from lpfuse_cli.tables import numbered_errors

        loaded = load_detector(model, trust or (), console.read_key(key), "A report")
        told = table.format()
        rows: tuple[Any, ...] = ()
        kept, files = None, {"model": model.name}
        numbers: list[int] = []
        if data is not None:
            labels = (label, normal, anomaly)
            rows, kept = _rows(loaded, data, told, labels, keep, numbers, phases)
            files["data"] = data if data == options.STANDARD else console.called(data)
        judged = f"{len(rows[0]):,} rows" if rows else "the training rows"
        phases.begin(f"Judging {judged}")
        with model_errors(model, "reported on"), numbered_errors(lambda: numbers):
            called = numbers if rows else training_numbers(loaded)
            summary = summarise(loaded, *rows, keep=kept, files=files, numbers=called)
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
    if check and differs_from_request(summary["alarms"]):
        raise typer.Exit(options.PARTED)


def _told(summary: dict[str, Any]) -> str:
    """Return the sentences of the page: overview, next steps, evidence."""
    first, words = summary["overview"], summary["words"]
    steps = [f"  {step}" for step in first["next"]]
    rest = [*summary["remarks"], *words["alarms"], *words["fusing"]]
    return "\n".join([*first["sentences"], "", "Next", *steps, "", *rest])


def _rows(
    model: Any,
    data: str,
    told: Any,
    labels: tuple[str | None, list[str] | None, list[str] | None],
    keep: Sequence[str] | None,
    numbers: list[int],
    phases: console.Phases,
) -> tuple[tuple[Any, Any], Any]:
    """Rows as `summarise` takes them with their labels, and the columns to show.

    `numbers` gets those of the rows. Without columns to show, the one that names the rows is shown.
    """
    from lpfuse._validation.params import Labels
    from lpfuse.frames.cells import check_names
    from lpfuse_cli.scoring import id_column, rows_of
    from lpfuse_cli.tables import numbered_errors, read_table, split_labels

    phases.begin(f"Reading {console.called(data)}")
    made = model.preparation_
    known = told if made is None else made.format
    hints: list[tuple[str, str]] = []
    reading: dict[str, Any] = {"numbers": numbers, "hints": hints, "progress": phases.stream}
    frame = read_table(data, format=told | known, **reading)
    y = None
    if frame.height == 0:
        raise ValueError(f"{data} has no rows to judge by.")
    if keep is None:
        keep = [] if made is None else id_column(made, (), frame.columns)
    with numbered_errors(lambda: numbers, hints):
        names = check_names([name for name in keep if name], frame.columns)
        kept = frame.select(names) if names else None
        if made is not None:
            made.check(frame.columns)
        if labels != (None, None, None):
            frame, signs, *_ = split_labels(frame, *labels)
            y = Labels(signs, {}, [])
        return (frame if made is not None else rows_of(model, frame), y), kept


# -------------------------------------------------------------------------------------------- card

CARD = Path("card.md")


def card(
    ctx: typer.Context,
    model: options.Model,
    out: Annotated[
        Path, typer.Option(*options.OUTPUT, metavar="FILE", help="The Markdown file to write.")
    ] = CARD,
    title: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Title of the card.", show_default="the name of MODEL"),
    ] = None,
    use: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Intended use of the model.",
            show_default="not stated",
        ),
    ] = None,
    trust: options.Trust = None,
    key: options.Key = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Write a model card: data, weights and certificate, calibration, measurements, limits."""
    check_there(None, model=model)
    check_writable(out, [model])
    check_page(out, (".md", ".markdown", ".txt"))
    silent = as_json or console.is_quiet(ctx, quiet)
    with console.remarks(silent), console.phases(silent) as phases:
        phases.begin(f"Loading {console.called(model)}")
        # Late, for it takes seconds: the line above stands by then.
        console.import_scikit_learn()
        from lpfuse_cli.report import write_card
        from lpfuse_cli.scoring import load_detector, model_errors

        loaded = load_detector(model, trust or (), console.read_key(key), "A card")
        phases.begin(f"Judging the training rows, writing {console.called(out)}")
        with model_errors(model, "put on a card"), write_errors(out.name):
            write_card(loaded, out, title=title or f"Model card of {model.name}", use=use)
    if as_json:
        console.show_json({"card": str(out)})
    elif silent:
        typer.echo(out)
    else:
        console.say(f"Written to {out}.")


# ------------------------------------------------------------------------------------------- audit

UNPROVEN = (
    "The proof is about the weights: no others fit the scores of the training rows better. It does "
    "not say that an alarm is right, or that new rows are like those of the training."
)


def audit(
    ctx: typer.Context,
    model: options.Model,
    trust: options.Trust = None,
    key: options.Key = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Verify the certificate of a model's weights, and state what is guaranteed for its alarms.

    The certificate is recomputed by code that is independent of the solver. Exit code 3 means that
    it does not hold.
    """
    check_there(None, model=model)
    silent = as_json or console.is_quiet(ctx, quiet)
    with console.remarks(silent) as remarks, console.phases(silent) as phases:
        phases.begin(f"Loading {console.called(model)}")
        # Late, for it takes seconds: the line above stands by then.
        console.import_scikit_learn()
        from lpfuse import verify
        from lpfuse_cli.alarms import asked_rate
        from lpfuse_cli.scoring import load_detector, model_errors

        loaded = load_detector(model, trust or (), console.read_key(key), "An audit")
        phases.begin("Checking the proof")
        with model_errors(model, "audited"):
            promise = threshold_words(
                {"alarms": asked_rate(loaded), "threshold": float(loaded.offset_)}
            )
            proof = None if loaded.certificate_ is None else verify(loaded)
    holds = None if proof is None else proof.holds
    told = "The fusion came without a certificate: there is no proof to check."
    sentence = told if proof is None else proof.sentence()
    if as_json:
        proven = {"holds": holds, "sentence": sentence}
        words = {"promise": promise, "limits": UNPROVEN, "warnings": remarks}
        console.show_json({"model": str(model), "proof": proven, **words})
    elif silent:
        typer.echo(sentence)
    else:
        console.say(f"{sentence}\n{UNPROVEN}\n{promise}")
    if holds is False:
        raise typer.Exit(options.PARTED)


# --------------------------------------------------------------------------------------------- ask

QUESTIONS = Path("questions.html")


@options.with_table_options
def ask(
    ctx: typer.Context,
    model: options.Model,
    data: options.Data,
    out: Annotated[
        Path, typer.Option(*options.OUTPUT, metavar="FILE", help="The HTML file to write.")
    ] = QUESTIONS,
    questions: Annotated[
        int,
        typer.Option("--questions", "-n", min=1, metavar=options.INT, help="Number of questions."),
    ] = 10,
    seed: console.Seed = 0,
    trust: options.Trust = None,
    key: options.Key = None,
    table: options.TableOptions = options.AS_FOUND,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Write a page that asks a person to label the most informative rows.

    The page is one HTML file, works offline, and contains only the rows that it asks about. It
    exports the answers as CSV for `lpfuse teach`.
    """
    check_there(data, model=model)
    from lpfuse_cli.report import ask, write_questions
    from lpfuse_cli.scoring import load_detector, model_errors
    from lpfuse_cli.tables import numbered_errors, read_table

    silent = as_json or console.is_quiet(ctx, quiet)
    check_writable(out, [model, data])
    check_page(out)
    with console.remarks(silent) as remarks:
        loaded = load_detector(model, trust or (), console.read_key(key), "A question")
        told = table.format()
        made = loaded.preparation_
        numbers: list[int] = []
        known = told if made is None else told | made.format
        hints: list[tuple[str, str]] = []
        frame = read_table(data, format=known, numbers=numbers, hints=hints)
        if frame.height == 0:
            raise ValueError(f"{data} has no rows to ask about.")
        with model_errors(model, "asked about"), numbered_errors(lambda: numbers, hints):
            found = ask(loaded, frame, questions, numbers=numbers, random_state=seed)
    with write_errors(out.name):
        write_questions(found, out)
    asked = [question["row"] for question in found["questions"]]
    if as_json:
        chances = [question["chance"] for question in found["questions"]]
        told = {"output": str(out), "rows": asked, "chances": chances, "warnings": remarks}
        console.show_json(told)
    elif silent:
        typer.echo(out)
    else:
        fewer = "; there are no more to ask about" if len(asked) < questions else ""
        console.say(f"{len(asked):,} of {found['rows']:,} rows are asked about{fewer}.")
        labels = None if made is None else made.labels(frame)
        known = 0 if labels is None else sum(labels[numbers.index(row)] != 0 for row in asked)
        if known:
            console.say(
                f"{known:,} of them {'has' if known == 1 else 'have'} a label in {data} already, "
                f"which is not shown. To learn from the labels instead: lpfuse teach {model} {data}"
                f" --label {in_shell(str(made.label))} -o MODEL"
            )
        console.say(
            f"Written to {out}. Open it in a browser, answer, and export the answers. Next: lpfuse "
            f"teach {model} answers.csv -o MODEL"
        )


# ------------------------------------------------------------------------------------------- teach


@options.with_table_options
def teach(
    ctx: typer.Context,
    model: options.Model,
    answers: Annotated[
        str,
        typer.Argument(
            metavar="ANSWERS",
            help="The answers exported by the page of `lpfuse ask`; with --label, any table.",
        ),
    ],
    out: options.NewModel,
    label: Annotated[
        str | None,
        typer.Option(
            metavar=options.COLUMN,
            help="The label column; rows with an empty label are ignored.",
            show_default="`answer`, as in exported answers",
        ),
    ] = None,
    normal: options.Normal = None,
    anomaly: options.Anomaly = None,
    trust: options.Trust = None,
    key: options.Key = None,
    table: options.TableOptions = options.AS_FOUND,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Learn from answers: refit weights, threshold and experts, keep the other detectors.

    Prints how the weights changed and, for answers to `lpfuse ask`, how good the new model
    is. Labels have the same meaning as in `lpfuse fit`, unless --normal or --anomaly is given.
    """
    if label is None and (normal or anomaly):
        raise ValueError(
            "--normal and --anomaly say what labels mean, but not in which column. Name it: --label"
        )
    check_there(answers, model=model)
    from lpfuse._validation.params import Labels, counted
    from lpfuse_cli.report.questions import read_answers, read_labelled
    from lpfuse_cli.scoring import load_detector, model_errors, rows_of
    from lpfuse_cli.tables import numbered_errors

    silent = as_json or console.is_quiet(ctx, quiet)
    check_writable(out, [model, answers])
    secret = console.read_key(key)
    with console.remarks(silent) as remarks:
        loaded = load_detector(model, trust or (), secret, "Teaching")
        told = table.format()
        found = (
            read_answers(answers, told)
            if label is None
            else read_labelled(loaded, answers, label, normal, anomaly, told)
        )
        if loaded.windows_ is not None and found.features is None:
            raise ValueError(
                f"{model} judges rows by those before them, which answers alone do not hold. Enter "
                f"the answers in a column of the table of all rows, then: lpfuse teach {model} "
                "TABLE --label COLUMN -o MODEL"
            )
        before = _weights(loaded)
        with model_errors(model, "taught"), numbered_errors(lambda: found.numbers):
            signs = Labels(found.y, {}, [])
            rows = rows_of(loaded, found.rows) if found.features is None else found.features
            loaded.teach(rows, signs, chances=found.chances)
            # Labels from elsewhere alone say nothing of rows that nobody looked at.
            asked = bool((found.chances == found.chances).any())
            audit = loaded.audit_answers() if asked else None
    with write_errors(out.name):
        loaded.save(out, key=secret)
    after, n_normal = _weights(loaded), int((found.y > 0).sum())
    counts = {"normal": n_normal, "anomalies": len(found.y) - n_normal, "left_out": found.undecided}
    if as_json:
        weights = {"before": before, "after": after}
        told = {
            "answers": counts,
            "weights": weights,
            "audit": audit and _plain(audit),
            "notes": [found.note] if found.note else [],
            "warnings": remarks,
        }
        console.show_json({"model": str(out), **told})
    elif not silent:
        console.say(
            found.note
            or f"{counted(len(found.y), 'answer')}: {n_normal:,} normal, {counts['anomalies']:,} "
            f"anomalies; left out as unknown: {found.undecided:,}."
        )
        if after:
            console.show(f"\n{_changes(before, after)}", False)
        said = "No row was asked about with a known chance: there is no audit."
        console.say(f"\n{audit.summary() if audit else said}\n\nSaved {out}.")


def _plain(audit: Any) -> dict[str, Any]:
    """Convert an audit to JSON values: each estimate with its ends by name."""
    values = {field.name: getattr(audit, field.name) for field in fields(audit)}
    return {key: v._asdict() if hasattr(v, "_asdict") else v for key, v in values.items()}


def _weights(fused: Any) -> dict[str, float]:
    """Of each detector, as far as the fusion has them."""
    weights = getattr(fused, "weights_", ())
    return dict(zip(fused.detector_names_, map(float, weights), strict=False))


def _changes(before: dict[str, float], after: dict[str, float]) -> str:
    """Tabulate old and new weights, the largest new ones first; an expert may be new."""
    names = sorted({**before, **after}, key=lambda name: -after.get(name, 0.0))
    cells = [
        [f"{weights[name]:.3f}" if name in weights else "" for weights in (before, after)]
        for name in names
    ]
    rows = [[name, *pair] for name, pair in zip(names, cells, strict=True)]
    return console.table(["detector", "weight before", "after"], rows)


# ------------------------------------------------------------------------------------- recalibrate


@options.with_table_options
def recalibrate(
    ctx: typer.Context,
    model: options.Model,
    data: options.Data,
    out: options.NewModel,
    trust: options.Trust = None,
    key: options.Key = None,
    table: options.TableOptions = options.AS_FOUND,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Move threshold, p-values and scale to current normal rows.

    Detectors and weights are kept. DATA should be normal rows that are not training rows; labelled
    anomalies are left out. Prints the share of flagged rows before and after, and the guarantee for
    false alarms.
    """
    check_there(data, model=model)
    from lpfuse._format import per_cent
    from lpfuse.threshold import calibration_promise
    from lpfuse_cli.alarms import describe_promise
    from lpfuse_cli.scoring import load_detector, model_errors, normal_rows
    from lpfuse_cli.tables import numbered_errors, read_table

    silent = as_json or console.is_quiet(ctx, quiet)
    check_writable(out, [model, data])
    secret = console.read_key(key)
    with console.remarks(silent) as remarks:
        loaded = load_detector(model, trust or (), secret, "Recalibrating")
        told = table.format()
        made = loaded.preparation_
        numbers: list[int] = []
        known = told if made is None else told | made.format
        frame = read_table(data, format=known, numbers=numbers)
        with model_errors(model, "recalibrated"), numbered_errors(lambda: numbers):
            rows = normal_rows(loaded, frame)
            before = _flagged(loaded, rows)
            loaded.recalibrate(rows)
            after = _flagged(loaded, rows)
            if made is not None:
                later = f"threshold, p-values and scale are those of {len(rows):,} later rows"
                made.told = (*made.told, f"Recalibrated: {later}.")
    with write_errors(out.name):
        loaded.save(out, key=secret)
    n = len(loaded.calibration_)
    promise = describe_promise(loaded)
    if not promise:
        promise = calibration_promise(n, loaded.false_alarm_rate, loaded.confidence).sentence()
    if as_json:
        flagged = {"before": before, "after": after}
        found = {"rows": len(frame), "calibration_rows": n, "flagged": flagged, "promise": promise}
        console.show_json({"model": str(out), **found, "warnings": remarks})
    elif not silent:
        console.say(
            f"Of these {len(rows):,} rows, {per_cent(before)} were called anomalies before, and "
            f"{per_cent(after)} are now. {promise}"
        )
        console.say(f"Saved {out}.")


def _flagged(fused: Any, rows: Any) -> float:
    """Return the share of rows that are called anomalies; a row without a score is."""
    return float((~(fused.decision_function(rows) >= 0)).mean())
