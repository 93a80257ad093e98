"""MLflow's automatic logging of a fit that fits other estimators: one run, one model.

MLflow replaces the ``fit`` of every class of scikit-learn. A fused detector fits many of these, and
each would become a run of its own, with its parameters and a pickle.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

LOGGER = logging.getLogger(__name__)
EXAMPLE_ROWS = 5


def fits_are_logged() -> bool:
    """Whether MLflow, which is loaded, logs fits of any library."""
    logs = sys.modules["mlflow.utils.autologging_utils"]
    return not all(map(logs.autologging_is_disabled, logs.AUTOLOGGING_INTEGRATIONS))


def fit_logged_once(fit: Callable[[], Any], estimator: Any, X: Any) -> Any:
    """Fit the estimator and log one run; MLflow's logging of all libraries is suspended meanwhile.

    Parameters
    ----------
    fit : callable
        Fits the estimator.
    estimator : estimator
        What is logged.
    X : array-like or data frame
        Its rows.
    """
    logs = sys.modules["mlflow.utils.autologging_utils"]
    if logs._AUTOLOGGING_GLOBALLY_DISABLED:  # the fit around it is logged
        return fit()
    with logs.disable_autologging():
        fitted = fit()
        if _is_wanted(logs):
            try:
                _log_run(logs, estimator, X)
            except Exception as error:  # as in MLflow, what cannot be logged stops no fit
                LOGGER.warning("MLflow did not log the fit: %s", error)
    return fitted


def _is_wanted(logs: Any) -> bool:
    """Whether fits of scikit-learn are logged, and none around this one is."""
    inside = logs.safety._AutologgingSessionManager.active_session() is not None
    exclusive = logs.get_autologging_config("sklearn", "exclusive", False)
    has_run = sys.modules["mlflow"].active_run() is not None
    return not (inside or logs.autologging_is_disabled("sklearn") or (exclusive and has_run))


def _log_run(logs: Any, estimator: Any, X: Any) -> None:
    """Log parameters and model to the active run, or else to a run of their own."""
    mlflow, cls = sys.modules["mlflow"], type(estimator)
    own = None if mlflow.active_run() else mlflow.start_run()
    try:
        name = f"{cls.__module__}.{cls.__qualname__}"
        mlflow.set_tags({"estimator_name": cls.__name__, "estimator_class": name})
        mlflow.log_params(estimator.get_params())
        if logs.get_autologging_config("sklearn", "log_models", True):
            mlflow.sklearn.log_model(
                estimator,
                name="model",
                signature=_signature(mlflow, estimator, X),
                serialization_format="skops",
                skops_trusted_types=import_module("lpfuse.io").skops_trusted_types(),
                # Stated, as MLflow would import the model in a new process to find them.
                pip_requirements=[f"lpfuse[persist]=={version('lpfuse')}"],
            )
    finally:
        if own is not None:
            mlflow.end_run()


def _signature(mlflow: Any, estimator: Any, X: Any) -> Any:
    """Return the columns of the input and the type of the output, of rows that MLflow knows."""
    if not (isinstance(X, np.ndarray) or hasattr(X, "iloc")):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these are training rows
        return mlflow.models.infer_signature(X[:EXAMPLE_ROWS], estimator.predict(X[:EXAMPLE_ROWS]))
