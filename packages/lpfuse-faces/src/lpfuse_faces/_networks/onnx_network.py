"""A network that a user exported to ONNX, run by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Array, beside, to_host
from lpfuse_faces._extras import needed, session_options
from lpfuse_faces._networks.specification import Network
from lpfuse_faces._networks.weights import LARGEST
from lpfuse_faces._regular_file import read_regular

BATCH = 16  # pictures at a time, as the networks of torch on a CPU
Pictures = NDArray[np.float32]


class OnnxNetwork:
    """Grey pictures in, features out. That the file does this is tried when it is opened."""

    def __init__(self, path: Path, network: Network, device: str, precision: str) -> None:
        if device != "cpu" or precision != "float32":
            raise ValueError(
                f"Files of ONNX run on the CPU in float32; {device} and {precision} were asked "
                "for. Load weights of torch (.pth) or darknet (.weights) instead."
            )
        runtime = needed("onnxruntime", "Running ONNX files")
        options = session_options(runtime)
        content = read_regular(path, LARGEST)
        try:
            self._session = runtime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime raises one of its own for each code
            raise ValueError(
                f"{path} cannot be run as ONNX: {error}. All weights must be in this one file."
            ) from error
        self._network = network
        self._input, self._fixed = self._find_input(path)
        self._output = self._find_output(path)

    def __call__(self, images: Array) -> Array:
        """Features, in the library and on the device of the pictures."""
        pictures = np.asarray(to_host(images), dtype=np.float32)
        batch = self._fixed or BATCH
        starts = range(0, len(pictures), batch)
        features = [self._features(pictures[start : start + batch]) for start in starts]
        return beside(np.concatenate(features), images)

    def _features(self, grey: Pictures) -> Pictures:
        missing = max(self._fixed - len(grey), 0)
        outputs = self._run(np.pad(grey, ((0, missing), (0, 0), (0, 0))), [self._output])
        features: Pictures = outputs[0].reshape(-1, self._network.width)[: len(grey)]
        return features

    def _run(self, grey: Pictures, outputs: list[str]) -> list[Any]:
        mean, std = (
            np.array(values, dtype=np.float32).reshape(1, 3, 1, 1)
            for values in (self._network.mean, self._network.std)
        )
        return list(self._session.run(outputs, {self._input: (grey[:, None] - mean) / std}))

    def _find_input(self, path: Path) -> tuple[str, int]:
        """Its name, and the number of pictures that it insists on, or 0."""
        size = self._network.size
        inputs = self._session.get_inputs()
        shape = inputs[0].shape if len(inputs) == 1 else []
        fits = len(shape) == 4 and all(
            not isinstance(found, int) or found == wanted
            for found, wanted in zip(shape[1:], (3, size, size), strict=True)
        )
        if not fits or inputs[0].type != "tensor(float)":
            told = ", ".join(f"{each.name} {each.shape} {each.type}" for each in inputs)
            raise ValueError(
                f"{path} should take one float input of shape (n, 3, {size}, {size}); "
                f"it takes {told}."
            )
        return inputs[0].name, shape[0] if isinstance(shape[0], int) else 0

    def _find_output(self, path: Path) -> str:
        """Return the name of the output that is the features."""
        n, size, width = self._fixed or 1, self._network.size, self._network.width
        names = [each.name for each in self._session.get_outputs()]
        outputs = self._run(np.zeros((n, size, size), dtype=np.float32), names)
        shapes = {name: np.shape(value) for name, value in zip(names, outputs, strict=True)}
        for name, shape in shapes.items():
            if shape[:2] == (n, width) and set(shape[2:]) <= {1}:
                return name
        told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(
            f"{path} should give the {width:,} features of {self._network.title}; for {n} picture"
            f"{'s' * (n > 1)} it gave {told}. Leave the layer of classes out and export it again: "
            "model.fc = torch.nn.Identity(), say, before torch.onnx.export."
        )
