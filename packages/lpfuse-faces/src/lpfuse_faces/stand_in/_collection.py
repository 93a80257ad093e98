"""The clips of the stand-in data set: written to a folder, with a list of what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.random import SeedSequence, default_rng
from numpy.typing import NDArray

from lpfuse._validation.params import check_choice, check_count, check_number
from lpfuse_faces._video import write_video
from lpfuse_faces.clips import CLIPS_CSV, Clip, write_clips
from lpfuse_faces.stand_in._filming import FPS, Take
from lpfuse_faces.stand_in._manipulations import CONTROL, FAMILIES, forged
from lpfuse_faces.stand_in._photographs import PHOTOGRAPHS

GENUINE = "genuine"


def make_stand_in(
    folder: str | Path,
    *,
    qualities: Sequence[int] = (23, 40),
    kinds: Sequence[str] = tuple(FAMILIES),
    clips_per_face: int = 4,
    frames: int = 24,
    size: int = 256,
    test_face: str = "hopper",
    seed: int = 0,
    n_jobs: int | None = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Clip]:
    """Write the stand-in data set, and a ``clips.csv`` for :func:`lpfuse_faces.clips.read_clips`.

    For each face (photograph) there are `clips_per_face` genuine clips, and each of these once more
    in every kind of forgery. A forged clip differs from its genuine twin by the manipulation alone:
    same scene, same noise, same encoder.

    Parameters
    ----------
    folder : path
        Where to write: ``c23/genuine/astronaut-00.mp4``, ``c23/resampled/astronaut-00.mp4``, ...
    qualities : sequence of int, default=(23, 40)
        Constant rate factors of H.264.
    kinds : sequence of str
        Families of forgery; by default "resampled", "blended", "smoothed", "up-convolved" and
        "warped". "untouched" is a control: forged by name only.
    clips_per_face, frames : int, default=4, 24
        How many genuine clips of each face, and their length; a second has 25 frames.
    size : int, default=256
        Height and width of the frames, an even number. Faces are about 100 pixels wide whatever it
        is.
    test_face : str, default="hopper"
        Whose clips have the split "test": "astronaut", "camera" or "hopper". Those of the others
        have "train".
    seed : int, default=0
        A clip depends on this, `frames`, `size` and its name, whatever else is made.
    n_jobs : int, default=1
        How many clips are made at once, in threads; −1 is one on each core.
    progress : callable, optional
        Called as ``progress(done, total)``, in clips of one quality.

    Returns
    -------
    list of Clip
        What `clips.csv` holds.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from lpfuse_faces.stand_in import make_stand_in
    >>> with TemporaryDirectory() as folder:
    ...     clips = make_stand_in(
    ...         folder, qualities=[23], kinds=["smoothed"], clips_per_face=1, frames=2, size=64
    ...     )
    >>> [(clip.kind, clip.identities, clip.split) for clip in clips[:2]]
    [(None, ('astronaut',), 'train'), ('smoothed', ('astronaut',), 'train')]
    """
    _check(qualities, kinds, clips_per_face, frames, size, test_face)
    folder = Path(folder)
    numbers = range(clips_per_face)
    scenes = [
        Scene(face, number, kind, seed)
        for face, number, kind in product(PHOTOGRAPHS, numbers, (GENUINE, *kinds))
    ]

    def film(scene: Scene) -> None:
        images = list(scene.frames(frames, size))
        for quality in qualities:
            path = folder / scene.place(quality)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_video(path, images, fps=FPS, crf=quality)

    parallel = Parallel(n_jobs, require="sharedmem", return_as="generator", batch_size=1)
    for done, _ in enumerate(parallel(map(delayed(film), scenes)), start=1):
        if progress is not None:
            progress(done, len(scenes))
    clips = [scene.clip(folder, quality, test_face) for quality in qualities for scene in scenes]
    write_clips(folder / CLIPS_CSV, clips)
    return clips


@dataclass(frozen=True)
class Scene:
    """What a clip shows: its frames are a function of these four."""

    face: str
    number: int
    kind: str
    seed: int

    def frames(self, count: int, size: int) -> Iterator[NDArray[np.uint8]]:
        """Before they are compressed."""
        shots = self._take("take", size).shots(count)
        if self.kind == GENUINE:
            return (shot.image for shot in shots)
        others = self._take("another take", size).shots(count)
        return forged(shots, self.kind, default_rng(self._source(self.kind)), others)

    def place(self, quality: int) -> Path:
        """Return where its clip is, below the folder of the collection."""
        return Path(f"c{quality}", self.kind, f"{self.face}-{self.number:02d}.mp4")

    def clip(self, folder: Path, quality: int, test_face: str) -> Clip:
        """Its clip, as the list of the collection has it."""
        is_genuine = self.kind == GENUINE
        return Clip(
            folder / self.place(quality),
            label=1 if is_genuine else -1,
            kind=None if is_genuine else self.kind,
            identities=(self.face,),
            split="test" if self.face == test_face else "train",
            quality=f"c{quality}",
        )

    def _take(self, which: str, size: int) -> Take:
        return Take(self.face, self._source(which), size)

    def _source(self, purpose: str) -> SeedSequence:
        """Randomness of its own for each purpose; that of the takes does not know the kind."""
        name = f"{self.face}/{self.number}/{purpose}"
        words = np.frombuffer(sha256(name.encode()).digest(), "<u4")
        return SeedSequence([self.seed, *words.tolist()])


def _check(
    qualities: Sequence[Any],
    kinds: Sequence[Any],
    clips_per_face: Any,
    frames: Any,
    size: Any,
    test_face: Any,
) -> None:
    for quality in qualities:
        check_number("qualities", quality, at_least=0, at_most=51)
    for kind in kinds:
        check_choice("kinds", kind, [*FAMILIES, CONTROL])
    check_choice("test_face", test_face, list(PHOTOGRAPHS))
    check_count("clips_per_face", clips_per_face)
    check_count("frames", frames)
    if check_count("size", size) % 2:
        raise ValueError(f"size must be even, got {size}: H.264 halves it for the colours.")
