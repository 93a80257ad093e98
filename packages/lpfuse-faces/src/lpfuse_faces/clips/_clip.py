"""A clip: one video, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SPLITS = ("train", "val", "test")


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
        What a forgery was made by; None if it is none, or unknown.
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
