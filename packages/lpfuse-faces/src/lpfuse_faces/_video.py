"""Frames of a video, one at a time, and videos from frames.

Memory does not grow with the length of a video. Whatever cannot be read as a video raises one
error, :class:`UnreadableVideo`, so that a batch can report it and go on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._checks.arguments import check_count, check_number
from lpfuse._files import replacing
from lpfuse_faces._extras import needed

Image = NDArray[np.uint8]


class UnreadableVideo(ValueError):
    """A file that cannot be read as a video, and why.

    Examples
    --------
    >>> from lpfuse_faces._video import UnreadableVideo
    >>> str(UnreadableVideo("talks/clip.mp4", "the file is empty"))
    'clip.mp4: the file is empty'
    """

    def __init__(self, path: Any, reason: str) -> None:
        super().__init__(path, reason)  # as it came, so that copies and pickles can be made
        self.path = Path(path)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path.name}: {self.reason}"


class Frame(NamedTuple):
    """A picture of a video: its number from 0, its time in seconds, RGB of shape (H, W, 3)."""

    index: int  # type: ignore[assignment]  # tuples have a method of that name
    time: float
    image: Image


@dataclass(frozen=True)
class Sampling:
    """Which frames of a video are looked at: by default all of them.

    Parameters
    ----------
    every : int, optional
        One frame in so many, from the first one on: 5 takes the frames 0, 5, 10, …
    count : int, optional
        So many frames: a video is cut into as many parts of equal length, and the middle frame of
        each is taken. A video with fewer frames gives all it has.

    Examples
    --------
    >>> from lpfuse_faces._video import Sampling
    >>> list(Sampling(every=4).of(10)), list(Sampling(count=3).of(10))
    ([0, 4, 8], [1, 5, 8])
    """

    every: int | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        if self.every is not None and self.count is not None:
            raise ValueError(
                f"Either every or count may be given, got every={self.every!r} and "
                f"count={self.count!r}. Leave one of them out."
            )
        for name in ("every", "count"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))

    def of(self, n_frames: int) -> Iterator[int]:
        """The numbers of the frames to take from a video with so many."""
        if self.count is None or self.count >= n_frames:
            return iter(range(0, n_frames, self.every or 1))
        return ((2 * part + 1) * n_frames // (2 * self.count) for part in range(self.count))


EVERY_FRAME = Sampling()


def frames_of(path: Any, sampling: Sampling = EVERY_FRAME, *, threads: int = 1) -> Iterator[Frame]:
    """The frames of a video in the order they are shown.

    Parameters
    ----------
    path : path-like
        A file that FFmpeg reads: mp4, mkv, avi, webm and others.
    sampling : Sampling
        Which frames. The others are decoded, since later ones build on them, but not converted.
    threads : int
        How many threads decode.

    Yields
    ------
    Frame
        Upright: the rotation that phones note beside the pictures is applied.

    Raises
    ------
    UnreadableVideo
        A missing or empty file, a folder, something that is no video, sound alone, a file that
        ends too early, or one that is damaged: the last, unlike the others, can come after some
        frames.

    Notes
    -----
    The file is first read once without decoding, which is cheap: how many frames a header promises
    is not always how many there are, and a file that was cut short is found before any work is
    done on it. Containers that promise nothing (Matroska, MPEG transport streams) are read up to
    where they end.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from lpfuse_faces._video import Sampling, frames_of, write_video
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clip = Path(folder, "clip.mp4")
    ...     write_video(clip, np.full((10, 32, 48, 3), 128, np.uint8), fps=25)
    ...     for frame in frames_of(clip, Sampling(every=4)):
    ...         print(frame.index, frame.time, frame.image.shape)
    0 0.0 (32, 48, 3)
    4 0.16 (32, 48, 3)
    8 0.32 (32, 48, 3)
    """
    path = Path(path)
    check_count("threads", threads)
    _refuse_what_is_no_file(path)
    with _opened(path) as (container, stream):
        n_frames = _count_of_frames(path, container, stream)
    with _opened(path) as (container, stream):
        stream.codec_context.thread_count = threads
        stream.codec_context.thread_type = "AUTO"
        yield from _chosen(path, container.decode(stream), sampling.of(n_frames))


def _chosen(path: Path, decoded: Iterable[Any], wanted: Iterator[int]) -> Iterator[Frame]:
    """The wanted ones of the decoded frames; only these are converted to pictures."""
    first = next_one = next(wanted)
    for index, frame in enumerate(decoded):
        if index == next_one:
            yield Frame(index, _seconds(frame), _upright(frame))
            next_one = next(wanted, -1)
            if next_one < 0:
                return
    if next_one == first:
        raise UnreadableVideo(path, "none of the frames asked for can be decoded")


def _refuse_what_is_no_file(path: Path) -> None:
    if os.path.isdir(path):
        raise UnreadableVideo(path, "this is a folder")
    if not os.path.isfile(path):  # which, unlike Path.is_file, never raises
        raise UnreadableVideo(path, "there is no such file")
    if path.stat().st_size == 0:
        raise UnreadableVideo(path, "the file is empty")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """The container and its video stream; FFmpeg's complaints become ours."""
    av = needed("av", "Reading videos")
    try:
        # What is inside a file, such as a playlist, may not make us fetch anything from a network;
        # and a colon in a name is no protocol.
        container = av.open(f"file:{path}", options={"protocol_whitelist": "file"})
    except (av.FFmpegError, UnicodeError) as error:
        told = "this is no video, or one that was cut short or damaged"
        raise UnreadableVideo(path, f"{told} ({_words(error)})") from error
    with container:
        try:
            yield container, _video_stream(path, container, av)
        except av.FFmpegError as error:
            raise UnreadableVideo(path, f"the video is damaged ({_words(error)})") from error


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _video_stream(path: Path, container: Any, av: Any) -> Any:
    cover = av.stream.Disposition.attached_pic  # the picture of a song's cover is no video
    for stream in container.streams.video:
        if not stream.disposition & cover:
            if stream.codec_context is None:
                raise UnreadableVideo(path, "the video is coded in a way that FFmpeg does not know")
            return stream
    only_sound = len(container.streams.audio) > 0
    raise UnreadableVideo(path, "no video stream, only audio" if only_sound else "no video stream")


