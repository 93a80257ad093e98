"""Which of the faces of a frame is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse._validation.params import check_choice
from lpfuse_faces._detection.boxes import areas, overlaps

if TYPE_CHECKING:
    from lpfuse_faces._detection.mtcnn import Faces


class Face(NamedTuple):
    """One face: box (x1, y1, x2, y2), score, and landmarks (5, 2) in the order of MTCNN's."""

    box: NDArray[np.float32]
    score: float
    landmarks: NDArray[np.float32]


SAME_FACE = 0.3
"""Boxes that overlap more (intersection over union) are one face in two frames. By hand."""

PATIENCE = 10
"""So many frames in a row may miss the face before another one is taken. By hand."""


class FaceChooser:
    """One face a frame, over the frames of one video.

    Parameters
    ----------
    how : {"largest", "tracked"}
        ``"largest"`` takes the largest box of every frame. ``"tracked"`` starts with the largest
        one and stays with that person: it takes the box that overlaps the last chosen most, and
        none where no box overlaps it by more than 0.3 (intersection over union). After ten frames
        in a row without it, the track starts again at the largest box.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse_faces._detection.mtcnn import Faces
    >>> from lpfuse_faces._detection.tracking import FaceChooser
    >>> def faces(*boxes):
    ...     n = len(boxes)
    ...     return Faces(np.float32(boxes), np.ones(n, "f"), np.zeros((n, 5, 2), "f"))
    >>> chooser = FaceChooser("tracked")
    >>> chooser(faces([0, 0, 50, 50], [60, 0, 100, 40])).box.tolist()
    [0.0, 0.0, 50.0, 50.0]
    >>> chooser(faces([2, 0, 50, 50], [50, 0, 110, 60])).box.tolist()
    [2.0, 0.0, 50.0, 50.0]
    """

    def __init__(self, how: str = "tracked") -> None:
        check_choice("how", how, ["largest", "tracked"])
        self.how = how
        self._last: NDArray[np.float32] | None = None
        self._missed = 0

    def __call__(self, faces: Faces) -> Face | None:
        """Return the chosen face of the next frame; None where there is none."""
        chosen = self._choice(faces.boxes)
        if chosen is None:
            self._missed += 1
            return None
        self._last, self._missed = faces.boxes[chosen], 0
        return Face(faces.boxes[chosen], float(faces.scores[chosen]), faces.landmarks[chosen])

    def _choice(self, boxes: NDArray[np.float32]) -> int | None:
        if not len(boxes):
            return None
        if self.how == "largest" or self._last is None or self._missed >= PATIENCE:
            return int(np.argmax(areas(boxes)))
        overlap = overlaps(boxes, self._last[None])[:, 0]
        best = int(np.argmax(overlap))
        return best if overlap[best] > SAME_FACE else None
