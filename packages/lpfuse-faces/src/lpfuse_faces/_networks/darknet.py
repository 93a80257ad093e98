"""DarkNet-19 as of Redmon and Farhadi (2017), "YOLO9000: better, faster, stronger", table 6.

Nineteen convolutions and five maxima. Layers are called conv1 to conv19, as the table counts them.
"""

from __future__ import annotations

import torch
from torch import nn

from lpfuse_faces._networks.layers import NormalisedConvolution

# Channels and kernel of each convolution; a maximum is taken between two of these groups.
GROUPS = (
    ((32, 3),),
    ((64, 3),),
    ((128, 3), (64, 1), (128, 3)),
    ((256, 3), (128, 1), (256, 3)),
    ((512, 3), (256, 1), (512, 3), (256, 1), (512, 3)),
    ((1024, 3), (512, 1), (1024, 3), (512, 1), (1024, 3)),
)
SLOPE = 0.1  # of the leaky rectifier, as the author's program has it
# What the author's program adds on a GPU, where it was trained: √(σ² + 1e-5).
# Without a GPU the program divides by σ + 1e-6, which differs where σ is tiny.
EPS = 1e-5


class DarkNet19(nn.Module):
    """Class scores of pictures of shape (n, 3, 256, 256); without classes, 1,024 features.

    The features are averages over the picture of conv18, the last layer before the classes.
    """

    HEAD = ("conv19.",)

    def __init__(self, classes: int | None = 1000) -> None:
        super().__init__()
        self._groups: list[list[str]] = []
        channels, count = 3, 0
        for group in GROUPS:
            names = []
            for outputs, kernel in group:
                count += 1
                names.append(f"conv{count}")
                layer = NormalisedConvolution(
                    channels, outputs, kernel, padding=kernel // 2, eps=EPS, slope=SLOPE
                )
                self.add_module(names[-1], layer)
                channels = outputs
            self._groups.append(names)
        self.pool = nn.MaxPool2d(2)
        self.conv19 = nn.Conv2d(channels, classes, 1) if classes else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores, or features."""
        for number, names in enumerate(self._groups):
            if number:
                x = self.pool(x)
            for name in names:
                x = self.get_submodule(name)(x)
        scores: torch.Tensor = self.conv19(x)
        return scores.mean((2, 3))
