"""Registry of the classes that saved files may hold, under names that never change.

A class is registered where it is defined, so that it can be renamed or moved without affecting
saved files. Files refer to classes by these names only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)

# Modules that register classes. They are imported when a file names a class that is not registered
# yet: `import lpfuse` imports none of them.
REGISTERING_MODULES = (
    "adapters", "detectors", "ensemble", "frames", "fusion", "iterative", "monitor", "multiclass",
    "optim", "paper", "scaling", "selection", "views",
)  # fmt: skip
GROUP = "lpfuse.saved"  # entry points of other packages: modules that register classes

# Allowed strings of a parameter. With an ellipsis at the end the parameter may also be a list of
# any strings, such as column names; `ANY` allows any string, which must be a name or a sentence: no
# code of the class may use it as a path, a method or an option.
Words = Collection[Any]
ANY: Words = (str,)

# Classes and attributes of earlier versions, which are ignored on loading. Names of classes are
# never reused. Some attributes invalidate others: weights that were updated after the fit have no
# certificate.
FORMER_CLASSES = frozenset((
    "FollowedRows", "GradientLearner", "LabelledWindow", "OnlineWeights", "QuantileSketch",
    "RunningQuantiles", "SafeMixture",
))  # fmt: skip
FORMER_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "artificial_outliers": (),
    "extremes_": (),
    "following_": (),
    "max_candidates": (),
    "max_values": (),
    "n_samples_seen_": (),
    "online_": ("certificate_",),
    "running_": (),
}

_CLASSES: dict[str, type] = {}
_NAMES: dict[type, str] = {}
_WORDS: dict[type, dict[str, Words]] = {}


def saved_as(name: str, /, **words: Words) -> Callable[[Class], Class]:
    """Register a class, so that `lpfuse.io` can save and load its instances.

    Instances are restored from their attributes, ``vars(instance)``, without running a
    constructor.

    Parameters
    ----------
    name : str
        Name of the class in files. Never change it, and never give it to another class.
    **words : collection of str
        For each parameter that can be a string, the allowed strings; see `Words`. A file with any
        other raises an error. Subclasses inherit them.

    Examples
    --------
    >>> @saved_as("an example", side=("left", "right"))
    ... class Example:
    ...     pass
    >>> saved_name(Example), class_saved_as("an example") is Example
    ('an example', True)
    """

    def register(cls: Class) -> Class:
        known = _CLASSES.get(name)
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise ValueError(
                f"{cls.__qualname__} cannot be saved as {name!r}: that is the name of "
                f"{known.__qualname__}. Give it one of its own."
            )
        _CLASSES[name], _NAMES[cls], _WORDS[cls] = cls, name, words
        return cls

    return register


class FieldsOnlyState:
    """A dataclass whose copies hold only its fields, without cached properties."""

    def __getstate__(self) -> dict[str, Any]:
        names = {field.name for field in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in vars(self).items() if name in names}


def saved_name(cls: type) -> str | None:
    """Return the name of a class in files; None where it is not registered."""
    return _NAMES.get(cls)


def class_saved_as(name: str) -> type | None:
    """Return the class with that name in files; None where no installed package registers it."""
    if name not in _CLASSES:
        register_all()
    return _CLASSES.get(name)


def words_of(cls: type) -> dict[str, Words]:
    """Return the allowed strings of the parameters of a registered class."""
    found: dict[str, Words] = {}
    for base in reversed(cls.__mro__):
        found |= _WORDS.get(base, {})
    return found


def saved_classes() -> dict[str, type]:
    """Return all registered classes by their names in files."""
    return dict(_CLASSES)


def register_all() -> None:
    """Import every module that registers classes, of lpfuse and of other installed packages."""
    for module in REGISTERING_MODULES:
        import_module(f"lpfuse.{module}")
    for entry in entry_points(group=GROUP):
        entry.load()
