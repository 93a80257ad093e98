"""What a fitted video detector says of videos: scores, decisions, p-values, verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.components import Combination, HeldOutScores
from lpfuse.threshold import conformal_pvalues
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces._frame_table import (
    FrameScores,
    Index,
    OutOfFoldFrames,
    check_sets,
    check_videos,
    table_of,
    video_of_frames,
)
from lpfuse_faces._pooling import frame_shares, pooled
from lpfuse_faces._verdict import SEVERAL, VideoVerdict

# Frames whose features stand side by side while videos are scored: of three networks and three
# regions 21,504 columns, 350 MB.
FRAMES_AT_A_TIME = 4096


class VideoScores(BaseEstimator):
    """The methods of a fitted :class:`VideoDetector` that score videos.

    `fit`, which a subclass has, leaves behind the attributes that are declared here.
    """

    pooling: str | float
    fused_: FusedDetector
    held_out_: HeldOutScores  # videos, as the fused detector's are frames
    labels_: Host
    frame_videos_: Index  # the video of each frame that taught the weights
    sets_: list[str]
    widths_: dict[str, int]
    warnings_: tuple[str, ...]
    offset_: float

    def learner_scores(self, videos: Sequence[VideoFeatures]) -> FrameScores:
        """Return the raw score of each frame by each learner.

        Parameters
        ----------
        videos : sequence of n VideoFeatures
            With the feature sets of the training.

        Returns
        -------
        FrameScores
            For `score_frames`, of this detector or of others that share its learners.
        """
        checked = self._check_known(videos)
        none = np.empty((0, len(self.learner_names_)))
        scores = np.concatenate([none, *map(self.fused_.detector_scores, self._tables(checked))])
        return FrameScores(scores, video_of_frames(checked), len(checked), self.learner_names_)

    def score_frames(self, scores: FrameScores) -> Host:
        """Return the score of each video, from scores of its frames that `learner_scores` gave.

        Parameters
        ----------
        scores : FrameScores
            From `learner_scores`.

        Returns
        -------
        ndarray of shape (n_videos,)
            Scores, high = genuine; NaN for a video without a face.
        """
        check_is_fitted(self)
        frames = Combination(self.fused_.scaler_, self.fused_.fusion_).score_samples(scores.scores)
        return pooled(frames, scores.video, scores.n_videos, self.pooling)

    def score_samples(self, videos: Sequence[VideoFeatures]) -> Host:
        """Return the score of each video, high = genuine.

        Parameters
        ----------
        videos : sequence of n VideoFeatures
            With the feature sets of the training.

        Returns
        -------
        ndarray of shape (n,)
            Scores; NaN for a video without a face.
        """
        checked = self._check_known(videos)
        frames = np.concatenate([[], *map(self.fused_.score_samples, self._tables(checked))])
        return pooled(frames, video_of_frames(checked), len(checked), self.pooling)

    def decision_function(self, videos: Sequence[VideoFeatures]) -> Host:
        """``score_samples(videos) − offset_``: negative for forgeries.

        Parameters
        ----------
        videos : sequence of n VideoFeatures
            With the feature sets of the training.

        Returns
        -------
        ndarray of shape (n,)
            Signed distance to the threshold; NaN for a video without a face.
        """
        scores = self.score_samples(videos)
        return scores - self.offset_

    def predict(self, videos: Sequence[VideoFeatures]) -> NDArray[np.int64]:
        """+1 for genuine videos, −1 for forgeries, 0 where no face was found.

        Parameters
        ----------
        videos : sequence of n VideoFeatures
            With the feature sets of the training.

        Returns
        -------
        ndarray of shape (n,)
            Integers.
        """
        decision = self.decision_function(videos)
        return np.where(np.isnan(decision), 0, np.where(decision >= 0, 1, -1))

    def pvalues(self, videos: Sequence[VideoFeatures]) -> Host:
        """Return how unusual each video is among genuine ones: small for forgeries.

        Parameters
        ----------
        videos : sequence of n VideoFeatures
            With the feature sets of the training.

        Returns
        -------
        ndarray of shape (n,)
            Conformal p-values, see :func:`lpfuse.threshold.conformal_pvalues`; NaN for a video
            without a face.
        """
        scores = self.score_samples(videos)
        return conformal_pvalues(self.calibration_, scores)

    def verdict(self, video: VideoFeatures) -> VideoVerdict:
        """Everything that there is to say of one video.

        Parameters
        ----------
        video : VideoFeatures
            With the feature sets of the training.

        Returns
        -------
        VideoVerdict
            Its score, the decision, and what the learners contributed.
        """
        (checked,) = self._check_known([video])
        score, parts = np.nan, None
        scores = np.empty(0)
        for X in self._tables([checked]):  # none, of a video without a face
            frames = self.fused_.verdicts(X)
            scores, shares = frames.scores, frame_shares(frames.scores, self.pooling)
            if shares.any():
                score = float(np.nan_to_num(scores) @ shares)
            if frames.contributions is not None:
                parts = shares @ np.nan_to_num(frames.contributions)
        return VideoVerdict(
            name=checked.name,
            score=score,
            decision=score - self.offset_,
            pvalue=float(conformal_pvalues(self.calibration_, [score])[0]),
            frame_scores=scores,
            time=checked.time,
            contributions=parts,
            learner_names=self.learner_names_,
            learner_sets=self._learner_sets,
            n_frames=checked.n_frames,
            n_without_face=checked.n_without_face,
            warnings=tuple(dict.fromkeys([*self.warnings_, *checked.warnings])),
        )

    @property
    def weights_(self) -> Host:
        """The weight of each learner, for a fusion that is a weighted sum."""
        return self.fused_.weights_

    @property
    def certificate_(self) -> Any:
        """The proof that comes with the weights; None for a fusion without one."""
        return self.fused_.certificate_

    @property
    def learner_names_(self) -> list[str]:
        """Names of the learners, in the order of the weights."""
        return self.fused_.detector_names_

    @property
    def calibration_(self) -> Host:
        """Scores of genuine videos that neither learners nor weights learnt from, ascending."""
        return self.held_out_.normal_scores()

    @property
    def out_of_fold_(self) -> OutOfFoldFrames:
        """The frames that taught the weights, with their raw scores out of fold."""
        taught = self.fused_.out_of_fold_
        return OutOfFoldFrames(
            taught.scores,
            self.frame_videos_,
            len(self.labels_),
            self.learner_names_,
            taught.labels,
            taught.fold,
        )

    @property
    def held_out_scores_(self) -> Host:
        """Scores of the training videos, by learners and weights that had not seen their group."""
        return self.held_out_.fused

    def _check_known(self, videos: Sequence[VideoFeatures]) -> list[VideoFeatures]:
        check_is_fitted(self)
        checked = check_videos(videos)
        check_sets([video for video in checked if video.n_faces], self.widths_)
        return checked

    def _tables(self, videos: list[VideoFeatures]) -> Iterator[NDArray[np.float32]]:
        """Yield the features of all frames, some videos at a time."""
        waiting: list[VideoFeatures] = []
        for video in (video for video in videos if video.n_faces):
            waiting.append(video)
            if sum(one.n_faces for one in waiting) >= FRAMES_AT_A_TIME:
                yield table_of(waiting, self.sets_)
                waiting = []
        if waiting:
            yield table_of(waiting, self.sets_)

    @property
    def _learner_sets(self) -> list[str]:
        """The feature set that each learner sees."""
        ends = np.cumsum(list(self.widths_.values()))
        found = []
        for _, _, columns in self.fused_.detectors_:
            positions = np.arange(ends[-1]) if columns is None else columns[columns < ends[-1]]
            seen = np.unique(np.searchsorted(ends, positions, side="right"))
            found.append(self.sets_[seen[0]] if len(seen) == 1 else SEVERAL)
        return found
