"""Write estimators to files.

The manifest holds values: ``null``, a boolean, a number, a string, or ``[k]``, the k-th of a list
of objects, each of which refers only to earlier ones. Shared objects are stored once, cycles are
impossible, and nesting needs no recursion. An object is ``{kind: content}``, of the kinds below.
Equal rows are stored once, and what rows determine is not stored: see `Arrays`.
"""

from __future__ import annotations

import hashlib
import math
from importlib.metadata import version
from os import PathLike
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch

from lpfuse._arrays.operations import is_blocked, to_host
from lpfuse._files import saved_name
from lpfuse.io import safety
from lpfuse.io import safety as container
from lpfuse.io.reading import Decoder, Loadable, is_data, loadable_of, show


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
        decoder = Decoder(
            encoder.members.__getitem__, lambda name, _: encoder.foreign[name], lambda size: None
        )
        decoder.read(manifest["root"], encoder.objects)
    except ValueError as error:
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
        self._arrays = Arrays(self)

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
                return self._arrays.describe(np.asarray(self._plain(thing, path)))
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
            return self._arrays.describe(_on_host(thing))
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
        member = self.member("skops", content)
        self.foreign[member] = thing
        return {"skops": [member, needed]}

    def _encode_object(self, kind: Loadable, thing: Any, path: str) -> dict[str, Any]:
        where = f"{path} → {kind.name}" if path else kind.name
        held = vars(thing)
        if hasattr(kind.cls, "saved_state"):
            state, size = thing.saved_state()
            held = state if self._arrays.affords(size) else held
        if not kind.is_own:  # omit what the constructor sets
            parameters = safety.parameters_of(thing)
            set_anyway = vars(kind.cls(**parameters)).keys() - parameters.keys()
            held = parameters | {each: held[each] for each in held.keys() - set_anyway}
        attributes = {}
        outer = self._arrays.view
        if isinstance(thing, Pipeline):
            self._arrays.view = _view_of(thing, self._arrays.training)
        # Training rows first: others are stored as their positions.
        for each in sorted(held.keys() - kind.left_out, key=lambda name: (name != "rows", name)):
            if each in kind.words or each in kind.fitted:
                attributes[each] = self.value(held[each], f"{where}.{each}")
            elif is_data(kind.cls, each):  # cached properties are recomputed
                raise TypeError(
                    f"{where} has the attribute {each!r}, which is neither a parameter nor set by "
                    "its methods. Delete it: files hold only parameters and fitted attributes."
                )
        self._arrays.view = outer
        if kind.name == "KeptRows":
            self._arrays.training = thing.values
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

    def member(self, suffix: str, content: Any) -> str:
        """Add a member to the archive, and return its name."""
        name = f"{len(self.members)}.{suffix}"
        self.members[name] = content
        return name


FEWEST_ROWS = 16  # of a table whose rows are looked up among others; chosen by hand


