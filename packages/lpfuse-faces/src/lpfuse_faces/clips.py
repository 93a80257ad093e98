"""Clips: videos and what is known of them, from folders or ``clips.csv``; people kept apart."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lpfuse._checks.messages import listed
from lpfuse._files import replacing

CLIPS_CSV = "clips.csv"
SPLITS = ("train", "val", "test")
SHARES = (0.72, 0.14, 0.14)  # of the people: FaceForensics++'s own 720, 140 and 140
VIDEO_SUFFIXES = frozenset({".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".webm"})

_GENUINE_FOLDERS = ("genuine", "original", "real")
_LABELS = {"genuine": 1, "forged": -1, "": None}
_COLUMNS = ("path", "label", "kind", "identities", "split", "quality")


@dataclass(frozen=True)
class Clip:
    """A video, and what is known of it.

    Attributes
    ----------
    path : Path
        The file.
    label : int or None, default=None
        +1 genuine, −1 forged, None unknown.
    kind : str or None, default=None
        What a forgery was made by; None if it is none, or nobody knows.
    identities : tuple of str, default=()
        The people that went into it: of a face swap both, whose face and whose head.
    split : "train", "val", "test" or None, default=None
        What it serves for; None leaves that open.
    quality : str or None, default=None
        Its compression, such as "c23" or "c40".

    Examples
    --------
    >>> from pathlib import Path
    >>> from lpfuse_faces.clips import Clip
    >>> Clip(Path("003_012.mp4"), -1, "Deepfakes", ("003", "012"), "train", "c23").is_forged
    True
    """

    path: Path
    label: int | None = None
    kind: str | None = None
    identities: tuple[str, ...] = ()
    split: str | None = None
    quality: str | None = None

    def __post_init__(self) -> None:
        if self.label not in (1, -1, None):
            raise ValueError(
                f"The label of a clip is 1 (genuine), -1 (forged) or None (unknown); got "
                f"{self.label!r}."
            )
        if self.is_forged != (self.kind is not None):
            raise ValueError(
                "A forged clip has a kind, such as 'Deepfakes', and no other has one; got label "
                f"{self.label!r} with kind {self.kind!r}."
            )
        if self.split not in (*SPLITS, None):
            raise ValueError(f"The split of a clip is train, val or test; got {self.split!r}.")
        if any(not name or name.split() != [name] for name in self.identities):
            raise ValueError(
                f"Identities are words without spaces; got {self.identities!r}. Write 'ann-lee'."
            )

    @property
    def is_forged(self) -> bool:
        """Whether it is known to be a forgery."""
        return self.label == -1


def read_clips(where: str | Path, *, quality: str | None = None) -> list[Clip]:
    """The clips of a collection.

    Parameters
    ----------
    where : path
        One of

        - a copy of FaceForensics++: a folder with ``original_sequences`` and
          ``manipulated_sequences`` (see :func:`lpfuse_faces.faceforensics.faceforensics`);
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
    from lpfuse_faces import faceforensics as ff

    where = Path(where).expanduser()
    if ff.is_root(where):
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
    """The qualities that :func:`read_clips` can choose from; none where clips do not tell theirs.

    Examples
    --------
    >>> from lpfuse_faces.clips import qualities
    >>> qualities("my-copy-of/FaceForensics++")  # doctest: +SKIP
    ['c23', 'c40']
    """
    from lpfuse_faces import faceforensics as ff

    where = Path(where).expanduser()
    if ff.is_root(where):
        return ff.qualities_in(where)
    return _qualities_of(_read(where))


