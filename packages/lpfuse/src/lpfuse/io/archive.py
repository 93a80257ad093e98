"""One zip file with a manifest and members, what it may hold, its digest, and limits.

After the archive come two lines of text: the SHA-256 of all bytes before them, and their HMAC where
the user gave a key. Members are stored as they are, or compressed by so little that a file of n
bytes never holds more than `GROWTH` · n when it is read, archives in archives included. Nothing is
ever extracted to the disk.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import re
import stat
import zlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np
from numpy.lib import format as npy

from lpfuse._files import replacing

MANIFEST = "manifest.json"
PLAIN_KINDS = "biufcmMSU"  # of numbers, dates and text: arrays whose bytes mean only themselves
PLAIN_TYPES = (type(None), bool, int, str, float)  # what JSON holds as it is
BIT_GENERATORS = {
    make.__name__: make
    for make in (np.random.MT19937, np.random.PCG64, np.random.PCG64DXSM, np.random.SFC64)
}
# Types of numbers, which encoders take as a parameter.
NUMBER_TYPES: dict[str, Any] = {
    each.__name__: each
    for each in (np.float64, np.float32, np.int64, np.int32, np.int8, np.uint8, np.bool_)
} | {"builtin float": float, "builtin int": int, "builtin bool": bool}
# Chosen by hand. Trees shrink to a fifth; JSON takes up to thirty times its size as objects.
GROWTH = 20  # bytes that a file may hold for each of its own
LARGEST_MANIFEST = 2**25
LARGEST_PACKED = 2**20  # larger arrays hold rows and numbers, which hardly shrink
SEAL = re.compile(rb"\nsha256 ([0-9a-f]{64})\nhmac-sha256 ([0-9a-f]{64}|-{64})\n")
SEAL_SIZE = len("\nsha256 \nhmac-sha256 \n") + 128
NO_KEY = "-" * 64
# 2: classes go by the names of `lpfuse._saved`. 3: estimators of scikit-learn are made of their
# attributes, and the file has a digest. Formats 1 and 2 were never released, and are refused.
FORMAT, FORMAT_VERSION = "lpfuse", 4


class Refused(ValueError):
    """What a file may not hold, in words for the user."""


class _Digesting:
    """A file to write to, from its beginning to its end, that takes the digest of what passes."""

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
    """Write the file beside the old one, which it replaces when it is complete."""
    text = json.dumps(manifest, allow_nan=False).encode()
    if len(text) > LARGEST_MANIFEST:
        raise TypeError(
            f"This estimator holds so many lists and texts that they take {len(text):,} bytes, and "
            f"a file may hold {LARGEST_MANIFEST:,}. Keep long lists as NumPy arrays."
        )
    with replacing(path) as file:
        digesting = _Digesting(file, check_key(key))
        with ZipFile(digesting, "w") as archive:  # type: ignore[call-overload]
            _add(archive, MANIFEST, text)
            for name, content in members.items():
                if isinstance(content, np.ndarray):
                    _add_array(archive, name, content)
                else:
                    archive.writestr(ZipInfo(name), content, ZIP_STORED)
        file.write(digesting.seal())


def _add(archive: ZipFile, name: str, content: bytes) -> None:
    packed = len(zlib.compress(content, 1))
    worth_it = packed < 0.8 * len(content) < 0.8 * GROWTH * packed
    archive.writestr(ZipInfo(name), content, ZIP_DEFLATED if worth_it else ZIP_STORED, 1)


def _add_array(archive: ZipFile, name: str, array: np.ndarray[Any, Any]) -> None:
    if array.nbytes <= LARGEST_PACKED:
        content = BytesIO()
        npy.write_array(content, array, allow_pickle=False)
        return _add(archive, name, content.getvalue())
    info = ZipInfo(name)
    info.file_size = array.nbytes  # lets the archive choose the form that large members need
    with archive.open(info, "w") as member:
        npy.write_array(member, array, allow_pickle=False)
    return None


def check_key(key: Any) -> bytes | None:
    """Return the key of a signature."""
    if key is not None and (not isinstance(key, bytes) or len(key) < 16):
        raise TypeError(
            "key must be at least 16 bytes that nobody can guess, such as secrets.token_bytes(32)."
        )
    return key


def read_regular(path: Any) -> bytes:
    """Return the bytes of a regular file: as many as it has when it is opened."""
    wait_not = getattr(os, "O_NONBLOCK", 0)  # a pipe would have us wait for its writer
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | wait_not)) as file:
        told = os.fstat(file.fileno())
        if not stat.S_ISREG(told.st_mode):
            raise Refused("It is no regular file, so nothing tells where it ends. Copy it to one.")
        # A disk holds zeros without end for nothing; the memory does not.
        if told.st_size > 2**20 + GROWTH * 512 * getattr(told, "st_blocks", told.st_size):
            raise Refused("Most of it are holes: it is damaged, or was not written by lpfuse.")
        content = file.read(told.st_size + 1)
    if len(content) != told.st_size:
        raise Refused("It changes while it is read. Wait until it is written, and load it again.")
    return content


class Archive:
    """The content of a file, open for reading; damaged, and unsigned where there is a key, refused.

    A file of another format has no digest: its manifest says so.
    """

    def __init__(self, content: bytes, key: bytes | None) -> None:
        body, seal = content[:-SEAL_SIZE], SEAL.fullmatch(content[-SEAL_SIZE:])
        if seal is not None:
            _check_seal(body, seal[1].decode(), seal[2].decode(), key)
        self.sealed = seal is not None
        self.zip = ZipFile(BytesIO(body if self.sealed else content))
        self.left = GROWTH * len(content)
        self._spend(self.zip, len(content))
        self.unread = set(self.zip.namelist())

    def manifest(self) -> Any:
        """Return the values of the manifest."""
        if MANIFEST in self.unread and self.zip.getinfo(MANIFEST).file_size > LARGEST_MANIFEST:
            raise Refused(f"Its manifest is larger than the {LARGEST_MANIFEST:,} bytes allowed.")
        return json.loads(self.content(MANIFEST), parse_constant=_refuse_constant)

    def content(self, name: Any) -> bytes:
        """Return a member as it is."""
        self._take(name)
        return self.zip.read(name)

    def nested(self, name: Any) -> bytes:
        """Return a member that is an archive itself, and those in it count too."""
        content = self.content(name)
        with ZipFile(BytesIO(content)) as inner:
            self._spend(inner, len(content))
            for each in inner.namelist():
                if each.endswith(".npz"):  # sparse matrices, which scipy compresses
                    with ZipFile(inner.open(each)) as innermost:
                        self._spend(innermost, inner.getinfo(each).file_size)
        return content

    def array(self, name: Any) -> np.ndarray[Any, Any]:
        """Return a member that is an array; what its header claims must be there."""
        content = BytesIO(self.content(name))
        claimed, held = _claimed_bytes(content), len(content.getbuffer()) - content.tell()
        if claimed != held:
            raise Refused(f"The array {name} claims {claimed} bytes, but there are {held}.")
        content.seek(0)
        return npy.read_array(content, allow_pickle=False)

    def refuse_leftovers(self) -> None:
        """Refuse a file with members that nothing refers to."""
        if self.unread:
            raise Refused(f"The file holds members that it does not use: {sorted(self.unread)}.")

    def _take(self, name: Any) -> None:
        if name not in self.unread:
            raise Refused(f"The file has no member {name!r}, or refers to it twice.")
        self.unread.remove(name)

    def _spend(self, archive: ZipFile, size: int) -> None:
        """Refuse an archive of that size whose members would grow when they are read."""
        members = archive.infolist()
        if len({member.filename for member in members}) < len(members):
            raise Refused("Two members of the file have the same name.")
        if any(member.compress_type not in (ZIP_STORED, ZIP_DEFLATED) for member in members):
            raise Refused("The file is compressed in a way that lpfuse does not use.")
        self.left -= sum(member.file_size for member in members)
        if self.left < 0 or sum(member.compress_size for member in members) > size:
            raise Refused("The file claims to hold more than it can.")


def _check_seal(body: bytes, digest: str, mac: str, key: bytes | None) -> None:
    if hashlib.sha256(body).hexdigest() != digest:
        raise BadZipFile("its content does not have the digest that it ends with")
    if key is None:
        return
    if mac == NO_KEY:
        raise Refused("It is not signed. Save it with the key, or load it without if you trust it.")
    if not hmac.compare_digest(hmac.digest(key, body, "sha256").hex(), mac):
        raise Refused("It was signed with another key, or changed by somebody who has none.")


def _claimed_bytes(member: IO[bytes]) -> int:
    header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    shape, _, dtype = header[npy.read_magic(member)](member)
    if dtype.kind not in PLAIN_KINDS:
        raise Refused(f"Arrays of type {dtype} may hold code and are never read.")
    return math.prod(shape) * dtype.itemsize


def _refuse_constant(name: str) -> None:
    raise Refused(f"The manifest holds {name}, which is no JSON.")


def is_key(key: Any) -> bool:
    """Return whether something, or each part of a tuple, can be compared at once.

    Keys get hashed.
    """
    parts = key if type(key) is tuple else (key,)
    return all(
        type(part) in (*PLAIN_TYPES, bytes) or isinstance(part, np.generic) for part in parts
    )


def lpfuse_version() -> str:
    """Of the lpfuse that writes or reads a file."""
    try:
        return version("lpfuse")
    except PackageNotFoundError:
        return "unknown"
