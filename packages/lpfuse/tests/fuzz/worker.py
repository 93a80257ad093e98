"""Loads forged files and uses what they hold, under watch.

``python -m fuzz.worker FOLDER LIMIT SECONDS [NAME ...]``: FOLDER holds honest files. What was done
is told in ``done.jsonl``, a line a file; what was begun in ``begun``, so that a crash has a name. A
file that takes more than SECONDS of the processor's time ends the process. A NAME of `CHECKS` is
switched off: the fuzzer must find what it prevents; one of `forging.KINDS` is forged, others not.
"""

import faulthandler
import itertools
import json
import os
import resource
import shutil
import signal
import sys
import traceback
import warnings
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from click.testing import CliRunner
from scipy import sparse
from sklearn.base import BaseEstimator
from typer.main import get_command

import fuzz.careless  # noqa: F401 (a class that the fuzzer must find unsafe)
from fuzz.archives import ModelFile
from fuzz.corpus import NEW, donors, videos
from fuzz.forging import forgeries
from fuzz.watching import Watch
from lpfuse import FusedDetector, load
from lpfuse._files import register_all
from lpfuse.io import reading, safety
from lpfuse_cli.app import app
from lpfuse_cli.scoring import load_model

MEMORY = 2**30  # bytes that a forged file may ask for beyond what an honest one needs
OWN_MISTAKE = 70  # an exit status; 1 is that of a file that was waited for
WAITING = 30  # times that the processor's time may be spent waiting, on a busy machine too
METHODS = (
    "score_samples", "decision_function", "predict", "predict_proba", "predict_log_proba",
    "transform", "inverse_transform", "detector_scores", "contributions", "verdicts", "pvalues",
    "apply", "decision_path", "mahalanobis", "kneighbors", "get_feature_names_out", "get_params",
)  # fmt: skip
CHECKS = {
    "owner": (reading.Decoder, "_check_owner"),
    "children": (safety, "_check_children"),
    "order": (safety, "_check_order"),
}
APP = get_command(app)  # reads the annotations of the commands, once
MODEL, ROWS, BEGUN = "model.lpfuse", "rows.csv", Path("begun")


def attempt(path, by_commands=True):
    """Load a file and use it: "refused", "used" if any use of it worked, or the first error."""
    try:
        model = load(path)
    except (ValueError, OSError) as error:
        if "MemoryError" in str(error):
            return "load took too much memory"
        calls = (("score", path, ROWS), ("report", path, "--json")) if by_commands else ()
        return next(filter(None, (command(*call) for call in calls)), f"refused: {error}")
    except Exception as error:
        return f"load raised {type(error).__name__}: {error}"
    told = [_outcome(use) for use in uses(model, path, by_commands)]
    worst = [each for each in told if each.startswith(("traceback", "MemoryError", "out of"))]
    return (worst + (["used"] if "used" in told else told))[0]


def uses(model, path, by_commands):
    """What users do with a model, one after the other."""
    yield lambda: f"failed: {type(repr(model))}"  # saying what it is, is no use of it
    if isinstance(model, FusedDetector) and model.preparation_ is not None:
        yield lambda: load_model(path)
        yield lambda: command("score", path, ROWS)
    if by_commands and isinstance(model, FusedDetector):
        yield lambda: command("report", path, "--json")
    if type(model).__name__ == "VideoDetector":
        yield lambda: faces_model(path)
    for name in METHODS:
        if _has(model, name):
            for rows in ([] if name.startswith("get_") else rows_for(model)) or [()]:
                yield lambda name=name, rows=rows: getattr(model, name)(*rows)


def command(*words):
    """A command with a model: None if it did its work, or refused with a sentence."""
    answer = CliRunner().invoke(APP, words)
    if answer.exception is None or isinstance(answer.exception, SystemExit):
        return None
    return f"traceback of {words[0]}: {type(answer.exception).__name__}: {answer.exception}"


def faces_model(path):
    """As ``lpfuse faces score`` takes a model, short of a video."""
    from lpfuse_faces import _model_file as faces

    model = faces.load_model(path)
    faces.settings_of(model)
    faces.extractor_of(model)
    faces.summary(model)


