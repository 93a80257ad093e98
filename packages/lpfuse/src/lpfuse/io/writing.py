"""Write estimators to files.

The manifest holds values: ``null``, a boolean, a number, a string, or ``[k]``, the k-th of a list
of objects, each of which refers only to earlier ones. Shared objects are stored once, cycles are
impossible, and nesting needs no recursion. An object is ``{kind: content}``, of the kinds below.
"""

from __future__ import annotations

import math
from importlib.metadata import version
from os import PathLike
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from sklearn.utils import Bunch

from lpfuse._arrays.operations import is_blocked, to_host
from lpfuse.io import safety
from lpfuse.io import safety as container
from lpfuse.io.reading import Decoder, Loadable, is_data, loadable_of
from lpfuse.io.safety import LoadError


def save(estimator: Any, path: str | PathLike[str], *, key: bytes | None = None) -> None:
    """Write an estimator, fitted or not, to a file that `load` reads.

    Parameters
    ----------
    estimator : estimator
        Of lpfuse, of scikit-learn, or a pipeline of these. Third-party estimators need skops, ``pip
        install "lpfuse[persist]"``, and must be trusted on loading. Functions, and classes that
        cannot be imported, raise an error before anything is written.
    path : str or path
        The file. An existing one is replaced atomically.
    key : bytes, optional
        A secret of at least 16 bytes, such as ``secrets.token_bytes(32)``, that signs the file
        (HMAC-SHA256): `load` with the same key accepts no other file.

    Notes
    -----
    Shared objects stay shared. Arrays of torch and other libraries are loaded as NumPy arrays;
    scores are computed in the library of the scored rows.

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
        "format": container.FORMAT,
        "version": container.FORMAT_VERSION,
        "lpfuse": container.lpfuse_version(),
        "scikit-learn": version("scikit-learn"),
        "root": encoder.value(estimator, ""),
        "objects": encoder.objects,
    }
    try:  # write only what can be loaded
        decoder = Decoder(encoder.members.__getitem__, lambda name, _: encoder.foreign[name])
        decoder.read(manifest["root"], encoder.objects)
    except LoadError as error:
        raise TypeError(
            f"The estimator cannot be saved, because it could not be loaded: {error}"
        ) from error
    container.write(path, manifest, encoder.members, key)


class Encoder:
    """Encode an estimator as `objects`, and `members` with its arrays and third-party parts."""

    def __init__(self) -> None:
        self.objects: list[dict[str, Any]] = []
        self.members: dict[str, Any] = {}
        self.foreign: dict[str, Any] = {}  # content of skops members
        self._known: dict[int, tuple[int, Any]] = {}  # keeps a reference, so that ids stay unique
        self._open: set[int] = set()

    def value(self, thing: Any, path: str) -> Any:
        """Encode an object as a value; `path` locates it in error messages."""
        if type(thing) in container.PLAIN_TYPES and not (
            type(thing) is float and not math.isfinite(thing)
        ):
            return thing
        if is_blocked(thing):  # lazy, and not part of the estimator
            return None
        if id(thing) in self._open:
            raise TypeError(f"{path} refers to itself and cannot be saved.")
        if id(thing) not in self._known:
            self._open.add(id(thing))
            described = self._encode(thing, path)
            self._open.remove(id(thing))
            self._known[id(thing)] = len(self.objects), thing
            self.objects.append(described)
        return [self._known[id(thing)][0]]

    def _encode(self, thing: Any, path: str) -> dict[str, Any]:
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
                return {type(thing).__name__: self._encode_items(thing, path)}
            case Bunch():
                return {"bunch": self.value(dict(thing), path)}
            case dict() if type(thing) is dict:
                return {"dict": [self._encode_pair(key, thing[key], path) for key in thing]}
            case np.ma.MaskedArray():
                return {"masked": [self.value(thing.data, path), self.value(thing.mask, path)]}
            case np.ndarray() if thing.dtype == object:
                return {"objects": [list(thing.shape), self._encode_items(thing.ravel(), path)]}
            case np.ndarray():
                return {"array": self._member("npy", np.asarray(self._plain(thing, path)))}
            case np.random.RandomState():
                return self._random(thing, thing.get_state(legacy=False), path)
            case np.random.Generator():
                return self._random(thing, thing.bit_generator.state, path)
            case np.dtype():
                return {"dtype": thing.str}
            case type() if thing in container.NUMBER_TYPES.values():
                return {
                    "number": next(k for k, each in container.NUMBER_TYPES.items() if each is thing)
                }
        if is_array_api_obj(thing):
            return {"array": self._member("npy", _on_host(thing))}
        kind = loadable_of(thing)
        return self._encode_object(kind, thing, path) if kind else self._encode_other(thing, path)

    def _encode_other(self, thing: Any, path: str) -> dict[str, Any]:
        """Encode trees, functions and third-party estimators."""
        if safety.is_tree(thing):
            *facts, table = safety.tree_columns(thing)
            return {"tree": [*facts, self.value(table, path)]}
        if safety.is_predictor(thing):
            names, *tables = safety.predictor_columns(thing)
            return {"predictor": [names, *(self.value(table, path) for table in tables)]}
        name = safety.function_name(thing)
        if name is not None:
            return {"function": name}
        content, needed = safety.dumps(thing, path)
        member = self._member("skops", content)
        self.foreign[member] = thing
        return {"skops": [member, needed]}

    def _encode_object(self, kind: Loadable, thing: Any, path: str) -> dict[str, Any]:
        where = f"{path} → {kind.name}" if path else kind.name
        held = vars(thing)
        if not kind.is_own:  # omit what the constructor sets
            parameters = safety.parameters_of(thing)
            set_anyway = vars(kind.cls(**parameters)).keys() - parameters.keys()
            held = parameters | {each: held[each] for each in held.keys() - set_anyway}
        attributes = {}
        for each in sorted(held.keys() - kind.left_out):
            if each in kind.words or each in kind.fitted:
                attributes[each] = self.value(held[each], f"{where}.{each}")
            elif is_data(kind.cls, each):  # cached properties are recomputed
                raise TypeError(
                    f"{where} has the attribute {each!r}, which is neither a parameter nor set by "
                    "its methods. Delete it: files hold only parameters and fitted attributes."
                )
        return {"object": [kind.name, attributes]}

    def _encode_items(self, items: Any, path: str) -> list[Any]:
        if type(items) is tuple and items and isinstance(items[0], str):  # (name, estimator, …)
            return [self.value(item, path) for item in items]
        return [self.value(item, f"{path}[{k}]{_label(item)}") for k, item in enumerate(items)]

    def _encode_pair(self, key: Any, value: Any, path: str) -> list[Any]:
        if not container.is_key(key):
            raise TypeError(
                f"{path} has the key {key!r}, which cannot be saved. Use text or numbers as keys."
            )
        return [self.value(key, path), self.value(value, f"{path}[{key!r}]")]

    def _random(self, thing: Any, state: Any, path: str) -> dict[str, Any]:
        if state["bit_generator"] not in container.BIT_GENERATORS:
            raise TypeError(
                f"{path} draws from {state['bit_generator']}, which cannot be saved. Use one of "
                f"{', '.join(container.BIT_GENERATORS)}, or a number as random_state."
            )
        return {"random": [type(thing).__name__, self.value(state, path)]}

    def _plain(self, array: Any, path: str) -> Any:
        if array.dtype.kind not in container.PLAIN_KINDS:
            raise TypeError(
                f"{path} holds {array.dtype} values; only numbers, dates and text can be saved."
            )
        return array

    def _member(self, suffix: str, content: Any) -> str:
        name = f"{len(self.members)}.{suffix}"
        self.members[name] = content
        return name


def _on_host(array: Any) -> np.ndarray[Any, Any]:
    """Convert an array of another library to NumPy in the same precision."""
    return to_host(array).astype(str(array.dtype).split(".")[-1])


def _label(item: Any) -> str:
    """Return the name of an entry such as (name, estimator)."""
    return f" {item[0]!r}" if type(item) is tuple and item and type(item[0]) is str else ""
