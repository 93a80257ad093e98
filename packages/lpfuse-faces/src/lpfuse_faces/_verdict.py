"""What a video detector says of one video, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lpfuse._arrays.operations import Host

SEVERAL = "several"  # what a learner is filed under that sees more than one set, or region


@dataclass(frozen=True, eq=False)
class VideoVerdict:
    """What a video detector says of one video.

    Attributes
    ----------
    name : str
        The video.
    score : float
        High = genuine; NaN where no frame shows a face.
    decision : float
        Signed distance to the threshold: negative for forgeries. Infinite where the detector has
        seen too few genuine videos to have a threshold.
    pvalue : float
        How unusual the score is among genuine videos: small for forgeries.
    frame_scores : ndarray of shape (n,)
        Scores of the frames that show a face.
    time : ndarray of shape (n,)
        Their times in seconds.
    contributions : ndarray of shape (R,) or None
        What each learner adds to the score; None where that is no sum. Pooled by the mean it is
        what the learner adds on average; by a quantile, what it adds at the frames on either side.
    learner_names : list of str
        Names of the R learners.
    learner_sets : list of str
        The feature set that each of them sees.
    n_frames, n_without_face : int
        Frames that were looked at, and those of them that show no face.
    warnings : tuple of str
        What a reader must know, such as that features come from random weights.
    """

    name: str
    score: float
    decision: float
    pvalue: float
    frame_scores: Host
    time: Host
    contributions: Host | None
    learner_names: list[str]
    learner_sets: list[str]
    n_frames: int
    n_without_face: int
    warnings: tuple[str, ...] = ()

    @property
    def has_face(self) -> bool:
        """Whether there was anything to judge by."""
        return not np.isnan(self.score)

    @property
    def is_genuine(self) -> bool | None:
        """Whether the video passes for genuine; None where that cannot be told."""
        return bool(self.decision >= 0) if np.isfinite(self.decision) else None

    @property
    def verdict(self) -> str:
        """In words: "genuine", "forged", "undecided" or "no face found"."""
        if not self.has_face:
            return "no face found"
        return {True: "genuine", False: "forged", None: "undecided"}[self.is_genuine]

    @property
    def by_set(self) -> dict[str, float]:
        """What the learners of each feature set add to the score together."""
        return self._summed(self.learner_sets)

    @property
    def by_region(self) -> dict[str, float]:
        """What the learners of each region of the face add to the score together."""
        return self._summed([name.rpartition("/")[2] for name in self.learner_sets])

    @property
    def by_algorithm(self) -> dict[str, float]:
        """What the learners of each learner add to the score together."""
        return self._summed([name.partition(": ")[0] for name in self.learner_names])

    def __str__(self) -> str:
        seen = f"{self.n_frames - self.n_without_face} of {self.n_frames} frames show a face"
        numbers = f"score {self.score:.3g}, p-value {self.pvalue:.2g}; " if self.has_face else ""
        lines = [f"{self.name}: {self.verdict} ({numbers}{seen})"]
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])

    def _summed(self, labels: list[str]) -> dict[str, float]:
        if self.contributions is None:
            return {}
        sums = dict.fromkeys(labels, 0.0)
        for label, value in zip(labels, self.contributions, strict=True):
            sums[label] += float(value)
        return sums
