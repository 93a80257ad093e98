"""What is compared: each learner under every combination of its settings, and the yardsticks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.neighbors import LocalOutlierFactor
from sklearn.svm import OneClassSVM

from lpfuse import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from lpfuse.detectors.kernels import resolve_gamma

Setting = str | float

GAMMAS = (
    "0.3 median", "median", "3 median", "0.3 scale", "scale", "3 scale", "10 scale", "30 scale",
)  # fmt: skip
# Every value of every setting, in the order of the tables; a learner is run on their product.
SETTINGS: dict[str, dict[str, tuple[Setting, ...]]] = {
    "SVDD": {"gamma": GAMMAS, "nu": (0.01, 0.05, 0.1, 0.2, 0.5)},
    "OneClassGP": {
        "gamma": GAMMAS,
        "score_type": ("mean", "variance", "density", "ratio"),
        "noise": (1e-3, 1e-2, 1e-1),
    },
    "KernelPCADetector": {
        "gamma": GAMMAS,
        "n_components": (2, 6, 10, 20, 50, 0.5, 0.8, 0.9, 0.95, 0.99),
    },
    "GMMDetector": {
        "n_components": (1, 3, 5, 10),
        "reg_covar": (1e-3, 1e-2, 1e-1),
        "score_type": ("mahalanobis", "log_likelihood"),
    },
}
LEARNERS = {make.__name__: make for make in (SVDD, OneClassGP, KernelPCADetector, GMMDetector)}
YARDSTICKS = ("IsolationForest", "LocalOutlierFactor", "OneClassSVM")
MOST_TEST = 750  # rows of each class; chosen by hand
NEIGHBOURS = 20  # scikit-learn's default, said here because small sets have fewer


@dataclass(frozen=True)
class Option:
    """A learner and what is set of it; a yardstick has its own defaults."""

    learner: str
    settings: tuple[tuple[str, Setting], ...] = ()

    def but(self, **changes: Setting) -> Option:
        return Option(self.learner, tuple((dict(self.settings) | changes).items()))

    def __getitem__(self, name: str) -> Setting:
        return dict(self.settings)[name]

    def __str__(self) -> str:
        return " ".join([self.learner, *(f"{name}={value}" for name, value in self.settings)])


def _options() -> Iterator[Option]:
    for learner, settings in SETTINGS.items():
        for values in product(*settings.values()):
            yield Option(learner, tuple(zip(settings, values, strict=True)))
    yield from map(Option, YARDSTICKS)


OPTIONS = tuple(_options())
PAPER = {  # what the paper or its sources say; gamma and nu are ours
    option.learner: option
    for option in (
        Option("SVDD", (("gamma", "scale"), ("nu", 0.1))),
        Option("OneClassGP", (("gamma", "scale"), ("score_type", "mean"), ("noise", 1e-2))),
        Option("KernelPCADetector", (("gamma", "scale"), ("n_components", 10))),
        Option(
            "GMMDetector", (("n_components", 3), ("reg_covar", 1e-2), ("score_type", "mahalanobis"))
        ),
    )
}  # fmt: skip


def make_detector(option: Option, train: np.ndarray, seed: int) -> Any:
    """The detector, not yet fitted; `train` decides a relative width."""
    settings: dict[str, Any] = dict(option.settings)
    if "gamma" in settings:
        settings["gamma"] = width(settings["gamma"], train)
    if option.learner == "GMMDetector":
        settings["random_state"] = seed
    if option.learner in LEARNERS:
        return LEARNERS[option.learner](**settings)
    return {
        "IsolationForest": lambda: IsolationForest(random_state=seed),
        "LocalOutlierFactor": lambda: LocalOutlierFactor(
            min(NEIGHBOURS, len(train) - 1), novelty=True
        ),
        "OneClassSVM": OneClassSVM,
    }[option.learner]()


def width(name: str, train: np.ndarray) -> float:
    """``"3 scale"`` is three times the γ that ``"scale"`` stands for."""
    *factor, rule = name.split()
    return float(factor[0] if factor else 1) * resolve_gamma(rule, train)
