"""Model files as the format has them: a manifest of JSON, arrays as ``.npy`` members, a digest."""

import copy
import hashlib
import json
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from lpfuse.io.safety import PLANES

LEFT_OUT = object()


class ModelFile:
    """The manifest and the members of a file, to be changed and written again."""

    def __init__(self, path):
        self.content = Path(path).read_bytes()
        with zipfile.ZipFile(path) as archive:
            self.members = {name: as_npy(archive.read(name)) for name in archive.namelist()}
        self.manifest = json.loads(self.members.pop("manifest.json"))

    def written(self, manifest=None, **members):
        """The bytes of a file with another manifest, or other members."""
        return archived(
            {
                "manifest.json": json.dumps(self.manifest if manifest is None else manifest),
                **self.members,
                **members,
            }
        )

    def places(self):
        """Where values stand in the manifest: keys that lead to each leaf, and to each list."""
        return list(_places(self.manifest["objects"], ("objects",)))

    def at(self, place):
        found = self.manifest
        for key in place:
            found = found[key]
        return found

    def replaced(self, *changes):
        """A manifest with other values at some places."""
        manifest = copy.deepcopy(self.manifest)
        for place, value in changes:
            *way, last = place
            inner = manifest
            for key in way:
                inner = inner[key]
            if value is LEFT_OUT:
                del inner[last]
            else:
                inner[last] = value
        return manifest


def archived(members, compression=zipfile.ZIP_STORED):
    """A zip archive as `lpfuse.io` writes it."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return sealed(buffer.getvalue())


def sealed(content):
    """With the digest that a file ends with, and no signature."""
    seal = f"\nsha256 {hashlib.sha256(content).hexdigest()}\nhmac-sha256 {'-' * 64}\n"
    return content + seal.encode()


def _places(value, place):
    if isinstance(value, dict | list) and place != ("objects",):
        yield place
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(inner, (*place, key))
    else:
        yield place


def as_npy(content):
    """A member that holds an array by planes as ``.npy``, which is read alike."""
    if not content.startswith(PLANES):
        return content
    facts, _, planes = content[len(PLANES) :].partition(b"\n")
    dtype, by_column, shape = json.loads(facts)
    numbers = np.frombuffer(planes, np.uint8).reshape(np.dtype(dtype).itemsize, -1).T
    array = np.ascontiguousarray(numbers).view(dtype).reshape(shape[::-1]).T
    return npy_of(array if by_column else np.ascontiguousarray(array))


def npy_of(array):
    """An array as a member."""
    buffer = BytesIO()
    npy.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()
