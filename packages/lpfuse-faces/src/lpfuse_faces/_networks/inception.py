"""Inception-v3 as of Szegedy et al. (2016), "Rethinking the Inception architecture".

Layers carry torchvision's names, and padding and pooling follow torchvision, whose weights were
taken over from the authors' program.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from lpfuse_faces._networks.layers import NormalisedConvolution, Side
from lpfuse_faces._networks.specification import IMAGENET

EPS = 1e-3  # of the normalisations, as torchvision has it


@dataclass(frozen=True)
class Step:
    """A convolution on a branch; ``same`` keeps the size of the map."""

    name: str
    outputs: int
    kernel: Side
    stride: int = 1
    same: bool = True

    def layer(self, inputs: int) -> NormalisedConvolution:
        """Return the convolution, given the channels that it reads."""
        high, wide = (self.kernel, self.kernel) if isinstance(self.kernel, int) else self.kernel
        padding = (high // 2, wide // 2) if self.same else (0, 0)
        return NormalisedConvolution(
            inputs, self.outputs, (high, wide), stride=self.stride, padding=padding, eps=EPS
        )


@dataclass(frozen=True)
class Pool:
    """A 3×3 average that keeps the size of the map, zeros outside counted in, or a maximum."""

    average: bool

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Return the smoothed or smaller map."""
        if self.average:
            return functional.avg_pool2d(x, 3, stride=1, padding=1)
        return functional.max_pool2d(x, 3, stride=2)


AVERAGE, MAXIMUM = Pool(average=True), Pool(average=False)
Part = Step | Pool | tuple[Step, ...]


