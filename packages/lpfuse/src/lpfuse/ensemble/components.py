"""The parts of a `FusedDetector`, for packages that build on it.

Here is all of :mod:`lpfuse.ensemble` that other modules and packages may use beside
:class:`~lpfuse.FusedDetector` itself: the value objects among its fitted attributes, the steps of
its ``fit`` that make sense alone, and its defaults.

* `Training` and `Folds`: rows to learn from, and the folds that they are dealt out to, by
  `make_folds` or `assign_folds`; `labels_for_weights` are ±1 for rows that the weights are learnt
  from;
* `Member` and `Pool`: detectors by name, one or all; `make_members` makes them of what users list,
  `fit_detectors` fits them once, without folds, `seeded_copy` sets what is random;
* `MeanOfFits`: what an expert is, fitted without each fold;
* `OutOfFoldScores`: raw scores that weights are learnt from;
* `Combination`: a fitted scaler and a fitted fusion, from raw scores to fused ones; `scale_scores`
  and `without_gaps` are its two steps where detectors are silent;
* `Verdicts`: all that is said of rows, in the columns of `score_columns`;
* `HeldOutScores`: fused scores by weights that were learnt without the row, and the threshold;
* `Explanation`: what each column adds to the fused score of a row, with its error;
* `default_detectors`, `default_fusion`: what is taken where users say nothing; `named_detectors`:
  what names stand for;
* `empty_columns_untold`: a context without warnings of columns that hold no value;
* `places_in_training`: which rows a fitted detector has learnt from, known again by their values.

Examples
--------
>>> import numpy as np
>>> from lpfuse import FusedDetector, GMMDetector
>>> from lpfuse.ensemble.components import Combination
>>> X = np.random.default_rng(0).normal(size=(100, 2))
>>> fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X)
>>> combination = Combination(fused.scaler_, fused.fusion_)
>>> scores = combination.score_samples(fused.detector_scores(X))
>>> bool((scores == fused.score_samples(X)).all())
True
"""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import delayed
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from lpfuse.ensemble._calibration import HeldOutScores, OutOfFoldScores
from lpfuse.ensemble._default_pool import default_detectors, default_fusion
from lpfuse.ensemble._defaults import make_members, seed_members
from lpfuse.ensemble._explaining import Explanation
from lpfuse.ensemble._kept_rows import number_rows, numbers_of
from lpfuse.ensemble._lent_cells import empty_columns_untold
from lpfuse.ensemble._mean_of_fits import MeanOfFits
from lpfuse.ensemble._members import Member, fit_members, group_members
from lpfuse.ensemble._named import named_detectors
from lpfuse.ensemble._out_of_fold import Choice, FitScheduler, Progress
from lpfuse.ensemble._pool import Pool
from lpfuse.ensemble._scoring import Combination, scale_scores, without_gaps
from lpfuse.ensemble._tables import Table, numeric_columns
from lpfuse.ensemble._training import Folds, Training, assign_folds, labels_for_weights, make_folds
from lpfuse.ensemble._verdicts import CONTRIBUTION, Verdicts, score_columns

__all__ = [
    "CONTRIBUTION",
    "Choice",
    "Combination",
    "Explanation",
    "Folds",
    "HeldOutScores",
    "MeanOfFits",
    "Member",
    "OutOfFoldScores",
    "Pool",
    "Table",
    "Training",
    "Verdicts",
    "assign_folds",
    "default_detectors",
    "default_fusion",
    "empty_columns_untold",
    "fit_detectors",
    "labels_for_weights",
    "make_folds",
    "make_members",
    "named_detectors",
    "numeric_columns",
    "places_in_training",
    "scale_scores",
    "score_columns",
    "seeded_copy",
    "without_gaps",
]


def fit_detectors(
    detectors: Any,
    X: Table,
    *,
    n_jobs: int | None = None,
    random_state: Any = None,
    progress: Progress | None = None,
) -> list[tuple[str, Any, Any]]:
    """Detectors fitted once, to all rows, for ``FusedDetector(..., cv="prefit")``.

    Kernel learners with the same columns and preparation share the kernel's work.

    Parameters
    ----------
    detectors : list of (name, detector) or (name, detector, columns)
        That learn from normal rows, as `FusedDetector` takes them.
    X : array or data frame of shape (n, d)
        Normal rows.
    n_jobs : int, optional
        Fits at a time, as in joblib.
    random_state : int, RandomState or None, default=None
        Seeds the detectors whose own ``random_state`` is None.
    progress : callable, optional
        Is told how many fits are done, and of how many.

    Returns
    -------
    list of (name, detector, columns)
        In the order given.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import GMMDetector
    >>> from lpfuse.ensemble.components import fit_detectors
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> ((name, gmm, columns),) = fit_detectors([("gmm", GMMDetector(), [0, 2])], X)
    >>> gmm.n_features_in_
    2
    """
    members = seed_members(make_members(detectors, X), check_random_state(random_state))
    groups = group_members(members)
    tasks = [delayed(fit_members)([members[i] for i in group], X) for group in groups]
    fitted: dict[int, Member] = {}
    for group, done in zip(groups, FitScheduler(n_jobs, progress).run(tasks), strict=True):
        fitted.update(zip(group, done, strict=True))
    return [(fitted[i].name, fitted[i].estimator, fitted[i].columns) for i in sorted(fitted)]


def seeded_copy(estimator: Any, random: np.random.RandomState) -> Any:
    """A copy of an estimator whose unset ``random_state``, also those of its parts, are set.

    Parameters
    ----------
    estimator : estimator
        Is left as it is.
    random : RandomState
        Draws the seeds.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.ensemble import IsolationForest
    >>> from lpfuse.ensemble.components import seeded_copy
    >>> forest = IsolationForest()
    >>> seeded_copy(forest, np.random.RandomState(0)).random_state is None, forest.random_state
    (False, None)
    """
    (member,) = seed_members([Member("copy", estimator)], random)
    return member.estimator


def places_in_training(fused: Any, X: Table) -> NDArray[np.intp]:
    """Where rows are among those that a detector has learnt from: known again by their values.

    Equal rows have the same place, also where several training rows are equal.

    Parameters
    ----------
    fused : FusedDetector
        Fitted.
    X : array or data frame of shape (n, d)
        Rows, checked.

    Returns
    -------
    ndarray of shape (n,)
        Positions in ``fused.rows_``; −1 where a row is none of these, and for all rows where the
        detector keeps none, having learnt from columns of words.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import FusedDetector, GMMDetector
    >>> from lpfuse.ensemble.components import places_in_training
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> fused = FusedDetector([("gmm", GMMDetector())], random_state=0).fit(X)
    >>> places_in_training(fused, np.array([X[7], [0.0, 0.0]]))
    array([ 7, -1])
    """
    rows, sought = getattr(fused, "rows_", None), numbers_of(X)
    if rows is None or rows.values is None or sought is None or not len(sought):
        return np.full(X.shape[0], -1, dtype=np.intp)
    # By numbers made of the rows, which sort many times faster than the rows themselves.
    known, wanted = number_rows(rows.values), number_rows(sought)
    order = np.argsort(known, kind="stable")
    found = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
    return np.where(known[found] == wanted, found, -1)
