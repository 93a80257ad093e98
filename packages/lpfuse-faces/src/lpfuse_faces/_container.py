"""A video opened so that FFmpeg sees one file, in one of few formats, and nothing else.

Playlists, scripts and manifests name other files, or addresses. Here FFmpeg is given no name at
all, only bytes, and which of its readers gets them is decided by the first of them; whatever that
reader would open besides is refused.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

from lpfuse_faces._extras import needed
from lpfuse_faces._limits import Limits, Stopwatch, UnreadableVideo, how_to_raise
from lpfuse_faces._mp4 import HIDDEN, boxes_to_hide
from lpfuse_faces._regular_file import open_regular

CONTAINERS = {  # FFmpeg's name → ours
    "mov": "MP4 and MOV",
    "matroska": "Matroska and WebM",
    "avi": "AVI",
    "mpeg": "MPEG program streams",
    "mpegts": "MPEG transport streams",
}
# What cameras, phones and archives write. FFmpeg has some two hundred decoders more, few of which
# are looked after as well.
CODECS = {
    *("h264", "hevc", "av1", "vp8", "vp9", "mpeg1video", "mpeg2video", "mpeg4", "h263", "mjpeg"),
    *("msmpeg4v2", "msmpeg4v3", "prores", "dnxhd", "dvvideo"),
    *("ffv1", "ffvhuff", "huffyuv", "utvideo", "rawvideo"),
}
# How files begin that name others; for the sentence alone: none of them is read in any case.
_PLAYLISTS = (
    *(b"#EXTM3U", b"#EXTINF", b"ffconcat", b"file ", b"<?xml", b"<MPD", b"<smil", b"v=0"),
    *(b"[playlist]", b"[Reference]", b"<ASX", b"<asx"),
)
_MP4_STARTS = (b"ftyp", b"styp", b"moov", b"mdat", b"moof", b"free", b"skip", b"wide", b"pnot")
# Here streams may appear in the middle of the file, and PyAV (up to 18 at least) then reads beyond
# an array of a byte a stream (its issue 692). No allocator hands out fewer than 16 bytes, so it
# stays within them.
_LATE_STREAMS, _MOST_STREAMS = ("mpeg", "mpegts"), 16
_HEAD = 2048  # bytes that tell the format: five packets of a transport stream
# Of a piece that FFmpeg asks for. Its own is 32 KB; each costs a call of Python. By hand.
_PIECE = 1 << 17


@contextmanager
def opened(path: Path, limits: Limits, watch: Stopwatch) -> Iterator[tuple[Any, Any]]:
    """Provide the container and its video stream; FFmpeg's complaints become ours.

    Parameters
    ----------
    path : Path
        The video.
    limits : Limits
        What it may cost. Those of pictures are handed to the decoder.
    watch : Stopwatch
        Time that reading it has taken.
    """
    av = needed("av", "Reading videos")
    with opened_file(path, limits) as (file, size):
        kind = _container_of(path, file.read(_HEAD))
        hidden = boxes_to_hide(path, file, size, limits, watch.check) if kind == "mov" else []
        try:
            container = _open(av, path, _Bytes(file, size, hidden, watch), kind)
        except av.FFmpegError as error:
            told = "this is no video, or one that was cut short or damaged"
            raise UnreadableVideo(path, f"{told} ({_words(error)})") from error
        with container:
            if kind in _LATE_STREAMS and len(container.streams) >= _MOST_STREAMS:
                raise UnreadableVideo(
                    path,
                    f"it has {_MOST_STREAMS} streams or more, and of {CONTAINERS[kind]} those with "
                    "fewer are read. Take the video alone: ffmpeg -i IN -map 0:v:0 -c copy OUT.mkv",
                )
            try:
                yield container, _video_stream(path, container, av, limits)
            # IndexError: PyAV's, of streams that appear in the middle.
            except (av.FFmpegError, IndexError) as error:
                raise UnreadableVideo(
                    path,
                    f"the video is damaged ({_words(error)}), or one of its pictures has more than "
                    f"{limits.pixels:,} pixels, the limit: {how_to_raise('pixels')}",
                ) from error


def _open(av: Any, path: Path, source: _Bytes, kind: str) -> Any:
    """FFmpeg's reader of this kind of container. No decoder runs before the sizes are known."""

    def open_nothing(url: str, flags: int, options: Any) -> Any:
        raise UnreadableVideo(path, "it names other files, and such files are not followed")

    options = {"format_whitelist": kind, "protocol_whitelist": "none", "codec_whitelist": "none"}
    if kind == "avi":
        options["use_odml"] = "0"  # indices of indices, which multiply without end
    if kind in _LATE_STREAMS:
        options["max_streams"] = str(_MOST_STREAMS)
    return av.open(
        source,
        format=kind,
        options=options,
        io_open=open_nothing,
        buffer_size=_PIECE,
        metadata_errors="replace",
    )


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


