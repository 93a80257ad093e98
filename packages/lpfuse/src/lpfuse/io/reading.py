"""From a file to an estimator: nothing that the file says is executed, no class outside is touched.

See `_writing` for what a file holds, and `_loadable` for what it may hold.
"""

from __future__ import annotations

import dis
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, is_dataclass
from functools import cache
from importlib.metadata import version
from inspect import Parameter, getattr_static, signature, unwrap
from os import PathLike
from types import CodeType
from typing import Any
from zipfile import BadZipFile

import numpy as np
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.utils import Bunch

from lpfuse._saved import (
    FORMER_ATTRIBUTES,
    FORMER_CLASSES,
    class_saved_as,
    register_all,
    saved_classes,
    saved_name,
    words_of,
)
from lpfuse.io import archive as container
from lpfuse.io import safety as foreign
from lpfuse.io import safety as scikit
from lpfuse.io import safety as soundness
from lpfuse.io.archive import Refused

# --------------------------------------------------------------------------------------------------
# The classes that a file may hold, and what their instances may be made of: nothing else is read.
#
# A class of lpfuse is registered beside its definition (`lpfuse._saved`); those of scikit-learn are
# in the table of `_scikit`. For each of them this module says
#
# - which *parameters* a file may set, and the strings that each of them can be. A path, the name of
#   another method, a format or an expression is none of them;
# - which *fitted attributes*: those that the class declares or its own methods set, and no others.


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
    former : frozenset of str
        Attributes of files of earlier versions, which ``cls.upgrade_saved`` takes.
    """

    name: str
    cls: type
    words: dict[str, Collection[Any]]
    fitted: frozenset[str]
    is_own: bool
    former: frozenset[str] = frozenset()

    def upgrade(self, values: dict[str, Any]) -> dict[str, Any]:
        """Bring attributes of a file of an earlier version into today's form."""
        cls: Any = self.cls
        upgraded: dict[str, Any] = cls.upgrade_saved(values)
        return upgraded

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
    """Return the class that files call so; None where there is none."""
    cls: Any = scikit.class_called(name) or class_saved_as(name)
    return None if cls is None else _described(name, cls)


def loadable_of(thing: Any) -> Loadable | None:
    """Return the class of an object, if files may hold it."""
    name = saved_name(type(thing)) or scikit.name_of(thing)
    cls: Any = type(thing)
    return None if name is None else _described(name, cls)


def loadable_classes() -> dict[str, Loadable]:
    """Return all of them, by their names in files."""
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
    former = frozenset(getattr(cls, "saved_formerly", ())) if is_own else frozenset()
    return Loadable(
        name,
        cls,
        {parameter: declared.get(parameter, ()) for parameter in parameters},
        frozenset(each for each in fitted.difference(parameters) if is_data(cls, each)),
        is_own,
        former,
    )


def is_data(cls: type, attribute: str) -> bool:
    """Return whether an attribute is of an instance alone, and hides nothing that its class has."""
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


# --------------------------------------------------------------------------------------------------

# Chosen by hand, far above what a fitted estimator comes to: lists of lists of the same list would
# grow without end wherever they are turned into an array or printed.
MOST_PARTS, DEEPEST = 2**24, 200
MOST_TEXTS = 100  # strings of a list that are told apart; it may hold more where it may hold any


def load(
    path: str | PathLike[str], trusted: Iterable[str | type] = (), *, key: bytes | None = None
) -> Any:
    """Read what `save` wrote; it scores exactly as before.

    Parameters
    ----------
    path : str or path
        The file: a regular one.
    trusted : iterable of str or type, default=()
        Types of other makers that the file may hold, such as those of PyOD. lpfuse and the
        estimators of scikit-learn that people use for detection need no trust: what a file may say
        of them is checked. Without it, the message of the error names what is missing; name a type
        only if you trust the file, for code of that type will run.
    key : bytes, optional
        The key that it was signed with: a file that was not, or that somebody without the key has
        changed, is refused. Without a key the file is only checked for damage.

    Returns
    -------
    estimator
        As it was saved; `n_jobs`, `verbose` and the like have their defaults.

    Raises
    ------
    ValueError
        For a file that is damaged, is of another format, or holds what is not trusted.
    """
    names = _names([trusted] if isinstance(trusted, str | type) else trusted)
    signing = container.check_key(key)
    try:
        archive = container.Archive(container.read_regular(path), signing)
        manifest = _checked(archive.manifest(), archive.sealed)

        def make_foreign(name: Any, needed: list[Any]) -> Any:
            foreign.check_trust(needed, names)
            return foreign.loads(archive.nested(name), names)

        decoder = Decoder(archive.array, make_foreign)
        estimator = decoder.read(manifest["root"], manifest["objects"])
        archive.refuse_leftovers()
    except (ImportError, OSError, Warning):
        raise
    except Refused as error:
        raise ValueError(f"{path} is refused. {error}") from error
    except Exception as error:  # whatever a reader may stumble over in a damaged file
        raise ValueError(
            f"{path} is damaged, or was not written by lpfuse ({type(error).__name__}: "
            f"{error!s:.200}). Save the estimator again, or restore the file from a copy."
        ) from error
    _warn_of_version(manifest.get("scikit-learn"), decoder.of_scikit)
    return estimator


