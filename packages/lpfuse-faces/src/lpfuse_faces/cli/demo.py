"""``lpfuse faces demo``: from videos to verdicts, on clips that are made on the spot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lpfuse.cli import console
from lpfuse.cli._fit import Seed
from lpfuse_faces.cli import reading

if TYPE_CHECKING:
    from lpfuse_faces.cli.reading import Done
    from lpfuse_faces.clips import Clip
    from lpfuse_faces.explanation import Explained

LEFT_OUT = "up-convolved"
SCENE = "hopper-00"
FRAMES = 12
CLIPS, QUICK_CLIPS = 8, 4  # of each face, genuine and of each kind
BEWARE = """\
This shows that everything works together. It is no evidence of how well
forgeries of the real world are found: there are three faces, and the
manipulations are simple."""

EXPLAINED = """\
Each kind of forgery was left out of the training, and then looked for in clips
of a face that was never seen either. Non-pure: the other kinds teach the
weights; pure: genuine clips alone.

A model of all three faces, without this scene and this kind of forgery, says:"""


def demo(
    ctx: typer.Context,
    out: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for all that is made.")
    ] = Path("faces-demo"),
    seed: Seed = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer clips: half a minute, and rougher figures.")
    ] = False,
    jobs: reading.Jobs = -1,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Make videos of three faces, forge some, and find the forgeries.

    Photographs that come with scikit-image and matplotlib are filmed by a simulated camera.
    """
    from lpfuse_faces.features import Settings
    from lpfuse_faces.stand_in import make_stand_in
    from lpfuse_faces.video import Sampling
    from research.common.store import write_whole
    from research.paper.forgery import STAND_IN, leave_one_manipulation_out
    from research.paper.forgery_methods import contenders, quick_contenders
    from research.paper.forgery_page import forgery_page

    silent = as_json or console.is_quiet(ctx, quiet)
    _check_folder(out)
    if not silent:
        typer.echo(f"{BEWARE}\n")
    with console.remarks(silent):
        with console.progress("Filming", silent) as progress:
            clips = make_stand_in(
                out / "clips",
                qualities=[23],
                clips_per_face=QUICK_CLIPS if quick else CLIPS,
                seed=seed,
                n_jobs=jobs,
                progress=progress,
            )
        settings = Settings(sampling=Sampling(count=FRAMES))
        done = reading.extract_clips(clips, settings, out / "features", jobs, silent)
        with console.progress("Leaving out", silent) as progress:
            rows = leave_one_manipulation_out(
                clips,
                done.extraction.features,
                collection=STAND_IN,
                methods=quick_contenders if quick else contenders,
                seed=seed,
                progress=progress,
            )
        write_whole(out / "page.md", forgery_page(rows))
        options = {"random_state": seed, "false_alarm_rate": 0.1 if quick else 0.05}
        verdicts = _verdicts(clips, done, out, options, silent)
    if as_json:
        told = {name: explained.values for name, explained in verdicts.items()}
        console.show_json({"folder": str(out), "rows": rows, "videos": told, "beware": BEWARE})
        return
    console.show(_table(rows), silent)
    if not silent:
        _tell(verdicts, out)


def _check_folder(out: Path) -> None:
    """Refuse a folder that holds what is not ours to replace."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{str(out)!r} is there, and is no folder. Name another.")
    if out.is_dir() and any(out.iterdir()) and not (out / "clips" / "clips.csv").is_file():
        raise ValueError(f"The folder {str(out)!r} is not empty. Name another, or a new one.")


def _verdicts(
    clips: list[Clip], done: Done, out: Path, options: dict[str, Any], silent: bool
) -> dict[str, Explained]:
    """What a model says of a genuine clip, and of a forged one of a kind that it never saw.

    Three people are too few to set a threshold for a fourth. So the model knows all of them, and
    is asked of a scene that it does not know.
    """
    from lpfuse_faces.cli.score import explain, sheet_of
    from lpfuse_faces.cli.train import fit_model, lessons
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
    known = lessons(others, [LEFT_OUT], pure=False)
    model = fit_model(known, done, options, {"left_out": [LEFT_OUT], "pure": False}, silent)
    model.save(out / "faces.lpfuse")
    found = explain(model, done, asked.values())
    for name, path in asked.items():
        write_sheet(sheet_of(path, found[path], done), out / f"{name}.html")
    return {name: found[path] for name, path in asked.items()}


def _table(rows: list[dict[str, Any]]) -> str:
    """AUC of each kind while it is left out."""
    from research.paper.forgery_methods import DEFAULT

    shown = {
        "fusion, non-pure": ("non-pure", DEFAULT),
        "fusion, pure": ("pure", DEFAULT),
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


def _tell(verdicts: dict[str, Explained], out: Path) -> None:
    from lpfuse_faces.cli.score import in_words

    typer.echo(f"\n{EXPLAINED}\n")
    for name, explained in verdicts.items():
        typer.echo(f"{name}/{in_words(explained, False)}\n")
    sheets = " and ".join(f"{out}/{name}.html" for name in verdicts)
    typer.echo(
        f"Next\n  Open {sheets}:\n  what was seen, and why.\n"
        f"  {out}/page.md has all tables.\n"
        "  lpfuse faces train YOUR-VIDEOS --cache features -o faces.lpfuse\n"
        "  lpfuse faces score VIDEO --sheet sheet.html"
    )