class Arrays:
    """Describe arrays: equal ones, and equal rows of tables of one width, are stored once.

    Attributes
    ----------
    training : ndarray of shape (n, d) or None
        Training rows of the estimator.
    view : transformer or None
        Of the detector that is described: it holds training rows as this one transforms them.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.training: Any = None
        self.view: Any = None
        self._left = container.MAX_DERIVED_SIZE
        self._references: dict[Any, list[int]] = {}  # by content
        self._tables: dict[int, list[_Table]] = {}  # by width
        self._shown: dict[int, _Table] = {}  # training rows, by transformer

    def describe(self, array: Any) -> dict[str, Any]:
        """Describe an array as one of its own, or by others."""
        order = array.flags.c_contiguous, array.flags.f_contiguous
        key = hashlib.sha256(array.tobytes("A")).digest(), array.dtype.str, array.shape, order
        if key in self._references and self.affords(array.nbytes):
            return {"copy": self._references[key]}
        described = None
        if _is_table(array):
            described = self._as_view(array) or self._as_rows(array) or self._as_parts(array)
        described = described or {"array": self.encoder.member("npy", array)}
        self._references[key] = [len(self.encoder.objects)]
        return described

    def _as_view(self, array: Any) -> dict[str, Any] | None:
        """Describe training rows as the detector's transformer shows them."""
        if self.view is None or array.shape[1] != self.training.shape[1]:
            return None
        if id(self.view) not in self._shown:
            shown = show(self.view, self.training)
            self._shown[id(self.view)] = _Table(self.encoder.value(self.training, ""), shown)
        table = self._shown[id(self.view)]
        places = table.find(_hashes(array))
        if (places < 0).any() or not _equal(show(self.view, self.training[places]), array):
            return None
        if not self.affords(2 * array.nbytes):
            return None
        rows = self.encoder.value(self.training[places], "")
        return {"view": [rows, self.encoder.value(self.view, "")]}

    def _as_rows(self, array: Any, add: bool = True) -> dict[str, Any] | None:
        """Describe a table of which at least half of the rows are elsewhere, or equal others."""
        known = self._tables.setdefault(array.shape[1], [])
        own, first, inverse = np.unique(_hashes(array), return_index=True, return_inverse=True)
        places, end = np.full(len(own), -1), 0
        parts: list[Any] = []
        sources: list[list[int]] = []
        for table in known:
            found = np.where(places < 0, table.find(own), -1)
            if (found >= 0).any():
                places = np.where(found >= 0, end + found, places)
                parts, sources = [*parts, table.rows], [*sources, table.reference]
                end += len(table.rows)
        new = np.sort(first[places < 0])
        parts.append(array[new])
        places[places < 0] = end + np.searchsorted(new, first[places < 0])
        places = places[inverse]
        if (
            2 * len(new) > len(array)
            or not _equal(np.concatenate(parts)[places], array)
            or not self.affords(array.nbytes)
        ):
            if add:
                known.append(_Table([len(self.encoder.objects)], array))
            return None
        if len(new):
            sources.append(self.encoder.value(parts[-1], ""))
        steps = np.diff(places, prepend=0).astype(np.int32)
        return {"rows": [sources, self.encoder.value(steps, "")]}

    def _as_parts(self, array: Any) -> dict[str, Any] | None:
        """Describe training rows with further columns beside them."""
        d = None if self.training is None else self.training.shape[1]
        if d is None or array.shape[1] <= d or not _is_table(self.training):
            return None
        left, right = (np.ascontiguousarray(part) for part in np.split(array, [d], axis=1))
        found = self._as_rows(left, add=False)
        if found is None or not self.affords(array.nbytes):
            return None
        self.encoder.objects.append(found)
        rows = [len(self.encoder.objects) - 1]
        return {"beside": [rows, self.encoder.value(right, "")]}

    def affords(self, size: int) -> bool:
        """Count bytes that loading computes from others; return whether they are few enough."""
        enough = size <= self._left
        self._left -= size * enough
        return enough


class _Table:
    """Rows that are in the file, and where each of them is."""

    def __init__(self, reference: list[int], rows: Any) -> None:
        self.reference, self.rows = reference, rows
        self.hashes, self.first = np.unique(_hashes(rows), return_index=True)

    def find(self, hashes: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return positions of rows with these hashes; −1: none."""
        at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.where(self.hashes[at] == hashes, self.first[at], -1)


def _is_table(array: Any) -> bool:
    usual = array.dtype == np.float64 and array.ndim == 2 and array.flags.c_contiguous
    return usual and array.shape[1] > 1 and len(array) >= FEWEST_ROWS


def _hashes(rows: Any) -> NDArray[np.uint64]:
    """Return a number for each row; equal rows, to the bit, have the same one."""
    words = np.ascontiguousarray(rows).view(np.uint64)
    factors = np.random.default_rng(0).integers(2**63, size=words.shape[1], dtype=np.uint64) | 1
    found: Any = ((words ^ (words >> 29)) * factors).sum(axis=1)
    return found ^ (found >> 32)


def _equal(a: Any, b: Any) -> bool:
    """Return whether two tables of float64 numbers are equal to the bit."""
    return a.shape == b.shape and a.tobytes() == b.tobytes()


def _view_of(pipeline: Pipeline, training: Any) -> Any:
    """Return the transformer of a pipeline, if what it does to training rows can be repeated."""
    heads = [step for _, step in pipeline.steps[:-1] if saved_name(type(step)) != "FilledGaps"]
    return heads[0] if len(heads) == 1 and safety.is_plain_view(heads[0], training) else None


def _on_host(array: Any) -> np.ndarray[Any, Any]:
    """Convert an array of another library to NumPy in the same precision."""
    return to_host(array).astype(str(array.dtype).split(".")[-1])


def _label(item: Any) -> str:
    """Return the name of an entry such as (name, estimator)."""
    return f" {item[0]!r}" if type(item) is tuple and item and type(item[0]) is str else ""
