"""Detectors of lpfuse with the interface of PyOD, by the package lpfuse-clients."""

from lpfuse._command_package import import_package

__all__ = ["PyODFused"]

_module = import_package("lpfuse_clients.pyod", "lpfuse.pyod needs lpfuse-clients.", extra="pyod")
PyODFused = _module.PyODFused