def _checked(manifest: Any, sealed: bool) -> dict[str, Any]:
    if not isinstance(manifest, dict) or manifest.get("format") != container.FORMAT:
        raise Refused("The file was not written by lpfuse: its manifest does not say so.")
    number = manifest.get("version")
    if type(number) is not int or number < 1:
        raise Refused(f"The version of the file's format must be a whole number, got {number!r}.")
    if number != container.FORMAT_VERSION:
        older = number < container.FORMAT_VERSION  # of an lpfuse before its first release
        raise Refused(
            f"The file has format {number}, of lpfuse {manifest.get('lpfuse')}; this is lpfuse "
            f"{container.lpfuse_version()}, which reads format {container.FORMAT_VERSION}. "
            f"{'Fit and save the model again.' if older else 'pip install --upgrade lpfuse'}"
        )
    if not sealed:
        raise BadZipFile("the digest of its content is missing at its end")
    return manifest


def _names(trusted: Iterable[str | type]) -> list[str]:
    return [t if isinstance(t, str) else f"{t.__module__}.{t.__qualname__}" for t in trusted]


def _warn_of_version(written: Any, names: list[str]) -> None:
    here = version("scikit-learn")
    if names and written != here:
        warnings.warn(
            InconsistentVersionWarning(
                estimator_name=names[0],
                current_sklearn_version=here,
                original_sklearn_version=str(written),
            ),
            stacklevel=3,
        )


class Decoder:
    """Makes an estimator of `objects`; a class outside the tables is never touched.

    Parameters
    ----------
    array : callable
        From the name of a member to its array.
    make_foreign : callable
        From the name of a member, and the types that it needs, to an estimator of another maker.
    """

    def __init__(
        self, array: Callable[[Any], Any], make_foreign: Callable[[Any, list[Any]], Any]
    ) -> None:
        self.array = array
        self.make_foreign = make_foreign
        self.of_scikit: list[str] = []
        self._made: list[Any] = []
        # Of each object: the strings in it, but for those in estimators, its parts and its depth.
        self._facts: list[tuple[frozenset[str], int, int]] = []
        self._texts: set[str] = set()
        self._parts, self._depth = 1, 0

    def read(self, root: Any, objects: Any) -> Any:
        """Make the objects one by one; the root is what they are for."""
        for described in objects:
            self._texts, self._parts, self._depth = set(), 1, 0
            self._made.append(self._make(described))
            if self._parts > MOST_PARTS or self._depth >= DEEPEST:
                raise Refused(
                    f"It holds lists within lists, {self._depth + 1} deep and {self._parts:,} in "
                    f"all; at most {DEEPEST} and {MOST_PARTS:,} are read."
                )
            texts = sorted(self._texts)[: MOST_TEXTS + 1]
            self._facts.append((frozenset(texts), self._parts, self._depth + 1))
        return self._value(root)

    def _value(self, value: Any) -> Any:
        match value:
            case [int(k)] if type(k) is int and 0 <= k < len(self._made):
                texts, parts, depth = self._facts[k]
                self._texts |= texts
                self._parts += parts
                self._depth = max(self._depth, depth)
                return self._made[k]
            case list() | dict():
                raise Refused(f"{value!r:.60} stands where a value or an earlier object should.")
            case str():
                self._texts.add(value)
        return value

    def _values(self, values: list[Any]) -> list[Any]:
        return [self._value(value) for value in values]

    def _make(self, described: Any) -> Any:
        match described:
            case {"float": str(text)}:
                return float(text)
            case {"bytes": str(text)}:
                self._texts.add(text)
                return bytes.fromhex(text)
            case {"scalar": [str(dtype), str(text)]}:
                return self._told(_scalar(np.dtype(dtype), bytes.fromhex(text)))
            case {"slice": [start, stop, step]}:
                return slice(*self._values([start, stop, step]))
            case {"list": list(items)}:
                return self._values(items)
            case {"tuple": list(items)}:
                return tuple(self._values(items))
            case {"dict": list(pairs)}:
                return _dict(self._values(pair) for pair in pairs)
            case {"bunch": pairs}:
                return Bunch(**self._value(pairs))
            case {"masked": [data, mask]}:
                return np.ma.MaskedArray(*self._values([data, mask]))
            case {"objects": [list(shape), list(items)]}:
                return _object_array(shape, self._values(items))
            case {"array": str(name)}:
                return self._told(self.array(name))
            case {"random": [str(name), state]}:
                made, self._texts = _random(name, self._value(state)), set()
                return made
            case {"dtype": str(name)}:
                return _dtype(name)
            case {"number": str(name)}:
                return container.NUMBER_TYPES[name]
            case {"function": str(name)}:
                return scikit.functions()[name]
            case {"object": [str(name), dict(attributes)]}:
                return self._object(name, attributes)
            case {"skops": [str(name), list(needed)]}:
                return self.make_foreign(name, needed)
        return self._compiled(described)

    def _compiled(self, described: Any) -> Any:
        match described:
            case {"tree": [list(names), int(columns), list(classes), int(depth), table]}:
                return soundness.make_tree(names, columns, classes, depth, self._value(table))
            case {"predictor": [list(names), table, binned, raw]}:
                return soundness.make_predictor(names, *self._values([table, binned, raw]))
            case {"sparse": [str(kind), list(shape), data, indices, starts]}:
                parts = self._values([data, indices, starts])
                return soundness.make_sparse(kind, shape, *parts)
        raise Refused(f"The file holds an object that lpfuse does not know: {described!r:.60}.")

    def _told(self, made: Any) -> Any:
        """Return an array or a number of NumPy; text in it counts as text."""
        if made.dtype.kind in "SU":
            self._texts |= {str(text) for text in np.ravel(made)[: MOST_TEXTS + 1]}
        return made

    def _object(self, name: str, attributes: dict[str, Any]) -> Any:
        kind = loadable(name)
        if kind is None and name in FORMER_CLASSES:
            return None
        if kind is None:
            raise Refused(
                f"It holds an object of the class {name!r}, which is unknown. That may be a class "
                "of a package that is not installed here, such as lpfuse-faces, or of a newer one."
            )
        former = _former(kind, attributes)
        values = {
            each: self._attribute(kind, each, attributes[each])
            for each in attributes
            if each not in former
        }
        self._texts = set()  # checked, and from here on nobody's business
        if kind.is_own:
            if kind.former & values.keys():  # a file of an earlier version
                values = kind.upgrade(values)
            made: Any = object.__new__(kind.cls)
            vars(made).update(_defaults(kind, values) | values)
            return made
        self.of_scikit.append(name)
        made = scikit.make(kind.cls, {each: values[each] for each in kind.words if each in values})
        fitted = {each: values[each] for each in values if each not in kind.words}
        if fitted.keys() & vars(made).keys():
            raise Refused(f"{name} does not take {sorted(fitted.keys() & vars(made).keys())[0]!r}.")
        if fitted:
            vars(made).update(fitted)
            scikit.complete(made)
        return made

    def _attribute(self, kind: Loadable, attribute: str, value: Any) -> Any:
        if attribute not in (*kind.words, *kind.fitted, *kind.former):
            raise Refused(
                f"The file would set {attribute!r} of {kind.name}, which is neither one of its "
                "parameters that files may set nor something that it learns."
            )
        self._texts = set()
        made = self._value(value)
        if self._texts:
            kind.check_text(attribute, self._texts, bare=isinstance(made, str))
        return made


