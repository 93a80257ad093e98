"""``lpfuse faces evaluate``: forgeries of a kind that was never seen."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from lpfuse_cli import console
from lpfuse_faces.cli import _extraction as extraction
from lpfuse_faces.cli import _options as options

if TYPE_CHECKING:
    from lpfuse_faces import Settings, VideoFeatures
    from lpfuse_faces.clips import Clip
    from lpfuse_faces.evaluation import Row

METRICS = {
    "auc": "AUC of videos in %",
    "accuracy": "accuracy of videos in %",
    "g_mean": "G-mean in %",
    "frame_auc": "AUC of frames in %",
    "frame_accuracy": "accuracy of frames in %",
}
MISSING = "–"


@options.reads_videos
def evaluate(
    ctx: typer.Context,
    where: options.Where,
    cache: options.Cache,
    settings: Any,
    quality: options.Qualities = None,
    out: options.Figures = None,
    page: options.Page = None,
    preset: options.Preset = "default",
    setting: options.Training = "pure,non-pure",
    learners: options.Learners = "svdd,gp,kpca,gmm",
    pooling: options.Pooling = "mean",
    seed: console.Seed = 0,
    jobs: options.Jobs = -1,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Leave each kind of forgery out of the training, and see whether it is found.

    Splits are the official ones of FaceForensics++, those of clips.csv, or drawn: nobody is in two
    of them.
    """
    from lpfuse_faces.cli._preset import check_preset, preset_settings
    from lpfuse_faces.evaluation import LeaveOneManipulationOut

    check_preset(preset)
    silent = as_json or console.is_quiet(ctx, quiet)
    _check_targets(out, page)
    with console.remarks(silent) as remarks:
        settings = preset_settings(preset, ctx, settings)
        clips = clips_with_splits(where, quality, seed)
        found = features_of(clips, settings, cache, jobs, silent)
        with console.progress("Leaving out", silent) as progress:
            experiment = LeaveOneManipulationOut(
                clips,
                found,
                learners=options.names(learners),
                pooling=options.pooling_of(pooling),
                settings=settings_of(setting),
                preset=preset,
                seed=seed,
                n_jobs=jobs,
                progress=progress,
            )
            if preset != "default" and not silent:  # before hours are spent on it
                typer.echo("\n".join(experiment.remarks), err=True)
            rows = [row for cell in experiment.cells for row in experiment.rows(*cell)]
    _write(rows, out, page)
    if as_json:
        console.show_json({"rows": rows, "warnings": remarks})
    else:
        console.show(evaluation_page(rows), silent)
    if not silent:
        for file in filter(None, (out, page)):
            typer.echo(f"Written to {file}.")


def clips_with_splits(where: Path, quality: str | None, seed: int) -> list[Clip]:
    """Return the clips of all qualities, with splits: only training clips may set anything."""
    from lpfuse_faces.clips import qualities, read_clips, with_splits

    wanted: list[str | None] = [*(options.names(quality) if quality else qualities(where))]
    clips = [clip for name in wanted or [None] for clip in read_clips(where, quality=name)]
    return with_splits(clips, seed) if all(clip.split is None for clip in clips) else clips


def features_of(
    clips: list[Clip], settings: Settings, cache: Path, jobs: int, silent: bool
) -> Mapping[Path, VideoFeatures]:
    """Features of all clips, read when they are asked for.

    Those of one quality set the range of spectra for themselves.
    """
    found: ChainMap[Path, VideoFeatures] = ChainMap()
    for name in dict.fromkeys(clip.quality for clip in clips):
        some = [clip for clip in clips if clip.quality == name]
        done = extraction.extract_clips(some, settings, cache, jobs, silent)
        extraction.tell_skipped(done, silent)
        found.maps.append(cast("Any", done.extraction.features))
    return found


def settings_of(text: str) -> list[str]:
    """Return the settings that are named, in their usual order."""
    from lpfuse._validation.params import check_choice
    from lpfuse_faces.evaluation import SETTINGS

    chosen = options.names(text)
    for name in chosen or [text]:
        check_choice("--setting", name, SETTINGS)
    return [name for name in SETTINGS if name in chosen]


def evaluation_page(rows: Sequence[Row]) -> str:
    """For each quality a table of the AUC, and one of the G-mean, of every method on every kind."""
    remarks = dict.fromkeys(text for row in rows for text in row["warnings"])
    parts = [
        "# Forgeries of kinds that were left out of the training",
        "\n".join(f"- {text}" for text in remarks),
    ]
    for quality in dict.fromkeys(row["quality"] for row in rows):
        for metric, title in METRICS.items():
            own = [row for row in rows if (row["quality"], row["metric"]) == (quality, metric)]
            parts += [f"## {quality or 'All clips'}: {title}", figure_table(own)]
    return "\n\n".join(filter(None, parts)) + "\n"


def figure_table(rows: Sequence[Row]) -> str:
    """Methods below each other, in every setting; kinds of forgery side by side.

    Single learners come last. They learn nothing from forgeries, and have one line each.
    """
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    lines: dict[str, dict[str, str]] = {}
    for row in sorted(rows, key=lambda row: row["is_learner"]):
        name = row["method"] if row["is_learner"] else f"{row['method']}, {row['setting']}"
        lines.setdefault(name, {}).setdefault(row["kind"], f"{row['value']:.1f}")
    body = [[name, *(cells.get(kind, MISSING) for kind in kinds)] for name, cells in lines.items()]
    return console.table(["", *kinds], body)


def _check_targets(out: Path | None, page: Path | None) -> None:
    """Refuse, before any work, what could not be written."""
    from lpfuse._files import check_writable
    from lpfuse_cli.tables import check_table_target

    if out is not None:
        check_table_target(out)
    if page is not None:
        check_writable(page)


def _write(rows: Sequence[Row], out: Path | None, page: Path | None) -> None:
    from lpfuse._files import replacing, write_errors
    from lpfuse_cli.tables import table_writer
    from lpfuse_faces._extras import needed

    if out is not None:
        columns = [name for name in rows[0] if name not in ("choices", "warnings")]
        with table_writer(out) as add:
            add(
                needed("polars", "Writing tables", extra="cli").DataFrame(
                    [{name: row[name] for name in columns} for row in rows]
                )
            )
    if page is not None:
        with write_errors(page.name), replacing(page) as file:
            file.write(evaluation_page(rows).encode())
