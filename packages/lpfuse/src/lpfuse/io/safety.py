"""What files may hold beyond lpfuse: third-party types by skops, and checked scikit-learn classes.

Arrays that compiled code of scikit-learn indexes are checked for shape, range and order. Each tree
is stored as one array with a row for each node.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import re
import stat
import sys
from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from io import BytesIO
from types import FunctionType
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from sklearn.utils._param_validation import validate_parameter_constraints

from lpfuse._files import register_all, replacing, saved_classes, saved_name

# --------------------------------------------------------------------------------------------------
# The container of saved models: a zip file with a manifest, array members and a digest.
#
# Two lines of text follow the archive: the SHA-256 of all bytes before them, and their HMAC if the
# user gave a key. Members are stored or compressed so that a file of n bytes expands to at most
# `GROWTH` · n bytes, nested archives included. Nothing is extracted to disk.


MANIFEST = "manifest.json"
PLAIN_KINDS = "biufcmMSU"  # dtype kinds of numbers, dates and text, which hold no references
PLAIN_TYPES = (type(None), bool, int, str, float)  # what JSON holds as it is
BIT_GENERATORS = {
    make.__name__: make
    for make in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.SFC64)
}
# Number types, which encoders accept as a parameter.
NUMBER_TYPES: dict[str, Any] = {
    each.__name__: each
    for each in (np.float64, np.float32, np.int64, np.int32, np.int8, np.uint8, np.bool_)
} | {"builtin float": float, "builtin int": int, "builtin bool": bool}
# Limits chosen by hand. Trees compress to a fifth; JSON expands up to thirtyfold as objects.
GROWTH = 20  # maximum expansion of a file when it is read
MAX_MANIFEST_SIZE = 2**25
MAX_CONTAINERS = 2**20  # lists and dictionaries of a manifest, up to 230 bytes of memory each
MAX_DERIVED_SIZE = 2**26  # of arrays that are copied or computed from others, beyond `GROWTH`
LEVEL = 3  # of compression: 6 takes twice as long for 1 % less
PLANES = b"\x93PLANES "
PLANES_FROM = 64  # bytes of an array that is stored by planes
PADDING = "padding"
SEAL = re.compile(rb"\nsha256 ([0-9a-f]{64})\nhmac-sha256 ([0-9a-f]{64}|-{64})\n")
SEAL_SIZE = len("\nsha256 \nhmac-sha256 \n") + 128
NO_KEY = "-" * 64
# 2: classes go by the names of `lpfuse._files`. 3: estimators of scikit-learn are made of their
# attributes, and the file has a digest. 5: equal rows are stored once, and numbers by planes of
# bytes. Formats before 4 were never released, and are refused.
FORMAT, FORMAT_VERSION, OLDEST_VERSION = "lpfuse", 5, 4


class LoadError(ValueError):
    """Content that a file may not hold."""


class _HashingWriter:
    """A file opened for sequential writing that computes the digest of its content."""

    def __init__(self, file: IO[bytes], key: bytes | None) -> None:
        self.file = file
        self.sums: list[Any] = [hashlib.sha256()]
        if key is not None:
            self.sums.append(hmac.new(key, digestmod="sha256"))

    def write(self, content: Any) -> int:
        for each in self.sums:
            each.update(content)
        return self.file.write(content)

    def flush(self) -> None:
        self.file.flush()

    def seal(self) -> bytes:
        digest, mac = [*(each.hexdigest() for each in self.sums), NO_KEY][:2]
        return f"\nsha256 {digest}\nhmac-sha256 {mac}\n".encode()


def write(
    path: Any, manifest: Mapping[str, Any], members: Mapping[str, Any], key: bytes | None
) -> None:
    """Write the file atomically: an existing one is replaced when the new one is complete."""
    text = json.dumps(manifest, allow_nan=False).encode()
    if len(text) > MAX_MANIFEST_SIZE:
        raise TypeError(
            f"Lists and strings of this estimator take {len(text):,} bytes, more than the "
            f"{MAX_MANIFEST_SIZE:,} that a file may hold. Store long lists as NumPy arrays."
        )
    with replacing(path) as file:
        digesting = _HashingWriter(file, check_key(key))
        with ZipFile(digesting, "w", ZIP_DEFLATED, compresslevel=LEVEL) as archive:  # type: ignore[call-overload]
            archive.writestr(ZipInfo(MANIFEST), text, ZIP_DEFLATED, LEVEL)
            for name, content in members.items():
                whole = _packed(content) if isinstance(content, np.ndarray) else content
                how = ZIP_STORED if name.endswith(".skops") else ZIP_DEFLATED
                archive.writestr(ZipInfo(name), whole, how, LEVEL)
            sizes = [(info.file_size, info.compress_size) for info in archive.infolist()]
            missing = sum(size for size, _ in sizes) // GROWTH - sum(packed for _, packed in sizes)
            if missing > 0:  # a file of n bytes must not expand to more than GROWTH · n
                archive.writestr(ZipInfo(PADDING), bytes(2 * missing), ZIP_STORED)
        file.write(digesting.seal())


def _packed(array: np.ndarray[Any, Any]) -> bytes:
    """Return an array as ``.npy``; numbers, by planes.

    A plane is one byte of each number, column by column: signs and exponents, which are alike,
    are then side by side and compress.
    """
    if array.dtype.kind not in "iuf" or array.nbytes < PLANES_FROM:
        content = BytesIO()
        npy.write_array(content, array, allow_pickle=False)
        return content.getvalue()
    by_column = array.flags.f_contiguous and not array.flags.c_contiguous
    facts = json.dumps([array.dtype.str, by_column, array.shape]).encode()
    numbers = np.ascontiguousarray(array.T).reshape(-1, 1)
    return PLANES + facts + b"\n" + numbers.view(np.uint8).T.tobytes()


def check_key(key: Any) -> bytes | None:
    """Validate a signing key."""
    if key is not None and (not isinstance(key, bytes) or len(key) < 16):
        raise TypeError(
            "key must be at least 16 bytes of random data, such as secrets.token_bytes(32)."
        )
    return key


def read_regular(path: Any) -> bytes:
    """Return the bytes of a regular file, as many as it has when it is opened."""
    nonblocking = getattr(os, "O_NONBLOCK", 0)  # do not wait for the writer of a pipe
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | nonblocking)) as file:
        told = os.fstat(file.fileno())
        if not stat.S_ISREG(told.st_mode):
            raise LoadError("It is not a regular file. Copy its content to one.")
        # Sparse files take little space on disk but not in memory.
        if told.st_size > 2**20 + GROWTH * 512 * getattr(told, "st_blocks", told.st_size):
            raise LoadError("It is a sparse file: damaged, or not written by lpfuse.")
        content = file.read(told.st_size + 1)
    if len(content) != told.st_size:
        raise LoadError(
            "It changed while it was read. Wait until it is written, and load it again."
        )
    return content


class Archive:
    """The content of a file; raises if it is damaged, or not signed with the given key.

    A file of another format has no digest; its manifest states the format.
    """

    def __init__(self, content: bytes, key: bytes | None) -> None:
        body, seal = content[:-SEAL_SIZE], SEAL.fullmatch(content[-SEAL_SIZE:])
        if seal is not None:
            _check_seal(body, seal[1].decode(), seal[2].decode(), key)
        self.sealed = seal is not None
        self.zip = ZipFile(BytesIO(body if self.sealed else content))
        self.left = GROWTH * len(content)
        self.derived = MAX_DERIVED_SIZE + self.left
        self._check_size(self.zip, len(content))
        self.unread = set(self.zip.namelist())

    def manifest(self) -> Any:
        """Return the parsed manifest."""
        if MANIFEST in self.unread and self.zip.getinfo(MANIFEST).file_size > MAX_MANIFEST_SIZE:
            raise LoadError(f"Its manifest is larger than the {MAX_MANIFEST_SIZE:,} bytes allowed.")
        text = self.content(MANIFEST)
        if (count := text.count(b"[") + text.count(b"{")) > MAX_CONTAINERS:
            raise LoadError(f"Its manifest holds {count:,} lists; {MAX_CONTAINERS:,} are read.")
        return json.loads(text, parse_constant=_refuse_constant)

    def content(self, name: Any) -> bytes:
        """Return the bytes of a member."""
        self._mark_read(name)
        return self.zip.read(name)

    def nested(self, name: Any) -> bytes:
        """Return a member that is an archive, whose size limits count as well."""
        content = self.content(name)
        with ZipFile(BytesIO(content)) as inner:
            self._check_size(inner, len(content))
            for each in inner.namelist():
                if each.endswith(".npz"):  # sparse matrices, which scipy compresses
                    with ZipFile(inner.open(each)) as innermost:
                        self._check_size(innermost, inner.getinfo(each).file_size)
        return content

    def array(self, name: Any) -> np.ndarray[Any, Any]:
        """Return an array member, whose size must match its header."""
        whole = self.content(name)
        planes = whole.startswith(PLANES)
        content = BytesIO(whole[len(PLANES) :] if planes else whole)
        shape, by_column, dtype = (_read_facts if planes else _read_header)(content)
        claimed, held = math.prod(shape) * dtype.itemsize, len(content.getbuffer()) - content.tell()
        if claimed != held:
            raise LoadError(
                f"The header of array {name} declares {claimed} bytes, but it has {held}."
            )
        order: Any = "F" if by_column else "C"
        if not planes:
            return np.ndarray(shape, dtype, content.read(), order=order).copy(order)
        numbers = np.frombuffer(content.read(), np.uint8).reshape(dtype.itemsize, -1)
        columns = np.ascontiguousarray(numbers.T).view(dtype).reshape(shape[::-1])
        return columns.T.copy(order)

    def charge(self, size: int) -> None:
        """Count bytes that are copied or computed from arrays; raise beyond the limit."""
        self.derived -= size
        if self.derived < 0:
            raise LoadError("What is computed from its arrays exceeds the limit for its size.")

    def check_all_members_read(self) -> None:
        """Raise if the file has members that nothing refers to."""
        if unused := sorted(self.unread - {PADDING}):
            raise LoadError(f"The file holds members that it does not use: {unused}.")

    def _mark_read(self, name: Any) -> None:
        if name not in self.unread:
            raise LoadError(f"The file has no member {name!r}, or refers to it twice.")
        self.unread.remove(name)

    def _check_size(self, archive: ZipFile, size: int) -> None:
        """Raise if the members of an archive of that size would exceed the expansion limit."""
        members = archive.infolist()
        if len({member.filename for member in members}) < len(members):
            raise LoadError("Two members of the file have the same name.")
        if any(member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for member in members):
            raise LoadError("The file uses a compression method that lpfuse does not use.")
        self.left -= sum(member.file_size for member in members)
        if self.left < 0 or sum(member.compress_size for member in members) > size:
            raise LoadError(
                "The declared sizes of its members exceed the limit for a file of its size."
            )


def _check_seal(body: bytes, digest: str, mac: str, key: bytes | None) -> None:
    if hashlib.sha256(body).hexdigest() != digest:
        raise BadZipFile("its content does not have the digest that it ends with")
    if key is None:
        return
    if mac == NO_KEY:
        raise LoadError(
            "It is not signed. Save it with the key, or load it without a key if you trust it."
        )
    if not hmac.compare_digest(hmac.digest(key, body, "sha256").hex(), mac):
        raise LoadError(
            "Its signature does not match: another key was used, or the file was changed."
        )


def _read_header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    shape, by_column, dtype = header[npy.read_magic(member)](member)
    if dtype.kind not in PLAIN_KINDS or dtype.itemsize == 0:  # any number of items in no bytes
        raise LoadError(f"Arrays of type {dtype} may hold code, or are empty, and are not read.")
    return shape, by_column, dtype


def _read_facts(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an array by planes."""
    name, by_column, shape = json.loads(member.readline(4096))
    dtype, sizes = np.dtype(str(name)), [size for size in shape if type(size) is int and size >= 0]
    if dtype.kind not in "iuf" or len(sizes) != len(shape) or 0 in sizes:
        raise LoadError(f"An array by planes holds numbers, got {name!r:.60} of shape {shape}.")
    return tuple(sizes), bool(by_column), dtype


