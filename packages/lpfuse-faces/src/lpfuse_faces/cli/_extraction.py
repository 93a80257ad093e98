"""From clips to features on the command line: through the cache, with progress and a summary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

from lpfuse._format import plain
from lpfuse_cli import console

if TYPE_CHECKING:
    from lpfuse_faces import Extractor, Settings
    from lpfuse_faces._extraction import Extraction
    from lpfuse_faces._spectrum import Stretch
    from lpfuse_faces.clips import Clip

# Genuine clips that the range of the spectra is learnt from. By hand: their 256 frames have
# millions of pixels, of which only two quantiles are wanted.
STRETCH_CLIPS = 64
STRETCH_BYTES = 10_000  # more than six numbers and their names ever take


def clips_of(where: Path, quality: str | None) -> list[Clip]:
    """Return the clips of a collection; of several qualities one must be named."""
    from lpfuse_faces.clips import qualities, read_clips

    there = qualities(where) if quality is None else []
    if len(there) > 1:
        raise ValueError(
            f"{where} has clips of several qualities: {', '.join(there)}. Choose one: --quality "
            f"{there[0]}"
        )
    return read_clips(where, quality=quality)


@dataclass(frozen=True)
class FeaturesReport:
    """The features of some clips, by what they were measured, and how long it took."""

    extraction: Extraction
    extractor: Extractor
    seconds: float

    @property
    def values(self) -> dict[str, Any]:
        """For ``--json``."""
        counts = self.extraction.counts.values()
        measured = sum(count.n_frames for count in counts if not count.found)
        return {
            "videos": len(counts) + len(self.extraction.skipped),
            "extracted": sum(not count.found for count in counts),
            "found": sum(count.found for count in counts),
            "skipped": {str(path): why for path, why in self.extraction.skipped.items()},
            "frames": sum(count.n_frames for count in counts),
            "without_face": sum(count.n_frames - count.n_faces for count in counts),
            "videos_without_face": sum(count.n_faces == 0 for count in counts),
            "seconds": round(self.seconds, 3),
            "frames_per_second": round(measured / self.seconds, 1),
            "key": self.extractor.key,
            "random_weights": list(self.extractor.warnings),
        }

    @property
    def words(self) -> str:
        """In two sentences."""
        told = self.values
        ways = [
            (
                told["extracted"],
                f"extracted in {told['seconds']:.1f} s ({told['frames_per_second']:.0f} frames/s)",
            ),
            (told["found"], "found in the cache"),
            (len(told["skipped"]), "skipped"),
        ]
        counted = ", ".join(f"{count:,} {way}" for count, way in ways if count)
        frames = told["frames"]
        line = f"{frames:,} frames looked at, {told['without_face']:,} of them without a face"
        if told["videos_without_face"]:
            line += f"; {told['videos_without_face']:,} videos show no face at all"
        return f"{told['videos']:,} videos: {counted}.\n{line}."


def extract_clips(
    clips: Sequence[Clip],
    settings: Settings,
    cache: Path,
    jobs: int,
    silent: bool,
) -> FeaturesReport:
    """Features of the clips; those in the cache are not measured again."""
    check_cache(cache)
    if settings.networks and settings.stretch is None:
        settings = replace(settings, stretch=_stretch(clips, settings, cache, jobs, silent))
    return extract_with(extractor(settings), [clip.path for clip in clips], cache, jobs, silent)


def extractor(settings: Settings) -> Extractor:
    """Return what measures as the settings say; a missing weight file is told with the remedy."""
    from lpfuse_faces._extractor import Extractor

    try:
        return Extractor(settings)
    except FileNotFoundError as error:
        error.add_note("On the command line: --weights NAME=PATH, or NAME=random.")
        raise


def extract_with(
    measure: Extractor, paths: Sequence[Path], cache: Path | None, jobs: int, silent: bool
) -> FeaturesReport:
    """Return the same with an extractor.

    A batch with broken files goes on, one of nothing else ends.
    """
    from lpfuse_faces._cache import FeatureCache
    from lpfuse_faces._extraction import extract_all

    began = monotonic()
    mark(measure.warnings, silent)
    with console.progress("Extracting", silent) as progress:

        def report(done: int, total: int, path: Path, note: str) -> None:
            if progress is not None and note != "found":  # which tells nothing of the speed
                progress(done, total)

        try:
            found = extract_all(
                paths,
                measure,
                None if cache is None else FeatureCache(cache),
                n_jobs=jobs,
                progress=report,
            )
        except KeyboardInterrupt as stop:
            if cache is not None:
                stop.add_note("The finished videos are kept: the same command goes on from there.")
            raise
    if not found.features:
        path, reason = next(iter(found.skipped.items()))
        several = f"None of {len(found.skipped)} videos could be read: " * (len(found.skipped) > 1)
        raise ValueError(f"{several}{plain(path.name)}: {reason}.")
    return FeaturesReport(found, measure, monotonic() - began)


def check_cache(cache: Path) -> None:
    """Refuse, before any work, a cache that is no folder."""
    if cache.exists() and not cache.is_dir():
        raise ValueError(f"The cache must be a folder, and {str(cache)!r} is a file.")


def mark(warnings: Sequence[str], silent: bool) -> None:
    """Say what every reader of the figures must know."""
    if not silent:
        for text in warnings:
            typer.secho(f"Warning: {text}.", fg="yellow", err=True)


def tell_skipped(done: FeaturesReport, silent: bool) -> None:
    """Return a table of the files that could not be read."""
    skipped = done.extraction.skipped
    if skipped and not silent:
        rows = [[str(path), reason] for path, reason in skipped.items()]
        console.show("\n" + console.table(["skipped", "why"], rows), False)


def _stretch(
    clips: Sequence[Clip], settings: Settings, cache: Path, jobs: int, silent: bool
) -> Stretch:
    """Return the range of the spectra that networks see, learnt once from the same clips."""
    from lpfuse._files import replacing
    from lpfuse_faces._extraction import learn_stretch
    from lpfuse_faces._regular_file import read_regular
    from lpfuse_faces._spectrum import Stretch

    genuine = [clip.path for clip in clips if clip.label == 1 and clip.split in ("train", None)]
    if not genuine:
        raise ValueError(
            f"What {', '.join(settings.networks)} see is scaled by genuine training clips, and "
            "none is known here. Name a collection that says which clips are genuine."
        )
    chosen = genuine[:: -(-len(genuine) // STRETCH_CLIPS)]
    how = extractor(replace(settings, features=("azimuthal",), weights={})).meaning
    content = [_content(path, settings) for path in chosen]
    name = sha256(json.dumps([how, content], sort_keys=True).encode()).hexdigest()[:16]
    place = cache / f"stretch-{name}.json"
    with suppress(OSError, ValueError, TypeError):  # none, or a damaged one: it is learnt again
        return Stretch(**json.loads(read_regular(place, STRETCH_BYTES)))
    at_hand = Stretch(*(dict.fromkeys(settings.regions, end) for end in (0.0, 1.0)))
    extractor(replace(settings, stretch=at_hand))  # a missing file is told before any work
    if not silent:
        typer.echo(f"Learning the range of spectra from {len(chosen)} genuine clips.", err=True)
    found = learn_stretch(chosen, settings, n_jobs=jobs)
    cache.mkdir(parents=True, exist_ok=True)
    with replacing(place) as file:
        file.write(json.dumps({"low": dict(found.low), "high": dict(found.high)}).encode())
    return found


def _content(path: Path, settings: Settings) -> str | None:
    """SHA-256 of a video's content; None of one that cannot be read: nothing is learnt from it."""
    from lpfuse_faces import UnreadableVideo
    from lpfuse_faces._extractor import content_of

    try:
        return content_of(path, settings.limits)
    except UnreadableVideo:
        return None
