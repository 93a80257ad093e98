"""What judges a stream: `FusedDetector` in its forms, and what people use instead.

A method takes a stream and a seed, learns from the healthy start, and returns a `Judged` for each
of its names: p-values of the rows after the start, of which none looks ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from lpfuse import FusedDetector
from lpfuse._arrays.operations import Host
from lpfuse.ensemble import folds
from lpfuse.ensemble.defaults import Strategy
from lpfuse.threshold import conformal_pvalues
from lpfuse.time import AdaptiveLevel, Windows
from research.studies.streams.measures import RATE
from research.studies.streams.sources import AS_IT_IS, StreamRows

OURS, FIXED, UNSAID = "lpfuse", "lpfuse, fixed level", "lpfuse, order not said"
NO_WINDOWS = "without windows"
T2, T2_WINDOWS = "Hotelling's T², columns", "Hotelling's T², windows"
T2_ADAPTIVE = "Hotelling's T², windows, adaptive level"
Z_SCORE, RANDOM = "moving z-score of 48 rows", "random scores"
LATER = "row number (later is stranger)"
RIVALS = (FIXED, UNSAID, T2, T2_WINDOWS, T2_ADAPTIVE, Z_SCORE, RANDOM, LATER)
# Options of the adaptive level, one at a time; all of one fit.
LEVELS: dict[str, dict[str, int]] = {
    "no smoothing (half-life 1)": {"half_life": 1},
    "half-life 15": {"half_life": 15},
    "half-life 60": {"half_life": 60},
    "burst 50": {"burst": 50},
    "burst 200": {"burst": 200},
    "burst 400": {"burst": 400},
    "window 1,000": {"window": 1_000},
    "window 4,000": {"window": 4_000},
}
MOVING = 48  # rows of the moving z-score


class Judged(NamedTuple):
    """P-values of the rows after the healthy start, and whether a rate was promised."""

    pvalues: Host
    promise: bool = True


Method = Callable[[StreamRows, int], dict[str, Judged]]


# ---------------------------------------------------------------------------------------- lpfuse


def _fitted(stream: StreamRows, seed: int, make: Any = FusedDetector, **options: Any) -> Any:
    n = stream.healthy
    fused = make(false_alarm_rate=RATE, random_state=seed, **options)
    return fused.fit(stream.X[:n], time=stream.time[:n])


def _judged(fused: Any, stream: StreamRows) -> Judged:
    n = stream.healthy
    pvalues = fused.pvalues(stream.X[n:], stream.time[n:])
    return Judged(pvalues, bool(fused.calibration_promise_))


def ours(stream: StreamRows, seed: int) -> dict[str, Judged]:
    """One fit, and what each level makes of its scores."""
    fused, n = _fitted(stream, seed), stream.healthy
    found = _judged(fused, stream)
    X, time = stream.X[n:], stream.time[n:]
    fixed = fused.pvalues(X, time, level="fixed")
    scores, held_out = fused.score_samples(X, time), fused.held_out_
    calibration = held_out.fused[held_out.is_calibrating]
    others = {
        name: Judged(AdaptiveLevel(calibration, RATE, **options).update(scores), found.promise)
        for name, options in LEVELS.items()
    }
    return {OURS: found, FIXED: Judged(fixed, found.promise), **others}


def default(stream: StreamRows, seed: int) -> dict[str, Judged]:
    """The default alone."""
    return {OURS: _judged(_fitted(stream, seed), stream)}


@contextmanager
def _instead(**names: Any) -> Iterator[None]:
    """Exchange what has no parameter, for a fit."""
    with patch.multiple(folds, **names):
        yield


def _with(name: str, stream: StreamRows, seed: int, **names: Any) -> dict[str, Judged]:
    with _instead(**names):
        return {name: _judged(_fitted(stream, seed), stream)}


class _RobustStrategy(Strategy):
    def choose_members(self, training: Any) -> Any:
        return super().choose_members(replace(training, gap=None))


class _Robust(FusedDetector):
    """With robust detectors (docs/adr/0049), as where rows have no order."""

    def _strategy(self, rows: Any) -> Strategy:
        return _RobustStrategy(**self._choices(rows))


def robust(stream: StreamRows, seed: int) -> dict[str, Judged]:
    """With the robust detectors of the default pool."""
    return {"robust detectors": _judged(_fitted(stream, seed, _Robust), stream)}


def no_rehearsal(stream: StreamRows, seed: int) -> dict[str, Judged]:
    """Calibrated by scores out of folds."""
    fused = _fitted(stream, seed, calibration="plain")
    return {"no rehearsal (plain)": _judged(fused, stream)}


def unsaid(stream: StreamRows, seed: int) -> dict[str, Judged]:
    """As people do who do not say that rows come in time order."""
    n = stream.healthy
    rows = stream.X if stream.X.shape[1] > 1 else _by_hand(stream.X[:, 0])
    fused = FusedDetector(false_alarm_rate=RATE, random_state=seed).fit(rows[:n])
    return {UNSAID: Judged(fused.pvalues(rows[n:]), bool(fused.calibration_promise_))}


def _by_hand(values: Host, length: int = 12) -> Host:
    """Value, difference, and mean and spread of the last rows."""
    found = []
    for t in range(len(values)):
        last = values[max(0, t + 1 - length) : t + 1]
        spread = last.std(ddof=1) if len(last) > 1 else 0.0
        found.append([values[t], values[t] - values[max(0, t - 1)], last.mean(), spread])
    return np.array(found)


# ---------------------------------------------------------------------------------------- rivals


def _distances(learnt: Host, rows: Host) -> Host:
    """Squared distances of Mahalanobis from the rows that were learnt."""
    covariance = np.atleast_2d(np.cov(learnt, rowvar=False))
    centred = rows - learnt.mean(axis=0)
    found: Host = np.einsum("ij,jk,ik->i", centred, np.linalg.pinv(covariance), centred)
    return found


def t_squared(stream: StreamRows, seed: int) -> dict[str, Judged]:
    """Hotelling's T², ranked in the healthy start or by the adaptive level."""
    n, found = stream.healthy, {}
    windows = Windows()
    start = windows.fit_transform(stream.X[:n], time=stream.time[:n])
    later = windows.transform(stream.X[n:], stream.time[n:])
    for name, learnt, rows in ((T2, stream.X[:n], stream.X[n:]), (T2_WINDOWS, start, later)):
        pvalues = conformal_pvalues(-_distances(learnt, learnt), -_distances(learnt, rows))
        found[name] = Judged(pvalues)
    third = n // 3
    rehearsed = _distances(start[:third], start[third + windows.length - 1 :])
    level = AdaptiveLevel(-rehearsed, RATE)
    found[T2_ADAPTIVE] = Judged(level.update(-_distances(start, later)))
    return found


