"""From an estimator to a file.

The manifest holds values: ``null``, a boolean, a number, a string, or ``[k]``, the k-th of a list
of objects, each of which refers to earlier ones only. So what is shared is held once, nothing can
refer to itself, and depth costs nothing. An object is ``{kind: content}``, of the kinds below.
"""

from __future__ import annotations

import math
from os import PathLike
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from lpfuse._arrays.operations import is_blocked, to_host
from lpfuse._saved import saved_name
from lpfuse.io import _foreign as foreign
from lpfuse.io._archive import (
    BIT_GENERATORS,
    FORMAT,
    FORMAT_VERSION,
    PLAIN_KINDS,
    PLAIN_TYPES,
    is_data,
    is_key,
    lpfuse_version,
    write,
)


def save(estimator: Any, path: str | PathLike[str]) -> None:
    """Write an estimator, fitted or not, to a file that `load` reads.

    Parameters
    ----------
    estimator : estimator
        Of lpfuse, or a pipeline of such. Parts of scikit-learn and of other makers need skops:
        ``pip install "lpfuse[persist]"``. Functions, and classes that no other program could
        import, are refused before anything is written.
    path : str or path
        The file. One that exists is replaced, and only when the new one is complete.

    Notes
    -----
    What parts share, they share in the file and after loading too. Arrays of torch and other
    libraries come back as NumPy arrays; scores are computed in the library of the scored rows
    anyway.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from lpfuse import SVDD
    >>> from lpfuse.io import load, save
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> detector = SVDD().fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(detector, Path(folder) / "detector.lpfuse")
    ...     copy = load(Path(folder) / "detector.lpfuse")
    >>> bool((copy.score_samples(X) == detector.score_samples(X)).all())
    True
    """
    encoder = Encoder()
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "lpfuse": lpfuse_version(),
        "root": encoder.value(estimator, ""),
        "objects": encoder.objects,
    }
    write(path, manifest, encoder.members)


class Encoder:
    """Turns an estimator into `objects`, and `members` that hold its arrays and foreign parts."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.members: dict[str, Any] = {}
        self._known: dict[int, tuple[int, Any]] = {}  # with the thing, or its id may be used again
        self._open: set[int] = set()

    def value(self, thing: Any, path: str) -> Any:
        """The thing as a value; `path` says where it is, should it have to be refused."""
        if type(thing) in PLAIN_TYPES and not (type(thing) is float and not math.isfinite(thing)):
            return thing
        if is_blocked(thing):  # lazy, and it refers to data that are no part of the estimator
            return None
        if id(thing) in self._open:
            raise TypeError(f"{path} refers to itself, and cannot be saved.")
        if id(thing) not in self._known:
            self._open.add(id(thing))
            described = self._described(thing, path)
            self._open.remove(id(thing))
            self._known[id(thing)] = len(self.objects), thing
            self.objects.append(described)
        return [self._known[id(thing)][0]]

    def _described(self, thing: Any, path: str) -> dict[str, Any]:
        match thing:
            case float() if type(thing) is float:  # infinite or NaN
                return {"float": repr(thing)}
            case bytes() if type(thing) is bytes:
                return {"bytes": thing.hex()}
            case np.generic():
                array = self._plain(np.asarray(thing), path)
                return {"scalar": [array.dtype.str, array.tobytes().hex()]}
            case slice():
                ends = thing.start, thing.stop, thing.step
                return {"slice": [self.value(end, path) for end in ends]}
            case list() | tuple() if type(thing) in (list, tuple):
                return {type(thing).__name__: self._items(thing, path)}
            case dict() if type(thing) is dict:
                return {"dict": [self._pair(key, thing[key], path) for key in thing]}
            case np.ma.MaskedArray():
                return {"masked": [self.value(thing.data, path), self.value(thing.mask, path)]}
            case np.ndarray() if thing.dtype == object:
                return {"objects": [list(thing.shape), self._items(thing.ravel(), path)]}
            case np.ndarray():
                return {"array": self._member("npy", np.asarray(self._plain(thing, path)))}
            case np.random.RandomState():
                return self._random(thing, thing.get_state(legacy=False), path)
            case np.random.Generator():
                return self._random(thing, thing.bit_generator.state, path)
        if is_array_api_obj(thing):
            return {"array": self._member("npy", _on_host(thing))}
        name = saved_name(type(thing))
        if name is not None:
            return self._made_of_attributes(name, thing, path)
        return {"skops": self._member("skops", foreign.dumps(thing, path))}

    def _made_of_attributes(self, name: str, thing: Any, path: str) -> dict[str, Any]:
        where = f"{path} → {name}" if path else name
        attributes = {
            attribute: self.value(value, f"{where}.{attribute}")
            for attribute, value in vars(thing).items()
            if is_data(type(thing), attribute)  # cached properties are computed anew
        }
        return {"object": [name, attributes]}

    def _items(self, items: Any, path: str) -> list[Any]:
        if type(items) is tuple and items and isinstance(items[0], str):  # (name, estimator, …)
            return [self.value(item, path) for item in items]
        return [self.value(item, f"{path}[{k}]{_label(item)}") for k, item in enumerate(items)]

    def _pair(self, key: Any, value: Any, path: str) -> list[Any]:
        if not is_key(key):
            raise TypeError(
                f"{path} has the key {key!r}, which cannot be saved. Use text or numbers as keys."
            )
        return [self.value(key, path), self.value(value, f"{path}[{key!r}]")]

    def _random(self, thing: Any, state: Any, path: str) -> dict[str, Any]:
        if state["bit_generator"] not in BIT_GENERATORS:
            raise TypeError(
                f"{path} draws from {state['bit_generator']}, which cannot be saved. Use one of "
                f"{', '.join(BIT_GENERATORS)}, or a number as random_state."
            )
        return {"random": [type(thing).__name__, self.value(state, path)]}

    def _plain(self, array: Any, path: str) -> Any:
        if array.dtype.kind not in PLAIN_KINDS:
            raise TypeError(
                f"{path} holds {array.dtype} values; only numbers, dates and text can be saved."
            )
        return array

    def _member(self, suffix: str, content: Any) -> str:
        name = f"{len(self.members)}.{suffix}"
        self.members[name] = content
        return name


def _on_host(array: Any) -> np.ndarray[Any, Any]:
    """An array of another library in its own precision."""
    return to_host(array).astype(str(array.dtype).split(".")[-1])


def _label(item: Any) -> str:
    """The name of an entry such as (name, estimator)."""
    return f" {item[0]!r}" if type(item) is tuple and item and type(item[0]) is str else ""
