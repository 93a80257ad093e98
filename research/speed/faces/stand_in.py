"""The stand-in data set from video to verdict: ``python -m research.speed.faces.stand_in``.

Each kind of forgery is left out of training in turn, and each photograph of all but the test:

- clips are made with a seed, at H.264's constant rate factors 23 and 40;
- MTCNN, three regions, azimuthal profiles; no pretrained network;
- a :class:`VideoDetector` of 3 regions × 4 learners is trained on the clips of two photographs,
  the genuine ones alone ("pure") or also those of the four other kinds ("non-pure");
- its AUC is that of the third photograph's genuine clips against those of the kind left out.

A control, "untouched", goes the way of a forgery without a manipulation, with scenes of its own:
its AUC must be about 0.5. Seeds 0 to 4 served to develop generator and features; the goal is judged
by seeds 100 to 104, which did not.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from lpfuse_faces._detector import VideoDetector
from lpfuse_faces._extraction import extract_all
from lpfuse_faces._extractor import Extractor
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces._settings import Settings
from lpfuse_faces._video import Sampling
from lpfuse_faces.clips import Clip
from lpfuse_faces.stand_in import CONTROL, FAMILIES, PHOTOGRAPHS, make_stand_in
from research.common.machine import environment
from research.common.tables import Goal, goal_table, table
from research.speed.faces import RESULTS

Record = dict[str, Any]
Features = Mapping[Path, VideoFeatures]

SEEDS = (100, 101, 102, 103, 104)
QUALITIES = (23, 40)
KINDS = (*FAMILIES, CONTROL)
MODES = ("pure", "non-pure")
GOAL = 0.8
JUDGED = ("resampled", "up-convolved")
OTHER_SCENES = 10_000  # added to the seed of the control, so that it has no genuine twins
PACKAGES = (
    "lpfuse", "numpy", "scipy", "scikit-learn", "av", "onnxruntime", "opencv-python-headless",
    "scikit-image", "matplotlib",
)  # fmt: skip


def measured(
    seed: int,
    *,
    qualities: Sequence[int] = QUALITIES,
    clips_per_face: int = 8,
    frames: int = 24,
    sampled: int = 8,
    n_jobs: int = 2,
) -> Iterator[Record]:
    """A record for each quality, photograph held out, kind left out, and mode."""
    clips, features = clips_with_features(
        seed,
        qualities=qualities,
        clips_per_face=clips_per_face,
        frames=frames,
        sampled=sampled,
        n_jobs=n_jobs,
    )
    for quality in qualities:
        chosen = [clip for clip in clips if clip.quality == f"c{quality}"]
        for face in PHOTOGRAPHS:
            for record in _held_out(chosen, features, face, seed):
                yield {"seed": seed, "quality": f"c{quality}", "face": face, **record}


def clips_with_features(
    seed: int,
    *,
    qualities: Sequence[int] = QUALITIES,
    clips_per_face: int = 8,
    frames: int = 24,
    sampled: int = 8,
    n_jobs: int = 2,
) -> tuple[list[Clip], Features]:
    """Clips of all kinds and of the control, and what was extracted of them."""
    how: dict[str, Any] = {
        "qualities": qualities, "clips_per_face": clips_per_face, "frames": frames,
        "n_jobs": n_jobs,
    }  # fmt: skip
    with TemporaryDirectory() as folder:
        clips = make_stand_in(Path(folder, "clips"), seed=seed, **how)
        clips += [
            clip
            for clip in make_stand_in(
                Path(folder, "control"), seed=seed + OTHER_SCENES, kinds=[CONTROL], **how
            )
            if clip.kind == CONTROL
        ]
        extractor = Extractor(Settings(sampling=Sampling(count=sampled)))
        found = extract_all([clip.path for clip in clips], extractor, n_jobs=n_jobs)
    if found.skipped:
        raise RuntimeError(f"Clips of the stand-in could not be read: {found.skipped}.")
    return clips, found.features


def _held_out(clips: list[Clip], features: Features, face: str, seed: int) -> Iterator[Record]:
    """Train on the other photographs, test on this one."""
    train = [clip for clip in clips if face not in clip.identities]
    test = [clip for clip in clips if face in clip.identities]
    faceless = sum(features[clip.path].n_without_face for clip in test)
    genuine = [clip for clip in train if not clip.is_forged]
    pure = _trained(genuine, features, seed)
    for kind in KINDS:
        taught = [clip for clip in train if clip.kind not in (kind, CONTROL)]
        non_pure = _trained(taught, features, seed)
        for mode, detector in zip(MODES, (pure, non_pure), strict=True):
            yield {
                "kind": kind,
                "mode": mode,
                "auc": _auc(
                    detector, [clip for clip in test if clip.kind in (None, kind)], features
                ),
                "frames_without_face": faceless,
            }


def _trained(clips: list[Clip], features: Features, seed: int) -> VideoDetector:
    """Folds keep photographs apart."""
    detector = VideoDetector(random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few videos for a threshold: the AUC needs none
        return detector.fit(
            [features[clip.path] for clip in clips],
            [clip.label for clip in clips],
            groups=[clip.identities[0] for clip in clips],
        )


def _auc(detector: VideoDetector, clips: list[Clip], features: Features) -> float:
    scores = detector.score_samples([features[clip.path] for clip in clips])
    seen = np.nan_to_num(scores, nan=scores[np.isfinite(scores)].min() - 1)  # no face: a forgery
    return float(roc_auc_score([clip.label for clip in clips], seen))


def report(records: Sequence[Record]) -> str:
    """Goals and tables in Markdown."""
    return f"{goal_table(goals(records))}\n{tables(records)}"


def tables(records: Sequence[Record]) -> str:
    parts = []
    for quality in sorted({record["quality"] for record in records}):
        for mode in MODES:
            chosen = [r for r in records if r["quality"] == quality and r["mode"] == mode]
            parts += [f"### {quality}, {mode}: mean AUC (worst seed)\n", _table(chosen)]
    return "\n".join(parts)


def goals(records: Iterable[Record]) -> list[Goal]:
    """The goal holds if it does on average for every photograph."""
    found = []
    for kind in JUDGED:
        for mode in reversed(MODES):
            aucs = _by_face(
                r for r in records if (r["quality"], r["kind"], r["mode"]) == ("c23", kind, mode)
            )
            means = {face: float(np.mean(values)) for face, values in aucs.items()}
            lowest = min(means, key=lambda face: means[face]) if means else ""
            told = f"{means[lowest]:.2f} ({lowest})" if means else "not measured"
            met = means[lowest] >= GOAL if means else None
            name = f"{kind} left out, {mode}, c23: mean AUC of the worst photograph"
            found.append(Goal(name, f"≥ {GOAL}", told, met))
    return found


def _table(records: Sequence[Record]) -> str:
    rows = []
    for kind in KINDS:
        aucs = _by_face(record for record in records if record["kind"] == kind)
        told = [f"{np.mean(aucs[face]):.2f} ({min(aucs[face]):.2f})" for face in PHOTOGRAPHS]
        rows.append([kind, *told, f"{np.mean([*aucs.values()]):.2f}"])
    return table(["left out", *PHOTOGRAPHS, "mean"], rows)


def _by_face(records: Iterable[Record]) -> dict[str, list[float]]:
    aucs = defaultdict(list)
    for record in records:
        aucs[record["face"]].append(record["auc"])
    return aucs


def main() -> None:
    parser = argparse.ArgumentParser("python -m research.speed.faces.stand_in", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--qualities", type=int, nargs="+", default=QUALITIES)
    parser.add_argument("--clips", type=int, default=8, help="genuine clips of each photograph")
    parser.add_argument("--jobs", type=int, default=2, help="clips in work at a time")
    parser.add_argument("--output", type=Path, default=RESULTS / "stand_in.json")
    parser.add_argument("--show", action="store_true", help="tables from the stored results only")
    options = parser.parse_args()
    if not options.show:
        records = [
            record
            for seed in options.seeds
            for record in measured(
                seed,
                qualities=options.qualities,
                clips_per_face=options.clips,
                n_jobs=options.jobs,
            )
        ]
        stored = {"environment": environment(1, PACKAGES), "records": records}
        options.output.write_text(json.dumps(stored, indent=1) + "\n")
    print(report(json.loads(options.output.read_text())["records"]))


if __name__ == "__main__":
    main()
