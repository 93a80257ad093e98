"""What an attacker makes of an honest file: every value, class and array in it replaced.

A file is a zip archive: a manifest of JSON, and arrays as ``.npy`` members. The attacker knows the
format, so what he writes is whole: a checksum is no obstacle to him.
"""

import copy
import itertools
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from fuzz.accidents import damaged, special
from fuzz.archives import LEFT_OUT, npy_of

BAIT = "bait"  # a folder beside the file, such as a cache of joblib would be
PATHS = (BAIT, "/etc/passwd", "/dev/zero", "file:///etc/passwd", "http://127.0.0.1:9/x")
METHODS = (
    "fit_predict", "fit_transform", "fit", "partial_fit", "set_params", "__reduce__", "__class__",
    "__init__", "__setstate__", "_validate_params",
)  # fmt: skip
CALLABLES = ("os.system", "builtins.eval", "eval", "numpy.load", "callable", "precomputed", "auto")
OTHERS = (None, True, False, -1, 0, 1, 7, 2**31, 2**62, -(2**62), 1e308, 0.5, "", [], {}, [0], [1])
COMBINATIONS = 2000  # of several changes, for each honest file
VALUES = (*PATHS, *METHODS, *CALLABLES, *OTHERS)


class Change:
    """Of some values of the manifest, and some members: called, it is the content of the file."""

    def __init__(self, file, changes=(), members=None):
        self.file, self.changes, self.members = file, tuple(changes), members or {}

    def __call__(self):
        return self.file.written(self.file.replaced(*self.changes), **self.members)


def sum_of(changes):
    """All of them at once, later ones over earlier ones; those within what is gone are left out."""
    places = {place: value for change in changes for place, value in change.changes}
    inner = {a for a in places for b in places if a != b and a[: len(b)] == b}
    members = {name: held for change in changes for name, held in change.members.items()}
    kept = [(place, value) for place, value in places.items() if place not in inner]
    return Change(changes[0].file, kept, members)


def forgeries(file, limit, accidents=True, seed=0):
    """At most `limit` of each kind: words, and a function that writes the file at a path."""
    rng = np.random.default_rng(seed)
    for kind in (special, damaged, *KINDS) if accidents else KINDS:
        found = list(kind(file))
        chosen = range(len(found))
        if len(found) > limit:
            chosen = np.sort(rng.choice(len(found), limit, replace=False))
        for k in chosen:
            words, make = found[k]
            yield f"{kind.__name__}: {words}", make if kind is special else _writer(make)


def at_once(file):
    """Everything that is text, or nothing, becomes a path; then all of it, with a method's name."""
    gaps, texts = _gaps_and_texts(file)
    for chosen in (gaps, texts, gaps + texts):
        for path in PATHS:
            yield f"all to {path}", _manifest(file, *((place, path) for place in chosen))


def pairs(file):
    """A path where nothing or a text was, and a method's name where a text was."""
    gaps, texts = _gaps_and_texts(file)
    for a, b in itertools.product(gaps + texts, texts):
        if a != b:
            for method in METHODS[:2]:
                yield (
                    f"{_told(a)} = {BAIT}, {_told(b)} = {method}",
                    _manifest(file, (a, BAIT), (b, method)),
                )


def values(file):
    """Each value by others, of other types."""
    for place in file.places():
        for value in VALUES:
            if type(value) is not type(file.at(place)) or value != file.at(place):
                yield f"{_told(place)} = {value!r}", _manifest(file, (place, value))


def classes(file):
    """Each object by another one of the same file."""
    objects = range(len(file.manifest["objects"]))
    for a, b in itertools.product(objects, objects):
        if a != b:
            other = file.at(("objects", b))
            if _numbers(other) < a:
                yield f"object {a} = object {b}", _manifest(file, (("objects", a), other))


def arrays(file):
    """Each array by ones of other shapes, types, values and orders."""
    for name, content in file.members.items():
        if name.endswith(".npy"):
            array = npy.read_array(BytesIO(content), allow_pickle=False)
            for words, changed in changed_arrays(array):
                yield f"{name} {words}", _member(file, name, changed)


def changed_arrays(array):
    """What may be wrong with an array that compiled code indexes, or is indexed by."""
    if array.size == 0:
        yield "a one", np.ones(1, array.dtype)
        return
    yield "empty", np.atleast_1d(array)[:0]
    yield "no dimension", array.ravel()[0].reshape(())
    yield "one row more", np.concatenate([np.atleast_1d(array), np.atleast_1d(array)[-1:]])
    yield "one row less", np.atleast_1d(array)[:-1]
    yield "a dimension more", array[..., None]
    yield "flat", array.ravel()
    yield "turned", np.ascontiguousarray(array.T)
    yield "reversed", np.ascontiguousarray(np.atleast_1d(array)[::-1])
    yield "columns of Fortran", np.asfortranarray(array)
    if array.dtype.kind in "biuf":
        yield "complex", array.astype(complex)
        for dtype in ("f4", "f8", "i4", "i8", "u1", "bool", ">f8", "U3", "S2"):
            if array.dtype != dtype:
                yield dtype, _cast(array, dtype)
        for value in (-1, 0, 1, 2**30, 2**62, -(2**62), np.nan, np.inf, -np.inf):
            yield f"all {value}", _filled(array, value)
            if array.size > 1:
                yield f"first {value}", _filled(array, value, slice(0, 1))


