"""`FusedDetector` as a story: one detector, one fold and one row after the other.

Nothing is shared, nothing is refused, and every fit is a fit of its own. Rows, labels and folds are
given, so that nothing here is random.

Rows that nobody looked at (y = 0) stand in for normal ones. With the share u of the rows that are
at least as strange, by what the one-class detectors say in the mean, and 5 % of hidden anomalies,
of which the strangest u hold u^0.38, such a row counts 1 − q: it is a hidden anomaly with the
chance q = 0.38 · 0.05 · u^(0.38 − 1), 0.9 at most.

An expert is fitted without each fold, and the mean of these fits scores new rows. Where rows are
hidden part by part, the parts are the folds: what an expert without a fold sees of one-class scores
is by detectors that have not seen the fold's normal rows (`Eyes`), and these fits score the hidden
rows, too. One of them scatters more than the mean of all: its scores are brought as much nearer to
the median as the mean is (`_calm`).
"""

from itertools import pairwise
from math import floor, isnan, log, nan, sqrt
from statistics import fmean, median, variance

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

from oracles.two_sided_min_max import two_sided_min_max


def usual_scaling(reference, scores):
    return two_sided_min_max(reference, scores, rho=5.0, clip="soft")


class Eyes:
    """One-class detectors by some rows, and what these rows are worth by what they say.

    `out_of_fold` are the scores of the rows (`X`, then `jittered`), each by detectors without its
    fold; `fitted` are the detectors that know all rows but anomalies; `counts` say how much each
    row counts, None where all count alike.
    """

    def __init__(
        self, detectors, X, y, folds, chances, *,
        scaling, one_by_one, prefit, jittered=(), source=(),
    ):  # fmt: skip
        self.detectors, self.X, self.y, self.chances = detectors, X, y, chances
        self.scaling, self.prefit = scaling, prefit
        self.fitted = []
        self._learn(folds, np.array([*X, *jittered]), [*range(len(y)), *source], one_by_one)
        self.reference = [
            [float(s) for s in scores]
            for scores, label in zip(self.heard, y, strict=True)
            if label >= 0 and not np.isnan(scores).any()
        ]
        self.counts = self._suspect()

    def _learn(self, folds, rows, origin, one_by_one):
        everyone = [i for i, label in enumerate(self.y) if label >= 0]
        self.out_of_fold = np.full((len(rows), len(self.detectors)), nan)
        for j, (detector, columns) in enumerate(self.detectors):
            view = rows[:, columns]
            self.fitted.append(fit(detector, view[everyone], prefit=self.prefit))
            if folds is None:
                self.out_of_fold[:, j] = says(self.fitted[-1], view)
                continue
            leave_one_out = [(set(everyone) - {i}, {i}) for i in range(len(self.y))]
            for learn, score in leave_one_out if j in one_by_one else folds:
                judge = fit(detector, view[[i for i in sorted(learn) if self.y[i] >= 0]])
                for i in [i for i, source in enumerate(origin) if source in score]:
                    (self.out_of_fold[i, j],) = says(judge, view[[i]])

    @property
    def heard(self):
        """What the detectors say of the rows, out of fold."""
        return self.out_of_fold[: len(self.y)]

    def raw(self, row):
        """What each detector says of a row that none has seen."""
        return [
            says(fitted, row[None, columns])[0]
            for (_, columns), fitted in zip(self.detectors, self.fitted, strict=True)
        ]

    def _suspect(self):
        pairs = zip(self.y, self.chances, strict=True)
        asked = any(label and not isnan(chance) for label, chance in pairs)
        if not asked and (not any(self.y) or all(self.y)):
            return None  # nobody looked at any row, or somebody at all of them
        return [
            count_of(label, chance, min(0.9, 0.38 * 0.05 * rank ** (0.38 - 1)))
            for label, chance, rank in zip(self.y, self.chances, self._ranks(), strict=True)
        ]

    def _ranks(self):
        """The share of the rows that are at least as strange; of equal rows half."""
        if not self.detectors or not self.reference:
            return [0.5 for _ in self.y]
        # On the scale on which experts see the scores.
        rows = scaled_by(self.scaling, self.reference, self.heard)
        together = [mean_of_spoken(row) for row in rows]
        together = [-np.inf if isnan(score) else score for score in together]
        return [
            (
                sum(other < score for other in together)
                + sum(other == score for other in together) / 2
            )
            / len(together)
            for score in together
        ]

    def counts_for_experts(self):
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
        mean = fmean(count for label, count in zip(self.y, found, strict=True) if label >= 0)
        return [
            count / mean if label >= 0 else count
            for label, count in zip(self.y, found, strict=True)
        ]

    def beside(self, row, scores):
        """What experts see of a row: its features and, to their right, scores."""
        if not self.detectors:
            return list(row)
        (scaled,) = scaled_by(self.scaling, self.reference, [scores])
        return [*row, mean_of_spoken(scaled)]

    def shown(self, X, learnt):
        """What experts see of the rows of `X`, and what these count, of which some are our own.

        Of those, scores are out of fold. The others are scored as new rows are, and count nothing:
        experts do not learn from them.
        """
        place = {i: k for k, i in enumerate(learnt)}
        scores = [self.heard[place[i]] if i in place else self.raw(x) for i, x in enumerate(X)]
        view = np.array([self.beside(*pair) for pair in zip(X, scores, strict=True)])
        counts = self.counts_for_experts()
        if counts is None:
            return view, None
        return view, np.array([counts[place[i]] if i in place else nan for i in range(len(X))])


