"""Networks on torch: weights put in place, and pictures passed through in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils import convert_conv2d_weight_memory_format

from lpfuse._arrays.operations import Array, is_numpy
from lpfuse_faces._networks.alexnet import AlexNet
from lpfuse_faces._networks.darknet import DarkNet19
from lpfuse_faces._networks.inception import Inception
from lpfuse_faces._networks.layers import fold_normalisations
from lpfuse_faces._networks.specification import Network
from lpfuse_faces._networks.weights import State

MODULES: Mapping[str, type[Inception] | type[DarkNet19] | type[AlexNet]] = {
    "inception": Inception,
    "darknet": DarkNet19,
    "alexnet": AlexNet,
}
# Pictures at a time. On an H200 batches of 512 gained 1 to 3 % over 256 (docs/benchmarks/faces.md);
# that of the CPU is by hand.
CPU_BATCH, DEVICE_BATCH = 16, 256
LAYOUT = torch.channels_last  # what tensor cores want; a tenth to a quarter faster on a CPU too
_settings = Lock()  # torch's settings of precision are everyone's


def shapes_of(name: str) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of the weights that the features need."""
    with torch.device("meta"):
        module = MODULES[name](classes=None)
    return {key: tuple(value.shape) for key, value in module.state_dict().items()}


def assembled(name: str, state: State) -> nn.Module:
    """Return the network without its classes, with these weights."""
    with torch.device("meta"):
        module = MODULES[name](classes=None)
    tensors = {key: tensor(value) for key, value in state.items()}
    module.load_state_dict(tensors, strict=False, assign=True)
    return module.eval().requires_grad_(False)


def tensor(values: NDArray[np.float32]) -> torch.Tensor:
    """Return the same numbers; copied only if torch could not share them."""
    return torch.from_numpy(np.require(values, requirements=["C", "W"]))


def usable(device: str) -> torch.device:
    """Return the device, if torch can use it here."""
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(
            f"torch cannot use the device {device!r} here: {str(error).splitlines()[0]} "
            'Use device="cpu", or install torch for that device.'
        ) from error
    return torch.device(device)


class TorchNetwork:
    """Grey pictures in, features out."""

    def __init__(
        self,
        name: str,
        state: State,
        network: Network,
        device: str,
        precision: str,
        batch_size: int | None,
        compiled: bool,
    ) -> None:
        self._device = usable(device)
        on_cpu = self._device.type == "cpu"
        self._dtype = getattr(torch, precision)
        self._batch_size = batch_size or (CPU_BATCH if on_cpu else DEVICE_BATCH)
        module = assembled(name, state)
        fold_normalisations(module)
        module.to(self._device, self._dtype)
        convert_conv2d_weight_memory_format(module, LAYOUT)
        self._fixed_size = compiled  # another size would be compiled anew
        self._module: Callable[[torch.Tensor], torch.Tensor] = (
            torch.compile(module, fullgraph=True, dynamic=False) if compiled else module
        )
        self._mean = self._per_channel(network.mean)
        self._std = self._per_channel(network.std)

    def __call__(self, images: Array) -> Array:
        """Features, in the library and on the device of the pictures."""
        pictures = tensor(images) if is_numpy(images) else images
        with torch.inference_mode(), exact(self._device):
            parts = [
                self._features(batch).to(pictures.device)
                for batch in pictures.split(self._batch_size)
            ]
        features = torch.cat(parts)  # out here an ordinary tensor, which its owner may change
        return features.numpy() if is_numpy(images) else features

    def _features(self, grey: torch.Tensor) -> torch.Tensor:
        n = len(grey)
        grey = grey.to(self._device)
        if self._fixed_size and n < self._batch_size:
            grey = torch.cat([grey, grey[:1].expand(self._batch_size - n, -1, -1)])
        x = (grey[:, None] - self._mean) / self._std
        x = x.to(self._dtype, memory_format=LAYOUT)
        return self._module(x)[:n].float()

    def _per_channel(self, values: tuple[float, ...]) -> torch.Tensor:
        return torch.tensor(values, device=self._device).view(1, -1, 1, 1)


@contextmanager
def exact(device: torch.device) -> Iterator[None]:
    """On a GPU, float32 that is float32: torch would round what convolutions multiply to TF32.

    The setting belongs to the process, so threads take turns.
    """
    if device.type != "cuda":
        yield
        return
    with _settings, torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield
