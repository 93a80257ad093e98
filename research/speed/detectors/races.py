"""A race inside its own process: rivals fit the same rows, are judged, and take turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from research.common.clock import race
from research.common.judge import EQUAL, ball_facts, components_without_ties, difference, is_optimal
from research.rivals import detectors as rivals
from research.rivals.detectors._tasks import GridTask, KPCATask, SVDDTask

from .data import Data

JUDGED_ROWS = 1000  # of which scores are compared; by hand

Facts = dict[str, Any]


class FitRace:
    """One task on one training set; then scoring, with the models that were fitted."""

    def __init__(
        self,
        kind: str,
        names: Sequence[str],
        data: Data,
        task: SVDDTask | KPCATask | GridTask,
        score_rows: int,
    ) -> None:
        self.kind, self.data, self.task = kind, data, task
        self.rivals = {name: rivals.load(kind, name) for name in names}
        self.X, self.unseen = data.training(), data.unseen(max(score_rows, JUDGED_ROWS))
        self.scored = self.unseen[:score_rows]
        self.models: dict[str, Any] = {}
        self.verdicts: dict[str, Facts] = {}
        self._warm_up()

    def run(self, repeats: int) -> Facts:
        """Seconds of every run, and what the judge found."""
        fits = {name: partial(rival.fit, self.X, self.task) for name, rival in self.rivals.items()}
        fit_seconds = race(fits, self._judge, repeats)
        scorings = {
            name: partial(self.rivals[name].score, self.models[name], self.scored)
            for name in fit_seconds
        }
        score_seconds = race(scorings, lambda results: dict.fromkeys(results, True), repeats)
        return {
            "fit_seconds": fit_seconds,
            "score_seconds": score_seconds,
            "score_rows": len(self.scored),
            "verdicts": self.verdicts,
        }

    def _judge(self, models: dict[str, Any]) -> Mapping[str, bool]:
        self.models = models
        rows = self.unseen[:JUDGED_ROWS]
        if self.kind != "grid":
            rows = np.concatenate([rows, self.X[:JUDGED_ROWS]])
        scores = {name: self._as_ours(name, model, rows) for name, model in models.items()}
        reference = scores[rivals.OURS[self.kind]]
        self.verdicts = {name: self._difference(found, reference) for name, found in scores.items()}
        if self.kind in ("svdd", "grid"):
            self._judge_balls(models)
        for facts in self.verdicts.values():
            close = self.kind == "svdd" or facts["difference"] <= EQUAL
            facts["equal"] = bool(close and facts.get("optimal", True))
        return {name: facts["equal"] for name, facts in self.verdicts.items()}

    def _judge_balls(self, models: dict[str, Any]) -> None:
        gammas = [self.task.gamma] if isinstance(self.task, SVDDTask) else self._ball_gammas()
        found = {
            name: [
                ball_facts(self.X, ball, self.task.nu, gamma)
                for ball, gamma in zip(self.rivals[name].balls(model), gammas, strict=True)
            ]
            for name, model in models.items()
        }
        best = [min(one["objective"] for one in same) for same in zip(*found.values(), strict=True)]
        for name, balls in found.items():
            self.verdicts[name] |= {
                "optimal": all(map(partial(is_optimal, tol=self.task.tol), balls, best)),
                "violation": max(ball["violation"] for ball in balls),
                "excess": max(b["objective"] / o - 1 for b, o in zip(balls, best, strict=True)),
                "support": [ball["support"] for ball in balls],
            }

    def _difference(self, scores: Any, reference: Any) -> Facts:
        """Balls, which agree to libsvm's tolerance, apart from what has a closed form."""
        if self.kind == "svdd":
            return {"ball_difference": difference(scores, reference)}
        if self.kind == "kpca":
            return {"difference": difference(scores, reference)}
        balls, closed = self._columns
        return {
            "difference": difference(scores[:, closed], reference[:, closed]),
            "ball_difference": difference(scores[:, balls], reference[:, balls]),
            "compared": len(balls) + len(closed),
        }

    @cached_property
    def _columns(self) -> tuple[list[int], list[int]]:
        """Of the grid: those of balls, and those that have one right answer in closed form."""
        members, most = self.task.members(), max(self.task.components)
        untied = {
            gamma: components_without_ties(self.X, gamma, most)
            for gamma in {member.gamma for member in members}
        }
        balls = [i for i, m in enumerate(members) if m.learner == "svdd"]
        return balls, [
            i for i, m in enumerate(members) if m.learner != "svdd" and untied[m.gamma][m.q]
        ]

    def _ball_gammas(self) -> list[float]:
        return [member.gamma for member in self.task.members() if member.learner == "svdd"]

    def _as_ours(self, name: str, model: Any, rows: Any) -> Any:
        rival = self.rivals[name]
        return np.asarray(rival.as_ours(model, rival.score(model, rows)))

    def _warm_up(self) -> None:
        small = self.data.small()
        X, unseen = small.training(), small.unseen(100)
        for rival in self.rivals.values():
            rival.score(rival.fit(X, self.task), unseen)