def _refuse_constant(name: str) -> None:
    raise LoadError(f"The manifest holds {name}, which is not valid JSON.")


def is_key(key: Any) -> bool:
    """Return whether a value, or each item of a tuple, is a plain hashable key."""
    parts = key if type(key) is tuple else (key,)
    return all(
        type(part) in (*PLAIN_TYPES, bytes) or isinstance(part, np.generic) for part in parts
    )


def lpfuse_version() -> str:
    """Return the installed version of lpfuse."""
    try:
        return version("lpfuse")
    except PackageNotFoundError:
        return "unknown"


# --------------------------------------------------------------------------------------------------
# Third-party estimators, by skops
#
# Used only if the user trusts a type by name. Its code then runs, and skops creates scikit-learn
# objects in it without the checks below.


# Compiled scikit-learn types in PyOD detectors, which skops does not trust by default.
COMPILED_TYPES = frozenset((
    "numpy.dtype", "sklearn.neighbors._ball_tree.BallTree", "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.tree._tree.Tree", "sklearn.metrics._dist_metrics.ChebyshevDistance64",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.metrics._dist_metrics.ManhattanDistance64",
    "sklearn.metrics._dist_metrics.MinkowskiDistance64",
))  # fmt: skip


# Types in detectors of lpfuse that are not registered by name: caches of neighbour searches,
# boosted trees, and the PyOD interface.
UNREGISTERED_TYPES = frozenset((
    "lpfuse.detectors.columns.FlatTrees", "lpfuse.detectors.neighbours.Stack",
    "lpfuse.detectors.neighbours.SubsetSearch",
    "lpfuse_clients.pyod.PyODFused",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
))  # fmt: skip


