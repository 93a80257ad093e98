"""``clips.csv``: a table with a line for each clip, written and read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from lpfuse._files import replacing
from lpfuse._validation.params import listed
from lpfuse_faces._regular_file import read_regular
from lpfuse_faces.clips._clip import Clip

LARGEST = 256 << 20  # bytes of a table: two million clips
CLIPS_CSV = "clips.csv"
_LABELS = {"genuine": 1, "forged": -1, "": None}
_COLUMNS = ("path", "label", "kind", "identities", "split", "quality")


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


def read_table(path: Path) -> list[Clip]:
    """Return the clips of a table; an error names the line that is at fault.

    Parameters
    ----------
    path : Path
        A CSV file in UTF-8 whose paths of videos are relative to its folder.

    Returns
    -------
    list of Clip
        In the order of the lines.
    """
    clips: list[Clip] = []
    lines: dict[Path, int] = {}
    try:
        text = read_regular(path, LARGEST).decode("utf-8-sig")
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
