"""Load estimators from files: no code of the file runs, and only registered classes are created.

`lpfuse.io.writing` describes the format; `Loadable` below describes what a file may set.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, is_dataclass
from functools import cache
from importlib.metadata import version
from inspect import Parameter, getattr_static, signature, unwrap
from opcode import opmap
from os import PathLike
from types import CodeType
from typing import Any
from zipfile import BadZipFile

import numpy as np
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.utils import Bunch

from lpfuse._files import (
    FORMER_ATTRIBUTES,
    FORMER_CLASSES,
    class_saved_as,
    register_all,
    saved_classes,
    saved_name,
    words_of,
)
from lpfuse.io import safety
from lpfuse.io import safety as container
from lpfuse.io.safety import LoadError

# --------------------------------------------------------------------------------------------------
# Classes and attributes that a file may hold
#
# Classes of lpfuse are registered beside their definition (`lpfuse._files`), those of scikit-learn
# in a table of `lpfuse.io.safety`. A file may set
#
# - parameters, with one of their allowed strings: never a path, a method name or an expression;
# - fitted attributes that the class declares or that its own methods set.


# Parameters of execution, which keep their defaults: `pre_dispatch` is evaluated by joblib,
# `memory` names a folder of pickles, `n_jobs` starts processes, and without `copy` the rows of the
# caller are overwritten.
RUNTIME_PARAMETERS = frozenset((
    "cache_size", "copy", "copy_X", "copy_x", "memory", "n_jobs", "n_threads", "pre_dispatch",
    "progress", "verbose", "warm_start",
))  # fmt: skip
SET_BY_VALIDATION = frozenset(("n_features_in_", "feature_names_in_", "classes_"))


@dataclass(frozen=True)
class Loadable:
    """A class that files may hold.

    Attributes
    ----------
    name : str
        Its name in files.
    cls : type
        The class.
    words : dict of str: collection
        Its parameters and their allowed strings, as in `lpfuse._files.Words`.
    fitted : frozenset of str
        Its fitted attributes.
    is_own : bool
        Whether it is registered in `lpfuse._files`. Its fitted attributes may then hold any string,
        since no code interprets them.
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
        """Attributes that are not saved."""
        return RUNTIME_PARAMETERS if self.is_own else RUNTIME_PARAMETERS | safety.NOT_SAVED

    def check_text(self, attribute: str, texts: Collection[str], bare: bool) -> None:
        """Raise for strings that an attribute may not hold.

        Parameters
        ----------
        attribute : str
            A parameter or a fitted attribute.
        texts : collection of str
            All strings in its value, including those in lists.
        bare : bool
            Whether the value itself is a string.
        """
        allowed = self.words.get(attribute)
        if allowed is None:
            if self.is_own or attribute in safety.FITTED_TEXT:
                return
            declared = (word for words in self.words.values() for word in words)
            allowed = {*safety.FITTED_STRINGS, *declared}
        elif str in allowed or (... in allowed and not bare):
            return
        strange = sorted(text for text in texts if text not in allowed)
        if strange:
            raise LoadError(
                f"{self.name}.{attribute} holds {strange[0]!r:.60}, which is none of the strings "
                f"that a file may set there: {sorted(set(allowed) - {str, ...})[:20] or 'none'}."
            )


def loadable(name: str) -> Loadable | None:
    """Return the class of that name in files; None if unknown."""
    cls: Any = safety.class_by_name(name) or class_saved_as(name)
    return None if cls is None else _described(name, cls)


def loadable_of(thing: Any) -> Loadable | None:
    """Return the class of an object, if files may hold it."""
    name = saved_name(type(thing)) or safety.name_of(thing)
    cls: Any = type(thing)
    return None if name is None else _described(name, cls)


def loadable_classes() -> dict[str, Loadable]:
    """Return all loadable classes by their names in files."""
    register_all()
    found = [loadable(name) for name in (*saved_classes(), *safety.MODULE_OF)]
    return {each.name: each for each in found if each is not None}


