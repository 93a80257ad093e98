"""``lpfuse reproduce readings``: what the paper leaves open, every way it can be read.

A reading is a few parameters of `lpfuse.paper.Pipeline`, or another choice of the protocol. The
grid of a split is fitted once for all widths; a reading picks its part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold

from lpfuse._arrays.operations import Host
from lpfuse._validation.tables import unheard_warnings
from lpfuse.detectors import score_together
from lpfuse.fusion.lp import lp_path
from lpfuse.metrics import auc_of_columns, best_g_mean, g_mean
from lpfuse.paper import (
    KERNEL_FORMS,
    LEARNERS,
    TAUGHT,
    Candidate,
    Pipeline,
    best_per_learner,
    candidates,
    fit_candidates,
)
from lpfuse.scaling import TwoSidedMinMax
from research.common.comparison import Figures
from research.common.datasets import UCI, Dataset
from research.common.experiment import measure_splits
from research.common.options import Options
from research.common.protocol import SETTINGS, Setting, auc
from research.common.splits import Split
from research.common.store import Row, read_rows, write_whole
from research.paper.readings_page import GLASS, IRIS, readings_page

FOLDS = 5
WHO = {(): "the weights alone", ("SVDD",): "SVDD too", TAUGHT: "SVDD and GP too"}


@dataclass(frozen=True)
class Reading:
    """One way to read what the paper leaves open.

    Attributes
    ----------
    kernel_form : str
        What a width means: of `Pipeline`.
    clip : bool
        Whether scaled scores are clipped: of `Pipeline`.
    taught : tuple of str
        Learners that learn from anomalies: `learners_learn_from_anomalies` of `Pipeline`.
    scores : {"in-sample", "out of fold", "batch"}
        Which scores of the normal rows teach the weights and set the scale. "batch": the rows of
        training, validation and test are each scaled by quantiles of their own.
    scale : {"training", "all"}
        Rows whose means and deviations scale the features.
    chosen_on : {"validation", "test"}
        Rows that every choice is made on. "test" is hindsight, and no result.
    """

    kernel_form: str = "sigma"
    clip: bool = False
    taught: tuple[str, ...] = ()
    scores: Literal["in-sample", "out of fold", "batch"] = "in-sample"
    scale: Literal["training", "all"] = "training"
    chosen_on: Literal["validation", "test"] = "validation"

    @property
    def name(self) -> str:
        """What differs from the reading of all other pages."""
        told = [
            *([f"kernel {self.kernel_form}"] if self.kernel_form != "sigma" else []),
            *(["clipped"] if self.clip else []),
            *([f"anomalies teach {WHO[self.taught]}"] if self.taught else []),
            *([f"{self.scores} scores"] if self.scores != "in-sample" else []),
            *(["features scaled by all rows"] if self.scale == "all" else []),
            *(["HINDSIGHT: chosen on test"] if self.chosen_on == "test" else []),
        ]
        return ", ".join(told) or "as on the other pages"

    def pipeline(self, **others: Any) -> Pipeline:
        """The estimator whose parameters this reading is."""
        return Pipeline(
            kernel_form=self.kernel_form,
            clip=self.clip,
            learners_learn_from_anomalies=self.taught,
            **others,
        )


def every_reading() -> list[Reading]:
    """Kernel × clipping × who learns; then scores, scale and hindsight, by who learns."""
    whole = [
        Reading(form, clip, taught)
        for form, clip, taught in product(KERNEL_FORMS, (False, True), WHO)
    ]
    for taught in WHO:
        plain = Reading(taught=taught)
        whole += [
            replace(plain, scores="out of fold"),
            replace(plain, scores="out of fold", clip=True),
            replace(plain, scores="batch"),
            replace(plain, scale="all"),
            replace(plain, chosen_on="test"),
        ]
    return whole


# What the paper's Table 1 does not settle: the class of iris, and a column of the file of Glass.
VARIANTS: Mapping[str, tuple[str, Callable[[Dataset], Dataset]]] = {
    IRIS[0]: ("iris", lambda data: _species(data, 0)),
    IRIS[1]: ("iris", lambda data: _species(data, 1)),
    GLASS: ("glass", lambda data: _numbered(data)),
}


def run(options: Options) -> str:
    """Measure what is missing, write results and page, and return the page."""
    rows, of_uci = measured(options), options.out / "uci.jsonl"
    # The first reading has more splits there, where these were measured in part.
    first = Figures(read_rows(of_uci)) if of_uci.exists() else None
    text = readings_page(rows, options.quick, first)
    write_whole(options.page_folder / "readings.md", text)
    return text


def measured(options: Options) -> list[Row]:
    """The rows, measured where they are missing."""
    readings = every_reading()
    return measure_splits(
        "readings",
        split_rows,
        options,
        sets=(*UCI, *VARIANTS),
        variants=VARIANTS,
        readings=[reading.name for reading in readings],
    )


def split_rows(parts: Split) -> list[Row]:
    """Every reading on one split, in both settings."""
    return [
        row
        for scaled in (parts, _scaled_by_all_rows(parts))
        for setting in SETTINGS
        for row in _setting_rows(scaled, setting, scaled is not parts)
    ]


def _setting_rows(parts: Split, setting: Setting, by_all_rows: bool) -> Iterator[Row]:
    learnt = _Learnt(parts, setting)
    for reading in every_reading():
        if (reading.scale == "all") != by_all_rows or (setting == "pure" and reading.taught):
            continue
        yield from _rows_of(reading, learnt)


# ----------------------------------------------------------------------------- scores of the grids


@dataclass(frozen=True, eq=False)
class _Grid:
    """Fitted candidates of all widths, and their scores of every part of a split."""

    candidates: list[Candidate]
    scores: dict[str, Host]  # part → (rows, candidates)
    areas: dict[str, Host]  # part with labels → AUC of each candidate


@dataclass(eq=False)
class _Learnt:
    """What the readings of a split share: the grids, fitted once for all widths."""

    parts: Split
    setting: Setting
    _grids: dict[bool, _Grid] = field(default_factory=dict)

    def __post_init__(self) -> None:
        training = self.parts.training(self.setting)
        rows, labels = training.validation, training.labels
        tested = np.concatenate([self.parts.test, self.parts.sought])
        truth = np.repeat([1.0, -1.0], [len(self.parts.test), len(self.parts.sought)])
        self.rows = {
            "normals": training.normals,
            "anomalies": training.labelled,
            "validation": rows,
            "test": tested,
        }
        self.labels = {"validation": labels, "test": truth}

    def grid(self, taught: bool) -> _Grid:
        """The grid of learners, or of those among them that anomalies can teach."""
        if taught not in self._grids:
            widths = {form(w) for form in KERNEL_FORMS.values() for w in self._widths}
            grid = candidates(
                len(self.rows["normals"]),
                widths=sorted(widths),
                component_step=self.parts.protocol.component_step,
                random_state=self.parts.seed,
            )
            grid = [c for c in grid if c.learner in TAUGHT] if taught else grid
            fit_candidates(
                grid, self.rows["normals"], self.rows["anomalies"], TAUGHT if taught else ()
            )
            fitted = [candidate.detector for candidate in grid]
            found = {
                part: score_together(fitted, rows) if len(rows) else np.empty((0, len(grid)))
                for part, rows in self.rows.items()
            }
            areas = {part: auc_of_columns(y, found[part]) for part, y in self.labels.items()}
            self._grids[taught] = _Grid(grid, found, areas)
        return self._grids[taught]

    def of(self, reading: Reading) -> _Grid:
        """Its part of the grids: its widths, and learners taught where it says so."""
        form = KERNEL_FORMS[reading.kernel_form]
        widths = {form(width) for width in self._widths}
        grids = [self.grid(taught) for taught in (False, True)[: 1 + bool(reading.taught)]]
        whole = [(c, i > 0) for i, grid in enumerate(grids) for c in grid.candidates]
        found = [
            j
            for j, (candidate, taught) in enumerate(whole)
            if (candidate.learner in reading.taught) == taught
            and candidate.settings.get("sigma", next(iter(widths))) in widths
        ]
        return _Grid(
            [whole[j][0] for j in found],
            {p: np.concatenate([g.scores[p] for g in grids], axis=1)[:, found] for p in self.rows},
            {p: np.concatenate([g.areas[p] for g in grids])[found] for p in self.labels},
        )

    @property
    def _widths(self) -> Sequence[float]:
        return self.parts.protocol.widths


# --------------------------------------------------------------------------------- from scores on


def _rows_of(reading: Reading, learnt: _Learnt) -> Iterator[Row]:
    """AUC and G-mean of the learners, the sum, and weights learnt in several ways."""
    grid, labels = learnt.of(reading), learnt.labels
    known = labels[reading.chosen_on]
    chosen = best_per_learner(grid.candidates, grid.areas[reading.chosen_on])
    tables = {part: scores[:, chosen] for part, scores in grid.scores.items()}
    if reading.scores == "out of fold":
        tables |= _out_of_fold([grid.candidates[i] for i in chosen], learnt, reading.taught)
    found = {
        name: (tables[reading.chosen_on][:, j], tables["test"][:, j])
        for j, name in enumerate(LEARNERS)
    }
    protocol = learnt.parts.protocol
    fused, choices = _fused(tables, known, reading, protocol.rhos, sorted(protocol.ps))
    found |= fused
    values: dict[str, dict[str, float]] = {"auc": {}, "g_mean": {}, "g_mean, threshold on test": {}}
    for name, (of_known, of_test) in found.items():
        truth = labels["test"]
        values["auc"][name] = auc(of_test[truth > 0], of_test[truth < 0])
        for metric, (rows, scores) in {
            "g_mean": (known, of_known),
            "g_mean, threshold on test": (truth, of_test),
        }.items():
            offset = best_g_mean(rows, scores)[1]
            decisions = np.where(of_test >= offset, 1.0, -1.0)
            values[metric][name] = 100 * g_mean(truth, decisions)
    for metric, figures in values.items():
        rounded = {name: round(value, 4) for name, value in figures.items()}
        row = {"setting": learnt.setting, "reading": reading.name, "metric": metric}
        yield {**row, "values": rounded, **({"choices": choices} if metric == "auc" else {})}


def _fused(
    tables: dict[str, Host],
    known: Host,
    reading: Reading,
    rhos: Sequence[float],
    ps: Sequence[float],
) -> tuple[dict[str, tuple[Host, Host]], dict[str, float]]:
    """Fused scores of the rows of choice and of the test, by way of fusing; ρ and p of ℓp.

    Each way has the ρ and p that the rows of choice prefer: of equals the first ρ and the largest
    p, as `lpfuse.paper.choose_weights` has it. All ways share scales and paths.
    """
    ways: dict[str, tuple[str, list[float]]] = {
        "ℓp": ("hinge", list(ps)),
        "ℓp, least squares": ("least_squares", list(ps)),
    }
    if reading.kernel_form == "sigma":  # the norms are compared under one kernel, for time
        ways |= {"ℓ2": ("hinge", [2.0]), "ℓ∞": ("hinge", [np.inf])}
    y = np.repeat([1.0, -1.0], [len(tables["normals"]), len(tables["anomalies"])])
    areas = dict.fromkeys(("sum", *ways), -1.0)
    found: dict[str, tuple[Host, Host]] = {}
    choices: dict[str, float] = {}
    for rho in rhos:
        batch = _by_batch(tables, rho) if reading.scores == "batch" else tables
        scaler = TwoSidedMinMax(rho, feature_range=(0, 1), clip=reading.clip).fit(batch["normals"])
        S = scaler.transform(np.concatenate([batch["normals"], batch["anomalies"]]))
        to_choose, test = (scaler.transform(batch[part]) for part in (reading.chosen_on, "test"))
        fused = {"sum": (to_choose.sum(axis=1)[:, None], np.ones((1, S.shape[1])), [np.nan])}
        for loss in ("hinge", "least_squares"):
            wanted = sorted({p for own, grid in ways.values() if own == loss for p in grid})
            with unheard_warnings():  # the same for every ρ
                path = lp_path(S, y, ps=wanted, loss=loss)
            for way, (own, grid) in ways.items():
                if own == loss:
                    weights = path.weights[np.searchsorted(path.ps, grid)]
                    fused[way] = to_choose @ weights.T, weights, grid
        for way, (of_choice, weights, grid) in fused.items():
            of_each = auc_of_columns(known, of_choice)
            j = len(of_each) - 1 - int(np.argmax(of_each[::-1]))
            if of_each[j] > areas[way]:
                areas[way] = of_each[j]
                of_test = test.sum(axis=1) if way == "sum" else test @ weights[j]
                found[way] = of_choice[:, j], of_test
                choices = {"rho": rho, "p": grid[j]} if way == "ℓp" else choices
    return {way: found[way] for way in areas}, choices


def _by_batch(tables: dict[str, Host], rho: float) -> dict[str, Host]:
    """Scores of validation and test, mapped so that their own quantiles are those of training.

    The scaler of the training rows then scales each batch by its own quantiles.
    """
    own = {part: TwoSidedMinMax(rho, feature_range=(0, 1), clip=False) for part in tables}
    for part in ("normals", "validation", "test"):
        own[part].fit(tables[part])
    lower, width = own["normals"].lower_, own["normals"].upper_ - own["normals"].lower_
    mapped = {
        part: lower + width * own[part].transform(tables[part]) for part in ("validation", "test")
    }
    return tables | mapped


def _out_of_fold(
    chosen: Sequence[Candidate], learnt: _Learnt, taught: Sequence[str]
) -> dict[str, Host]:
    """Scores of the rows that teach, by learners fitted to the other four fifths."""
    rows = {part: learnt.rows[part] for part in ("normals", "anomalies")}
    scores = {part: np.empty((len(own), len(chosen))) for part, own in rows.items()}
    splitter = KFold(min(FOLDS, len(rows["normals"])), shuffle=True, random_state=learnt.parts.seed)
    fold = {part: _fold_numbers(splitter, len(own)) for part, own in rows.items()}
    for number in range(splitter.n_splits):
        again = [replace(c, detector=clone(c.detector)) for c in chosen]
        rest = {part: own[fold[part] != number] for part, own in rows.items()}
        fit_candidates(again, rest["normals"], rest["anomalies"], taught)
        for part, own in rows.items():
            held_out = fold[part] == number
            if held_out.any():
                fitted = [c.detector for c in again]
                scores[part][held_out] = score_together(fitted, own[held_out])
    return scores


def _fold_numbers(splitter: KFold, n: int) -> NDArray[np.int_]:
    """The fold of each row; few rows are in folds of their own."""
    numbers = np.arange(n)
    if n > splitter.n_splits:
        for number, (_, part) in enumerate(splitter.split(np.empty((n, 1)))):
            numbers[part] = number
    return numbers


# ------------------------------------------------------------------------------- rows of a reading


def _scaled_by_all_rows(parts: Split) -> Split:
    """The same division, with features as z-scores of all its rows."""
    names = ("train", "held_out", "test", "known", "sought")
    whole = np.concatenate([getattr(parts, name) for name in names])
    mean, deviation = whole.mean(axis=0), whole.std(axis=0)
    deviation[deviation == 0] = 1.0
    scaled = {name: (getattr(parts, name) - mean) / deviation for name in names}
    return replace(parts, **scaled, cache={})


def _species(data: Dataset, number: int) -> Dataset:
    """Iris with another normal class; every source lists its 150 rows species by species."""
    y = np.full(len(data.y), -1)
    y[50 * number : 50 * (number + 1)] = 1
    return replace(data, y=y)


def _numbered(data: Dataset) -> Dataset:
    """Glass with the number of its row, which UCI's file has as its first column, by class."""
    number = np.arange(1.0, len(data.X) + 1)[:, None]
    names = ("row number", *data.feature_names)
    return replace(data, X=np.concatenate([number, data.X], axis=1), feature_names=names)
