"""Others that watch: each makes one number of all rows so far, larger where more speaks for change.

Of ten columns and the fused score, in standard deviations of the reference, a watcher makes a
number after each row. One that has a threshold, and no number, is run with many of them: the number
is the strictest that was crossed. Packages are imported late. Nothing here needs lpfuse: some of
them want other versions of NumPy, and see the streams as files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Host = Any
Watcher = Callable[[Host, Host], Any]  # reference, rows → numbers, or several by name


def windows(reference: Host, rows: Host, size: int = 500, every: int = 50) -> Host:
    """Two-sample Kolmogorov–Smirnov tests of the last rows: −log₁₀ of the least p-value.

    What evidently's report tests for columns of up to 1,000 rows, by its documentation.
    """
    from scipy.stats import ks_2samp

    found = np.zeros(len(rows))
    for end in range(size, len(rows) + 1, every):
        part = rows[end - size : end]
        tests = [ks_2samp(reference[:, j], part[:, j]) for j in range(rows.shape[1])]
        least = min(test.pvalue for test in tests)
        found[end - 1 : end - 1 + every] = -np.log10(max(least, 1e-300))
    return found


def adwin(reference: Host, rows: Host) -> Host:
    """river's ADWIN on each column, with falling δ."""
    from river.drift import ADWIN

    def made(strictness: float) -> Any:
        return ADWIN(delta=10.0**-strictness)

    grid = (0.1, 0.3, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 8)
    return _strictest(made, grid, reference, rows)


def page_hinkley(reference: Host, rows: Host) -> Host:
    """river's Page–Hinkley test on each column, with rising thresholds; shifts from 0.1 σ on."""
    from river.drift import PageHinkley

    def made(strictness: float) -> Any:
        return PageHinkley(threshold=strictness, delta=0.1, alpha=1.0)

    grid = (15, 20, 24, 27, 30, 33, 36, 39, 42, 46, 50, 55, 60, 70, 80, 100)
    return _strictest(made, grid, reference, rows)


def _strictest(made: Any, grid: Any, reference: Host, rows: Host) -> Host:
    """The largest number of a grid whose detector has spoken by then, on any column."""
    found = np.zeros(len(rows))
    for strictness in grid:
        first = len(rows)
        for j in range(rows.shape[1]):
            detector = made(strictness)
            for value in reference[:, j].tolist():
                detector.update(value)
            detector = detector if not detector.drift_detected else made(strictness)
            for i, value in enumerate(rows[:first, j].tolist()):
                detector.update(value)
                if detector.drift_detected:
                    first = min(first, i)
                    break
        found[first:] = strictness
        if first == len(rows):
            break
    return found


def nonconform(reference: Host, rows: Host) -> dict[str, Host]:
    """nonconform's martingales on exact sequential ranks: Shiryaev–Roberts, and restarted."""
    from nonconform.martingales import SimpleJumperMartingale
    from nonconform.monitoring import SequentialRankConformalizer

    sums = np.full(len(rows), -np.inf)
    restarted = np.full(len(rows), -np.inf)
    for j in range(rows.shape[1]):
        ranks = SequentialRankConformalizer(seed=j).prime_many(reference[:, j])
        martingale = SimpleJumperMartingale()
        for i, value in enumerate(rows[:, j].tolist()):
            state = martingale.update(ranks.update(value))
            sums[i] = max(sums[i], state.log_shiryaev_roberts)
            restarted[i] = max(restarted[i], state.log_restarted_martingale)
    return {"nonconform, sums": sums, "nonconform, restarted": restarted}


def alibi_cvm(reference: Host, rows: Host) -> Host:
    """alibi-detect's online Cramér–von Mises statistics over windows, less their thresholds."""
    from alibi_detect.cd import CVMDriftOnline

    detector = CVMDriftOnline(
        reference, ert=50, window_sizes=[100], n_bootstraps=1_000, verbose=False
    )
    return _alibi(detector, rows)


def _alibi(detector: Any, rows: Host) -> Host:
    found = np.empty(len(rows))
    for i, row in enumerate(rows):
        said = detector.predict(row)["data"]
        statistic = np.asarray(said["test_stat"], dtype=float)
        line = np.asarray(said["threshold"], dtype=float)
        found[i] = np.nanmax(statistic / line)
    return np.nan_to_num(found)


PEERS: dict[str, Watcher] = {
    "windows, K–S": windows,
    "river, ADWIN": adwin,
    "river, Page–Hinkley": page_hinkley,
    "nonconform": nonconform,
    "alibi-detect, CVM": alibi_cvm,
}
