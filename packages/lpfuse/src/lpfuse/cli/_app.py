"""The root of the command line."""

from __future__ import annotations

from collections.abc import Callable

import typer

from lpfuse.cli import _ask as ask
from lpfuse.cli import _card as card
from lpfuse.cli import _demo as demo
from lpfuse.cli import _fit as fit
from lpfuse.cli import _fuse as fuse
from lpfuse.cli import _recalibrate as recalibrate
from lpfuse.cli import _report as report
from lpfuse.cli import _score as score
from lpfuse.cli import _teach as teach
from lpfuse.cli import _watch as watch
from lpfuse.cli._plugins import add_plugins
from lpfuse.cli.console import Json, PlainErrors, Quiet, is_quiet, root_options, show_json

app = typer.Typer(
    cls=PlainErrors,
    help="Fuse several anomaly detectors into one, and prove how good the fusion is.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
EXAMPLES: dict[Callable[..., None], str] = {
    fit.fit: "lpfuse fit pumps.csv --label state --normal ok -o pumps.lpfuse",
    score.score: "lpfuse score pumps.lpfuse new.csv -o scores.csv --keep serial",
    fuse.fuse: "lpfuse fuse scores.csv --label fake --normal no --direction knn=anomaly",
    watch.watch: "lpfuse watch pumps.lpfuse live.csv -o verdicts.csv --page status.html",
    report.report: "lpfuse report pumps.lpfuse new.csv -o report.html",
    card.card: "lpfuse card pumps.lpfuse -o card.md",
    ask.ask: "lpfuse ask pumps.lpfuse new.csv -o questions.html",
    teach.teach: "lpfuse teach pumps.lpfuse answers.csv -o better.lpfuse",
    recalibrate.recalibrate: "lpfuse recalibrate pumps.lpfuse june.csv -o june.lpfuse",
    demo.demo: "lpfuse demo -o report.html",
}
for _command, _example in EXAMPLES.items():
    app.command(epilog=f"Example: {_example}")(_command)
add_plugins(app)
app.callback()(root_options)


@app.command(epilog="Example: lpfuse version --quiet")
def version(ctx: typer.Context, as_json: Json = False, quiet: Quiet = False) -> None:
    """Versions of lpfuse and of what it works with; with --quiet, the first number alone."""
    from lpfuse._files import versions

    found = versions()
    if as_json:
        show_json(found)
    elif is_quiet(ctx, quiet):
        typer.echo(found["lpfuse"])
    else:
        typer.echo("\n".join(f"{name} {number}" for name, number in found.items()))
