"""The learners of a video detector: each of four algorithms on each feature set.

The settings are those of docs/adr/0012-faces.md: about 130 combinations were compared by hand on
seeds 0 to 2 of the stand-in data set, with azimuthal profiles; nothing was chosen on deep features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sklearn.decomposition import TruncatedSVD
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from lpfuse._validation.params import check_choice
from lpfuse.detectors import SVDD, GMMDetector, KernelPCADetector, OneClassGP

LEARNERS = ("svdd", "gp", "kpca", "gmm")
# Up to 16 columns are taken as they are; of more, a quarter as many main directions, 16 to 64.
FEW_COLUMNS = 16
MOST_DIRECTIONS = 64
# Beyond, the cubic cost of exact kernels is not worth it: features of 500 landmarks stand for them.
# By hand.
EXACT_ROWS = 1_500

Entry = tuple[str, Any, slice]


def learner_pool(
    widths: Mapping[str, int], learners: Sequence[str] = LEARNERS, *, n: int | None = None
) -> list[Entry]:
    """Return each algorithm on each feature set, for :class:`lpfuse.FusedDetector`.

    Parameters
    ----------
    widths : mapping of str to int
        Feature sets and how many columns they have, in the order in which they stand side by side.
    learners : sequence of str, default=("svdd", "gp", "kpca", "gmm")
        Which algorithms.
    n : int, optional
        Frames to learn from; of many, kernels are approximated.

    Returns
    -------
    list of (name, detector, columns)
        Named "algorithm: set".

    Examples
    --------
    >>> from lpfuse_faces._learners import learner_pool
    >>> pool = learner_pool({"azimuthal/face": 64, "inception/face": 2048}, ["gp", "gmm"])
    >>> [(name, columns) for name, _, columns in pool][::3]
    [('gp: azimuthal/face', slice(0, 64, None)), ('gmm: inception/face', slice(64, 2112, None))]
    """
    entries, start = [], 0
    for name, width in widths.items():
        columns = slice(start, start + width)
        start += width
        entries += [(f"{each}: {name}", _learner(each, width, n), columns) for each in learners]
    return entries


def learner(name: str, n: int | None = None, *, landmarks: int = 500) -> Any:
    """One of the four algorithms, in the settings of the pool, for prepared features.

    Parameters
    ----------
    name : {"svdd", "gp", "kpca", "gmm"}
        Which one.
    n : int, optional
        Rows to learn from; of many, kernels are approximated.
    landmarks : int, default=500
        How many rows such an approximation rests on.
    """
    check_choice("learner", name, LEARNERS)
    approximation = "nystroem" if n is not None and n > EXACT_ROWS else None
    kernel: dict[str, Any] = {"gamma": "median", "approximation": approximation}
    if name == "svdd":
        return SVDD(n_components=landmarks, **kernel)
    if name == "gp":
        return OneClassGP("mean", noise=0.1, n_components=landmarks, **kernel)
    if name == "kpca":
        return KernelPCADetector(n_components=0.8, n_approximation=landmarks, **kernel)
    return GMMDetector(score_type="log_likelihood", covariance_type="diag", reg_covar=0.3)


def _learner(name: str, width: int, n: int | None) -> Pipeline:
    """Return a learner behind what prepares its features."""
    steps: list[Any] = [StandardScaler()]
    if width > FEW_COLUMNS:  # columns have mean zero by now: these are the principal components
        steps.append(TruncatedSVD(max(FEW_COLUMNS, min(MOST_DIRECTIONS, width // 4))))
    if name == "gmm":  # its variances, unlike a kernel's width, belong to single directions
        steps.append(StandardScaler())
    return make_pipeline(*steps, learner(name, n))
