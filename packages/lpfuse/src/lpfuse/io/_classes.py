"""From a name in a file to the class: among those that installed packages have registered."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from lpfuse._saved import class_saved_as, saved_classes
from lpfuse.io._archive import Refused

# Where lpfuse registers classes. They are imported when a file names one that is not known yet:
# `import lpfuse` loads nothing by itself.
ROOMS = (
    "adapters", "detectors", "ensemble", "fusion", "iterative", "multiclass", "optim", "pools",
    "scaling", "selection", "tables",
)  # fmt: skip
GROUP = "lpfuse.saved"  # entry points of other packages: modules that register classes


def find_class(name: str) -> type:
    """The class that files call so."""
    found = class_saved_as(name)
    if found is None:
        _import_all()
        found = class_saved_as(name)
    if found is None:
        raise Refused(
            f"The file holds an object of the class {name!r}, which is unknown. It may be one of "
            "a package that is not installed here, such as lpfuse-faces, or of a newer version."
        )
    return found


def own_types() -> list[str]:
    """Import paths of the registered classes, by which skops knows them."""
    _import_all()
    return [f"{cls.__module__}.{cls.__qualname__}" for cls in saved_classes().values()]


def _import_all() -> None:
    for room in ROOMS:
        import_module(f"lpfuse.{room}")
    for entry in entry_points(group=GROUP):
        entry.load()
