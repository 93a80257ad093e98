"""`FusedDetector` as a story: one detector, one fold and one row after the other.

Nothing is shared, nothing is refused, and every fit is a fit of its own. Rows, labels and folds are
given, so that nothing here is random.

Rows that nobody looked at (y = 0) stand in for normal ones. With the share u of the rows that are
at least as strange, by what the one-class detectors say in the mean, and 5 % of hidden anomalies,
of which the strangest u hold u^0.38, such a row counts 1 − q: it is a hidden anomaly with the
chance q = 0.38 · 0.05 · u^(0.38 − 1), 0.9 at most.
"""

from itertools import pairwise
from math import floor, isnan, log, nan
from statistics import median

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

from oracles.tail_scaler import tail_scaler
from oracles.two_sided_min_max import two_sided_min_max


def usual_scaling(reference, scores):
    return two_sided_min_max(reference, scores, rho=5.0, clip="soft")


class NaiveFused:
    """Detectors, weights and threshold, learnt from ``X`` (an array) and ``y`` (+1, −1, 0).

    `detectors` are pairs of an estimator and a list of columns; classifiers are experts and come
    last. `folds` are pairs of rows to learn from and rows to score, None where all detectors score
    what they learnt from. `fold` numbers the rows for the folds of the weights. Positions in
    `one_by_one` name detectors that are fitted anew for every row they score. `jittered` are
    artificial anomalies, and `source` says of which rows. `kept_back` rows take the place of the
    normal ones in the calibration; or `parts` do, each of which names the rows to learn from anew,
    their folds and fold numbers, and the rows that are hidden meanwhile. `chances` are those with
    which rows were asked about, NaN for labels from elsewhere.
    """

    def __init__(
        self,
        detectors,
        X,
        y,
        folds,
        fold,
        *,
        fusion,
        scaling=usual_scaling,
        experts_see_scores="fused",
        one_by_one=(),
        prefit=False,
        kept_back=None,
        parts=(),
        jittered=(),
        source=(),
        chances=None,
    ):
        self.fusion, self.scaling = fusion, scaling
        self.sees_scores, self.prefit = experts_see_scores, prefit
        self.X, self.y, self.folds = np.asarray(X), list(y), folds
        self.one_class = [entry for entry in detectors if prefit or not is_classifier(entry[0])]
        self.experts = [entry for entry in detectors if entry not in self.one_class]
        self.rows = np.array([*self.X, *jittered])
        self.origin = [*range(len(self.y)), *source]
        self.fold = [fold[i] for i in self.origin]
        self.labels = [1 if label == 0 else label for label in self.y]
        self.known = [*self.labels, *(-1 for _ in source)]
        self.out_of_fold = np.full((len(self.rows), len(detectors)), nan)
        self.fitted = []
        self._learn_one_class(one_by_one)
        self.reference = [
            [float(s) for s in scores]
            for scores, label in zip(self._heard(), self.labels, strict=True)
            if label > 0 and not np.isnan(scores).any()
        ]
        self.chances = [nan] * len(self.y) if chances is None else list(chances)
        self._suspect()
        self._learn_experts()
        self.scale, self.weights = self._weights_from(self._teachers())
        self._calibrate(kept_back)
        others = {
            "fusion": fusion, "scaling": scaling, "experts_see_scores": experts_see_scores,
            "one_by_one": one_by_one, "prefit": prefit,
        }  # fmt: skip
        if parts:
            self._calibrate_in_parts(detectors, parts, others)

    # ------------------------------------------------------------------------------ detectors

    def _learn_one_class(self, one_by_one):
        everyone = [i for i, label in enumerate(self.y) if label >= 0]
        for j, (detector, columns) in enumerate(self.one_class):
            view = self.rows[:, columns]
            self.fitted.append(self._fit(detector, view[everyone]))
            if self.folds is None:
                self.out_of_fold[:, j] = says(self.fitted[-1], view)
                continue
            leave_one_out = [(set(everyone) - {i}, {i}) for i in range(len(self.y))]
            for learn, score in leave_one_out if j in one_by_one else self.folds:
                judge = self._fit(detector, view[[i for i in sorted(learn) if self.y[i] >= 0]])
                for i in [i for i, origin in enumerate(self.origin) if origin in score]:
                    (self.out_of_fold[i, j],) = says(judge, view[[i]])

    def _heard(self):
        """What the one-class detectors say of the rows."""
        return self.out_of_fold[: len(self.y), : len(self.one_class)]

    def _suspect(self):
        """How much each row counts; None where all count alike."""
        pairs = zip(self.y, self.chances, strict=True)
        asked = any(label and not isnan(chance) for label, chance in pairs)
        if not asked and (not any(self.y) or all(self.y)):
            self.counts = None  # nobody looked at any row, or somebody at all of them
            return
        self.counts = [
            count_of(label, chance, min(0.9, 0.38 * 0.05 * rank ** (0.38 - 1)))
            for label, chance, rank in zip(self.y, self.chances, self._ranks(), strict=True)
        ]

    def _ranks(self):
        """The share of the rows that are at least as strange; of equal rows half."""
        if not self.one_class or not self.reference:
            return [0.5 for _ in self.y]
        # On the scale on which experts see the scores; where they see none, on that of tails.
        scaling = self.scaling if self.sees_scores else tail_scaler
        together = [
            mean_of_spoken(row) for row in self._scale(self.reference, self._heard(), scaling)
        ]
        together = [-np.inf if isnan(score) else score for score in together]
        return [
            (
                sum(other < score for other in together)
                + sum(other == score for other in together) / 2
            )
            / len(together)
            for score in together
        ]

    def _counts_of_experts(self):
        """Ten times less for a row that nobody looked at, where others were vouched for.

        Rows that stand for normal ones count 1 in the mean.
        """
        if self.counts is None:
            return None
        guess = 0.1 if any(label > 0 for label in self.y) else 1.0
        found = [
            guess * count if label == 0 else count
            for label, count in zip(self.y, self.counts, strict=True)
        ]
        normal = [count for label, count in zip(self.y, found, strict=True) if label >= 0]
        mean = sum(normal) / len(normal)
        return np.array(
            [
                count / mean if label >= 0 else count
                for label, count in zip(self.y, found, strict=True)
            ]
        )

    def _learn_experts(self):
        first = len(self.one_class)
        seen = self._beside(self.X, self._heard())
        everyone, counts = list(range(len(self.y))), self._counts_of_experts()
        for j, (expert, columns) in enumerate(self.experts, start=first):
            view = seen[:, self._seen(columns)]
            self.fitted.append(self._teach(expert, view, everyone, counts))
            for learn, score in self.folds:
                judge = self._teach(expert, view, sorted(learn), counts)
                self.out_of_fold[sorted(score), j] = says(judge, view[sorted(score)])
            self._level(j)

    def _level(self, j):
        """Where folds differ more than rows do, normal rows of each get the same median."""
        numbers = self.fold[: len(self.y)]
        medians, within = {}, []
        for number in set(numbers):
            rows = [i for i, k in enumerate(numbers) if k == number and self.labels[i] > 0]
            spoken = [self.out_of_fold[i, j] for i in rows if not isnan(self.out_of_fold[i, j])]
            if spoken:
                medians[number] = median(spoken)
                within.append(median(abs(score - medians[number]) for score in spoken))
        middle = median(medians.values())
        if median(abs(one - middle) for one in medians.values()) <= median(within):
            return
        for i, number in enumerate(numbers):
            if number in medians:
                self.out_of_fold[i, j] += middle - medians[number]

    def _teach(self, expert, view, rows, counts):
        """A copy of the expert that has learnt from some rows of both classes."""
        labels = np.array(self.labels)[rows]
        return self._fit(expert, view[rows], labels, None if counts is None else counts[rows])

    def _beside(self, rows, scores):
        """The rows with, to their right, their scores by the one-class detectors."""
        if not self.sees_scores or not self.one_class:
            return rows
        scaled = self._scale(self.reference, scores)
        if self.sees_scores == "fused":
            scaled = [[mean_of_spoken(row)] for row in scaled]
        return np.column_stack([rows, scaled])

    def _seen(self, columns):
        d, more = self.X.shape[1], len(self.one_class) * bool(self.sees_scores)
        return [*columns, *range(d, d + (min(more, 1) if self.sees_scores == "fused" else more))]

    def _fit(self, detector, rows, labels=None, counts=None):
        if self.prefit:
            return detector
        complete = ~np.isnan(rows).any(axis=1)
        for some in (slice(None), complete):  # where missing cells are refused, without them
            known = [] if labels is None else [labels[some]]
            if known and len(set(known[0])) < 2:
                return None  # complete rows of both classes are needed
            weights = {} if counts is None else {"sample_weight": counts[some]}
            try:
                return clone(detector).fit(rows[some], *known, **weights)
            except ValueError:
                if complete.all() or some is complete:
                    raise
        return None

    # -------------------------------------------------------------------------------- weights

    def _scale(self, reference, scores, scaling=None):
        """Scaled scores, row by row; NaN stays NaN."""
        finite = [[0.0 if isnan(s) else float(s) for s in row] for row in scores]
        scaled = (scaling or self.scaling)(reference, finite)
        return [
            [nan if isnan(s) else z for s, z in zip(*pair, strict=True)]
            for pair in zip(scores, scaled, strict=True)
        ]

    def _teachers(self):
        """Rows of which something is known, and that all detectors have scored."""
        known = [i for i, label in enumerate(self.known) if label != 0]
        return [i for i in known if not np.isnan(self.out_of_fold[i]).any()]

    def _weights_from(self, rows):
        reference = [list(self.out_of_fold[i]) for i in rows if self.known[i] > 0]

        def scale(scores):
            return self._scale(reference, scores)

        S = np.array(scale(self.out_of_fold[rows]))
        y = np.array([self.known[i] for i in rows])
        counts = {}
        if self.counts is not None and has_fit_parameter(self.fusion, "sample_weight"):
            counts["sample_weight"] = [(self.counts + [1.0] * len(self.rows))[i] for i in rows]
        fitted = clone(self.fusion).fit(S, y if (y < 0).any() else None, **counts)
        return scale, fitted.weights_.tolist()

    def _calibrate(self, kept_back):
        """Of each row: scaled scores, weights without its fold, label; whether it calibrates."""
        self.held_out = {}
        for number in set(self.fold):
            scale, weights = self._weights_from(self._outside(number))
            rows = [i for i in range(len(self.y)) if self.fold[i] == number]
            for i, scaled in zip(rows, scale(self.out_of_fold[rows]), strict=True):
                normal = self.labels[i] > 0
                self.held_out[i] = (
                    scaled,
                    weights,
                    0.0,
                    self.labels[i],
                    normal and kept_back is None,
                )
        for k, row in enumerate([] if kept_back is None else kept_back):
            (scaled,) = self.scale([self.raw(row)])
            self.held_out[len(self.y) + k] = scaled, self.weights, 0.0, 1, True

    def _calibrate_in_parts(self, detectors, parts, others):
        """Hidden rows calibrate by a whole that never saw them, on the scale of this one."""
        reference = [score for score, label, _ in self.scored() if label > 0]
        chosen = {}
        for learn, folds, fold, hidden in parts:
            y, asked = [self.y[i] for i in learn], [self.chances[i] for i in learn]
            other = NaiveFused(detectors, self.X[learn], y, folds, fold, chances=asked, **others)
            own = [score for score, label, _ in other.scored() if label > 0]
            for i in hidden:
                (scaled,) = other.scale([other.raw(self.X[i])])
                score = weigh(scaled, other.weights)
                over = brought_over(score, own, reference)
                if sum((self.X[i] == row).all() for row in self.X) > 1:
                    over = min(over, self.score(self.X[i]))
                chosen[i] = scaled, other.weights, over - score, 1, True
        for i, (*told, label, _) in self.held_out.items():
            self.held_out[i] = chosen.get(i, (*told, label, False))

    def _outside(self, number):
        """Who teaches the weights for a fold; a class that is all in that fold is not left out."""
        everyone = self._teachers()
        others = [i for i in everyone if self.fold[i] != number]
        lost = [label for label in (1, -1) if label not in [self.known[i] for i in others]]
        return [i for i in everyone if i in others or self.known[i] in lost]

    # ------------------------------------------------------------------------------- new rows

    def raw(self, row):
        """What each detector says of a row."""
        n = len(self.one_class)
        scores = [
            says(fitted, row[None, columns])[0]
            for (_, columns), fitted in zip(self.one_class, self.fitted[:n], strict=True)
        ]
        seen = self._beside(row[None], [scores])
        return scores + [
            says(fitted, seen[:, self._seen(columns)])[0]
            for (_, columns), fitted in zip(self.experts, self.fitted[n:], strict=True)
        ]

    def score(self, row):
        return weigh(*self.scale([self.raw(row)]), self.weights)

    def contributions(self, row):
        """What each detector adds to the score."""
        (scaled,) = self.scale([self.raw(row)])
        share = growth(scaled, self.weights)
        if isnan(share):
            return [nan] * len(scaled)
        pairs = zip(scaled, self.weights, strict=True)
        return [0.0 if isnan(z) else share * w * z for z, w in pairs]

    def scored(self, silent=()):
        """Score, label and whether it calibrates, of each row, had some detectors been silent."""
        found = []
        for scaled, weights, move, label, calibrates in self.held_out.values():
            score = weigh(without(silent, scaled), weights) + move
            if not isnan(score):
                found.append((score, label, calibrates))
        nobody = not any(calibrates for *_, calibrates in found)
        return self.scored() if silent and nobody else found

    def calibration(self, silent=()):
        """The scores of rows that calibrate."""
        return sorted(score for score, _, calibrates in self.scored(silent) if calibrates)

    def pvalue(self, row):
        raw = self.raw(row)
        score = weigh(*self.scale([raw]), self.weights)
        calibration = self.calibration(silent_in(raw))
        if isnan(score):
            return nan
        return (1 + sum(known <= score for known in calibration)) / (1 + len(calibration))

    def false_alarm_offset(self, rate, silent=()):
        calibration = sorted(self.calibration(silent))
        k = floor(round(rate * (len(calibration) + 1), 9))
        return calibration[k - 1] if k else -np.inf


