"""Stored records → Markdown: mean AUC of rules and references, and the chosen rule set by set."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from research.common.store import Record
from research.common.tables import markdown
from research.studies.running import paired

from .study import EXPERTS_FROM, LABELS, MAIN

SITUATIONS = ("seen", "unseen")
REFERENCES = ("sum", "picked", "stacked", "hindsight")
RIVALS = ("sum", "one-class sum", "picked", "stacked", "trees alone", "logistic alone")
MORE_EXPERTS_FROM = 50  # labelled anomalies from which the default pool has three experts
DEFAULT = "default"

Aucs = dict[str, float]  # set → AUC, mean over seeds


class Results:
    """AUCs by situation, labels, pool and option; sets are kept apart, seeds are averaged."""

    def __init__(self, records: Iterable[Record]) -> None:
        values: Any = defaultdict(lambda: defaultdict(list))
        self.largest_gap = 0.0
        for record in records:
            self.largest_gap = max(self.largest_gap, record["relative_gap"])
            for pool, aucs in (record["auc"] | {DEFAULT: of_default(record)}).items():
                for option, value in aucs.items():
                    key = record["situation"], record["labels"], pool, option
                    values[key][record["set"]].append(value)
        self._aucs: dict[tuple[str, int, str, str], Aucs] = {
            key: {name: float(np.mean(aucs)) for name, aucs in sets.items()}
            for key, sets in values.items()
        }

    def aucs(self, situation: str, labels: int, pool: str, option: str) -> Aucs | None:
        return self._aucs.get((situation, labels, pool, option))

    def options(self, pool: str) -> list[str]:
        found = (option for *_, of, option in self._aucs if of == pool)
        return list(dict.fromkeys(found))

    def pools(self) -> list[str]:
        return list(dict.fromkeys(pool for *_, pool, _ in self._aucs))


def default_pool(known: int) -> str:
    """The pool that `FusedDetector` takes with so many labelled anomalies."""
    if known < EXPERTS_FROM:
        return MAIN
    return f"{MAIN} + {'two' if known < MORE_EXPERTS_FROM else 'three'} experts"


def of_default(record: Record) -> Aucs:
    """What the default pool has, and what could be done without it."""
    aucs = record["auc"]
    alone = {f"{expert} alone": value for expert, value in aucs.get("alone", {}).items()}
    one_class = {"one-class sum": aucs[MAIN]["sum"]}
    return {**aucs[default_pool(record["known"])], **alone, **one_class}


def report(records: Iterable[Record]) -> str:
    results = Results(records)
    sections = [f"Largest relative gap of a certificate: {results.largest_gap:.1e}"]
    for situation in SITUATIONS:
        for pool in (pool for pool in results.pools() if pool != DEFAULT):
            title = f"Anomalies of {situation} kinds, pool: {pool}"
            sections.append(f"{title}\n\n{means_table(results, situation, pool)}")
    sections.append(f"The default, set by set\n\n{safety_table(results)}")
    sections.append(f"Options chosen on half of the sets\n\n{halves_table(results)}")
    return "\n\n".join(sections)


def means_table(results: Results, situation: str, pool: str) -> str:
    """Mean AUC over the anomaly sets / the UCI sets, by option × number of labels."""
    options = results.options(pool)
    counts = [k for k in LABELS if results.aucs(situation, k, pool, options[0]) is not None]
    rows = [["", *(f"{k} labels" for k in counts)]]
    for option in options:
        cells = [shown(results.aucs(situation, k, pool, option)) for k in counts]
        rows.append([option, *cells])
    return markdown(rows, numbers=False)


def shown(aucs: Aucs | None) -> str:
    if aucs is None:
        return "–"
    families = (
        [v for n, v in aucs.items() if not is_uci(n)],
        [v for n, v in aucs.items() if is_uci(n)],
    )
    return " / ".join(f"{np.mean(values):.1f}" if values else "–" for values in families)


def is_uci(name: str) -> bool:
    return re.match(r"d\d\d_", name) is not None


def safety_table(results: Results) -> str:
    """The chosen rule against what a user could do without it, paired over all sets."""
    head = "situation", "labels", "against", "ours", "theirs", "won : lost", "worst set", "Wilcoxon"
    rows = [list(head)]
    for situation in SITUATIONS:
        for labels in LABELS:
            for rival in RIVALS:
                ours = results.aucs(situation, labels, DEFAULT, "chosen")
                theirs = results.aucs(situation, labels, DEFAULT, rival)
                if ours is not None and theirs is not None:
                    found = paired(ours, theirs)
                    outcome = (found.won_lost, found.worst, found.p_value)
                    rows.append([situation, str(labels), rival, *found[:2], *outcome])
    return markdown(rows, numbers=False)


def halves_table(results: Results, repeats: int = 200) -> str:
    """The rule that is best on random halves of the sets, judged on the other halves.

    A rule is judged by its mean over all situations and numbers of labels, with two experts where
    there are labels enough.
    """
    rules = [o for o in results.options(MAIN) if o not in (*REFERENCES, "jitter")]
    table = {rule: dict(_means(results, rule)) for rule in rules}
    names = sorted(set.intersection(*(set(of_rule) for of_rule in table.values())))
    values = np.array([[table[rule][name] for name in names] for rule in rules])
    rng = np.random.default_rng(0)
    picked, gains = [], []
    for _ in range(repeats):
        order = rng.permutation(len(names))
        half, rest = np.array_split(order, 2)
        best = int(np.argmax(values[:, half].mean(axis=1)))
        picked.append(best)
        gains.append(values[best, rest].mean() - values[rules.index("chosen"), rest].mean())
    rows = [["rule", "mean over all cells", "halves on which it is best"]]
    for number, rule in enumerate(rules):
        share = np.mean(np.array(picked) == number)
        rows.append([rule, f"{values[number].mean():.2f}", f"{share:.0%}"])
    summary = (
        f"Gain of the picked rule over the chosen one on the other halves: {np.mean(gains):+.2f}"
    )
    return f"{markdown(rows, numbers=False)}\n\n{summary}"


def _means(results: Results, rule: str) -> Iterator[tuple[str, float]]:
    """Each set with the mean over its cells."""
    found: dict[str, list[float]] = defaultdict(list)
    for situation in SITUATIONS:
        for labels in LABELS:
            pool = MAIN if labels < EXPERTS_FROM else f"{MAIN} + two experts"
            for name, value in (results.aucs(situation, labels, pool, rule) or {}).items():
                found[name].append(value)
    for name, values in found.items():
        yield name, float(np.mean(values))