def z_score(stream: StreamRows, seed: int) -> dict[str, Judged]:
    """The largest distance of a column from the mean of the last rows, in their deviations."""
    values = np.lib.stride_tricks.sliding_window_view(stream.X, MOVING, axis=0)[:-1]
    spread = np.maximum(values.std(axis=2), 1e-9 * (1 + np.abs(values).max(axis=2)))
    z = np.abs(stream.X[MOVING:] - values.mean(axis=2)) / spread
    strange = z.max(axis=1)
    n = stream.healthy - MOVING
    return {Z_SCORE: Judged(conformal_pvalues(-strange[:n], -strange[n:]))}


def random_scores(stream: StreamRows, seed: int) -> dict[str, Judged]:
    """P-values that know nothing."""
    rng = np.random.default_rng([seed, len(stream.X)])
    return {RANDOM: Judged(rng.random(len(stream.X) - stream.healthy))}


def row_number(stream: StreamRows, seed: int) -> dict[str, Judged]:
    """P-values that fall from row to row: what a trend in time alone would have."""
    n = len(stream.X) - stream.healthy
    return {LATER: Judged(1 - np.arange(1, n + 1) / (n + 1))}


# ------------------------------------------------------------------------------------------ tables

_VALUE = partial(Windows, features=("value",))
WITHOUT = partial(_with, NO_WINDOWS, Windows=_VALUE)
COMPETITORS: dict[str, Method] = {
    OURS: ours, UNSAID: unsaid, T2: t_squared,
    Z_SCORE: z_score, RANDOM: random_scores, LATER: row_number,
}  # fmt: skip
ABLATIONS: dict[str, Method] = {
    NO_WINDOWS: WITHOUT,
    "windows of 6": partial(_with, "windows of 6", Windows=partial(Windows, length=6)),
    "windows of 24": partial(_with, "windows of 24", Windows=partial(Windows, length=24)),
    "no rehearsal (plain)": no_rehearsal,
    "rehearsal on a half": partial(_with, "rehearsal on a half", REHEARSED=1 / 2),
    "rehearsal on two thirds": partial(_with, "rehearsal on two thirds", REHEARSED=2 / 3),
    "1 block a fold": partial(_with, "1 block a fold", BLOCKS=1),
    "2 blocks a fold": partial(_with, "2 blocks a fold", BLOCKS=2),
    "robust detectors": robust,
}
CONTROLS: dict[str, Method] = {OURS: default, NO_WINDOWS: WITHOUT, T2: t_squared}


def methods_for(change: str) -> Mapping[str, Method]:
    """What is measured where a control changes the streams, or none does."""
    return COMPETITORS | ABLATIONS if change == AS_IT_IS else CONTROLS
