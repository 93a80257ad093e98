"""``lpfuse demo``: what fusing is worth, on every set of classes that comes with scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lpfuse_cli import console

if TYPE_CHECKING:
    from lpfuse import FusedDetector

KNOWN = 20  # anomalies that are labelled: few, as users have them; chosen by hand
SEED = 1  # of splits that had no say in the recipe, which was settled on others (docs/adr/0027)
FOLDS = 3  # fewer than the default, for a demo is to take seconds
# Of each set of scikit-learn with classes: what its detectors see, each a part of the columns.
PARTS = {
    "iris": "a length or width",
    "wine": "a chemical measurement",
    "breast cancer": "a property of cells",
    "digits": "a line of the picture",
}
RIVALS = {
    "average": "an average one of the detectors",
    "picked": "the one that the known anomalies speak for",
    "hindsight": "the best one, which only the test rows could tell",
    "sum": "their plain sum",
    "whole": "one detector that sees all columns",
}
SHOWN = "wine"  # the set of the page, whose columns have names; its first class


@dataclass(frozen=True)
class Task:
    """A class of a set, taken as normal: names, rows to learn from and to judge by, labels.

    Attributes
    ----------
    set, normal : str
        Names of the set and of the class.
    parts : dict of str: list of int
        The columns that each detector sees.
    columns : list of str
        Names of all columns.
    learn, y_learn, test, y_test : ndarray
        Half of the class and a few rows of others; all the rest.
    """

    set: str
    normal: str
    parts: dict[str, list[int]]
    columns: list[str]
    learn: Any
    y_learn: Any
    test: Any
    y_test: Any


@dataclass(frozen=True)
class Areas:
    """Test AUCs of one task: of the fusion, and of what one could do without it (`RIVALS`)."""

    set: str
    normal: str
    detectors: int
    average: float
    picked: float
    hindsight: float
    sum: float
    whole: float
    fusion: float


def demo(
    ctx: typer.Context,
    out: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")
    ] = Path("report.html"),
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Fuse detectors that see part of the columns each, and compare with alternatives.

    Uses iris, wine, breast cancer and digits of scikit-learn, with each class as the normal one in
    turn, including those where fusing gains little. Takes seconds.
    """
    from lpfuse._files import check_writable, write_errors

    silent = as_json or console.is_quiet(ctx, quiet)
    check_writable(out)
    if not silent:
        typer.echo(_what_is_done())
    with console.remarks(silent), console.phases(silent) as phases:
        phases.begin("Fitting")
        # Late, for it takes seconds: the lines above stand by then.
        from lpfuse_cli.report import write_report

        areas, summary = compare(phases.progress)
        with write_errors(out.name):
            write_report(summary, out)
    if as_json:
        found = {"results": [asdict(each) for each in areas], "report": str(out)}
        console.show_json({**found, "headline": summary["headline"]})
        return
    console.show(_table(areas), silent)
    if not silent:
        typer.echo(f"\n{gains(areas)}\n\n{_what_next(out)}")


def tasks() -> Iterator[Task]:
    """Each class of each set as the normal one, in a split of its own."""
    import numpy as np
    from sklearn import datasets
    from sklearn.preprocessing import StandardScaler

    for name in PARTS:
        data = getattr(datasets, f"load_{name.replace(' ', '_')}")()
        parts = _parts(name, data)
        for number, normal in enumerate(data.target_names):
            random, y = (
                np.random.default_rng([SEED, number]),
                np.where(data.target == number, 1, -1),
            )
            inside, others = (random.permutation(np.flatnonzero(y == side)) for side in (1, -1))
            half = len(inside) // 2
            learn = np.concatenate([inside[:half], others[:KNOWN]])
            test = np.concatenate([inside[half:], others[KNOWN:]])
            scale = StandardScaler().fit(data.data[inside[:half]]).transform
            yield Task(
                name,
                str(normal),
                parts,
                list(map(str, data.feature_names)),
                scale(data.data[learn]),
                y[learn],
                scale(data.data[test]),
                y[test],
            )


def _parts(name: str, data: Any) -> dict[str, list[int]]:
    """Columns by detector: single ones, a property's mean, error and worst, or a line's pixels."""
    names = list(map(str, data.feature_names))
    if name == "breast cancer":
        return {names[j].removeprefix("mean "): [j, j + 10, j + 20] for j in range(10)}
    if name == "digits":
        return {f"line {j}": list(range(8 * j, 8 * j + 8)) for j in range(8)}
    return {column: [j] for j, column in enumerate(names)}


