"""Answers among the training rows, and what is learnt from them beside detectors as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from lpfuse._arrays.operations import Host
from lpfuse.ensemble._experts import WithoutFold
from lpfuse.ensemble._kept_rows import KeptRows, keys_of, places_of, refuse_contradictions
from lpfuse.ensemble._learning import LearningDetector
from lpfuse.ensemble._out_of_fold import OneClass
from lpfuse.ensemble._tables import Index, numeric_columns, replace_numbers
from lpfuse.ensemble._training import Folds, Training, make_folds
from lpfuse.ensemble._unseen import Learnt, Part, UnseenRows, among

# Folds of the experts that `teach` fits, where no parts tell them; as cv=5.
FOLDS_OF_EXPERTS = 5


class Taught(NamedTuple):
    """Training rows with answers entered.

    Attributes
    ----------
    training : Training
        The rows, and those that are still kept back.
    one_class : ndarray of shape (n, R)
        What the one-class detectors say of the former.
    rows, rounds : KeptRows, ndarray
        Of both, for the detector to keep.
    still_kept_back : ndarray of positions
        Among the rows that were kept back before.
    """

    training: Training
    one_class: Host
    rows: KeptRows
    rounds: NDArray[np.intp]
    still_kept_back: Index


class RelearningDetector(LearningDetector):
    """Learns experts, scale and weights anew from answers, and calibrates them as a fit does."""

    random_state: Any
    rows_: KeptRows
    rounds_: NDArray[np.intp]

    def _known(self) -> tuple[Host, Host]:
        """Labels as they were given, and chances, of the rows learnt from, then of those kept back.

        NaN where a row was not asked about.
        """
        known, chances = self.out_of_fold_.known, self.out_of_fold_.chances
        assert known is not None  # they are known of all rows that were fitted to
        chances = np.full(len(known), np.nan) if chances is None else chances
        if self.unseen_.known is None:
            return known, chances
        below = self.unseen_.known.T
        return np.concatenate([known, below[0]]), np.concatenate([chances, below[1]])

    def _with_answers(self, numbers: Host, answers: Host, asked: Host) -> Taught:
        """The training rows and their one-class scores with answers entered, or added."""
        values = numeric_columns(self.rows_.table())
        known, chances = (column.copy() for column in self._known())
        rounds, width = self.rounds_.astype(np.intp), len(self.pool_.one_class)
        end, n = len(known) - self.unseen_.n_kept_back, len(known)
        _, first, copy_of = np.unique(keys_of(numbers), return_index=True, return_inverse=True)
        refuse_contradictions(answers, copy_of.ravel())
        numbers, answers, asked = numbers[first], answers[first], asked[first]
        new = np.flatnonzero(places_of(values, numbers) < 0)
        scores = [self.out_of_fold_.scores[:end, :width], self.unseen_.scores[:, :width]]
        scores = scores if self.unseen_.n_kept_back else scores[:1]
        if len(new):
            X = replace_numbers(self.rows_.table(np.zeros(len(new), np.intp)), numbers[new])
            scores.append(type(self.pool_)(self.pool_.one_class, []).scores(X, self.n_jobs)[0])
            values = np.concatenate([values, numbers[new]])
            known, chances, rounds = (
                np.concatenate([old, np.full(len(new), fill)])
                for old, fill in ((known, 0.0), (chances, np.nan), (rounds, 0))
            )
        this_round = int(rounds.max(initial=0)) + 1
        # The answer for a row is that for each of its copies. One of them stands for all in the
        # audit, with the chance by which it was first asked about: a corrected answer keeps it.
        of_row = places_of(numbers, values)
        told = of_row >= 0
        before_asked = np.zeros(len(numbers), dtype=bool)
        before_asked[of_row[told & (known != 0) & ~np.isnan(chances)]] = True
        known[told] = answers[of_row[told]]
        head = np.flatnonzero(told)[np.unique(of_row[told], return_index=True)[1]]
        head = head[~before_asked[of_row[head]]]
        chances[head] = asked[of_row[head]]
        rounds[told & (rounds == 0)] = rounds[head] = this_round
        # Rows kept back calibrate as long as they may be normal; known anomalies teach.
        kept_back = np.arange(end, n)
        still = kept_back[known[kept_back] >= 0]
        added = np.concatenate([np.arange(end - self.rows_.n_added, end), np.arange(n, len(known))])
        learn = np.concatenate(
            [np.arange(end - self.rows_.n_added), np.setdiff1d(kept_back, still), added]
        )
        order = np.concatenate([learn, still])
        rows = replace(self.rows_, values=values[order], n_added=len(added))
        folds = None
        if not isinstance(self.cv, str):
            folds = self._folds_again(known[learn], check_random_state(self.random_state))
        training = Training(
            rows.table(slice(len(learn))),
            known[learn],
            folds,
            kept_back=rows.table(slice(len(learn), None)) if len(still) else None,
            kept_back_known=np.column_stack([known, chances])[still],
            chances=chances[learn],
        )
        return Taught(
            training,
            np.concatenate(scores)[learn],
            rows,
            rounds[order].astype(np.intp),
            still - end,
        )

    def _folds_again(self, known: Host, random: np.random.RandomState) -> Folds:
        """Folds of the experts: the parts that calibrate, for what was learnt without them is kept.

        Where there are no parts, rows are dealt out anew. Known anomalies, and rows that came
        later, are dealt out to the parts.
        """
        parts = self.unseen_.parts
        if not parts or (known >= 0).sum() < 2:  # which is refused there
            return make_folds(FOLDS_OF_EXPERTS, known, None, None, random)
        of_row = np.full(len(known), -1)
        for k, part in enumerate(parts):
            of_row[part.hidden] = k
        of_row[known < 0] = -1
        for label in np.unique(known):
            rows = random.permutation(np.flatnonzero((of_row < 0) & (known == label)))
            of_row[rows] = np.arange(len(rows)) % len(parts)
        pairs = [
            (np.flatnonzero(of_row != k), np.flatnonzero(of_row == k)) for k in range(len(parts))
        ]
        return Folds(pairs, of_row, independent=True, dealt=True)

    def _without_each_part(self, taught: Taught) -> list[WithoutFold]:
        """For each part, what one-class detectors that never saw it say of all rows."""
        width, found = len(self.pool_.one_class), []
        for part in self.unseen_.parts:
            scores = taught.one_class.copy()  # of rows that came later: no detector has seen them
            scores[part.learnt] = part.out_of_fold.scores[: len(part.learnt), :width]
            scores[part.hidden] = part.scores[:, :width]
            # A row that turned out anomalous calibrates no longer, and teaches.
            hidden = part.hidden[taught.training.labels[part.hidden] >= 0]
            found.append(WithoutFold(scores, np.setdiff1d(np.arange(len(scores)), hidden)))
        return found

    def _unseen_again(
        self,
        taught: Taught,
        learnt: Learnt,
        without: list[WithoutFold],
        random: np.random.RandomState,
    ) -> tuple[UnseenRows, list[Learnt]]:
        """What the new experts say of the rows that calibrate, none of which they have seen."""
        before, training, width = self.unseen_, taught.training, len(self.pool_.one_class)
        if before.by == "split":
            scores = before.scores[taught.still_kept_back, :width]
            more = learnt.pool.expert_scores(training.kept_back, scores, self.n_jobs)[0]
            scores, known = np.column_stack([scores, more]), training.kept_back_known
            return UnseenRows("split", scores=scores, known=known), []
        if before.by == "plain":
            return before, []
        parts, found = [], []
        for part, (scores, rows) in zip(before.parts, without, strict=True):
            hidden = part.hidden[training.labels[part.hidden] >= 0]
            again = among(training, rows, FOLDS_OF_EXPERTS, random)
            parts.append(Part(again, rows, hidden, hidden[:0]))
            found.append(OneClass(self.pool_.one_class, scores[rows], scores[hidden]))
        return self._score_unseen(learnt, training, parts, found, random)
