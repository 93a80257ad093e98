"""Model files by hand: what `save` would never write, with the digest that anybody can compute."""

import hashlib
import json
import zipfile
from io import BytesIO

import numpy as np

from lpfuse.io.writing import Encoder


def members_of(content):
    """Name and content of all members."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members, **how):
    """A file of these members."""
    with zipfile.ZipFile(path, "w", **how) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    seal(path)


def seal(path):
    """The digest at the end."""
    body = path.read_bytes()
    digest = hashlib.sha256(body).hexdigest()
    path.write_bytes(body + f"\nsha256 {digest}\nhmac-sha256 {'-' * 64}\n".encode())


def write_manifest(path, described, members=None, **fields):
    """A file of these objects, the last of which is the root."""
    manifest = {
        "format": "lpfuse",
        "version": 4,
        "lpfuse": "0.1.0",
        "root": [len(described) - 1],
        "objects": described,
        **fields,
    }
    write_members(path, {"manifest.json": json.dumps(manifest), **(members or {})})


def forge(estimator, path):
    """Write an estimator as it is, without the look at it that `save` takes."""
    import sklearn

    encoder = Encoder()
    root = encoder.value(estimator, "")
    members = {
        name: npy(content) if isinstance(content, np.ndarray) else content
        for name, content in encoder.members.items()
    }
    version = {"scikit-learn": sklearn.__version__}
    write_manifest(path, encoder.objects, members, root=root, **version)


def npy(array, **how):
    """An array as a member."""
    buffer = BytesIO()
    np.save(buffer, array, **how)
    return buffer.getvalue()
