"""How much one video may cost, and the one error for those that cannot be read.

A video is data from somebody else: a few kilobytes can claim pictures of a gigabyte, or forty
million frames. Whatever is read is read within these limits.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from lpfuse._format import plain
from lpfuse._validation.params import check_choice, check_count, check_number


class UnreadableVideo(ValueError):
    """A file that cannot be read as a video, and why.

    Examples
    --------
    >>> from lpfuse_faces import UnreadableVideo
    >>> str(UnreadableVideo("talks/clip.mp4", "the file is empty"))
    'clip.mp4: the file is empty'
    """

    def __init__(self, path: Any, reason: str) -> None:
        super().__init__(path, reason)  # as it came, so that copies and pickles can be made
        self.path = Path(path)
        self.reason = reason

    def __str__(self) -> str:
        return f"{plain(self.path.name)}: {self.reason}"


@dataclass(frozen=True)
class Limits:
    """What one video may cost. All are chosen by hand, well above what collections of faces hold.

    Parameters
    ----------
    pixels : int, default=9,437,184
        Of a picture: 4096 × 2304, so all that is sold as 4K. For 8K: 33,177,600. The decoder keeps
        up to 17 pictures of 1.5 bytes a pixel (3 at 10 bits), and a batch holds 16 of 3 bytes.
    frames : int, default=1,000,000
        Nine hours at 30 frames a second. Tables of frames take about 70 bytes each.
    duration : float, default=43,200
        Seconds between the first and the last picture: twelve hours.
    seconds : float, default=3,600
        Time that reading and decoding may take, without what is done with the pictures: an hour
        of 4K on one core.
    bytes : int, default=68,719,476,736
        Size of the file, 64 GiB: an hour and a half of the film industry's formats in 4K. Files are
        read whole for their SHA-256 before they are decoded.

    Examples
    --------
    >>> from lpfuse_faces._limits import Limits
    >>> eight_k = Limits(pixels=7680 * 4320)
    """

    pixels: int = 4096 * 2304
    frames: int = 1_000_000
    duration: float = 12 * 3600
    seconds: float = 3600
    bytes: int = 64 << 30

    def __post_init__(self) -> None:
        for name in ("pixels", "frames", "bytes"):
            check_count(name, getattr(self, name))
        for name in ("duration", "seconds"):
            check_number(name, getattr(self, name), above=0)

    @classmethod
    def of(cls, given: Iterable[str]) -> Self:
        """Limits from words such as ``pixels=33177600``; the others have their defaults.

        Examples
        --------
        >>> from lpfuse_faces import Limits
        >>> Limits.of(["frames=50", "seconds=1.5"]) == Limits(frames=50, seconds=1.5)
        True
        """
        found: dict[str, Any] = asdict(cls())
        kinds = {field.name: float if "float" in str(field.type) else int for field in fields(cls)}
        for text in given:
            name, _, value = text.partition("=")
            check_choice("The name of a limit", name, tuple(kinds))
            try:
                found[name] = kinds[name](value)
            except ValueError as error:
                raise ValueError(
                    f"A limit is a number, such as {name}={found[name]}; got {text!r}."
                ) from error
        return cls(**found)

    def check(self, path: Path, name: str, came: float, what: str) -> None:
        """Refuse a video of which `came` is more than the limit of that name.

        Parameters
        ----------
        path : Path
            The video.
        name : str
            Of the limit.
        came : float
            What the video has.
        what : str
            Says what it has, as in "pictures of 12,000 × 12,000 pixels".
        """
        most = getattr(self, name)
        if came > most:
            raise UnreadableVideo(
                path,
                f"it has {what}, and at most {most:,} {_UNITS[name]} are read. If that is what it "
                f"should have, raise the limit: {how_to_raise(name)}",
            )


_UNITS = {
    "pixels": "pixels",
    "frames": "frames",
    "duration": "seconds",
    "bytes": "bytes",
}


def how_to_raise(name: str) -> str:
    """Return what to write for a limit: in quotes, so that the command line leaves it as it is."""
    return f"'Limits({name}=...)', or '--limit {name}=...' on the command line"


class Stopwatch:
    """The time that goes into reading one video; it stands while others use what was read."""

    def __init__(self, path: Path, seconds: float) -> None:
        self._path, self._most = path, seconds
        self._left = seconds
        self._since = time.monotonic()

    def stop(self) -> None:
        """Until `start`, time does not count."""
        self._left -= time.monotonic() - self._since

    def start(self) -> None:
        """Time counts again."""
        self._since = time.monotonic()

    def check(self) -> None:
        """Refuse a video that has taken too long."""
        if time.monotonic() - self._since > self._left:
            raise UnreadableVideo(
                self._path,
                f"reading it has taken more than {self._most:g} seconds, and was given up. If "
                f"it is as long as that, raise the limit: {how_to_raise('seconds')}",
            )
