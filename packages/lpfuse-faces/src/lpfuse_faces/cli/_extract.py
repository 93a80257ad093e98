"""``lpfuse faces extract``: features of videos, into a cache."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lpfuse_cli import console
from lpfuse_faces.cli import _extraction as extraction
from lpfuse_faces.cli import _options as options

if TYPE_CHECKING:
    from lpfuse_faces.clips import Clip


@options.reads_videos
def extract(
    ctx: typer.Context,
    where: options.Places,
    cache: options.Cache,
    settings: Any,
    quality: options.Quality = None,
    jobs: options.Jobs = -1,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Find the faces of videos and measure their features, once.

    What is in the cache is not read again: after a crash, or with more videos, the same command
    does what is missing. Files that cannot be read are named and skipped.
    """
    silent = as_json or console.is_quiet(ctx, quiet)
    with console.remarks(silent) as remarks:
        clips = _clips(where, quality)
        done = extraction.extract_clips(clips, settings, cache, jobs, silent)
    if as_json:
        console.show_json({"cache": str(cache), **done.values, "warnings": remarks})
    elif not silent:
        extraction.tell_skipped(done, silent)
        typer.echo(f"\n{done.words}\nFeatures are in {cache}, under {done.extractor.key}.")


def _clips(where: list[Path], quality: str | None) -> list[Clip]:
    """Return all clips of all places, each once."""
    found = [clip for place in where for clip in extraction.clips_of(place, quality)]
    return list({clip.path: clip for clip in found}.values())
