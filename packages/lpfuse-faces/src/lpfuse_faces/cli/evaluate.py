"""``lpfuse faces evaluate``: forgeries of a kind that was never seen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lpfuse.cli import console
from lpfuse.cli._fit import Seed
from lpfuse_faces.cli import reading
from lpfuse_faces.cli.train import Learners, Pooling, pooling_of

if TYPE_CHECKING:
    from lpfuse_faces.clips import Clip
    from lpfuse_faces.features import Settings, VideoFeatures
    from research.common.protocol import Setting


def evaluate(
    ctx: typer.Context,
    where: reading.Where,
    cache: reading.Cache,
    quality: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Which compressions, with commas, each by itself.",
            show_default="all that there are",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="A .jsonl file that keeps what was measured."
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .md file for all tables.")
    ] = None,
    setting: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="pure: genuine clips alone teach; non-pure: other kinds do too."
        ),
    ] = "pure,non-pure",
    learners: Learners = "svdd,gp,kpca,gmm",
    pooling: Pooling = "mean",
    seed: Seed = 0,
    frames: reading.Frames = None,
    every: reading.Every = None,
    features: reading.Features = "azimuthal",
    weights: reading.Weights = None,
    min_face: reading.MinFace = 40,
    face: reading.Which = "tracked",
    jobs: reading.Jobs = -1,
    device: reading.Device = "cpu",
    precision: reading.Precision = "float32",
    detector_weights: reading.DetectorWeights = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Leave each kind of forgery out of the training, and see whether it is found.

    The paper's experiment; for FaceForensics++ the paper's own figures stand beside. Splits are the
    official ones, those of clips.csv, or drawn: nobody is in two of them.
    """
    from lpfuse.tables._writing import check_target, said
    from lpfuse_faces.faceforensics import is_root
    from research.common.store import write_whole
    from research.paper.forgery import FACEFORENSICS, leave_one_manipulation_out
    from research.paper.forgery_page import forgery_page

    silent = as_json or console.is_quiet(ctx, quiet)
    for target in filter(None, (out, page)):
        check_target(target)
    wishes = reading.Wishes(
        frames, every, features, weights, min_face, face, device, precision, detector_weights
    )
    settings = wishes.settings()
    with console.remarks(silent) as remarks:
        clips = _clips(where, quality, seed)
        found: dict[Path, VideoFeatures] = {}
        for name in dict.fromkeys(clip.quality for clip in clips):
            some = [clip for clip in clips if clip.quality == name]
            found |= _features(some, settings, cache, jobs, silent)
        with console.progress("Leaving out", silent) as progress:
            rows = leave_one_manipulation_out(
                clips,
                found,
                collection=FACEFORENSICS if is_root(where) else "",
                learners=reading.names(learners),
                pooling=pooling_of(pooling),
                settings=_settings(setting),
                seed=seed,
                path=out,
                n_jobs=jobs,
                progress=progress,
            )
    text = forgery_page(rows)
    if page is not None:
        with said(page.name):
            write_whole(page, text)
    if as_json:
        console.show_json({"rows": rows, "warnings": remarks})
    else:
        console.show(text, silent)
    if not silent:
        for file in filter(None, (out, page)):
            typer.echo(f"Written to {file}.")


def _clips(where: Path, quality: str | None, seed: int) -> list[Clip]:
    """The clips of all qualities, with splits: only training clips may set anything."""
    from lpfuse_faces.clips import qualities, read_clips, with_splits

    wanted: list[str | None] = [*(reading.names(quality) if quality else qualities(where))]
    clips = [clip for name in wanted or [None] for clip in read_clips(where, quality=name)]
    return with_splits(clips, seed) if all(clip.split is None for clip in clips) else clips


def _features(
    clips: list[Clip], settings: Settings, cache: Path, jobs: int, silent: bool
) -> dict[Path, VideoFeatures]:
    """Of the clips of one quality; they set the range of spectra for themselves."""
    done = reading.extract_clips(clips, settings, cache, jobs, silent)
    reading.tell_skipped(done, silent)
    return dict(done.extraction.features)


def _settings(text: str) -> list[Setting]:
    from lpfuse._checks.parameters import check_choice
    from research.common.protocol import SETTINGS

    chosen = reading.names(text)
    for name in chosen or [text]:
        check_choice("--setting", name, SETTINGS)
    return [name for name in SETTINGS if name in chosen]
