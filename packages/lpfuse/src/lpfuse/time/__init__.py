"""Rows in time order: windows, an adaptive level, and alarms as episodes."""

from lpfuse.time.level import AdaptiveLevel, Episode, Stream, alarm_episodes
from lpfuse.time.windows import Windows

__all__ = ["AdaptiveLevel", "Episode", "Stream", "Windows", "alarm_episodes"]
