"""Fits under MLflow's automatic logging, in a process of its own: prints the runs of each as JSON.

``python autologged.py FOLDER``. MLflow changes the classes of scikit-learn for a whole process.
"""

import json
import sys
import warnings

import mlflow
import numpy as np
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from lpfuse import FusedDetector, GMMDetector, KNNDetector, OneClassEnsembleClassifier

X = np.random.default_rng(0).normal(size=(60, 2))
y = np.repeat([1, -1], [50, 10])


def detector(**settings):
    pool = [("svm", OneClassSVM()), ("wide", OneClassSVM(gamma=0.1))]
    return FusedDetector(pool, cv=2, random_state=0, **settings)


@mlflow.trace
def traced():
    return detector().fit(X).predict(X[:3])


def fused():
    fitted = detector().fit(X, y)
    (found,) = mlflow.search_logged_models(output_format="list")
    again = mlflow.sklearn.load_model(found.model_uri)
    assert np.array_equal(again.score_samples(X), fitted.score_samples(X))
    assert found.params["false_alarm_rate"] == "0.05"


def classes():
    OneClassEnsembleClassifier(detector()).fit(X, np.arange(60) % 2)


def in_a_run_of_the_user():
    with mlflow.start_run(run_name="mine"):
        detector().fit(X)


def fails():
    try:
        detector(false_alarm_rate=2).fit(X)
    except ValueError:
        FusedDetector(["gmm"], random_state=0).fit(X)  # still logged


RUN_ALONE = {"log_models": False}  # models are what takes long
CASES = {
    "off": (None, lambda: detector().fit(X)),
    "fused": ({}, fused),
    "threads": (RUN_ALONE, lambda: detector(n_jobs=2).fit(X)),
    "exclusive": ({"exclusive": True}, in_a_run_of_the_user),
    "run of the user": (RUN_ALONE, in_a_run_of_the_user),
    "single": (RUN_ALONE, lambda: GMMDetector(2).fit(X)),
    "neighbours": (RUN_ALONE, lambda: KNNDetector().fit(X)),
    "classes": (
        RUN_ALONE,
        lambda: OneClassEnsembleClassifier(detector()).fit(X, np.arange(60) % 2),
    ),
    "teach": (RUN_ALONE, lambda: detector().fit(X).teach(X[:2], [1, -1])),
    "pipeline": (RUN_ALONE, lambda: make_pipeline(StandardScaler(), detector()).fit(X)),
    "search": (RUN_ALONE, lambda: GridSearchCV(detector(), {"p": [1.0, 2.0]}, cv=2).fit(X, y)),
    "traced": (RUN_ALONE, traced),
    "fails": (RUN_ALONE, fails),
    "control": (RUN_ALONE, lambda: OneClassSVM().fit(X)),
}


def main(folder):
    warnings.simplefilter("ignore")
    mlflow.set_tracking_uri(f"sqlite:///{folder}/runs.db")
    told = {}
    for name, (settings, case) in CASES.items():
        mlflow.set_experiment(name)
        mlflow.sklearn.autolog(disable=settings is None, silent=True, **(settings or {}))
        case()
        mlflow.flush_trace_async_logging()
        runs = mlflow.search_runs(output_format="list")
        top = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
        told[name] = {
            "runs": [run.data.tags.get("estimator_name") for run in top],
            "runs_params": [
                (run.data.tags.get("estimator_name"), len(run.data.params)) for run in top
            ],
            "models": [model.name for model in mlflow.search_logged_models(output_format="list")],
            "spans": [len(trace.data.spans) for trace in mlflow.search_traces(return_type="list")],
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
