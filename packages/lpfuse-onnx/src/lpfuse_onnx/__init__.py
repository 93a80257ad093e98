"""Export fitted estimators to ONNX, to run the whole fused detector with onnxruntime.

A converter is a function from an estimator and the tensor of its rows to the tensor of its scores.
Converters of single estimators are in `converters`, in tables by class.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from lpfuse.adapters import ClassifierExpert, ScoreColumn, ScoreFunction
from lpfuse.ensemble import FusedDetector
from lpfuse.ensemble.pool import MeanOfFits
from lpfuse.fusion.fixed import FixedRule
from lpfuse.fusion.lp import LpFusion
from lpfuse.fusion.stacking import BestSingle, LinearSVMStacker, LogisticStacker
from lpfuse_onnx import converters
from lpfuse_onnx.converters import register
from lpfuse_onnx.graph import OPSET, Converters, Graph, Tensor, hstack

__all__ = ["register_converters", "to_onnx"]

Outputs = dict[str, tuple[Tensor, Any, list[Any]]]


def to_onnx(estimator: Any, path: str | PathLike[str] | None = None, *, dtype: Any = float) -> Any:
    """Convert a fitted estimator to an ONNX model.

    Parameters
    ----------
    estimator : estimator
        Of lpfuse, fitted on rows of numbers: `FusedDetector`, a learner, weights, a scaler, or a
        pipeline that ends with one. Its parts may be those of scikit-learn that have a converter.
    path : str or path, optional
        Where to write the model.
    dtype : {float, np.float32}, default=float
        Type of the model's input. What it computes with is double precision either way.

    Returns
    -------
    onnx.ModelProto
        With the input ``X`` of shape (n, d) and the outputs

        ============= ============ ==================================================
        scores        (n,)         ``score_samples``
        decision      (n,)         ``decision_function``
        label         (n,) int64   ``predict``: +1 normal, −1 anomaly
        contributions (n, R)       ``contributions``, where scores are sums of parts
        transformed   (n, R)       instead of all these, for a scaler of lpfuse
        ============= ============ ==================================================

    Notes
    -----
    Supported are

    - of lpfuse `FusedDetector`, `FusedDetectorCV`, `SVDD`, `OneClassGP`, `KernelPCADetector`,
      `GMMDetector` (all scores and approximations, all named kernels except chi-squared),
      `KNNDetector`, `HistogramDetector`, `ColumnForest`, `NormalQuantiles` before a detector,
      `TwoSidedMinMax`, `TailScaler`, `LpFusion`, `FixedRule`, `ScoreColumn`, and `ScoreFunction`
      around one of this list;
    - the detectors `IsolationForest`, `LocalOutlierFactor`, `OneClassSVM`, `SGDOneClassSVM`,
      `EllipticEnvelope` and `GaussianMixture`;
    - as experts forests, `ExtraTrees`, single trees, `GradientBoosting`, `HistGradientBoosting`
      (numeric columns), `LogisticRegression`, `LinearSVC`, `RidgeClassifier`, `SGDClassifier`,
      `LinearDiscriminantAnalysis`, `SVC`, `KNeighborsClassifier` (uniform weights), `GaussianNB`
      and `MLPClassifier`;
    - before them `Pipeline`, `ColumnTransformer`, `SimpleImputer`, `StandardScaler`,
      `RobustScaler`, `MinMaxScaler`, `MaxAbsScaler`, `QuantileTransformer` and `PCA`.

    The handling of failing detectors is not exported: a row with a missing value gets NaN and the
    label −1. It is scored as in Python if every detector is preceded by a ``SimpleImputer``, in a
    pipeline or a ``ColumnTransformer``, unless all its values are missing for one.

    Scores agree with those of Python to 1e-5 of their spread. With ``dtype=np.float32`` that holds
    for rows that were rounded to single precision before.

    Examples
    --------
    >>> import numpy as np
    >>> from lpfuse import SVDD
    >>> from lpfuse_onnx import to_onnx
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> model = to_onnx(SVDD().fit(X))  # doctest: +SKIP
    >>> session = onnxruntime.InferenceSession(model.SerializeToString())  # doctest: +SKIP
    >>> scores, decision, label = session.run(None, {"X": X})  # doctest: +SKIP
    """
    check_is_fitted(estimator)
    if np.dtype(dtype) not in (np.float64, np.float32):
        raise ValueError(f"dtype must be float or np.float32, got {dtype!r}.")
    model = _model(estimator, dtype)
    if path is not None:
        Path(path).write_bytes(model.SerializeToString())
    return model


def register_converters() -> None:
    """Register the estimators of lpfuse with skl2onnx, alone and in scikit-learn pipelines.

    ``skl2onnx.to_onnx`` then converts them. A detector has the outputs of an ``IsolationForest``:
    ``label`` (n, 1), +1 or −1, and ``scores`` (n, 1), its ``decision_function``. Scalers and
    views give ``variable``.

    Notes
    -----
    skl2onnx computes preceding steps in the type of its input: use ``np.float64`` for precision. A
    whole scorer, `to_onnx` of this module, computes in double precision throughout, and gives
    contributions as well.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from lpfuse import SVDD
    >>> from lpfuse_onnx import register_converters
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> pipeline = make_pipeline(StandardScaler(), SVDD()).fit(X)
    >>> register_converters()  # doctest: +SKIP
    >>> model = skl2onnx.to_onnx(pipeline, X)  # doctest: +SKIP
    """
    detectors = (*converters.LEARNER_DETECTORS, *converters.COLUMN_DETECTORS, *SUMS)
    fused = (FusedDetector, *FusedDetector.__subclasses__())
    register(
        (*detectors, *fused),
        (*converters.LEARNER_TRANSFORMERS, *converters.COLUMN_TRANSFORMERS),
        _model,
    )


def _model(estimator: Any, dtype: Any, opset: int = OPSET) -> Any:
    graph = Graph(_columns(estimator), dtype, opset)
    return graph.model(_outputs(estimator, graph.X))


def _outputs(estimator: Any, X: Tensor) -> Outputs:
    missing = X.apply("IsNaN").cast(np.float64).sum(keepdims=True).apply("Greater", 0.0)
    filled = _imputes(estimator)

    def known(tensor: Tensor) -> Tensor:
        return tensor if filled else missing.apply("Where", np.nan, tensor)

    if type(estimator) in (*converters.LEARNER_TRANSFORMERS, *converters.COLUMN_TRANSFORMERS):
        shape = [None, int(estimator.n_features_in_)]
        return {"transformed": (known(transform(estimator, X)), float, shape)}
    parts = contributions(estimator, X)
    whole = scores(estimator, X) if parts is None else parts.sum()
    total = known(whole.as_column()).sum()
    decision = total - _last(estimator).offset_
    label = decision.apply("GreaterOrEqual", 0.0).apply("Where", np.array(1), np.array(-1))
    outputs: Outputs = {
        "scores": (total, float, [None]),
        "decision": (decision, float, [None]),
        "label": (label, np.int64, [None]),
    }
    if parts is not None:
        width = len(_last(estimator).weights_)
        outputs["contributions"] = (known(parts), float, [None, width])
    return outputs


def scores(estimator: Any, X: Tensor) -> Tensor:
    """Return what ``score_samples`` computes."""
    return _convert(estimator, X, SCORES)


def transform(estimator: Any, X: Tensor) -> Tensor:
    """Return what ``transform`` computes."""
    return _convert(estimator, X, TRANSFORMERS)


def contributions(estimator: Any, X: Tensor) -> Tensor | None:
    """Return what ``contributions`` computes; None where scores are not sums of parts."""
    additive = _kind(_last(estimator)) in CONTRIBUTIONS
    return _convert(estimator, X, CONTRIBUTIONS) if additive else None


def _convert(estimator: Any, X: Tensor, converters: Converters) -> Tensor:
    if type(estimator) is FrozenEstimator:
        return _convert(estimator.estimator, X, converters)
    if type(estimator) is Pipeline:
        for step in _steps(estimator)[:-1]:
            X = transform(step, X)
        return _convert(estimator[-1], X, converters)
    if _kind(estimator) not in converters:
        names = sorted(known.__name__ for known in converters)
        raise NotImplementedError(
            f"{type(estimator).__name__} has no converter to ONNX. These have one: "
            f"{', '.join(names)}."
        )
    return converters[_kind(estimator)](estimator, X)


def _kind(estimator: Any) -> type:
    """Return the class that a converter is registered for; subclasses may score differently."""
    return FusedDetector if isinstance(estimator, FusedDetector) else type(estimator)


def _steps(pipeline: Pipeline) -> list[Any]:
    return [step for _, step in pipeline.steps if step is not None and step != "passthrough"]


def _columns(estimator: Any) -> int:
    first = _steps(estimator)[0] if type(estimator) is Pipeline else estimator
    if isinstance(first, FusedDetector) and first.preparation_ is not None:
        return len(first.preparation_.features)  # the graph begins behind the preparation
    return int(first.n_features_in_)


def _last(estimator: Any) -> Any:
    """Return the final estimator of a pipeline."""
    if type(estimator) is FrozenEstimator:
        return _last(estimator.estimator)
    return _last(estimator[-1]) if type(estimator) is Pipeline else estimator


def _imputes(estimator: Any) -> bool:
    """Return whether a `SimpleImputer` precedes every step that needs complete rows."""
    if type(estimator) is Pipeline:
        for step in _steps(estimator):
            if type(step) not in converters.KEEP_MISSING_VALUES:
                return _imputes(step)
        return False
    parts: Any = ()
    if type(estimator) is ColumnTransformer:
        parts = [step for step, _ in _column_parts(estimator)]
    elif isinstance(estimator, FusedDetector):
        parts = [member.estimator for member in estimator.pool_.members]
    elif type(estimator) is MeanOfFits:
        parts = estimator.fits
    for inner in ("estimator", "classifier_", "scorer_"):  # frozen, or behind an adapter
        if type(estimator) in WRAPPERS and hasattr(estimator, inner):
            parts = [getattr(estimator, inner)]
    return type(estimator) is SimpleImputer or bool(parts and all(map(_imputes, parts)))


def _column_parts(transformer: ColumnTransformer) -> list[tuple[Any, list[int]]]:
    """Return transformers and positions of their columns, in the order of the output."""
    places = transformer._transformer_to_input_indices
    fitted = [
        (step, np.arange(transformer.n_features_in_)[places[name]].tolist())
        for name, step, _ in transformer.transformers_
        if step != "drop"
    ]
    return [(step, some) for step, some in fitted if some]


def _transformed_columns(transformer: ColumnTransformer, X: Tensor) -> Tensor:
    parts = []
    for step, places in _column_parts(transformer):
        some = X.take(places)
        parts.append(some if step == "passthrough" else transform(step, some))
    return hstack(parts)


def _expert(expert: ClassifierExpert, X: Tensor) -> Tensor:
    return _convert(expert.classifier_, X, converters.CLASSIFIERS)


def _mean(expert: MeanOfFits, X: Tensor) -> Tensor:
    fits = [scores(fit, X).as_column() for fit in expert.fits]
    return hstack(fits).sum() / len(fits)


def _method(adapter: ScoreFunction, X: Tensor) -> Tensor:
    scorer = getattr(adapter, "scorer_", adapter.scorer)
    found = scores(scorer, X)
    if adapter.method == "decision_function":
        found = found - _last(scorer).offset_
    elif adapter.method != "score_samples":
        raise NotImplementedError(f"The method {adapter.method!r} has no converter to ONNX.")
    return found if adapter.high == "normal" else -found


def _column(adapter: ScoreColumn, X: Tensor) -> Tensor:
    return X.sum() if adapter.high == "normal" else -X.sum()  # there is one column


def _weighted(fusion: Any, S: Tensor) -> Tensor:
    if not hasattr(fusion, "weights_"):
        raise NotImplementedError(f"{fusion!r} is no weighted sum, and has no converter to ONNX.")
    if getattr(fusion, "missing", "raise") != "raise":
        raise NotImplementedError(
            f"{fusion!r} fills gaps in scores, which has no converter to ONNX."
        )
    return S * fusion.weights_


def _sum(fusion: Any, S: Tensor) -> Tensor:
    return _weighted(fusion, S).sum()


def _fused_parts(detector: FusedDetector, X: Tensor) -> Tensor:
    pool = detector.pool_
    columns = [_member_scores(member, X) for member in pool.one_class]
    if pool.score_scaler is not None:
        seen = transform(pool.score_scaler, hstack(columns))
        if pool.score_weights is not None:
            seen = (seen * pool.score_weights).sum().as_column()
        X = hstack([X, seen])
    columns += [_member_scores(member, X) for member in pool.experts]
    scaled = transform(detector.scaler_, hstack(columns))
    return _convert(detector.fusion_, scaled, CONTRIBUTIONS)


def _member_scores(member: Any, X: Tensor) -> Tensor:
    seen = X if member.columns is None else X.take(member.columns)
    try:
        found = scores(member.estimator, seen).as_column()
    except NotImplementedError as error:
        raise NotImplementedError(f"Detector {member.name!r}: {error}") from error
    if not _imputes(member.estimator):
        return found
    # A row without any value for a detector has no score, even after imputation.
    there = 1.0 - seen.apply("IsNaN").cast(np.float64)
    return there.sum(keepdims=True).apply("Equal", 0.0).apply("Where", np.nan, found)


SUMS = (LpFusion, FixedRule, BestSingle, LinearSVMStacker, LogisticStacker)
CONTRIBUTIONS: Converters = {FusedDetector: _fused_parts, **dict.fromkeys(SUMS, _weighted)}
WRAPPERS = (FrozenEstimator, ClassifierExpert, ScoreFunction)
TRANSFORMERS: Converters = {
    **converters.LEARNER_TRANSFORMERS,
    **converters.COLUMN_TRANSFORMERS,
    **converters.SCIKIT_TRANSFORMERS,
    ColumnTransformer: _transformed_columns,
}
SCORES: Converters = {
    **converters.LEARNER_DETECTORS,
    **converters.COLUMN_DETECTORS,
    ClassifierExpert: _expert,
    MeanOfFits: _mean,
    ScoreFunction: _method,
    ScoreColumn: _column,
    **dict.fromkeys(SUMS, _sum),
    **converters.SCIKIT_DETECTORS,
}
