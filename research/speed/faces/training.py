"""The 36 experts of FaceForensics++ on one device: ``python -m research.speed.faces.training``.

Nine synthetic feature sets of 366,000 × 2,048 are made, set by set, where they are learnt from.
Three kernel learners (Nyström, 5,000 landmarks) and a Gaussian mixture with full covariances are
fitted to each and score all of its rows, and those of forgeries a fifth as many. Scaling and ℓp
weights are then learnt from the scores, from genuine rows alone and with the forgeries.

What is known of a set is written as soon as it is there, beside the output; a set of which that is
found is not trained again, so that a run that was cut short can be continued.
"""

from __future__ import annotations

import gc
import json
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch

from lpfuse import LpFusion, TwoSidedMinMax
from lpfuse.detectors import fit_together, score_together
from lpfuse_faces._learners import LEARNERS, learner
from research.common.machine import cpu_name, environment
from research.common.tables import table
from research.speed.faces import RESULTS

PACKAGES = ("lpfuse", "torch", "numpy", "scipy", "scikit-learn", "array-api-compat")
PS = (32 / 31, 4 / 3, 2.0, 4.0, 100.0)
GOAL_SECONDS = 15 * 60
Record = dict[str, Any]
Tensor = torch.Tensor


class Sizes(NamedTuple):
    """Tensor, columns and landmarks of each set, and how many videos the rows come from."""

    n: int
    d: int
    landmarks: int
    videos: int

    @property
    def forged(self) -> int:
        return self.n // 5


GOAL = Sizes(366_000, 2_048, 5_000, 720)
SMALL = Sizes(4_000, 128, 300, 40)
TINY = Sizes(1_600, 24, 40, 20)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"))
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything work?")
    parser.add_argument("--sets", default="0-8", help='which of the nine sets, such as "0-4"')
    parser.add_argument("--output", type=Path, default=RESULTS / "training.json")
    options = parser.parse_args()
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    sizes = TINY if options.quick else GOAL if device == "cuda" else SMALL
    first, _, last = options.sets.partition("-")
    chosen = range(int(first), int(last or first) + 1)
    folder = options.output.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)

    train_set(0, TINY, device)  # libraries are loaded and kernels compiled before the clock starts
    sets = [known_or_trained(k, sizes, device, folder) for k in chosen]
    scores = torch.cat([torch.from_numpy(np.load(folder / f"set-{k}.npy")) for k in chosen], dim=1)
    fusion = [
        fuse(scores.to(device), sizes, negatives, p) for negatives in (False, True) for p in PS
    ]

    name = torch.cuda.get_device_name() if device == "cuda" else cpu_name()
    about = environment(torch.get_num_threads(), PACKAGES, device=name, cuda=torch.version.cuda)
    total = sum(one["seconds"]["all"] for one in sets) + sum(one["seconds"] for one in fusion)
    result = {
        "environment": about,
        "sizes": sizes._asdict(),
        "experts": len(LEARNERS) * len(sets),
        "seconds": total,
        "goal_seconds": GOAL_SECONDS,
        "sets": sets,
        "fusion": fusion,
    }
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{name}, torch {torch.__version__}\n\n{as_tables(result)}\nwritten to {options.output}")


def known_or_trained(k: int, sizes: Sizes, device: str, folder: Path) -> Record:
    known = folder / f"set-{k}.json"
    if known.exists():
        return json.loads(known.read_text())
    record, scores = train_set(k, sizes, device)
    np.save(folder / f"set-{k}.npy", scores.cpu().numpy())
    known.write_text(json.dumps(record))
    print(json.dumps(record), flush=True)
    return record


