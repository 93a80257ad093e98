"""The classes whose instances a file may hold, by a name of the format that never changes.

A class is registered beside its definition, so that it can be renamed or moved without touching the
files that users have. Nothing else in a file leads to a class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)

# Where lpfuse registers classes. They are imported when a file names a class that is not known yet:
# `import lpfuse` loads nothing by itself.
REGISTERING_MODULES = (
    "adapters", "detectors", "ensemble", "frames", "fusion", "iterative", "monitor", "multiclass",
    "optim", "paper", "scaling", "selection", "views",
)  # fmt: skip
GROUP = "lpfuse.saved"  # entry points of other packages: modules that register classes

# Strings that a parameter may be. One that ends in an ellipsis may also be a list of any strings,
# such as names of columns; `ANY` may be any string, which must be a name or a sentence: no code of
# the class may take it for a path, a method or an option.
Words = Collection[Any]
ANY: Words = (str,)

# What earlier versions wrote and this one reads over. Names of classes are never given away again;
# with some attributes others lose their meaning: weights that were moved after their fit have no
# certificate.
FORMER_CLASSES = frozenset((
    "FollowedRows", "GradientLearner", "LabelledWindow", "OnlineWeights", "QuantileSketch",
    "RunningQuantiles", "SafeMixture",
))  # fmt: skip
FORMER_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "extremes_": (),
    "following_": (),
    "n_samples_seen_": (),
    "online_": ("certificate_",),
    "running_": (),
}

_CLASSES: dict[str, type] = {}
_NAMES: dict[type, str] = {}
_WORDS: dict[type, dict[str, Words]] = {}


def saved_as(name: str, /, **words: Words) -> Callable[[Class], Class]:
    """Let `lpfuse.io` write instances of a class, and make them again, under a name for ever.

    The instances are made of their attributes, ``vars(instance)``, and by no other means: no
    constructor runs. Two classes cannot share a name.

    Parameters
    ----------
    name : str
        What files call the class. Never change it, and never give it to another class.
    **words : collection of str
        For each parameter that can be a string, the strings that it can be; see `Words`. A file
        with any other is refused. Derived classes inherit them.

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
    """A dataclass whose copies hold its fields alone: what it has cached is made anew."""

    def __getstate__(self) -> dict[str, Any]:
        names = {field.name for field in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in vars(self).items() if name in names}


def saved_name(cls: type) -> str | None:
    """Return what files call a class; None where they cannot hold it."""
    return _NAMES.get(cls)


def class_saved_as(name: str) -> type | None:
    """Return the class that files call so.

    None where no package that is installed has registered one.
    """
    if name not in _CLASSES:
        register_all()
    return _CLASSES.get(name)


def words_of(cls: type) -> dict[str, Words]:
    """Return the strings that parameters of a registered class may be."""
    found: dict[str, Words] = {}
    for base in reversed(cls.__mro__):
        found |= _WORDS.get(base, {})
    return found


def saved_classes() -> dict[str, type]:
    """Return all classes that are registered by now, by their names in files."""
    return dict(_CLASSES)


def register_all() -> None:
    """Import every module that registers classes, of lpfuse and of other installed packages."""
    for room in REGISTERING_MODULES:
        import_module(f"lpfuse.{room}")
    for entry in entry_points(group=GROUP):
        entry.load()
