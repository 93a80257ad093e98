"""The three protocols: what a method is given, what it is asked, what is measured of it.

- ``dirty``: 0, 1, 5, 10 % of the training rows are anomalies, and nothing is labelled.
- ``answers``: 5 % are anomalies; a person answers 5, 10, 20, 40 questions, one row each, and the
  detector learns again after each round.
- ``contaminated``: 0, 5, 20, 100 labelled anomalies beside 5 % that nobody labelled.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import has_fit_parameter

from lpfuse._arrays.operations import Host
from research.common.store import Record
from research.studies.answers.methods import Method
from research.studies.answers.splits import DirtySplit, dirty_split
from research.studies.tables.splits import LABELS, split_table

ProtocolName = Literal["dirty", "answers", "contaminated"]
# Who chooses the questions: the detector's own `query`, after which it is fitted anew, or taught
# with the chances of asking; the lowest scores, of a whole round or one by one; chance. The other
# two are the only modes of their protocols.
Mode = Literal["own", "taught", "one by one", "lowest", "random", "dirty", "contaminated"]

RATES = (0.0, 0.01, 0.05, 0.1)
ANSWERS_RATE = 0.05
ROUNDS = (5, 5, 10, 20)
ANSWERS = (0, 5, 10, 20, 40)  # after each round
POINTS: dict[ProtocolName, tuple[float, ...]] = {
    "dirty": RATES,
    "answers": ANSWERS,
    "contaminated": LABELS,
}


class Question(NamedTuple):
    """What one run of a method is to tell: rows at these points."""

    protocol: ProtocolName
    mode: Mode
    at: tuple[float, ...]
    method: str


def questions_for(protocol: ProtocolName, name: str, method: Method) -> list[Question]:
    """All that a method has something of its own to say to."""
    if protocol == "answers":
        return [Question(protocol, mode, ANSWERS, name) for mode in _modes(method)]
    fits = [0.0] if protocol == "contaminated" and not method.learns else POINTS[protocol]
    if method.needs_answers:
        fits = [at for at in fits if protocol == "contaminated" and at]
    return [Question(protocol, protocol, (at,), name) for at in fits]


def _modes(method: Method) -> list[Mode]:
    detector = method.make(0)
    has: dict[Mode, bool] = {
        "own": hasattr(detector, "query"),
        "taught": hasattr(detector, "query") and hasattr(detector, "teach"),
        "one by one": method.keeps,
        "lowest": True,
        "random": method.learns,  # else all that is found is found by anyone
    }
    return [mode for mode, is_there in has.items() if is_there]


def answer(
    question: Question, method: Method, X: Host, is_anomaly: NDArray[Any], seed: int
) -> Iterator[tuple[float, Record]]:
    """Where, and what was measured there; nothing where a set has too few anomalies."""
    (*_, at) = question.at
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd widths, tied scores: the figures tell
        if question.protocol == "answers":
            yield from _answered(
                method, dirty_split(X, is_anomaly, seed, ANSWERS_RATE), question.mode, seed
            )
        elif question.protocol == "dirty":
            parts = dirty_split(X, is_anomaly, seed, at)
            detector, seconds = _timed(method.make(seed).fit, parts.rows)
            yield at, measured(detector, parts.test, parts.sought, seconds)
        else:
            table = split_table(X, is_anomaly, seed, "contaminated")
            if table is not None and at in table.label_counts(LABELS):
                training = table.training(int(at))
                detector, seconds = _timed(method.make(seed).fit, training.X, training.y)
                yield at, measured(detector, table.test, table.sought, seconds)


def _answered(
    method: Method, parts: DirtySplit, mode: Mode, seed: int
) -> Iterator[tuple[float, Record]]:
    """A person answers, the detector learns, round after round."""
    known = np.zeros(len(parts.rows), int)
    detector, seconds = _timed(method.make(seed).fit, parts.rows)
    for answers, n in zip(ANSWERS, (0, *ROUNDS), strict=True):
        for step in [1] * n if mode == "one by one" else [n] * (n > 0):
            free = np.flatnonzero(known == 0)
            chosen, chances = _chosen(detector, parts, free, step, mode)
            known[chosen] = parts.truth[chosen]
            if mode == "taught":
                teach = partial(detector.teach, chances=chances)
                detector, seconds = _timed(teach, parts.rows[chosen], known[chosen])
            elif method.learns:
                again = detector if method.keeps else method.make(seed)
                # Answers may all be "normal": ours wants to be told that 0 is no class.
                told = {"unlabelled": 0} if has_fit_parameter(again, "unlabelled") else {}
                detector, seconds = _timed(partial(again.fit, **told), parts.rows, known)
        found = {"found": int((known < 0).sum())}
        yield answers, measured(detector, parts.test, parts.sought, seconds) | found


def _chosen(
    detector: Any, parts: DirtySplit, free: NDArray[np.int_], n: int, mode: Mode
) -> tuple[NDArray[np.int_], Host | None]:
    """Which n of the rows that nobody has looked at are shown to the person, with their chances."""
    if mode == "random":
        return parts.rng.permutation(free)[:n], None
    rows = parts.rows[free]
    if mode == "taught":
        chosen, chances = detector.query(rows, n, return_chances=True)
        return free[np.asarray(chosen)], chances
    if mode == "own":
        return free[np.asarray(detector.query(rows, n))], None
    return free[np.argsort(detector.score_samples(rows))[:n]], None


def _timed(learn: Callable[..., Any], *data: Any) -> tuple[Any, float]:
    """A detector that has learnt, and the seconds of the processor that this took."""
    start = time.process_time()
    return learn(*data), time.process_time() - start


def measured(detector: Any, test: Host, sought: Host, seconds: float) -> Record:
    """AUC, and the shares of normal rows and of anomalies that are flagged, in per cent.

    The shares are missing where a detector has no threshold of its own.
    """
    scores = detector.score_samples(np.concatenate([test, sought]))
    is_normal = np.repeat([1, 0], [len(test), len(sought)])
    found = {"auc": float(roc_auc_score(is_normal, scores))}
    if hasattr(detector, "predict"):
        found["false_alarms"] = float((detector.predict(test) < 0).mean())
        found["hits"] = float((detector.predict(sought) < 0).mean())
    shares = {name: round(100 * value, 3) for name, value in found.items()}
    return {**shares, "seconds": round(seconds, 3)}
