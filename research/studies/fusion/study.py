"""One set and one seed: test AUC of every rule and reference, as records to be stored.

A record is one (situation, number of labels) with the AUC, in per cent, under ``auc``: of the
rules and the references for each pool, "+ two experts" or three where there are labels enough, and
of the experts "alone". Where a set has fewer anomalies than asked for, all that may be labelled
are; with fewer than `FEWEST` of them there is no record for `FEWEST` labels or more.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from research.common.protocol import auc
from research.common.store import Record

from .parts import Parts, parts_of
from .pool import (
    DETECTORS,
    EXPERT_POOLS,
    EXPERTS,
    POOLS,
    OneClassScores,
    Scores,
    expert_scores,
    one_class_scores,
)
from .rules import CHOSEN, JITTER_RULE, RULES, Rule, logistic_weights

LABELS = (0, 1, 2, 5, 10, 20, 50, 100)
FEWEST = 5  # labelled anomalies that a set must have for more to be asked for
EXPERTS_FROM = 2  # labelled anomalies; with fewer, a fold would have none to learn from
MAIN = "six"


def records_of(X: np.ndarray, is_anomaly: np.ndarray, seed: int) -> Iterator[Record]:
    """A record for each situation and each number of labels that there are anomalies for."""
    parts = parts_of(X, is_anomaly, seed)
    scores = one_class_scores(parts)
    for situation, may_be_known, sought in parts.situations():
        done: dict[int, Record] = {}
        for labels in LABELS:
            known = may_be_known[:labels]
            if len(known) < min(labels, FEWEST):
                continue
            if len(known) not in done:  # else the same labels once more
                done[len(known)] = _measured(parts, scores, known, sought)
            yield {
                "situation": situation,
                "labels": labels,
                "known": len(known),
                **done[len(known)],
            }


def _measured(
    parts: Parts, scores: OneClassScores, known: np.ndarray, sought: np.ndarray
) -> Record:
    names = list(DETECTORS)
    aucs: dict[str, dict[str, float]] = {}
    gaps = [0.0]
    for pool, members in POOLS.items():
        columns = [names.index(member) for member in members]
        raw = scores.situation(known, sought).columns(columns)
        rules = RULES if pool == MAIN else {"chosen": CHOSEN}
        scaled = raw.scaled()
        aucs[pool] = references(raw, scaled) | learnt(scaled, rules, gaps)
        if len(known) == 0:
            jittered = Scores(scores.train, scores.jittered, scores.test, scores.anomalies[sought])
            jittered = jittered.columns(columns).scaled()
            aucs[pool] |= learnt(jittered, {"jitter": JITTER_RULE}, gaps)
        if pool == MAIN and len(known) >= EXPERTS_FROM:
            experts = expert_scores(parts, known, sought, scaled, parts.seed)
            aucs["alone"] = {
                expert: auc(experts.test_normal[:, j], experts.test_anomaly[:, j])
                for j, expert in enumerate(EXPERTS)
            }
            for number, (name, chosen) in enumerate(EXPERT_POOLS.items()):
                with_experts = raw.beside(experts.columns([list(EXPERTS).index(e) for e in chosen]))
                scaled = with_experts.scaled()
                rules = RULES if number == 0 else {"chosen": CHOSEN}
                aucs[f"{pool} + {name}"] = references(with_experts, scaled) | learnt(
                    scaled, rules, gaps
                )
    rounded = {
        pool: {option: round(value, 2) for option, value in values.items()}
        for pool, values in aucs.items()
    }
    return {"relative_gap": max(gaps), "auc": rounded}


def references(raw: Scores, scaled: Scores) -> dict[str, float]:
    """The sum, the detector picked with the same labels, the best in hindsight, stacking."""
    single = [auc(raw.test_normal[:, j], raw.test_anomaly[:, j]) for j in range(raw.train.shape[1])]
    found = {"sum": test_auc(scaled, np.ones(len(single))), "hindsight": max(single)}
    if len(raw.known) == 0:
        return found
    known = [auc(raw.train[:, j], raw.known[:, j]) for j in range(len(single))]
    stacked = test_auc(scaled, logistic_weights(scaled.train, scaled.known))
    return found | {"picked": single[int(np.argmax(known))], "stacked": stacked}


def learnt(scaled: Scores, rules: dict[str, Rule], gaps: list[float]) -> dict[str, float]:
    """AUC of each rule; the certificates' relative gaps are added to `gaps`."""
    found = {}
    for name, rule in rules.items():
        weights, gap = rule.weights(scaled.train, scaled.known)
        found[name] = test_auc(scaled, weights)
        gaps.append(gap)
    return found


def test_auc(scaled: Scores, weights: np.ndarray) -> float:
    return auc(scaled.test_normal @ weights, scaled.test_anomaly @ weights)
