"""What a watch must remember to go on after any end: one small file, and one watcher at a time."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import Any

from lpfuse._files import as_json
from lpfuse._format import quote
from lpfuse._saved import ANY, saved_as
from lpfuse.io import load, save
from lpfuse.watch._output import sync_folder

VERSION = 1


@saved_as("WatchState", facts=ANY)
@dataclass(eq=False)
class WatchState:
    """All that counts after a batch: written whole, so that it is of one moment.

    Attributes
    ----------
    facts : str
        JSON: of what source and model, how far both files count, counts and history.
    monitor : DriftMonitor or None
        The evidence of drift.
    """

    facts: str
    monitor: Any = None


class StateFolder:
    """The folder of a watch's state.

    Parameters
    ----------
    path : path
        The folder; it is made where it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "state.lpfuse"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Refuse a second watcher; a dead one leaves no lock, for the system takes it away."""
        self.path.mkdir(exist_ok=True)
        with (self.path / "lock").open("a+b") as file:
            try:
                _lock(file)
            except OSError as error:
                raise ValueError(
                    f"Another `lpfuse watch` is at work on {quote(str(self.path))}. End it first, "
                    "or name another output."
                ) from error
            remove_unfinished(self.file)
            yield

    def read(self, identity: dict[str, Any]) -> tuple[dict[str, Any], Any] | None:
        """Facts and monitor as they were saved; None at the first start.

        Parameters
        ----------
        identity : dict
            What must be the same as then, in terms of JSON, with the words for it as keys.
        """
        if not self.file.exists():
            return None
        try:
            found = load(self.file)
        except ValueError as error:
            raise ValueError(
                f"The state {quote(str(self.file))} cannot be read: it is damaged, or of another "
                "version of lpfuse. Begin anew with another output; this one stays as it is."
            ) from error
        if not isinstance(found, WatchState):
            raise ValueError(
                f"{quote(str(self.file))} is no state of a watch. Name another output."
            )
        facts = json.loads(found.facts)
        if facts["version"] != VERSION:
            raise ValueError(
                f"{quote(str(self.file))} was written by another lpfuse. Begin with another output."
            )
        if facts["position"] is None:  # nothing was judged: it belongs to nobody yet
            return facts, None
        other = [name for name, value in identity.items() if facts["identity"].get(name) != value]
        if other:
            raise ValueError(
                f"{quote(str(self.path))} belongs to another {', another '.join(other)}. Name "
                "another output, or remove that folder and its output to begin anew."
            )
        return facts, found.monitor

    def write(self, identity: dict[str, Any], facts: dict[str, Any], monitor: Any) -> None:
        """Replace what is there, at once and on disk."""
        held = {"version": VERSION, "identity": identity, **facts}
        save(WatchState(json.dumps(as_json(held)), monitor), self.file)
        sync_folder(self.path)


def remove_unfinished(path: Path) -> None:
    """Remove what a process that was killed left of a file that it was replacing."""
    for left in path.parent.glob(f"{escape(path.name)}.*.tmp"):
        if re.fullmatch(r"[0-9a-f]{32}", left.name[len(path.name) + 1 : -len(".tmp")]):
            left.unlink(missing_ok=True)


def digest(path: Any) -> str:
    """By what a file is known again."""
    found = sha256()
    with open(path, "rb") as file:
        while block := file.read(2**20):
            found.update(block)
    return found.hexdigest()


if os.name == "nt":
    import msvcrt

    def _lock(file: Any) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]

else:
    import fcntl

    def _lock(file: Any) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
