"""``lpfuse faces train``: from clips to a model."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lpfuse.cli import console
from lpfuse.cli._fit import Norm, Seed, weights_table
from lpfuse_faces.cli import reading

if TYPE_CHECKING:
    from lpfuse_faces.clips import Clip
    from lpfuse_faces.detector import VideoDetector

MOST_EXPERTS = 12
FEW_PEOPLE = 10
Learners = Annotated[
    str, typer.Option(metavar="NAMES", help="With commas, of svdd, gp, kpca, gmm.")
]
FalseAlarms = Annotated[
    float,
    typer.Option(metavar="FLOAT", help="Share of genuine videos that may be called forged."),
]
Pooling = Annotated[
    str,
    typer.Option(
        metavar="mean|FLOAT", help="A video's score: the mean of its frames', or a quantile."
    ),
]


def train(
    ctx: typer.Context,
    where: reading.Where,
    model: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="The file for the model.")
    ],
    cache: reading.Cache,
    quality: reading.Quality = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="A kind of forgery to leave out; may be repeated."),
    ] = None,
    pure: Annotated[bool, typer.Option("--pure", help="Learn from genuine videos alone.")] = False,
    learners: Learners = "svdd,gp,kpca,gmm",
    p: Norm = "auto",
    false_alarm_rate: FalseAlarms = 0.05,
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
    """Fit experts to genuine videos, learn how far to trust each, set the threshold.

    Clips of a test split are not touched. People are kept together: experts are
    judged on faces that they have not learnt from.
    """
    from lpfuse.tables._writing import check_target, said
    from lpfuse_faces.model import outcome

    silent = as_json or console.is_quiet(ctx, quiet)
    check_target(model)
    wishes = reading.Wishes(
        frames, every, features, weights, min_face, face, device, precision, detector_weights
    )
    options = {
        "learners": reading.names(learners),
        "fusion": _fusion(p),
        "pooling": pooling_of(pooling),
        "false_alarm_rate": false_alarm_rate,
        "random_state": seed,
        "n_jobs": jobs,
    }
    settings = wishes.settings()
    with console.remarks(silent) as remarks:
        every_clip = reading.clips_of(where, quality)
        clips = lessons(every_clip, leave_out or (), pure)
        if not silent:
            introduce(where, every_clip, clips)
        done = reading.extract_clips(clips, settings, cache, jobs, silent)
        reading.tell_skipped(done, silent)
        fitted = fit_model(
            clips, done, options, {"left_out": leave_out or [], "pure": pure}, silent
        )
    with said(model.name):
        fitted.save(model)
    found = outcome(fitted)
    if as_json:
        extracted = {"extraction": done.values, "warnings": remarks}
        console.show_json({"model": str(model), **found, **extracted})
    elif not silent:
        tell_outcome(found)
        typer.echo(
            f"\nSaved {model}. Next: lpfuse faces score VIDEO --model {model} --sheet sheet.html"
        )


def lessons(clips: Sequence[Clip], left_out: Sequence[str], pure: bool) -> list[Clip]:
    """The clips to learn from: labelled, not of the test split, of no kind that is left out."""
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
            "No clip is known to be genuine, and experts learn from genuine ones. Put them into a "
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
    done: reading.Done,
    options: dict[str, Any],
    about: dict[str, Any],
    silent: bool,
) -> VideoDetector:
    """A model of the clips that could be read."""
    from lpfuse_faces.clips import identity_groups
    from lpfuse_faces.detector import VideoDetector
    from lpfuse_faces.model import luggage

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
    detector = VideoDetector(settings=luggage(done.extractor, **about), **options)
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
    console.show(f"\n{weights_table(found, 'expert', MOST_EXPERTS)}", False)
    typer.echo(f"\n{conclusion(found)}")


def conclusion(found: dict[str, Any]) -> str:
    """What was learnt, in sentences."""
    from lpfuse.tables._outcome import proof

    videos = found["learnt_from"]
    lines = [
        f"{len(found['weights'])} experts; weights {proof(found['certificate']['relative_gap'])} "
        f"(p = {found['p']:g}),",
        f"learnt from {videos['genuine']:,} genuine and {videos['forged']:,} forged videos "
        f"({videos['frames']:,} frames).",
    ]
    if found["auc"]:
        lines.append("AUC: of videos whose faces neither the experts nor the weights had seen.")
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


def _fusion(p: str) -> Any:
    """The default fusion with another p; None where it shall be its own."""
    from lpfuse._checks.parameters import check_p
    from lpfuse.ensemble.components import default_fusion

    if p == "auto":
        return None
    try:
        return default_fusion().set_params(p=check_p(float(p)))
    except ValueError as error:
        raise ValueError(f"--p must be auto, or a number from 1 to inf; got {p!r}.") from error


def pooling_of(text: str) -> str | float:
    """The mean, or a quantile."""
    if text == "mean":
        return text
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(
            f"--pooling must be mean, or a quantile such as 0.1; got {text!r}."
        ) from error
