"""FaceForensics++ as its owners hand it out: a user's own copy, read and never downloaded.

A. Rössler et al., "FaceForensics++: Learning to detect manipulated facial images", ICCV 2019. ::

    original_sequences/youtube/<quality>/videos/NNN.mp4
    manipulated_sequences/<kind>/<quality>/videos/TARGET_SOURCE.mp4
    splits/train.json, val.json, test.json       [["071", "054"], ...]

A pair (a, b) of a split file stands for the originals a and b and, of each kind, for the forgeries
``a_b`` and ``b_a``. Nobody is in two pairs, so that nobody is in two splits.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lpfuse._validation.params import listed
from lpfuse_faces._regular_file import read_regular
from lpfuse_faces.clips._clip import SPLITS, Clip

KINDS = ("Deepfakes", "Face2Face", "FaceSwap", "NeuralTextures", "FaceShifter")
QUALITIES = {"raw": ("raw", "c0"), "c23": ("c23",), "c40": ("c40",)}  # name → folders' names
LARGEST = 1 << 20  # bytes of a split file: the official ones have ten thousand
DEFAULT_QUALITY = "c23"

_GENUINE = Path("original_sequences", "youtube")
_FORGED = Path("manipulated_sequences")
_SPLIT_FOLDERS = (Path("splits"), Path(), Path("dataset", "splits"))
_HOW_TO_GET_IT = (
    "FaceForensics++ is given out by its owners, who ask for a form to be filled in: "
    "https://github.com/ondyari/FaceForensics."
)

Pairs = Sequence[tuple[str, str]]


def faceforensics(
    root: str | Path,
    quality: str = DEFAULT_QUALITY,
    splits: str | Path | None = None,
    *,
    kinds: Sequence[str] | None = None,
) -> list[Clip]:
    """Return the clips of FaceForensics++ at one quality, with the official splits.

    Parameters
    ----------
    root : path
        The folder with ``original_sequences`` and ``manipulated_sequences``.
    quality : "c23", "c40", "raw" or "c0", default="c23"
        High, low, or no loss by compression; the last two are the same.
    splits : path, optional
        Folder with ``train.json``, ``val.json`` and ``test.json``; by default `root`, or its
        ``splits`` or ``dataset/splits``.
    kinds : sequence of str, optional
        Of forgery; by default those that have a folder.

    Returns
    -------
    list of Clip
        Split by split, the originals first.

    Warns
    -----
    UserWarning
        When some videos of the official splits are missing: a part will do, but figures on it are
        not those of the whole.

    Raises
    ------
    FileNotFoundError
        When there is no such copy, no split files, or no video at all of a kind.

    Examples
    --------
    >>> from lpfuse_faces.clips import faceforensics
    >>> clips = faceforensics("FaceForensics++", "c40")  # doctest: +SKIP
    """
    root = Path(root).expanduser()
    if not is_faceforensics(root):
        raise FileNotFoundError(
            f"There is no copy of FaceForensics++ in {root}: it has no original_sequences and no "
            f"manipulated_sequences. {_HOW_TO_GET_IT}"
        )
    name = _name_of(quality)
    pairs = _read_splits(root, splits)
    sources: dict[str | None, Path] = {None: root / _GENUINE}
    sources |= {kind: root / _FORGED / kind for kind in _kinds_in(root, kinds)}
    clips, missing = [], {}
    for kind, folder in sources.items():
        wanted = list(_clips_of(kind, pairs, folder, name))
        there = {clip for clip in wanted if clip.path.is_file()}
        if not there:
            raise FileNotFoundError(_nothing_of(kind, name, wanted[0].path))
        clips += [clip for clip in wanted if clip in there]
        missing[kind or "originals"] = [clip for clip in wanted if clip not in there]
    absent = [kind for kind in KINDS if kind not in sources] if kinds is None else []
    _tell_missing(missing, absent, root, name)
    return sorted(clips, key=lambda clip: SPLITS.index(clip.split or ""))


def is_faceforensics(where: Path) -> bool:
    """Return whether a folder looks like a copy of FaceForensics++.

    Parameters
    ----------
    where : Path
        The folder.
    """
    return any((where / part).is_dir() for part in (_GENUINE.parts[0], _FORGED))


def qualities_in(root: Path) -> list[str]:
    """Return the qualities that have a folder with originals."""
    return [
        quality
        for quality, spellings in QUALITIES.items()
        if any((root / _GENUINE / spelling / "videos").is_dir() for spelling in spellings)
    ]


def _name_of(quality: str) -> str:
    for name, spellings in QUALITIES.items():
        if quality in spellings:
            return name
    known = [spelling for spellings in QUALITIES.values() for spelling in spellings]
    raise ValueError(f"FaceForensics++ has the qualities {listed(known)}; got {quality!r}.")


def _kinds_in(root: Path, asked: Sequence[str] | None) -> list[str]:
    """Return the kinds that were asked for, or those that have a folder."""
    if asked is not None:
        if unknown := sorted(set(asked) - set(KINDS)):
            raise ValueError(
                f"FaceForensics++ has the kinds {listed(KINDS)}; got {listed(unknown)}."
            )
        return list(asked)
    found = [kind for kind in KINDS if (root / _FORGED / kind).is_dir()]
    if not found:
        raise FileNotFoundError(
            f"There is no folder {listed(KINDS)} in {root / _FORGED}. {_HOW_TO_GET_IT}"
        )
    return found


def _clips_of(
    kind: str | None, pairs: Mapping[str, Pairs], folder: Path, quality: str
) -> Iterator[Clip]:
    """Yield what the official splits want of a kind, or of the originals."""
    folders = [folder / spelling / "videos" for spelling in QUALITIES[quality]]
    home = next((each for each in folders if each.is_dir()), folders[0])
    for split, its_pairs in pairs.items():
        for a, b in its_pairs:
            for people in ((a, b), (b, a)) if kind else ((a,), (b,)):
                path = home / f"{'_'.join(people)}.mp4"
                yield Clip(path, -1 if kind else 1, kind, people, split, quality)


def _nothing_of(kind: str | None, quality: str, example: Path) -> str:
    what = f"No video of {kind}" if kind else "No original video"
    remedy = "Download some with the owners' script, or choose another quality"
    if kind:
        remedy += f", or leave {kind} out: kinds={tuple(each for each in KINDS if each != kind)}"
    spellings = listed([f"{name}/videos" for name in QUALITIES[quality]])
    return (
        f"{what} of quality {quality} was found: {example.parents[2]} was searched for files such "
        f"as {example.name} in {spellings}. {remedy}."
    )


def _tell_missing(
    missing: Mapping[str, Sequence[Clip]], absent: Sequence[str], root: Path, quality: str
) -> None:
    told = [
        f"{len(clips)} of {what} ({listed([clip.path.name for clip in clips], 3)})"
        for what, clips in missing.items()
        if clips
    ]
    told += [f"all of {kind}" for kind in absent]
    if told:
        warnings.warn(
            f"The copy of FaceForensics++ in {root} is not whole. Missing at quality {quality}: "
            f"{'; '.join(told)}. The rest is used, and figures on it are not those of the whole.",
            stacklevel=3,
        )


# ------------------------------------------------------------------------------------------- splits


def _read_splits(root: Path, folder: str | Path | None) -> dict[str, Pairs]:
    """Split → pairs; nobody is in two of them."""
    folders = [Path(folder).expanduser()] if folder else [root / each for each in _SPLIT_FOLDERS]
    names = [f"{split}.json" for split in SPLITS]
    home = next((each for each in folders if all((each / n).is_file() for n in names)), None)
    if home is None:
        raise FileNotFoundError(
            f"The official split files {listed(names)} were not found in "
            f"{' or '.join(map(str, folders))}. They are in the folder dataset/splits of "
            "https://github.com/ondyari/FaceForensics: copy them, or name their folder."
        )
    pairs = {split: _read_pairs(home / f"{split}.json") for split in SPLITS}
    seen: dict[str, str] = {}
    for split, its_pairs in pairs.items():
        for name in (name for pair in its_pairs for name in pair):
            if name in seen:
                raise ValueError(
                    f"{name} is twice in the split files of {home}: in {seen[name]}.json and in "
                    f"{split}.json. Nobody may be in two pairs. Take the official files."
                )
            seen[name] = split
    return pairs


def _read_pairs(path: Path) -> Pairs:
    try:
        content = json.loads(read_regular(path, LARGEST))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON. Take the official file.") from error
    if not isinstance(content, list) or not content or not all(map(_is_pair, content)):
        raise ValueError(
            f'{path} must hold pairs of ids in three digits, [["071", "054"], ...]. Take the '
            "official file."
        )
    return [(a, b) for a, b in content]


def _is_pair(item: Any) -> bool:
    """Two ids, which become names of files: nothing but digits."""
    return (
        isinstance(item, list)
        and len(item) == 2
        and all(isinstance(name, str) and re.fullmatch("[0-9]{3}", name) for name in item)
    )