def _former(kind: Loadable, attributes: Iterable[str]) -> set[str]:
    """Attributes that an earlier version of one of our classes had, and what went with them."""
    if not kind.is_own:
        return set()
    gone = {each for each in attributes if each in FORMER_ATTRIBUTES and each not in kind.fitted}
    return gone.union(*(FORMER_ATTRIBUTES[each] for each in gone))


def _scalar(dtype: np.dtype[Any], content: bytes) -> Any:
    if dtype.kind not in container.PLAIN_KINDS or len(content) != dtype.itemsize:
        raise Refused(f"The file holds a number of type {dtype} that is none.")
    return np.frombuffer(content, dtype)[0]


def _dtype(name: str) -> np.dtype[Any]:
    dtype = np.dtype(name)
    if dtype.kind not in container.PLAIN_KINDS + "O" or dtype.str != name:
        raise Refused(f"The file holds the type {name!r:.60}, which is none of numbers or text.")
    return dtype


def _dict(pairs: Iterable[list[Any]]) -> dict[Any, Any]:
    made = {}
    for key, value in pairs:
        if not container.is_key(key):
            raise Refused("Keys of dictionaries must be text, numbers, or tuples of them.")
        made[key] = value
    return made


def _object_array(shape: list[Any], items: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(items), dtype=object)
    for k, item in enumerate(items):
        array[k] = item
    return array.reshape(shape)


def _random(name: str, state: dict[str, Any]) -> Any:
    bits: Any = container.BIT_GENERATORS[state["bit_generator"]]()
    position = state["state"].get("pos", 0)  # of the Mersenne twister, which does not check it
    if not 0 <= position <= 624:
        raise Refused(f"A random state has the position {position}, which must be within 624.")
    if name == "RandomState":
        made = np.random.RandomState(bits)
        made.set_state(state)
        return made
    bits.state = state
    return np.random.Generator(bits)


def _defaults(kind: Loadable, given: Iterable[str]) -> dict[str, Any]:
    """Parameters that are not taken from files, or were not known yet when one was written."""
    values, cls = {}, kind.cls
    for name in signature(cls).parameters.keys() - set(given):
        default = signature(cls).parameters[name].default
        missing = default is Parameter.empty or (is_dataclass(cls) and name not in vars(cls))
        if missing and name not in NOT_FROM_FILES:
            raise Refused(
                f"{cls.__name__} lacks {name!r} in the file, which is damaged or of an earlier "
                "lpfuse. Fit and save the model again."
            )
        values[name] = default
    return values
