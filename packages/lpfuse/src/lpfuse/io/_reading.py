"""From a file to an estimator: nothing that the file says is executed, no class outside is touched.

See `_writing` for what a file holds, and `_loadable` for what it may hold.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from importlib.metadata import version
from inspect import Parameter, signature
from os import PathLike
from typing import Any
from zipfile import BadZipFile

import numpy as np
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.utils import Bunch

from lpfuse.io import _archive as container
from lpfuse.io import _foreign as foreign
from lpfuse.io import _scikit as scikit
from lpfuse.io import _soundness as soundness
from lpfuse.io._archive import Refused
from lpfuse.io._loadable import NOT_FROM_FILES, Loadable, loadable

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
        """An array or a number of NumPy; text in it counts as text."""
        if made.dtype.kind in "SU":
            self._texts |= {str(text) for text in np.ravel(made)[: MOST_TEXTS + 1]}
        return made

    def _object(self, name: str, attributes: dict[str, Any]) -> Any:
        kind = loadable(name)
        if kind is None:
            raise Refused(
                f"It holds an object of the class {name!r}, which is unknown. That may be a class "
                "of a package that is not installed here, such as lpfuse-faces, or of a newer one."
            )
        values = {each: self._attribute(kind, each, attributes[each]) for each in attributes}
        self._texts = set()  # checked, and from here on nobody's business
        if kind.is_own:
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
        if attribute not in kind.words and attribute not in kind.fitted:
            raise Refused(
                f"The file would set {attribute!r} of {kind.name}, which is neither one of its "
                "parameters that files may set nor something that it learns."
            )
        self._texts = set()
        made = self._value(value)
        if self._texts:
            kind.check_text(attribute, self._texts, bare=isinstance(made, str))
        return made


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