def compare(progress: console.Progress | None) -> tuple[list[Areas], dict[str, Any]]:
    """Test AUCs of all tasks, and a summary of one of them."""
    from lpfuse import FusedDetector, KNNDetector
    from lpfuse_cli.report import summarise

    listed, areas, summary = list(tasks()), [], {}
    first = next(task for task in listed if task.set == SHOWN)
    for done, task in enumerate(listed):
        if progress is not None:
            progress(done, len(listed))
        detectors = [(name, KNNDetector(), columns) for name, columns in task.parts.items()]
        fused = FusedDetector(detectors, cv=FOLDS, random_state=0).fit(task.learn, task.y_learn)
        areas.append(areas_of(fused, task))
        if task is first:
            summary = summarise(
                fused,
                task.test,
                task.y_test,
                names=task.columns,
                files={"data": f"scikit-learn's {task.set} set, {task.normal} is normal"},
            )
    return areas, summary


def areas_of(fused: FusedDetector, task: Task) -> Areas:
    """Of a fitted fusion: its test AUC, and those of `RIVALS`."""
    import numpy as np
    from sklearn.metrics import roc_auc_score

    from lpfuse import KNNDetector
    from lpfuse.ensemble.combination import scale_scores

    def auc(scores: Any) -> float:
        return float(roc_auc_score(task.y_test, scores))

    raw, seen = fused.detector_scores(task.test), fused.out_of_fold_
    single = [auc(column) for column in raw.T]
    labels = seen.labels < 0
    by_labels = [roc_auc_score(labels, -column) for column in seen.scores.T]
    whole = KNNDetector().fit(task.learn[task.y_learn > 0])
    return Areas(
        set=task.set,
        normal=task.normal,
        detectors=len(single),
        average=float(np.mean(single)),
        picked=single[int(np.argmax(by_labels))],
        hindsight=max(single),
        sum=auc(scale_scores(fused.scaler_, raw).sum(axis=1)),
        whole=auc(whole.score_samples(task.test)),
        fusion=auc(fused.score_samples(task.test)),
    )


def _what_is_done() -> str:
    parts = "\n".join(f"  {name}: {part}" for name, part in PARTS.items())
    return (
        "Detectors that see part of the columns each, like sensors with monitors of their own. "
        "Data: the four\nclassification sets of scikit-learn, with each class as the normal one in "
        f"turn. Training uses half\nof the class and {KNOWN} anomalies of other classes; the other "
        "rows are the test. A detector (five\nnearest neighbours) sees:\n"
        f"{parts}\n"
        "These parts and the number of known anomalies were chosen after several had been tried, "
        "on other\nsplits. With 5 known anomalies the gain over the plain sum is about half.\n"
    )


def _table(areas: list[Areas]) -> str:
    """Mean AUCs by set, and of all classes."""
    import numpy as np

    head = ["AUC in %, mean of the classes", "classes", "detectors", *RIVALS, "fusion"]
    rows = []
    for name in [*PARTS, "all"]:
        inside = [each for each in areas if name in (each.set, "all")]
        means = [np.mean([getattr(each, key) for each in inside]) for key in (*RIVALS, "fusion")]
        count = f"{inside[0].detectors}" if name != "all" else ""
        rows.append([name, str(len(inside)), count, *(f"{100 * mean:.1f}" for mean in means)])
    return console.table(head, rows)


def gains(areas: list[Areas]) -> str:
    """Describe the gain of the fusion over each rival, class by class."""
    import numpy as np

    lines = [
        "The fusion minus others, in points of AUC, mean of the classes; classes of "
        f"{len(areas)} where it is ahead, and behind:"
    ]
    for key, words in RIVALS.items():
        gain = np.array([100 * (each.fusion - getattr(each, key)) for each in areas])
        figure = f"{gain.mean():+.1f}".replace("-", "−")
        ahead, behind = int((gain > 1e-9).sum()), int((gain < -1e-9).sum())
        lines.append(f"  {figure:>5}  {ahead:>2}  {behind:>2}  {key}: {words}")
    for key in ("sum", "whole"):
        names = [f"{each.set} {each.normal}" for each in areas if each.fusion < getattr(each, key)]
        if names:
            lines.append(f"Fusing did not help, {RIVALS[key]} was better: {', '.join(names)}.")
    return "\n".join(lines)


def _what_next(out: Path) -> str:
    return (
        f"Next\n  Open {out} in a browser: the first class of wine, with a slider over p.\n"
        "  lpfuse fit YOURS.csv --label COLUMN --normal VALUE -o model.lpfuse\n"
        "  lpfuse score model.lpfuse NEW.csv -o scores.csv\n"
        "  lpfuse report model.lpfuse"
    )
