"""Estimators in a file, without pickle: reading one executes nothing that the file says.

The file is a zip archive: a manifest of plain values, arrays as ``.npy`` members, and estimators of
other makers as skops members.
"""

from lpfuse.io.reading import load
from lpfuse.io.safety import skops_trusted_types
from lpfuse.io.writing import save

__all__ = ["load", "save", "skops_trusted_types"]
