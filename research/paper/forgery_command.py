"""``lpfuse reproduce forgery``: the paper's second experiment on a copy of FaceForensics++.

The clips are read and measured as ``lpfuse faces evaluate`` does; here the rivals compete, rows are
stored as kinds are done, and the page shows the paper's own figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lpfuse_cli import console
from lpfuse_faces.cli import _options as options
from lpfuse_faces.cli._evaluate import clips_with_splits, features_of, settings_of

Results = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="A .jsonl file that keeps what was measured."
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="Without the rivals that take long.")]


@options.reads_videos
def forgery(
    ctx: typer.Context,
    where: options.Where,
    cache: options.Cache,
    settings: Any,
    quality: options.Qualities = None,
    out: Results = None,
    page: options.Page = None,
    setting: options.Training = "pure,non-pure",
    learners: options.Learners = "svdd,gp,kpca,gmm",
    pooling: options.Pooling = "mean",
    seed: console.Seed = 0,
    quick: Quick = False,
    jobs: options.Jobs = -1,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Forgeries of kinds never seen: ℓp against all rivals, and against the paper's figures."""
    from lpfuse_faces.clips import is_faceforensics
    from research.paper.forgery import FACEFORENSICS, forgery_rows
    from research.paper.forgery_methods import contenders, quick_contenders

    silent = as_json or console.is_quiet(ctx, quiet)
    _check_targets(out, page)
    with console.remarks(silent) as remarks:
        clips = clips_with_splits(where, quality, seed)
        found = features_of(clips, settings, cache, jobs, silent)
        with console.progress("Leaving out", silent) as progress:
            rows = forgery_rows(
                clips,
                found,
                collection=FACEFORENSICS if is_faceforensics(where) else "",
                learners=options.names(learners),
                pooling=options.pooling_of(pooling),
                settings=settings_of(setting),
                methods=quick_contenders if quick else contenders,
                seed=seed,
                path=out,
                n_jobs=jobs,
                progress=progress,
            )
    text = _written_page(rows, page)
    if as_json:
        console.show_json({"rows": rows, "warnings": remarks})
    else:
        console.show(text, silent)
    if not silent:
        for file in filter(None, (out, page)):
            typer.echo(f"Written to {file}.")


def _check_targets(*targets: Path | None) -> None:
    from lpfuse._files import check_writable

    for target in filter(None, targets):
        check_writable(target)


def _written_page(rows: list[dict[str, object]], page: Path | None) -> str:
    from lpfuse._files import replacing, write_errors
    from research.paper.forgery_page import forgery_page

    text = forgery_page(rows)
    if page is not None:
        with write_errors(page.name), replacing(page) as file:
            file.write(text.encode())
    return text
