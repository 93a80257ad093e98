"""Ready-made pools: lists of detectors to hand to ``FusedDetector(detectors=...)``.

A pool is *homogeneous* where one kind of learner sees different columns (`random_subspaces`) or
different rows (`bootstraps`), *heterogeneous* where different kinds see the same data.
"""

from __future__ import annotations

from math import comb
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM
from sklearn.utils import _safe_indexing, check_random_state

from lpfuse._arrays.operations import Host
from lpfuse._files import saved_as
from lpfuse._validation.params import check_choice, check_count, check_number
from lpfuse._validation.tables import check_table
from lpfuse.adapters import Adapter, as_detector
from lpfuse.ensemble.components import default_detectors
from lpfuse.ensemble.defaults import seeded_copy
from lpfuse.ensemble.rows import numeric_columns

__all__ = [
    "BaggedDetector", "bagged_one_class_svms", "bootstraps", "heterogeneous", "proximity",
    "random_subspaces",
]  # fmt: skip

Draw = Literal["uniform", "proximity"]
LANDMARKS = 1_000  # rows that stand for all others when proximity is measured


@saved_as("BaggedDetector", draw=("uniform", "proximity"))
class BaggedDetector(Adapter):
    r"""A detector that learns from a bootstrap: rows drawn with replacement.

    Parameters
    ----------
    detector : detector
        What learns from them: anything that `FusedDetector` takes and that learns from normal rows.
    draw : {"uniform", "proximity"}, default="uniform"
        How likely each row is drawn: all the same, or in proportion to its proximity to all others,

        .. math:: \pi_i \propto \sum_j \exp(-\|z_i - z_j\|^2 / d)

        with standardised features z in d dimensions: a kernel density estimate, so that stray rows
        are drawn less often (in the style of [1]_, whose width could not be read; with more than
        1000 rows, a thousand random ones stand for the others).
    share : float in (0, 1], default=1.0
        Rows drawn, as a share of those there are.
    random_state : int, RandomState or None, default=None
        Draws the rows, and seeds the detector where its own ``random_state`` is None.

    Attributes
    ----------
    detector_ : detector
        The fitted copy.
    rows_ : ndarray of positions
        The rows that were drawn; some occur several times, some never.

    References
    ----------
    .. [1] Shieh and Kamm (2009). Ensembles of one class support vector machines. Multiple
       Classifier Systems, LNCS 5519, 181–190.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import GMMDetector
    >>> from research.rivals.pools import BaggedDetector
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> X[0] = 9.0  # a stray row
    >>> bag = BaggedDetector(GMMDetector(), draw="proximity", random_state=0).fit(X)
    >>> len(bag.rows_), 0 in bag.rows_
    (200, False)
    """

    _adapts = "detector"

    def __init__(
        self,
        detector: Any,
        *,
        draw: Draw = "uniform",
        share: float = 1.0,
        random_state: Any = None,
    ) -> None:
        self.detector = detector
        self.draw = draw
        self.share = share
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a copy of the detector to rows that are drawn with replacement.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Normal rows.
        y : object
            Ignored.

        Returns
        -------
        BaggedDetector
            The fitted detector.
        """
        check_choice("draw", self.draw, ("uniform", "proximity"))
        check_number("share", self.share, above=0, at_most=1)
        detector = as_detector(clone(self.detector, safe=False))
        if getattr(detector, "learns_from_anomalies", False):
            raise ValueError(
                f"{self.detector!r} learns from anomalies, and a bootstrap may hold none. Use "
                "sklearn.ensemble.BaggingClassifier for classifiers."
            )
        table = check_table(X)
        n = table.shape[0]
        random = check_random_state(self.random_state)
        chances = proximity(table, random) if self.draw == "proximity" else None
        rows = random.choice(n, size=max(1, round(self.share * n)), p=chances)  # nosec B311 # NumPy, seeded
        self.detector_ = seeded_copy(detector, random).fit(_safe_indexing(table, rows, axis=0))
        self.rows_ = rows
        return self

    def _scores(self, X: Any) -> Host:
        scores: Host = np.asarray(self.detector_.score_samples(X), dtype=np.float64)
        return scores


def proximity(X: Any, random_state: Any = None) -> Host:
    """How close each row is to all others, as shares that sum to one; see `BaggedDetector`.

    Parameters
    ----------
    X : array-like or data frame of shape (n, d)
        Rows without missing cells.
    random_state : int, RandomState or None, default=None
        Picks the thousand rows that stand for all, where there are more.

    Returns
    -------
    ndarray of shape (n,)
        High in the midst of the rows, low for stray ones.

    Examples
    --------
    >>> from research.rivals.pools import proximity
    >>> proximity([[0.0], [1.0], [2.0], [9.0]]).round(2)
    array([0.29, 0.31, 0.29, 0.11])
    """
    features = StandardScaler().fit_transform(numeric_columns(check_table(X)))
    n, d = features.shape
    random = check_random_state(random_state)
    landmarks = random.permutation(n)[:LANDMARKS] if n > LANDMARKS else np.arange(n)
    density: Host = rbf_kernel(features, features[landmarks], gamma=1 / d).sum(axis=1)
    return density / density.sum()


def random_subspaces(
    detector: Any,
    n_features_in: int,
    n_members: int = 10,
    *,
    share: float = 0.5,
    random_state: Any = None,
) -> list[tuple[str, Any, NDArray[np.intp]]]:
    """A homogeneous pool: one kind of learner, each copy on its own random columns.

    Nanni [1]_ fuses such a pool with the max rule.

    Parameters
    ----------
    detector : detector
        The learner.
    n_features_in : int
        Columns d of the rows.
    n_members : int, default=10
        Copies. No two of them see the same columns.
    share : float in (0, 1], default=0.5
        Columns that each sees, as a share of d.
    random_state : int, RandomState or None, default=None
        Draws the columns.

    Returns
    -------
    list of (name, detector, columns)
        For ``FusedDetector(detectors=...)``.

    References
    ----------
    .. [1] Nanni (2006). Experimental comparison of one-class classifiers for online signature
       verification. Neurocomputing 69(7–9), 869–873.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import FixedRule, FusedDetector, GMMDetector
    >>> from research.rivals.pools import random_subspaces
    >>> X = np.random.default_rng(0).normal(size=(200, 6))
    >>> pool = random_subspaces(GMMDetector(), 6, n_members=4, random_state=0)
    >>> [columns.tolist() for _, _, columns in pool]
    [[1, 2, 5], [1, 3, 4], [1, 3, 5], [2, 3, 5]]
    >>> nanni = FusedDetector(pool, fusion=FixedRule("max"), random_state=0).fit(X)
    >>> nanni.predict([[0.0] * 6, [9.0] * 6])
    array([ 1, -1])
    """
    d, members = check_count("n_features_in", n_features_in), check_count("n_members", n_members)
    hint = "It is a share of the columns: write 0.5 for half of them."
    size = max(1, round(check_number("share", share, above=0, at_most=1, hint=hint) * d))
    if members > comb(d, size):
        raise ValueError(
            f"n_members={members} copies cannot all see different columns: {size} of {d} can be "
            f"chosen in {comb(d, size)} ways. Ask for fewer members, or change share."
        )
    random = check_random_state(random_state)
    chosen: dict[tuple[int, ...], None] = {}
    while len(chosen) < members:
        chosen[tuple(sorted(random.permutation(d)[:size].tolist()))] = None
    return [
        (f"subspace_{i}", clone(detector, safe=False), np.array(columns))
        for i, columns in enumerate(chosen, start=1)
    ]


def bootstraps(
    detector: Any,
    n_members: int = 10,
    *,
    draw: Draw = "uniform",
    share: float = 1.0,
    random_state: Any = None,
) -> list[tuple[str, BaggedDetector]]:
    """A homogeneous pool: one kind of learner, each copy on its own bootstrap of the rows.

    Parameters
    ----------
    detector : detector
        The learner.
    n_members : int, default=10
        Copies.
    draw, share
        As in `BaggedDetector`.
    random_state : int, RandomState or None, default=None
        Seeds the copies, each with a seed of its own. None leaves that to the `FusedDetector`.

    Returns
    -------
    list of (name, detector)

    Examples
    --------
    >>> from lpfuse import GMMDetector
    >>> from research.rivals.pools import bootstraps
    >>> [name for name, _ in bootstraps(GMMDetector(), n_members=3, random_state=0)]
    ['bag_1', 'bag_2', 'bag_3']
    """
    seeds = _seeds(check_count("n_members", n_members), random_state)
    return [
        (
            f"bag_{i}",
            BaggedDetector(clone(detector, safe=False), draw=draw, share=share, random_state=seed),
        )
        for i, seed in enumerate(seeds, start=1)
    ]


def bagged_one_class_svms(
    n_members: int = 10,
    *,
    nu: float = 0.1,
    gamma: float | str = "scale",
    draw: Draw = "proximity",
    random_state: Any = None,
) -> list[tuple[str, BaggedDetector]]:
    """Bagged one-class SVMs that seldom see stray rows, in the style of Shieh and Kamm [1]_.

    Parameters
    ----------
    n_members : int, default=10
        How many.
    nu, gamma
        Of :class:`sklearn.svm.OneClassSVM`, on standardised features.
    draw : {"uniform", "proximity"}, default="proximity"
        As in `BaggedDetector`.
    random_state : int, RandomState or None, default=None
        As in `bootstraps`.

    Returns
    -------
    list of (name, detector)
        For ``FusedDetector(detectors=...)``; the sum is the usual fusion of bagged learners.

    References
    ----------
    .. [1] Shieh and Kamm (2009). Ensembles of one class support vector machines. Multiple
       Classifier Systems, LNCS 5519, 181–190.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import FixedRule, FusedDetector
    >>> from research.rivals.pools import bagged_one_class_svms
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> pool = bagged_one_class_svms(n_members=4, random_state=0)
    >>> bagged = FusedDetector(pool, fusion=FixedRule("sum"), random_state=0).fit(X)
    >>> bagged.predict([[0.0, 0.0], [5.0, 5.0]])
    array([ 1, -1])
    """
    svm = make_pipeline(StandardScaler(), OneClassSVM(nu=nu, gamma=gamma))
    return bootstraps(svm, n_members, draw=draw, random_state=random_state)


def heterogeneous(n: int) -> list[tuple[str, Any]]:
    """A heterogeneous pool: the kinds of learners that `FusedDetector` takes by itself.

    As a list they can be changed and added to. Dynamic ensembles in the style of Wang and Mao [1]_
    choose among such a pool for every row; which learners theirs held could not be read.

    Parameters
    ----------
    n : int
        Normal rows to learn from: kernels are approximated where there are many.

    Returns
    -------
    list of (name, detector)

    References
    ----------
    .. [1] Wang and Mao (2020). A dynamic ensemble outlier detection model based on an adaptive
       k-nearest neighbor rule. Information Fusion 63, 30–40.

    Examples
    --------
    >>> from research.rivals.pools import heterogeneous
    >>> pool = dict(heterogeneous(n=300))
    >>> pool["columns"][-1]
    ColumnForest(n_trees=40)
    """
    return default_detectors(check_count("n", n), n_anomalies=0)


def _seeds(n: int, random_state: Any) -> list[int | None]:
    if random_state is None:
        return [None] * n
    return list(check_random_state(random_state).randint(2**31 - 1, size=n).tolist())
