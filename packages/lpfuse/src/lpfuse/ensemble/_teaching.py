"""Answers of a person: which rows to ask about, how to learn from them, what they say of us.

`query` draws rows with known chances, `teach` adds what was answered without fitting one-class
detectors again, `audit_answers` judges the detector by it.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lpfuse._arrays.operations import Host, is_blocked
from lpfuse._base import lazily
from lpfuse._validation.params import (
    check_answers,
    check_chances,
    check_count,
    check_row_names,
    check_share,
)
from lpfuse._validation.tables import check_table
from lpfuse.answers import AnswerAudit, Estimate, ask_each_unit_once, audit_answers
from lpfuse.ensemble._defaults import choose_members, seed_members
from lpfuse.ensemble._kept_rows import number_rows, numbers_of, places_of
from lpfuse.ensemble._out_of_fold import FitScheduler, OneClass
from lpfuse.ensemble._questions import appeal_of, neighbouring_order, strangest_of
from lpfuse.ensemble._relearning import RelearningDetector
from lpfuse.ensemble._scoring import without_gaps
from lpfuse.ensemble._suspicion import estimate_share, share_by_answers


class TeachableDetector(RelearningDetector):
    """Asks about rows, and learns from the answers."""

    def query(
        self,
        X: Any,
        n_instances: int = 1,
        *,
        groups: Any = None,
        explore: float = 0.1,
        random_state: Any = None,
        return_chances: bool = False,
    ) -> Any:
        r"""Rows to ask a person about: the answers that help most, drawn with known chances.

        Most questions go to the rows that one-class detectors, or experts, call strangest, some to
        rows near the threshold, and a share `explore` to all rows alike, so that no region stays
        without an answer. Along an order in which like rows are neighbours, the draw is systematic:
        rows that are alike are rarely asked about together, equal rows never (see
        :mod:`lpfuse.answers`).

        Parameters
        ----------
        X : array-like, data frame, or Dask array or data frame, of shape (m, d)
            Rows. Those that were taught already are not asked about again. Training rows are known
            again, and judged by what detectors that have not seen them say.
        n_instances : int, default=1
            Questions; where there are fewer rows that differ, so many.
        groups : array-like of shape (m,), optional
            Of a group one row at most is asked about.
        explore : float in (0, 1], default=0.1
            Share of the questions that goes to all rows alike. 0.3 to 0.5 makes `audit_answers`
            tell more, at the price of fewer anomalies found.
        random_state : int, RandomState or None, default=None
            None: that of the detector.
        return_chances : bool, default=False
            Whether to return the chances, too: hand them to `teach`.

        Returns
        -------
        positions : ndarray of shape (n_instances,)
            Rows of `X`.
        chances : ndarray of shape (n_instances,)
            The chance with which each was drawn. Only if `return_chances`.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FusedDetector, GMMDetector
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> X[7] = 9.0
        >>> fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X)
        >>> 7 in fused.query(X, 3)
        True
        """
        check_is_fitted(self)
        n = check_count("n_instances", n_instances)
        check_share("explore", explore, of="the questions", at_most=1)
        random = check_random_state(self.random_state if random_state is None else random_state)
        judged: Any = self._judge(X)
        judged = np.asarray(judged.compute() if is_blocked(X) else judged)
        numbers = None if is_blocked(X) else numbers_of(check_table(X, estimator=self))
        names = check_row_names(groups, len(judged), "groups")
        free = np.flatnonzero(judged[:, 3] == 0)
        free = free if len(free) else np.arange(len(judged))
        parts, units = judged[free, :2], judged[free, 2]
        rank = strangest_of(parts if self.pool_.experts else parts[:, :1])
        flagged = float(np.mean(parts.sum(axis=1) < self.offset_))
        near = None if numbers is None else numbers[free]
        units = np.where(np.isnan(units), -1.0 - free, units)  # words: no row is like another
        positions, chances = ask_each_unit_once(
            appeal_of(rank, flagged, n, explore),
            units if names is None else names[free],
            n,
            order=neighbouring_order(near, rank, n, random),
            floor=explore,
            random_state=random,
        )
        return (free[positions], chances) if return_chances else free[positions]

    @lazily(width=lambda _: 4, dtype="float64")
    def _judge(self, X: Any) -> Host:
        """What there is to know of each row before it is asked about, in four columns.

        What one-class detectors add to the fused score, and what experts do: of training rows by
        detectors that have not seen them. A number that is equal for equal rows, NaN where they
        have words. The round in which a row was taught, 0 if it was not.
        """
        table = check_table(X, estimator=self)
        terms = self.combination_.contributions(*self._raw_scores(table))
        numbers, known = numbers_of(table), self.rows_.values
        number, taught = np.full(len(terms), np.nan), np.zeros(len(terms))
        if numbers is not None:
            number = number_rows(numbers)
        if numbers is not None and known is not None:
            place = places_of(known, numbers)
            seen = place >= 0
            taught[seen] = self.rounds_[place[seen]]
            held_out = self.held_out_[place[seen]]
            terms[seen] = without_gaps(held_out.terms, held_out.abs_weights)
        split = len(self.pool_.one_class) if self.combination_.is_additive else terms.shape[1]
        parts = [part.sum(axis=1) for part in (terms[:, :split], terms[:, split:])]
        return np.column_stack([*parts, number, taught])

    def teach(self, X: Any, y: Any, *, chances: Any = None) -> Self:
        """Learn from answers: weights, threshold and experts, without fitting one-class detectors.

        Parameters
        ----------
        X : array-like or data frame of shape (m, d)
            Rows that were answered: training rows, which are known again, or others, which are
            added to them.
        y : array-like of shape (m,)
            +1 normal, −1 anomaly, 0 don't know.
        chances : array-like of shape (m,), optional
            With which each row was asked about, from ``query(..., return_chances=True)``; NaN for
            labels from elsewhere. Rows of one call were asked about together.

        Returns
        -------
        FusedDetector
            This detector, changed. Where something is refused it stays what it was.

        Notes
        -----
        A fit to the same rows and labels differs in one way: its one-class detectors do not learn
        from rows that turned out anomalous. The threshold rests on rows that nothing has seen, as
        in a fit.

        Examples
        --------
        >>> import numpy as np
        >>> from lpfuse import FusedDetector, GMMDetector
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> X[:6] += 4.0
        >>> fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X, np.zeros(100))
        >>> rows, chances = fused.query(X, 10, return_chances=True)
        >>> answers = np.where(rows < 6, -1, 1)
        >>> fused = fused.teach(X[rows], answers, chances=chances)
        >>> fused.audit_answers().n_answers
        10
        """
        check_is_fitted(self)
        self._check_teachable()
        self.rows_.table()  # refuses words, which were not kept
        if is_blocked(X):
            raise ValueError(
                "Answers are of few rows: pass them in memory, X[positions].compute()."
            )
        table = check_table(X, estimator=self)
        answers = check_answers(y, table.shape[0])
        asked = np.full(len(answers), np.nan)
        if chances is not None:
            asked = check_chances(chances, len(answers))
        numbers = numbers_of(table)
        if numbers is None:
            raise ValueError("The answered rows hold words where the training rows had numbers.")
        if not answers.any():
            raise ValueError(
                "y has no answer: all are 0, don't know. Pass +1 (normal) or -1 (anomaly)."
            )
        decided = answers != 0
        taught = self._with_answers(numbers[decided], answers[decided], asked[decided])
        random = check_random_state(self.random_state)
        training = taught.training
        members = choose_members(
            self.detectors, training, prefit=self.cv == "prefit", reserved=self._get_param_names()
        )
        experts = [m for m in seed_members(members, random) if m.learns_from_anomalies]
        without = self._without_each_part(taught)
        one_class = OneClass(self.pool_.one_class, taught.one_class)
        scheduler = FitScheduler(self.n_jobs)
        found = self._add_experts(
            one_class, experts, training, scheduler, without if experts else []
        )
        learnt = self._learn(training, found, {}, random)
        unseen, others = self._unseen_again(taught, learnt, without, random)
        self._remember(self._settle(learnt, others, unseen))
        self.rows_, self.rounds_ = taught.rows, taught.rounds
        return self

    def audit_answers(self, *, confidence: float = 0.95) -> AnswerAudit:
        """How good the detector is, from the rows that were asked about alone.

        Scores are those by detectors, weights and experts that have not seen the row.

        Parameters
        ----------
        confidence : float in (0, 1), default=0.95
            Of the intervals.

        Returns
        -------
        AnswerAudit
            Share of anomalies, hit rate, precision, false alarms and AUC, each with an interval;
            ``.summary()`` says it in words.
        """
        check_is_fitted(self)
        self._check_teachable()
        known, chances = self._known()
        if np.isnan(chances[known != 0]).all():
            raise ValueError(
                "No row was asked about with a known chance. Draw rows with query(X, n, "
                "return_chances=True), and hand the answers and the chances to teach."
            )
        answered = known != 0
        return audit_answers(
            self.held_out_.fused[answered],
            known[answered],
            chances[answered],
            offset=self.offset_,
            n_rows=self._n_asked_from(),
            rounds=self.rounds_[answered],
            confidence=confidence,
        )

    @property
    def contamination_(self) -> Estimate:
        """The share of anomalies among the training rows, with its 95 % interval.

        From rows that were asked about with known chances, by how strange these rows were. Without
        any: what is believed of a table that nobody has looked at.
        """
        nobody = np.empty(0)
        if self.out_of_fold_.known is None or self.out_of_fold_.chances is None:
            return estimate_share(nobody, nobody)
        known, chances = self._known()
        one_class = slice(len(self.pool_.one_class) if self.combination_.is_additive else None)
        terms = without_gaps(self.held_out_.terms, self.held_out_.abs_weights)[:, one_class]
        rounds, n = self.rounds_ * bool(self.pool_.experts), self._n_asked_from() or len(known)
        return share_by_answers(terms.sum(axis=1), known, chances, rounds, n)

    def _n_asked_from(self) -> int | None:
        """The training rows, if questions went to these alone; else there is no telling."""
        known, chances = self._known()
        end = len(known) - self.unseen_.n_kept_back
        from_elsewhere = chances[end - self.rows_.n_added : end]
        return len(known) - self.rows_.n_added if np.isnan(from_elsewhere).all() else None

    def _check_teachable(self) -> None:
        if self.artificial_anomalies or self.cv == "in-sample":
            raise ValueError(
                'A detector with artificial_anomalies=True or cv="in-sample" cannot be taught, nor '
                "judged by answers: held-out scores of its rows were not kept. Fit it again with "
                "y=."
            )
