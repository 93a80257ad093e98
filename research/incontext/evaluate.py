"""Scores of the network on real tables with hidden anomalies, alone and beside the default pool.

The splits are those of ``research.studies.suspicion``, which stores the raw scores of all members
of the default pool; the network joins them as one more member, on the same scale.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lpfuse import TailScaler
from lpfuse._arrays.operations import Host
from lpfuse.ensemble.defaults import learnt_prior
from research.common.protocol import auc
from research.common.statistics import compare
from research.common.tables import markdown
from research.incontext.network import Network, halves, tokens
from research.incontext.world import MOST_COLUMNS
from research.studies.answers.splits import COLLECTIONS, CollectionName, dirty_split
from research.studies.suspicion import MOST_TEST, REST, scaled, with_rest
from research.studies.tables.splits import half_of, table_key, table_names

RATES = (0.0, 0.05, 0.1)
MOST_CONTEXT = 2048
BLENDS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)  # weights of the network beside the pool
SHARES = ("0.0", "0.03", "0.1")  # of hidden rows, that the prior of the pool assumes
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
    order = sorted(
        table_names(), key=lambda n: md5(f"{n}.npz".encode(), usedforsecurity=False).hexdigest()
    )
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


def store_sums(folder: Path, path: Path) -> None:
    """Sums of the pool's scores of test rows, under the prior of each assumed share.

    `folder` holds what ``python -m research.studies.suspicion measure`` has stored.
    """
    priors = {row["share"]: row["weights"] for row in learnt_prior()["suspected"]}
    found: dict[str, Host] = {}
    for collection in COLLECTIONS:
        for name in COLLECTIONS[collection].some():
            key = COLLECTIONS[collection].key(name)
            file = folder / collection / f"{key}.npz"
            if not file.exists():
                continue
            with np.load(file, allow_pickle=False) as arrays:
                stored = {k: arrays[k].astype(np.float64) for k in arrays.files if "|0|" in k}
            for rate in RATES:
                parts = {
                    part: {
                        k.rpartition("|")[2]: of
                        for k, of in stored.items()
                        if k.startswith(f"{rate}|0|{part}|")
                    }
                    for part in ("train", "test", "sought")
                }
                for part in ("test", "sought"):
                    scores = with_rest(scaled(parts[part], parts["train"]))
                    for share, robust in {0.0: {}, **priors}.items():
                        weights = {REST: 1 - sum(robust.values()), **robust}
                        total = sum(w * scores[member] for member, w in weights.items())
                        at = f"{collection}|{key}|{rate}|{share}|{part}"
                        found[at] = np.asarray(total, np.float32)
    np.savez_compressed(path, **found)  # type: ignore[arg-type]


def measured(sums: Path, scores: Path) -> Iterator[dict[str, Any]]:
    """AUC of the network alone and beside the pool, a row a set and share of hidden rows.

    "both" has a list a share that the prior of the pool assumes: AUC by the weights in `BLENDS`, of
    which the first is 0, the pool alone.
    """
    pool, net = (np.load(path, allow_pickle=False) for path in (sums, scores))
    halves = {table_key(name): half for name, half in half_of(table_names()).items()}
    pilots = {table_key(name) for name in table_names() if is_like_pilot(name)}
    for at in dict.fromkeys(key.rpartition("|")[0] for key in net.files):
        collection, key, rate = at.split("|")
        if f"{at}|{SHARES[0]}|test" not in pool.files:
            continue
        train, *new = (
            net[f"{at}|{part}"].astype(np.float64) for part in ("train", "test", "sought")
        )
        scale = TailScaler().fit(train[:, None])
        alone = [scale.transform(of[:MOST_TEST, None])[:, 0] for of in new]
        row: dict[str, Any] = {
            "group": "development" if collection == "anomaly" else halves[key], "set": key,
            "rate": float(rate), "pilot": key in pilots, "n": len(train),
            "net": round(auc(*alone), 2),
        }  # fmt: skip
        both = {}
        for share in SHARES:
            of_pool = [pool[f"{at}|{share}|{part}"] for part in ("test", "sought")]
            both[share] = [
                round(auc(*((1 - w) * a + w * b for a, b in zip(of_pool, alone, strict=True))), 2)
                for w in BLENDS
            ]
        yield row | {"both": both}


def chosen_weight(rows: Sequence[Mapping[str, Any]], share: str) -> float:
    """Weight of the network that is best over the choosing half and the development sets."""

    by_weight = [
        np.mean([row["both"][share] for row in rows if row["group"] == group], axis=0)
        for group in ("development", "choose")
    ]
    return BLENDS[int(np.mean(by_weight, axis=0).argmax())]


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """The network alone and beside the pool, with intervals over sets, as Markdown."""
    lines = [["", "share assumed, weight", *(f"{100 * rate:.0f} % hidden" for rate in RATES)]]
    for group in ("development", "choose", "confirm", "pilot"):
        here = [row for row in rows if row["group"] == group or (group == "pilot" and row["pilot"])]
        if not here:
            continue
        at = [[row for row in here if row["rate"] == rate] for rate in RATES]
        means = [f"{np.mean([row['net'] for row in of]):.2f}" for of in at]
        lines.append([f"{group}, network alone ({len(at[0])} sets)", "", *means])
        for share in SHARES:
            w = chosen_weight(rows, share)
            cells = []
            for of in at:
                pool = [row["both"][share][0] for row in of]
                both = [row["both"][share][BLENDS.index(w)] for row in of]
                gain = compare(both, pool).difference
                cells.append(
                    f"{np.mean(pool):.2f} {gain.mean:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}]"
                )
            lines.append([f"{group}, pool and gain", f"{share}, {w}", *cells])
    return markdown(lines)


def load_network(folder: Path, device: str = "cpu") -> Network:
    """The averaged weights of a training run."""
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    net = Network(**{key: about[key] for key in Network().settings}).to(device).eval()
    net.load_state_dict(torch.load(folder / "net.pt", map_location=device, weights_only=True))
    return net