def train_set(k: int, sizes: Sizes, device: str) -> tuple[Record, Tensor]:
    """Fit the four learners to a set; seconds by stage, and the scores of genuine and forged."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    seconds: dict[str, float] = {}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        scores, steps = fit_and_score(k, sizes, device, seconds)
    making = seconds.pop("rows")
    record = {
        "set": k,
        "seconds": {**seconds, "all": sum(seconds.values())},
        "seconds_to_make_rows": making,
        "steps_of_mixture": steps,
        "auc": [auc(scores[: sizes.n, j], scores[sizes.n :, j]) for j in range(len(LEARNERS))],
        "peak_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else None,
        "warnings": sorted({str(warning.message) for warning in told}),
    }
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
    return record, scores


def fit_and_score(
    k: int, sizes: Sizes, device: str, seconds: dict[str, float]
) -> tuple[Tensor, int]:
    X, forged = timed(seconds, "rows", lambda: rows_of(k, sizes, device))
    four = [sized(name, sizes) for name in LEARNERS]
    *kernels, mixture = four
    timed(seconds, "standardise", lambda: standardise(X, forged))
    timed(seconds, "kernels", lambda: fit_together(kernels, X, thresholds=False))
    timed(seconds, "mixture", lambda: fit_together([mixture], X, thresholds=False))
    parts = timed(seconds, "score", lambda: [score_together(four, part) for part in (X, forged)])
    return torch.cat(parts), mixture.n_iter_


def sized(name: str, sizes: Sizes) -> Any:
    """As the experts are, but on all columns; the mixture with full covariances."""
    made = learner(name, sizes.n, landmarks=sizes.landmarks).set_params(random_state=0)
    return made.set_params(covariance_type="full", reg_covar=0.01) if name == "gmm" else made


def rows_of(k: int, sizes: Sizes, device: str) -> tuple[Tensor, Tensor]:
    """Genuine frames and forged ones: factors of their video, of the frame, and noise.

    Forgeries lack some of what frames share, and have a little noise of their own.
    """
    generator = torch.Generator(device).manual_seed(k)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=device)

    factors = max(4, sizes.d // 32)
    directions = normal(factors, sizes.d) / factors**0.5
    faces = normal(sizes.videos, factors)

    def frames(n: int, *, share: float, noise: float) -> Tensor:
        video = torch.arange(n, device=device) * sizes.videos // n
        X = normal(n, sizes.d)
        X *= noise
        X += (share * (faces[video] + 0.3 * normal(n, factors))) @ directions
        return X

    return frames(sizes.n, share=1.0, noise=0.5), frames(sizes.forged, share=0.9, noise=0.55)


def standardise(X: Tensor, forged: Tensor) -> None:
    """In place, by the genuine rows."""
    mean, spread = X.mean(dim=0), X.std(dim=0)
    for rows in (X, forged):
        rows -= mean
        rows /= spread


def fuse(scores: Tensor, sizes: Sizes, negatives: bool, p: float) -> Record:
    """Scale the scores and learn the weights."""
    S = (scores if negatives else scores[: sizes.n]).double()
    labels = torch.ones(len(S), dtype=torch.float64, device=S.device)
    labels[sizes.n :] = -1
    seconds: dict[str, float] = {}

    def work() -> LpFusion:
        scaled = TwoSidedMinMax().fit(S[: sizes.n]).transform(S)
        return LpFusion(p=p).fit(scaled, labels if negatives else None)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work()  # as everything else, after a warm-up
        fusion = timed(seconds, "fuse", work)
    record = {
        "p": p,
        "negatives": negatives,
        "shape": list(S.shape),
        "seconds": seconds["fuse"],
        "relative_gap": float(fusion.certificate_.relative_gap),
        "status": str(fusion.certificate_.status),
    }
    print(json.dumps(record), flush=True)
    return record


def auc(genuine: Tensor, forged: Tensor) -> float:
    """The chance that a genuine row scores higher than a forged one."""
    ordered, _ = torch.sort(forged)
    below = torch.searchsorted(ordered, genuine.contiguous())
    return float(below.double().mean() / len(forged))


def timed(seconds: dict[str, float], stage: str, work: Callable[[], Any]) -> Any:
    wait()
    start = perf_counter()
    result = work()
    wait()
    seconds[stage] = perf_counter() - start
    return result


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def as_tables(result: Record) -> str:
    stages = [stage for stage in result["sets"][0]["seconds"] if stage != "all"]
    lines = []
    for one in result["sets"]:
        peak = "" if one["peak_bytes"] is None else f"{one['peak_bytes'] / 2**30:.1f}"
        split = [f"{one['seconds'][stage]:.2f}" for stage in stages]
        steps = str(one["steps_of_mixture"])
        lines.append([str(one["set"]), *split, f"{one['seconds']['all']:.2f}", steps, peak])
    trained = table(["set", *stages, "all, s", "EM steps", "peak GiB"], lines)
    fused = table(
        ["scores", "forgeries", "p", "s", "gap"],
        [
            [
                " × ".join(f"{x:,}" for x in one["shape"]),
                "yes" if one["negatives"] else "no",
                f"{one['p']:.3g}",
                f"{one['seconds']:.3f}",
                f"{one['relative_gap']:.1e}",
            ]
            for one in result["fusion"]
        ],
    )
    told = f"{result['experts']} experts in {result['seconds']:.1f} s"
    return f"{trained}\n{fused}\n{told}, where {GOAL_SECONDS} s are the goal"


if __name__ == "__main__":
    main()
