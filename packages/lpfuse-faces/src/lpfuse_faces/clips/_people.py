"""Which people are in which clips, so that training, validation and test share nobody."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from lpfuse_faces.clips._clip import SPLITS, Clip

SHARES = (0.72, 0.14, 0.14)  # of the people: FaceForensics++'s own 720, 140 and 140


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