@cache
def _described(name: str, cls: Any) -> Loadable:
    is_own = saved_name(cls) is not None
    parameters = [each for each in signature(cls).parameters if each not in RUNTIME_PARAMETERS]
    declared = words_of(cls) if is_own else safety.words_of(cls)
    fitted = {*_set_by_methods(cls), *SET_BY_VALIDATION} - RUNTIME_PARAMETERS
    fitted -= frozenset() if is_own else safety.NOT_SAVED
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
    """Return names that a class and its bases declare, or assign to objects in methods."""
    names = {name for base in cls.__mro__ for name in vars(base).get("__annotations__", ())}
    declared = {name for name in names if name.endswith("_")}
    members = [member for base in cls.__mro__ for member in vars(base).values()]
    functions = [unwrap(getattr(each, "__func__", getattr(each, "fget", each))) for each in members]
    codes = [each.__code__ for each in functions if hasattr(each, "__code__")]
    return declared.union(*(attributes_set(part) for code in codes for part in _nested_code(code)))


def attributes_set(code: CodeType) -> Iterator[str]:
    """Yield what ``dis`` shows as STORE_ATTR, thirty times as fast."""
    extension, steps = 0, code.co_code[::2]
    if opmap["STORE_ATTR"] not in steps:
        return
    for step, argument in zip(steps, code.co_code[1::2], strict=True):
        argument |= extension
        if step == opmap["STORE_ATTR"]:
            yield code.co_names[argument]
        extension = argument << 8 if step == opmap["EXTENDED_ARG"] else 0


def _nested_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested_code(constant)


# --------------------------------------------------------------------------------------------------
# Loading and decoding

# Chosen by hand, far above any fitted estimator: nested references to the same list would grow
# exponentially when converted to an array or printed.
MAX_ITEMS, MAX_DEPTH = 2**24, 200
MAX_STRINGS = 100  # strings of a list that are checked; lists of arbitrary strings may hold more


def load(
    path: str | PathLike[str], trusted: Iterable[str | type] = (), *, key: bytes | None = None
) -> Any:
    """Load an estimator written by `save`; its scores are identical.

    Parameters
    ----------
    path : str or path
        A regular file.
    trusted : iterable of str or type, default=()
        Third-party types that the file may hold, such as those of PyOD. Types of lpfuse and the
        scikit-learn estimators used for detection need no trust: their content is validated. The
        error names the missing types. List a type only if you trust the file: its code will run.
    key : bytes, optional
        The signing key. Files that are unsigned, or were changed without the key, raise an error.
        Without a key the file is only checked for damage.

    Returns
    -------
    estimator
        As it was saved; `n_jobs`, `verbose` and the like have their defaults.

    Raises
    ------
    ValueError
        If the file is damaged, has another format, or holds untrusted types.
    """
    names = _type_names([trusted] if isinstance(trusted, str | type) else trusted)
    signing = container.check_key(key)
    try:
        archive = container.Archive(container.read_regular(path), signing)
        manifest = _check_manifest(archive.manifest(), archive.sealed)

        def load_foreign(name: Any, needed: list[Any]) -> Any:
            safety.check_trust(needed, names)
            return safety.loads(archive.nested(name), names)

        decoder = Decoder(archive.array, load_foreign, archive.charge)
        estimator = decoder.read(manifest["root"], manifest["objects"])
        archive.check_all_members_read()
    except (ImportError, OSError, Warning):
        raise
    except LoadError as error:
        raise ValueError(f"{path} is refused. {error}") from error
    except Exception as error:  # damaged files raise errors of many types
        raise ValueError(
            f"{path} is damaged, or was not written by lpfuse ({type(error).__name__}: "
            f"{error!s:.200}). Save the estimator again, or restore the file from a copy."
        ) from error
    _warn_about_version(manifest.get("scikit-learn"), decoder.sklearn_names)
    return estimator


