"""What a `FusedDetector` is made of: its detectors, scale, prior and fusion, chosen and checked.

`Strategy` makes every choice that a fit needs; `FusedDetectorCV` passes one that searches. To add a
detector to the default pool, add it to the table in `default_detectors`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from inspect import isclass
from math import inf
from pkgutil import iter_modules
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline, _name_estimators, make_pipeline
from sklearn.utils import get_tags

from lpfuse._arrays.operations import Host
from lpfuse._base import sklearn_name
from lpfuse._format import quote
from lpfuse._validation import params
from lpfuse._validation.params import key, warn_user
from lpfuse.adapters import as_detector, frozen
from lpfuse.detectors import (
    SVDD,
    ColumnForest,
    GMMDetector,
    HistogramDetector,
    KernelPCADetector,
    KNNDetector,
    LOFDetector,
    OneClassGP,
    RobustCovarianceDetector,
)
from lpfuse.ensemble.calibration import OutOfFoldScores
from lpfuse.ensemble.combination import Combination, scale_scores
from lpfuse.ensemble.copies import rows_recur
from lpfuse.ensemble.folds import Training
from lpfuse.ensemble.pool import Member, Pool
from lpfuse.ensemble.rows import (
    Index,
    Table,
    column_positions,
    draw_seed,
    empty_columns,
    warn_of_empty_columns,
)
from lpfuse.fusion.lp import LpFusion, check_prior
from lpfuse.scaling import TailScaler, TwoSidedMinMax
from lpfuse.views import FilledGaps, NormalQuantiles

Entries = list[tuple[str, Any]]

# Detectors of the default pool that join where anomalies may hide among the rows.
ROBUST = ("covariance", "lof", "knn 5", "knn half")
# Labelled anomalies from which there are experts. With fewer, a fold would have none to learn from.
EXPERTS_FROM = 2
# Rows beyond which kernels are approximated: cubic costs are not worth it, for 500 features lose
# nothing in the ranks.
EXACT_ROWS = 1_500
# Rows that the distance to half of the rows is drawn from.
HALF_OF = 1_000
# Rows beyond which there is no support vector machine, whose cost is quadratic.
SVM_ROWS = 5_000


def paper_detectors() -> Entries:
    """Return the paper's learners with its scores, on standardised features without gaps.

    Examples
    --------
    >>> [name for name, _ in paper_detectors()]
    ['svdd', 'gp', 'kpca', 'gmm']
    """
    learners = {
        "svdd": SVDD(),
        "gp": OneClassGP(score_type="mean"),
        "kpca": KernelPCADetector(),
        "gmm": GMMDetector(score_type="mahalanobis"),
    }
    return [(name, _standardised(made)) for name, made in learners.items()]


def default_detectors(n: int, n_anomalies: float, *, suspects: bool = False) -> Entries:
    """Return the default pool: one-class detectors and, with labelled anomalies, experts.

    Parameters
    ----------
    n : int
        Rows that one-class detectors learn from.
    n_anomalies : int, or infinity for all experts
        Labelled anomalies that experts can learn from.
    suspects : bool, default=False
        Whether anomalies may hide among the rows: detectors join in that a small group of them
        does not mislead (``docs/adr/0049``).

    Returns
    -------
    list of (name, detector)
        For ``FusedDetector(detectors=...)``.

    Notes
    -----
    Chosen out of 44 by mean AUC on 151 tables of many fields, and confirmed on 151 others
    (``docs/adr/0017``). All one-class detectors have leave-one-out scores in closed form, or nearly
    so: but the process between 1,500 and 10,000 rows, none has to be fitted to folds.

    Examples
    --------
    >>> for name, _ in default_detectors(300, 20):
    ...     print(name)
    gp
    knn
    knn subspaces
    knn samples
    histogram
    columns
    trees
    boosting
    svm
    """
    approximation = None if n <= EXACT_ROWS else "nystroem"
    process = OneClassGP(score_type="density", gamma="narrow", approximation=approximation)
    subspaces = KNNDetector(n_neighbors=1, n_subspaces=20)
    # Samples of 16 rows: a dense group of hidden anomalies has hardly a member in them.
    samples = KNNDetector(n_neighbors=1, n_subspaces=40, max_samples=16)
    pool = [
        ("gp", _filled(NormalQuantiles(), process)),
        ("knn", _standardised(KNNDetector(n_neighbors=1))),
        ("knn subspaces", _filled(NormalQuantiles(), subspaces)),
        ("knn samples", _filled(NormalQuantiles(), samples)),
        ("histogram", _filled(HistogramDetector())),
        ("columns", _filled(NormalQuantiles(), ColumnForest(n_trees=40))),
    ]
    if suspects:
        half = KNNDetector(n_neighbors=max(1, min(n, HALF_OF) // 2), max_samples=HALF_OF)
        pool += [
            ("covariance", _standardised(RobustCovarianceDetector())),
            ("lof", _standardised(LOFDetector(max(1, min(n // 2, 100))))),
            ("knn 5", _standardised(KNNDetector(n_neighbors=5))),
            ("knn half", _filled(NormalQuantiles(), half)),
        ]
    if n_anomalies < EXPERTS_FROM:
        return pool
    from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
    from sklearn.svm import SVC

    # There are five fits of each, whose mean counts: with 40 trees instead of 100, and 40 steps of
    # 0.2 instead of 150 of 0.05, the fused scores rank as well (docs/adr/0023).
    trees = ExtraTreesClassifier(n_estimators=40, class_weight="balanced", min_samples_leaf=2)
    # Far from its defaults, which are made for many labels: a leaf may hold a single anomaly.
    boosting = HistGradientBoostingClassifier(
        learning_rate=0.2,
        max_iter=40,
        max_depth=4,
        min_samples_leaf=1,
        l2_regularization=1.0,
        max_features=0.5,
        early_stopping=False,
        max_bins=64,  # as good as 255, and four times as fast with weights of rows
    )
    pool += [("trees", _filled(NormalQuantiles(), trees)), ("boosting", _filled(boosting))]
    if n <= SVM_ROWS:
        machine = SVC(C=0.3, gamma="scale", class_weight="balanced")
        pool.append(("svm", _filled(NormalQuantiles(), machine)))
    return pool


def _filled(*steps: Any) -> Pipeline:
    """Put an imputer before the steps: every detector scores rows with missing cells.

    Whether a cell is missing is told to none of them. With a feature that tells it, 56 % of the
    rows with a gap were flagged where 7 % of them had one, and 0.2 % of the others.
    """
    return make_pipeline(FilledGaps(), *steps)


def _standardised(detector: Any) -> Pipeline:
    from sklearn.preprocessing import StandardScaler

    return _filled(StandardScaler(), detector)


def default_fusion() -> LpFusion:
    """Return the fusion that learns weights without a prior.

    One imaginary anomaly, which counts for three, keeps the weights near uniform while there are
    few labels, and stands for anomalies while there are none. All settings are those with the best
    mean AUC on 30 development sets, where the optimum is flat (``docs/adr/0006``).

    Examples
    --------
    >>> default_fusion().p
    4.0
    """
    return LpFusion(
        p=4.0,
        class_weight="balanced",
        fit_intercept=True,
        nonnegative=True,
        imaginary_anomalies=3.0,
    )


# -------------------------------------------------------------------------------- detectors by name


def named_detectors(names: Sequence[str], n: int) -> list[tuple[str, Any]]:
    """Return detectors by name: of lpfuse, set up for the table at hand, and of PyOD.

    Parameters
    ----------
    names : sequence of str
        Those of the default pool, such as "knn-subspaces" (spaces may be hyphens); "svdd", "kpca",
        "gmm", "iforest", "lof", "logistic", "random-forest"; or "pyod:HBOS". All are looked at
        before any is made.
    n : int
        Rows that they will learn from.

    Returns
    -------
    list of (name, detector)
        Set up as in the default pool; those that are not in it are on standardised features.

    Examples
    --------
    >>> [name for name, _ in named_detectors(["gmm", "iforest"], n=1000)]
    ['gmm', 'iforest']
    """
    settled = [params.canonical_detector_name(name) for name in names]
    # Of a few rows first: who names a detector that many rows are too many for shall have it.
    several = [dict(default_detectors(m, inf, suspects=True)) for m in (0, n)]
    pool = several[0] | several[1]
    pool |= _further_detectors(n, pool["gp"][-1].approximation)
    by_name = {known.replace(" ", "-"): detector for known, detector in pool.items()}
    made = [_found_in_pyod(w) if w.startswith(params.PYOD) else by_name[w] for w in settled]
    return list(zip(names, made, strict=True))


def with_named(entries: Any, n: int) -> Any:
    """Replace names in a list of detectors by the detectors.

    Parameters
    ----------
    entries : sequence
        Names, ``(name, detector)`` and ``(name, detector, columns)``, where a detector may be a
        name, too. Anything else is left as it is.
    n : int
        Rows that they will learn from.

    Examples
    --------
    >>> with_named(["lof", ("near", "knn", [0, 1])], n=1000)[1][::2]
    ('near', [0, 1])
    """
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        return entries
    pairs = [(entry, entry) if isinstance(entry, str) else entry for entry in entries]
    places = [
        place
        for place, pair in enumerate(pairs)
        if isinstance(pair, tuple | list) and len(pair) in (2, 3) and isinstance(pair[1], str)
    ]
    made = named_detectors([pairs[place][1] for place in places], n) if places else []
    for place, (_, detector) in zip(places, made, strict=True):
        name, _, *columns = pairs[place]
        pairs[place] = (name, detector, *columns)
    return pairs


def _further_detectors(n: int, approximation: str | None) -> dict[str, Any]:
    """Return detectors that are not in the default pool, in the settings of ``docs/adr/0006``."""
    from sklearn.ensemble import IsolationForest, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    kernel: dict[str, Any] = {"gamma": "narrow", "approximation": approximation}
    further = {
        "svdd": SVDD(**kernel),
        "kpca": KernelPCADetector(n_components=0.95, **kernel),
        "gmm": GMMDetector(),
        "forest": IsolationForest(),
        "logistic": LogisticRegression(class_weight="balanced", C=0.1, max_iter=500),
        "random forest": RandomForestClassifier(
            class_weight="balanced_subsample", min_samples_leaf=2
        ),
    }
    return {name: _standardised(made) for name, made in further.items()}


def _found_in_pyod(name: str) -> Any:
    """Find ``pyod:NAME``, on standardised features; AutoEncoder is in ``auto_encoder``."""
    name = name.removeprefix(params.PYOD)
    try:
        folder = import_module("pyod.models").__path__
    except ImportError as error:
        raise ImportError(f'{params.PYOD}{name} needs PyOD: pip install "lpfuse[pyod]"') from error
    modules = {key(module.name): module.name for module in iter_modules(folder)}
    if key(name) not in modules:
        known = params.did_you_mean(name, modules.values())
        raise ValueError(f"PyOD has no detector {quote(name)}.{known} Look for it in PyOD's list.")
    try:
        module = import_module(f"pyod.models.{modules[key(name)]}")
        for found in filter(isclass, vars(module).values()):
            if key(found.__name__) == key(name):
                return _standardised(found())
    except ImportError as error:
        raise ValueError(
            f"{params.PYOD}{name} needs a package that is not there: {error}."
        ) from error
    raise ValueError(f"PyOD has no detector {quote(name)}: {module.__name__} holds none.")


# ----------------------------------------------------------------------- members of what users list


def make_members(
    entries: Any, X: Table, *, prefit: bool = False, reserved: Collection[str] = ()
) -> list[Member]:
    """Check and adapt what a user gave as `detectors`.

    Parameters
    ----------
    entries : sequence
        ``(name, detector)`` or ``(name, detector, columns)``.
    X : table
        The training rows, which have the columns.
    prefit : bool
        Whether the detectors are fitted already and shall stay as they are.
    reserved : collection of str
        Names that no detector may have.

    Returns
    -------
    list of Member
        One for each entry.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import GMMDetector
    >>> make_members([("gmm", GMMDetector(), [0, 2])], np.zeros((5, 3)))[0].columns
    array([0, 2])
    """
    listed = isinstance(entries, Sequence) and not isinstance(entries, str)
    if not listed or len(entries) == 0:
        raise ValueError(
            'detectors must be None, "paper" or a list of names such as "svdd", (name, detector) '
            "or (name, detector, columns) with at least one entry."
        )
    # Nothing can be learnt from a column without a value; who is fitted already may know more.
    empty = empty_columns(X)[: 0 if prefit else None]
    members = [_make_member(entry, X, prefit, empty) for entry in entries]
    warn_of_empty_columns(X, empty, "left out, and not looked at in new rows either")
    names = [member.name for member in members]
    taken = [name for name in names if name in reserved or "__" in name]
    if taken:
        raise ValueError(
            f"Detectors cannot be called {', '.join(map(repr, taken))}: these are parameters of "
            "the fused detector, or hold a double underscore."
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"Detectors need names of their own, but {', '.join(map(repr, twice))} occurs twice."
        )
    return members


def _make_member(entry: Any, X: Table, prefit: bool, empty: Index) -> Member:
    fits = isinstance(entry, tuple | list) and len(entry) in (2, 3) and isinstance(entry[0], str)
    if not fits:
        raise ValueError(
            "Each of detectors must be a name such as 'svdd', (name, detector) or (name, detector, "
            f"columns), with a string as name; got {entry!r}."
        )
    name, detector, *columns = entry
    if prefit:
        detector = frozen(detector)
    seen = column_positions(columns[0], X, name) if columns else None
    if len(empty):
        seen = np.setdiff1d(np.arange(X.shape[1]), empty) if seen is None else seen
        seen = seen[~np.isin(seen, empty)]
        if len(seen) == 0:
            raise ValueError(
                f"Detector {quote(name)} has nothing to learn from: its columns hold no value in "
                f"any of {X.shape[0]:,} rows. Leave it out, or give it other columns."
            )
    return Member(name, as_detector(detector), seen)


def seed_members(members: list[Member], random: np.random.RandomState) -> list[Member]:
    """Copy members and set their unset ``random_state``: the order of work does not matter.

    Kernel learners get the same seed: they can then share the features that approximate a kernel.
    """
    shared = draw_seed(random)
    return [
        member.with_estimator(
            _seed_estimator(member.estimator, shared if member.is_own else draw_seed(random))
        )
        for member in members
    ]


def seeded_copy(estimator: Any, random: np.random.RandomState) -> Any:
    """Return a copy of an estimator whose unset ``random_state``, also those of its parts, are set.

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
    >>> from lpfuse.ensemble.defaults import seeded_copy
    >>> forest = IsolationForest()
    >>> seeded_copy(forest, np.random.RandomState(0)).random_state is None, forest.random_state
    (False, None)
    """
    (member,) = seed_members([Member("copy", estimator)], random)
    return member.estimator


def _seed_estimator(estimator: Any, seed: int) -> Any:
    """Return a copy whose unset ``random_state`` are set."""
    copy = clone(estimator)
    unset = {
        key: seed
        for key, value in copy.get_params(deep=True).items()
        if value is None and (key == "random_state" or key.endswith("__random_state"))
    }
    return copy.set_params(**unset) if unset else copy


class Choice(NamedTuple):
    """A scaler and a fusion, to be copied and fitted, and what a search has to tell of them."""

    scaler: Any
    fusion: Any
    search: Any = None


@dataclass(frozen=True)
class Strategy:
    """Every choice that a fit makes: members, which of them to keep, scale, prior and fusion.

    Attributes
    ----------
    detectors, scaler, prior : object
        The parameters of these names of a `FusedDetector`.
    fusion : estimator or None
        The fusion that was asked for, by itself or by its p; None: the default one.
    prefit : bool
        Whether the detectors are fitted already.
    artificial_anomalies : bool
        Whether the weights are learnt from artificial anomalies where none is labelled.
    reserved : collection of str
        Names that no detector may have.
    contamination : float or None
        The parameter of this name.
    """

    detectors: Any = None
    scaler: Any = None
    fusion: Any = None
    prior: Any = "tables"
    prefit: bool = False
    artificial_anomalies: bool = False
    reserved: Collection[str] = ()
    contamination: float | None = None

    # Whether scale and fusion are chosen anew without each part. Here the choice is how far weights
    # may leave the prior, one of four steps, and one row in thousands does not move it.
    chooses_in_parts: ClassVar[bool] = False

    def suspected_share(self, labels: Host) -> float:
        """Return the assumed share of anomalies among the rows that are no known ones.

        Of unlabelled rows `contamination` or, where it is not given, `SUSPECTED`; of rows labelled
        normal, none.
        """
        share = SUSPECTED if self.contamination is None else self.contamination
        return float(share * np.mean(labels[labels >= 0] == 0)) if (labels >= 0).any() else 0.0

    def needs_artificial_anomalies(self, training: Training) -> bool:
        """Tell whether artificial anomalies take the place of labelled ones."""
        return self.artificial_anomalies and not (training.labels < 0).any()

    def choose_members(self, training: Training) -> list[Member]:
        """Return the members to fit, without experts that there are no labels for."""
        can_learn = training.experts_can_learn
        n_rows = int((training.labels >= 0).sum())
        entries = self.detectors
        entries = paper_detectors() if isinstance(entries, str) else with_named(entries, n_rows)
        if entries is None:
            n_anomalies = int((training.labels < 0).sum())
            usable = n_anomalies if can_learn and training.folds is not None else 0
            # A row that recurs is usual, but robust detectors would take it for a hidden group.
            # Robust detectors see a slow change as the usual state: docs/adr/0050.
            suspects = self.suspected_share(training.labels) > 0 and training.gap is None
            suspects = suspects and not rows_recur(training.X)
            entries = default_detectors(n_rows, usable, suspects=suspects)
        members = make_members(entries, training.X, prefit=self.prefit, reserved=self.reserved)
        experts = [repr(member.name) for member in members if member.learns_from_anomalies]
        if not experts:
            return members
        if training.folds is None:
            raise ValueError(
                f"{', '.join(experts)} learn from anomalies, so their scores of the rows that they "
                "learnt from tell nothing. Use folds: cv=5."
            )
        if can_learn:
            return members
        few = (
            "they learn from anomalies, and whichever fold is hidden, both normal rows and "
            "anomalies must remain: label at least 2 of each, of 2 groups or kinds where these are "
            "kept apart"
        )
        if len(experts) == len(members):
            raise ValueError(
                f"{', '.join(experts)} cannot be fitted: {few}. Or add detectors that learn from "
                "normal rows."
            )
        warn_user(f"{', '.join(experts)} are left out: {few}.")
        return [member for member in members if not member.learns_from_anomalies]

    def keep_members(self, members: Sequence[Member], scores: Host, training: Training) -> Index:
        """Return positions of the one-class members to keep, given their out-of-fold scores."""
        return np.arange(len(members))

    def choose_fusion(self, scores: OutOfFoldScores, pool: Pool) -> Choice:
        """Return the scaler and the fusion to fit to the scores."""
        known = scores.labels if scores.known is None else scores.known
        prior = self.prior_weights(pool.names, known)
        scaler = self._scaler(int((known < 0).sum()), has_prior=prior is not None)
        if self.fusion is not None:
            return Choice(scaler, _seed_estimator(self.fusion, scores.seed))
        if prior is None:
            return Choice(scaler, default_fusion())
        return Choice(scaler, prior_fusion(prior, scores, scaler))

    def expert_scaler(self) -> Any:
        """Return the scaler of the fused score that experts see."""
        return self._scaler(0)

    def _scaler(self, n_anomalies: int, *, has_prior: bool = True) -> Any:
        """Return the scaler; `has_prior` is False of a saved pool that nothing was learnt of."""
        if self.scaler is not None:
            return self.scaler
        # What the prior weights of the default pool were learnt on; a string `prior` is "tables".
        is_default = self.detectors is None and self.fusion is None and isinstance(self.prior, str)
        tail = is_default and has_prior and scale_for(n_anomalies) == "tail"
        return TailScaler() if tail else TwoSidedMinMax()

    def prior_weights(self, names: Sequence[str], labels: Host) -> dict[str, float] | None:
        """Return the prior weights by name, which sum to 1, for some labels; None: all alike."""
        names = list(dict.fromkeys(names))
        if self.prior is None:
            return None
        if isinstance(self.prior, str):
            if self.detectors is not None:
                return None
            return prior_of_tables(names, int((labels < 0).sum()), self.suspected_share(labels))
        # In the order of `detectors`, which is not that of the weights, and with those left out.
        listed = self.detectors is not None and not isinstance(self.detectors, str)
        given = [_name_of(entry) for entry in self.detectors] if listed else names
        weights = check_prior(self.prior, len(given), given, nonnegative=True)
        found = {name: float(weights[given.index(name)]) for name in names}
        total = sum(found.values())
        if not total:
            raise ValueError(
                f"prior is zero for all detectors that there are, {', '.join(map(repr, names))}. "
                "Give one of them a weight, or use prior=None."
            )
        return {name: weight / total for name, weight in found.items()}


def with_names(detectors: Any) -> Any:
    """Give listed detectors without a name that of their class, as `make_pipeline` does.

    Examples
    --------
    >>> with_names(["knn", GMMDetector(), GMMDetector()])
    ['knn', ('gmmdetector-1', GMMDetector()), ('gmmdetector-2', GMMDetector())]
    """
    if not isinstance(detectors, list | tuple):
        return detectors
    bare = [each for each in detectors if hasattr(each, "fit")]
    named = iter(_name_estimators(bare))
    return [next(named) if hasattr(each, "fit") else each for each in detectors]


def take_frames(detectors: Any) -> bool:
    """Tell whether listed detectors select or encode columns of a data frame themselves."""
    for entry in detectors if isinstance(detectors, list | tuple) else ():
        if not isinstance(entry, tuple | list) or len(entry) < 2:
            continue
        if len(entry) > 2 and callable(entry[2]):
            return True
        first = entry[1]
        while isinstance(first, Pipeline):
            first = first.steps[0][1]
        if "ColumnTransformer" in map(sklearn_name, type(first).__mro__):
            return True
        if isinstance(first, BaseEstimator):
            accepted = get_tags(first).input_tags
            if accepted.categorical or accepted.string:
                return True
    return False


def _name_of(entry: Any) -> Any:
    return entry if isinstance(entry, str) else entry[0]


def asked_fusion(fusion: Any, p: Any) -> Any:
    """Return the fusion that a user asked for, by itself or by its p; None: the default one."""
    norm = params.check_norm(p)
    if norm == params.AUTO:
        return fusion
    if fusion is None:
        return default_fusion().set_params(p=norm)
    own = getattr(fusion, "p", None)
    if own is None or own != norm:
        has = "has no p" if own is None else f"has p={own!r}"
        raise ValueError(
            f"p={p!r} contradicts fusion={fusion!r}, which {has}. Pass one of them: p alone is "
            "that of the default fusion."
        )
    return fusion


# ---------------------------------------------------------------------------------------- the prior


# Assumed share of anomalies among unlabelled rows, where `contamination` does not tell it: a larger
# one costs more than 0.6 points of AUC on clean rows (docs/adr/0049).
SUSPECTED = 0.025

FILE = "prior.json"  # written by `python -m research.studies.tables prior`
# Radii to choose from, in multiples of ‖w₀‖₂: half as far from the prior as zero is, as far, twice.
RADII = (0.5, 1.0, 2.0)
# Standard errors by which held-out anomalies must gain before the weights leave the prior, or
# leave it further: docs/adr/0018.
CERTAIN = 1.0
# Labelled anomalies below which weights are the prior's, for so few are no evidence, and scores
# are on the scale that hears the loudest detector: from there on experts know more than a loud
# voice, and the two-sided scale does better (docs/adr/0019).
FEW = 5


@cache
def learnt_prior() -> dict[str, Any]:
    """Read the weights that were learnt from tables: the file that ships with the package.

    Examples
    --------
    >>> sorted(learnt_prior())
    ['made_by', 'provenance', 'suspected', 'version', 'weights']
    """
    text = files("lpfuse.ensemble").joinpath(FILE).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def scale_for(n_anomalies: int) -> str:
    """Return the scale of the scores: "tail" or "two-sided", as `lpfuse.scaling` has them."""
    return "tail" if n_anomalies < FEW else "two-sided"


def prior_of_tables(
    names: Sequence[str], n_anomalies: int, suspected: float = 0.0
) -> dict[str, float] | None:
    """Return prior weights of the default pool by name, with sum 1; None of any other pool.

    They were learnt for some numbers of labelled anomalies, on the scale that is used with these:
    between two numbers they are linear, from `FEW` on in the logarithm, beyond the last one
    constant.

    Parameters
    ----------
    names : sequence of str
        The detectors that there are; weights of others are left out. A model that was saved when
        the default pool was another one has names that nothing was learnt of.
    n_anomalies : int
        Labelled anomalies.
    suspected : float, default=0.0
        Assumed share of hidden anomalies. The more there are, the larger a part of the weights of
        one-class detectors goes to those that join the pool for them.

    Examples
    --------
    >>> weights = prior_of_tables(["gp", "knn", "trees"], 10)
    >>> round(sum(weights.values()), 9)
    1.0
    """
    rows, parts = learnt_prior()["weights"], learnt_prior()["suspected"]
    robust = [name for name in ROBUST if name in names]
    if not {*names} - {*robust} <= {name for row in rows for name in row["weights"]}:
        return None
    scale = scale_for(n_anomalies)
    rows = [row for row in rows if row["scale"] == scale]
    measure = np.asarray if scale == "tail" else np.log1p
    counts = measure([row["labels"] for row in rows])
    found = {
        name: np.interp(
            measure(n_anomalies), counts, [row["weights"].get(name, 0.0) for row in rows]
        )
        for name in names
    }
    if robust:
        shares = [0.0, *(row["share"] for row in parts)]
        taken = {
            name: np.interp(suspected, shares, [0.0, *(row["weights"][name] for row in parts)])
            for name in robust
        }
        one_class = [name for name in names if name in learnt_prior()["weights"][0]["weights"]]
        mass = sum(found[name] for name in one_class) or 1.0
        left = 1.0 - sum(taken.values())
        found |= {name: left * found[name] for name in one_class}
        found |= {name: mass * part for name, part in taken.items()}
    total = sum(found.values())
    return {name: float(weight / total) for name, weight in found.items()}


def prior_fusion(prior: Mapping[str, float], scores: OutOfFoldScores, scaler: Any) -> LpFusion:
    """Return the fusion around prior weights, with the radius that held-out rows support.

    Parameters
    ----------
    prior : mapping
        Weights w₀ by detector, in the order of the columns of scores.
    scores : OutOfFoldScores
        What the weights are to be learnt from.
    scaler : transformer
        Puts scores on one scale; not changed.

    Returns
    -------
    LpFusion
        To be fitted: ``‖w − w₀‖₂ ≤ r``, w ≥ 0, with an intercept and balanced classes.
    """
    centre = np.fromiter(prior.values(), dtype=np.float64)
    fusion = LpFusion(
        p=2.0,
        class_weight="balanced",
        fit_intercept=True,
        nonnegative=True,
        prior=centre,
        radius=0.0,
    )
    if (scores.labels[scores.usable] < 0).sum() < FEW:
        return fusion
    radii = [float(r * np.linalg.norm(centre)) for r in RADII]
    return fusion.set_params(radius=_radius(fusion, scores, scaler, radii))


def _radius(fusion: LpFusion, scores: OutOfFoldScores, scaler: Any, radii: list[float]) -> float:
    """Find the radius at which held-out anomalies lie lowest among held-out normal rows.

    For each labelled anomaly the share of the normal rows of its fold that score higher, by weights
    learnt without that fold; the mean over anomalies is the AUC within folds. A radius takes the
    place of a smaller one if the anomalies gain, on average, `CERTAIN` standard errors.
    """
    chosen, best = 0.0, _placements(fusion, scores, scaler)
    for radius in radii:
        found = _placements(clone(fusion).set_params(radius=radius), scores, scaler)
        gain = found - best
        error = float(np.std(gain, ddof=1)) / np.sqrt(gain.size) if gain.size > 1 else np.inf
        if gain.size and float(gain.mean()) > CERTAIN * error:
            chosen, best = radius, found
    return chosen


def _placements(fusion: LpFusion, scores: OutOfFoldScores, scaler: Any) -> Host:
    """Return, for each anomaly, the share of normal rows of its fold above it; ties count half."""
    S, y, fold, usable = scores.scores, scores.labels, scores.fold, scores.usable
    found = []
    for number in np.unique(fold[usable & (y < 0)]):
        inside, rest = usable & (fold == number), usable & (fold != number)
        if not ((y[inside] > 0).any() and (y[rest] > 0).any() and (y[rest] < 0).any()):
            continue
        with warnings.catch_warnings():  # what there is to say is said of the final weights
            warnings.simplefilter("ignore")
            if fusion.radius == 0:  # the weights are the prior's, and the intercept moves no rank
                scale = clone(scaler).fit(S[rest & (y > 0)])
                fused = scale_scores(scale, S[inside]) @ fusion.prior
            else:
                weights = scores.weights_of(rest)
                combination = Combination.learn(scaler, fusion, S[rest], y[rest], weights=weights)
                fused = combination.score_samples(S[inside])
        normal, anomalous = np.sort(fused[y[inside] > 0]), fused[y[inside] < 0]
        below = [np.searchsorted(normal, anomalous, side) for side in ("left", "right")]
        found.append(1.0 - (below[0] + below[1]) / (2.0 * normal.size))
    return np.concatenate(found) if found else np.empty(0)
