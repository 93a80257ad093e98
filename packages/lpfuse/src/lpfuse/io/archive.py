"""The container of saved models: a zip file with a manifest, array members and a digest.

Two lines of text follow the archive: the SHA-256 of all bytes before them, and their HMAC if the
user gave a key. Members are stored or compressed so that a file of n bytes expands to at most
`GROWTH` · n bytes, nested archives included. Nothing is extracted to disk.
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
MAX_COMPRESSED_SIZE = 2**20  # larger arrays hold rows of numbers, which hardly compress
SEAL = re.compile(rb"\nsha256 ([0-9a-f]{64})\nhmac-sha256 ([0-9a-f]{64}|-{64})\n")
SEAL_SIZE = len("\nsha256 \nhmac-sha256 \n") + 128
NO_KEY = "-" * 64
# 2: classes go by the names of `lpfuse._saved`. 3: estimators of scikit-learn are made of their
# attributes, and the file has a digest. Formats 1 and 2 were never released, and are refused.
FORMAT, FORMAT_VERSION = "lpfuse", 4


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
    if array.nbytes <= MAX_COMPRESSED_SIZE:
        content = BytesIO()
        npy.write_array(content, array, allow_pickle=False)
        return _add(archive, name, content.getvalue())
    info = ZipInfo(name)
    info.file_size = array.nbytes  # zipfile selects Zip64 for large members by it
    with archive.open(info, "w") as member:
        npy.write_array(member, array, allow_pickle=False)
    return None


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
        self._check_size(self.zip, len(content))
        self.unread = set(self.zip.namelist())

    def manifest(self) -> Any:
        """Return the parsed manifest."""
        if MANIFEST in self.unread and self.zip.getinfo(MANIFEST).file_size > MAX_MANIFEST_SIZE:
            raise LoadError(f"Its manifest is larger than the {MAX_MANIFEST_SIZE:,} bytes allowed.")
        return json.loads(self.content(MANIFEST), parse_constant=_refuse_constant)

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
        content = BytesIO(self.content(name))
        claimed, held = _declared_size(content), len(content.getbuffer()) - content.tell()
        if claimed != held:
            raise LoadError(
                f"The header of array {name} declares {claimed} bytes, but it has {held}."
            )
        content.seek(0)
        return npy.read_array(content, allow_pickle=False)

    def check_all_members_read(self) -> None:
        """Raise if the file has members that nothing refers to."""
        if self.unread:
            raise LoadError(f"The file holds members that it does not use: {sorted(self.unread)}.")

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


def _declared_size(member: IO[bytes]) -> int:
    header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    shape, _, dtype = header[npy.read_magic(member)](member)
    if dtype.kind not in PLAIN_KINDS:
        raise LoadError(f"Arrays of type {dtype} may hold code and are not read.")
    return math.prod(shape) * dtype.itemsize


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
