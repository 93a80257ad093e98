"""Train a network on made-up tables, and judge it on real ones.

1. ``python -m research.studies.suspicion measure`` stores the scores of the pool's members, and
   ``python -m research.incontext sums`` their sums.
2. ``… train`` trains, and goes on where it stopped; ``… score`` scores rows of real tables, with
   hidden anomalies; ``… judge`` measures AUC alone and beside the pool, a line a set.
3. ``… show`` prints the table of docs/adr/0051 from what is stored.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path

import torch

from research.incontext.evaluate import load_network, measured, store_scores, store_sums, summary
from research.incontext.network import Network
from research.incontext.train import train
from research.incontext.world import WORLDS
from research.studies.suspicion import FOLDER

RESULTS = Path("research/results/incontext/short.jsonl")
BUILD = Path("build/incontext")
GROUPS = ["development", "choose", "confirm"]


def main() -> None:
    parser = ArgumentParser("python -m research.incontext", description=__doc__)
    parser.add_argument("command", choices=["sums", "train", "score", "judge", "show"])
    parser.add_argument("--folder", type=Path, default=BUILD, help="network, sums and scores")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--world", choices=list(WORLDS), default="classes, some taxonomy, measured")
    parser.add_argument("--seconds", type=float, default=600, help="of training, this time")
    parser.add_argument("--total", type=float, help="of training, in all")
    parser.add_argument("--times", type=int, default=2, help="size of the batches")
    parser.add_argument("--makers", type=int, default=3, help="processes that draw tables")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=GROUPS)
    parser.add_argument(
        "--untrained", action="store_true", help="score by random weights: a control"
    )
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    folder, device = options.folder, options.device
    sums, scores = folder / "sums.npz", folder / "scores.npz"
    if options.command == "sums":
        folder.mkdir(parents=True, exist_ok=True)
        store_sums(FOLDER, sums)
    elif options.command == "train":
        train(
            options.world, options.seconds, folder, total=options.total, device=device,
            seed=options.seed, times=options.times, makers=options.makers,
        )  # fmt: skip
    elif options.command == "score":
        torch.manual_seed(options.seed)
        net = Network().to(device).eval() if options.untrained else load_network(folder, device)
        print(json.dumps(store_scores(net, options.groups, scores)))
    elif options.command == "judge":
        options.out.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(row) + "\n" for row in measured(sums, scores)]
        options.out.write_text("".join(lines), encoding="utf-8")
    else:
        with open(options.out, encoding="utf-8") as file:
            print(summary([json.loads(line) for line in file]))


if __name__ == "__main__":
    main()
