"""Fused detectors with the interface of river, by the package lpfuse-clients."""

from lpfuse._command_package import import_package

__all__ = ["RiverFused", "RiverFusion"]

_module = import_package(
    "lpfuse_clients.river", "lpfuse.river needs lpfuse-clients.", extra="river"
)
RiverFused, RiverFusion = _module.RiverFused, _module.RiverFusion