def removed(file):
    """Each attribute left out."""
    for place in file.places():
        if len(place) > 4 and place[2] == "object":
            yield f"{_told(place)} left out", _manifest(file, (place, LEFT_OUT))


def references(file):
    """Each reference to an object by one to another."""
    for place in file.places():
        if _is_reference(file.at(place), place):
            for k in range(place[1]):
                if [k] != file.at(place):
                    yield f"{_told(place)} = [{k}]", _manifest(file, (place, [k]))


def masked(file):
    """Each array with values out of any range that are hidden under a mask, but for the first."""
    for k, described in enumerate(file.manifest["objects"]):
        name = described.get("array")
        array = None if name is None else npy.read_array(BytesIO(file.members[name]))
        if array is not None and array.dtype.kind in "iuf" and array.size > 1:
            for value in (2**40, -(2**40)):
                hidden = _filled(array, value, slice(1, None))
                yield f"{name}: {value} hidden", partial(_hidden, file, k, name, hidden)


def swapped(file):
    """Each array in the place of another."""
    names = [name for name in file.members if name.endswith(".npy")]
    for a, b in itertools.combinations(names, 2):
        if file.members[a] != file.members[b]:
            other = {a: file.members[b], b: file.members[a]}
            yield f"{a} and {b}", Change(file, members=other)


def several(file):
    """Two or three of the others at once: what guards against one may rely on another."""
    rng = np.random.default_rng(len(file.content))
    pools = [list(kind(file)) for kind in (values, removed, references, arrays, swapped)]
    pools = [pool for pool in pools if pool]
    for _ in range(COMBINATIONS):
        drawn = [pools[k] for k in rng.integers(len(pools), size=rng.integers(2, 4))]
        chosen = [pool[rng.integers(len(pool))] for pool in drawn]
        yield " and ".join(words for words, _ in chosen), sum_of([each for _, each in chosen])


KINDS = (
    at_once, pairs, values, removed, references, classes, arrays, masked, swapped, several,
)  # fmt: skip


def _hidden(file, k, name, array):
    """The k-th object, an array, under a mask; both come before it, so later numbers move by 2."""
    mask = np.ones(array.shape, dtype=bool)
    mask.flat[0] = False
    manifest = copy.deepcopy(file.manifest)
    described = [_moved(each, k, 2) for each in manifest["objects"]]
    made = [{"array": name}, {"array": "mask.npy"}, {"masked": [[k], [k + 1]]}]
    manifest["objects"] = described[:k] + made + described[k + 1 :]
    manifest["root"] = _moved(manifest["root"], k, 2)
    return file.written(manifest, **{name: npy_of(array), "mask.npy": npy_of(mask)})


def _moved(value, start, by, place=()):
    """With references to objects from `start` on moved."""
    if _is_reference(value, (0, 0, *place)):
        return [value[0] + by] if value[0] >= start else value
    if isinstance(value, dict):
        return {key: _moved(each, start, by, (*place, key)) for key, each in value.items()}
    if isinstance(value, list):
        return [_moved(each, start, by, (*place, k)) for k, each in enumerate(value)]
    return value


def _is_reference(value, place):
    """Whether it is ``[k]``, and neither a shape nor a number of classes."""
    numbers = (("objects", 0), ("tree", 2))
    return (
        isinstance(value, list)
        and len(value) == 1
        and type(value[0]) is int
        and place[2:4] not in numbers
    )


def _cast(array, dtype):
    with np.errstate(all="ignore"):
        return (
            np.nan_to_num(array).astype(dtype) if array.dtype.kind == "f" else array.astype(dtype)
        )


def _filled(array, value, where=slice(None)):
    changed = array.copy().ravel()
    if changed.dtype.kind in "iub":
        span = np.iinfo(changed.dtype if changed.dtype.kind != "b" else np.uint8)
        value = 0 if np.isnan(value) else int(np.clip(value, float(span.min) / 2, span.max // 2))
    changed[where] = value
    return changed.reshape(array.shape)


def _gaps_and_texts(file):
    """Where nothing and where text stands, other than names of classes and members."""
    named = [place for place in file.places() if place[-2:] != ("object", 0) and len(place) > 3]
    gaps = [place for place in named if file.at(place) is None]
    return gaps, [place for place in named if isinstance(file.at(place), str)]


def _manifest(file, *changes):
    return Change(file, changes)


def _member(file, name, array):
    return Change(file, members={name: npy_of(array)})


def _numbers(described):
    """The largest number of another object that an object refers to."""
    if isinstance(described, dict):
        return max(map(_numbers, described.values()), default=-1)
    if isinstance(described, list):
        if len(described) == 1 and type(described[0]) is int:
            return described[0]
        return max(map(_numbers, described), default=-1)
    return -1


def _told(place):
    return "/".join(map(str, place[1:]))


def _writer(make):
    return lambda path: Path(path).write_bytes(make())
