"""Parameters of a `FusedDetector`: checked, and what is taken where users say nothing."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from lpfuse._arrays.operations import Host
from lpfuse._format import quote
from lpfuse._validation.params import (
    AUTO,
    check_choice,
    check_confidence,
    check_count,
    check_false_alarm_rate,
    check_labels,
    check_norm,
    check_share,
    is_count,
)
from lpfuse.adapters import as_detector, frozen
from lpfuse.ensemble._calibration import OutOfFoldScores
from lpfuse.ensemble._default_pool import default_detectors, default_fusion, paper_detectors
from lpfuse.ensemble._members import Member
from lpfuse.ensemble._named import with_named
from lpfuse.ensemble._prior import prior_fusion, prior_of_tables, scale_for
from lpfuse.ensemble._tables import (
    Index,
    Table,
    column_positions,
    empty_columns,
    warn_of_empty_columns,
)
from lpfuse.ensemble._training import Training, draw_seed
from lpfuse.fusion.lp import check_prior
from lpfuse.scaling import TailScaler, TwoSidedMinMax
from lpfuse.threshold import THRESHOLD_RULES


def choose_members(
    detectors: Any, training: Training, *, prefit: bool, reserved: Collection[str]
) -> list[Member]:
    """The members of a `FusedDetector`, without experts that there are no labels for.

    Parameters
    ----------
    detectors : None, "paper" or list
        The parameter of that name.
    training : Training
        Rows, labels and folds.
    prefit, reserved
        As in `make_members`.
    """
    can_learn = training.experts_can_learn
    n_rows = int((training.labels >= 0).sum())
    entries = paper_detectors() if isinstance(detectors, str) else with_named(detectors, n_rows)
    if entries is None:
        n_anomalies = int((training.labels < 0).sum())
        usable = n_anomalies if can_learn and training.folds is not None else 0
        entries = default_detectors(n_rows, usable)
    members = make_members(entries, training.X, prefit=prefit, reserved=reserved)
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
    warnings.warn(f"{', '.join(experts)} are left out: {few}.", UserWarning, stacklevel=4)
    return [member for member in members if not member.learns_from_anomalies]


def make_members(
    entries: Any, X: Table, *, prefit: bool = False, reserved: Collection[str] = ()
) -> list[Member]:
    """What a user gave as `detectors`, checked and adapted.

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
    """Copies whose unset ``random_state`` are set, so that the order of work does not matter.

    Kernel learners get the same seed: they can then share the features that approximate a kernel.
    """
    shared = draw_seed(random)
    return [
        member.with_estimator(
            _seed_estimator(member.estimator, shared if member.is_own else draw_seed(random))
        )
        for member in members
    ]


def _seed_estimator(estimator: Any, seed: int) -> Any:
    """A copy whose unset ``random_state`` are set."""
    copy = clone(estimator)
    unset = {
        key: seed
        for key, value in copy.get_params(deep=True).items()
        if value is None and (key == "random_state" or key.endswith("__random_state"))
    }
    return copy.set_params(**unset) if unset else copy


def choose_scaler(fused: Any, n_anomalies: int = 0, *, has_prior: bool = True) -> Any:
    """The scaler of a `FusedDetector`, to be copied and fitted.

    `n_anomalies` are labelled. `has_prior` is False of a pool that was saved when nothing had been
    learnt of its detectors.
    """
    if fused.scaler is not None:
        return fused.scaler
    # What the prior weights of the default pool were learnt on; a string `prior` is "tables".
    fusion = asked_fusion(fused)
    is_default = fused.detectors is None and fusion is None and isinstance(fused.prior, str)
    tail = is_default and has_prior and scale_for(n_anomalies) == "tail"
    return TailScaler() if tail else TwoSidedMinMax()


def choose_combination(
    fused: Any, scores: OutOfFoldScores, prior: Mapping[str, float] | None
) -> tuple[Any, Any]:
    """The scaler and the fusion of a `FusedDetector`, to be copied and fitted to the scores."""
    n_anomalies = int(((scores.labels if scores.known is None else scores.known) < 0).sum())
    scaler = choose_scaler(fused, n_anomalies, has_prior=prior is not None)
    fusion = asked_fusion(fused)
    if fusion is not None:
        return scaler, _seed_estimator(fusion, scores.seed)
    if prior is None:
        return scaler, default_fusion()
    return scaler, prior_fusion(prior, scores, scaler)