class Mixed(nn.Module):
    """Branches that read the same map; their outputs are laid side by side.

    A branch is a sequence of parts. A part made of several steps lays those side by side.
    """

    def __init__(self, channels: int, *branches: list[Part]) -> None:
        super().__init__()
        self._branches = branches
        self.outputs = 0
        for branch in branches:
            width = channels
            for part in branch:
                if not isinstance(part, Pool):
                    width = self._add(width, part)
            self.outputs += width

    def _add(self, inputs: int, part: Step | tuple[Step, ...]) -> int:
        """Register the layers of a part; their channels."""
        steps = (part,) if isinstance(part, Step) else part
        for step in steps:
            self.add_module(step.name, step.layer(inputs))
        return sum(step.outputs for step in steps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return all branches, side by side."""
        outputs = []
        for branch in self._branches:
            maps = [x]
            for part in branch:
                maps = self._apply_part(part, maps[0])
            outputs += maps
        return torch.cat(outputs, 1)

    def _apply_part(self, part: Part, x: torch.Tensor) -> list[torch.Tensor]:
        if isinstance(part, Pool):
            return [part(x)]
        steps = (part,) if isinstance(part, Step) else part
        return [self.get_submodule(step.name)(x) for step in steps]


def _fine(channels: int, pooled: int) -> Mixed:
    """On maps of 35×35: figure 5 of the paper."""
    return Mixed(
        channels,
        [Step("branch1x1", 64, 1)],
        [Step("branch5x5_1", 48, 1), Step("branch5x5_2", 64, 5)],
        [
            Step("branch3x3dbl_1", 64, 1),
            Step("branch3x3dbl_2", 96, 3),
            Step("branch3x3dbl_3", 96, 3),
        ],
        [AVERAGE, Step("branch_pool", pooled, 1)],
    )


def _fine_to_middle(channels: int) -> Mixed:
    return Mixed(
        channels,
        [Step("branch3x3", 384, 3, stride=2, same=False)],
        [
            Step("branch3x3dbl_1", 64, 1),
            Step("branch3x3dbl_2", 96, 3),
            Step("branch3x3dbl_3", 96, 3, stride=2, same=False),
        ],
        [MAXIMUM],
    )


def _middle(channels: int, inner: int) -> Mixed:
    """On maps of 17×17: figure 6, 7×7 as 1×7 and 7×1."""
    return Mixed(
        channels,
        [Step("branch1x1", 192, 1)],
        [
            Step("branch7x7_1", inner, 1),
            Step("branch7x7_2", inner, (1, 7)),
            Step("branch7x7_3", 192, (7, 1)),
        ],
        [
            Step("branch7x7dbl_1", inner, 1),
            Step("branch7x7dbl_2", inner, (7, 1)),
            Step("branch7x7dbl_3", inner, (1, 7)),
            Step("branch7x7dbl_4", inner, (7, 1)),
            Step("branch7x7dbl_5", 192, (1, 7)),
        ],
        [AVERAGE, Step("branch_pool", 192, 1)],
    )


def _middle_to_coarse(channels: int) -> Mixed:
    return Mixed(
        channels,
        [Step("branch3x3_1", 192, 1), Step("branch3x3_2", 320, 3, stride=2, same=False)],
        [
            Step("branch7x7x3_1", 192, 1),
            Step("branch7x7x3_2", 192, (1, 7)),
            Step("branch7x7x3_3", 192, (7, 1)),
            Step("branch7x7x3_4", 192, 3, stride=2, same=False),
        ],
        [MAXIMUM],
    )


def _coarse(channels: int) -> Mixed:
    """On maps of 8×8: figure 7, whose branches fork."""
    return Mixed(
        channels,
        [Step("branch1x1", 320, 1)],
        [
            Step("branch3x3_1", 384, 1),
            (Step("branch3x3_2a", 384, (1, 3)), Step("branch3x3_2b", 384, (3, 1))),
        ],
        [
            Step("branch3x3dbl_1", 448, 1),
            Step("branch3x3dbl_2", 384, 3),
            (Step("branch3x3dbl_3a", 384, (1, 3)), Step("branch3x3dbl_3b", 384, (3, 1))),
        ],
        [AVERAGE, Step("branch_pool", 192, 1)],
    )


class Auxiliary(nn.Module):
    """The second classifier, half-way, which helps training and is not run afterwards."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.conv0 = Step("conv0", 128, 1).layer(channels)
        self.conv1 = Step("conv1", 768, 5, same=False).layer(128)
        self.fc = nn.Linear(768, classes)


class Inception(nn.Module):
    """Class scores of pictures of shape (n, 3, 299, 299); without classes, 2,048 features.

    The features are averages over the picture of the last map. Pictures are normalised by
    ImageNet's mean and deviation, as torchvision's transforms do; the weights want them in
    [−1, 1], and the network turns the one into the other.
    """

    HEAD = ("fc.", "AuxLogits.")
    _scale: torch.Tensor
    _shift: torch.Tensor

    def __init__(self, classes: int | None = 1000) -> None:
        super().__init__()
        mean, std = IMAGENET
        self.register_buffer("_scale", _per_channel([2 * value for value in std]), False)
        self.register_buffer("_shift", _per_channel([2 * value - 1 for value in mean]), False)
        self.Conv2d_1a_3x3 = Step("", 32, 3, stride=2, same=False).layer(3)
        self.Conv2d_2a_3x3 = Step("", 32, 3, same=False).layer(32)
        self.Conv2d_2b_3x3 = Step("", 64, 3).layer(32)
        self.Conv2d_3b_1x1 = Step("", 80, 1).layer(64)
        self.Conv2d_4a_3x3 = Step("", 192, 3, same=False).layer(80)
        self.Mixed_5b = _fine(192, pooled=32)
        self.Mixed_5c = _fine(self.Mixed_5b.outputs, pooled=64)
        self.Mixed_5d = _fine(self.Mixed_5c.outputs, pooled=64)
        self.Mixed_6a = _fine_to_middle(self.Mixed_5d.outputs)
        self.Mixed_6b = _middle(self.Mixed_6a.outputs, inner=128)
        self.Mixed_6c = _middle(self.Mixed_6b.outputs, inner=160)
        self.Mixed_6d = _middle(self.Mixed_6c.outputs, inner=160)
        self.Mixed_6e = _middle(self.Mixed_6d.outputs, inner=192)
        self.Mixed_7a = _middle_to_coarse(self.Mixed_6e.outputs)
        self.Mixed_7b = _coarse(self.Mixed_7a.outputs)
        self.Mixed_7c = _coarse(self.Mixed_7b.outputs)
        self.AuxLogits = Auxiliary(self.Mixed_6e.outputs, classes) if classes else None
        self.fc = nn.Linear(self.Mixed_7c.outputs, classes) if classes else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores, or features."""
        x = x * self._scale + self._shift
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(MAXIMUM(x)))
        x = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(MAXIMUM(x))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(x)))))
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        scores: torch.Tensor = self.fc(x.mean((2, 3)))
        return scores


def _per_channel(values: list[float]) -> torch.Tensor:
    """Return a constant, kept out of the weights, and real also where the weights are not yet."""
    return torch.tensor(values, device="cpu").view(1, 3, 1, 1)
