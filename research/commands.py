"""``lpfuse reproduce``: the paper's experiments, each a command."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lpfuse_cli import console
from research.paper.forgery_command import forgery

if TYPE_CHECKING:
    from research.common.options import Options

app = typer.Typer(
    help="Run the paper's experiments, and print our figures beside the paper's.",
    no_args_is_help=True,
)

# A command is the function `run` of the module of the same name in `research.paper`.
EXPERIMENTS = {
    "uci": "AUC and G-mean of all methods on the ten UCI sets, pure and non-pure.",
    "lp-effect": "What the norm does: ℓ2, ℓ∞ and the chosen ℓp.",
    "loss": "The hinge loss against least squares.",
    "weights": "The weights for several p, and the whole path.",
    "speed": "Time to a certified gap, against general solvers.",
    "contamination": "Anomalies that hide among the training rows.",
    "labels": "How many labelled anomalies help how much.",
    "related": "Stacks of SVDDs, rules for missing cells, one-class experts of many classes.",
    "readings": "Every reading of what the paper leaves open, and its distance to the paper.",
    "claims": "Each claim of the paper, with our verdict.",
}

RESULTS = Path("results")
PUBLISHED = Path(__file__).parent / "results" / "paper"
Out = Annotated[
    Path | None,
    typer.Option(
        help="Folder for results.",
        file_okay=False,
        show_default="results; with --show, the published ones where that has none",
    ),
]
Pages = Annotated[
    Path | None,
    typer.Option(
        help="Folder for pages and figures.", file_okay=False, show_default="that of --out"
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder with the data sets.", envvar="LPFUSE_DATA", exists=True, file_okay=False
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", min=-1, help="Processes; -1: all cores.")]
Seeds = Annotated[int, typer.Option(min=1, help="Number of random splits.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer splits, thinner grids: minutes.")]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME|PATH",
        help="A data set, by name or as a CSV or Parquet file; may be repeated.",
        show_default="those of the paper",
    ),
]
Label = Annotated[str | None, typer.Option(help="Of your own file: the column with the classes.")]
Normal = Annotated[str | None, typer.Option(help="Of your own file: the class that is normal.")]
Show = Annotated[bool, typer.Option("--show", help="Print what is stored; measure nothing.")]


def _add_command(name: str, about: str, experiments: list[str]) -> None:
    @app.command(name, help=about, epilog=f"Example: lpfuse reproduce {name} --quick --jobs 2")
    def command(
        ctx: typer.Context,
        out: Out = None,
        pages: Pages = None,
        data: Data = None,
        jobs: Jobs = -1,
        seeds: Seeds = 10,
        quick: Quick = False,
        sets: Sets = None,
        label: Label = None,
        normal: Normal = None,
        show: Show = False,
        quiet: console.Quiet = False,
    ) -> None:
        from research.common.options import Options

        if out is None and show and not any(RESULTS.glob("*.jsonl")):
            out, pages = PUBLISHED, pages or RESULTS  # pages never go among these
        out = out or RESULTS
        _run(
            experiments,
            Options(out, data, jobs, seeds, quick, tuple(sets or ()), label, normal, show, pages),
            console.is_quiet(ctx, quiet),
        )


for _name, _about in EXPERIMENTS.items():
    _add_command(_name, _about, [_name])
_add_command("all", "All of the above, one after another.", list(EXPERIMENTS))
# Its data cannot be fetched, so it is told where they are, and is not among "all".
app.command(epilog="Example: lpfuse reproduce forgery FaceForensics++ --cache features")(forgery)


def _run(experiments: list[str], options: Options, quiet: bool) -> None:
    """Print each experiment; of several, those that lack an extra or data are left out."""
    left_out = []
    for name in experiments:
        try:
            module = import_module(f"research.paper.{name.replace('-', '_')}")
            with console.progress(name, quiet) as progress:
                text = module.run(replace(options, progress=progress))
        except (ImportError, FileNotFoundError) as error:
            if len(experiments) == 1 or console.exit_code(error) is None:
                raise
            error.add_note(f"So {name} is left out.")
            console.complain(error)
            left_out.append(name)
        except KeyboardInterrupt as stop:
            stop.add_note("The finished splits are kept: the same command goes on from there.")
            raise
        else:
            console.show(text, quiet)
    if left_out:
        raise typer.Exit(2)
