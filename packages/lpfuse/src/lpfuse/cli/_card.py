"""``lpfuse card``: what a model is, what it learnt from, what was measured, in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lpfuse.cli import _options as options
from lpfuse.cli import console
from lpfuse.cli._early import check_there
from lpfuse.cli._models import load_detector, model_errors

DEFAULT = Path("card.md")


def card(
    ctx: typer.Context,
    model: options.Model,
    out: Annotated[Path, typer.Option(*options.OUTPUT, metavar="FILE", help="The card.")] = DEFAULT,
    title: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Its heading.", show_default="the name of MODEL"),
    ] = None,
    use: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="What the model is meant for.",
            show_default="the card says that nobody told",
        ),
    ] = None,
    trust: options.Trust = None,
    key: options.Key = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Write a model card: data, weights and their proof, calibration, measurements, limits."""
    from lpfuse._files import check_target, write_errors

    check_there(None, model=model)
    check_target(out, [model])
    silent = as_json or console.is_quiet(ctx, quiet)
    with console.remarks(silent), console.phases(silent) as phases:
        phases.begin(f"Loading {console.called(model)}")
        # Late, for it takes seconds: the line above stands by then.
        from lpfuse.report import write_card

        loaded = load_detector(model, trust or (), key, "A card")
        phases.begin(f"Judging the training rows, writing {console.called(out)}")
        with model_errors(model, "put on a card"), write_errors(out.name):
            write_card(loaded, out, title=title or f"Model card of {model.name}", use=use)
    if as_json:
        console.show_json({"card": str(out)})
    elif silent:
        typer.echo(out)
    else:
        console.say(f"Written to {out}.")