def _check_manifest(manifest: Any, sealed: bool) -> dict[str, Any]:
    if not isinstance(manifest, dict) or manifest.get("format") != container.FORMAT:
        raise LoadError("The file was not written by lpfuse: its manifest does not say so.")
    number = manifest.get("version")
    if type(number) is not int or number < 1:
        raise LoadError(f"The version of the file's format must be a whole number, got {number!r}.")
    if not container.OLDEST_VERSION <= number <= container.FORMAT_VERSION:
        older = number < container.OLDEST_VERSION  # of an lpfuse before its first release
        raise LoadError(
            f"The file has format {number}, of lpfuse {manifest.get('lpfuse')}; this is lpfuse "
            f"{container.lpfuse_version()}, which reads format {container.FORMAT_VERSION}. "
            f"{'Fit and save the model again.' if older else 'pip install --upgrade lpfuse'}"
        )
    if not sealed:
        raise BadZipFile("the digest of its content is missing at its end")
    return manifest


def _type_names(trusted: Iterable[str | type]) -> list[str]:
    return [t if isinstance(t, str) else f"{t.__module__}.{t.__qualname__}" for t in trusted]


def _warn_about_version(written: Any, names: list[str]) -> None:
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
    """Create an estimator from `objects`; only registered classes are created.

    Parameters
    ----------
    array : callable
        Maps the name of a member to its array.
    load_foreign : callable
        Maps the name of a member, and its required types, to a third-party estimator.
    charge : callable
        Counts the bytes of an array that is copied or computed from others.
    """

    def __init__(
        self,
        array: Callable[[Any], Any],
        load_foreign: Callable[[Any, list[Any]], Any],
        charge: Callable[[int], None],
    ) -> None:
        self.array = array
        self.load_foreign = load_foreign
        self.charge = charge
        self.sklearn_names: list[str] = []
        self._made: list[Any] = []
        # Of each object: its strings and compiled parts outside of estimators, number of items and
        # depth.
        self._facts: list[tuple[frozenset[str], frozenset[str], int, int]] = []
        self._texts: set[str] = set()
        self._loose: set[str] = set()
        self._parts, self._depth = 1, 0

    def read(self, root: Any, objects: Any) -> Any:
        """Create the objects in order and return the root."""
        for described in objects:
            self._texts, self._loose, self._parts, self._depth = set(), set(), 1, 0
            self._made.append(self._make(described))
            if self._parts > MAX_ITEMS or self._depth >= MAX_DEPTH:
                raise LoadError(
                    f"It holds lists within lists, {self._depth + 1} deep and {self._parts:,} in "
                    f"all; at most {MAX_DEPTH} and {MAX_ITEMS:,} are read."
                )
            texts = sorted(self._texts)[: MAX_STRINGS + 1]
            loose = frozenset(self._loose)
            self._facts.append((frozenset(texts), loose, self._parts, self._depth + 1))
        self._loose = set()
        made = self._value(root)
        self._check_owner("The file", "")
        return made

    def _value(self, value: Any) -> Any:
        match value:
            case [int(k)] if type(k) is int and 0 <= k < len(self._made):
                texts, loose, parts, depth = self._facts[k]
                self._texts |= texts
                self._loose |= loose
                self._parts += parts
                self._depth = max(self._depth, depth)
                return self._made[k]
            case list() | dict():
                raise LoadError(f"Expected a value or an earlier object, got {value!r:.60}.")
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
                return self._note_strings(_scalar(np.dtype(dtype), bytes.fromhex(text)))
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
                return self._note_strings(self.array(name))
            case {"copy": other}:
                return self._note_strings(self._copy(self._value(other)))
            case {"rows": [list(sources), steps]}:
                return self._rows(self._values(sources), self._value(steps))
            case {"beside": [left, right]}:
                return self._beside(self._value(left), self._value(right))
            case {"view": [rows, transformer]}:
                return self._view(self._value(rows), self._value(transformer))
            case {"random": [str(name), state]}:
                made, self._texts = _random(name, self._value(state)), set()
                return made
            case {"dtype": str(name)}:
                return _dtype(name)
            case {"number": str(name)}:
                return container.NUMBER_TYPES[name]
            case {"function": str(name)}:
                return safety.functions()[name]
            case {"object": [str(name), dict(attributes)]}:
                return self._object(name, attributes)
            case {"skops": [str(name), list(needed)]}:
                return self.load_foreign(name, needed)
        return self._compiled(described)

    def _compiled(self, described: Any) -> Any:
        match described:
            case {"tree": [list(names), int(columns), list(classes), int(depth), table]}:
                self._loose.add("Tree")
                return safety.make_tree(names, columns, classes, depth, self._value(table))
            case {"predictor": [list(names), table, binned, raw]}:
                self._loose.add("TreePredictor")
                return safety.make_predictor(names, *self._values([table, binned, raw]))
        raise LoadError(f"The file holds an unknown kind of object: {described!r:.60}.")

    def _copy(self, array: Any) -> Any:
        if type(array) is not np.ndarray or array.dtype == object:
            raise LoadError("It copies what is no array.")
        self.charge(array.nbytes)
        return array.copy("K")

    def _rows(self, sources: list[Any], steps: Any) -> Any:
        """Return rows of arrays of one width, by the differences of their positions."""
        plain = all(type(each) is np.ndarray and each.ndim == 2 for each in (*sources, steps[None]))
        if not plain or any(each.dtype != np.float64 for each in sources):
            raise LoadError("It collects rows of what is no array of numbers.")
        self.charge(len(steps) * sources[0].shape[1] * 8)
        whole = sources[0] if len(sources) == 1 else np.concatenate(sources)
        return whole[np.cumsum(steps, dtype=np.int64)]

    def _beside(self, left: Any, right: Any) -> Any:
        if not all(type(each) is np.ndarray and each.ndim == 2 for each in (left, right)):
            raise LoadError("It puts beside each other what is no array.")
        self.charge(left.nbytes + right.nbytes)
        return np.hstack([left, right])

    def _view(self, rows: Any, transformer: Any) -> Any:
        """Return rows as a transformer shows them."""
        if not safety.is_plain_view(transformer, rows):
            raise LoadError(f"It transforms rows by {type(transformer).__name__}.")
        self.charge(rows.nbytes)
        return show(transformer, rows)

    def _note_strings(self, made: Any) -> Any:
        """Record the strings of a NumPy array or scalar, and return it."""
        if made.dtype.kind in "SU":
            self._texts |= {str(text) for text in np.ravel(made)[: MAX_STRINGS + 1]}
        return made

    def _object(self, name: str, attributes: dict[str, Any]) -> Any:
        kind = loadable(name)
        if kind is None and name in FORMER_CLASSES:
            return None
        if kind is None:
            raise LoadError(
                f"It holds an object of the class {name!r}, which is unknown. That may be a class "
                "of a package that is not installed here, such as lpfuse-faces, of a newer one, or "
                "one of scikit-learn that needs trust now: fit and save the model again."
            )
        former = _removed_attributes(kind, attributes)
        values = {
            each: self._attribute(kind, each, attributes[each])
            for each in attributes
            if each not in former
        }
        self._texts = set()  # already checked
        self._loose = {name} if name == "_BinMapper" else set()
        if kind.is_own:
            if kind.former & values.keys():  # a file of an earlier version
                values = kind.upgrade(values)
            made: Any = object.__new__(kind.cls)
            vars(made).update(_defaults(kind, values) | values)
            if hasattr(made, "__post_init__"):  # the checks of a new instance
                made.__post_init__()
            return made.restored(self.charge) if hasattr(kind.cls, "restored") else made
        self.sklearn_names.append(name)
        made = safety.make(kind.cls, {each: values[each] for each in kind.words if each in values})
        fitted = {each: values[each] for each in values if each not in kind.words}
        if fitted.keys() & vars(made).keys():
            raise LoadError(
                f"{name} does not take {sorted(fitted.keys() & vars(made).keys())[0]!r}."
            )
        if fitted:
            vars(made).update(fitted)
            safety.complete(made)
        return made

    def _attribute(self, kind: Loadable, attribute: str, value: Any) -> Any:
        if attribute not in (*kind.words, *kind.fitted, *kind.former):
            raise LoadError(
                f"The file would set {attribute!r} of {kind.name}, which is neither one of its "
                "parameters that files may set nor something that it learns."
            )
        self._texts, self._loose = set(), set()
        made = self._value(value)
        if self._loose:
            self._check_owner(f"{kind.name}.{attribute}", attribute)
        if kind.is_own and safety.is_function(made) and attribute not in ("scorer", "scorer_"):
            raise LoadError(f"{kind.name}.{attribute} is a function, and would be called.")
        if self._texts:
            kind.check_text(attribute, self._texts, bare=isinstance(made, str))
        return made

    def _check_owner(self, place: str, attribute: str) -> None:
        """Raise for compiled parts outside of the attributes whose owners check them."""
        strange = self._loose - {safety.OWNERS.get(attribute)}
        if strange:
            raise LoadError(
                f"{place} holds a {min(strange)}, a part of an estimator that is used without "
                "checks. Save the estimator that it belongs to."
            )


