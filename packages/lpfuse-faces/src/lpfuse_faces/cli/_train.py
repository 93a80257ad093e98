"""``lpfuse faces train``: from clips to a model."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lpfuse_cli import console
from lpfuse_faces.cli import _extraction as extraction
from lpfuse_faces.cli import _options as options

if TYPE_CHECKING:
    from lpfuse_faces._detector import VideoDetector
    from lpfuse_faces.clips import Clip

MOST_LEARNERS = 12  # with a line of their own in the table of weights
FEW_PEOPLE = 10  # fewer get a warning; by hand


@options.reads_videos
def train(
    ctx: typer.Context,
    where: options.Where,
    model: options.NewModel,
    cache: options.Cache,
    settings: Any,
    quality: options.Quality = None,
    leave_out: options.LeaveOut = None,
    pure: options.Pure = False,
    learners: options.Learners = "svdd,gp,kpca,gmm",
    p: console.Norm = "auto",
    false_alarm_rate: options.FalseAlarms = 0.05,
    pooling: options.Pooling = "mean",
    seed: console.Seed = 0,
    jobs: options.Jobs = -1,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Fit learners to genuine videos, learn how far to trust each, set the threshold.

    Clips of a test split are not touched. People are kept together: learners are
    judged on faces that they have not learnt from.
    """
    from lpfuse._files import check_writable, write_errors
    from lpfuse_faces._model_file import summary

    silent = as_json or console.is_quiet(ctx, quiet)
    check_writable(model)
    parameters = {
        "learners": options.names(learners),
        "fusion": options.fusion_of(p),
        "pooling": options.pooling_of(pooling),
        "false_alarm_rate": false_alarm_rate,
        "random_state": seed,
        "n_jobs": jobs,
    }
    with console.remarks(silent) as remarks:
        every_clip = extraction.clips_of(where, quality)
        clips = training_clips(every_clip, leave_out or (), pure)
        if not silent:
            introduce(where, every_clip, clips)
        done = extraction.extract_clips(clips, settings, cache, jobs, silent)
        extraction.tell_skipped(done, silent)
        fitted = fit_model(
            clips, done, parameters, {"left_out": leave_out or [], "pure": pure}, silent
        )
    with write_errors(model.name):
        fitted.save(model)
    found = summary(fitted)
    if as_json:
        extracted = {"extraction": done.values, "warnings": remarks}
        console.show_json({"model": str(model), **found, **extracted})
    elif not silent:
        tell_outcome(found)
        typer.echo(
            f"\nSaved {model}. Next: lpfuse faces score VIDEO --model {model} --sheet sheet.html"
        )


def training_clips(clips: Sequence[Clip], left_out: Sequence[str], pure: bool) -> list[Clip]:
    """Return the clips to learn from.

    Labelled, not of the test split, of no kind that is left out.
    """
    kinds = sorted({clip.kind for clip in clips if clip.kind is not None})
    for kind in left_out:
        if kind not in kinds:
            raise ValueError(
                f"--leave-out {kind}: there is no such kind of forgery, only "
                f"{', '.join(kinds) or 'none'}."
            )
    chosen = [
        clip
        for clip in clips
        if clip.label is not None
        and clip.split != "test"
        and clip.kind not in left_out
        and not (pure and clip.is_forged)
    ]
    if not any(clip.label == 1 for clip in chosen):
        raise ValueError(
            "No clip is known to be genuine, and learners learn from genuine ones. Put them into a "
            "folder `genuine`, or write a clips.csv with the columns path and label."
        )
    return chosen


def introduce(where: Path, clips: Sequence[Clip], chosen: Sequence[Clip]) -> None:
    """Say what there is, and what of it is learnt from."""
    typer.echo(f"{where}: {len(clips):,} clips, {len(chosen):,} to learn from")
    typer.echo(f"  Genuine: {sum(clip.label == 1 for clip in chosen):,}.")
    kinds = Counter(clip.kind for clip in chosen if clip.kind is not None)
    told = ", ".join(f"{kind} {count:,}" for kind, count in sorted(kinds.items()))
    typer.echo(f"  Forged: {told or 'none; the weights learn from genuine ones alone'}.")
    tests = sum(clip.split == "test" for clip in clips)
    if tests:
        typer.echo(f"  Not touched: {tests:,} of the test split.")


def fit_model(
    clips: Sequence[Clip],
    done: extraction.FeaturesReport,
    parameters: dict[str, Any],
    about: dict[str, Any],
    silent: bool,
) -> VideoDetector:
    """Return a model of the clips that could be read."""
    from lpfuse_faces._detector import VideoDetector
    from lpfuse_faces._model_file import model_settings
    from lpfuse_faces.clips import identity_groups

    features = done.extraction.features
    known = [clip for clip in clips if clip.path in features]
    groups = identity_groups(known)
    people = {group for group, clip in zip(groups, known, strict=True) if clip.label == 1}
    if len(people) < FEW_PEOPLE:
        warnings.warn(
            f"The genuine clips are of {len(people)} people or groups that share clips. Who is "
            "judged by what was learnt from so few others looks strange, genuine or not: the "
            "threshold will be too low to find much. Bring clips of more people.",
            UserWarning,
            stacklevel=2,
        )
    detector = VideoDetector(settings=model_settings(done.extractor, **about), **parameters)
    with console.progress("Fitting", silent) as progress:
        return detector.fit(
            [features[clip.path] for clip in known],
            [clip.label for clip in known],
            groups=groups,
            kind=[clip.kind or "genuine" for clip in known],
            progress=progress,
        )


def tell_outcome(found: dict[str, Any]) -> None:
    """Weights, proof, AUC and threshold."""
    console.show(f"\n{console.weights_table(found, 'learner', MOST_LEARNERS)}", False)
    typer.echo(f"\n{conclusion(found)}")


def conclusion(found: dict[str, Any]) -> str:
    """Return what was learnt, in sentences."""
    from lpfuse.ensemble.components import proof

    videos = found["learnt_from"]
    lines = [
        f"{len(found['weights'])} learners; weights {proof(found['certificate']['relative_gap'])} "
        f"(p = {found['p']:g}),",
        f"learnt from {videos['genuine']:,} genuine and {videos['forged']:,} forged videos "
        f"({videos['frames']:,} frames).",
    ]
    if found["auc"]:
        lines.append("AUC: of videos whose faces neither the learners nor the weights had seen.")
    rate = f"{100 * found['false_alarm_rate']:.3g} %"
    if isfinite(found["threshold"]):
        below = f"A video that scores below {found['threshold']:.4g} is called forged"
        lines.append(f"{below}; about {rate} of genuine ones will be.")
    else:
        lines.append(
            f"No video will be called forged: for {rate} false alarms, the genuine ones are too "
            "few."
        )
    lines += [f"Beware: {text}." for text in found["random_weights"]]
    return "\n".join(lines)
