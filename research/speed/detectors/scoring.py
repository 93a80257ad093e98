"""Scoring very many rows inside its own process: time in kernel passes, and extra memory."""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.mixture import GaussianMixture

from lpfuse import SVDD, GMMDetector, KernelPCADetector, OneClassGP
from research.common.clock import race
from research.common.judge import EQUAL, difference
from research.common.memory import peak_of

from .data import Data
from .reference import fastest_block, kernel_pass

LEARNERS: dict[str, Any] = {
    "SVDD": partial(SVDD, approximation=None),
    "OneClassGP": partial(OneClassGP, "mean", approximation=None),
    "KernelPCADetector": partial(KernelPCADetector, approximation=None),
    "SVDD, Nyström": partial(SVDD, approximation="nystroem", random_state=0),
    "OneClassGP, Nyström": partial(OneClassGP, "mean", approximation="nystroem", random_state=0),
    "KernelPCADetector, Nyström": partial(
        KernelPCADetector, approximation="nystroem", random_state=0
    ),
    "GMMDetector": partial(GMMDetector, score_type="log_likelihood", random_state=0),
}
SAMPLE = 997  # every so many rows are scored again, alone


class RowsBench:
    """One learner, fitted, and many rows to score.

    The unit is one pass of kernel evaluations over the anchors of the learner; a mixture has none:
    its unit is scikit-learn's own scoring of the same mixture.
    """

    def __init__(self, learner: str, data: Data, rows: int, threads: int) -> None:
        self.threads = threads
        self.model = LEARNERS[learner]().fit(data.training())
        self.rows = data.unseen(rows)
        self.model.score_samples(self.rows[:SAMPLE])  # warm-up

    def run(self, repeats: int) -> dict[str, Any]:
        """Seconds of scoring and of its unit, in turns."""
        unit, facts = self._unit()
        found = {"learner": partial(self.model.score_samples, self.rows), "unit": unit}
        seconds = race(found, partial(self._judge, facts), repeats)
        return {"seconds": seconds, **facts}

    def extra_memory(self) -> int | None:
        """Bytes that scoring takes at its highest, scores included; for a fresh process."""
        peak = peak_of(lambda: self.model.score_samples(self.rows))
        return None if peak is None else peak.extra

    def _unit(self) -> tuple[Any, dict[str, Any]]:
        if isinstance(self.model, GMMDetector):
            mixture: GaussianMixture = self.model.mixture_
            return partial(mixture.score_samples, self.rows), {"anchors": mixture.n_components}
        anchors, gamma = self.model.expansion_.basis.anchors, self.model.kernel_.gamma
        block = fastest_block(self.rows, anchors, gamma, self.threads)
        one_pass = partial(kernel_pass, self.rows, anchors, gamma, self.threads, block)
        return one_pass, {"anchors": len(anchors), "block": block}

    def _judge(self, facts: dict[str, Any], results: dict[str, Any]) -> dict[str, bool]:
        """Rows must not depend on the others that are scored with them."""
        scores, some = results["learner"], self.rows[::SAMPLE]
        facts["difference"] = difference(scores[::SAMPLE], self.model.score_samples(some))
        if isinstance(self.model, GMMDetector):
            facts["difference"] = max(facts["difference"], difference(scores, results["unit"]))
        return {"learner": facts["difference"] <= EQUAL, "unit": True}
