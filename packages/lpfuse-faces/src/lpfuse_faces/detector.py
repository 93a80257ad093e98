"""VideoDetector: from the features of frames to decisions about videos."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays import Host
from lpfuse._checks.data import check_labels, check_row_names
from lpfuse._checks.parameters import check_choice, check_number, is_count
from lpfuse._saved import saved_as
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.components import (
    Combination,
    HeldOutScores,
    fit_detectors,
    labels_for_weights,
    make_folds,
    make_members,
)
from lpfuse.io import save
from lpfuse.threshold import conformal_offset, conformal_pvalues
from lpfuse_faces.experts import LEARNERS, experts
from lpfuse_faces.features import VideoFeatures
from lpfuse_faces.frames import (
    FrameLessons,
    Frames,
    FrameScores,
    Index,
    check_mask,
    check_sets,
    check_videos,
    columns_of,
    table_of,
    video_of_frames,
    warn_of_missing_faces,
)
from lpfuse_faces.pooling import check_pooling, frame_shares, pooled
from lpfuse_faces.verdict import SEVERAL, VideoVerdict

FRAMES_AT_A_TIME = 4096  # whose features stand side by side while videos are scored
Progress = Callable[[int, int], None]


@saved_as("VideoDetector")
class VideoDetector(BaseEstimator):
    r"""Tells forged videos of faces from genuine ones, by many experts on features of their frames.

    Each expert is a learner on one feature set: with three networks, three regions of the face and
    four learners there are 36. A :class:`lpfuse.FusedDetector` fuses their scores of a frame, and
    the frames' scores are pooled to that of the video, by their mean or a quantile of them:

    .. math:: f(\text{frame}) = \sum_{j=1}^R w_j \, s'_j, \qquad
              \text{score} = \frac{1}{n} \sum_{i=1}^n f(\text{frame}_i), \qquad
              \text{genuine} \iff \text{score} \ge \text{offset}

    Frames of one video are all but copies of each other. So they are never split between folds, and
    threshold and p-values rest on whole videos: on the pooled scores of genuine ones, each by
    experts and weights that have not seen its group.

    Parameters
    ----------
    sets : sequence of str, default=None
        The feature sets to use, such as "azimuthal/face"; None: all that the first video has.
    learners : sequence of str, default=("svdd", "gp", "kpca", "gmm")
        Which learners: see :func:`lpfuse_faces.experts.experts`.
    detectors : list, default=None
        Other experts instead: ``(name, detector)`` or ``(name, detector, sets)``, with the names
        of one feature set or several, as :class:`lpfuse.FusedDetector` takes them.
    pooling : "mean" or float in [0, 1], default="mean"
        How the scores of frames become that of their video: by their mean, or by that quantile.
    fusion, scaler : estimators, default=None
        Of the fused detector.
    cv : int, splitter, iterable or "in-sample", default=5
        The folds, of frames; a number of folds keeps groups together.
    calibration : {"cross", "plain"}, default="cross"
        Whether the scores of genuine videos out of fold are continued to experts that learn from
        all of them, as in the fused detector.
    false_alarm_rate : float in (0, 0.5], default=0.05
        Share of genuine videos that may be called forgeries.
    n_jobs : int, default=None
        Fits at a time, as in joblib.
    random_state : int, RandomState or None, default=None
        Deals groups out to folds, and seeds the experts.
    settings : object, default=None
        What belongs to the detector and is saved with it, such as the settings of the features.

    Attributes
    ----------
    fused_ : FusedDetector
        The fused detector of frames.
    weights_ : ndarray of shape (R,)
        The weight of each expert.
    certificate_ : Certificate or None
        How far the weights can be from optimal.
    expert_names_ : list of str
        Names of the experts in the order of the weights, such as "gp: inception/mouth".
    offset_ : float
        The threshold of videos; minus infinity where there are too few genuine ones to set it.
    calibration_ : ndarray
        Scores of genuine videos that p-values compare with, ascending.
    sets_ : list of str
        The feature sets in use.
    widths_ : dict of str to int
        How many columns they have.
    warnings_ : tuple of str
        What the training videos' features are marked with, such as random weights.

    Notes
    -----
    **Pure and non-pure.** Without `y`, or with genuine videos alone, the weights are learnt from
    genuine frames. Forged videos teach the weights, never the four learners.

    **Few genuine videos.** A false alarm rate α takes at least 1/α − 1 of them: 19 for 5 %. With
    fewer there is a warning, and nothing is called a forgery; scores and p-values remain.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse_faces.detector import VideoDetector
    >>> from lpfuse_faces.features import VideoFeatures
    >>> rng = np.random.default_rng(0)
    >>> def video(name, shift):  # eight frames that differ less than videos do
    ...     rows = rng.normal(size=(1, 4)) + 0.3 * rng.normal(size=(8, 4)) + shift
    ...     frames = np.arange(8)
    ...     places = np.zeros((8, 4)), np.zeros((8, 5, 2))
    ...     return VideoFeatures(
    ...         name, "", frames, frames / 25, *places, {"azimuthal/face": rows}, 9
    ...     )
    >>> genuine = [video(f"{k}.mp4", 0.0) for k in range(30)]
    >>> detector = VideoDetector(learners=["kpca", "gmm"], random_state=0).fit(genuine)
    >>> verdict = detector.verdict(video("new.mp4", 9.0))
    >>> verdict.verdict, verdict.n_without_face
    ('forged', 1)
    """

    fused_: FusedDetector
    held_out_: HeldOutScores  # videos, as the fused detector's are frames
    labels_: Host
    frame_videos_: Index  # the video of each frame that taught the weights
    sets_: list[str]
    widths_: dict[str, int]
    warnings_: tuple[str, ...]
    offset_: float

    def __init__(
        self,
        sets: Sequence[str] | None = None,
        learners: Sequence[str] = LEARNERS,
        detectors: Any = None,
        *,
        pooling: str | float = "mean",
        fusion: Any = None,
        scaler: Any = None,
        cv: Any = 5,
        calibration: Literal["cross", "plain"] = "cross",
        false_alarm_rate: float = 0.05,
        n_jobs: int | None = None,
        random_state: Any = None,
        settings: Any = None,
    ) -> None:
        self.sets = sets
        self.learners = learners
        self.detectors = detectors
        self.pooling = pooling
        self.fusion = fusion
        self.scaler = scaler
        self.cv = cv
        self.calibration = calibration
        self.false_alarm_rate = false_alarm_rate
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.settings = settings

    def fit(
        self,
        videos: Sequence[VideoFeatures],
        y: Any = None,
        *,
        groups: Any = None,
        kind: Any = None,
        validation: Any = None,
        progress: Progress | None = None,
    ) -> Self:
        """Fit the experts, learn their weights, set the threshold.

        Parameters
        ----------
        videos : sequence of n VideoFeatures
            Those without any face are left out, with a warning.
        y : array-like of shape (n,), optional
            +1 genuine, −1 forged, 0 unknown. Default: all are genuine.
        groups : array-like of shape (n,), optional
            Videos of one group, such as those of one person, stay in one fold. Default: each video
            is a group of its own.
        kind : array-like of shape (n,), optional
            What forgeries were made by. Only classifiers among `detectors` need it: a kind is then
            scored by classifiers that never saw it, as kinds that are yet to come will be.
        validation : array-like of shape (n,), optional
            True for videos that the experts must not learn from, and that teach the weights and the
            threshold; instead of folds. The experts are fitted once, so it takes a ninth of the
            time, and classifiers cannot be among them.
        progress : callable, optional
            Is told how many fits are done, and of how many.

        Returns
        -------
        VideoDetector
            The fitted estimator.
        """
        self._check_parameters()
        checked = check_videos(videos)
        n = len(checked)
        labels = check_labels(y, n, unlabelled=True)
        labels = np.ones(n) if labels is None else labels
        groups = check_row_names(groups, n, "groups")
        kind = check_row_names(kind, n, "kind")
        inside = check_mask(validation, n)
        widths = self._settle_widths(checked)
        warn_of_missing_faces(checked)

        video = video_of_frames(checked)
        names = video if groups is None else groups[video]
        frames = Frames(table_of(checked, list(widths)), labels[video], names, video)
        entries, cv = self._entries(widths, int((frames.labels >= 0).sum())), self.cv
        if inside is not None:
            entries = self._fitted(entries, frames[~inside[video]], progress)
            frames, cv = frames[inside[video]], "prefit"
        elif kind is not None and is_count(cv):
            cv = self._folds(entries, frames, kind[video])
        fused = self._fused(entries, cv, frames, progress)

        self.fused_ = fused
        self.sets_, self.widths_ = list(widths), dict(widths)
        self.warnings_ = tuple(dict.fromkeys(text for one in checked for text in one.warnings))
        self.labels_, self.frame_videos_ = labels, frames.video
        self._calibrate()
        return self

    def expert_scores(self, videos: Sequence[VideoFeatures]) -> FrameScores:
        """What each expert says of each frame.

        Parameters
        ----------
        videos : sequence of n VideoFeatures
            With the feature sets of the training.

        Returns
        -------
        FrameScores
            For `score_frames`, of this detector or of others that share its experts.
        """
        checked = self._check_known(videos)
        nothing = np.empty((0, len(self.expert_names_)))
        scores = np.concatenate([nothing, *map(self.fused_.detector_scores, self._tables(checked))])
        return FrameScores(scores, video_of_frames(checked), len(checked), self.expert_names_)

    def score_frames(self, seen: FrameScores) -> Host:
        """The score of each video, where the experts have been asked already.

        Parameters
        ----------
        seen : FrameScores
            From `expert_scores`.

        Returns
        -------
        ndarray of shape (n_videos,)
            Scores, high = genuine; NaN for a video without a face.
        """
        check_is_fitted(self)
        frames = Combination(self.fused_.scaler_, self.fused_.fusion_).score_samples(seen.scores)
        return pooled(frames, seen.video, seen.n_videos, self.pooling)

    def with_fusion(self, fusion: Any, scaler: Any = None) -> Self:
        """A copy with other weights, learnt from the same scores: no expert is fitted again.

        Parameters
        ----------
        fusion, scaler : estimators or None
            As the parameters of these names. A fusion that looks at features is refused.

        Returns
        -------
        VideoDetector
            As if it had been fitted with these parameters; it shares the fitted experts.
        """
        check_is_fitted(self)
        other = copy(self).set_params(fusion=fusion, scaler=scaler)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=TOO_FEW_ROWS)
            other.fused_ = self.fused_.with_fusion(fusion, scaler)
        other._calibrate()
        return other

    def score_samples(self, videos: Sequence[VideoFeatures]) -> Host:
        """The score of each video, high = genuine.

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
        """How unusual each video is among genuine ones: small for forgeries.

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
            Its score, the decision, and what the experts contributed.
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
            expert_names=self.expert_names_,
            expert_sets=self._expert_sets,
            n_frames=checked.n_frames,
            n_without_face=checked.n_without_face,
            warnings=tuple(dict.fromkeys([*self.warnings_, *checked.warnings])),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted detector to a file, without pickle; `lpfuse.load` reads it.

        Parameters
        ----------
        path : path-like
            The file. It appears whole or not at all.
        """
        save(self, path)

    @property
    def weights_(self) -> Host:
        """The weight of each expert, for a fusion that is a weighted sum."""
        return self.fused_.weights_

    @property
    def certificate_(self) -> Any:
        """The proof that comes with the weights; None for a fusion without one."""
        return self.fused_.certificate_

    @property
    def expert_names_(self) -> list[str]:
        """Names of the experts, in the order of the weights."""
        return self.fused_.detector_names_

    @property
    def calibration_(self) -> Host:
        """Scores of genuine videos that neither experts nor weights learnt from, ascending."""
        return self.held_out_.normal_scores()

    @property
    def lessons_(self) -> FrameLessons:
        """The frames that taught the weights, with their raw scores out of fold."""
        taught = self.fused_.out_of_fold_
        return FrameLessons(
            taught.scores,
            self.frame_videos_,
            len(self.labels_),
            self.expert_names_,
            taught.labels,
            taught.fold,
        )

    # The steps of fit, in their order.

    def _check_parameters(self) -> None:
        check_pooling(self.pooling)
        check_choice("calibration", self.calibration, ("cross", "plain"))
        if isinstance(self.cv, str):
            check_choice("cv", self.cv, ("in-sample",))
        hint = "It is a share of the genuine videos: write 0.05 for 5 %."
        check_number("false_alarm_rate", self.false_alarm_rate, above=0, at_most=0.5, hint=hint)

    def _settle_widths(self, videos: list[VideoFeatures]) -> dict[str, int]:
        """The feature sets to use and their widths, which all videos with a face must have."""
        with_face = [video for video in videos if video.n_faces]
        if not with_face:
            raise ValueError(
                f"None of the {len(videos)} videos shows a face, so there is nothing to learn from."
            )
        sets = list(with_face[0].sets) if self.sets is None else list(self.sets)
        if not sets:
            raise ValueError("There must be at least one feature set, got none.")
        check_sets(with_face[:1], dict.fromkeys(sets))
        widths = {name: with_face[0].widths[name] for name in sets}
        check_sets(with_face, widths)
        return widths

    def _entries(self, widths: Mapping[str, int], n: int) -> list[Any]:
        """The experts, with the columns that they see."""
        if self.detectors is None:
            return experts(widths, self.learners, n=n)
        return [
            (name, detector, *(columns_of(sets, widths, name) for sets in rest))
            for name, detector, *rest in self.detectors
        ]

    def _fitted(self, entries: list[Any], frames: Frames, progress: Progress | None) -> list[Any]:
        """The experts, fitted to frames that are not forged."""
        X = frames.X[frames.labels >= 0]
        if len(X) == 0:
            raise ValueError(
                "All genuine videos with a face are in validation: none is left to fit experts to."
            )
        return fit_detectors(
            entries, X, n_jobs=self.n_jobs, random_state=self.random_state, progress=progress
        )

    def _folds(self, entries: list[Any], frames: Frames, kind: NDArray[Any]) -> Any:
        """Folds that hide kinds of forgeries, where an expert learns from forgeries; else `cv`."""
        if not any(member.learns_from_anomalies for member in make_members(entries, frames.X)):
            return self.cv
        y, random = frames.labels, check_random_state(self.random_state)
        pairs = []
        for learn, score in make_folds(self.cv, y, frames.groups, None, random).pairs:
            pairs.append((learn, score[y[score] >= 0]))
            for name in np.unique(kind[score[y[score] < 0]]):
                forged, known = ((y[rows] < 0) & (kind[rows] == name) for rows in (score, learn))
                pairs.append((learn[~known], score[forged]))
        return [(learn, score) for learn, score in pairs if len(score)]

    def _fused(
        self, entries: list[Any], cv: Any, frames: Frames, progress: Progress | None
    ) -> FusedDetector:
        """The fused detector of frames."""
        fused = FusedDetector(
            entries,
            scaler=self.scaler,
            fusion=self.fusion,
            cv=cv,
            calibration=self.calibration,
            false_alarm_rate=self.false_alarm_rate,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            progress=progress or False,
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=TOO_FEW_ROWS)
            fused.fit(frames.X, frames.labels, groups=frames.groups)
        fused.progress = False  # a function cannot be saved
        return fused

    def _calibrate(self) -> None:
        """Pool what is held out by video, and set the threshold."""
        n, frames = len(self.labels_), self.fused_.held_out_

        def by_video(scores: HeldOutScores) -> Host:
            return pooled(scores.fused, self.frame_videos_, n, self.pooling)[:, None]

        two_folds_out = by_video(replace(frames, terms=frames.two_folds_out))
        labels = labels_for_weights(self.labels_)
        self.held_out_ = HeldOutScores(
            by_video(frames), np.ones((n, 1)), labels, two_folds_out, frames.extrapolation
        )
        genuine = self.calibration_
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=TOO_FEW_ROWS)
            self.offset_ = conformal_offset(genuine, self.false_alarm_rate)
        if np.isinf(self.offset_):
            warnings.warn(
                f"{len(genuine)} genuine videos cannot hold false alarms to "
                f"{self.false_alarm_rate:g}: it takes {np.ceil(1 / self.false_alarm_rate - 1):.0f}."
                " Until then nothing is called a forgery. Bring more, or a rate from "
                f"{1 / (len(genuine) + 1):.3g} upwards.",
                UserWarning,
                stacklevel=3,
            )

    # What methods share.

    def _check_known(self, videos: Sequence[VideoFeatures]) -> list[VideoFeatures]:
        check_is_fitted(self)
        checked = check_videos(videos)
        check_sets([video for video in checked if video.n_faces], self.widths_)
        return checked

    def _tables(self, videos: list[VideoFeatures]) -> Iterator[NDArray[np.float32]]:
        """The features of all frames, some videos at a time."""
        waiting: list[VideoFeatures] = []
        for video in (video for video in videos if video.n_faces):
            waiting.append(video)
            if sum(one.n_faces for one in waiting) >= FRAMES_AT_A_TIME:
                yield table_of(waiting, self.sets_)
                waiting = []
        if waiting:
            yield table_of(waiting, self.sets_)

    @property
    def _expert_sets(self) -> list[str]:
        """The feature set that each expert sees."""
        ends = np.cumsum(list(self.widths_.values()))
        found = []
        for _, _, columns in self.fused_.detectors_:
            positions = np.arange(ends[-1]) if columns is None else columns[columns < ends[-1]]
            seen = np.unique(np.searchsorted(ends, positions, side="right"))
            found.append(self.sets_[seen[0]] if len(seen) == 1 else SEVERAL)
        return found


TOO_FEW_ROWS = ".*normal rows cannot hold false alarms"  # of frames: said again, of videos
