"""The detectors of a pool: what users name, made ready to be fitted and scored together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from lpfuse._saved import saved_as
from lpfuse.adapters import as_detector, frozen
from lpfuse.detectors._base import Detector
from lpfuse.ensemble._tables import Index, Table, positions


@saved_as("Member")
@dataclass(frozen=True)
class Member:
    """A detector by name, with the columns that it sees (None: all)."""

    name: str
    estimator: Any
    columns: Index | None = None

    @property
    def learns_from_anomalies(self) -> bool:
        """Whether it is an expert: one that needs rows of both classes."""
        return getattr(self.last, "learns_from_anomalies", False)

    @property
    def is_own(self) -> bool:
        """Whether it is a detector of lpfuse, which can share work with others."""
        return isinstance(self.last, Detector)

    @property
    def last(self) -> Any:
        """The detector behind whatever prepares its rows."""
        return self.estimator[-1] if isinstance(self.estimator, Pipeline) else self.estimator

    @property
    def last_name(self) -> str:
        """What the detector is called in its pipeline."""
        return self.estimator.steps[-1][0] if isinstance(self.estimator, Pipeline) else self.name

    @property
    def head(self) -> Pipeline | None:
        """What prepares the rows for the detector."""
        is_pipeline = isinstance(self.estimator, Pipeline) and len(self.estimator) > 1
        return self.estimator[:-1] if is_pipeline else None

    def fitted(self, estimator: Any) -> Member:
        """The same member with another, fitted, estimator."""
        return replace(self, estimator=estimator)


def members_of(
    entries: Any, X: Table, *, prefit: bool = False, reserved: Collection[str] = ()
) -> list[Member]:
    """What a user gave as `detectors`, checked and adapted.

    Parameters
    ----------
    entries : sequence
        ``(name, detector)`` or ``(name, detector, columns)``.
    X : table
        The training rows, which have the columns.
    prefit : bool
        Whether the detectors are fitted already and shall stay as they are.
    reserved : collection of str
        Names that no detector may have.
    """
    listed = isinstance(entries, Sequence) and not isinstance(entries, str)
    if not listed or len(entries) == 0:
        raise ValueError(
            'detectors must be None, "paper" or a list of (name, detector) or (name, detector, '
            "columns) with at least one entry."
        )
    members = [_member(entry, X, prefit) for entry in entries]
    names = [member.name for member in members]
    taken = [name for name in names if name in reserved or "__" in name]
    if taken:
        raise ValueError(
            f"Detectors cannot be called {', '.join(map(repr, taken))}: these are parameters of "
            "the fused detector, or hold a double underscore."
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"Detectors need names of their own, but {', '.join(map(repr, twice))} occurs twice."
        )
    return members


def _member(entry: Any, X: Table, prefit: bool) -> Member:
    fits = isinstance(entry, tuple | list) and len(entry) in (2, 3) and isinstance(entry[0], str)
    if not fits:
        raise ValueError(
            "Each of detectors must be (name, detector) or (name, detector, columns), with a "
            f"string as name; got {entry!r}."
        )
    name, detector, *columns = entry
    if prefit:
        detector = frozen(detector)
    return Member(name, as_detector(detector), positions(columns[0] if columns else None, X, name))


def seeded(members: list[Member], random: np.random.RandomState) -> list[Member]:
    """Copies whose unset ``random_state`` are set, so that the order of work does not matter.

    Kernel learners get the same seed: they can then share the features that approximate a kernel.
    """
    shared = a_seed(random)
    return [
        member.fitted(with_seed(member.estimator, shared if member.is_own else a_seed(random)))
        for member in members
    ]


def a_seed(random: np.random.RandomState) -> int:
    """Drawn for what has none of its own."""
    return int(random.randint(np.iinfo(np.int32).max))


def with_seed(estimator: Any, seed: int) -> Any:
    """A copy whose unset ``random_state`` are set."""
    copy = clone(estimator)
    unset = {
        key: seed
        for key, value in copy.get_params(deep=True).items()
        if value is None and (key == "random_state" or key.endswith("__random_state"))
    }
    return copy.set_params(**unset) if unset else copy


def groups_of(members: Sequence[Member], *, fitted: bool = False) -> list[list[int]]:
    """Positions of members to be worked on together: kernels can be shared between them.

    These are lpfuse's own detectors with the same columns, prepared in the same way; fitted ones,
    where they hold the very same fitted preparation. All others are on their own.
    """
    groups: dict[Any, list[int]] = {}
    for i, member in enumerate(members):
        columns = None if member.columns is None else tuple(member.columns)
        key = (columns, _preparation(member, i, fitted)) if member.is_own else i
        groups.setdefault(key, []).append(i)
    return list(groups.values())


def _preparation(member: Member, i: int, fitted: bool) -> Any:
    head = member.head
    if head is None:
        return None
    if fitted:
        return tuple(id(step) for _, step in head.steps)
    try:
        return joblib.hash([step for _, step in head.steps])
    except Exception:  # what cannot be hashed, such as a lambda in a step, is shared with nobody
        return i
