"""A user's file: mypy --strict must see the types of what is installed, and find them right."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import assert_type

import numpy as np

import lpfuse
from lpfuse import FusedDetector, KernelPCADetector, LpFusion, TwoSidedMinMax, load, lp_path
from lpfuse.optim import Certificate, LpPath


def fitted(rows: int) -> FusedDetector:
    X = np.random.default_rng(0).normal(size=(rows, 2))
    detectors = [("kpca", KernelPCADetector())]
    return assert_type(FusedDetector(detectors, random_state=0).fit(X), FusedDetector)


def proof_of(S: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Certificate:
    scaled = TwoSidedMinMax().fit(S).transform(S)
    fusion = assert_type(LpFusion(p=2.0).fit(scaled), LpFusion)
    return fusion.certificate_


def path_of(S: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> LpPath:
    return lp_path(S, ps=[1.0, 2.0])


fused = fitted(60)
names: list[str] = fused.detector_names_
offset: float = fused.offset_
scores = np.random.default_rng(1).normal(size=(50, 2))
gap: float = proof_of(scores).relative_gap
with TemporaryDirectory() as folder:
    fused.save(Path(folder) / "model.lpfuse")
    fused.card(Path(folder) / "card.md", title="A card")
    load(Path(folder) / "model.lpfuse")
print(names, offset, gap, len(path_of(scores).ps))


def wrong() -> None:
    """What is wrong is found: were it not, mypy would call the remarks unused."""
    FusedDetector(false_alarm_rat=0.05)  # type: ignore[call-arg]
    lpfuse.FusdDetector()  # type: ignore[attr-defined]
    lpfuse.metrics.g_meen  # type: ignore[attr-defined] # noqa: B018