def show(transformer: Any, rows: Any) -> Any:
    """Transform rows; whatever its output is set to, the result is an array."""
    with warnings.catch_warnings():  # of feature names
        warnings.simplefilter("ignore")
        return np.ascontiguousarray(transformer.transform(rows))


def _removed_attributes(kind: Loadable, attributes: Iterable[str]) -> set[str]:
    """Return attributes of earlier versions of a class, and attributes that depend on them."""
    if not kind.is_own:
        return set()
    gone = {each for each in attributes if each in FORMER_ATTRIBUTES and each not in kind.fitted}
    return gone.union(*(FORMER_ATTRIBUTES[each] for each in gone))


def _scalar(dtype: np.dtype[Any], content: bytes) -> Any:
    if dtype.kind not in container.PLAIN_KINDS or len(content) != dtype.itemsize:
        raise LoadError(f"The file holds an invalid scalar of type {dtype}.")
    return np.frombuffer(content, dtype)[0]


def _dtype(name: str) -> np.dtype[Any]:
    dtype = np.dtype(name)
    if dtype.kind not in container.PLAIN_KINDS + "O" or dtype.str != name:
        raise LoadError(
            f"The file holds the dtype {name!r:.60}, which is neither numeric nor text."
        )
    return dtype


def _dict(pairs: Iterable[list[Any]]) -> dict[Any, Any]:
    made = {}
    for key, value in pairs:
        if not container.is_key(key):
            raise LoadError("Keys of dictionaries must be strings, numbers, or tuples of them.")
        made[key] = value
    return made


def _object_array(shape: list[Any], items: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(items), dtype=object)
    for k, item in enumerate(items):
        array[k] = item
    return array.reshape(shape)


def _random(name: str, state: dict[str, Any]) -> Any:
    bits: Any = container.BIT_GENERATORS[state["bit_generator"]]()
    position = state["state"].get("pos", 0)  # the Mersenne twister does not validate it
    if not 0 <= position <= 624:
        raise LoadError(f"A random state has the position {position}, which must be within 624.")
    if name == "RandomState":
        made = np.random.RandomState(bits)
        made.set_state(state)
        return made
    bits.state = state
    return np.random.Generator(bits)


def _defaults(kind: Loadable, given: Iterable[str]) -> dict[str, Any]:
    """Return defaults of parameters that the file does not set."""
    values, cls = {}, kind.cls
    for name in signature(cls).parameters.keys() - set(given):
        default = signature(cls).parameters[name].default
        missing = default is Parameter.empty or (is_dataclass(cls) and name not in vars(cls))
        if missing and name not in RUNTIME_PARAMETERS:
            raise LoadError(
                f"{cls.__name__} lacks {name!r} in the file, which is damaged or of an earlier "
                "lpfuse. Fit and save the model again."
            )
        values[name] = default
    return values
