"""Frames of a video, one at a time, and videos from frames.

Memory does not grow with the length of a video. Whatever cannot be read as a video raises one
error, :class:`UnreadableVideo`, so that a batch can report it and go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._files import replacing
from lpfuse._validation.params import check_count, check_number
from lpfuse_faces._container import opened
from lpfuse_faces._extras import needed
from lpfuse_faces._limits import Limits, Stopwatch, UnreadableVideo

Image = NDArray[np.uint8]


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
        """Return the numbers of the frames to take from a video with so many."""
        if self.count is None or self.count >= n_frames:
            return iter(range(0, n_frames, self.every or 1))
        return ((2 * part + 1) * n_frames // (2 * self.count) for part in range(self.count))


EVERY_FRAME = Sampling()
DEFAULT_LIMITS = Limits()


def frames_of(
    path: Any,
    sampling: Sampling = EVERY_FRAME,
    *,
    threads: int = 1,
    limits: Limits = DEFAULT_LIMITS,
) -> Iterator[Frame]:
    """Yield the frames of a video in the order they are shown.

    Parameters
    ----------
    path : path-like
        A regular file: MP4 and MOV, Matroska and WebM, AVI, MPEG program or transport streams,
        whatever its name is.
    sampling : Sampling
        Which frames. The others are decoded, since later ones build on them, but not converted.
    threads : int
        How many threads decode.
    limits : Limits
        What the video may cost.

    Yields
    ------
    Frame
        Upright: the rotation that phones note beside the pictures is applied.

    Raises
    ------
    UnreadableVideo
        A missing or empty file, a folder or a device, something that is no video, a playlist,
        sound alone, more than the limits allow, a file that ends too early, or one that is
        damaged. Damage, and a limit that only decoding can find, can come after some frames.

    Notes
    -----
    The file is first read once without decoding, which is cheap: how many frames a header promises
    is not always how many there are, and a file that was cut short, or is too long, is found before
    any work is done on it. What a header says of its duration or rate is not used. Containers that
    promise no number of frames (Matroska, MPEG transport streams) are read up to where they end.

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
    watch = Stopwatch(path, limits.seconds)
    with opened(path, limits, watch) as (container, stream):
        n_frames = _count_of_frames(path, container, stream, limits, watch)
    with opened(path, limits, watch) as (container, stream):
        stream.codec_context.thread_count = threads
        stream.codec_context.thread_type = "AUTO"
        for frame in _chosen(path, _timed(container.decode(stream), watch), sampling.of(n_frames)):
            watch.stop()
            yield frame
            watch.start()


def _timed(decoded: Iterable[Any], watch: Stopwatch) -> Iterator[Any]:
    for frame in decoded:
        watch.check()
        yield frame


def _chosen(path: Path, decoded: Iterable[Any], wanted: Iterator[int]) -> Iterator[Frame]:
    """Yield the wanted ones of the decoded frames; only these are converted to pictures."""
    first = next_one = next(wanted)
    for index, frame in enumerate(decoded):
        if index == next_one:
            yield Frame(index, _seconds(frame), _upright(frame))
            next_one = next(wanted, -1)
            if next_one < 0:
                return
    if next_one == first:
        raise UnreadableVideo(path, "none of the frames asked for can be decoded")


def _count_of_frames(
    path: Path, container: Any, stream: Any, limits: Limits, watch: Stopwatch
) -> int:
    """How many frames will be shown, once the file has been found whole and within limits."""
    found = shown = 0
    cut = False
    first, last = inf, -inf  # in units of the stream
    for packet in container.demux(stream):
        watch.check()
        if packet.size:
            found += 1
            limits.check(path, "frames", found, "more frames")
            shown += not packet.is_discard  # trimmed away by an edit list
            cut = packet.is_corrupt  # of the last one: it ends in the middle
        if packet.pts is not None:
            first, last = min(first, packet.pts), max(last, packet.pts)
    duration = max(float((last - first) * (stream.time_base or 0)), 0) if found else 0.0
    limits.check(path, "duration", duration, f"pictures over {duration:,.1f} seconds")
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
