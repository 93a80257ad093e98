"""The tables of an MP4 or MOV file, looked at before FFmpeg builds them in memory.

Such a file is a row of boxes: a size, four letters, content. FFmpeg builds an entry of about 70
bytes for each frame that a table claims, whether or not the file has it: 8 KB can claim 12 GB. So
all boxes are walked through first, and those that are no video are hidden; among them are the
indices of fragments, which could lead FFmpeg to boxes that were not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from lpfuse_faces._limits import Limits, UnreadableVideo

HIDDEN = b"skip"  # the name of a box that readers pass over
_NEEDED = (b"ftyp", b"styp", b"moov", b"moof", b"mdat")  # of the boxes at the top
# Bytes of a header to a frame: 4 of sizes, 8 of places, 16 of times, and as much for sound.
_BYTES_A_FRAME = 64
_SMALL_HEADER = 16 << 20  # fine whatever the limit of frames is: there may be a picture of a cover
# Edit lists may show parts several times, and fragments count frames of sound as well: so many
# times the limit of frames. By hand.
_SEVERAL = 4
# FFmpeg heeds these in boxes of many kinds, so they are looked for by their letters alone.
_TABLES = re.compile(rb"stsz|stz2|trun|elst|cmov")
_HANDLERS = re.compile(rb"hdlr.{8}(.{4})", re.DOTALL)

Read = Callable[[int, int], bytes]


class _Box(NamedTuple):
    name: bytes
    at: int  # where its name stands
    start: int  # of its content
    end: int


def boxes_to_hide(
    path: Path, file: FileIO, size: int, limits: Limits, check_time: Callable[[], None]
) -> list[int]:
    """Return where the names of those boxes stand that FFmpeg shall pass over, in order.

    Parameters
    ----------
    path, file, size : Path, FileIO, int
        The video, and its size.
    limits : Limits
        Of frames, which the tables must keep to.
    check_time : callable
        Raises when reading has taken too long.
    """

    def read(at: int, n: int) -> bytes:
        file.seek(at)
        return file.read(n)

    hidden: list[int] = []
    handlers: set[bytes] = set()
    names: set[bytes] = set()
    in_fragments = 0
    for box in _boxes(read, 0, size):
        check_time()
        names.add(box.name)
        if box.name not in _NEEDED:
            hidden.append(box.at)
        elif box.name in (b"moov", b"moof"):
            header = _header(path, read, box, limits)
            hidden += _hide_sound(header, box.start, handlers)
            in_fragments += _check_tables(path, header, limits)
            _check_entries(path, in_fragments, limits)
    if b"moov" not in names:
        told = "this is no video, or one that was cut short or damaged"
        raise UnreadableVideo(path, f"{told}: an MP4 file has an index, and there is none")
    if b"vide" not in handlers:
        sound = ", only audio" if b"soun" in handlers else ""
        raise UnreadableVideo(path, f"no video stream{sound}")
    return hidden


def _boxes(read: Read, start: int, end: int) -> Iterator[_Box]:
    """Yield the boxes between two places; the walk ends, as FFmpeg's does, where a size is none."""
    while end - start >= 8:
        head = read(start, 16)
        length, before = int.from_bytes(head[:4]), 8
        if length == 1:
            length, before = int.from_bytes(head[8:]), 16
        elif length == 0:
            length = end - start
        if length < before:
            return
        stop = min(start + length, end)
        yield _Box(head[4:8], start + 4, start + before, stop)
        start = stop


def _header(path: Path, read: Read, box: _Box, limits: Limits) -> bytearray:
    length = box.end - box.start
    if length > _SMALL_HEADER:
        limits.check(path, "frames", length / _BYTES_A_FRAME, f"a header of {length:,} bytes")
    return bytearray(read(box.start, length))


def _hide_sound(header: bytearray, offset: int, handlers: set[bytes]) -> Iterator[int]:
    """Blank the tracks without pictures, and give their places in the file."""
    for box in list(_boxes(lambda at, n: bytes(header[at : at + n]), 0, len(header))):
        if box.name == b"trak":
            found = set(_HANDLERS.findall(header, box.start, box.end))
            handlers |= found
            if b"vide" not in found:
                header[box.start : box.end] = bytes(box.end - box.start)
                yield offset + box.at


def _check_tables(path: Path, header: bytearray, limits: Limits) -> int:
    """Refuse tables that claim too much; how many frames of fragments there are."""
    frames = edits = in_fragments = 0
    for match in _TABLES.finditer(header):
        # After a version and flags: elst and trun have a count, the others a size before it.
        first, second = (int.from_bytes(header[match.end() + k :][:4]) for k in (4, 8))
        if match[0] == b"cmov":
            raise UnreadableVideo(
                path, "its index is compressed. Convert it: ffmpeg -i IN -c copy OUT.mkv"
            )
        if match[0] == b"elst":
            edits += first
        elif match[0] == b"trun":
            in_fragments += first
        else:
            frames += second
    limits.check(path, "frames", frames, f"an index of {frames:,} frames")
    _check_entries(path, frames * edits, limits)
    return in_fragments


def _check_entries(path: Path, entries: int, limits: Limits) -> None:
    told = f"fragments, or edits, with {entries:,} frames"
    limits.check(path, "frames", entries / _SEVERAL, told)