def skops_trusted_types() -> list[str]:
    """Return types of lpfuse and their compiled parts, for ``skops.io.load(trusted=)``.

    For programs that save with skops, such as MLflow
    (``mlflow.sklearn.log_model(..., skops_trusted_types=...)``). With `lpfuse.load` it is not
    needed.

    Returns
    -------
    list of str
        Sorted full names of the classes that `lpfuse.save` writes, and of their parts. None of them
        executes content of a file, but skops does not validate their attributes: load only files
        that you trust, or use `lpfuse.load`, which validates.

    Examples
    --------
    >>> from lpfuse.io import skops_trusted_types
    >>> "lpfuse.ensemble.fused.FusedDetector" in skops_trusted_types()
    True
    """
    register_all()
    ours = {_name(cls) for cls in saved_classes().values() if cls.__module__.startswith("lpfuse.")}
    return sorted(ours | COMPILED_TYPES | UNREGISTERED_TYPES)


def dumps(thing: Any, path: str) -> tuple[bytes, list[str]]:
    """Return an estimator as a skops member, and the types that a user has to trust.

    `path` locates it in error messages.
    """
    if not _is_estimator(thing):
        raise TypeError(_cannot_save(path, _describe(thing)))
    io = _skops()
    try:
        content = bytes(io.dumps(thing))
    except Exception as error:
        raise TypeError(_cannot_save(path, f"{_describe(thing)} ({error})")) from error
    # skops trusts scikit-learn types that are not in our table; name the type itself.
    untrusted = {*io.get_untrusted_types(data=content)} - COMPILED_TYPES or {_name(type(thing))}
    hidden = [name for name in sorted(untrusted) if not _is_importable(name)]
    if hidden:
        raise TypeError(_cannot_save(path, f"{_describe(thing)} with {', '.join(hidden)}"))
    return content, sorted(untrusted)


def check_trust(needed: list[Any], trusted: list[str]) -> None:
    """Raise for types that the user has not named, before any of them is created."""
    told = sorted({str(name) for name in needed} - set(trusted))
    if told or not needed:
        raise LoadError(
            f"It holds types that are not trusted: {', '.join(told)[:1000]}. If you trust the "
            f"source of the file, pass trusted={told!r:.1000}; their code will run."
        )


def loads(content: bytes, trusted: list[str]) -> Any:
    """Load the estimator of a skops member; raise for untrusted types."""
    io = _skops()
    found = {*io.get_untrusted_types(data=content)} - COMPILED_TYPES
    if found:
        check_trust(sorted(found), trusted)
    made = io.loads(content, trusted=sorted({*trusted, *COMPILED_TYPES}))
    if not found:
        check_trust([_name(type(made))], trusted)
    return made