def rows_for(model):
    """Rows that fit, by what the model says of itself, and rows as they were in the training."""
    if type(model).__name__ == "VideoDetector":
        return [(videos(3),)]
    count = model.n_features_in_ if _has(model, "n_features_in_") else None
    widths = {1, NEW.shape[1], *([count] if type(count) is int and 0 < count < 100 else [])}
    tables = [np.resize(NEW, (len(NEW), width)) for width in widths]
    return [(rows,) for table in tables for rows in (table, (table > 0).astype(float))]


def _has(model, name):
    """As hasattr: properties of a forged model may raise anything."""
    try:
        return getattr(model, name, None) is not None
    except Exception:
        return False


def _outcome(use):
    try:
        told = use()
    except MemoryError:
        return "MemoryError"
    except Exception as error:
        return f"failed: {type(error).__name__}"
    rows_of_columns = sparse.issparse(told) and told.format == "csr" and told.ndim == 2
    if rows_of_columns and told.nnz and not 0 <= told.indices.max() < told.shape[1]:
        return "out of range"  # of the columns, which no call on the way has noticed
    return told if isinstance(told, str) else "used"


def main(limit, seconds, kinds):
    """Work through the honest files of this folder; go on after what was begun last."""
    faulthandler.enable(open("crash.txt", "w"))  # noqa: SIM115
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    register_all()
    bases = sorted(Path().glob("*.honest"))
    before = [attempt(str(path)) for path in bases]  # imports whatever honest use imports
    attempt(ROWS)  # and a refusal
    for _, donor in donors():
        for use in uses(donor, MODEL, by_commands=False):
            _outcome(use)
    watch = Watch(MODEL, ROWS)
    tell_of_fits(watch)
    limit_memory()
    last, number, _ = BEGUN.read_text().split("\t") if BEGUN.exists() else ("", -1, "")
    with open("done.jsonl", "a") as done:
        for base, expected in zip(bases, before, strict=True):
            honest = f"honest: {expected}", partial(shutil.copy, base)
            by_commands = base.stem in ("TableModel", "FusedTable", "FusedDetector", "Careless")
            cases = itertools.chain([honest], forgeries(ModelFile(base), limit, by_commands, kinds))
            for k, (words, plant) in enumerate(cases):
                if (base.name, k) <= (last, int(number)):
                    continue
                begin(f"{base.name}\t{k}\t{words}")
                plant(MODEL)
                with time_limit(seconds), watch.open() as events:
                    outcome = attempt(MODEL, by_commands)
                clear(MODEL)
                print(json.dumps([base.stem, words, outcome, events]), file=done, flush=True)


def begin(told):
    """Note what is begun, at once: a process may die of the file before at any time."""
    Path("begun.new").write_text(told)
    os.replace("begun.new", BEGUN)


@contextmanager
def time_limit(seconds):
    """End the process after that much time of the processor, or a long time of waiting."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    faulthandler.dump_traceback_later(WAITING * seconds, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    signal.setitimer(signal.ITIMER_PROF, 0)


def tell_of_fits(watch):
    """Have scikit-learn's estimators tell when they are fitted, which no use of a model does."""
    validate = BaseEstimator._validate_params

    def told(estimator):
        if watch.events is not None:
            watch.events.append(f"fit {type(estimator).__name__}")
        validate(estimator)

    BaseEstimator._validate_params = told


def clear(path):
    """Take away what a forgery has left."""
    os.rmdir(path) if Path(path).is_dir() else os.unlink(path)


def limit_memory():
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    if os.path.lexists(MODEL):
        clear(MODEL)
    for check in CHECKS.keys() & set(sys.argv[4:]):
        setattr(*CHECKS[check], lambda *_: None)
    try:
        main(int(sys.argv[2]), float(sys.argv[3]), set(sys.argv[4:]) - CHECKS.keys())
    except Exception:  # of the fuzzer itself
        traceback.print_exc()
        sys.exit(OWN_MISTAKE)
