"""lpfuse's own learners, scaling and weights as formulas of ONNX."""

from __future__ import annotations

from math import log, pi
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host, to_host
from lpfuse.detectors import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from lpfuse.detectors._features import Waves
from lpfuse.detectors._kernels import Kernel
from lpfuse.detectors.gaussian_process import SMALLEST_MEAN
from lpfuse.detectors.mixture import log_heights, precision_roots
from lpfuse.onnx_export._graph import Converters, Tensor, side_by_side
from lpfuse.scaling import FAR, QUARTILES, TailScaler, TwoSidedMinMax

KERNELS = ("rbf", "laplacian", "linear", "poly", "polynomial", "sigmoid", "cosine")


def _between_quantiles(scaler: TailScaler | TwoSidedMinMax, S: Tensor) -> Tensor:
    """Scores on a scale on which the lower quantile is 0 and the upper one 1."""
    width = scaler.upper_ - scaler.lower_
    slope = np.divide(1.0, width, out=np.zeros_like(width), where=width > 0)
    return 0.5 + (S - (scaler.lower_ + width / 2)) * slope


def tail_scaler(scaler: TailScaler, S: Tensor) -> Tensor:
    """Cubes of robust standard deviations below the usual."""
    u = (1.0 - QUARTILES * (_between_quantiles(scaler, S) - 0.5)).clip(low=0.0)
    far = (u.clip(low=FAR) / FAR).apply("Log")
    return 0.0 - ((u.clip(high=FAR) + FAR * far) / 2.0) ** 3


def two_sided_min_max(scaler: TwoSidedMinMax, S: Tensor) -> Tensor:
    """Scores on the common scale."""
    z = _between_quantiles(scaler, S)
    if scaler.clip:
        inside = z.clip(0.0, 1.0)
        beyond = z - inside
        bent = beyond.apply("Sign") * (1.0 + beyond.apply("Abs")).apply("Log")
        z = inside + bent if scaler.clip == "soft" else inside
    low, high = scaler.feature_range
    return low + (high - low) * z


def svdd(detector: SVDD, X: Tensor) -> Tensor:
    """Minus the squared distance to the centre."""
    basis, coefficients = _expansion(detector, X)
    inner = basis @ coefficients[:, 0]
    return 2.0 * inner - diagonal(detector.kernel_, X) - detector.center_norm2_


def kernel_pca(detector: KernelPCADetector, X: Tensor) -> Tensor:
    """Minus the squared distance to the principal components."""
    basis, coefficients = _expansion(detector, X)
    projections = basis @ coefficients[:, 1:] - detector.mean_projections_
    length = diagonal(detector.kernel_, X) - 2.0 * (basis @ coefficients[:, 0])
    return (projections**2).sum() - (length + detector.mean_norm2_)


def gaussian_process(detector: OneClassGP, X: Tensor) -> Tensor:
    """One of the four scores of the Gaussian process."""
    basis, coefficients = _expansion(detector, X)
    mean = basis @ coefficients[:, 0]
    if detector.score_type == "mean":
        return mean
    known = ((basis @ coefficients[:, 1:]) ** 2).sum()
    variance = (diagonal(detector.kernel_, X) - known).clip(low=0.0) + detector.noise
    if detector.score_type == "variance":
        return -variance
    variance = variance.clip(low=float(np.finfo(np.float64).eps))
    if detector.score_type == "density":
        return -0.5 * (log(2 * pi) + variance.apply("Log") + (1.0 - mean) ** 2 / variance)
    return mean.clip(low=SMALLEST_MEAN).apply("Log") - 0.5 * variance.apply("Log")


def mixture(detector: GMMDetector, X: Tensor) -> Tensor:
    """The distance to the nearest component, or the likelihood."""
    squares = _mixture_distances(detector.mixture_, X)
    if detector.score_type == "mahalanobis":
        return -(-(-squares).highest().sum()).apply("Sqrt")
    return mixture_likelihood(detector.mixture_, X)


def mixture_likelihood(model: Any, X: Tensor) -> Tensor:
    """The logarithm of the density of a Gaussian mixture."""
    exponents = log_heights(model) - 0.5 * _mixture_distances(model, X)
    most = exponents.highest().clip(low=-1e300)  # so far away that all are −∞: so is the sum
    return (exponents - most).apply("Exp").sum().apply("Log") + most.sum()


def _mixture_distances(model: Any, X: Tensor) -> Tensor:
    """Squared Mahalanobis distances to the components of a Gaussian mixture."""
    columns = []
    for mean, root in zip(model.means_, precision_roots(model), strict=True):
        whitened = (X - mean) @ root if root.ndim == 2 else (X - mean) * root
        columns.append((whitened**2).sum(keepdims=True))
    return side_by_side(columns)


def similarities(kernel: Kernel, X: Tensor, Z: Host) -> Tensor:
    """``k(x_i, z_j)``."""
    if kernel.name not in KERNELS:
        raise NotImplementedError(
            f"kernel={kernel.name!r} has no converter to ONNX; {', '.join(KERNELS)} have one."
        )
    if kernel.name == "laplacian":
        apart = (X.apply("Unsqueeze", np.array([1])) - Z[None]).apply("Abs")
        return (-kernel.gamma * apart.apply("ReduceSum", np.array([2]), keepdims=0)).apply("Exp")
    if kernel.name == "rbf":
        centre = Z.mean(axis=0)
        X, Z = X - centre, Z - centre  # a common offset would cancel digits
        squares = (X**2).sum(keepdims=True) + (Z**2).sum(axis=1) - 2.0 * (X @ Z.T)
        return (-kernel.gamma * squares.clip(low=0.0)).apply("Exp")
    if kernel.name == "cosine":
        lengths = np.linalg.norm(Z, axis=1, keepdims=True)
        own = (X**2).sum(keepdims=True).apply("Sqrt")
        X = X / own.apply("Max", np.finfo(np.float64).tiny)
        Z = Z / np.where(lengths > 0, lengths, 1.0)
    return _of_products(kernel, X @ Z.T)


def diagonal(kernel: Kernel, X: Tensor) -> Any:
    """``k(x_i, x_i)``: a tensor, or the number that it always is."""
    if kernel.has_unit_diagonal:
        return 1.0
    squares = (X**2).sum()
    return squares.apply("Sign") if kernel.name == "cosine" else _of_products(kernel, squares)


def _of_products(kernel: Kernel, products: Tensor) -> Tensor:
    if kernel.name in ("poly", "polynomial"):
        return (kernel.gamma * products + kernel.coef0) ** kernel.degree
    if kernel.name == "sigmoid":
        return (kernel.gamma * products + kernel.coef0).apply("Tanh")
    return products


def _expansion(detector: Any, X: Tensor) -> tuple[Tensor, Host]:
    """The basis functions of a kernel learner at the rows, and the coefficients that it uses."""
    basis, columns = detector.expansion_.basis, detector.expansion_.columns
    coefficients = to_host(detector.expansion_.coefficients)[:, :columns]
    if not isinstance(basis, Waves):
        return similarities(basis.kernel, X, to_host(basis.anchors)), coefficients
    frequencies = to_host(basis.frequencies)
    phases = X @ frequencies
    waves = side_by_side([phases.apply("Cos"), phases.apply("Sin")])
    return waves, coefficients * frequencies.shape[1] ** -0.5


TRANSFORMERS: Converters = {TailScaler: tail_scaler, TwoSidedMinMax: two_sided_min_max}
DETECTORS: Converters = {
    SVDD: svdd,
    OneClassGP: gaussian_process,
    KernelPCADetector: kernel_pca,
    GMMDetector: mixture,
}
