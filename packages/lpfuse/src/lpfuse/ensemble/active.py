"""Answers of a person, and rows that have changed: questions, teaching, audit, recalibration.

`choose_questions` draws rows with known chances. `relearn` learns from the answers without fitting
one-class detectors again, `audit` judges the detector by them, and `estimate_contamination` tells
how many anomalies there are. `recalibrate` moves threshold and scale to other normal rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, ndtri
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_random_state

from lpfuse._arrays.operations import Host
from lpfuse.answers import AnswerAudit, Estimate, ask_each_unit_once, audit_answers
from lpfuse.ensemble.calibration import (
    CalibratedFit,
    CalibrationRows,
    FitResult,
    HeldOutScores,
    ThresholdParameters,
    calibrate,
)
from lpfuse.ensemble.combination import Combination, without_gaps
from lpfuse.ensemble.defaults import EXPERTS_FROM, Strategy, seed_members
from lpfuse.ensemble.folds import Folds, Part, Training, among, make_folds
from lpfuse.ensemble.learning import fuse_pool, known_answers, score_calibration_rows
from lpfuse.ensemble.out_of_fold import (
    SUREST,
    FitScheduler,
    ScoredMembers,
    add_experts,
    hidden_chance,
    strangeness,
)
from lpfuse.ensemble.pool import Pool
from lpfuse.ensemble.rows import (
    Index,
    StoredRows,
    Table,
    as_numbers,
    find_contradictions,
    find_rows,
    hash_rows,
    numeric_columns,
    replace_numbers,
    row_keys,
    store_rows,
)

# Folds of the experts that `relearn` fits, where no parts tell them; as cv=5.
FOLDS_OF_EXPERTS = 5
# Chosen by hand.
DOUBT = 0.05  # share of the questions for rows near the threshold
SOFTNESS = 0.15  # how softly the appeal ends behind the strangest rows, in units of the questions
CLUSTERED_ROWS = 2_000  # that clusters are learnt from
# Of so many rows a third sets the scale, and the rest the threshold; of fewer, all the threshold.
SCALE_FROM, SCALE_SHARE = 200, 1 / 3
# What is believed of the share of anomalies before anyone answers: equally probable shares, 5 % in
# the mean and 23 % at most in 39 of 40 cases, by hand; with the chance 1 − BANDED a power law, as
# steep as sets were; else nine in ten of the anomalies in a band of the strangest rows, so densely.
SHARES = betaincinv(0.5, 9.5, (np.arange(400) + 0.5) / 400)
STEEPNESSES = 0.45 * np.exp(0.6 * ndtri((np.arange(9) + 0.5) / 9))
DENSITIES = (0.15, 0.3, 0.6, 0.9)
IN_BAND, BANDED = 0.9, 0.7  # by hand


# -------------------------------------------------------------------------------------- questions


def describe_rows(result: CalibratedFit, table: Table, raw: Host, features: Host | None) -> Host:
    """Return what is known of each row before it is asked about, in four columns.

    What one-class detectors add to the fused score, and what experts do: of training rows, their
    held-out terms. A number that is equal for equal rows, NaN where they have words. 1 where the
    label of a row is known, from `fit` or an answer, else 0.
    """
    terms = result.combination.contributions(raw, features)
    numbers, known = as_numbers(table), result.rows.values
    number, is_known = np.full(len(terms), np.nan), np.zeros(len(terms))
    if numbers is not None:
        number = hash_rows(numbers)
    if numbers is not None and known is not None:
        place = find_rows(known, numbers)
        seen = place >= 0
        is_known[seen] = (known_answers(result)[0] != 0)[place[seen]]
        own = result.of_own_rows[place[seen]]
        terms[seen] = without_gaps(own.terms, own.abs_weights)
    split = _one_class_terms(result)
    parts = [part.sum(axis=1) for part in (terms[:, :split], terms[:, split:])]
    return np.column_stack([*parts, number, is_known])


def _one_class_terms(result: CalibratedFit) -> int:
    """Return how many terms of the fused score are of one-class detectors, the first ones."""
    if result.combination.is_additive:
        return len(result.pool.one_class)
    return result.held_out.terms.shape[1]


def choose_questions(
    result: CalibratedFit,
    described: Host,
    numbers: Host | None,
    groups: NDArray[Any] | None,
    n: int,
    explore: float,
    random: np.random.RandomState,
) -> tuple[Index, Host]:
    """Draw rows to ask about, with known chances.

    Parameters
    ----------
    result : CalibratedFit
        The detector.
    described : ndarray of shape (m, 4)
        `describe_rows` of the rows.
    numbers : ndarray of shape (m, d) or None
        Their features, where these are numbers in memory.
    groups : ndarray of shape (m,) or None
        Of a group one row at most is asked about.
    n, explore, random
        Questions; the share of them that goes to all rows alike; draws.

    Returns
    -------
    positions, chances : ndarrays of shape (n,)
        Rows, and the chance with which each was drawn.
    """
    free = np.flatnonzero(described[:, 3] == 0)
    free = free if len(free) else np.arange(len(described))
    parts, units = described[free, :2], described[free, 2]
    rank = strangest_of(parts if result.pool.experts else parts[:, :1])
    flagged = float(np.mean(parts.sum(axis=1) < result.offset))
    near = None if numbers is None else numbers[free]
    units = np.where(np.isnan(units), -1.0 - free, units)  # words: no row is like another
    positions, chances = ask_each_unit_once(
        appeal_of(rank, flagged, n, explore),
        units if groups is None else groups[free],
        n,
        order=neighbouring_order(near, rank, n, random),
        floor=explore,
        random_state=random,
    )
    return free[positions], chances


def strangest_of(parts: Host) -> Host:
    """Return one rank a row, low for what any part calls strange: the least `strangeness`.

    One-class detectors know what is strange, experts what is like the anomalies that were found:
    asking about what either of them names found more anomalies than asking by their sum
    (docs/adr/0020).

    Parameters
    ----------
    parts : ndarray of shape (m, k)
        Scores, high = normal.

    Examples
    --------
    >>> import numpy as np
    >>> ranks = strangest_of(np.array([[1.0, 9.0], [5.0, 7.0], [6.0, 1.0], [7.0, 8.0]]))
    >>> int(np.argmax(ranks))
    3
    """
    ranks = np.column_stack([strangeness(part) for part in parts.T])
    # Where two rows are the strangest of different parts, the one that is stranger on the whole.
    return strangeness(ranks.min(axis=1) + 1e-3 * ranks.mean(axis=1))


def appeal_of(rank: Host, flagged: float, n: int, explore: float) -> Host:
    """Return how much an answer for each row would help.

    Most for the strangest rows, about as many as there are questions for them; some for rows in
    doubt, near the threshold in rank.

    Parameters
    ----------
    rank : ndarray of shape (m,)
        `strangest_of` the rows.
    flagged : float
        Share of the rows beyond the threshold.
    n : int
        Questions.
    explore : float
        Share of them that goes to all rows alike.

    Examples
    --------
    >>> import numpy as np
    >>> int(np.argmax(appeal_of(np.array([0.9, 0.1, 0.6, 0.3]), 0.25, 1, 0.1)))
    1
    """
    place = rank * len(rank) - 0.5
    questions = max((1.0 - explore - DOUBT) * n, 0.5)
    likely = expit((questions - 0.5 - place) / (SOFTNESS * n))
    doubt = np.exp(-np.abs(place - flagged * len(rank)) / n)
    found: Host = (1 - DOUBT) * likely / likely.sum() + DOUBT * doubt / doubt.sum()
    return found


def neighbouring_order(
    numbers: Host | None, rank: Host, n: int, random: np.random.RandomState
) -> NDArray[np.intp]:
    """Order the rows so that like ones are neighbours: by cluster, then by rank.

    Parameters
    ----------
    numbers : ndarray of shape (m, d) or None
        Features; None where there are no numbers: then by rank alone.
    rank : ndarray of shape (m,)
        `strangest_of` the rows.
    n : int
        Questions: as many clusters.
    random : RandomState
        Starts the clusters.
    """
    by_rank = np.argsort(rank, kind="stable")
    if numbers is None or n < 2 or len(rank) < 2 * n:
        return by_rank
    middle = np.nanmedian(np.where(np.isnan(numbers).all(axis=0), 0.0, numbers), axis=0)
    filled = np.where(np.isnan(numbers), middle, numbers)
    low, high = np.quantile(filled, [0.05, 0.95], axis=0)
    width = np.where(high > low, high - low, 1.0)
    units = np.clip((filled - middle) / width, -3.0, 3.0)
    # Clusters of the strange rows, for these are asked about; the others belong to the nearest.
    some = by_rank[: max(CLUSTERED_ROWS, 10 * n)]
    from sklearn.cluster import MiniBatchKMeans

    clusters = MiniBatchKMeans(n, n_init=1, random_state=random).fit(units[some])
    return np.lexsort((rank, clusters.predict(units))).astype(np.intp)


# --------------------------------------------------------------------------------------- teaching


class Taught(NamedTuple):
    """Training rows with answers entered.

    Attributes
    ----------
    training : Training
        The rows, and those that are still set aside.
    one_class : ndarray of shape (n, R)
        Scores of the former by the one-class detectors.
    rows, rounds, own : StoredRows, ndarray, ndarray or None
        Of both, as in `CalibratedFit`.
    still_aside : ndarray of positions
        Among the rows that were set aside before.
    """

    training: Training
    one_class: Host
    rows: StoredRows
    rounds: NDArray[np.intp]
    own: Host | None
    still_aside: Index


def relearn(
    result: CalibratedFit,
    numbers: Host,
    answers: Host,
    asked: Host,
    strategy: Strategy,
    rule: ThresholdParameters,
    *,
    cv: Any,
    n_jobs: int | None,
    random_state: Any,
) -> CalibratedFit:
    """Learn experts, scale and weights anew from answers, and calibrate them as a fit does.

    Parameters
    ----------
    result : CalibratedFit
        The detector as it is.
    numbers : ndarray of shape (m, d)
        The answered rows.
    answers, asked : ndarrays of shape (m,)
        ±1, 0 where nobody knows, and the chances with which the rows were asked about; NaN for
        labels from elsewhere.
    strategy, rule : Strategy, ThresholdParameters
        As in a fit.
    cv, n_jobs, random_state
        The parameters of these names of a `FusedDetector`.
    """
    taught = _with_answers(result, numbers, answers, asked, cv, n_jobs, random_state)
    random = check_random_state(random_state)
    training = taught.training
    members = seed_members(strategy.choose_members(training), random)
    experts = [member for member in members if member.learns_from_anomalies]
    without = _without_each_part(result, taught)
    one_class = ScoredMembers(result.pool.one_class, taught.one_class)
    of_all = without if experts and training.gap is None else []
    scored = add_experts(one_class, experts, training, FitScheduler(n_jobs), strategy, of_all)
    fit = fuse_pool(scored, training, strategy, random)
    calibration, others = _calibration_again(result, taught, fit, without, strategy, random, n_jobs)
    return calibrate(fit, others, calibration, rule, taught.rows, taught.rounds, taught.own)


def _with_answers(
    result: CalibratedFit,
    numbers: Host,
    answers: Host,
    asked: Host,
    cv: Any,
    n_jobs: int | None,
    random_state: Any,
) -> Taught:
    """Enter answers among the training rows and their one-class scores, or add them."""
    stored, aside, pool = result.rows, result.calibration, result.pool
    values = numeric_columns(stored.table())
    known, chances = (column.copy() for column in known_answers(result))
    rounds, width = result.rounds.astype(np.intp), len(pool.one_class)
    end, n = len(known) - aside.n_split, len(known)
    for torn in find_contradictions(answers, np.unique(row_keys(numbers), return_inverse=True)[1]):
        raise ValueError(torn)
    decided = np.flatnonzero(answers)
    first = decided[np.unique(row_keys(numbers[decided]), return_index=True)[1]]
    first = first if result.windows is None else np.sort(first)  # in time order, as they came
    numbers, answers, asked = numbers[first], answers[first], asked[first]
    new = np.flatnonzero(find_rows(values, numbers) < 0)
    scores = [result.raw[:, :width]]
    if len(new):
        X = replace_numbers(stored.table(np.zeros(len(new), np.intp)), numbers[new])
        scores.append(Pool(pool.one_class, []).scores(X, n_jobs)[0])
        values = np.concatenate([values, numbers[new]])
        known, chances, rounds = (
            np.concatenate([old, np.full(len(new), fill)])
            for old, fill in ((known, 0.0), (chances, np.nan), (rounds, 0))
        )
    this_round = int(rounds.max(initial=0)) + 1
    # The answer for a row is that for each of its copies. One of them stands for all in the
    # audit, with the chance by which it was first asked about: a corrected answer keeps it.
    of_row = find_rows(numbers, values)
    told = of_row >= 0
    before_asked = np.zeros(len(numbers), dtype=bool)
    before_asked[of_row[told & (known != 0) & ~np.isnan(chances)]] = True
    known[told] = answers[of_row[told]]
    head = np.flatnonzero(told)[np.unique(of_row[told], return_index=True)[1]]
    head = head[~before_asked[of_row[head]]]
    chances[head] = asked[of_row[head]]
    rounds[told & (rounds == 0)] = rounds[head] = this_round
    # Rows set aside calibrate as long as they may be normal; known anomalies teach.
    set_aside = np.arange(end, n)
    still = set_aside[known[set_aside] >= 0]
    added = np.concatenate([np.arange(end - stored.n_added, end), np.arange(n, len(known))])
    learn = np.concatenate([np.arange(end - stored.n_added), np.setdiff1d(set_aside, still), added])
    order = np.concatenate([learn, still])
    rows = replace(stored, values=values[order], n_added=len(added))
    folds, gap = None, None if result.windows is None else result.windows.length - 1
    if not isinstance(cv, str):
        folds = _folds_again(aside, known[learn], check_random_state(random_state), gap)
    training = Training(
        rows.table(slice(len(learn))),
        known[learn],
        folds,
        calibration_X=rows.table(slice(len(learn), None)) if len(still) else None,
        calibration_known=np.column_stack([known, chances])[still],
        chances=chances[learn],
        gap=gap,
    )
    one_class, rounds = np.concatenate(scores), rounds[order].astype(np.intp)
    # No detector learnt from rows that came later.
    own = None if result.own is None else np.concatenate([result.own, *scores[1:]])[order]
    return Taught(training, one_class[learn], rows, rounds, own, still - end)


def _folds_again(
    calibration: CalibrationRows, known: Host, random: np.random.RandomState, gap: int | None
) -> Folds:
    """Deal rows out to folds of the experts: the parts that calibrate, where there are any.

    What was learnt without these parts is kept. Known anomalies, and rows that came later, are
    dealt out to the parts.
    """
    parts = calibration.parts
    if gap is not None:
        return make_folds(FOLDS_OF_EXPERTS, known, None, None, random, in_time=True)
    if not parts or (known >= 0).sum() < 2:  # which is refused there
        return make_folds(FOLDS_OF_EXPERTS, known, None, None, random)
    of_row = np.full(len(known), -1)
    for k, part in enumerate(parts):
        of_row[part.hidden] = k
    of_row[known < 0] = -1
    for label in np.unique(known):
        rows = random.permutation(np.flatnonzero((of_row < 0) & (known == label)))
        of_row[rows] = np.arange(len(rows)) % len(parts)
    pairs = [(np.flatnonzero(of_row != k), np.flatnonzero(of_row == k)) for k in range(len(parts))]
    return Folds(pairs, of_row, independent=True, dealt=True)


def _without_each_part(result: CalibratedFit, taught: Taught) -> list[tuple[Host, Index]]:
    """Return, for each part, scores of all rows without it, and the rows to learn from."""
    width, found = len(result.pool.one_class), []
    for part in result.calibration.parts:
        scores = taught.one_class.copy()  # of rows that came later: no detector learnt from them
        scores[part.learnt] = part.out_of_fold.scores[: len(part.learnt), :width]
        scores[part.hidden] = part.scores[:, :width]
        # A row that turned out anomalous calibrates no longer, and teaches.
        hidden = part.hidden[taught.training.labels[part.hidden] >= 0]
        found.append((scores, np.setdiff1d(np.arange(len(scores)), hidden)))
    return found


def _calibration_again(
    result: CalibratedFit,
    taught: Taught,
    fit: FitResult,
    without: list[tuple[Host, Index]],
    strategy: Strategy,
    random: np.random.RandomState,
    n_jobs: int | None,
) -> tuple[CalibrationRows, list[FitResult]]:
    """Score the rows that calibrate by the new experts, none of which learnt from them."""
    before, training, one_class = result.calibration, taught.training, result.pool.one_class
    if before.by == "split":
        scores = before.scores[taught.still_aside, : len(one_class)]
        more = fit.pool.expert_scores(training.calibration_X, scores, n_jobs)[0]
        scores, known = np.column_stack([scores, more]), training.calibration_known
        return CalibrationRows("split", scores=scores, known=known), []
    if before.by == "plain":
        return before, []
    parts, found = [], []
    for part, (scores, rows) in zip(before.parts, without, strict=True):
        hidden = part.hidden[training.labels[part.hidden] >= 0]
        again = among(training, rows, FOLDS_OF_EXPERTS, random)
        parts.append(Part(again, rows, hidden, hidden[:0]))
        found.append(ScoredMembers(one_class, scores[rows], scores[hidden]))
    return score_calibration_rows(fit, training, parts, found, strategy, random, n_jobs)


# ------------------------------------------------------------------------- what the answers tell


def audit(result: CalibratedFit, confidence: float) -> AnswerAudit:
    """Judge the detector by held-out scores of the rows that were asked about."""
    known, chances = known_answers(result)
    answered = known != 0
    if np.isnan(chances[answered]).all():
        raise ValueError(
            "No row was asked about with a known chance. Draw rows with query(X, n, "
            "return_chances=True), and hand the answers and the chances to teach."
        )
    return audit_answers(
        result.held_out.fused[answered],
        known[answered],
        chances[answered],
        offset=result.offset,
        n_rows=_n_asked_from(result),
        rounds=result.rounds[answered],
        confidence=confidence,
    )


def estimate_contamination(result: CalibratedFit) -> Estimate:
    """Estimate the share of anomalies among the training rows, from answers with known chances."""
    if result.out_of_fold.known is None or result.out_of_fold.chances is None:
        return estimate_share(np.empty(0), np.empty(0))
    known, chances = known_answers(result)
    own = result.of_own_rows  # by which the questions were drawn
    terms = without_gaps(own.terms, own.abs_weights)[:, : _one_class_terms(result)]
    rounds, n = result.rounds * bool(result.pool.experts), _n_asked_from(result) or len(known)
    return share_by_answers(terms.sum(axis=1), known, chances, rounds, n)


def _n_asked_from(result: CalibratedFit) -> int | None:
    """Return the number of training rows, if questions went to these alone; else None."""
    known, chances = known_answers(result)
    n_added = result.rows.n_added
    end = len(known) - result.calibration.n_split
    from_elsewhere = chances[end - n_added : end]
    return len(known) - n_added if np.isnan(from_elsewhere).all() else None


def _banded_chance(rank: Host, share: Host, density: float) -> Host:
    """Return `hidden_chance` where anomalies fill a band of the strangest rows so densely."""
    band = IN_BAND * share / density
    beyond = (1 - IN_BAND) * share / np.maximum(1 - band, 0.05)
    return np.where(rank <= band, density, np.clip(beyond, 1e-6, SUREST))


def estimate_share(rank: Host, known: Host, at_least: float = 0.0) -> Estimate:
    """Estimate the share of anomalies from rows that were asked about, with its 95 % interval.

    Parameters
    ----------
    rank : ndarray of shape (m,)
        `strangeness` of these rows among all, by detectors that learn from normal rows. They were
        chosen by that and by chance, not by what experts say.
    known : ndarray of shape (m,)
        +1 or −1.
    at_least : float
        What the share is known to be at least.

    Examples
    --------
    >>> import numpy as np
    >>> print(estimate_share(np.empty(0), np.empty(0)))  # no answers
    5.0 % (0.0 % to 23 %)
    >>> rank = (np.arange(20) + 0.5) / 200
    >>> print(estimate_share(rank, np.ones(20)))  # no anomaly among the strangest tenth
    0.7 % (0.0 % to 4.7 %)
    """
    # Ranks to one per cent: as many answers as there may be, hundreds of different ranks.
    nearest, place = np.unique(np.round(100 * np.log(rank)), return_inverse=True)
    found, labelled = (
        np.bincount(place, weights=known * side > 0, minlength=len(nearest)) for side in (-1, 1)
    )
    u, shares = np.exp(nearest / 100), SHARES[:, None]
    laws = [(hidden_chance(u, shares, a), (1 - BANDED) / len(STEEPNESSES)) for a in STEEPNESSES]
    laws += [(_banded_chance(u, shares, d), BANDED / len(DENSITIES)) for d in DENSITIES]
    fit = np.full(len(SHARES), -np.inf)
    for q, weight in laws:
        fit = np.logaddexp(fit, np.log(weight) + np.log(q) @ found + np.log1p(-q) @ labelled)
    fits = np.array([fit, np.where(SHARES < min(at_least, SHARES[-1]), -np.inf, fit)])
    probable = np.exp(fits - fits.max(axis=1, keepdims=True))
    upto, mean = probable.cumsum(axis=1), SHARES @ probable[1] / probable[1].sum()
    low, high = (SHARES[np.searchsorted(upto[k] / upto[k, -1], (0.025, 0.975)[k])] for k in (0, 1))
    # Where all were found the bound is the share: it belongs to the interval.
    return Estimate(*(max(float(each), at_least) for each in (mean, low, high)))


def share_by_answers(
    scores: Host, known: Host, chances: Host, rounds: NDArray[np.intp], n_asked_from: int
) -> Estimate:
    """Apply `estimate_share` to training rows, from rounds of questions.

    Experts lead questions to anomalies, once there are experts: anomalies that were found that way
    are counted, but they are no sign of more.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Held-out scores by detectors that learn from normal rows.
    known : ndarray of shape (n,)
        +1, −1, or 0 for unlabelled.
    chances : ndarray of shape (n,)
        With which rows were asked about; NaN for labels from elsewhere, which tell nothing of the
        other rows.
    rounds, n_asked_from : ndarray of shape (n,), int
        Numbers of the rounds, all 0 where there never were experts; the rows asked from.
    """
    asked = (known != 0) & ~np.isnan(chances)
    found = np.bincount(rounds[known < 0], minlength=int(rounds.max()) + 1)
    led = (np.cumsum(found) - found)[rounds] >= EXPERTS_FROM
    tells = asked & ~(led & (known < 0))
    at_least = int((known[asked] < 0).sum()) / n_asked_from
    return estimate_share(strangeness(scores)[tells], known[tells], at_least)


# ---------------------------------------------------------------------------------- recalibration


def recalibrate(
    result: CalibratedFit,
    table: Table,
    raw: Host,
    features: Host | None,
    rule: ThresholdParameters,
    scale: bool | Literal["auto"],
    random: np.random.RandomState,
) -> CalibratedFit:
    """Move threshold, p-values and scale to other normal rows; detectors and weights stay.

    Parameters
    ----------
    result : CalibratedFit
        The detector as it is.
    table : table of shape (n, d)
        Normal rows that nothing learnt from.
    raw, features : ndarrays
        Their raw scores; their features, where the fusion looks at them.
    rule : ThresholdParameters
        By a false-alarm rate.
    scale : bool or "auto"
        Whether a third of the rows sets the scale anew.
    random : RandomState
        Draws these.
    """
    sets_scale = _rows_for_scale(raw, scale, random)
    calibrates = np.flatnonzero(~sets_scale)
    scored = calibrates[~np.isnan(raw[calibrates]).all(axis=1)]
    promise = rule.promise(len(scored))
    if promise.k == 0:
        raise ValueError(f"{promise.sentence()} The detector was left as it is.")
    combination, end = result.combination, result.n_learnt
    learnt = result.held_out[:end]
    if sets_scale.any():
        scaler = clone(result.combination.scaler).fit(raw[sets_scale])
        combination = Combination(scaler, result.combination.fusion)
        # On the new scale, for reports and audits; by the weights at hand.
        if features is None:
            known = result.out_of_fold.scores[:end]
            learnt = HeldOutScores.by(combination, known, learnt.labels)
    ones = np.ones(len(scored))
    new = HeldOutScores.by(
        combination, raw[scored], ones, None if features is None else features[scored]
    )
    learnt = replace(learnt, calibrates=np.zeros(end, dtype=bool))
    held_out = HeldOutScores.concatenate([learnt, new])
    rows = result.rows
    if rows.values is not None:
        both = rows.table(slice(end)), _safe_indexing(table, scored, axis=0)
        rows = replace(store_rows(*both), n_added=rows.n_added)
    known = np.column_stack([ones, np.full(len(scored), np.nan)])
    return replace(
        result,
        combination=combination,
        held_out=held_out,
        own=None,
        calibration=CalibrationRows("split", scores=raw[scored], known=known),
        offset=rule.offset(held_out),
        rows=rows,
        rounds=np.concatenate([result.rounds[:end], np.zeros(len(scored), np.intp)]),
    )


def _rows_for_scale(
    raw: Host, scale: bool | Literal["auto"], random: np.random.RandomState
) -> NDArray[np.bool_]:
    """Choose rows that set the scale: some of those that all detectors score, or none."""
    chosen = np.zeros(len(raw), dtype=bool)
    whole = np.flatnonzero(~np.isnan(raw).any(axis=1))
    if scale is False or (scale == "auto" and len(whole) < SCALE_FROM):
        return chosen
    chosen[random.permutation(whole)[: int(SCALE_SHARE * len(whole))]] = True
    return chosen
