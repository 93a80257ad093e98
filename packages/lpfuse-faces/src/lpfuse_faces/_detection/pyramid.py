"""Every size of a picture side by side on one canvas, so that one run of a network sees them all.

The network that proposes faces (P-Net) looks at windows of 12 x 12 pixels, one every 2 pixels. A
face of any size fills such a window at one of the levels of a pyramid of ever smaller copies. The
levels have even sides and stand at even places, so that the network's pooling falls on the same
pixels as it would in a level of its own, and each window that lies within a level gives the very
same answer.

Pictures are held with x as their first axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse_faces._extras import needed

# Of P-Net itself: what it looks at, and how far its pooling moves it on.
WINDOW = 12
STEP = 2


class Level(NamedTuple):
    """A copy of the picture: its corner on the canvas, and its size."""

    x: int
    y: int
    width: int
    height: int

    @property
    def windows(self) -> tuple[slice, slice]:
        """Where the network's answers for the windows within this level are."""
        return (
            slice(self.x // STEP, (self.x + self.width - WINDOW) // STEP + 1),
            slice(self.y // STEP, (self.y + self.height - WINDOW) // STEP + 1),
        )


class Canvas(NamedTuple):
    """Where each level of the pyramid goes, and how large the whole becomes."""

    width: int
    height: int
    levels: tuple[Level, ...]


@lru_cache(maxsize=64)
def canvas_of(width: int, height: int, min_face: float, factor: float) -> Canvas:
    """Return the canvas for pictures of a size.

    Parameters
    ----------
    width, height : int
        Of the picture.
    min_face : float
        The face that fills a window of the largest level.
    factor : float
        Each level is so much smaller than the one before.

    Returns
    -------
    Canvas
        Without levels where the picture is smaller than a face.

    Examples
    --------
    >>> from lpfuse_faces._detection.pyramid import canvas_of
    >>> canvas = canvas_of(width=100, height=100, min_face=40, factor=0.709)
    >>> canvas.width, canvas.height
    (68, 30)
    >>> [tuple(level) for level in canvas.levels]
    [(0, 0, 30, 30), (30, 0, 22, 22), (52, 0, 16, 16)]
    """
    sizes = list(_sizes(width, height, min_face, factor))
    if not sizes:
        return Canvas(0, 0, ())
    tall = sizes[0][1]
    # Each level takes the corner of the smallest free rectangle with room for it, and leaves what
    # is to its right and what is below. The first rectangle is as long as it may take.
    free = [Level(0, 0, sum(w for w, _ in sizes), tall)]
    levels = []
    for w, h in sizes:
        room = min((r for r in free if w <= r.width and h <= r.height), key=_area)
        free.remove(room)
        free.append(Level(room.x + w, room.y, room.width - w, room.height))
        free.append(Level(room.x, room.y + h, w, room.height - h))
        levels.append(Level(room.x, room.y, w, h))
    return Canvas(max(level.x + level.width for level in levels), tall, tuple(levels))


def _area(rectangle: Level) -> int:
    return rectangle.width * rectangle.height


def _sizes(width: int, height: int, min_face: float, factor: float) -> Iterator[tuple[int, int]]:
    for level in count():
        scale = WINDOW / min_face * factor**level
        w, h = STEP * round(width * scale / STEP), STEP * round(height * scale / STEP)
        if min(w, h) < WINDOW:
            return
        yield w, h


def painted(picture: Any, canvas: Canvas) -> NDArray[np.uint8]:
    """Return the picture at every level, on its canvas, of shape (width, height, 3).

    A level is an average over areas. It is taken from a picture that was halved as often as leaves
    it at least three times as large: halving is fast, and means of means are means.
    """
    cv2 = needed("cv2", "Detecting faces")
    result = np.zeros((canvas.width, canvas.height, 3), dtype=np.uint8)
    for x, y, w, h in canvas.levels:
        while picture.shape[0] >= 6 * w and picture.shape[1] >= 6 * h:
            half = picture.shape[1] // 2, picture.shape[0] // 2  # OpenCV takes columns first
            picture = cv2.resize(picture, half, interpolation=cv2.INTER_AREA)
        result[x : x + w, y : y + h] = cv2.resize(picture, (h, w), interpolation=cv2.INTER_AREA)
    return result


def boxes_of_windows(
    at: NDArray[np.intp], level: Level, width: int, height: int
) -> NDArray[np.float32]:
    """Return the boxes in the picture that windows of a level look at.

    Parameters
    ----------
    at : ndarray of shape (k, 2)
        Their numbers along x and y, within the level.
    level : Level
        The level.
    width, height : int
        Of the picture.

    Returns
    -------
    ndarray of shape (k, 4)

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse_faces._detection.pyramid import Level, boxes_of_windows
    >>> boxes_of_windows(np.array([[0, 0], [3, 1]]), Level(0, 0, 48, 24), 160, 80).tolist()
    [[0.0, 0.0, 40.0, 40.0], [20.0, 6.666666507720947, 60.0, 46.66666793823242]]
    """
    ratios = width / level.width, height / level.height
    return (np.hstack([STEP * at, STEP * at + WINDOW]) * np.tile(ratios, 2)).astype(np.float32)
