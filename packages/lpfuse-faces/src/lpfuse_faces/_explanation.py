"""Why a video has the score that it has, in figures and in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lpfuse._arrays.operations import Host
from lpfuse._format import number
from lpfuse.ensemble.components import Combination
from lpfuse_faces._detector import VideoDetector
from lpfuse_faces._pooling import frame_shares
from lpfuse_faces._verdict import VideoVerdict

NEGLIGIBLE = 1e-3  # parts below this share of the largest are not named, or shown as ≈ 0
NO_BREAK = "\N{NO-BREAK SPACE}"


def usual_contributions(model: VideoDetector) -> Host | None:
    """Return what each learner adds to the score of a genuine video, on average.

    The scores are out of fold, so that learners speak of them as of new videos.

    Parameters
    ----------
    model : VideoDetector
        Fitted.

    Returns
    -------
    ndarray of shape (R,) or None
        None where a score is no sum.
    """
    frames = model.out_of_fold_
    combination = Combination(model.fused_.scaler_, model.fused_.fusion_)
    if not combination.is_additive:
        return None
    parts = np.nan_to_num(combination.contributions(frames.scores))
    genuine = np.unique(frames.video[frames.labels > 0])
    added = [
        frame_shares(rows.sum(axis=1), model.pooling) @ rows
        for rows in (parts[frames.video == video] for video in genuine)
    ]
    return np.mean(added, axis=0)


@dataclass(frozen=True, eq=False)
class Explained:
    """A verdict, compared with what is usual for genuine videos.

    A learner may add little to every score, or take from it; only what it does otherwise than for
    genuine videos says something of this one. These differences add up to the difference of the
    scores.

    Attributes
    ----------
    verdict : VideoVerdict
        What a detector said.
    usual : ndarray of shape (R,) or None
        `usual_contributions` of that detector.
    """

    verdict: VideoVerdict
    usual: Host | None = None

    @property
    def threshold(self) -> float:
        """Scores below it are called forged."""
        return self.verdict.score - self.verdict.decision

    @property
    def learners(self) -> dict[str, float]:
        """How much more, or less, each learner adds than for genuine videos."""
        return self._differences(self.verdict.learner_names)

    @property
    def sets(self) -> dict[str, float]:
        """The same of the learners of each set of features together."""
        return self._differences(self.verdict.learner_sets)

    @property
    def regions(self) -> dict[str, float]:
        """The same of the learners of each region of the face together."""
        return self._differences([name.rpartition("/")[2] for name in self.verdict.learner_sets])

    @property
    def values(self) -> dict[str, Any]:
        """All of it as plain values."""
        verdict = self.verdict
        return {
            "verdict": verdict.verdict,
            "score": verdict.score,
            "threshold": self.threshold,
            "p_value": verdict.pvalue,
            "frames": verdict.n_frames,
            "faces": verdict.n_frames - verdict.n_without_face,
            "regions": self.regions,
            "learners": self.learners,
            "time": verdict.time.tolist(),
            "frame_scores": verdict.frame_scores.tolist(),
            "random_weights": list(verdict.warnings),
        }

    def sentences(self, few: int = 3) -> list[str]:
        """Return what there is to say of the video; its warnings are not among it.

        Parameters
        ----------
        few : int, default=3
            How many regions and learners are named at most.
        """
        verdict = self.verdict
        seen = f"{verdict.n_frames - verdict.n_without_face} of {verdict.n_frames}"
        found = [f"A face was found in {seen} frames that were looked at."]
        if not verdict.has_face:
            return found
        bar = f"the threshold is {number(self.threshold)}, and forgeries score below it"
        if not np.isfinite(self.threshold):
            bar = "there is no threshold, since the model has seen too few genuine videos"
        share = f"P-value {number(verdict.pvalue)}: the share of genuine videos that score as low"
        found.insert(0, f"Score {number(verdict.score)}; {bar}. {share}.")
        for what, parts in (("region", self.regions), ("learner", self.learners)):
            if lowest := _named(_lowest(parts, few)):
                found.append(f"Against it, by {what} (0: as genuine videos): {lowest}.")
        return found

    def _differences(self, labels: list[str]) -> dict[str, float]:
        parts = self.verdict.contributions
        if parts is None or self.usual is None or not self.verdict.has_face:
            return {}
        sums = dict.fromkeys(labels, 0.0)
        for label, part in zip(labels, parts - self.usual, strict=True):
            sums[label] += float(part)
        return sums


def _lowest(parts: Mapping[str, float], few: int) -> dict[str, float]:
    """Those that are below zero, and not by next to nothing."""
    least = NEGLIGIBLE * max(map(abs, parts.values()), default=0.0)
    order = sorted(parts, key=lambda name: parts[name])
    return {name: parts[name] for name in order[:few] if parts[name] < -least}


def _named(parts: Mapping[str, float]) -> str:
    """Return names with their figures; no line is broken between them."""
    told = (f"{name} {number(part)}" for name, part in parts.items())
    return ", ".join(text.replace(" ", NO_BREAK) for text in told)
