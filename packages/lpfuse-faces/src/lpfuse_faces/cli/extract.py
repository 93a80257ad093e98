"""``lpfuse faces extract``: features of videos, into a cache."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lpfuse.cli import console
from lpfuse_faces.cli import reading

if TYPE_CHECKING:
    from lpfuse_faces.clips import Clip


def extract(
    ctx: typer.Context,
    where: Annotated[
        list[Path],
        typer.Argument(
            metavar="WHERE...",
            help="Videos, folders of videos, a clips.csv, a copy of FaceForensics++.",
        ),
    ],
    cache: reading.Cache,
    quality: reading.Quality = None,
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
    """Find the faces of videos and measure their features, once.

    What is in the cache is not read again: after a crash, or with more videos, the same command
    does what is missing. Files that cannot be read are named and skipped.
    """
    silent = as_json or console.is_quiet(ctx, quiet)
    wishes = reading.Wishes(
        frames, every, features, weights, min_face, face, device, precision, detector_weights
    )
    with console.remarks(silent) as remarks:
        clips = _clips(where, quality)
        done = reading.extract_clips(clips, wishes.settings(), cache, jobs, silent)
    if as_json:
        console.show_json({"cache": str(cache), **done.values, "warnings": remarks})
    elif not silent:
        reading.tell_skipped(done, silent)
        typer.echo(f"\n{done.words}\nFeatures are in {cache}, under {done.extractor.key}.")


def _clips(where: list[Path], quality: str | None) -> list[Clip]:
    """All clips of all places, each once."""
    found = [clip for place in where for clip in reading.clips_of(place, quality)]
    return list({clip.path: clip for clip in found}.values())