@contextmanager
def opened_file(path: Path, limits: Limits) -> Iterator[tuple[FileIO, int]]:
    """Provide the file of a video, and its size: a regular file, not empty, and not too large."""
    try:
        file = open_regular(path)
    except OSError as error:
        raise UnreadableVideo(path, str(error)) from error
    with file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise UnreadableVideo(path, "the file is empty")
        limits.check(path, "bytes", size, f"{size:,} bytes")
        try:
            yield file, size
        except OSError as error:
            raise UnreadableVideo(path, f"the file cannot be read ({error.strerror})") from error


def _container_of(path: Path, head: bytes) -> str:
    """FFmpeg's name of the format, by how the file begins: names of files tell nothing."""
    if head[4:8] in _MP4_STARTS:
        return "mov"
    if head.startswith(b"\x1a\x45\xdf\xa3"):
        return "matroska"
    if head.startswith(b"RIFF") and head[8:12] == b"AVI ":
        return "avi"
    if head.startswith(b"\x00\x00\x01\xba"):
        return "mpeg"
    if _has_packets(head):
        return "mpegts"
    known = ", ".join(CONTAINERS.values())
    start = head.lstrip(b"\xef\xbb\xbf \r\n\t")
    if start.startswith(_PLAYLISTS):
        raise UnreadableVideo(
            path,
            "this is a playlist, or a text that names videos: such files are not followed. Name "
            f"the videos themselves ({known})",
        )
    raise UnreadableVideo(
        path,
        f"this is no video, or one that was cut short or damaged: {known} are read, and it begins "
        "like none of them. Others can be converted: ffmpeg -i IN -c copy OUT.mkv",
    )


def _has_packets(head: bytes) -> bool:
    """Whether five packets of a transport stream follow each other, from wherever it was cut."""
    return any(
        head[start::length][:5] == b"GGGGG" for length in (188, 192, 204) for start in range(length)
    )


def _video_stream(path: Path, container: Any, av: Any, limits: Limits) -> Any:
    cover = av.stream.Disposition.attached_pic  # the picture of a song's cover is no video
    for stream in container.streams.video:
        if not stream.disposition & cover:
            return _decodable(path, stream, limits)
    only_sound = len(container.streams.audio) > 0
    raise UnreadableVideo(path, "no video stream, only audio" if only_sound else "no video stream")


def _decodable(path: Path, stream: Any, limits: Limits) -> Any:
    """Return the stream, if its decoder is one of ours and what is claimed keeps to the limits."""
    context = stream.codec_context
    if context is None:
        raise UnreadableVideo(path, "the video is coded in a way that FFmpeg does not know")
    if context.codec.canonical_name not in CODECS:
        raise UnreadableVideo(
            path,
            f"the video is coded as {context.codec.canonical_name}, which is not decoded here. "
            "Convert it without loss: ffmpeg -i IN -c:v ffv1 OUT.mkv",
        )
    told = f"pictures of {context.width:,} × {context.height:,} pixels"
    limits.check(path, "pixels", context.width * context.height, told)
    # Of pictures that grow later. And strict: an H.264 stream that does not say how far its
    # pictures are out of order is put in order with all the delay that there can be.
    context.options = {"max_pixels": str(limits.pixels), "strict": "1"}
    return stream


class _Bytes:
    """What FFmpeg reads from: a file as long as it was when it was opened, some boxes hidden."""

    def __init__(self, file: FileIO, size: int, hidden: Sequence[int], watch: Stopwatch) -> None:
        self._file, self._size, self._hidden, self._watch = file, size, hidden, watch
        self._at = file.seek(0)

    def read(self, n: int) -> bytes:
        """Return the next bytes, fewer at the end; raises when reading has taken too long."""
        self._watch.check()
        start = self._at
        piece = self._file.read(max(min(n, self._size - start), 0))
        self._at += len(piece)
        first = bisect_left(self._hidden, start - len(HIDDEN) + 1)
        if first < len(self._hidden) and self._hidden[first] < self._at:
            piece = self._with_hidden(piece, start, first)
        return piece

    def _with_hidden(self, piece: bytes, start: int, first: int) -> bytes:
        changed = bytearray(piece)
        for at in self._hidden[first:]:
            if at >= start + len(piece):
                break
            for k, letter in enumerate(HIDDEN, at - start):
                if 0 <= k < len(changed):
                    changed[k] = letter
        return bytes(changed)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go somewhere; the end is that of the stated size."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = self._file.seek(base + offset)
        return self._at

    def tell(self) -> int:
        """Return where it is."""
        return self._at
