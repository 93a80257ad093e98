"""One zip file with a manifest and members, what it may hold, and limits for hostile ones.

Members are stored as they are, so that a file cannot grow when it is read: what it claims to hold,
it must hold. Only skops members, which shrink to a tenth, are compressed, up to `UNPACKED` bytes in
all. Nothing is ever extracted to the disk.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from inspect import getattr_static
from io import BytesIO
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from lpfuse._files import replacing
from lpfuse._saved import saved_as

MANIFEST = "manifest.json"
UNPACKED = 2**26  # bytes that compressed members may unpack to, all together
PLAIN_KINDS = "biufcmMSU"  # of numbers, dates and text: arrays whose bytes mean only themselves
PLAIN_TYPES = (type(None), bool, int, str, float)  # what JSON holds as it is
BIT_GENERATORS = {
    make.__name__: make
    for make in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.SFC64)
}
# 2: classes go by the names of `lpfuse._saved`. Format 1 was never released, and is refused.
FORMAT, FORMAT_VERSION = "lpfuse", 2

# Two of scikit-learn's that hold estimators of ours: they are made of their attributes too.
for _cls in (FrozenEstimator, Pipeline):
    saved_as(_cls.__name__)(_cls)


class Refused(ValueError):
    """What a file may not hold, in words for the user."""


def write(path: Any, manifest: Mapping[str, Any], members: Mapping[str, Any]) -> None:
    """Write the file beside the old one, which it replaces when it is complete."""
    text = json.dumps(manifest, allow_nan=False)
    with replacing(path) as file, ZipFile(file, "w") as archive:
        _add(archive, MANIFEST, text.encode())
        unpacked = 0
        for name, content in members.items():
            if isinstance(content, np.ndarray):
                _add_array(archive, name, content)
            else:
                unpacked += len(content)
                _add(archive, name, content, compressed=unpacked <= UNPACKED)


def _add(archive: ZipFile, name: str, content: bytes, compressed: bool = False) -> None:
    archive.writestr(ZipInfo(name), content, ZIP_DEFLATED if compressed else ZIP_STORED)


def _add_array(archive: ZipFile, name: str, array: np.ndarray[Any, Any]) -> None:
    info = ZipInfo(name)
    info.file_size = array.nbytes  # lets the archive choose the form that large members need
    with archive.open(info, "w") as member:
        npy.write_array(member, array, allow_pickle=False)


class Archive:
    """A file of a user, open for reading."""

    def __init__(self, file: IO[bytes]) -> None:
        self.zip = ZipFile(file)
        size = os.fstat(file.fileno()).st_size
        _check_sizes(self.zip.infolist(), size, UNPACKED)
        self.unread = set(self.zip.namelist())

    def manifest(self) -> Any:
        """The values of the manifest."""
        return json.loads(self.content(MANIFEST), parse_constant=_refuse_constant)

    def content(self, name: Any) -> bytes:
        """A member as it is."""
        self._take(name)
        return self.zip.read(name)

    def array(self, name: Any) -> np.ndarray[Any, Any]:
        """A member that is an array; what its header claims must be there."""
        self._take(name)
        with self.zip.open(name) as member:
            claimed = _claimed_bytes(member)
            held = self.zip.getinfo(name).file_size - member.tell()
        if claimed != held:
            raise Refused(f"The array {name} claims {claimed} bytes, but there are {held}.")
        with self.zip.open(name) as member:
            return npy.read_array(member, allow_pickle=False)

    def refuse_leftovers(self) -> None:
        """Refuse a file with members that nothing refers to."""
        if self.unread:
            raise Refused(f"The file holds members that it does not use: {sorted(self.unread)}.")

    def _take(self, name: Any) -> None:
        if name not in self.unread:
            raise Refused(f"The file has no member {name!r}, or refers to it twice.")
        self.unread.remove(name)


def _check_sizes(members: list[ZipInfo], size: int, unpacked: int) -> None:
    """Refuse an archive of that size whose members would grow beyond it when they are read."""
    names = [member.filename for member in members]
    if len(set(names)) < len(names):
        raise Refused("Two members of the file have the same name.")
    stored = [member for member in members if member.compress_type == ZIP_STORED]
    packed = [member for member in members if member.compress_type == ZIP_DEFLATED]
    if len(stored) + len(packed) < len(members):
        raise Refused("The file is compressed in a way that lpfuse does not use.")
    if _total(stored) > size or _total(packed) > unpacked:
        raise Refused("The file claims to hold more than it can.")


def check_nested(content: bytes) -> None:
    """Refuse a skops member, an archive itself, that would grow when it is read."""
    with ZipFile(BytesIO(content)) as inner:
        _check_sizes(inner.infolist(), len(content), 0)
        for name in inner.namelist():
            if name.endswith(".npz"):  # sparse matrices, which scipy compresses
                with ZipFile(inner.open(name)) as innermost:
                    _check_sizes(innermost.infolist(), len(content), UNPACKED)


def _total(members: Iterable[ZipInfo]) -> int:
    return sum(member.file_size for member in members)


def _claimed_bytes(member: IO[bytes]) -> int:
    header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    shape, _, dtype = header[npy.read_magic(member)](member)
    if dtype.kind not in PLAIN_KINDS:
        raise Refused(f"Arrays of type {dtype} may hold code and are never read.")
    return math.prod(shape) * dtype.itemsize


def _refuse_constant(name: str) -> None:
    raise Refused(f"The manifest holds {name}, which is no JSON.")


def is_key(key: Any) -> bool:
    """Whether something, or each part of a tuple, can be compared at once: keys get hashed."""
    parts = key if type(key) is tuple else (key,)
    return all(
        type(part) in (*PLAIN_TYPES, bytes) or isinstance(part, np.generic) for part in parts
    )


def is_data(cls: type, attribute: str) -> bool:
    """Whether an attribute of an instance holds data, and hides nothing that the class does."""
    if not attribute.isidentifier() or attribute.startswith("__"):
        return False
    of_class = getattr_static(cls, attribute, None)
    return not callable(of_class) and not hasattr(type(of_class), "__get__")


def lpfuse_version() -> str:
    """Of the lpfuse that writes or reads a file."""
    try:
        return version("lpfuse")
    except PackageNotFoundError:
        return "unknown"
