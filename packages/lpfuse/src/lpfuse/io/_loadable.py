"""The classes that a file may hold, and what their instances may be made of: nothing else is read.

A class of lpfuse is registered beside its definition (`lpfuse._saved`); those of scikit-learn are
in the table of `_scikit`. For each of them this module says

- which *parameters* a file may set, and the strings that each of them can be. A path, the name of
  another method, a format or an expression is none of them;
- which *fitted attributes*: those that the class declares or its own methods set, and no others.
"""

from __future__ import annotations

import dis
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from inspect import getattr_static, signature, unwrap
from types import CodeType
from typing import Any

from lpfuse._saved import class_saved_as, register_all, saved_classes, saved_name, words_of
from lpfuse.io import _scikit as scikit
from lpfuse.io._archive import Refused

# How the work is done, and no part of what was learnt: a file cannot say. `pre_dispatch` is
# evaluated by joblib, `memory` names a folder of pickles, `n_jobs` starts processes, and without
# `copy` the rows of the caller are overwritten. They are as if they had not been set.
NOT_FROM_FILES = frozenset((
    "cache_size", "copy", "copy_X", "copy_x", "memory", "n_jobs", "n_threads", "pre_dispatch",
    "progress", "verbose", "warm_start",
))  # fmt: skip
SET_BY_CHECKS = frozenset(("n_features_in_", "feature_names_in_", "classes_"))


@dataclass(frozen=True)
class Loadable:
    """A class that files may hold.

    Attributes
    ----------
    name : str
        What files call it.
    cls : type
        The class.
    words : dict of str: collection
        Its parameters, and the strings that each may be, as in `lpfuse._saved.Words`.
    fitted : frozenset of str
        Its fitted attributes.
    is_own : bool
        Whether it is registered in `lpfuse._saved`: then any text may stand in fitted attributes,
        for no code takes it for more than text.
    """

    name: str
    cls: type
    words: dict[str, Collection[Any]]
    fitted: frozenset[str]
    is_own: bool

    @property
    def left_out(self) -> frozenset[str]:
        """Attributes of instances that are no part of a file."""
        return NOT_FROM_FILES if self.is_own else NOT_FROM_FILES | scikit.LEFT_OUT

    def check_text(self, attribute: str, texts: Collection[str], bare: bool) -> None:
        """Refuse strings that an attribute may not hold.

        Parameters
        ----------
        attribute : str
            A parameter or a fitted attribute.
        texts : collection of str
            All strings of its value, those in lists included.
        bare : bool
            Whether the value is a string itself.
        """
        allowed = self.words.get(attribute)
        if allowed is None:
            if self.is_own or attribute in scikit.FITTED_TEXT:
                return
            declared = (word for words in self.words.values() for word in words)
            allowed = {*scikit.FITTED_WORDS, *declared}
        elif str in allowed or (... in allowed and not bare):
            return
        strange = sorted(text for text in texts if text not in allowed)
        if strange:
            raise Refused(
                f"{self.name}.{attribute} holds {strange[0]!r:.60}, which is none of the strings "
                f"that a file may set there: {sorted(set(allowed) - {str, ...})[:20] or 'none'}."
            )


def loadable(name: str) -> Loadable | None:
    """The class that files call so; None where there is none."""
    cls: Any = scikit.class_called(name) or class_saved_as(name)
    return None if cls is None else _described(name, cls)


def loadable_of(thing: Any) -> Loadable | None:
    """The class of an object, if files may hold it."""
    name = saved_name(type(thing)) or scikit.name_of(thing)
    cls: Any = type(thing)
    return None if name is None else _described(name, cls)


def loadable_classes() -> dict[str, Loadable]:
    """All of them, by their names in files."""
    register_all()
    found = [loadable(name) for name in (*saved_classes(), *scikit.HOMES)]
    return {each.name: each for each in found if each is not None}


@cache
def _described(name: str, cls: Any) -> Loadable:
    is_own = saved_name(cls) is not None
    parameters = [each for each in signature(cls).parameters if each not in NOT_FROM_FILES]
    declared = words_of(cls) if is_own else scikit.words_of(cls)
    fitted = {*_set_by_methods(cls), *SET_BY_CHECKS} - NOT_FROM_FILES
    fitted -= frozenset() if is_own else scikit.LEFT_OUT
    return Loadable(
        name,
        cls,
        {parameter: declared.get(parameter, ()) for parameter in parameters},
        frozenset(each for each in fitted.difference(parameters) if is_data(cls, each)),
        is_own,
    )


def is_data(cls: type, attribute: str) -> bool:
    """Whether an attribute is of an instance alone, and hides nothing that its class has."""
    return not attribute.startswith("__") and getattr_static(cls, attribute, cls) is cls


def _set_by_methods(cls: type) -> set[str]:
    """Names that a class, and those it derives from, declare or assign to objects in methods."""
    names = {name for base in cls.__mro__ for name in vars(base).get("__annotations__", ())}
    declared = {name for name in names if name.endswith("_")}
    members = [member for base in cls.__mro__ for member in vars(base).values()]
    functions = [unwrap(getattr(each, "__func__", getattr(each, "fget", each))) for each in members]
    codes = [each.__code__ for each in functions if hasattr(each, "__code__")]
    return declared | {
        step.argval
        for code in codes
        for part in _with_inner(code)
        for step in dis.get_instructions(part)
        if step.opname == "STORE_ATTR"
    }


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)
