"""Features of many videos, and what is learnt from many: in threads, and never twice."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

from joblib import effective_n_jobs

from lpfuse_faces._cache import FeatureCache, StoredFeatures
from lpfuse_faces._detection.mtcnn import MTCNN
from lpfuse_faces._extractor import Extractor, Floats, Place, batches_of, content_of, detector_of
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces._limits import UnreadableVideo
from lpfuse_faces._settings import Settings
from lpfuse_faces._spectrum import Stretch, filtered_spectra, fit_stretch
from lpfuse_faces._video import Sampling

__all__ = ["Counts", "Extraction", "Extractor", "extract_all", "learn_stretch"]

Progress = Callable[[int, int, Path, str], None]
X = TypeVar("X")
Y = TypeVar("Y")


class Counts(NamedTuple):
    """Frames of a video that were looked at, those that show a face, and whether that was known."""

    n_frames: int
    n_faces: int
    found: bool


@dataclass(frozen=True)
class Extraction:
    """What came of many videos, in the order they were named.

    Attributes
    ----------
    features : mapping of Path to VideoFeatures
        Of each video that could be read; one that shows no face is there, without rows. Where
        there is a cache, they are read from it one by one as they are asked for.
    skipped : dict of Path to str
        Why the others could not.
    counts : dict of Path to Counts
        What there is to tell of each video in `features` without reading them.
    """

    features: Mapping[Path, VideoFeatures]
    skipped: dict[Path, str]
    counts: dict[Path, Counts]


def extract_all(
    paths: Iterable[Place],
    extractor: Extractor,
    cache: FeatureCache | None = None,
    *,
    n_jobs: int | None = 1,
    progress: Progress | None = None,
) -> Extraction:
    """Features of many videos; those in the cache are not read again.

    Parameters
    ----------
    paths : iterable of path
        The videos. The same content under several names is extracted once.
    extractor : Extractor
        What is measured.
    cache : FeatureCache, optional
        Where features are looked for, and stored as soon as a video is done: after a crash, the
        same call goes on where it ended.
    n_jobs : int, default=1
        How many videos are in work at once, in threads; −1 is one on each core.
    progress : callable, optional
        Called as ``progress(done, total, path, note)`` after each video, in their order. The note
        is "extracted", "found" (in the cache, or under another name), or "skipped: " and the
        reason.

    Returns
    -------
    Extraction
        Features, and what was skipped. A video that cannot be read never stops the others.

    Notes
    -----
    Where nothing can be stored, an OSError says so before any video is read. An interruption
    begins no more videos; with several jobs it waits for those in work, which are stored as well.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from lpfuse_faces._cache import FeatureCache
    >>> from lpfuse_faces._extraction import Extractor, extract_all
    >>> from lpfuse_faces._video import write_video
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clips = [Path(folder, name) for name in ("grey.mp4", "missing.mp4")]
    ...     write_video(clips[0], np.full((2, 64, 64, 3), 128, np.uint8))
    ...     result = extract_all(clips, Extractor(), FeatureCache(Path(folder, "features")))
    ...     for video in result.features.values():
    ...         print(f"{video.name}: {video.n_frames} frames, {video.n_faces} faces")
    ...     for path, reason in result.skipped.items():
    ...         print(f"{path.name}: {reason}")
    grey.mp4: 2 frames, 0 faces
    missing.mp4: there is no such file
    """
    videos = list(dict.fromkeys(map(Path, paths)))
    if cache is not None:
        cache.prepare(extractor.key, extractor.meaning)
    once = _ExtractOnce(extractor, _Memory() if cache is None else cache)
    contents: dict[Path, str] = {}
    result = Extraction(StoredFeatures(once.find, contents), {}, {})
    with closing(_each(once, videos, n_jobs)) as outcomes:
        for done, (path, outcome) in enumerate(zip(videos, outcomes, strict=True), start=1):
            if isinstance(outcome, _Skipped):
                result.skipped[path] = outcome.reason
            else:
                contents[path], result.counts[path] = outcome
            if progress is not None:
                progress(done, len(videos), path, _note(outcome))
    return result


def _each(work: Callable[[X], Y], items: Iterable[X], n_jobs: int | None) -> Generator[Y]:
    """``work`` on each item; results in their order. Closed early, it begins nothing more."""
    threads = effective_n_jobs(n_jobs)
    if threads == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, items)


class _Done(NamedTuple):
    content: str
    counts: Counts


class _Skipped(NamedTuple):
    reason: str


def _note(outcome: _Done | _Skipped) -> str:
    if isinstance(outcome, _Skipped):
        return f"skipped: {outcome.reason}"
    return "found" if outcome.counts.found else "extracted"


class _Memory:
    """Takes the place of a cache where there is none."""

    def __init__(self) -> None:
        self.kept: dict[str, VideoFeatures] = {}

    def find(self, sha256: str, key: str) -> VideoFeatures | None:
        return self.kept.get(sha256)

    def store(self, features: VideoFeatures, key: str) -> None:
        self.kept[features.sha256] = features


class _ExtractOnce:
    """Sees that the features of a video are stored; safe to call from several threads."""

    def __init__(self, extractor: Extractor, store: FeatureCache | _Memory) -> None:
        self.extractor = extractor
        self.store = store
        self.locks: dict[str, Lock] = {}

    def find(self, content: str) -> VideoFeatures | None:
        return self.store.find(content, self.extractor.key)

    def __call__(self, path: Path) -> _Done | _Skipped:
        try:
            content = content_of(path, self.extractor.settings.limits)
            with self.locks.setdefault(content, Lock()):  # a second copy waits for the first
                found = self.find(content)
                features = self._extract(path, content) if found is None else found
        except UnreadableVideo as error:
            return _Skipped(error.reason)
        except Exception as error:
            error.add_note(f"This happened while extracting features of {path}.")
            raise
        return _Done(content, Counts(features.n_frames, features.n_faces, found is not None))

    def _extract(self, path: Path, content: str) -> VideoFeatures:
        features = self.extractor.extract(path, content)
        self.store.store(features, self.extractor.key)
        return features


def learn_stretch(
    paths: Iterable[Place], settings: Settings, *, frames_per_video: int = 4, n_jobs: int | None = 1
) -> Stretch:
    """Return which range of a spectrum the networks are to see, from genuine training clips.

    Parameters
    ----------
    paths : iterable of path
        Genuine clips of the training split. One that cannot be read is passed over.
    settings : Settings
        How faces are found, and the regions.
    frames_per_video : int, default=4
        How many frames of each are looked at.
    n_jobs : int, default=1
        How many videos are read at once, in threads; −1 is one on each core.

    Returns
    -------
    Stretch
        For the settings, by ``dataclasses.replace(settings, stretch=...)``.

    Examples
    --------
    >>> import tempfile
    >>> from dataclasses import replace
    >>> from pathlib import Path
    >>> from skimage.data import astronaut
    >>> from lpfuse_faces._extraction import learn_stretch
    >>> from lpfuse_faces._settings import Settings
    >>> from lpfuse_faces._video import write_video
    >>> settings = Settings(min_face=60, features=["inception"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_video(Path(folder, "genuine.mp4"), [astronaut()] * 2)
    ...     stretch = learn_stretch(Path(folder).glob("*.mp4"), settings)
    >>> settings = replace(settings, stretch=stretch)
    >>> sorted(stretch.high)
    ['face', 'mouth', 'nose']
    """
    settings = replace(settings, sampling=Sampling(count=frames_per_video))
    detector = detector_of(settings)
    clips = list(paths)
    with closing(_each(partial(_spectra, settings, detector), clips, n_jobs)) as videos:
        stretch = fit_stretch(chain.from_iterable(videos))
    if not stretch.low:
        raise ValueError(
            f"None of the {len(clips)} clips shows a face, so no stretch can be learnt from them. "
            f"Give genuine clips with faces of {settings.min_face} pixels and more."
        )
    return stretch


def _spectra(settings: Settings, detector: MTCNN, path: Place) -> list[tuple[str, list[Floats]]]:
    """Spectra of one video by region; none of one that cannot be read."""
    try:
        batches = list(batches_of(path, settings, detector))
    except UnreadableVideo:
        return []
    return [
        (region, filtered_spectra(batch.patches(region)))
        for batch in batches
        if batch.faces
        for region in settings.regions
    ]
