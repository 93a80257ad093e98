"""How often a threshold for 10 % false alarms is crossed by unseen normal rows.

``python -m research.studies.learners.false_alarms`` prints the mean over the development sets; the
threshold is that of the learner itself: of SVDD the surface of the ball, of the others by rows that
refits have not seen or, by name, by their training rows. Needs LPFUSE_DATA.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from lpfuse import SVDD, KernelPCADetector, OneClassGP
from lpfuse.detectors import KernelWidthWarning
from research.common.splits import study_split
from research.common.tables import markdown
from research.studies.defaults.study import MOST_TEST, MOST_TRAIN
from research.studies.running import load_set, set_names

MEAN = {"score_type": "mean"}  # the default of that time, as docs/adr/0004 tells it
LEARNERS = {
    f'{name}, gamma="{gamma}"': make(gamma=gamma, **settings)
    for gamma in ("scale", "narrow")
    for name, make, settings in (
        ("SVDD(nu=0.1)", SVDD, {}),
        ('OneClassGP("mean")', OneClassGP, MEAN),
        (
            'OneClassGP("mean", offset_from="training")',
            OneClassGP,
            {"offset_from": "training", **MEAN},
        ),
        ("KernelPCADetector()", KernelPCADetector, {}),
        (
            'KernelPCADetector(offset_from="training")',
            KernelPCADetector,
            {"offset_from": "training"},
        ),
    )
}


def rates(seed: int = 0) -> Iterator[list[float]]:
    """For each set, the share of unseen normal rows that each learner rejects."""
    for name in set_names():
        parts = study_split(*load_set(name), seed, most_train=MOST_TRAIN, most_test=MOST_TEST)
        yield [
            float((detector.fit(parts.train).predict(parts.test) == -1).mean())
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
    print(markdown(rows, numbers=False))


if __name__ == "__main__":
    main()
