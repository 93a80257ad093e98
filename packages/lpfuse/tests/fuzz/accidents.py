"""What happens to files, and claims that none can keep."""

import json
import os
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from fuzz.archives import archived, sealed


def special(file):
    """What is no file of a stated size."""
    yield "a pipe", os.mkfifo
    yield "a folder", os.mkdir
    yield "zeros without end", lambda path: os.symlink("/dev/zero", path)
    yield "a link to itself", lambda path: os.symlink(path, path)
    yield "a hole of 2**40 bytes", lambda path: _hole(path, b"", 2**40)
    yield "a file, then a hole", lambda path: _hole(path, file.content, 2**33)


def damaged(file):
    """Accidents, and claims that a file cannot keep."""
    content = file.content
    for kept in np.linspace(0, len(content) - 1, 30).astype(int):
        yield f"the first {kept} bytes", lambda kept=kept: content[:kept]
    for place in np.linspace(0, len(content) - 1, 150).astype(int):
        yield f"byte {place} flipped", lambda place=place: _flipped(content, place)
    body = content[: -len(sealed(b""))]
    for place in np.linspace(0, len(body) - 1, 150).astype(int):
        yield f"byte {place} flipped and sealed", lambda p=place: sealed(_flipped(body, p))
    yield "twice", lambda: content + content
    yield "in an archive", lambda: archived({"manifest.json": content})
    yield "zeros before", lambda: b"\0" * 1000 + content
    names = sorted(file.members)
    for a in names:
        yield (
            f"{a} left out",
            lambda a=a: archived(
                {"manifest.json": json.dumps(file.manifest), **_without(file.members, a)}
            ),
        )
    for name in names[:3]:
        bomb = archived({"inner": archived({"0.npy": b"\0" * 2**24}, zipfile.ZIP_DEFLATED)})
        yield f"{name} is a bomb", lambda name=name, bomb=bomb: file.written(**{name: bomb})
        for shape in ((2**40,), (2**62, 2**62), (-1,), (2**31, 0)):
            claim = _header(shape)
            yield (
                f"{name} claims {shape}",
                lambda name=name, claim=claim: file.written(**{name: claim}),
            )
    for words, text in MANIFESTS.items():
        yield words, lambda text=text: archived({"manifest.json": text(), **file.members})
    yield (
        "all packed",
        lambda: archived(
            {"manifest.json": json.dumps(file.manifest), **file.members}, zipfile.ZIP_DEFLATED
        ),
    )
    yield (
        "packed zeros",
        lambda: archived({"manifest.json": b" " * 2**28, **file.members}, zipfile.ZIP_DEFLATED),
    )


MANIFESTS = {
    "a deep list": lambda: "[" * 200_000 + "]" * 200_000,
    "a deep object": lambda: '{"a":' * 200_000 + "1" + "}" * 200_000,
    "a long number": lambda: "9" * 2_000_000,
    "a small number": lambda: "1e-" + "9" * 2_000_000,
    "no UTF-8": lambda: b"\xff\xfe\x00",
    "NaN": lambda: "NaN",
    "many objects": lambda: json.dumps({"objects": [{"list": []}] * 200_000}),
}


def _hole(path, content, size):
    Path(path).write_bytes(content)
    os.truncate(path, size)


def _flipped(content, place):
    return content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]


def _without(members, name):
    return {key: content for key, content in members.items() if key != name}


def _header(shape):
    buffer = BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(buffer, header)
    return buffer.getvalue()