class Combined:
    """Scale and weights from out-of-fold scores, and the rows as they are without their fold.

    `known` are ±1 for rows that teach; the first `n` rows are no artificial anomalies.
    """

    def __init__(self, out_of_fold, known, fold, counts, n, fusion, scaling):
        self.out_of_fold, self.known, self.fold, self.counts = out_of_fold, known, fold, counts
        self.fusion, self.scaling = fusion, scaling
        self.scale, self.weights = self._weights_from(self._teachers())
        self.held_out = {}  # of each row: scaled scores, weights without its fold, label
        for number in set(fold):
            scale, weights = self._weights_from(self._outside(number))
            rows = [i for i in range(n) if fold[i] == number]
            for i, scaled in zip(rows, scale(out_of_fold[rows]), strict=True):
                self.held_out[i] = scaled, weights, known[i]

    def _teachers(self):
        """Rows of which something is known, and that all detectors have scored."""
        known = [i for i, label in enumerate(self.known) if label != 0]
        return [i for i in known if not np.isnan(self.out_of_fold[i]).any()]

    def _weights_from(self, rows):
        reference = [list(self.out_of_fold[i]) for i in rows if self.known[i] > 0]

        def scale(scores):
            return scaled_by(self.scaling, reference, scores)

        S = np.array(scale(self.out_of_fold[rows]))
        y = np.array([self.known[i] for i in rows])
        counts = {}
        if self.counts is not None and has_fit_parameter(self.fusion, "sample_weight"):
            counts["sample_weight"] = [(self.counts + [1.0] * len(self.known))[i] for i in rows]
        fitted = clone(self.fusion).fit(S, y if (y < 0).any() else None, **counts)
        return scale, fitted.weights_.tolist()

    def _outside(self, number):
        """Who teaches the weights for a fold; a class that is all in that fold is not left out."""
        everyone = self._teachers()
        others = [i for i in everyone if self.fold[i] != number]
        lost = [label for label in (1, -1) if label not in [self.known[i] for i in others]]
        return [i for i in everyone if i in others or self.known[i] in lost]

    def normal_scores(self):
        """Of normal rows, by weights without their fold."""
        scores = [
            weigh(scaled, weights) for scaled, weights, label in self.held_out.values() if label > 0
        ]
        return [score for score in scores if not isnan(score)]


