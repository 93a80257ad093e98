"""From a file to an estimator: nothing that the file says is executed, no class outside is touched.

See `_writing` for what a file holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import is_dataclass
from inspect import Parameter, signature
from os import PathLike
from typing import Any

import numpy as np

from lpfuse._saved import class_saved_as
from lpfuse.io import _foreign as foreign
from lpfuse.io._archive import (
    BIT_GENERATORS,
    FORMAT,
    FORMAT_VERSION,
    PLAIN_KINDS,
    Archive,
    Refused,
    is_data,
    is_key,
    lpfuse_version,
)


def load(path: str | PathLike[str], trusted: Iterable[str | type] = ()) -> Any:
    """Read what `save` wrote; it scores exactly as before.

    Parameters
    ----------
    path : str or path
        The file.
    trusted : iterable of str or type, default=()
        Further types that the file may hold, such as those of PyOD. lpfuse and scikit-learn are
        trusted already. Without them, the message of the error names what is missing; name a type
        only if you trust the file, for code of that type will run.

    Returns
    -------
    estimator
        As it was saved.

    Raises
    ------
    ValueError
        For a file that is damaged, is of a newer format, or holds what is not trusted.
    """
    names = _names([trusted] if isinstance(trusted, str | type) else trusted)
    with open(path, "rb") as file:
        try:
            archive = Archive(file)
            root, objects = _checked(archive.manifest())
            estimator = Decoder(archive, names).read(root, objects)
            archive.refuse_leftovers()
        except (ImportError, Warning):
            raise
        except Refused as error:
            raise ValueError(f"{path} is refused. {error}") from error
        except Exception as error:  # whatever a reader may stumble over in a damaged file
            raise ValueError(
                f"{path} is damaged, or was not written by lpfuse ({type(error).__name__}: "
                f"{error}). Save the estimator again, or restore the file from a copy."
            ) from error
    return estimator


def _checked(manifest: Any) -> tuple[Any, Any]:
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise Refused("The file was not written by lpfuse: its manifest does not say so.")
    number = manifest.get("version")
    if type(number) is not int or number < 1:
        raise Refused(f"The version of the file's format must be a whole number, got {number!r}.")
    if number > FORMAT_VERSION:
        raise Refused(
            f"The file has format {number}, of lpfuse {manifest.get('lpfuse')}; this is lpfuse "
            f"{lpfuse_version()}, which reads format {FORMAT_VERSION}. Upgrade: "
            "pip install --upgrade lpfuse"
        )
    if number < FORMAT_VERSION:
        raise Refused(
            f"The file has format {number}, of an lpfuse before its first release; this is "
            f"lpfuse {lpfuse_version()}, which reads format {FORMAT_VERSION}. Fit and save the "
            "model again."
        )
    return manifest["root"], manifest["objects"]


def _names(trusted: Iterable[str | type]) -> list[str]:
    return [t if isinstance(t, str) else f"{t.__module__}.{t.__qualname__}" for t in trusted]


class Decoder:
    """Makes an estimator of `objects`; a class outside the table is never touched."""

    def __init__(self, archive: Archive, trusted: list[str]) -> None:
        self.archive = archive
        self.trusted = trusted
        self._made: list[Any] = []

    def read(self, root: Any, objects: Any) -> Any:
        """Make the objects one by one; the root is what they are for."""
        for described in objects:
            self._made.append(self._make(described))
        return self._value(root)

    def _value(self, value: Any) -> Any:
        match value:
            case [int(k)] if type(k) is int and 0 <= k < len(self._made):
                return self._made[k]
            case list() | dict():
                raise Refused(f"{value!r:.60} stands where a value or an earlier object should.")
        return value

    def _values(self, values: list[Any]) -> list[Any]:
        return [self._value(value) for value in values]

    def _make(self, described: Any) -> Any:
        match described:
            case {"float": str(text)}:
                return float(text)
            case {"bytes": str(text)}:
                return bytes.fromhex(text)
            case {"scalar": [str(dtype), str(text)]}:
                return _scalar(np.dtype(dtype), bytes.fromhex(text))
            case {"slice": [start, stop, step]}:
                return slice(*self._values([start, stop, step]))
            case {"list": list(items)}:
                return self._values(items)
            case {"tuple": list(items)}:
                return tuple(self._values(items))
            case {"dict": list(pairs)}:
                return _dict(self._values(pair) for pair in pairs)
            case {"masked": [data, mask]}:
                return np.ma.MaskedArray(*self._values([data, mask]))
            case {"objects": [list(shape), list(items)]}:
                return _object_array(shape, self._values(items))
            case {"array": str(name)}:
                return self.archive.array(name)
            case {"random": [str(name), state]}:
                return _random(name, self._value(state))
            case {"object": [str(name), dict(attributes)]}:
                return self._made_of_attributes(name, attributes)
            case {"skops": str(name)}:
                return foreign.loads(self.archive.content(name), self.trusted)
        raise Refused(f"The file holds an object that lpfuse does not know: {described!r:.60}.")

    def _made_of_attributes(self, name: str, attributes: dict[str, Any]) -> Any:
        cls = class_saved_as(name)
        if cls is None:
            raise Refused(
                f"It holds an object of the class {name!r}, which is unknown. That may be a class "
                "of a package that is not installed here, such as lpfuse-faces, or of a newer one."
            )
        values = _defaults(cls, attributes)
        for attribute, value in attributes.items():
            if not is_data(cls, attribute):
                raise Refused(f"The file would replace {attribute!r} of {name}, which is no data.")
            values[attribute] = self._value(value)
        made: Any = object.__new__(cls)
        vars(made).update(values)
        return made


def _scalar(dtype: np.dtype[Any], content: bytes) -> Any:
    if dtype.kind not in PLAIN_KINDS or len(content) != dtype.itemsize:
        raise Refused(f"The file holds a number of type {dtype} that is none.")
    return np.frombuffer(content, dtype)[0]


def _dict(pairs: Iterable[list[Any]]) -> dict[Any, Any]:
    made = {}
    for key, value in pairs:
        if not is_key(key):
            raise Refused("Keys of dictionaries must be text, numbers, or tuples of them.")
        made[key] = value
    return made


def _object_array(shape: list[Any], items: list[Any]) -> np.ndarray[Any, Any]:
    array = np.empty(len(items), dtype=object)
    for k, item in enumerate(items):
        array[k] = item
    return array.reshape(shape)


def _random(name: str, state: dict[str, Any]) -> Any:
    bits: Any = BIT_GENERATORS[state["bit_generator"]]()
    position = state["state"].get("pos", 0)  # of the Mersenne twister, which does not check it
    if not 0 <= position <= 624:
        raise Refused(f"A random state has the position {position}, which must be within 624.")
    if name == "RandomState":
        made = np.random.RandomState(bits)
        made.set_state(state)
        return made
    bits.state = state
    return np.random.Generator(bits)


def _defaults(cls: type, attributes: Iterable[str]) -> dict[str, Any]:
    """Parameters that were not known yet when the file was written."""
    values = {}
    for name in signature(cls).parameters.keys() - set(attributes):
        default = signature(cls).parameters[name].default
        if default is Parameter.empty or (is_dataclass(cls) and name not in vars(cls)):
            raise Refused(f"{cls.__name__} lacks {name!r} in the file.")
        values[name] = default
    return values
