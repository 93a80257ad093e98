"""Stored results → docs/benchmarks/faces.md: ``python -m research.speed.faces.tables``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from research.common.tables import Goal, goal_table
from research.speed.faces import RESULTS, detection, networks, stand_in, training
from research.speed.faces.networks import GOAL

PAGE = Path(__file__).parents[3] / "docs" / "benchmarks" / "faces.md"
NAMES = ("stand_in", "detection", "networks", "training")
Record = dict[str, Any]

HEAD = """# Face pipeline benchmarks

Written by `python -m research.speed.faces.tables` from stored results: do not edit by hand. How to
run, and what exactly is measured: `research/speed/README.md`. What it means: [the
guide](../faces.md).
"""

STAND_IN = """## The stand-in data set, from video to verdict

Forgeries of a kind that was left out of training, on a photograph that was left out, too: three
regions × four learners on azimuthal profiles, no pretrained network, 8 genuine and 8 forged clips
a test. Seeds 100 to 104, which nobody developed with; the generator and the learners were
adjusted on seeds 0 to 4. An AUC of 8 clips against 8 has a standard deviation of 0.15 by chance,
a mean of five 0.07. *Untouched* is a control: forged by name only, so its AUC must be about 0.5.
There are three photographs and the manipulations are simple: this proves the plumbing, and is no
evidence for the paper's figures.
"""

DETECTION = """## Faces on the CPU

A clip of 512 × 512 pixels, faces from 40 pixels. *Streams*: Python threads that share a detector.
"""

NETWORKS = """## Deep features on a GPU

Random weights, which cost as much as any; pictures on the device already. *Difference*: from
float32, relative to the largest feature. *Compiled*: `load_network(..., compiled=True)`.
"""

TRAINING = """## 36 experts on a GPU

Nine synthetic sets of 366,000 × 2,048 float32, as many as FaceForensics++ has genuine training
frames: SVDD, Gaussian process and kernel PCA on 5,000 Nyström landmarks, a mixture of three
Gaussians with full covariances, scores of all rows, then ℓp weights. Making the synthetic rows is
not counted.
"""


def main() -> None:
    PAGE.write_text(page({name: stored(name) for name in NAMES}))
    print(f"written to {PAGE}")


def stored(name: str) -> Record:
    found: Record = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def page(results: dict[str, Record]) -> str:
    clips, on_cpu, on_gpu, experts = (results[name] for name in NAMES)
    found = [
        *stand_in.goals(clips["records"]),
        *detection.goals(on_cpu),
        *device_goals(on_gpu, experts),
    ]
    parts = [
        HEAD,
        goal_table(found),
        STAND_IN,
        stand_in.tables(clips["records"]),
        measured_with(clips),
        DETECTION,
        detection.tables(on_cpu),
        measured_with(on_cpu),
        NETWORKS,
        networks.pages(on_gpu),
        measured_with(on_gpu),
        TRAINING,
        training.as_tables(experts),
        measured_with(experts),
    ]
    return "\n".join(f"{part.strip()}\n" for part in parts)


def device_goals(networks: Record, training: Record) -> list[Goal]:
    fastest = max(networks["together"], key=lambda row: row["frames_a_second"])
    rate, goal = fastest["frames_a_second"], GOAL
    how = fastest["precision"] + (", compiled" if fastest["compiled"] else "")
    seconds, limit = training["seconds"], training["goal_seconds"]
    return [
        Goal(
            f"three networks on three regions, {networks['environment']['device']}",
            f"≥ {goal:,} frames/s",
            f"{rate:,.0f} ({how})",
            rate >= goal,
        ),
        Goal(
            f"{training['experts']} experts, 366,000 × 2,048, {training['environment']['device']}",
            f"≤ {limit // 60} min",
            f"{seconds / 60:.1f} min",
            seconds <= limit,
        ),
    ]


def measured_with(result: Record) -> str:
    about = result["environment"]
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    device = f"{about['device']}, host " if "device" in about else ""
    return (
        f"Measured with {device}{about['cpu']}, {about['cores']} cores; Python {about['python']}, "
        f"{versions}; commit {about['commit']}."
    )


if __name__ == "__main__":
    main()
