"""The root of ``lpfuse faces``."""

from __future__ import annotations

from collections.abc import Callable

import typer

from lpfuse_faces.cli._demo import demo
from lpfuse_faces.cli._evaluate import evaluate
from lpfuse_faces.cli._extract import extract
from lpfuse_faces.cli._score import score
from lpfuse_faces.cli._train import train

app = typer.Typer(
    help="Tell forged videos of faces from genuine ones.",
    no_args_is_help=True,
)
EXAMPLES: dict[Callable[..., None], str] = {
    extract: "lpfuse faces extract FaceForensics++ --quality c23 --cache features",
    train: "lpfuse faces train my-videos --cache features -o faces.lpfuse",
    score: "lpfuse faces score clip.mp4 --model faces.lpfuse --sheet sheet.html",
    evaluate: "lpfuse faces evaluate FaceForensics++ --quality c23,c40 --cache features",
    demo: "lpfuse faces demo -o demo",
}
for _command, _example in EXAMPLES.items():
    app.command(epilog=f"Example: {_example}")(_command)
