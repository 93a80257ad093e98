"""What is timed in a process of its own, in CPU seconds unless it is a single row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lpfuse import FusedDetector
from research.common.clock import cpu_timed, race, ratio, timed
from research.common.memory import peak_of
from research.studies.tables.splits import Training

from .data import Matrix, Rows
from .latency import latencies, quantiles
from .members import default_members, drawn
from .methods import METHODS, OURS

Facts = dict[str, Any]


def warmed_up(rows: Rows) -> FusedDetector:
    """An unfitted detector, after a small sibling has met every part of a fit and of a verdict."""
    small = rows.small()
    FusedDetector(random_state=rows.seed).fit(*small.training()).predict(small.unseen(20))
    return FusedDetector(random_state=rows.seed)


class BudgetBench:
    """A whole fit beside each member of the pool, fitted once by itself."""

    def __init__(self, rows: Rows, scored: int, single: int) -> None:
        self.rows, self.single = rows, single
        self.unseen = rows.unseen(scored)
        self.fused, self.training = warmed_up(rows), drawn(rows)
        for member in default_members(drawn(rows.small()), rows.seed).values():
            member.fit().score_samples(self.unseen[:20])

    def run(self, repeats: int) -> Facts:
        """Seconds of fits, of scoring many rows and of scoring one, by name; whole: "lpfuse"."""
        X, y = self.training.X, self.training.y
        members = default_members(self.training, self.rows.seed)
        fits = {OURS: lambda: self.fused.fit(X, y)}
        fits |= {name: member.fit for name, member in members.items()}
        fitted: Facts = {}

        def keep(results: Facts) -> dict[str, bool]:
            fitted.update(results)
            return dict.fromkeys(results, True)

        fit_seconds = race(fits, keep, repeats, timer=cpu_timed)
        calls = {name: model.score_samples for name, model in fitted.items()}
        verdicts = calls | {OURS: fitted[OURS].predict}
        scorings = {name: lambda call=call: call(self.unseen) for name, call in verdicts.items()}
        predict_seconds = race(
            scorings, lambda results: dict.fromkeys(results, True), repeats, timer=cpu_timed
        )
        return {
            "fit_seconds": fit_seconds,
            "predict_seconds": predict_seconds,
            "predicted": len(self.unseen),
            "experts": [name for name, member in members.items() if member.is_expert],
            "row_seconds": quantiles(latencies(calls, self.rows.unseen(self.single))),
        }


class GrowthBench:
    """One number of rows, learnt from by one method after the other."""

    def __init__(self, rows: Rows, scored: int) -> None:
        self.rows, self.unseen = rows, rows.unseen(scored)
        self.warm: set[str] = set()

    def turn(self, name: str) -> Facts:
        """One fit and one scoring; before the first, those of a small sibling."""
        if name not in self.warm:
            self._learn(name, self._given(name, self.rows.small()))(self.unseen[:20])
            self.warm.add(name)
        given = self._given(name, self.rows)
        fit_seconds, score = cpu_timed(lambda: self._learn(name, given))
        predict_seconds, _ = cpu_timed(lambda: score(self.unseen))
        return {"fit_seconds": fit_seconds, "predict_seconds": predict_seconds}

    def _given(self, name: str, rows: Rows) -> Training:
        return drawn(replace(rows, labels=METHODS[name].labels))

    def _learn(self, name: str, training: Training) -> Any:
        return METHODS[name].learn(training, self.rows.seed)


class OneRowBench:
    """A fitted detector in Python and, where packages allow, the same in ONNX."""

    def __init__(self, rows: Rows, single: int) -> None:
        self.fused = warmed_up(rows).fit(*rows.training())
        self.X = rows.unseen(single)
        self.onnx, self.missing = onnx_form(self.fused)

    def run(self) -> Facts:
        """Latencies, and Python's scores beside those of ONNX in units of their spread."""
        calls: Facts = {"score_samples": self.fused.score_samples, "predict": self.fused.predict}
        if self.onnx is None:
            return {"row_seconds": quantiles(latencies(calls, self.X)), "missing": self.missing}
        samples = latencies(calls | {"onnx": self.onnx}, self.X)
        scores = self.fused.score_samples(self.X)
        apart = np.abs(self.onnx(self.X) - scores).max() / np.ptp(scores)
        return {
            "row_seconds": quantiles(samples),
            "onnx_ratio": ratio(samples, "score_samples", "onnx"),
            "onnx_difference": float(apart),
        }


def onnx_form(fused: FusedDetector) -> tuple[Any, str]:
    """Rows → scores in a session of one thread; None, and why, where there is no such form.

    Packages may be missing, or a part of the detector has no converter: Python is timed alone then.
    """
    try:
        import onnxruntime

        from lpfuse.onnx_export import to_onnx

        model = to_onnx(fused).SerializeToString()
    except (ImportError, NotImplementedError) as error:
        return None, str(error)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def scores(X: Matrix) -> Matrix:
        return session.run(["scores"], {"X": X})[0]

    return scores, ""


class LargeBench:
    """Many rows, in a process that has seen nothing else."""

    def __init__(self, rows: Rows, scored: int) -> None:
        self.fused = warmed_up(rows)
        self.X, self.y = rows.training()
        self.unseen = rows.unseen(scored)

    def run(self) -> Facts:
        """One fit: seconds by both clocks, and memory at its highest, the rows included."""
        found: Facts = {}

        def fit() -> None:
            found["fit_seconds"], (found["wall_seconds"], _) = cpu_timed(
                lambda: timed(lambda: self.fused.fit(self.X, self.y))
            )

        peak = peak_of(fit)
        if peak is not None:
            found |= {"peak_bytes": peak.total, "extra_bytes": peak.extra}
        else:  # a system that does not tell memory has not run the fit either
            fit()
        found["predict_seconds"], _ = cpu_timed(lambda: self.fused.predict(self.unseen))
        return found | {"row_bytes": self.X.nbytes, "predicted": len(self.unseen)}
