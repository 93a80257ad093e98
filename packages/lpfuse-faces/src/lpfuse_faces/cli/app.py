"""The root of ``lpfuse faces``."""

from __future__ import annotations

from collections.abc import Callable

import typer

from lpfuse_faces.cli import demo, evaluate, extract, score, train

app = typer.Typer(
    help="Tell forged videos of faces from genuine ones.",
    no_args_is_help=True,
)
EXAMPLES: dict[Callable[..., None], str] = {
    extract.extract: "lpfuse faces extract FaceForensics++ --quality c23 --cache features",
    train.train: "lpfuse faces train my-videos --cache features -o faces.lpfuse",
    score.score: "lpfuse faces score clip.mp4 --model faces.lpfuse --sheet sheet.html",
    evaluate.evaluate: "lpfuse faces evaluate FaceForensics++ --quality c23,c40 --cache features",
    demo.demo: "lpfuse faces demo -o demo",
}
for _command, _example in EXAMPLES.items():
    app.command(epilog=f"Example: {_example}")(_command)
