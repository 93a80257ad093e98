"""VideoDetector: from the features of frames to decisions about videos."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import copy
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lpfuse._files import saved_as
from lpfuse._validation.params import (
    check_choice,
    check_labels,
    check_row_names,
    check_share,
    is_count,
)
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.components import HeldOutScores
from lpfuse.ensemble.folds import labels_for_weights
from lpfuse.io import save
from lpfuse.threshold import conformal_offset
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces._fitting import Progress, fit_learners, folds_without_seen_kinds, settle_widths
from lpfuse_faces._frame_table import (
    Frames,
    check_mask,
    check_videos,
    columns_of,
    table_of,
    video_of_frames,
    warn_of_missing_faces,
)
from lpfuse_faces._learners import LEARNERS, learner_pool
from lpfuse_faces._pooling import check_pooling, pooled
from lpfuse_faces._scoring import VideoScores

# The fused detector counts frames, where this one counts videos: its warning would mislead, and
# `_calibrate` says the same of videos.
TOO_FEW_ROWS = ".*normal rows cannot hold false alarms"


@saved_as(
    "VideoDetector",
    **dict.fromkeys(("sets", "learners", "detectors", "settings"), (...,)),
    pooling=("mean",),
    cv=("in-sample",),
    calibration=("cross", "plain"),
)
class VideoDetector(VideoScores):
    r"""Tells forged videos of faces from genuine ones, by many learners on their frames.

    A learner is a one-class algorithm on one feature set: with three networks, three regions of the
    face and four algorithms there are 36. A :class:`lpfuse.FusedDetector` fuses their scores of a
    frame, and the frames' scores are pooled to that of the video, by their mean or a quantile:

    .. math:: f(\text{frame}) = \sum_{j=1}^R w_j \, s'_j, \qquad
              \text{score} = \frac{1}{n} \sum_{i=1}^n f(\text{frame}_i), \qquad
              \text{genuine} \iff \text{score} \ge \text{offset}

    Frames of one video are all but copies of each other. So they are never split between folds, and
    threshold and p-values rest on whole videos: on the pooled scores of genuine ones, each by
    learners and weights that have not seen its group.

    Parameters
    ----------
    sets : sequence of str, default=None
        The feature sets to use, such as "azimuthal/face"; None: all that the first video has.
    learners : sequence of str, default=("svdd", "gp", "kpca", "gmm")
        Which algorithms; there is a learner for each of them on each feature set.
    detectors : list, default=None
        Other learners instead: ``(name, detector)`` or ``(name, detector, sets)``, with the names
        of one feature set or several, as :class:`lpfuse.FusedDetector` takes them.
    pooling : "mean" or float in [0, 1], default="mean"
        How the scores of frames become that of their video: by their mean, or by that quantile.
    fusion, scaler : estimators, default=None
        Of the fused detector.
    cv : int, splitter, iterable or "in-sample", default=5
        The folds, of frames; a number of folds keeps groups together.
    calibration : {"cross", "plain"}, default="cross"
        Which scores of genuine videos set the threshold. "cross": by learners, scale and weights
        that never saw the video, learnt anew without each of five parts; "plain": out of fold as
        they are, in a sixth of the time.
    false_alarm_rate : float in (0, 0.5], default=0.05
        Share of genuine videos that may be called forgeries.
    n_jobs : int, default=None
        Fits at a time, as in joblib.
    random_state : int, RandomState or None, default=None
        Deals groups out to folds, and seeds the learners.
    settings : object, default=None
        What belongs to the detector and is saved with it, such as the settings of the features.

    Attributes
    ----------
    fused_ : FusedDetector
        The fused detector of frames.
    weights_ : ndarray of shape (R,)
        The weight of each learner.
    certificate_ : Certificate or None
        How far the weights can be from optimal.
    learner_names_ : list of str
        Names of the learners in the order of the weights, such as "gp: inception/mouth".
    offset_ : float
        The threshold of videos; minus infinity where there are too few genuine ones to set it.
    calibration_ : ndarray
        Scores of genuine videos that p-values compare with, ascending.
    sets_ : list of str
        The feature sets in use.
    widths_ : dict of str to int
        How many columns they have.
    labels_ : ndarray of shape (n,)
        +1 genuine, −1 forged, 0 unknown, for each training video.
    out_of_fold_ : OutOfFoldFrames
        The frames that taught the weights, with their raw scores by learners that had not seen
        their group.
    held_out_scores_ : ndarray of shape (n,)
        Fused and pooled scores of the training videos, by learners and weights that had not seen
        their group.
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
    >>> from lpfuse_faces import VideoDetector, VideoFeatures
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
        unlabelled: int | None = None,
    ) -> Self:
        """Fit the learners, learn their weights, set the threshold.

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
            True for videos that the learners must not learn from, and that teach the weights and
            the threshold; instead of folds. The learners are fitted once, so it takes a ninth of
            the time, and classifiers cannot be among them.
        progress : callable, optional
            Is told how many fits are done, and of how many.
        unlabelled : 0, optional
            Says that 0 stands for unknown videos, where `y` holds 0 and 1 alone.

        Returns
        -------
        VideoDetector
            The fitted estimator.
        """
        self._check_parameters()
        checked = check_videos(videos)
        n = len(checked)
        labels = check_labels(y, n, unlabelled=True, zero=unlabelled)
        labels = np.ones(n) if labels is None else labels
        groups = check_row_names(groups, n, "groups")
        kind = check_row_names(kind, n, "kind")
        mask = check_mask(validation, n)
        widths = settle_widths(checked, self.sets)
        warn_of_missing_faces(checked)

        video = video_of_frames(checked)
        names = video if groups is None else groups[video]
        frames = Frames(table_of(checked, list(widths)), labels[video], names, video)
        entries, cv = self._entries(widths, int((frames.labels >= 0).sum())), self.cv
        if mask is not None:
            training, frames = frames[~mask[video]], frames[mask[video]]
            entries = fit_learners(entries, training, self.n_jobs, self.random_state, progress)
            cv = "prefit"
        elif kind is not None and is_count(cv):
            cv = folds_without_seen_kinds(entries, frames, kind[video], cv, self.random_state)

        self.fused_ = self._fit_fused(entries, cv, frames, progress)
        self.sets_, self.widths_ = list(widths), dict(widths)
        self.warnings_ = tuple(dict.fromkeys(text for one in checked for text in one.warnings))
        self.labels_, self.frame_videos_ = labels, frames.video
        self._calibrate()
        return self

    def with_fusion(self, fusion: Any, scaler: Any = None) -> Self:
        """Return a copy with other weights, learnt from the same scores.

        No learner is fitted again.

        Parameters
        ----------
        fusion, scaler : estimators or None
            As the parameters of these names. A fusion that looks at features is refused.

        Returns
        -------
        VideoDetector
            As if it had been fitted with these parameters; it shares the fitted learners.
        """
        check_is_fitted(self)
        other = copy(self).set_params(fusion=fusion, scaler=scaler)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=TOO_FEW_ROWS)
            other.fused_ = self.fused_.with_fusion(fusion, scaler)
        other._calibrate()
        return other

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted detector to a file, without pickle; `lpfuse.load` reads it.

        Parameters
        ----------
        path : path-like
            The file. It appears whole or not at all.
        """
        save(self, path)

    # The steps of fit, in their order.

    def _check_parameters(self) -> None:
        check_pooling(self.pooling)
        check_choice("calibration", self.calibration, ("cross", "plain"))
        if isinstance(self.cv, str):
            check_choice("cv", self.cv, ("in-sample",))
        check_share("false_alarm_rate", self.false_alarm_rate, of="the genuine videos")

    def _entries(self, widths: Mapping[str, int], n: int) -> list[Any]:
        """Return the learners, with the columns that they see."""
        if self.detectors is None:
            return learner_pool(widths, self.learners, n=n)
        return [
            (name, detector, *(columns_of(sets, widths, name) for sets in rest))
            for name, detector, *rest in self.detectors
        ]

    def _fit_fused(
        self, entries: list[Any], cv: Any, frames: Frames, progress: Progress | None
    ) -> FusedDetector:
        """Return the fused detector of frames."""
        fused = FusedDetector(
            entries,
            scaler=self.scaler,
            fusion=self.fusion,
            cv=cv,
            calibration=self.calibration,
            false_alarm_rate=self.false_alarm_rate,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=TOO_FEW_ROWS)
            fused.fit(
                frames.X, frames.labels, groups=frames.groups, unlabelled=0,
                progress=progress or False,
            )  # fmt: skip
        return fused

    def _calibrate(self) -> None:
        """Pool what is held out by video, and set the threshold."""
        n, frames = len(self.labels_), self.fused_.held_out_

        scores = pooled(frames.fused, self.frame_videos_, n, self.pooling)[:, None]
        labels = labels_for_weights(self.labels_)
        self.held_out_ = HeldOutScores(scores, np.ones((n, 1)), labels)
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