def brought_over(score, own, reference):
    """A score where it would be among `reference`, had it its place among `own`.

    Levels of 0.5 % from the twentieth part on; below that both are straight lines, as steep as from
    there to the median. Of levels with one score the lowest counts.
    """
    if isnan(score):
        return nan
    levels = [0.05 + 0.005 * k for k in range(191)]
    here, there = ([quantile_of(scores, q) for q in levels] for scores in (own, reference))
    if score < here[0]:
        widths = here[90] - here[0], there[90] - there[0]
        steep = min(max(widths[1] / widths[0], 0.5), 2.0) if min(widths) > 0 else 1.0
        return there[0] + steep * (score - here[0])
    pairs = []
    for pair in zip(here, there, strict=True):
        if not pairs or pair[0] > pairs[-1][0]:
            pairs.append(pair)
    for (low, to_low), (high, to_high) in pairwise(pairs):
        if low <= score <= high:
            return to_low + (to_high - to_low) * (score - low) / (high - low)
    return pairs[-1][1]


def quantile_of(scores, q):
    """Between two neighbours in order, in proportion."""
    ordered = sorted(scores)
    place = q * (len(ordered) - 1)
    low = min(floor(place), len(ordered) - 1)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def count_of(label, chance, q):
    """How much a row counts that is a hidden anomaly, for all one knew before, with chance q."""
    if label == 0:
        return 1 - q
    if isnan(chance):
        return 1.0
    certain, in_doubt = (1 - q, q) if label > 0 else (q, 1 - q)
    return min(10.0, certain + in_doubt / chance)


