"""Clips that are made up, with features of which one set tells forgeries and one does not."""

from functools import cache
from pathlib import Path

import numpy as np

from lpfuse_faces import VideoFeatures
from lpfuse_faces.clips import Clip

KINDS = ("blended", "resampled", "warped")
FRAMES = 4


def video(name, informative, noise, **changes):
    n = len(informative)
    sets = {"azimuthal/face": informative, "azimuthal/mouth": noise}
    places = np.zeros((n, 4)), np.zeros((n, 5, 2))
    about = {"n_frames": n, **changes}
    return VideoFeatures(name, f"sha of {name}", np.arange(n), np.arange(n), *places, sets, **about)


@cache
def collection(n_train=8, n_val=4, n_test=4, kinds=KINDS, qualities=("c23",), split=True):
    """People of whom there is a genuine clip and one of each kind; one feature set tells."""
    rng = np.random.default_rng(0)
    splits = ["train"] * n_train + ["val"] * n_val + ["test"] * n_test
    clips, features = [], {}
    for quality in qualities:
        for person, part in enumerate(splits):
            for kind in (None, *kinds):
                path = Path(f"{quality}/{kind or 'genuine'}/{person:02d}.mp4")
                label = 1 if kind is None else -1
                part = part if split else None
                clips.append(Clip(path, label, kind, (f"{person:02d}",), part, quality))
                shift = 2.5 * np.eye(3)[kinds.index(kind)] if kind else 0.0
                rows = 0.4 * rng.normal(size=(1, 3)) + 0.4 * rng.normal(size=(FRAMES, 3)) + shift
                features[path] = video(str(path), rows, rng.normal(size=(FRAMES, 2)))
    return clips, features


def garbage(features, clips):
    """The features of some clips, made up anew: like the strangest of genuine ones."""
    rng = np.random.default_rng(1)
    spoilt = {
        clip.path: video(
            str(clip.path),
            1.2 * rng.normal(size=(1, 3)) + np.zeros((FRAMES, 3)),
            np.ones((FRAMES, 2)),
        )
        for clip in clips
    }
    return {**features, **spoilt}
