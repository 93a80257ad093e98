"""Which made-up world teaches most: a short training run on each, judged by the choosing half.

``python -m research.incontext.worlds OUT SECONDS NAME…`` trains on all of them at once, each in a
process of its own, and appends a line a world to ``OUT/worlds.jsonl``.
"""

from __future__ import annotations

import json
import multiprocessing
from argparse import ArgumentParser
from pathlib import Path

from research.incontext.evaluate import store_scores
from research.incontext.train import train
from research.incontext.world import WORLDS


def judge(name: str, out: Path, seconds: float, device: str) -> None:
    folder = out / name.replace(", ", "-")
    net = train(name, seconds, folder, device=device, times=2)
    found = store_scores(net, ["development", "choose"], folder / "scores.npz", seconds=90)
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    line = json.dumps({"world": name, "steps": about["steps"], "tables": about["tables"], **found})
    with open(out / "worlds.jsonl", "a", encoding="utf-8") as file:
        file.write(line + "\n")
    print(line, flush=True)


def main() -> None:
    parser = ArgumentParser("python -m research.incontext.worlds", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("seconds", type=float)
    parser.add_argument("worlds", nargs="*", default=list(WORLDS))
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    runs = [
        context.Process(target=judge, args=(name, options.out, options.seconds, options.device))
        for name in options.worlds
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()


if __name__ == "__main__":
    main()
