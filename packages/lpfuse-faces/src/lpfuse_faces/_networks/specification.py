"""The three networks: what each takes and gives."""

from __future__ import annotations

from typing import NamedTuple

PRECISIONS = ("float32", "float16", "bfloat16")


class Network(NamedTuple):
    """What goes in and what comes out: pictures of ``size`` × ``size``, ``width`` features.

    Pictures in [0, 1] are normalised by ``mean`` and ``std``, one of each for red, green and blue.
    """

    title: str
    size: int
    width: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and deviation of its pictures
_PLAIN = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))

NETWORKS = {
    "inception": Network("Inception-v3", 299, 2048, *IMAGENET),
    "darknet": Network("DarkNet-19", 256, 1024, *_PLAIN),  # the size of its author's settings
    "alexnet": Network("AlexNet", 224, 4096, *IMAGENET),
}