class NaiveFused:
    """Detectors, weights and threshold, learnt from ``X`` (an array) and ``y`` (+1, −1, 0).

    `detectors` are pairs of an estimator and a list of columns; classifiers are experts and come
    last. `folds` are pairs of rows to learn from and rows to score, None where all detectors score
    what they learnt from; `dealt` says whether rows were dealt out to them, or users told them.
    `fold` numbers the rows for the folds of the weights. Positions in `one_by_one` name detectors
    that are fitted anew for every row they score. `jittered` are artificial anomalies, and `source`
    says of which rows. `kept_back` rows take the place of the normal ones in the calibration; or
    `parts` do, each of which names the rows to learn from anew, their folds and fold numbers, and
    the rows that are hidden meanwhile; where there are experts, those of one of the folds.
    `chances` are those with which rows were asked about, NaN for labels from elsewhere.
    """

    def __init__(
        self, detectors, X, y, folds, fold, *,
        fusion, scaling=usual_scaling, dealt=True, one_by_one=(),
        prefit=False, kept_back=None, parts=(), jittered=(), source=(), chances=None,
    ):  # fmt: skip
        self.X, self.y, self.folds, self.dealt = np.asarray(X), list(y), folds, dealt
        self.fold = [fold[i] for i in [*range(len(y)), *source]]
        self.labels = [1 if label == 0 else label for label in self.y]
        self.chances = [nan] * len(self.y) if chances is None else list(chances)
        one_class = [entry for entry in detectors if prefit or not is_classifier(entry[0])]
        self.experts = [entry for entry in detectors if entry not in one_class]

        def look(rows, folds, **more):
            known, asked = ([told[i] for i in rows] for told in (self.y, self.chances))
            return Eyes(
                one_class, self.X[rows], known, folds, asked, scaling=scaling,
                one_by_one=one_by_one, prefit=prefit, **more,
            )  # fmt: skip

        def combine(eyes, experts, known, fold):
            scores = np.column_stack([eyes.out_of_fold, experts])
            return Combined(scores, known, fold, eyes.counts, len(eyes.y), fusion, scaling)

        everyone = list(range(len(self.y)))
        self.eyes = look(everyone, folds, jittered=jittered, source=source)
        self.counts = self.eyes.counts
        self.parts = [(look(learn, some), learn, of, hidden) for learn, some, of, hidden in parts]
        self.by_experts = self._learn_experts()
        missing = np.full((len(source), len(self.experts)), nan)
        known = [*self.labels, *(-1 for _ in source)]
        by_experts = np.concatenate([self.by_experts, missing])
        whole = self.whole = combine(self.eyes, by_experts, known, self.fold)
        self.out_of_fold, self.scale, self.weights = whole.out_of_fold, whole.scale, whole.weights
        # Of each row: scaled scores, weights, how far it is moved, label; whether it calibrates.
        self.held_out = {
            i: (scaled, weights, 0.0, label, label > 0 and kept_back is None)
            for i, (scaled, weights, label) in whole.held_out.items()
        }
        for k, row in enumerate([] if kept_back is None else kept_back):
            (scaled,) = self.scale([self.raw(row)])
            self.held_out[len(self.y) + k] = scaled, self.weights, 0.0, 1, True
        if parts:
            self._calibrate_in_parts(combine)

    # -------------------------------------------------------------------------------- experts

    def _learn_experts(self):
        """Scores of the rows by fits without their folds.

        Of these the mean scores new rows. Where users told the folds, a fit to all rows does.
        """
        everyone = list(range(len(self.y)))
        whole = self.eyes.shown(self.X, everyone)
        views = [eyes.shown(self.X, learn) for eyes, learn, *_ in self.parts]
        views = views or [whole for _ in self.folds or []]
        found, self.judges, self.calms = np.full((len(self.y), len(self.experts)), nan), [], []
        for j, (expert, columns) in enumerate(self.experts):
            judges, by_fit = [], []
            for number, (learn, score) in enumerate(self.folds):
                view = views[number][0][:, self._seen(columns)]
                judge = self._teach(expert, number, view, sorted(learn), views[number][1])
                found[sorted(score), j] = says(judge, view[sorted(score)])
                by_fit.append(says(judge, view))
                judges.append(judge)
            self._level(found[:, j])
            self.calms.append(self._calm(found[:, j], by_fit) if self.dealt else 1.0)
            if not self.dealt:
                view = whole[0][:, self._seen(columns)]
                judges = [self._teach(expert, len(self.folds), view, everyone, whole[1])]
            self.judges.append(judges)
        return found

    def _teach(self, expert, number, view, rows, counts):
        """A copy of the expert that has learnt from both classes.

        Fits that are averaged draw by seeds that count up; those to folds that users told, alike.
        """
        seed = expert.get_params().get("random_state")
        if seed is not None and self.dealt:
            expert = clone(expert).set_params(random_state=(seed + number) % 2**31)
        labels = np.array(self.labels)[rows]
        return fit(expert, view[rows], labels, None if counts is None else counts[rows])

    def _seen(self, columns):
        """Its own columns, and all to the right of the features."""
        d = self.X.shape[1]
        return [*columns, *range(d, len(self.eyes.beside(self.X[0], self.eyes.heard[0])))]

    def _level(self, scores):
        """Where folds differ more than rows do, normal rows of each get the same median."""
        numbers = self.fold[: len(self.y)]
        medians, within = {}, []
        for number in set(numbers):
            rows = [i for i, k in enumerate(numbers) if k == number and self.labels[i] > 0]
            spoken = [scores[i] for i in rows if not isnan(scores[i])]
            if spoken:
                medians[number] = median(spoken)
                within.append(median(abs(score - medians[number]) for score in spoken))
        middle = median(medians.values())
        if median(abs(one - middle) for one in medians.values()) <= median(within):
            return
        for i, number in enumerate(numbers):
            if number in medians:
                scores[i] += middle - medians[number]

    def _calm(self, scores, by_fit):
        """How much less the mean of fits scatters below the median than the one without the fold.

        Rows scatter by what rows and fits differ in; the mean of K fits has a K-th of the latter,
        which is read off the fits that know the row: there are two at least if there are three.
        """
        n_fits = len(by_fit)
        if n_fits < 3:
            return 1.0
        middle = self._middle(scores)
        fits_differ, apart = [], []
        for i in [i for i, score in enumerate(scores) if self.labels[i] > 0 and score < middle]:
            pairs = zip(self.folds, by_fit, strict=True)
            others = [said[i] for (_, score), said in pairs if i not in score]
            others = [score for score in others if not isnan(score)]
            apart.append((scores[i] - middle) ** 2)
            if len(others) > 1:
                fits_differ.append(variance(others))
        if not fits_differ:
            return 1.0
        share = min(1.0, fmean(fits_differ) / fmean(apart))
        return sqrt(1 - share + share / n_fits)

    def _middle(self, scores):
        """The median of normal rows."""
        pairs = zip(scores, self.labels, strict=True)
        return median(score for score, label in pairs if label > 0 and not isnan(score))

    def _by_single_fits(self, i):
        """Scores of a row by the fits without its fold, as calm as the mean is."""
        found = []
        for scores, calm in zip(self.by_experts.T, self.calms, strict=True):
            middle = self._middle(scores)
            below = scores[i] < middle
            found.append(middle + calm * (scores[i] - middle) if below else scores[i])
        return found

    # ------------------------------------------------------------------------------- hidden rows

    def _calibrate_in_parts(self, combine):
        """Hidden rows calibrate by what never saw them, on the scale of the whole."""
        chosen = {}
        for eyes, learn, fold, hidden in self.parts:
            known = [self.labels[i] for i in learn]
            other = combine(eyes, self.by_experts[learn], known, list(fold))
            for i in hidden:
                raw = [*eyes.raw(self.X[i]), *self._by_single_fits(i)]
                (scaled,) = other.scale([raw])
                score = weigh(scaled, other.weights)
                over = brought_over(score, other.normal_scores(), self.whole.normal_scores())
                if sum((self.X[i] == row).all() for row in self.X) > 1:
                    over = min(over, self.score(self.X[i]))
                chosen[i] = scaled, other.weights, over - score, 1, True
        for i, (*told, label, _) in self.held_out.items():
            self.held_out[i] = chosen.get(i, (*told, label, False))

    # ------------------------------------------------------------------------------- new rows

    def raw(self, row):
        """What each detector says of a row."""
        scores = self.eyes.raw(row)
        seen = np.array([self.eyes.beside(row, scores)])
        for (_, columns), judges in zip(self.experts, self.judges, strict=True):
            said = [says(judge, seen[:, self._seen(columns)])[0] for judge in judges]
            scores = [*scores, sum(said) / len(said)]
        return scores

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


def fit(detector, rows, labels=None, counts=None, prefit=False):
    """A copy that has learnt from the rows; where missing cells are refused, without them."""
    if prefit:
        return detector
    complete = ~np.isnan(rows).any(axis=1)
    for some in (slice(None), complete):
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


def scaled_by(scaling, reference, scores):
    """Scaled scores, row by row; NaN stays NaN."""
    finite = [[0.0 if isnan(s) else float(s) for s in row] for row in scores]
    return [
        [nan if isnan(s) else z for s, z in zip(*pair, strict=True)]
        for pair in zip(scores, scaling(reference, finite), strict=True)
    ]


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
