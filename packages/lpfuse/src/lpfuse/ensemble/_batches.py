"""Whether a detector scores each row by itself, whatever else is in its batch."""

from __future__ import annotations

import numpy as np
from sklearn.utils import _safe_indexing

from lpfuse._arrays.operations import Host
from lpfuse._base import Scorer
from lpfuse._format import quote
from lpfuse._validation.params import LARGEST_SCORE
from lpfuse.adapters import innermost
from lpfuse.ensemble._members import Member, complete_rows, score_members
from lpfuse.ensemble._tables import Index, Table

# Rows that are scored again in another batch: a two-hundredth of those learnt from, so that a batch
# that is added to the training rows still moves their ranks; within bounds, as time is short.
FEWEST_ROWS, MOST_ROWS, SHARE_OF_ROWS = 32, 1_000, 200
# What rounding may change, of the spread of the scores and of each score: networks in single
# precision differ by 1e-6, detectors in double by 1e-15, ECOD by 1e-3 or more. Chosen by hand.
OF_SPREAD, OF_SCORE = 1e-4, 1e-6
# Terms of size 1 that cancel leave such scores: a row that a full basis rebuilds, for instance.
NOISE = 1e-12

REMEDY = "Leave it out, or use a detector that scores each row by itself, as all of lpfuse do."


def check_scores_by_row(member: Member, X: Table) -> None:
    """Refuse a fitted member that gives rows other scores when they come in another batch.

    Some detectors rank a row among those that are scored with it (PyOD's ECOD and COPOD add the
    batch to the training rows, COF and SOD look at nothing else). A threshold set on one batch says
    nothing about the next: false alarms went from 5.2 to 0.6 % with the size of the batch.
    Some training rows are scored together, then half of them without the rest; two calls in all.
    The detectors of lpfuse are never asked.

    Parameters
    ----------
    member : Member
        Fitted.
    X : table of shape (n, d)
        The rows that it was fitted on.
    """
    if isinstance(innermost(member.estimator), Scorer):
        return
    rows = _rows_to_score(member, X)
    together = _scores(member, X, rows)
    known = np.flatnonzero(np.abs(together) < LARGEST_SCORE)  # infinite ones are cut to it
    if len(known) < 2:
        return
    # A half unlike the whole, for a sample of it would have the same ranks: that of the lowest
    # scores, without the very lowest, as who counts the rows below notices no others.
    half = np.sort(known[np.argsort(together[known], kind="stable")[1 : 1 + len(known) // 2]])
    apart = _scores(member, X, rows[half])
    if _same(together[half], apart, together[known]):
        return
    who = _who(member)
    if not _same(together[known], _scores(member, X, rows)[known], together[known]):
        raise ValueError(
            f"{who} scores at random: the same {len(rows)} rows got other scores a second time. A "
            "threshold needs scores that stay. Fix its seed, or leave it out."
        )
    raise ValueError(
        f"{who} scores a row by what else is in its batch: {len(half)} of {len(rows)} rows got "
        "other scores when they came without the rest. A threshold set on one batch then says "
        f"nothing about the next. {REMEDY}"
    )


def _rows_to_score(member: Member, X: Table) -> Index:
    """Training rows, spread evenly; complete ones where there are at least two."""
    n = X.shape[0]
    view = X if member.columns is None else _safe_indexing(X, member.columns, axis=1)
    found = complete_rows(view)
    found = found if len(found) > 1 else np.arange(n)
    count = min(len(found), max(FEWEST_ROWS, min(MOST_ROWS, n // SHARE_OF_ROWS)))
    return found[np.linspace(0, len(found) - 1, count).astype(np.intp)]


def _scores(member: Member, X: Table, rows: Index) -> Host:
    """Scores of some training rows; a member that can score only more of them is refused."""
    try:
        return score_members([member], _safe_indexing(X, rows, axis=0))[:, 0]
    except Exception as error:
        score_members([member], X)  # where it fails on all rows as well, that is the error
        raise ValueError(
            f"{_who(member)} scores {X.shape[0]} rows, but not {len(rows)} of them by themselves "
            f"({type(error).__name__}: {error}): what it says of a row depends on its batch. "
            f"{REMEDY}"
        ) from error


def _same(first: Host, second: Host, scale: Host) -> bool:
    """Whether two answers agree up to rounding, as far as both are finite."""
    low, high = np.quantile(scale, [0.25, 0.75])
    allowed = OF_SPREAD * (high - low) + OF_SCORE * np.abs(first) + NOISE
    return not np.any(np.abs(first - second) > allowed)  # NaN is no difference


def _who(member: Member) -> str:
    return f"{quote(member.name)} ({type(innermost(member.estimator)).__name__})"
