"""Export fitted estimators to ONNX, by the package lpfuse-onnx: see `lpfuse_onnx`."""

from __future__ import annotations

from os import PathLike
from typing import Any

from lpfuse._command_package import import_package

__all__ = ["register_converters", "to_onnx"]


def to_onnx(estimator: Any, path: str | PathLike[str] | None = None, *, dtype: Any = float) -> Any:
    """Convert a fitted estimator to an ONNX model: see :func:`lpfuse_onnx.to_onnx`."""
    return _onnx_package().to_onnx(estimator, path, dtype=dtype)


def register_converters() -> None:
    """Register the estimators with skl2onnx: see :func:`lpfuse_onnx.register_converters`."""
    _onnx_package().register_converters()


def _onnx_package() -> Any:
    return import_package("lpfuse_onnx", "ONNX models need lpfuse-onnx.", extra="onnx")
