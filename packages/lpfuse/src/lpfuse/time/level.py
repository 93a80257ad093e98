"""An adaptive level for rows in time order, the stream of rows after a fit, and alarm episodes."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._validation.params import check_count, check_share, check_values
from lpfuse.time.order import read_times
from lpfuse.time.windows import History

# Chosen on 40 streams, where AUC and kept rates hardly change between half and twice of these
# (docs/adr/0050).
HALF_LIFE = 30  # rows after which the strangeness of a row counts half in those that follow
WINDOW = 2_000  # latest rows that a new one is compared with
BURST = 100  # alarms that may come at once
QUIET, LONGEST = 50, 100  # rows without an alarm that end an episode, and its longest duration


class AdaptiveLevel:
    r"""P-values of rows in time order, with a bound on alarms whatever the rows do.

    The strangeness of a row is its negative score :math:`s_t`. Its evidence adds the weighted mean
    up to this row, :math:`e_t = s_t + \bar s_t`, with weights that halve every `half_life` rows. A
    row is compared with n calibration rows, which count half, and the last m rows,

    .. math:: q_t = \frac{\frac n2 F(e_t) + \#\{u: e_u \ge e_t\}}{\frac n2 + m}

    where F is the share of the calibration rows that are as strange. The level follows the alarms
    (adaptive conformal inference, Gibbs and Candès 2021): a row is an alarm where :math:`q_t \le
    a_t`, and

    .. math:: a_{t+1} = \min\Big(\alpha,\; a_t + \frac{\alpha}{b}
        \bigl(\alpha - 1[q_t \le a_t]\bigr)\Big)

    so that T consecutive rows raise at most :math:`\alpha T + b + 1` alarms, without any
    assumption. The p-value is q stretched so that :math:`a_t` becomes :math:`\alpha`.

    Parameters
    ----------
    calibration : array-like of shape (n,)
        Scores of normal rows that came after those that were learnt from, in their order, high =
        normal.
    rate : float in (0, 0.5]
        :math:`\alpha`, the share of rows that may be alarms in the long run.
    half_life : int, default=30
        Rows after which strangeness counts half.
    window : int, default=2000
        Latest rows that a new one is compared with.
    burst : int, default=100
        b: how many alarms may come at once, before the level falls to zero.

    Notes
    -----
    Beyond the strangest calibration row F falls as one over the distance: it orders rows, and
    promises nothing about probabilities below 1/(n + 1).

    References
    ----------
    Gibbs and Candès (2021). Adaptive conformal inference under distribution shift. NeurIPS 34.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse.time import AdaptiveLevel
    >>> rng = np.random.default_rng(0)
    >>> level = AdaptiveLevel(rng.normal(size=300), rate=0.05)
    >>> drift = rng.normal(size=5000) - np.linspace(0, 20, 5000)  # ever stranger
    >>> bool((level.update(drift) <= 0.05).sum() <= 0.05 * 5000 + 101)
    True
    """

    def __init__(
        self,
        calibration: Any,
        rate: float,
        *,
        half_life: int = HALF_LIFE,
        window: int = WINDOW,
        burst: int = BURST,
    ) -> None:
        scores = check_values(calibration, "calibration")
        if not len(scores):
            raise ValueError("calibration must hold the score of a normal row, got none.")
        self.rate = check_share("rate", rate, of="the rows")
        self.decay = 0.5 ** (1 / check_count("half_life", half_life))
        self.window, self.burst = check_count("window", window), check_count("burst", burst)
        self.latest: deque[float] = deque()
        self._forget()
        self.calibration = np.sort([self._evidence(-score) for score in scores.tolist()])
        strangest = self.calibration[-max(2, len(scores) // 10) :]
        self.spread = max(float((strangest - strangest[0]).mean()), np.finfo(float).tiny)
        self._forget()

    def _forget(self) -> None:
        self.mean = self.weight = 0.0
        self.level = self.rate
        self.latest.clear()
        self._sorted: list[float] = []

    def _evidence(self, strangeness: float) -> float:
        self.weight = self.decay * self.weight + 1.0
        self.mean += (strangeness - self.mean) / self.weight  # exact where rows stay the same
        return strangeness + self.mean

    def update(self, scores: Any) -> Host:
        """Return the p-values of the next rows.

        Parameters
        ----------
        scores : array-like of shape (m,)
            Of the rows that follow, in their order, high = normal. NaN where there is none.

        Returns
        -------
        ndarray of shape (m,)
            Small for alarms, which are the rows with a p-value of at most the rate; NaN where the
            score is.
        """
        values = check_values(scores, "scores", allow_nan=True)
        found = np.full(len(values), np.nan)
        for t in np.flatnonzero(~np.isnan(values)).tolist():
            found[t] = self._step(-float(values[t]))
        return found

    def _step(self, strangeness: float) -> float:
        e = self._evidence(strangeness)
        half, m = 0.5 * len(self.calibration), len(self._sorted)
        alike = m - bisect_left(self._sorted, e)
        q = min(1.0, (half * self._share(e) + alike) / (half + m))
        insort(self._sorted, e)
        self.latest.append(e)
        if len(self.latest) > self.window:
            del self._sorted[bisect_left(self._sorted, self.latest.popleft())]
        rate, level = self.rate, max(self.level, 0.0)
        is_alarm = q <= level and level > 0
        p = q * rate / level if is_alarm else rate + (1 - rate) * (q - level) / (1 - level)
        self.level = min(rate, self.level + rate / self.burst * (rate - is_alarm))
        return min(p, rate) if is_alarm else max(p, float(np.nextafter(rate, 1)))

    def _share(self, e: float) -> float:
        """Return the share of calibration rows that are as strange."""
        n = len(self.calibration)
        beyond = e - float(self.calibration[-1])
        if beyond > 0:
            return self.spread / (self.spread + beyond) / (n + 1)
        return float(1 + n - np.searchsorted(self.calibration, e)) / (n + 1)

    def state(self) -> dict[str, Any]:
        """Return what `restore` needs, as JSON values."""
        mean = [self.mean, self.weight]
        return {"mean": mean, "level": self.level, "latest": list(self.latest)}

    def restore(self, state: dict[str, Any]) -> Self:
        """Restore from `state()` of a level with the same calibration.

        Parameters
        ----------
        state : dict
            As JSON values.
        """
        latest = check_values(state["latest"], "latest").tolist()[-self.window :]
        numbers = check_values([*state["mean"], state["level"]], "state").tolist()
        self.mean, self.weight, self.level = numbers
        self.latest, self._sorted = deque(latest), sorted(latest)
        return self


class Stream:
    """The rows that follow a fit, judged in their order: windows and level continue.

    `FusedDetector.follow` makes one, which begins after the training rows.

    Parameters
    ----------
    fused : FusedDetector
        Fitted with ``time=`` or ``order="time"``.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import FusedDetector
    >>> rng = np.random.default_rng(0)
    >>> fused = FusedDetector(["gmm", "histogram"], random_state=0)
    >>> stream = fused.fit(rng.normal(size=(300, 2)), order="time").follow()
    >>> X = rng.normal(size=(60, 2))
    >>> X[40:] += 6
    >>> found = [stream.judge(part).pvalues for part in np.split(X, 6)]  # as they come
    >>> int(np.flatnonzero(np.concatenate(found) <= 0.05)[0])
    40
    """

    def __init__(self, fused: Any) -> None:
        self.fused = fused
        self.history: History = fused.windows_.history_
        rate = fused.false_alarm_rate if fused.contamination is None else fused.contamination
        result = fused.held_out_
        scores = result.fused[result.is_calibrating]
        self.level = AdaptiveLevel(scores[~np.isnan(scores)], rate)

    def judge(self, X: Any, time: Any = None) -> Any:
        """Return the verdicts of the next rows, with p-values by the adaptive level.

        Parameters
        ----------
        X : array-like or data frame of shape (m, d)
            Rows in their order.
        time : array-like of shape (m,), optional
            Their times; without them they follow at the usual step.

        Returns
        -------
        Verdicts
            As ``fused.verdicts`` gives them.
        """
        return self.fused.verdicts(X, time, stream=self)

    def features(self, X: Any, time: Any = None) -> Host:
        """Return the next rows with their windows, and move on.

        Parameters
        ----------
        X, time
            As in `judge`.

        Returns
        -------
        ndarray of shape (m, d × features)
            As ``fused.explain`` and ``fused.teach`` take them.
        """
        rows, time = self.fused.plain_rows(X, time)
        windows = self.fused.windows_
        seconds = windows.seconds_of(time, len(rows), self.history)
        features, self.history = windows.follow(rows, seconds, self.history)
        return features

    def state(self) -> dict[str, Any]:
        """Return what `restore` needs, as JSON values."""
        rows = [[None if np.isnan(cell) else cell for cell in row] for row in self.history.rows]
        return {"level": self.level.state(), "rows": rows, "time": self.history.time}

    def restore(self, state: dict[str, Any]) -> Self:
        """Continue where `state()` was taken, also in another process.

        Parameters
        ----------
        state : dict
            As JSON values.
        """
        d = self.fused.windows_.n_features_in_
        rows = np.array(state["rows"], dtype=np.float64).reshape(-1, d)
        self.level.restore(state["level"])
        self.history = History(rows, float(state["time"]))
        return self


@dataclass(frozen=True)
class Episode:
    """Alarms that belong together.

    Attributes
    ----------
    start, end : int
        The first row and the last alarm.
    strongest : int
        The row with the smallest p-value.
    n_alarms : int
        Alarms among these rows.
    pvalue : float
        The smallest.
    start_time, end_time : float or None
        In seconds, where times were told.
    """

    start: int
    end: int
    strongest: int
    n_alarms: int
    pvalue: float
    start_time: float | None = None
    end_time: float | None = None


def alarm_episodes(
    pvalues: Any,
    rate: float,
    *,
    time: Any = None,
    quiet: int = QUIET,
    longest: int = LONGEST,
) -> list[Episode]:
    """Gather alarms into episodes.

    Parameters
    ----------
    pvalues : array-like of shape (n,)
        Of rows in their order; NaN is no alarm.
    rate : float
        A row is an alarm where its p-value is at most this.
    time : array-like of shape (n,), optional
        Times of the rows.
    quiet : int, default=50
        An episode ends where so many rows pass without an alarm.
    longest : int, default=100
        Rows after which an alarm begins another episode, so that what lasts is told again.

    Returns
    -------
    list of Episode
        In their order.

    Examples
    --------
    >>> from lpfuse.time import alarm_episodes
    >>> found = alarm_episodes([0.5, 0.01, 0.4, 0.001, 0.9], rate=0.05)
    >>> [(each.start, each.end, each.strongest, each.n_alarms) for each in found]
    [(1, 3, 3, 2)]
    """
    values = check_values(pvalues, "pvalues", allow_nan=True)
    seconds = None if time is None else read_times(time, len(values))
    groups: list[list[int]] = []
    for row in np.flatnonzero(values <= rate).tolist():
        if groups and row - groups[-1][-1] <= quiet and row - groups[-1][0] < longest:
            groups[-1].append(row)
        else:
            groups.append([row])
    return [_episode(rows, values, seconds) for rows in groups]


def _episode(rows: Sequence[int], values: NDArray[Any], seconds: Host | None) -> Episode:
    strongest = rows[int(np.argmin(values[list(rows)]))]
    times = (None, None) if seconds is None else (float(seconds[rows[0]]), float(seconds[rows[-1]]))
    return Episode(rows[0], rows[-1], strongest, len(rows), float(values[strongest]), *times)