def mean_of_spoken(scores):
    """The mean of those that speak."""
    spoken = [score for score in scores if not isnan(score)]
    return sum(spoken) / len(spoken) if spoken else nan


def without(silent, scaled):
    """Scores had some detectors been silent."""
    return [nan if j in silent else z for j, z in enumerate(scaled)]


def says(fitted, rows):
    """Scores, high = normal; NaN for rows that the detector refuses."""
    try:
        if is_classifier(fitted):
            return _log_odds(fitted, rows)
        if type(fitted).__module__.startswith("pyod."):
            return (-fitted.decision_function(rows)).tolist()
        return fitted.score_samples(rows).tolist()
    except ValueError:
        return [nan] if len(rows) == 1 else [says(fitted, row[None])[0] for row in rows]


def _log_odds(classifier, rows):
    if hasattr(classifier, "decision_function"):
        return classifier.decision_function(rows).tolist()
    shares = classifier.predict_proba(rows)[:, list(classifier.classes_).index(1)]
    shares = [min(max(share, 0.001), 0.999) for share in shares]
    return [log(share / (1 - share)) for share in shares]


def silent_in(raw):
    """Who gave no score."""
    return [j for j, score in enumerate(raw) if isnan(score)]


def growth(scaled, weights):
    """What the weights of those who speak are multiplied by; NaN where nobody does.

    A weight that is a millionth of the largest is none.
    """
    least = 1e-6 * max(map(abs, weights))
    voices = [abs(w) if abs(w) > least else 0.0 for w in weights]
    speaking = sum(voice for z, voice in zip(scaled, voices, strict=True) if not isnan(z))
    return sum(voices) / speaking if speaking > 0 else nan


def weigh(scaled, weights):
    """The weighted sum of those who speak."""
    total = sum(w * z for z, w in zip(scaled, weights, strict=True) if not isnan(z))
    return growth(scaled, weights) * total
