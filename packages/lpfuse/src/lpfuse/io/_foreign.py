"""Estimators of other makers, by skops: types are trusted by the user, by name, or not at all.

Nothing of this is used unless the user names a type: then code of that type runs, and skops makes
whatever of scikit-learn it holds without the checks of `_soundness`.
"""

from __future__ import annotations

import sys
from typing import Any

from lpfuse._saved import register_all, saved_classes
from lpfuse.io._archive import Refused

# Compiled parts of scikit-learn that detectors of PyOD hold; skops leaves them to the user.
PARTS = frozenset((
    "numpy.dtype", "sklearn.neighbors._ball_tree.BallTree", "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.tree._tree.Tree", "sklearn.metrics._dist_metrics.ChebyshevDistance64",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.metrics._dist_metrics.ManhattanDistance64",
    "sklearn.metrics._dist_metrics.MinkowskiDistance64",
))  # fmt: skip


# What skops asks about in detectors of lpfuse beside classes that have a name in files: caches of
# neighbour searches, boosted trees, and the interface of PyOD.
BESIDE = frozenset((
    "lpfuse.detectors._flat_trees.FlatTrees", "lpfuse.detectors._nearest.Stack",
    "lpfuse.detectors._nearest.SubsetSearch",
    "lpfuse.pyod.PyODFused", "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
))  # fmt: skip


def skops_trusted_types() -> list[str]:
    """Types of lpfuse, and compiled parts of scikit-learn in them, for ``skops.io.load(trusted=)``.

    For programs that save with skops by themselves, such as MLflow
    (``mlflow.sklearn.log_model(..., skops_trusted_types=...)``). With `lpfuse.load` it is not
    needed.

    Returns
    -------
    list of str
        Full names of classes, sorted: those that `lpfuse.save` writes, and what they hold. None of
        them runs what a file says, but skops does not check what it fills them with: load files
        of people you trust, or use `lpfuse.load`, which checks.

    Examples
    --------
    >>> from lpfuse.io import skops_trusted_types
    >>> "lpfuse.ensemble._fused.FusedDetector" in skops_trusted_types()
    True
    """
    register_all()
    ours = {_name(cls) for cls in saved_classes().values() if cls.__module__.startswith("lpfuse.")}
    return sorted(ours | PARTS | BESIDE)


def dumps(thing: Any, path: str) -> tuple[bytes, list[str]]:
    """An estimator as a skops member, and the types that a user has to trust.

    `path` says where it is, should it have to be refused.
    """
    if not _is_estimator(thing):
        raise TypeError(_refusal(path, _told(thing)))
    io = _skops()
    try:
        content = bytes(io.dumps(thing))
    except Exception as error:
        raise TypeError(_refusal(path, f"{_told(thing)} ({error})")) from error
    # One of scikit-learn's that is not on our list has no type that skops would ask about.
    untrusted = {*io.get_untrusted_types(data=content)} - PARTS or {_name(type(thing))}
    hidden = [name for name in sorted(untrusted) if not _can_be_found(name)]
    if hidden:
        raise TypeError(_refusal(path, f"{_told(thing)} with {', '.join(hidden)}"))
    return content, sorted(untrusted)


def check_trust(needed: list[Any], trusted: list[str]) -> None:
    """Refuse types that the user has not named, before anything of them is looked at."""
    told = sorted({str(name) for name in needed} - set(trusted))
    if told or not needed:
        raise Refused(
            f"It holds types that are not trusted: {', '.join(told)[:1000]}. If you know that the "
            f"file comes from where it should, pass trusted={told!r:.1000}; code of theirs will "
            "run."
        )


def loads(content: bytes, trusted: list[str]) -> Any:
    """The estimator of a skops member, unless there is a type in it that is not trusted."""
    io = _skops()
    found = {*io.get_untrusted_types(data=content)} - PARTS
    if found:
        check_trust(sorted(found), trusted)
    made = io.loads(content, trusted=sorted({*trusted, *PARTS}))
    if not found:
        check_trust([_name(type(made))], trusted)
    return made


def _skops() -> Any:
    try:
        import skops.io.exceptions
    except ImportError as error:
        raise ImportError(
            'Estimators of other makers are saved with skops: pip install "lpfuse[persist]"'
        ) from error
    return skops.io


def _is_estimator(thing: Any) -> bool:
    """Whether it is an object with parameters whose class another program can import."""
    if isinstance(thing, type):
        return False
    name = _name(type(thing))
    return _can_be_found(name) and (name.startswith("sklearn.") or hasattr(thing, "get_params"))


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _can_be_found(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    return module != "__main__" and hasattr(sys.modules.get(module), attribute)


def _told(thing: Any) -> str:
    if isinstance(thing, type):
        return f"the class {thing.__qualname__}"
    kind = "a function" if hasattr(thing, "__code__") else f"of type {type(thing).__qualname__}"
    return f"{kind} of {getattr(thing, '__module__', None) or type(thing).__module__}"


def _refusal(path: str, told: str) -> str:
    return (
        f"{path or 'This'} is {told}, and cannot be saved: a file holds data, and names of "
        "estimators that other programs can import. Turn it into a class derived from "
        "sklearn.base.BaseEstimator in a module of its own, or leave it out."
    )
