"""Alarms of a stream as episodes, row by row, as `lpfuse.time.alarm_episodes` gathers them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lpfuse._format import number
from lpfuse.time.level import LONGEST, QUIET
from lpfuse_cli.reasons import unusual_columns
from lpfuse_cli.times import DAY, NUMBER
from lpfuse_cli.watch.judge import ROW, Judged

if TYPE_CHECKING:
    from lpfuse.ensemble import FusedDetector

LATEST = 20  # episodes that are stored


@dataclass
class Episodes:
    """Alarms that belong together, in a size that does not grow.

    Attributes
    ----------
    count : int
        Episodes so far.
    judged : int
        Rows judged so far, which places of alarms count.
    first, last : float or None
        Times of the first and the last row judged, in seconds, where rows tell.
    latest : list of dict
        The latest episodes: ``number`` from 1; ``row``, the first of the stream, and its ``time``
        in seconds; ``alarms``; ``strongest``, the row with the smallest ``p_value``, and ``why``
        that is one; ``start`` and ``end``, the first and last alarm as places among rows judged.
    """

    count: int = 0
    judged: int = 0
    first: float | None = None
    last: float | None = None
    latest: list[dict[str, Any]] = field(default_factory=list)

    def add(self, model: FusedDetector, judged: Judged) -> list[dict[str, Any]]:
        """Add a batch; return the episodes that began in it."""
        table = judged.table
        if table is None or not table.height:
            return []
        seconds = judged.seconds
        if seconds is not None and len(seconds):
            self.first = float(seconds[0]) if self.first is None else self.first
            self.last = float(seconds[-1])
        known, began = self.count, self.judged
        pvalues, strongest = table["p_value"].to_numpy(), dict[int, int]()
        for k in np.flatnonzero((table["decision"] < 0).fill_null(False).to_numpy()).tolist():
            place, p = began + k, float(pvalues[k])
            if np.isnan(p):
                continue
            open_one = self.latest[-1] if self.latest else None
            if (
                open_one is None
                or place - open_one["end"] > QUIET
                or place - open_one["start"] >= LONGEST
            ):
                self.count += 1
                open_one = {
                    "number": self.count,
                    "row": int(table[ROW][k]),
                    "time": None if seconds is None else float(seconds[k]),
                    "alarms": 0, "strongest": 0, "p_value": 2.0, "why": "",
                    "start": place, "end": place,
                }  # fmt: skip
                self.latest = [*self.latest, open_one][-LATEST:]
            open_one["alarms"] += 1
            open_one["end"] = place
            if p < open_one["p_value"]:
                open_one |= {"p_value": p, "strongest": int(table[ROW][k])}
                strongest[open_one["number"]] = k
        self.judged += table.height
        for each in self.latest:
            if each["number"] in strongest:
                assert judged.frame is not None
                assert judged.features is not None
                at = [strongest[each["number"]]]
                each["why"] = unusual_columns(model, judged.frame[at], judged.features[at])[0]
        return [each for each in self.latest if each["number"] > known]

    def a_day(self) -> float | None:
        """Return the episodes a day; None where rows do not tell their time, or less than a day."""
        if self.first is None or self.last is None or self.last - self.first < DAY:
            return None
        return self.count * DAY / (self.last - self.first)

    def state(self) -> dict[str, Any]:
        """Return all fields, as JSON values."""
        return asdict(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Restore from `state()`."""
        return cls(**state)


def most_a_day(model: FusedDetector) -> float:
    """Return how many false episodes a day a model allows in the long run, at its usual step.

    Episodes begin `QUIET` rows apart at least, and each holds an alarm.
    """
    assert model.windows_ is not None
    return min(model.false_alarm_rate, 1 / (QUIET + 1)) * DAY / model.windows_.step_


def episode_line(episode: dict[str, Any], order: str | None) -> str:
    """Tell an episode in one line."""
    when = time_words(episode["time"], order)
    return (
        f"Alarm {episode['number']:,}, from row {episode['row']:,}{when and f' ({when})'} on: row "
        f"{episode['strongest']:,} has p = {number(episode['p_value'])}: {episode['why']}"
    )


def time_words(seconds: float | None, order: str | None) -> str:
    """Format a time as the column of times has it: a date, or a number."""
    if seconds is None:
        return ""
    if order in (None, NUMBER):
        return number(seconds, 15)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, OSError, ValueError):
        return ""
