"""``lpfuse ask``: a page on which a person says of some rows whether they are normal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lpfuse.cli import _options as options
from lpfuse.cli import console
from lpfuse.cli._early import check_there
from lpfuse.cli._models import load_detector, model_errors

DEFAULT = Path("questions.html")


def ask(
    ctx: typer.Context,
    model: options.Model,
    data: options.Data,
    out: Annotated[Path, typer.Option(*options.OUTPUT, metavar="FILE", help="The page.")] = DEFAULT,
    questions: Annotated[
        int, typer.Option("--questions", "-n", min=1, metavar=options.INT, help="Rows to ask.")
    ] = 10,
    seed: console.Seed = 0,
    trust: options.Trust = None,
    key: options.Key = None,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    quote: options.Quote = None,
    sheet: options.Sheet = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Write a page that asks about rows, those whose answers help most: normal, or an anomaly.

    One file of HTML that needs no network and holds the rows that it asks about, no others. It
    exports the answers as CSV, for `lpfuse teach`.
    """
    check_there(data, model=model)
    from lpfuse._files import check_target, write_errors
    from lpfuse.report import ask, write_questions
    from lpfuse.tables import read_table

    silent = as_json or console.is_quiet(ctx, quiet)
    check_target(out, [model, data])
    with console.remarks(silent) as remarks:
        loaded = load_detector(model, trust or (), key, "A question")
        told = options.table_format(separator, decimal, encoding, quote, sheet)
        frame = read_table(data, format=told | getattr(loaded, "format", told))
        if frame.height == 0:
            raise ValueError(f"{data} has no rows to ask about.")
        with model_errors(model, "asked about"):
            found = ask(loaded, frame, questions, random_state=seed)
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
        console.say(
            f"Written to {out}. Open it in a browser, answer, and export the answers. Next: lpfuse "
            f"teach {model} answers.csv -o MODEL"
        )
