"""All that a fit learns, from rows to weights: from all rows, and without each part.

What is learnt without a part scores the rows of that part: see `lpfuse.ensemble._unseen`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse.ensemble._audit import report_gaps
from lpfuse.ensemble._defaults import choose_prior, choose_scaler
from lpfuse.ensemble._experts import FittedPool, WithoutFold, add_experts, count_rows
from lpfuse.ensemble._kept_rows import copied_rows
from lpfuse.ensemble._levels import calmed
from lpfuse.ensemble._members import Member
from lpfuse.ensemble._out_of_fold import EXPERT_ROWS, Choice, FitScheduler, OneClass, fit_one_class
from lpfuse.ensemble._refusion import RefusableDetector
from lpfuse.ensemble._tables import Table, impute_features
from lpfuse.ensemble._training import Training
from lpfuse.ensemble._unseen import (
    Learnt,
    Part,
    UnseenPart,
    UnseenRows,
    among,
    hidden_parts,
    scores_of_all_rows,
)


class LearningDetector(RefusableDetector):
    """The steps of a fit that are done again without each part."""

    cv: Any
    experts_see_scores: Any

    def _learn_all(
        self,
        members: list[Member],
        training: Training,
        parts: list[Part],
        scheduler: FitScheduler,
        chosen: dict[str, Any],
        random: np.random.RandomState,
    ) -> tuple[Learnt, list[OneClass]]:
        """All that is learnt from rows, from the first detector to the last weight.

        And the one-class detectors without each part: what the experts that learn without the part
        see of the rows comes from these.
        """
        one_class = [member for member in members if not member.learns_from_anomalies]
        experts = [member for member in members if member.learns_from_anomalies]
        n_folds = len(training.folds.pairs) if training.folds else 0
        learners = min(len(training.labels), EXPERT_ROWS + int((training.labels < 0).sum()))
        scheduler.later = 2 * len(experts) * n_folds * learners
        hidden = [np.concatenate([part.hidden, part.rest]) for part in parts]
        rows = [
            (part.training, _safe_indexing(training.X, some, axis=0))
            for part, some in zip(parts, hidden, strict=True)
        ]
        whole, *without = fit_one_class(one_class, [(training, None), *rows], scheduler)
        whole = self._kept(whole, training, chosen)
        without = [
            self._kept(found, part.training, {}) for found, part in zip(without, parts, strict=True)
        ]
        scheduler.later = 0
        of_all = [
            WithoutFold(scores_of_all_rows(part, found, len(training.labels)), part.learn)
            for part, found in zip(parts, without, strict=True)
        ]
        pool = self._add_experts(whole, experts, training, scheduler, of_all if experts else [])
        return self._learn(training, pool, chosen, random), without

    def _kept(self, found: OneClass, training: Training, chosen: dict[str, Any]) -> OneClass:
        """The one-class members that are kept, given their scores."""
        choose = self._choice(training, chosen)
        if choose is None:
            return found
        kept = choose(found.members, found.scores)
        hidden = None if found.hidden is None else found.hidden[:, kept]
        return OneClass([found.members[i] for i in kept], found.scores[:, kept], hidden)

    def _add_experts(
        self,
        one_class: OneClass,
        experts: list[Member],
        training: Training,
        scheduler: FitScheduler,
        without: Sequence[WithoutFold],
    ) -> FittedPool:
        names = [member.name for member in [*one_class.members, *experts]]
        return add_experts(
            one_class,
            experts,
            training,
            scheduler,
            scaler=choose_scaler(self) if self.experts_see_scores else None,
            fused=self.experts_see_scores == "fused",
            prior=choose_prior(self, names, 0),
            without=without,
        )

    def _hidden_parts(
        self, training: Training, members: list[Member], random: np.random.RandomState
    ) -> list[Part]:
        """What to learn from, and the rows to hide, for each part of calibration="cross"."""
        if training.kept_back is not None or self.calibration == "plain":
            return []
        experts = any(member.learns_from_anomalies for member in members)
        found = []
        for learn, hidden in hidden_parts(training, self.cv, experts, random):
            part = among(training, learn, self.cv, random)
            if self._needs_artificial_anomalies(part):
                part = part.with_artificial_anomalies(random)
            found.append(Part.of(part, learn, hidden, len(training.labels)))
        return found

    def _score_unseen(
        self,
        learnt: Learnt,
        training: Training,
        parts: list[Part],
        without: Sequence[OneClass],
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
        for part, one_class in zip(parts, without, strict=True):
            with warnings.catch_warnings():  # what there is to say was said of all rows
                warnings.simplefilter("ignore")
                other, unseen = self._learn_without(part, one_class, learnt, training, random)
            found.append(unseen)
            others.append(other)
        copied = copied_rows(training.X)
        raw, features = self._raw_scores_by(learnt, _safe_indexing(training.X, copied, axis=0))
        return UnseenRows("cross", found, copied, raw, features), others

    def _learn_without(
        self,
        part: Part,
        one_class: OneClass,
        learnt: Learnt,
        training: Training,
        random: np.random.RandomState,
    ) -> tuple[Learnt, UnseenPart]:
        """Scale and weights without a part, and the raw scores of its hidden rows.

        An expert that learnt without the fold of a row has scored it: of hidden rows, whose fold
        is the part, that knows nothing of the part. Of the others, such scores set scale and
        weights; they are of experts that learnt from the part, which is all that is left of it.
        """
        scores, hidden, n = one_class.scores, one_class.hidden, len(part.learn)
        assert hidden is not None
        experts = learnt.out_of_fold.scores[: len(training.labels), scores.shape[1] :]
        rows = part.training
        more = np.concatenate([experts[part.learn], np.empty((len(scores) - n, experts.shape[1]))])
        scaler = choose_scaler(self) if self.experts_see_scores else None
        names = [member.name for member in learnt.pool.members]
        prior = choose_prior(self, names, 0)
        counts = count_rows(scores[:n], one_class.members, rows, scaler, prior)
        pool = FittedPool(learnt.pool, np.column_stack([scores, more]), counts)
        chosen: dict[str, Any] = {"best_params_": {}}  # what is chosen without a part is not kept
        other = self._learn(rows, pool, chosen, random, learnt.combination)
        features = None
        if other.imputer is not None:
            features = impute_features(
                other.imputer, _safe_indexing(training.X, part.hidden, axis=0)
            )
        normal = experts[training.weight_labels > 0]
        as_mean = calmed(experts[part.hidden], learnt.calm, normal)
        raw = np.column_stack([hidden[: len(part.hidden)], as_mean])
        report_gaps(raw, names, on_missing=self.on_missing)
        return other, UnseenPart(part.learn, part.hidden, other.out_of_fold, raw, features)

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