def asked_fusion(fused: Any) -> Any:
    """The fusion that a user asked for, by itself or by its p; None: whatever is the default."""
    p = check_norm(fused.p)
    if p == AUTO:
        return fused.fusion
    if fused.fusion is None:
        return default_fusion().set_params(p=p)
    own = getattr(fused.fusion, "p", None)
    if own is None or own != p:
        has = "has no p" if own is None else f"has p={own!r}"
        raise ValueError(
            f"p={fused.p!r} contradicts fusion={fused.fusion!r}, which {has}. Pass one of them: "
            "p alone is that of the default fusion."
        )
    return fused.fusion


def _name_of(entry: Any) -> Any:
    return entry if isinstance(entry, str) else entry[0]


def choose_prior(fused: Any, names: Sequence[str], n_anomalies: int) -> dict[str, float] | None:
    """The prior weights of a `FusedDetector` by name, which sum to 1; None: all alike."""
    names = list(dict.fromkeys(names))
    if fused.prior is None:
        return None
    if isinstance(fused.prior, str):
        return prior_of_tables(names, n_anomalies) if fused.detectors is None else None
    # In the order of `detectors`, which is not that of the weights, and with those left out.
    listed = fused.detectors is not None and not isinstance(fused.detectors, str)
    given = [_name_of(entry) for entry in fused.detectors] if listed else names
    weights = check_prior(fused.prior, len(given), given, nonnegative=True)
    found = {name: float(weights[given.index(name)]) for name in names}
    total = sum(found.values())
    if not total:
        raise ValueError(
            f"prior is zero for all detectors that there are, {', '.join(map(repr, names))}. Give "
            "one of them a weight, or use prior=None."
        )
    return {name: weight / total for name, weight in found.items()}


def check_parameters(fused: Any) -> None:
    """Refuse parameters of a `FusedDetector` that cannot be, or not together."""
    asked_fusion(fused)
    check_choice("threshold", fused.threshold, tuple(THRESHOLD_RULES))
    check_choice("calibration", fused.calibration, ("auto", "cross", "plain", "split"))
    check_choice("on_missing", fused.on_missing, ("warn", "raise"))
    check_count("subsample", fused.subsample)
    check_false_alarm_rate(fused.false_alarm_rate)
    if fused.contamination is not None:
        check_share("contamination", fused.contamination, of="rows like the training rows")
    if fused.confidence is not None:
        check_confidence(fused.confidence)
        if fused.contamination is not None or fused.threshold != "false-alarms":
            raise ValueError(
                "confidence is that of a false-alarm rate: it goes with threshold="
                f'"false-alarms" and without contamination, got threshold={fused.threshold!r} and '
                f"contamination={fused.contamination!r}."
            )
    if isinstance(fused.cv, str):
        check_choice("cv", fused.cv, ("in-sample", "prefit"))
    if isinstance(fused.detectors, str):
        check_choice("detectors", fused.detectors, ("paper",))
    if isinstance(fused.prior, str):
        check_choice("prior", fused.prior, ("tables",))
    if fused.experts_see_scores not in (True, False, "fused"):
        raise ValueError(
            f'experts_see_scores must be True, False or "fused", got {fused.experts_see_scores!r}.'
        )
    if fused.cv == "prefit" and (fused.detectors is None or isinstance(fused.detectors, str)):
        raise ValueError(
            'cv="prefit" needs a list of fitted detectors, got '
            f"detectors={fused.detectors!r}, which have yet to be fitted."
        )
    is_listed = not isinstance(fused.cv, str) and not hasattr(fused.cv, "split")
    if fused.calibration == "split" and is_listed and not is_count(fused.cv):
        raise ValueError(
            'calibration="split" keeps rows back before there are folds, so a list of splits '
            "cannot be followed. Pass a number of folds or a splitter."
        )


def check_fit_labels(
    y: Any, n: int, threshold: str, contamination: float | None, unlabelled: int | None = None
) -> Host:
    """Labels of n rows, 0 where there are none; with anomalies where a rule needs some."""
    labels = check_labels(y, n, unlabelled=True, zero=unlabelled)
    labels = np.zeros(n) if labels is None else labels  # nobody looked
    needs_anomalies = contamination is None and THRESHOLD_RULES[threshold].needs_anomalies
    if needs_anomalies and not (labels < 0).any():
        raise ValueError(
            f'threshold="{threshold}" needs labelled anomalies, and y has none. Use threshold='
            '"false-alarms", which needs normal rows only.'
        )
    return labels
