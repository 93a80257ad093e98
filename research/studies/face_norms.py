"""Norms over families on the stand-in of faces: nine feature sets × four learners.

The sets are three regions × three bands of their azimuthal profiles (there are no pretrained
networks): families are the sets, or the learners. A photograph is left out of all but the test, and
a kind of forgery with it; weights learn from out-of-fold scores of the frames of the two others,
genuine ("pure") or with forgeries of the other kinds ("non-pure"), under the norms of
`research.studies.norms` and its controls. AUC of whole clips, by the mean score of their frames.

    python -m research.studies.face_norms --out FILE
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from lpfuse import TwoSidedMinMax
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces.clips import Clip
from lpfuse_faces.evaluation import SETTINGS
from lpfuse_faces.evaluation._scores import Features, ScoredClips, ScoredVideos, score_clips
from lpfuse_faces.stand_in import CONTROL, FAMILIES, PHOTOGRAPHS
from research.common.measure import versions
from research.common.store import json_line
from research.speed.faces.stand_in import clips_with_features
from research.studies.norms import NORMS, fusion_of, quietly

BANDS = ("low", "middle", "high")


def in_bands(video: VideoFeatures) -> VideoFeatures:
    """Each profile as three sets: its low, middle and high frequencies."""
    parts = {name: np.array_split(rows, len(BANDS), axis=1) for name, rows in video.sets.items()}
    sets = {
        f"{name} {band}": part
        for name, found in parts.items()
        for band, part in zip(BANDS, found, strict=True)
    }
    return replace(video, sets=sets)


def rows_of(clips: Sequence[Clip], features: Features, face: str, seed: int) -> Iterator[Any]:
    """AUC in per cent of every norm, for each kind and setting, with this photograph left out."""
    chosen = [
        replace(clip, split="test" if face in clip.identities else "train")
        for clip in clips
        if face in clip.identities or clip.kind != CONTROL
    ]
    scored = score_clips(chosen, features, seed=seed)
    for setting in SETTINGS:
        for kind in (*FAMILIES, CONTROL):
            aucs, gap = aucs_of(scored, kind, setting, seed)
            yield {
                "set": f"{face}, seed {seed}",
                "half": "control" if kind == CONTROL else "faces",
                "seed": seed,
                "labels": setting,
                "kind": kind,
                "gap": gap,
                "auc": aucs,
            }


def aucs_of(
    scored: ScoredClips, kind: str, setting: str, seed: int
) -> tuple[dict[str, float], float]:
    """AUC of every norm, and the largest gap of its certificates."""
    training, test = scored.training(kind, setting).as_frames(), scored.test(kind)
    scale = TwoSidedMinMax().fit(training.scores[training.labels > 0])
    S, of_test = scale.transform(training.scores), scale.transform(test.scores)
    found, gap = {"sum": of_test.sum(axis=1)}, 0.0
    for title, norm in NORMS.items():
        fusion = fusion_of(norm, S.shape[1], seed).fit(S, training.labels)
        gap = max(gap, fusion.certificate_.relative_gap)
        found[title] = fusion.score_samples(of_test)
    return {name: auc_of(test, scores) for name, scores in found.items()}, gap


def auc_of(test: ScoredVideos, scores: Any) -> float:
    """Of whole clips, in per cent; a clip without a face is a forgery."""
    pooled = test.pooled(scores, "mean")
    lowest = np.nanmin(pooled) - 1.0
    return round(100 * float(roc_auc_score(test.labels > 0, np.nan_to_num(pooled, nan=lowest))), 3)


def measure(seeds: Sequence[int], out: Path, **how: Any) -> None:
    """Rows of all photographs, written as they come."""
    with out.open("wb") as file:
        file.write(json_line({"versions": versions(), **how}))
        for seed in seeds:
            clips, features = clips_with_features(seed, qualities=[23], n_jobs=1, **how)
            bands = {path: in_bands(video) for path, video in features.items()}
            for face in PHOTOGRAPHS:
                with quietly():
                    file.writelines(map(json_line, rows_of(clips, bands, face, seed)))
                file.flush()


def main() -> None:
    """Measure."""
    parser = ArgumentParser("python -m research.studies.face_norms", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[200, 201, 202])
    parser.add_argument("--clips", type=int, default=8, help="genuine clips of each photograph")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    measure(options.seeds, options.out, clips_per_face=options.clips, frames=16, sampled=6)


if __name__ == "__main__":
    main()
