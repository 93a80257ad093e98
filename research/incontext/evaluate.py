"""Scores of the network on real tables with hidden anomalies, alone and beside the default pool.

The splits are those of ``research.studies.suspicion``, which stores the raw scores of all members
of the default pool; the network joins them as one more member, on the same scale.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from hashlib import md5
from pathlib import Path

import numpy as np
import torch

from lpfuse._arrays.operations import Host
from research.common.protocol import auc
from research.incontext.network import Network, halves, tokens
from research.incontext.world import MOST_COLUMNS
from research.studies.answers.splits import COLLECTIONS, CollectionName, dirty_split
from research.studies.tables.splits import half_of, table_names

RATES = (0.0, 0.05, 0.1)
MOST_CONTEXT = 2048
MOST_TEST = 250  # normal rows, and anomalies, that are scored
LIKE_PILOT = 60  # tables of the first study: the first ones by a hash of their names


@torch.no_grad()
def score_rows(
    net: Network,
    context: Host,
    new: Host,
    *,
    draws: int = 2,
    seed: int = 0,
    labels: Host | None = None,
    with_context: bool = False,
) -> Host:
    """Score rows in the context of others: high = anomalous.

    Parameters
    ----------
    net : Network
        Trained.
    context, new : ndarray of shape (n, d), (m, d)
        Rows without gaps.
    draws : int
        Orders of the columns, and random halves of them, that are averaged. Where there are more
        than `MOST_COLUMNS`, each draw takes as many at random.
    labels : ndarray of shape (n,), optional
        Of the context rows: ±1, 0 where unlabelled.
    with_context : bool
        Whether scores of the context rows come first.
    """
    device = next(net.parameters()).device
    random = np.random.default_rng(seed)
    known = np.zeros(len(context)) if labels is None else labels
    if len(context) > MOST_CONTEXT:
        pick = random.permutation(len(context))[:MOST_CONTEXT]
        if with_context:
            new = np.concatenate([context, new])
        context, known = context[pick], known[pick]
        with_context = False
    n, d = context.shape
    both = torch.tensor(np.concatenate([context, new]), dtype=torch.float32)
    total = 0.0
    for _ in range(draws):
        columns = random.permutation(d)[:MOST_COLUMNS]
        dice = torch.Generator().manual_seed(int(random.integers(2**31)))
        given = tokens(both[:, columns][None].to(device), n, halves(len(columns), dice).to(device))
        asked = torch.tensor(known[None], dtype=torch.float32, device=device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            found = net(given, asked)[0].float().cpu().numpy()
        total = total + found
    return (total if with_context else total[n:]) / draws


def places(groups: Iterable[str]) -> list[tuple[str, CollectionName, str]]:
    """Group, collection and name of each set: "development", "choose" and "confirm"."""
    found: list[tuple[str, CollectionName, str]] = []
    if "development" in groups:
        found += [("development", "anomaly", name) for name in COLLECTIONS["anomaly"].some()]
    for name, half in half_of(table_names()).items():
        if half in groups:
            found.append((half, "tables", name))
    return found


def is_like_pilot(name: str) -> bool:
    """Whether a table is among those that the first study measured."""
    order = sorted(table_names(), key=lambda n: md5(f"{n}.npz".encode()).hexdigest())
    return name in order[:LIKE_PILOT]


def store_scores(
    net: Network,
    groups: Sequence[str],
    path: Path,
    *,
    rates: Sequence[float] = RATES,
    draws: int = 2,
    seconds: float = float("inf"),
) -> dict[str, float]:
    """Score the rows of all sets of these groups; return the mean AUC of each group and rate."""
    arrays: dict[str, Host] = {}
    found: dict[str, list[float]] = {}
    start = time.monotonic()
    pilots = {name for _, collection, name in places(groups) if collection == "tables"}
    pilots = {name for name in pilots if is_like_pilot(name)}
    for group, collection, name in places(groups):
        X, is_anomaly = COLLECTIONS[collection].load(name)
        for rate in rates:
            split = dirty_split(X, is_anomaly, 0, rate)
            test, sought = split.test[:MOST_TEST], split.sought[:MOST_TEST]
            scores = score_rows(
                net, split.rows, np.concatenate([test, sought]), draws=draws, with_context=True
            )
            rows, normal, anomalous = np.split(
                -scores, [len(split.rows), len(split.rows) + len(test)]
            )
            start_of = f"{collection}|{COLLECTIONS[collection].key(name)}|{rate}|"
            arrays |= {
                start_of + part: of.astype(np.float32)
                for part, of in (("train", rows), ("test", normal), ("sought", anomalous))
            }
            area = auc(normal, anomalous)
            found.setdefault(f"{group} {rate}", []).append(area)
            if name in pilots:
                found.setdefault(f"pilot {rate}", []).append(area)
        if time.monotonic() - start > seconds:
            break
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    return {key: round(float(np.mean(of)), 2) for key, of in found.items()} | {
        "sets": float(len({key.split("|")[1] for key in arrays}))
    }


def load_network(folder: Path, settings: Mapping[str, int], device: str = "cpu") -> Network:
    """The averaged weights of a training run."""
    net = Network(**settings).to(device).eval()
    net.load_state_dict(torch.load(folder / "net.pt", map_location=device, weights_only=True))
    return net
