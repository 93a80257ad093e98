"""AlexNet as of Krizhevsky (2014), "One weird trick …", arXiv:1404.5997.

Five convolutions and three connected layers, under the names that torchvision gives them.
"""

from __future__ import annotations

import torch
from torch import nn

# Channels, kernel, stride and padding of each convolution, and whether a maximum is taken after it.
CONVOLUTIONS = (
    (64, 11, 4, 2, True),
    (192, 5, 1, 2, True),
    (384, 3, 1, 1, False),
    (256, 3, 1, 1, False),
    (256, 3, 1, 1, True),
)
LAST_MAP = 256 * 6 * 6  # of a picture of 224×224
WIDTH = 4096


class AlexNet(nn.Module):
    """Class scores of pictures of shape (n, 3, 224, 224); without classes, 4,096 features.

    The features are the second connected layer, rectified: what the classifier sees ("fc7").
    """

    HEAD = ("classifier.6.",)

    def __init__(self, classes: int | None = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for outputs, kernel, stride, padding, pooled in CONVOLUTIONS:
            layers += [
                nn.Conv2d(channels, outputs, kernel, stride, padding),
                nn.ReLU(inplace=True),
                *([nn.MaxPool2d(3, stride=2)] if pooled else []),
            ]
            channels = outputs
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Dropout(),  # nothing outside training, but it counts in the names
            nn.Linear(LAST_MAP, WIDTH),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(WIDTH, WIDTH),
            nn.ReLU(inplace=True),
            *([nn.Linear(WIDTH, classes)] if classes else []),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores, or features."""
        scores: torch.Tensor = self.classifier(torch.flatten(self.features(x), 1))
        return scores
