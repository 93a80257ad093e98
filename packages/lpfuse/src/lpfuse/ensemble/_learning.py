"""All that a fit learns, from rows to weights: once from all rows, and once without each part.

What is learnt without a part scores the rows of that part: see `lpfuse.ensemble._unseen`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse.ensemble._audit import report_gaps
from lpfuse.ensemble._defaults import choose_prior, choose_scaler
from lpfuse.ensemble._experts import fit_pool
from lpfuse.ensemble._kept_rows import copied_rows
from lpfuse.ensemble._members import Member
from lpfuse.ensemble._out_of_fold import Choice, FitScheduler
from lpfuse.ensemble._refusion import RefusableDetector
from lpfuse.ensemble._tables import Index, Table, impute_features
from lpfuse.ensemble._training import Training
from lpfuse.ensemble._unseen import Learnt, UnseenPart, UnseenRows, among, hidden_parts


class LearningDetector(RefusableDetector):
    """The steps of a fit that are done again without each part."""

    cv: Any
    experts_see_scores: Any

    def _learn_all(
        self,
        members: list[Member],
        training: Training,
        scheduler: FitScheduler,
        chosen: dict[str, Any],
        random: np.random.RandomState,
    ) -> Learnt:
        """All that is learnt from rows, from the first detector to the last weight."""
        scheduler.start_round()
        found = fit_pool(
            members,
            training,
            scheduler,
            scaler=choose_scaler(self) if self.experts_see_scores else None,
            fused=self.experts_see_scores == "fused",
            prior=choose_prior(self, [member.name for member in members], 0),
            choose=self._choice(training, chosen),
        )
        return self._learn(training, found, chosen, random)

    def _hidden_parts(
        self, training: Training, members: list[Member], random: np.random.RandomState
    ) -> list[tuple[Training, Index, Index]]:
        """What to learn from, and the rows to hide, for each part of calibration="cross"."""
        if training.kept_back is not None or self.calibration == "plain":
            return []
        experts = any(member.learns_from_anomalies for member in members)
        found = []
        for learn, hidden in hidden_parts(training, self.cv, experts, random):
            part = among(training, learn, self.cv, random)
            if self._needs_artificial_anomalies(part):
                part = part.with_artificial_anomalies(random)
            if experts and not part.experts_can_learn:
                return []
            found.append((part, learn, hidden))
        return found

    def _score_unseen(
        self,
        learnt: Learnt,
        members: list[Member],
        training: Training,
        parts: list[tuple[Training, Index, Index]],
        scheduler: FitScheduler,
        random: np.random.RandomState,
    ) -> tuple[UnseenRows, list[Learnt]]:
        """Raw scores of rows that nothing has seen; and what was learnt without each part."""
        if training.kept_back is not None:
            raw, features = self._raw_scores_by(learnt, training.kept_back)
            known = training.kept_back_known
            return UnseenRows("split", scores=raw, features=features, known=known), []
        if not parts:
            return UnseenRows(), []
        found, others = [], []
        for part, learn, hidden in parts:
            with warnings.catch_warnings():  # what there is to say was said of all rows
                warnings.simplefilter("ignore")
                other = self._learn_all(members, part, scheduler, {}, random)
                raw, features = self._raw_scores_by(
                    other, _safe_indexing(training.X, hidden, axis=0)
                )
            if raw.shape[1] != len(learnt.pool.members):
                return UnseenRows(), []  # an expert could not learn without the part
            found.append(UnseenPart(learn, hidden, other.out_of_fold, raw, features))
            others.append(other._replace(pool=None))  # their detectors have said all they will
        copied = copied_rows(training.X)
        raw, features = self._raw_scores_by(learnt, _safe_indexing(training.X, copied, axis=0))
        return UnseenRows("cross", found, copied, raw, features), others

    def _raw_scores_by(self, learnt: Learnt, X: Table) -> tuple[Host, Host | None]:
        """Raw scores of rows; their features, where the fusion looks at them."""
        if X.shape[0] == 0:
            return np.empty((0, len(learnt.pool.members))), None
        raw, errors = learnt.pool.scores(X, self.n_jobs)
        names = [member.name for member in learnt.pool.members]
        report_gaps(raw, names, on_missing=self.on_missing, errors=errors)
        return raw, None if learnt.imputer is None else impute_features(learnt.imputer, X)

    def _needs_artificial_anomalies(self, training: Training) -> bool:
        raise NotImplementedError

    def _choice(self, training: Training, chosen: dict[str, Any]) -> Choice | None:
        raise NotImplementedError
