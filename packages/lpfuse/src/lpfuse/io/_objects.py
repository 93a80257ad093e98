"""Estimators as plain values and back.

A value is ``null``, a boolean, a number, a string, or ``[k]``: the k-th of a list of objects, each
of which refers to earlier ones only. So what is shared is held once, nothing can refer to itself,
and depth costs nothing. An object is ``{kind: content}``, of the kinds below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import is_dataclass
from inspect import Parameter, getattr_static, signature
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from lpfuse._arrays import is_blocked, to_host
from lpfuse._saved import class_saved_as, saved_as, saved_name
from lpfuse.io import _foreign as foreign
from lpfuse.io._archive import PLAIN_KINDS, Archive, Refused

# Two of scikit-learn's that hold estimators of ours: they are made of their attributes too.
for _cls in (FrozenEstimator, Pipeline):
    saved_as(_cls.__name__)(_cls)

BIT_GENERATORS = {
    make.__name__: make
    for make in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.SFC64)
}
INLINE = (type(None), bool, int, str, float)


class Writer:
    """Turns an estimator into `objects`, and `members` that hold its arrays and foreign parts."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.members: dict[str, Any] = {}
        self._known: dict[int, tuple[int, Any]] = {}  # with the thing, or its id may be used again
        self._open: set[int] = set()

    def value(self, thing: Any, path: str) -> Any:
        """The thing as a value; `path` says where it is, should it have to be refused."""
        if type(thing) in INLINE and not (type(thing) is float and not math.isfinite(thing)):
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
            if _is_data(type(thing), attribute)  # cached properties are computed anew
        }
        return {"object": [name, attributes]}

    def _items(self, items: Any, path: str) -> list[Any]:
        if type(items) is tuple and items and isinstance(items[0], str):  # (name, estimator, …)
            return [self.value(item, path) for item in items]
        return [self.value(item, f"{path}[{k}]{_label(item)}") for k, item in enumerate(items)]

    def _pair(self, key: Any, value: Any, path: str) -> list[Any]:
        if not _is_key(key):
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


class Reader:
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
            if not _is_data(cls, attribute):
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
        if not _is_key(key):
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


def _on_host(array: Any) -> np.ndarray[Any, Any]:
    """An array of another library in its own precision."""
    return to_host(array).astype(str(array.dtype).split(".")[-1])


def _is_key(key: Any) -> bool:
    """Whether something, or each part of a tuple, can be compared at once: keys get hashed."""
    parts = key if type(key) is tuple else (key,)
    return all(type(part) in (*INLINE, bytes) or isinstance(part, np.generic) for part in parts)


def _is_data(cls: type, attribute: str) -> bool:
    """Whether an attribute of an instance holds data, and hides nothing that the class does."""
    if not attribute.isidentifier() or attribute.startswith("__"):
        return False
    of_class = getattr_static(cls, attribute, None)
    return not callable(of_class) and not hasattr(type(of_class), "__get__")


def _defaults(cls: type, attributes: Iterable[str]) -> dict[str, Any]:
    """Parameters that were not known yet when the file was written."""
    values = {}
    for name in signature(cls).parameters.keys() - set(attributes):
        default = signature(cls).parameters[name].default
        if default is Parameter.empty or (is_dataclass(cls) and name not in vars(cls)):
            raise Refused(f"{cls.__name__} lacks {name!r} in the file.")
        values[name] = default
    return values


def _label(item: Any) -> str:
    """The name of an entry such as (name, estimator)."""
    return f" {item[0]!r}" if type(item) is tuple and item and type(item[0]) is str else ""
