"""What an attacker makes of an honest file: every value, class and array in it replaced.

A file is a zip archive: a manifest of JSON, and arrays as ``.npy`` members. The attacker knows the
format, so what he writes is whole: a checksum is no obstacle to him.
"""

import copy
import itertools
import json
from functools import cache, partial
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from fuzz.accidents import damaged, special
from fuzz.archives import LEFT_OUT, archived, npy_of
from fuzz.corpus import donors
from lpfuse.io.writing import Encoder

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


def forgeries(file, limit, accidents=True, names=(), seed=0):
    """At most `limit` of each kind: words, and a function that writes the file at a path.

    `names` are the only kinds, or none of them: all.
    """
    rng = np.random.default_rng(seed)
    kinds = (special, damaged, *KINDS) if accidents else KINDS
    for kind in (kind for kind in kinds if not names or kind.__name__ in names):
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
        for dtype in ("bool", "complex", "m8[s]", "U3"):
            yield f"reversed {dtype}", _cast(np.atleast_1d(array)[::-1], dtype)
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


def emptied(file):
    """Each list, tuple, dictionary or array of objects without its items, or without the last."""
    for k, described in enumerate(file.manifest["objects"]):
        for kind, items in described.items():
            if kind in ("list", "tuple", "dict") and items:
                for kept in ([], items[:-1], items[::-1]):
                    place = "objects", k, kind
                    yield f"{_told(place)}: {len(kept)} items", _manifest(file, (place, kept))


def misplaced(file):
    """Parts of other models where an object was, whole or with an empty list, and functions."""
    places = [place for place in file.places() if _is_reference(file.at(place), place)]
    places = [("root",), *(place for place in places if _is_object(file, file.at(place)))]
    for place, (words, graft) in itertools.product(places, parts()):
        name = "/".join(map(str, place))
        yield f"{name} = {words}", partial(_grafted, file, place, graft)
    for place in itertools.chain(*_gaps_and_texts(file)):
        function = [{"function": "abs"}], {}
        yield f"{_told(place)} = a function", partial(_grafted, file, place, function)


def rewired(file):
    """Each tree with a child of a node shared with another, or grown to one deeper than it says."""
    for k, described in enumerate(file.manifest["objects"]):
        kind = next(iter(described))
        if kind in ("tree", "predictor"):
            names, [at] = described[kind][0], described[kind][4 if kind == "tree" else 1]
            member = file.at(("objects", at)).get("array")
            if member is None:  # a copy of another tree
                continue
            table = npy.read_array(BytesIO(file.members[member]))
            left, right = ("left_child", "right_child") if kind == "tree" else ("left", "right")
            columns = [names.index(left), names.index(right)]
            for node, column in zip(*np.nonzero(table[:, columns] > 0), strict=True):
                for other in range(node + 1, len(table)):
                    changed = table.copy()
                    changed[node, columns[column]] = other
                    words = f"object {k}: node {other} below {node}"
                    yield words, _member(file, member, changed)
            if kind == "tree":
                grown, depth = ladder(table[0], names)
                change = _member(file, member, grown)
                change.changes = ((("objects", k, "tree", 3), depth),)
                for k_th in range(20):  # as likely as all others together
                    yield f"object {k}: a ladder, {k_th}", change


def ladder(row, names, length=2000, depth=11):
    """A graph with a path of `length` nodes, in which the last parent of each is near the root."""
    heap, count = 2**depth - 1, 2**depth + 2 * length + 2
    table = np.tile(row, (count, 1))
    children = np.full((count, 2), -1)
    path = 1 + heap + 2 * np.arange(length)  # each before the node that is near the root
    children[0] = path[0], 1
    below = 2 * np.arange(heap)[:, None] + [1, 2]
    ends = path[np.clip(below - heap, 0, length - 1)] + 1
    children[1 : heap + 1] = np.where(below < heap, 1 + below, ends)
    children[path[:-1], 0], children[path[:-1], 1] = path[1:], count - 1
    children[path[:-1] + 1] = path[1:, None]
    children[path[-1]] = children[path[-1] + 1] = count - 2, count - 1
    inner = children[:, 0] >= 0
    told = np.ones(count, dtype=int)  # as scikit-learn counts: the last parent wins
    for node in np.flatnonzero(inner):
        told[children[node]] = told[node] + 1
    for column, name in enumerate(("left_child", "right_child")):
        table[:, names.index(name)] = children[:, column]
    table[:, names.index("feature")] = np.where(inner, 0, -2)
    table[:, names.index("threshold")] = np.where(inner, 0, -2)
    return table, int(told.max()) - 1


@cache
def parts():
    """Pairs of words and the objects of another model, the last of which is put elsewhere."""
    found = []
    for name, model in donors():
        encoder = Encoder()
        encoder.value(model, "")
        members = {key: npy_of(array) for key, array in encoder.members.items()}
        whole = json.loads(json.dumps(encoder.objects))
        found.append((name, (whole, members)))
        for k, described in enumerate(whole):
            if described.get("list"):
                fewer = [*whole[:k], {"list": []}, *whole[k + 1 :]]
                found.append((f"{name} without list {k}", (fewer, members)))
    return found


def _grafted(file, place, graft):
    """The file with the objects of a part before its own, and the part at a place."""
    objects, members = graft
    renamed = [{**each, "array": f"graft{each['array']}"} if "array" in each else each
               for each in objects]  # fmt: skip
    manifest = copy.deepcopy(file.manifest)
    manifest["objects"] = renamed + [_moved(each, 0, len(objects)) for each in manifest["objects"]]
    manifest["root"] = _moved(manifest["root"], 0, len(objects))
    part, inner = [len(objects) - 1], manifest
    first, *way = place
    if way:
        inner, first, *way = inner[first], way[0] + len(objects), *way[1:]
    for key in way:
        inner, first = inner[first], key
    inner[first] = part
    grafted = {f"graft{key}": held for key, held in members.items()}
    return archived({"manifest.json": json.dumps(manifest), **file.members, **grafted})


def _is_object(file, value):
    return "object" in file.at(("objects", *value))


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
    at_once, pairs, values, removed, references, classes, arrays, masked, swapped, emptied,
    misplaced, rewired, several,
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
