"""How often a threshold for 10 % false alarms is crossed by unseen normal rows.

``python -m research.studies.learners.false_alarms`` prints the mean over the development sets; the
threshold is that of the learner itself, from its training rows. Needs LPFUSE_DATA.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from lpfuse import SVDD, KernelPCADetector, OneClassGP
from lpfuse.detectors import KernelWidthWarning
from research.studies.defaults.data import read_sets, split
from research.studies.defaults.tables import markdown

LEARNERS = {
    f'{name}, gamma="{gamma}"': make(gamma=gamma, **settings)
    for gamma in ("scale", "narrow")
    for name, make, settings in (
        ("SVDD(nu=0.1)", SVDD, {}),
        ("OneClassGP()", OneClassGP, {}),
        ('OneClassGP(contamination="auto")', OneClassGP, {"contamination": "auto"}),
        ("KernelPCADetector()", KernelPCADetector, {}),
    )
}


def rates(seed: int = 0) -> Iterator[list[float]]:
    """For each set, the share of unseen normal rows that each learner rejects."""
    for _, X, is_anomaly in read_sets():
        parts = split(X, is_anomaly, seed)
        yield [
            float((detector.fit(parts.train).predict(parts.test_normal) == -1).mean())
            for detector in LEARNERS.values()
        ]


def main() -> None:
    warnings.simplefilter("ignore", KernelWidthWarning)
    table = 100 * np.array(list(rates()))
    rows = [["learner", "false alarms in %, mean", "least", "most"]]
    for name, column in zip(LEARNERS, table.T, strict=True):
        rows.append(
            [name, *(f"{value:.1f}" for value in (column.mean(), *np.sort(column)[[0, -1]]))]
        )
    print(markdown(rows))


if __name__ == "__main__":
    main()
