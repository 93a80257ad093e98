"""``lpfuse demo``: what the library does, on data that come with scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lpfuse.cli import console

if TYPE_CHECKING:
    from lpfuse import FusedDetector

# Chosen by hand: enough splits to see a spread, few enough to take less than half a minute.
SPLITS = 3
KNOWN = 20  # anomalies that are labelled: few, as users have them
RULES = ("sum", "median", "min", "max")  # of the same scores, without weights
SINGLE = ("detector", "expert")
KINDS = {
    "detector": "detector: learns what is normal",
    "expert": "expert: learns from the known anomalies too",
    "rule": "fixed rule: fuses all of them alike",
    "fusion": "fuses them with learnt weights",
}
FUSION = ("fusion", "ℓp fusion")

Areas = dict[tuple[str, str], list[float]]  # kind and name: an AUC a split


def demo(
    ctx: typer.Context,
    out: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write.")
    ] = Path("report.html"),
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Fuse detectors of breast tumours: single ones, fixed rules and learnt weights compared.

    Benign tumours are the normal class. The detectors learn from benign ones and a few malignant
    ones, and are judged on others, in several random splits. Takes less than half a minute.
    """
    from lpfuse._files import check_target, write_errors

    silent = as_json or console.is_quiet(ctx, quiet)
    check_target(out)
    if not silent:
        typer.echo(
            "Data: scikit-learn's breast-cancer set, 30 measurements of a tumour. Benign is "
            f"normal.\nEach of {SPLITS} random splits learns from 250 benign and {KNOWN} known "
            "malignant tumours\nand is judged on the others: 107 benign, 192 malignant.\n"
        )
    with console.remarks(silent), console.phases(silent) as phases:
        phases.begin("Fitting")
        # Late, for it takes seconds: the lines above stand by then.
        from lpfuse.report import write_report

        aucs, summary = compare(phases.progress)
        with write_errors(out.name):
            write_report(summary, out)
    if as_json:
        found = [{"kind": kind, "name": name, "auc": auc} for (kind, name), auc in aucs.items()]
        console.show_json({"results": found, "report": str(out), "headline": summary["headline"]})
        return
    console.show(_table(aucs), silent)
    if not silent:
        typer.echo(f"\n{gains(aucs)}\n\n{_what_next(out)}")


def compare(progress: console.Progress | None) -> tuple[Areas, dict[str, Any]]:
    """Test AUCs of detectors, rules and the fusion in each split, and a summary of the first."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer

    from lpfuse import FusedDetector
    from lpfuse.report import summarise

    data = load_breast_cancer()
    y = np.where(data.target == 1, 1, -1)
    aucs: Areas = {}
    summary = {}
    for split in range(SPLITS):
        random = np.random.default_rng(split)
        benign, malignant = (random.permutation(np.flatnonzero(y == side)) for side in (1, -1))
        learn = np.concatenate([benign[:250], malignant[:KNOWN]])
        test = np.concatenate([benign[250:], malignant[KNOWN:]])
        fused = FusedDetector(random_state=split, progress=_share(progress, split))
        fused.fit(data.data[learn], y[learn])
        for name, auc in areas_of(fused, data.data[test], y[test]).items():
            aucs.setdefault(name, []).append(auc)
        if split == 0:
            summary = summarise(fused, data.data[test], y[test], names=data.feature_names)
    return aucs, summary


def areas_of(fused: FusedDetector, X: Any, y: Any) -> dict[tuple[str, str], float]:
    from sklearn.metrics import roc_auc_score

    from lpfuse import FixedRule
    from lpfuse.ensemble.components import scale_scores

    raw = fused.detector_scores(X)
    scaled, training = scale_scores(fused.scaler_, raw), fused.out_of_fold_
    normal = scale_scores(fused.scaler_, training.scores[training.labels > 0])
    kinds = ["detector"] * len(fused.pool_.one_class) + ["expert"] * len(fused.pool_.experts)
    scores = dict(zip(zip(kinds, fused.detector_names_, strict=True), raw.T, strict=True))
    for rule in RULES:
        scores["rule", rule] = FixedRule(rule).fit(normal).score_samples(scaled)
    scores[FUSION] = scaled @ fused.weights_
    return {name: float(roc_auc_score(y, values)) for name, values in scores.items()}


def _share(progress: console.Progress | None, split: int) -> Any:
    """Progress within a split as progress of all of them."""
    if progress is None:
        return False
    return lambda done, total: progress(split * total + done, SPLITS * total)


def _table(aucs: Areas) -> str:
    import numpy as np

    rows = []
    for (kind, name), values in aucs.items():
        figures = [f"{100 * value:.1f}" for value in (np.mean(values), np.std(values, ddof=1))]
        rows.append([name, KINDS[kind], " ± ".join(figures)])
    return console.table(["", "what it is", f"AUC in %, mean ± sd of {SPLITS} splits"], rows)


def gains(aucs: Areas) -> str:
    """What the fusion gains over others, split by split."""
    import numpy as np

    fusion = np.array(aucs[FUSION])
    singles = {name: values for (kind, name), values in aucs.items() if kind in SINGLE}
    best = max(singles, key=lambda name: np.mean(singles[name]))
    rivals = {
        "their plain sum": aucs["rule", "sum"],
        "an average one of them": np.mean(list(singles.values()), axis=0),
        f"the best of them, {best}, which only the test rows could tell": singles[best],
    }
    lines = [
        f"The fusion minus others, in points of AUC, and splits of {SPLITS} where it is ahead:"
    ]
    for name, values in rivals.items():
        gain = 100 * (fusion - values)
        figure = f"{gain.mean():+.1f}".replace("-", "−")
        lines.append(f"  {figure}  {int((gain > 0).sum())}  {name}")
    return "\n".join(lines)


def _what_next(out: Path) -> str:
    return (
        f"Next\n  Open {out} in a browser: the first split, with a slider over p.\n"
        "  lpfuse fit YOURS.csv --label COLUMN --normal VALUE -o model.lpfuse\n"
        "  lpfuse score model.lpfuse NEW.csv -o scores.csv\n"
        "  lpfuse report model.lpfuse"
    )