def _skops() -> Any:
    try:
        import skops.io.exceptions
    except ImportError as error:
        raise ImportError(
            'Third-party estimators are saved with skops: pip install "lpfuse[persist]"'
        ) from error
    return skops.io


def _is_estimator(thing: Any) -> bool:
    """Return whether it is an estimator whose class another program can import."""
    if isinstance(thing, type):
        return False
    name = _name(type(thing))
    return _is_importable(name) and (name.startswith("sklearn.") or hasattr(thing, "get_params"))


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_importable(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    return module != "__main__" and hasattr(sys.modules.get(module), attribute)


def _describe(thing: Any) -> str:
    if isinstance(thing, type):
        return f"the class {thing.__qualname__}"
    kind = "a function" if hasattr(thing, "__code__") else f"of type {type(thing).__qualname__}"
    return f"{kind} of {getattr(thing, '__module__', None) or type(thing).__module__}"


def _cannot_save(path: str, told: str) -> str:
    return (
        f"{path or 'This'} is {told}, and cannot be saved: a file holds data and names of "
        "importable estimators. Define it as a subclass of sklearn.base.BaseEstimator in an "
        "importable module, or remove it."
    )


# --------------------------------------------------------------------------------------------------
# Checks of arrays that compiled code indexes

Array = np.ndarray[Any, Any]


# The attributes that may hold a compiled part. Elsewhere it would be used without the checks of its
# owner: `Tree.predict` does not validate rows, nor `_BinMapper.transform` its thresholds.
OWNERS = {
    "tree_": "Tree", "trees_": "Tree", "_predictors": "TreePredictor", "_bin_mapper": "_BinMapper",
}  # fmt: skip


def is_tree(thing: Any) -> bool:
    """Return whether it is a compiled tree of scikit-learn."""
    return type(thing).__module__ == "sklearn.tree._tree" and type(thing).__name__ == "Tree"


def is_predictor(thing: Any) -> bool:
    """Return whether it is a tree of histogram-based gradient boosting."""
    return type(thing).__name__ == "TreePredictor" and type(thing).__module__.startswith("sklearn.")


def tree_columns(tree: Any) -> tuple[Any, ...]:
    """Return field names, number of features, classes, depth and node table of a tree."""
    state = tree.__getstate__()
    nodes, values = state["nodes"], state["values"]
    table = _columns(nodes)
    if values.any():  # else the owner computes them
        table = np.asfortranarray(np.column_stack([table, values.reshape(len(values), -1)]))
    classes = tree.n_classes.tolist()
    return list(nodes.dtype.names), int(tree.n_features), classes, int(tree.max_depth), table


def make_tree(names: Any, n_features: int, classes: list[int], depth: int, table: Array) -> Any:
    """Create a tree from `tree_columns`; every path must end in a leaf."""
    from sklearn.tree._tree import NODE_DTYPE, Tree

    _check(all(type(each) is int and each > 0 for each in classes) and classes, "Tree", "classes")
    count, width = len(NODE_DTYPE.names), len(classes) * max(classes)
    whole = _is_array(table, "f", None, count + width) or _is_array(table, "f", None, count)
    _check(whole and len(table) > 0, "Tree", "values")
    nodes = _records(names, table[:, :count], NODE_DTYPE)
    leaf = nodes["left_child"] == -1
    _check_children(nodes["left_child"], nodes["right_child"], leaf, "Tree")
    _check(_within(nodes["feature"][~leaf], n_features), "Tree", "features")
    tree = Tree(n_features, np.array(classes, dtype=np.intp), len(classes))
    values = np.zeros((len(table), len(classes), max(classes)))
    if table.shape[1] > count:
        values = table[:, count:].reshape(values.shape)
    state = {"max_depth": depth, "node_count": len(table), "nodes": nodes}
    tree.__setstate__(state | {"values": np.ascontiguousarray(values)})
    _check(tree.compute_node_depths().max() - 1 == depth, "Tree", "levels")
    return tree


def predictor_columns(predictor: Any) -> tuple[Any, ...]:
    """Return field names, node table and category bitsets of a boosting tree."""
    sets = predictor.binned_left_cat_bitsets, predictor.raw_left_cat_bitsets
    return list(predictor.nodes.dtype.names), _columns(predictor.nodes), *sets


def make_predictor(names: Any, table: Array, binned: Array, raw: Array) -> Any:
    """Create a tree from `predictor_columns`; its features are checked with the ensemble."""
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    _check(_is_array(table, "f", None, len(PREDICTOR_RECORD_DTYPE.names)), "TreePredictor", "nodes")
    nodes = _records(names, table, PREDICTOR_RECORD_DTYPE)
    leaf = nodes["is_leaf"] != 0
    left, right = nodes["left"].astype(np.int64), nodes["right"].astype(np.int64)
    by_category = (nodes["is_categorical"] != 0) & ~leaf
    _check_children(left, right, leaf, "TreePredictor")
    for bits in (binned, raw):
        _check(_is_array(bits, "u", None, 8) and bits.itemsize == 4, "TreePredictor", "categories")
        _check(_within(nodes["bitset_idx"][by_category], len(bits)), "TreePredictor", "categories")
    return TreePredictor(nodes, binned, raw)


def check_compiled_arrays(made: Any) -> None:
    """Raise if arrays of a fitted estimator would lead compiled code out of bounds."""
    name, known = type(made).__name__, vars(made)
    if name in CHECKS and CHECKS[name][0] in known:
        _check(type(known.get("n_features_in_")) is int, name, "n_features_in_")
        CHECKS[name][1](made, name)


def _check_tree(made: Any, name: str) -> None:
    _check(is_tree(made.tree_) and made.tree_.n_features == made.n_features_in_, name, "tree_")
    _check(made.tree_.n_outputs == made.n_outputs_ == 1, name, "outputs")


def _check_members(made: Any, name: str) -> None:
    """Check that trees match the number of columns: some ensembles do not validate rows."""
    held = made.estimators_
    if "n_classes_" in vars(made):
        _check(np.size(made.n_classes_) == 1 and made.n_classes_ == len(made.classes_), name,
              "classes")  # fmt: skip
    members = list(held.ravel() if isinstance(held, np.ndarray) else held)
    seen = [made.n_features_in_] * len(members)
    if getattr(made, "_max_features", made.n_features_in_) != made.n_features_in_:
        shown = made.estimators_features_
        inside = all(
            _is_array(each, "iu", None) and _within(each, made.n_features_in_) for each in shown
        )
        _check(inside, name, "estimators_features_")
        seen = [len(features) for features in shown]
    _check(len(seen) == len(members), name, "estimators_features_")
    for member, columns in zip(members, seen, strict=True):
        if hasattr(member, "tree_"):
            _check(member.tree_.n_features == columns, name, "estimators_")


def _check_boosting(made: Any, name: str) -> None:
    """Check boosting, whose compiled sum writes ``out[i · K + k]`` for K trees a stage."""
    _check_members(made, name)
    trees, count = made.estimators_, made.n_trees_per_iteration_
    _check(count == (1 if len(made.classes_) == 2 else len(made.classes_)), name, "trees a stage")
    _check(_is_array(trees, "O", None, count) and len(trees) > 0, name, "estimators_")
    whole = all(is_tree(getattr(tree, "tree_", None)) for tree in trees.ravel())
    _check(whole and all(tree.tree_.value.shape[1:] == (1, 1) for tree in trees.ravel()), name,
          "estimators_")  # fmt: skip
    start = made.init_
    if type(start).__name__ == "DummyClassifier":
        _check(len(start.classes_) == len(made.classes_), name, "init_")
        _check(start._strategy == "prior" and start.n_outputs_ == 1, name, "init_")
        _check(_is_array(start.class_prior_, "f", len(made.classes_)), name, "init_")
    else:
        _check(isinstance(start, str) and start == "zero", name, "init_")


def _check_histograms(made: Any, name: str) -> None:
    """Check that features of nodes are columns, with at most 256 categories each."""
    columns, bins = made.n_features_in_, made._bin_mapper
    _check(type(bins).__name__ == "_BinMapper", name, "_bin_mapper")
    by_category = np.asarray(bins.is_categorical_, dtype=bool)
    _check(_is_array(bins.is_categorical_, "ub", columns), name, "is_categorical_")
    _check(len(bins.bin_thresholds_) == columns, name, "bin_thresholds_")
    for k in np.flatnonzero(by_category):
        values = bins.bin_thresholds_[k]
        _check(_is_array(values, "f", None) and _within(values, 256), name, "categories")
    for predictor in (tree for stage in made._predictors for tree in stage):
        _check(is_predictor(predictor), name, "_predictors")
        nodes = predictor.nodes[predictor.nodes["is_leaf"] == 0]
        _check(_within(nodes["feature_idx"], columns), name, "features")
        split = nodes["feature_idx"][nodes["is_categorical"] != 0]
        _check(bool(by_category[split].all()), name, "features")
    if made._preprocessor is not None:  # puts categorical columns first, changes no number
        before = made._preprocessor
        parts, places = before.transformers_[:2], before._transformer_to_input_indices
        kinds = [type(part).__name__ for part in (before, *(part for _, part, _ in parts))]
        known = ["ColumnTransformer", "OrdinalEncoder", "FunctionTransformer"]
        _check(kinds == known, name, "_preprocessor")
        _check(not getattr(before, "_name_to_fitted_passthrough", None), name, "_preprocessor")
        masks = [np.asarray(mask) for _, _, mask in parts]
        _check(all(_is_array(mask, "b", columns) for mask in masks), name, "_preprocessor")
        # Frames are selected by position, arrays by mask.
        whole = (masks[0] ^ masks[1]).all() and before.n_features_in_ == columns
        sizes = [len(places[label]) for label, _, _ in parts]
        _check(whole and sizes == [mask.sum() for mask in masks], name, "_preprocessor")


def _check_neighbours(made: Any, name: str) -> None:
    rows, options = made._fit_X, made.effective_metric_params_
    _check(_is_array(rows, "f", None, made.n_features_in_), name, "_fit_X")
    _check(made.n_samples_fit_ == len(rows) > 0 and bool(np.isfinite(rows).all()), name, "_fit_X")
    plain = isinstance(options, dict) and all(
        key == "p" and isinstance(value, int | float) for key, value in options.items()
    )
    plain = plain and made.metric_params is None and isinstance(made.effective_metric_, str)
    _check(plain, name, "effective_metric_params_")
    if name == "KNeighborsClassifier":  # k places of a heap are filled by that many rows
        _check(made.n_neighbors <= len(rows), name, "n_neighbors")
        within = _is_array(made._y, "iu", len(rows)) and _within(made._y, len(made.classes_))
        _check(within and _is_array(made.classes_, PLAIN_KINDS + "O", None), name, "_y")
        _check(not made.outputs_2d_, name, "outputs")


def _check_support(made: Any, name: str) -> None:
    """Check what libsvm copies: m support vectors of K classes, K − 1 rows of coefficients."""
    vectors, counts = made.support_vectors_, made._n_support
    m, one_class = len(vectors), name == "OneClassSVM"
    classes = 2 if one_class else len(made.classes_)
    pairs = classes * (classes - 1) // 2
    _check(
        _is_array(vectors, "f", m, made.n_features_in_) and vectors.itemsize == 8, name, "vectors"
    )
    _check(_is_array(made.support_, "i", m) and made.support_.itemsize == 4, name, "support_")
    _check(_is_array(counts, "i", classes) and counts.itemsize == 4, name, "_n_support")
    whole = (counts == m).all() if one_class else (counts >= 0).all() and counts.sum() == m
    _check(bool(whole) and not made._sparse, name, "_n_support")
    for each in ("_dual_coef_", "dual_coef_"):
        _check(_is_array(vars(made)[each], "f", classes - 1, m), name, each)
    for each in ("_intercept_", "intercept_"):
        _check(_is_array(vars(made)[each], "f", pairs), name, each)
    # What scikit-learn passes to libsvm; version 1.7 has only the parameter.
    gives_chances = getattr(made, "_effective_probability", made.probability)
    for each in (made._probA, made._probB):
        _check(_is_array(each, "f", pairs if gives_chances else 0), name, "probabilities")


def _check_covariance(made: Any, name: str) -> None:
    """Check the matrix of Mahalanobis distances, which scipy reads as d × d unchecked."""
    for each in {"covariance_", "precision_"} & vars(made).keys():
        shape = (made.n_features_in_,) * 2
        _check(vars(made)[each] is None or _is_array(vars(made)[each], "f", *shape), name, each)


def _check_one_hot(made: Any, name: str) -> None:
    """Check category codes, which become column indices of a sparse matrix unchecked."""
    widths, columns, dropped = made._n_features_outs, made.n_features_in_, None
    _check(len(made.categories_) == len(widths) == columns, name, "categories_")
    plain = type(widths) is list and all(isinstance(each, int | np.integer) for each in widths)
    _check(plain and all(each >= 0 for each in widths), name, "_n_features_outs")
    if made._drop_idx_after_grouping is not None:
        dropped = made._drop_idx_after_grouping
        _check(_is_array(dropped, "iO", columns), name, "drop_idx_")
    for k, categories in enumerate(made.categories_):
        _check_order(categories, name)
        codes = np.arange(len(categories))
        if made._infrequent_enabled:
            grouped, rare = made._default_to_infrequent_mappings[k], made._infrequent_indices[k]
            _check((grouped is None) == (rare is None), name, "infrequent categories")
            if grouped is not None:  # unknown categories take the code of a rare one
                _check(_is_array(grouped, "iu", len(categories)), name, "infrequent categories")
                codes = grouped
        if dropped is not None and dropped[k] is not None:
            _check(isinstance(dropped[k], int | np.integer), name, "drop_idx_")
            codes = codes[codes != dropped[k]]
            codes = codes - (codes > dropped[k])
        _check(_within(codes, widths[k]), name, "_n_features_outs")


def _check_order(categories: Any, name: str) -> None:
    """Check that numbers ascend, with NaN last: they are found by bisection, texts by hashing."""
    _check(_is_array(categories, PLAIN_KINDS + "O", None), name, "categories_")
    if categories.dtype.kind not in "OSU":
        known = categories[:-1] if (categories[-1:] != categories[-1:]).any() else categories
        _check((known[:-1] < known[1:]).all(), name, "categories_")


# For each class with a check: the attribute without which it does nothing, and the check.
CHECKS: dict[str, tuple[str, Any]] = {
    name: (attribute, check)
    for names, attribute, check in (
        ("DecisionTreeClassifier DecisionTreeRegressor", "tree_", _check_tree),
        ("ExtraTreeClassifier ExtraTreeRegressor", "tree_", _check_tree),
        ("BaggingClassifier IsolationForest", "estimators_", _check_members),
        ("ExtraTreesClassifier RandomForestClassifier", "estimators_", _check_members),
        ("GradientBoostingClassifier", "estimators_", _check_boosting),
        ("HistGradientBoostingClassifier", "_predictors", _check_histograms),
        ("KNeighborsClassifier LocalOutlierFactor NearestNeighbors", "_fit_X", _check_neighbours),
        ("OneClassSVM SVC", "support_vectors_", _check_support),
        ("EllipticEnvelope", "location_", _check_covariance),
        ("OneHotEncoder", "categories_", _check_one_hot),
    )
    for name in names.split()
}


def _columns(records: Any) -> Array:
    """Return the fields of records as float64 columns, which represent them exactly."""
    names = records.dtype.names
    return np.asfortranarray(np.column_stack([records[name].astype(np.float64) for name in names]))


def _records(names: Any, table: Array, dtype: Any) -> Array:
    if names != list(dtype.names):
        raise LoadError(
            "Its trees are of another version of scikit-learn. Install that version, or fit the "
            "model again."
        )
    records = np.zeros(len(table), dtype=dtype)
    for name, column in zip(names, table.T, strict=True):
        kind = dtype[name]
        if kind.kind in "iu":
            bounds = np.iinfo(kind)
            whole = (column == np.round(column)) & (column >= bounds.min) & (column <= bounds.max)
            _check(bool(whole.all()), "Tree", name)
        records[name] = column
    return records


def _check_children(left: Array, right: Array, leaf: Array, name: str) -> None:
    """Check that every node but the first is the child of exactly one earlier node: a tree."""
    parents, count = np.flatnonzero(~leaf), len(leaf)
    children = np.array([left[parents], right[parents]])
    later = count > 0 and (children > parents).all() and children.max(initial=0) < count
    _check(later, name, "children")
    _check((np.bincount(children.ravel(), minlength=count)[1:] == 1).all(), name, "children")


def is_plain_view(transformer: Any, rows: Any) -> bool:
    """Return whether each column of the rows is transformed by itself, by checked numbers."""
    name, known = type(transformer).__name__, getattr(transformer, "__dict__", {})
    if not _is_array(rows, "f", None, None) or not rows.size or not np.isfinite(rows).all():
        return False
    d = rows.shape[1]
    lists: list[Any] = [known.get("knots_"), known.get("quantiles_")]
    if rows.dtype != np.float64 or known.get("n_features_in_") != d:
        return False
    if saved_name(type(transformer)) == "NormalQuantiles":
        whole = all(type(each) is list and len(each) == d for each in lists)
        columns = zip(*lists, strict=True) if whole else ()
        whole = whole and all(len(a) == len(b) > 0 for a, b in columns)
        parts = [each for part in lists for each in part] if whole else [None]
        return _is_array(known["scale_"], "f", d) and all(_is_array(p, "f", None) for p in parts)
    return name_of(transformer) == name == "StandardScaler" and all(
        known.get(each) is None or _is_array(known[each], "f", d) for each in ("mean_", "scale_")
    )


def _within(indices: Any, count: int) -> bool:
    return bool(((indices >= 0) & (indices < count)).all())


def _is_array(array: Any, kinds: str, *shape: int | None) -> bool:
    """Return whether it is an array with these dtype kinds and that shape; None: any size."""
    return (
        type(array) is np.ndarray  # a masked array would hide values from the checks
        and array.dtype.kind in kinds
        and array.ndim == len(shape)
        and all(size in (None, found) for size, found in zip(shape, array.shape, strict=True))
    )


def _check(sound: Any, name: str, what: str) -> None:
    if not sound:
        raise LoadError(
            f"Its {name} holds {what} that are inconsistent and would cause out-of-bounds access "
            "in compiled code. Restore the file, or fit the model again."
        )


# --------------------------------------------------------------------------------------------------
# Scikit-learn classes that a file may hold without trust
#
# They are created by their constructors, which only store parameters, and from their fitted
# attributes. Most of them score with NumPy, which checks bounds. Indices that compiled code follows
# unchecked are checked above, or recomputed (`complete`), such as neighbour search trees; the table
# in SECURITY.md names, for each class, what is indexed, what proves the range, and the test. Other
# classes go through skops and need the user's trust.


CLASSES = {
    "calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration",
    "compose": "ColumnTransformer",
    "covariance": "EllipticEnvelope",
    "decomposition": "PCA TruncatedSVD",
    "discriminant_analysis": "LinearDiscriminantAnalysis",
    "dummy": "DummyClassifier",
    "ensemble": "BaggingClassifier ExtraTreesClassifier GradientBoostingClassifier "
    "HistGradientBoostingClassifier IsolationForest RandomForestClassifier VotingClassifier",
    "ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "frozen": "FrozenEstimator",
    "impute": "KNNImputer MissingIndicator SimpleImputer",
    "isotonic": "IsotonicRegression",
    "linear_model": "LogisticRegression LogisticRegressionCV RidgeClassifier SGDClassifier "
    "SGDOneClassSVM",
    "mixture": "GaussianMixture",
    "model_selection": "GridSearchCV GroupKFold KFold LeaveOneGroupOut LeaveOneOut PredefinedSplit "
    "StratifiedGroupKFold StratifiedKFold TimeSeriesSplit",
    "naive_bayes": "GaussianNB",
    "neighbors": "KNeighborsClassifier LocalOutlierFactor NearestNeighbors",
    "neural_network": "MLPClassifier",
    "pipeline": "Pipeline",
    "preprocessing": "FunctionTransformer LabelBinarizer LabelEncoder MaxAbsScaler MinMaxScaler "
    "OneHotEncoder OrdinalEncoder QuantileTransformer RobustScaler StandardScaler",
    "svm": "LinearSVC OneClassSVM SVC",
    "tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor",
}
MODULE_OF = {name: module for module, names in CLASSES.items() for name in names.split()}

# Allowed strings of parameters for which scikit-learn declares none.
UNDECLARED = {"method": ("isotonic", "sigmoid", "temperature")}
# Names of columns, classes, categories and steps: strings that are data.
ANY_TEXT = frozenset(("constant", "fill_value", "missing_values"))
LISTED_TEXT = frozenset((
    "categorical_features", "categories", "class_weight", "classes", "drop", "estimators",
    "param_grid", "steps", "transformer_weights", "transformers",
))  # fmt: skip
FITTED_TEXT = frozenset((
    "_columns", "_name_to_fitted_passthrough", "_remainder", "_transformer_to_input_indices",
    "best_params_", "categories_", "classes_", "constant_", "cv_results_",
    "effective_metric_params_", "feature_names_in_", "named_estimators_", "output_indices_",
    "statistics_", "transformers_",
))  # fmt: skip
# Other allowed strings in fitted attributes, beside those declared for parameters.
FITTED_STRINGS = ("binary", "default", "multiclass", "pandas", "polars", "softmax", "transform")
# "precomputed" rows would be similarities that `support_` indexes; "pyfunc" is a function.
FORBIDDEN_STRINGS = frozenset(("precomputed", "pyfunc"))
# Compiled objects, which are recomputed, and attributes that only fitting uses. A model with
# `_in_fit` set skips validation.
NOT_SAVED = frozenset((
    "_average_path_length_per_tree", "_decision_path_lengths", "_in_fit", "_loss",
    "_loss_function_", "_metadata_request", "_optimizer", "_scorer", "_tree", "f_", "scorer_",
))  # fmt: skip


@cache
def functions() -> dict[str, Any]:
    """Return functions that parameters may be: ufuncs of NumPy, and one of scikit-learn."""
    from sklearn.utils import check_array

    names = ("abs", "arcsinh", "cbrt", "exp", "expm1", "log", "log10", "log1p", "log2", "sqrt",
             "square", "tanh")  # fmt: skip
    # The transformer of numeric columns in boosting with categories.
    numbers = partial(check_array, dtype=[np.float64], ensure_all_finite=False)
    return {name: getattr(np, name) for name in names} | {"numbers": numbers}


def function_name(thing: Any) -> str | None:
    """Return the name of a function in files; None if they cannot hold it."""
    for name, known in functions().items():
        parts = [getattr(each, "func", each) for each in (thing, known)]
        if parts[0] is parts[1] and getattr(thing, "keywords", 0) == getattr(known, "keywords", 0):
            return name
    return None


def is_function(thing: Any) -> bool:
    """Return whether it is a function of a file."""
    return isinstance(thing, np.ufunc | partial)


def class_by_name(name: str) -> type | None:
    """Return the scikit-learn class of that name; None if it is not in the table."""
    home = MODULE_OF.get(name)
    return None if home is None else getattr(import_module(f"sklearn.{home}"), name)


def name_of(thing: Any) -> str | None:
    """Return the name of an estimator's class in files; None if they cannot hold it."""
    name = type(thing).__name__
    if name not in MODULE_OF or class_by_name(name) is not type(thing):
        return None
    functions_held = [each for each in vars(thing).values() if isinstance(each, FunctionType)]
    return name if all(map(function_name, functions_held)) else None


def words_of(cls: Any) -> dict[str, tuple[Any, ...]]:
    """Return the strings that scikit-learn declares for each parameter."""
    constraints = getattr(cls, "_parameter_constraints", {})
    found: dict[str, tuple[Any, ...]] = {}
    for name, parameter in signature(cls).parameters.items():
        declared = constraints.get(name)
        words = {parameter.default, *(UNDECLARED.get(name, ()) if declared is None else ())}
        for rule in declared if isinstance(declared, list) else []:
            words |= set(getattr(getattr(rule, "constraint", rule), "options", ()))
        texts = {word for word in words if isinstance(word, str)} - FORBIDDEN_STRINGS
        kinds = [str] if name in ANY_TEXT else [...] if name in LISTED_TEXT else []
        found[name] = (*sorted(texts), *kinds)
    return found


def parameters_of(thing: Any) -> dict[str, Any]:
    """Return the parameters of an estimator or splitter."""
    held = vars(thing)
    return {name: held[name] for name in signature(type(thing)).parameters if name in held}


def make(cls: Any, parameters: dict[str, Any]) -> Any:
    """Create an unfitted instance; raise for parameters that scikit-learn does not accept."""
    made = cls(**parameters)
    for name, value in parameters.items():
        if not callable(value):
            continue
        known = value in NUMBER_TYPES.values() if name == "dtype" else function_name(value)
        # A function as a kernel has support vectors index the columns of its result.
        if not known or name not in ("dtype", "func", "inverse_func"):
            raise LoadError(
                f"{cls.__name__}.{name} is {type(value).__name__}, and would be called."
            )
    constraints = getattr(cls, "_parameter_constraints", None)
    if constraints is not None:
        try:
            validate_parameter_constraints(constraints, parameters, caller_name=cls.__name__)
        except ValueError as error:
            raise LoadError(f"{error}") from error
    return made


def complete(made: Any) -> None:
    """Check fitted attributes, and recompute those that are not saved."""
    check_compiled_arrays(made)
    known = vars(made)
    if "_fit_method" in known and known["_fit_method"] != "brute":
        from sklearn.neighbors import BallTree, KDTree

        maker = {"kd_tree": KDTree, "ball_tree": BallTree}[known["_fit_method"]]
        made._tree = maker(
            made._fit_X, made.leaf_size, made.effective_metric_, **made.effective_metric_params_
        )
    elif "_fit_method" in known:
        made._tree = None
    if hasattr(made, "_get_loss") and "n_trees_per_iteration_" in known:
        made._loss = made._get_loss(sample_weight=None)
    if "_max_samples" in known and type(made).__name__ == "IsolationForest":
        from sklearn.ensemble._iforest import _average_path_length

        trees = [tree.tree_ for tree in made.estimators_]
        made._average_path_length_per_tree = tuple(
            _average_path_length(tree.n_node_samples) for tree in trees
        )
        made._decision_path_lengths = tuple(tree.compute_node_depths() for tree in trees)
    if "X_thresholds_" in known:
        made._build_f(made.X_thresholds_, made.y_thresholds_)
    if "best_index_" in known and not callable(made.scoring):
        from sklearn.metrics import check_scoring

        made.scorer_ = check_scoring(made.estimator, made.scoring)
