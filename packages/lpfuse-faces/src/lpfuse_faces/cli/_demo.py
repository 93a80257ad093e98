"""``lpfuse faces demo``: from videos to verdicts, on clips that are made on the spot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from lpfuse_cli import console
from lpfuse_faces.cli import _extraction as extraction
from lpfuse_faces.cli import _options as options

if TYPE_CHECKING:
    from lpfuse_faces._explanation import Explained
    from lpfuse_faces.cli._extraction import FeaturesReport
    from lpfuse_faces.clips import Clip
    from lpfuse_faces.evaluation import Row

LEFT_OUT = "up-convolved"
SCENE = "hopper-00"
BEWARE = """\
This shows that everything works together. It is no evidence of how well
forgeries of the real world are found: there are three faces, and the
manipulations are simple."""

EXPLAINED = """\
Each kind of forgery was left out of the training, and then looked for in clips
of a face that was never seen either. Non-pure: the other kinds teach the
weights; pure: genuine clips alone.

A model of all three faces, without this scene and this kind of forgery, says:"""


@dataclass(frozen=True)
class Size:
    """How much a demonstration makes and measures."""

    clips_per_face: int
    false_alarm_rate: float
    frames: int = 12  # of each clip that are looked at
    stand_in: dict[str, Any] = field(default_factory=dict)  # further options of `make_stand_in`
    learners: tuple[str, ...] = ("svdd", "gp", "kpca", "gmm")


FULL = Size(clips_per_face=8, false_alarm_rate=0.05)
QUICK = Size(clips_per_face=4, false_alarm_rate=0.1)  # too few genuine clips for 5 %


def demo(
    ctx: typer.Context,
    out: options.DemoFolder = Path("faces-demo"),
    seed: console.Seed = 0,
    quick: options.Quick = False,
    jobs: options.Jobs = -1,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Make videos of three faces, forge some, and find the forgeries.

    Photographs that come with scikit-image and matplotlib are filmed by a simulated camera.
    """
    silent = as_json or console.is_quiet(ctx, quiet)
    _check_folder(out)
    if not silent:
        typer.echo(f"{BEWARE}\n")
    with console.remarks(silent):
        rows, verdicts = demonstrate(out, QUICK if quick else FULL, seed, jobs, silent)
    if as_json:
        told = {name: explained.values for name, explained in verdicts.items()}
        console.show_json({"folder": str(out), "rows": rows, "videos": told, "beware": BEWARE})
        return
    console.show(area_table(rows), silent)
    if not silent:
        typer.echo(next_steps(verdicts, out))


def demonstrate(
    out: Path, size: Size, seed: int, jobs: int, silent: bool
) -> tuple[list[Row], dict[str, Explained]]:
    """Make clips, measure them, leave each kind out, explain two videos; all of it in a folder."""
    from lpfuse._files import replacing
    from lpfuse_faces import Sampling, Settings, make_stand_in
    from lpfuse_faces.cli._evaluate import evaluation_page
    from lpfuse_faces.evaluation import leave_one_manipulation_out

    with console.progress("Filming", silent) as progress:
        clips = make_stand_in(
            out / "clips",
            qualities=[23],
            clips_per_face=size.clips_per_face,
            seed=seed,
            n_jobs=jobs,
            progress=progress,
            **size.stand_in,
        )
    settings = Settings(sampling=Sampling(count=size.frames))
    done = extraction.extract_clips(clips, settings, out / "features", jobs, silent)
    with console.progress("Leaving out", silent) as progress:
        rows = leave_one_manipulation_out(
            clips, done.extraction.features, learners=size.learners, seed=seed, progress=progress
        )
    with replacing(out / "page.md") as file:
        file.write(f"{evaluation_page(rows)}\n{BEWARE}\n".encode())
    parameters = {
        "learners": size.learners,
        "random_state": seed,
        "false_alarm_rate": size.false_alarm_rate,
    }
    return rows, _verdicts(clips, done, out, parameters, silent)


def _check_folder(out: Path) -> None:
    """Refuse a folder that holds what is not ours to replace."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{str(out)!r} is there, and is no folder. Name another.")
    if out.is_dir() and any(out.iterdir()) and not (out / "clips" / "clips.csv").is_file():
        raise ValueError(f"The folder {str(out)!r} is not empty. Name another, or a new one.")


def _verdicts(
    clips: list[Clip], done: FeaturesReport, out: Path, parameters: dict[str, Any], silent: bool
) -> dict[str, Explained]:
    """Return what a model says of a genuine clip, and of a forged one of a kind that it never saw.

    Three people are too few to set a threshold for a fourth. So the model knows all of them, and
    is asked of a scene that it does not know.
    """
    from lpfuse_faces.cli._score import explain, sheet_of
    from lpfuse_faces.cli._train import fit_model, training_clips
    from lpfuse_faces.contact_sheet import write_sheet

    asked = {
        clip.kind or "genuine": clip.path
        for clip in clips
        if clip.path.stem == SCENE and clip.kind in (None, LEFT_OUT)
    }
    others = [
        replace(clip, split=None, identities=(clip.path.stem,))
        for clip in clips
        if clip.path.stem != SCENE
    ]
    known = training_clips(others, [LEFT_OUT], pure=False)
    model = fit_model(known, done, parameters, {"left_out": [LEFT_OUT], "pure": False}, silent)
    model.save(out / "faces.lpfuse")
    found = explain(model, done, asked.values())
    for name, path in asked.items():
        write_sheet(sheet_of(path, found[path], done), out / f"{name}.html")
    return {name: found[path] for name, path in asked.items()}


def area_table(rows: Sequence[Row]) -> str:
    """AUC of each kind while it is left out."""
    shown = {
        "fusion, non-pure": ("non-pure", "lp"),
        "fusion, pure": ("pure", "lp"),
        "plain sum": ("pure", "sum"),
    }
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    areas = {
        (row["setting"], row["method"], row["kind"]): f"{row['value']:.0f}"
        for row in rows
        if row["metric"] == "auc"
    }
    body = [[name, *(areas[*who, kind] for kind in kinds)] for name, who in shown.items()]
    return console.table(["AUC in %", *kinds], body)


def next_steps(verdicts: dict[str, Explained], out: Path) -> str:
    """Return the two verdicts in words, and what to do next."""
    from lpfuse_faces.cli._score import in_words

    told = [f"{name}/{in_words(explained, False)}\n" for name, explained in verdicts.items()]
    sheets = " and ".join(f"{out}/{name}.html" for name in verdicts)
    return "\n".join(
        [
            f"\n{EXPLAINED}\n",
            *told,
            f"Next\n  Open {sheets}:\n  what was seen, and why.",
            f"  {out}/page.md has all tables.",
            "  lpfuse faces train YOUR-VIDEOS --cache features -o faces.lpfuse",
            "  lpfuse faces score VIDEO --sheet sheet.html",
        ]
    )
