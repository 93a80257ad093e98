"""Train the network on made-up tables, for so many seconds; a run goes on where it stopped.

The loss is that of ranks: the mean over pairs of an anomaly and a normal row of
``log(1 + exp(score of the normal row − score of the anomaly))``, of the rows to score and, with
less weight, of the context rows, where hidden anomalies are to be found.
"""

from __future__ import annotations

import json
import math
import time
from copy import deepcopy
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, multiprocessing
from torch.nn import functional as F

from research.incontext.network import Network, Tokens, halves, tokens
from research.incontext.world import WORLDS, Dice, draw_batch

# Context rows, with so many tables at a time that a step has about the same number of rows.
SIZES = ((128, 192), (256, 128), (512, 72), (768, 48), (1024, 36))
SIZE_WEIGHTS = (1.0, 2.0, 3.0, 3.0, 3.0)
SCORED = 96  # rows to score of either kind
RATE, WARM_UP, DECAY, CLIP = 8e-4, 300, 0.01, 1.0
CONTEXT_WEIGHT = 0.3
AVERAGING = 0.999  # of the weights that are kept


def rank_loss(scores: Tensor, is_anomaly: Tensor, among: Tensor) -> Tensor:
    """Mean over pairs of each table, then over the tables that have pairs."""
    anomaly, normal = is_anomaly & among, ~is_anomaly & among
    pairs = anomaly[:, :, None] & normal[:, None]
    loss = F.softplus(scores[:, None] - scores[:, :, None])
    count = pairs.sum((1, 2))
    each = (loss * pairs).sum((1, 2)) / count.clamp(min=1)
    return each.sum() / (count > 0).sum().clamp(min=1)


class Lesson(NamedTuple):
    """Tables of one size, as the network is given them."""

    given: Tokens
    labels: Tensor
    is_anomaly: Tensor


def draw_lesson(dice: Dice, world: str, times: int) -> Lesson:
    """Draw tables of a size at random, and describe their rows."""
    n, tables = SIZES[int(torch.multinomial(torch.tensor(SIZE_WEIGHTS), 1, generator=dice.host))]
    tables *= times
    if dice.device == "cpu":
        n, tables = 64, 8
    rows, is_anomaly, labels = draw_batch(dice, WORLDS[world], tables, n, SCORED)
    with torch.no_grad():
        given = tokens(rows, n, halves(rows.shape[2], dice.host).to(dice.device))
    return Lesson(given, labels, is_anomaly)


def lesson_loss(net: torch.nn.Module, lesson: Lesson) -> Tensor:
    """Loss of the rows to score, and with less weight of the context rows without a label."""
    given, labels, is_anomaly = lesson
    n, device = labels.shape[1], labels.device.type
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        scores = net(given, labels)
    scores = scores.float()
    asked = torch.ones_like(is_anomaly[:, n:])
    loss = rank_loss(scores[:, n:], is_anomaly[:, n:], asked)
    some = slice(0, min(n, 256))  # pairs among all context rows would be too many
    unlabelled = labels[:, some] == 0
    return loss + CONTEXT_WEIGHT * rank_loss(scores[:, some], is_anomaly[:, some], unlabelled)


def _make_lessons(world: str, times: int, device: str, seed: int, lessons: Any, done: Any) -> None:
    """In a process of its own: draw tables until told to stop."""
    torch.set_num_threads(1)
    dice = Dice(seed, device)
    while not done.is_set():
        lesson = draw_lesson(dice, world, times)
        if device == "cuda":
            torch.cuda.synchronize()
        lessons.put(lesson)
    done.wait()


class Makers:
    """Lessons drawn ahead by processes, since drawing takes as long as learning."""

    def __init__(self, count: int, world: str, times: int, device: str, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._lessons, self._done = context.Queue(2 * count), context.Event()
        self._processes = [
            context.Process(
                target=_make_lessons, daemon=True,
                args=(world, times, device, seed + 104729 * i, self._lessons, self._done),
            )
            for i in range(count)
        ]  # fmt: skip
        for process in self._processes:
            process.start()

    def next(self) -> Lesson:
        return self._lessons.get()

    def stop(self) -> None:
        self._done.set()
        for process in self._processes:
            process.terminate()


def train(
    world: str,
    seconds: float,
    folder: Path,
    *,
    total: float | None = None,
    device: str = "cuda",
    seed: int = 0,
    most_steps: int | None = None,
    times: int = 1,
    makers: int = 0,
    **settings: int,
) -> Network:
    """Train for so many seconds, of `total` seconds in all, after which the rate is zero.

    What is needed to go on is in ``folder / "state.pt"``, the averaged weights in
    ``folder / "net.pt"``, and a line a hundred steps in ``folder / "log.jsonl"``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(seed)
    net = Network(**settings).to(device)
    kept = deepcopy(net).eval().requires_grad_(False)
    optimiser = torch.optim.AdamW(
        net.parameters(), RATE, weight_decay=DECAY, fused=device == "cuda"
    )
    step, spent, seen = 0, 0.0, 0
    state = folder / "state.pt"
    if state.exists():
        found: dict[str, Any] = torch.load(state, map_location=device, weights_only=True)
        net.load_state_dict(found["net"])
        kept.load_state_dict(found["kept"])
        optimiser.load_state_dict(found["optimiser"])
        step, spent, seen = found["step"], found["spent"], found["seen"]
    dice = Dice(seed + 7919 * step, device)
    ahead = Makers(makers, world, times, device, seed + 7919 * step) if makers else None
    start, losses = time.monotonic(), []
    total = total or seconds
    while (now := time.monotonic() - start) < seconds and step != most_steps:
        done = min(1.0, (spent + now) / total)
        rate = RATE * min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * done))
        for group in optimiser.param_groups:
            group["lr"] = rate
        lesson = ahead.next() if ahead else draw_lesson(dice, world, times)
        loss = lesson_loss(net, lesson)
        seen += len(lesson.labels)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), CLIP)
        optimiser.step()
        step += 1
        keep = min(AVERAGING, step / (step + 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(kept.parameters()), list(net.parameters()), 1 - keep)
        losses.append(loss.detach())
        if step % 100 == 0:
            line = {
                "step": step,
                "tables": seen,
                "seconds": round(spent + time.monotonic() - start, 1),
            }
            line["loss"] = round(float(torch.stack(losses).mean()), 4)
            losses = []
            with open(folder / "log.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    spent += time.monotonic() - start
    if ahead:
        ahead.stop()
    torch.save(
        {"net": net.state_dict(), "kept": kept.state_dict(), "optimiser": optimiser.state_dict(),
         "step": step, "spent": spent, "seen": seen},
        state,
    )  # fmt: skip
    torch.save(kept.state_dict(), folder / "net.pt")
    digest = sha256((folder / "net.pt").read_bytes()).hexdigest()
    about = {"world": world, "seed": seed, "steps": step, "tables": seen, "seconds": round(spent),
             "sha256": digest, **kept.settings}  # fmt: skip
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return kept