def _count_of_frames(path: Path, container: Any, stream: Any) -> int:
    """How many frames will be shown, once the file has been found whole."""
    found = shown = 0
    cut = False
    for packet in container.demux(stream):
        if packet.size:
            found += 1
            shown += not packet.is_discard  # trimmed away by an edit list
            cut = packet.is_corrupt  # of the last one: it ends in the middle
    promised = stream.frames
    if cut or found < promised:
        whole = f"frame {found} of {promised}" if promised else f"frame {found}"
        raise UnreadableVideo(path, f"the file is cut short: it ends at {whole}")
    if not shown:
        raise UnreadableVideo(path, "the video stream has no frames")
    return shown


def _seconds(frame: Any) -> float:
    return 0.0 if frame.time is None else float(frame.time)


def _upright(frame: Any) -> Image:
    image = frame.to_ndarray(format="rgb24")
    quarters = round(frame.rotation / 90) % 4
    return np.ascontiguousarray(np.rot90(image, quarters)) if quarters else image


def write_video(path: Any, images: Iterable[Any], *, fps: int = 25, crf: float = 23) -> None:
    """Write pictures as H.264 in an mp4 file.

    Parameters
    ----------
    path : path-like
        The file, which appears when it is whole.
    images : iterable of ndarray of shape (H, W, 3), uint8
        RGB, all of one size, with an even height and width: colours are stored at half resolution
        (yuv420p). One at a time is held.
    fps : int
        Frames a second.
    crf : float in [0, 51]
        Constant rate factor of x264: 0 loses next to nothing, 23 is its default, 40 is poor.

    Notes
    -----
    The same pictures give the same bytes at sides of 128, 160, 256 and 320, but not at all: at 64,
    80, 96, 192 and 224 x264's own assembly chose between a few files, all but alike.

    Examples
    --------
    See :func:`frames_of`.
    """
    av = needed("av", "Writing videos")
    check_count("fps", fps)
    check_number("crf", crf, at_least=0, at_most=51)
    remaining = iter(images)
    first = next(remaining, None)
    if first is None:
        raise ValueError("images must hold at least one picture, got none.")
    height, width = _size_of(first)
    with replacing(path) as file, av.open(file, "w", format="mp4") as container:
        # One thread: how many there are changes what x264 writes.
        stream = container.add_stream("libx264", rate=fps, options={"crf": f"{crf:g}"})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.thread_count = 1
        for image in chain([first], remaining):
            if _size_of(image) != (height, width):
                raise ValueError(
                    f"All pictures of a video must have one size, got {(height, width)} and then "
                    f"{_size_of(image)}. Crop or resize them."
                )
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def _size_of(image: Any) -> tuple[int, int]:
    """Height and width, both even."""
    found = np.asarray(image)
    if found.dtype != np.uint8 or found.ndim != 3 or found.shape[2] != 3:
        raise ValueError(
            f"Pictures must be uint8 of shape (H, W, 3), got {found.dtype} of shape {found.shape}."
        )
    height, width = found.shape[:2]
    if height % 2 or width % 2 or not height * width:
        raise ValueError(
            f"Pictures must have an even height and width, got {height} x {width}. "
            "Crop them by a pixel."
        )
    return height, width
