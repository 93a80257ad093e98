"""Which made-up world teaches most: a short training run on each, judged by the choosing half.

``python -m research.incontext.worlds OUT SECONDS NAME…`` trains on all of them at once, each in a
process of its own, and appends a line a run to ``OUT/worlds.jsonl``. A name may end in settings of
the network, as in ``"classes|values=0"``.
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
    world, *changes = name.split("|")
    settings = {key: int(value) for key, value in (change.split("=") for change in changes)}
    folder = out / "".join(c if c.isalnum() else "-" for c in name)
    net = train(world, seconds, folder, device=device, times=2, **settings)
    found = store_scores(
        net, ["development", "choose", "confirm"], folder / "scores.npz", seconds=120
    )
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    line = json.dumps({"run": name, "steps": about["steps"], "tables": about["tables"], **found})
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
