"""The library that reads tables."""

from __future__ import annotations

from types import ModuleType


def polars_module() -> ModuleType:
    """polars, which is imported when a table is read, and not before."""
    try:
        import polars
    except ImportError as error:
        raise ImportError('Tables are read by polars: pip install "lpfuse[cli]"') from error
    return polars
