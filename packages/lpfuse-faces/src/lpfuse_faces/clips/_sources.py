"""Where clips come from: a copy of FaceForensics++, a ``clips.csv``, folders, or single videos."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lpfuse._validation.params import listed
from lpfuse_faces.clips import _faceforensics as ff
from lpfuse_faces.clips._clip import Clip
from lpfuse_faces.clips._table import CLIPS_CSV, read_table

VIDEO_SUFFIXES = frozenset({".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".webm"})
_GENUINE_FOLDERS = ("genuine", "original", "real")


def read_clips(where: str | Path, *, quality: str | None = None) -> list[Clip]:
    """Return the clips of a collection.

    Parameters
    ----------
    where : path
        One of

        - a copy of FaceForensics++: a folder with ``original_sequences`` and
          ``manipulated_sequences`` (see :func:`lpfuse_faces.clips.faceforensics`);
        - a ``clips.csv``, or a folder that holds one, with the columns `path` (relative to the
          file), `label` (genuine, forged, or nothing where unknown) and, where known, `kind`,
          `identities` (words with spaces between), `split` and `quality`;
        - a folder with ``genuine`` (or ``original``, or ``real``) and one folder for each kind of
          forgery. Files of one name, whichever folder they are in, are taken for one person;
        - a folder of videos, or a single video, of which nothing is known.
    quality : str, optional
        Which compression to take; must be given where there are several.

    Returns
    -------
    list of Clip
        In an order that depends on nothing but names.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from lpfuse_faces.clips import read_clips
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("genuine/ann.mp4", "genuine/ben.mp4", "blended/ann.mp4"):
    ...         Path(folder, name).parent.mkdir(exist_ok=True)
    ...         Path(folder, name).touch()
    ...     [(clip.kind, clip.identities) for clip in read_clips(folder)]
    [(None, ('ann',)), (None, ('ben',)), ('blended', ('ann',))]
    """
    where = Path(where).expanduser()
    if ff.is_faceforensics(where):
        there = ff.qualities_in(where)
        return ff.faceforensics(where, quality or _only(there, where) or ff.DEFAULT_QUALITY)
    clips = _read(where)
    found = _qualities_of(clips)
    if quality is None:
        _only(found, where)
        return clips
    chosen = [clip for clip in clips if clip.quality == quality]
    if not chosen:
        raise ValueError(
            f"{where} has no clips of quality {quality!r}; there are: {listed(found or ['none'])}."
        )
    return chosen


def qualities(where: str | Path) -> list[str]:
    """Return the qualities that :func:`read_clips` can choose from.

    None where clips do not tell theirs.

    Examples
    --------
    >>> from lpfuse_faces.clips import qualities
    >>> qualities("my-copy-of/FaceForensics++")  # doctest: +SKIP
    ['c23', 'c40']
    """
    where = Path(where).expanduser()
    if ff.is_faceforensics(where):
        return ff.qualities_in(where)
    return _qualities_of(_read(where))


def _read(where: Path) -> list[Clip]:
    """Return the clips of anything but FaceForensics++, of whatever quality."""
    if where.is_file():
        if where.suffix.casefold() == ".csv":
            return read_table(where)
        if _is_video(where):
            return [Clip(where)]
        raise ValueError(
            f"{where} is neither a video ({listed(sorted(VIDEO_SUFFIXES), 9)}) nor a .csv of clips."
        )
    if not where.is_dir():
        raise FileNotFoundError(f"There is no file or folder {where}.")
    if (where / CLIPS_CSV).is_file():
        return read_table(where / CLIPS_CSV)
    clips = _read_folders(where) or [Clip(path) for path in _videos_in(where)]
    if not clips:
        raise ValueError(
            f"{where} holds no videos ({listed(sorted(VIDEO_SUFFIXES), 9)}), no {CLIPS_CSV}, no "
            f"folder {listed(_GENUINE_FOLDERS)} with videos, and no original_sequences as "
            "FaceForensics++ has."
        )
    return clips


def _read_folders(root: Path) -> list[Clip]:
    """Return a folder of genuine videos, and one for each kind of forgery."""
    folders = sorted(folder for folder in root.iterdir() if folder.is_dir())
    folders.sort(key=lambda folder: folder.name.casefold() not in _GENUINE_FOLDERS)
    if not folders or folders[0].name.casefold() not in _GENUINE_FOLDERS:
        return []
    clips = []
    for folder in folders:
        is_genuine = folder.name.casefold() in _GENUINE_FOLDERS
        for path in _videos_in(folder):
            person = ("-".join(path.stem.split()),)
            clips.append(
                Clip(path, 1, None, person) if is_genuine else Clip(path, -1, folder.name, person)
            )
    return clips


def _videos_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if _is_video(path))


def _is_video(path: Path) -> bool:
    """By its name; what macOS keeps beside a file starts with a dot."""
    named = path.suffix.casefold() in VIDEO_SUFFIXES and not path.name.startswith(".")
    return named and path.is_file()


def _qualities_of(clips: Sequence[Clip]) -> list[str]:
    return sorted({clip.quality for clip in clips if clip.quality is not None})


def _only(found: Sequence[str], where: Path) -> str | None:
    """Return the one that is there, if any."""
    if len(found) > 1:
        raise ValueError(
            f"{where} has clips of several qualities: {listed(found)}. Choose one: "
            f"quality={found[0]!r}."
        )
    return found[0] if found else None