def write_clips(path: str | Path, clips: Iterable[Clip]) -> None:
    """Write a ``clips.csv`` that :func:`read_clips` reads; it appears whole or not at all.

    Parameters
    ----------
    path : path
        The file. Videos below its folder are named relative to it, so that both can move together.
    clips : iterable of Clip
        In the order of the lines.
    """
    path = Path(path)
    folder = path.parent.resolve()
    words = {label: word for word, label in _LABELS.items()}
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for clip in clips:
        video = clip.path.resolve()
        name = video.relative_to(folder) if video.is_relative_to(folder) else video
        people = " ".join(clip.identities)
        writer.writerow(
            [name.as_posix(), words[clip.label], clip.kind, people, clip.split, clip.quality]
        )
    with replacing(path) as file:
        file.write(text.getvalue().encode())


def identity_groups(clips: Sequence[Clip]) -> list[str]:
    """For each clip the group of people that it belongs to.

    People who occur in one clip are of one group, and so are those whom a third one joins: two
    groups share nobody. A clip that names nobody is a group of its own.

    Parameters
    ----------
    clips : sequence of Clip
        The n clips.

    Returns
    -------
    list of str
        n names; of each group, the first of its people in alphabetical order.

    Examples
    --------
    >>> from pathlib import Path
    >>> from lpfuse_faces.clips import Clip, identity_groups
    >>> people = [("003",), ("012",), ("012", "003"), ("500",)]
    >>> identity_groups([Clip(Path("a.mp4"), identities=names) for names in people])
    ['003', '003', '003', '500']
    """
    leader: dict[str, str] = {}

    def leader_of(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    for clip in clips:
        for name in clip.identities:
            first, second = sorted([leader_of(clip.identities[0]), leader_of(name)])
            leader[second] = first
    return [leader_of(clip.identities[0]) if clip.identities else str(clip.path) for clip in clips]


def check_disjoint(clips: Iterable[Clip]) -> None:
    """Refuse clips in which a person, or a file, is in two splits.

    Examples
    --------
    >>> from pathlib import Path
    >>> from lpfuse_faces.clips import Clip, check_disjoint
    >>> a = Clip(Path("a.mp4"), 1, identities=("ann",), split="train")
    >>> b = Clip(Path("b.mp4"), -1, "blended", ("ben", "ann"), split="test")
    >>> check_disjoint([a, b])
    Traceback (most recent call last):
    ValueError: 'ann' is in two splits: train (a.mp4) and test (b.mp4). Nobody may be in both: ...
    """
    seen: dict[str, Clip] = {}
    for clip in clips:
        if clip.split is None:
            continue
        for name in (*clip.identities, str(clip.path.resolve())):
            first = seen.setdefault(name, clip)
            if first.split != clip.split:
                raise ValueError(
                    f"{name!r} is in two splits: {first.split} ({first.path.name}) and "
                    f"{clip.split} ({clip.path.name}). Nobody may be in both: what is learnt of a "
                    "face would pass for what is learnt of forgery."
                )


def with_splits(
    clips: Sequence[Clip], seed: int = 0, shares: Sequence[float] = SHARES
) -> list[Clip]:
    """Clips divided into training, validation and test, such that no two of them share a person.

    Parameters
    ----------
    clips : sequence of Clip
        Whatever splits they have are replaced.
    seed : int, default=0
        One seed, one division, whatever the order of the clips.
    shares : sequence of three floats, default=(0.72, 0.14, 0.14)
        Of the groups of people (:func:`identity_groups`); each split has one group or more.

    Returns
    -------
    list of Clip
        In the order of `clips`.
    """
    groups = identity_groups(clips)
    names = sorted(set(groups))
    n = len(names)
    if n < len(SPLITS):
        raise ValueError(
            f"Training, validation and test need three groups of people that share nobody; these "
            f"{len(clips)} clips are of {n}. Bring more people, or give the clips a split column."
        )
    first = min(max(round(shares[0] * n), 1), n - 2)
    second = min(max(round((shares[0] + shares[1]) * n), first + 1), n - 1)
    drawn = np.random.default_rng(seed).permutation(n)
    places = np.searchsorted([first, second], np.arange(n), side="right")
    split_of = {names[group]: SPLITS[place] for group, place in zip(drawn, places, strict=True)}
    return [replace(clip, split=split_of[group]) for clip, group in zip(clips, groups, strict=True)]


# -------------------------------------------------------------------------------------------- files


def _read(where: Path) -> list[Clip]:
    """The clips of anything but FaceForensics++, of whatever quality."""
    if where.is_file():
        if where.suffix.casefold() == ".csv":
            return _read_csv(where)
        if _is_video(where):
            return [Clip(where)]
        raise ValueError(
            f"{where} is neither a video ({listed(sorted(VIDEO_SUFFIXES), 9)}) nor a .csv of clips."
        )
    if not where.is_dir():
        raise FileNotFoundError(f"There is no file or folder {where}.")
    if (where / CLIPS_CSV).is_file():
        return _read_csv(where / CLIPS_CSV)
    clips = _read_folders(where) or [Clip(path) for path in _videos_in(where)]
    if not clips:
        raise ValueError(
            f"{where} holds no videos ({listed(sorted(VIDEO_SUFFIXES), 9)}), no {CLIPS_CSV}, no "
            f"folder {listed(_GENUINE_FOLDERS)} with videos, and no original_sequences as "
            "FaceForensics++ has."
        )
    return clips


def _read_folders(root: Path) -> list[Clip]:
    """A folder of genuine videos, and one for each kind of forgery."""
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


def _read_csv(path: Path) -> list[Clip]:
    """All lines, or an error that names the line."""
    clips: list[Clip] = []
    lines: dict[Path, int] = {}
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8. Save it as CSV in UTF-8.") from error
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        _check_columns(reader.fieldnames or [])
        for row in reader:
            clip = _clip_of(row, path.parent)
            if (first := lines.setdefault(clip.path.resolve(), reader.line_num)) != reader.line_num:
                raise ValueError(f"{row['path']} is there already, in line {first}.")
            clips.append(clip)
    except (ValueError, csv.Error) as error:
        raise ValueError(f"Line {reader.reader.line_num or 1} of {path}: {error}") from error
    if not clips:
        raise ValueError(f"{path} names no clips: it has a head, and no line below it.")
    return clips


def _check_columns(names: Sequence[str]) -> None:
    missing = [name for name in _COLUMNS[:2] if name not in names]
    if missing:
        raise ValueError(
            f"There must be columns called path and label; {listed(missing)} is missing among "
            f"{listed(names or ['none'])}."
        )


def _clip_of(row: dict[str, Any], folder: Path) -> Clip:
    if None in row or None in row.values():
        raise ValueError("This line has more or fewer fields than the head.")
    fields = {name: row.get(name, "").strip() for name in _COLUMNS}
    if fields["label"] not in _LABELS:
        raise ValueError(f"The label must be genuine or forged, got {fields['label']!r}.")
    path = folder / fields["path"]
    if not fields["path"] or not path.is_file():
        raise ValueError(f"There is no file {fields['path']!r} in {folder}.")
    return Clip(
        path,
        _LABELS[fields["label"]],
        fields["kind"] or None,
        tuple(fields["identities"].split()),
        fields["split"] or None,
        fields["quality"] or None,
    )


def _videos_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if _is_video(path))


def _is_video(path: Path) -> bool:
    """By its name; what macOS keeps beside a file starts with a dot."""
    named = path.suffix.casefold() in VIDEO_SUFFIXES and not path.name.startswith(".")
    return named and path.is_file()


def _qualities_of(clips: Sequence[Clip]) -> list[str]:
    return sorted({clip.quality for clip in clips if clip.quality is not None})


def _only(found: Sequence[str], where: Path) -> str | None:
    """The one that is there, if any."""
    if len(found) > 1:
        raise ValueError(
            f"{where} has clips of several qualities: {listed(found)}. Choose one: "
            f"quality={found[0]!r}."
        )
    return found[0] if found else None
