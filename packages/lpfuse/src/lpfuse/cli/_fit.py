"""``lpfuse fit``: from a table to a model."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer

from lpfuse.cli import console

Label = Annotated[
    str | None,
    typer.Option(
        metavar="COL",
        help="The column that tells normal rows from anomalies; empty cells: nobody knows. "
        "Without it all rows are taken as normal.",
    ),
]
Normal = Annotated[
    str | None,
    typer.Option(metavar="VALUE", help="What the label of normal rows is; '' where it is empty."),
]
Norm = Annotated[
    str,
    typer.Option(
        "--p", metavar="auto|FLOAT", help="Norm of the weights: 1 trusts few detectors, inf all."
    ),
]
FalseAlarms = Annotated[
    float,
    typer.Option(metavar="FLOAT", help="Share of normal rows that may be called anomalies."),
]
Features = Annotated[
    list[str] | None,
    typer.Option(metavar="COL", help="Use these columns only; may be repeated."),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COL", help="Leave out a column; may be repeated.")
]
Keep = Annotated[
    list[str] | None,
    typer.Option(metavar="COL", help="Carry a column along to the scores; may be repeated."),
]
Seed = Annotated[int, typer.Option(min=0, metavar="INT", help="Seed of all that is random.")]


def fit(
    ctx: typer.Context,
    train: Annotated[
        str, typer.Argument(metavar="TRAIN", help="A .csv, .parquet or .arrow file; - for CSV.")
    ],
    model: Annotated[
        Path, typer.Option("--output", "-o", metavar="MODEL", help="The file for the model.")
    ],
    label: Label = None,
    normal: Normal = None,
    detectors: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="With commas: svdd, gp, kpca, gmm, iforest, lof, trees, logistic, random-forest, "
            "pyod:ECOD and others of PyOD.",
            show_default="six, and more with labelled anomalies",
        ),
    ] = None,
    p: Norm = "auto",
    false_alarm_rate: FalseAlarms = 0.05,
    features: Features = None,
    drop: Drop = None,
    categories: Annotated[
        list[str] | None,
        typer.Option(metavar="COL", help="A column whose numbers are names; may be repeated."),
    ] = None,
    seed: Seed = 0,
    jobs: Annotated[
        int,
        typer.Option("--jobs", "-j", min=-1, metavar="INT", help="Processes; -1: all cores."),
    ] = 1,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Fit several detectors to a table and fuse them into one model.

    Says first what it takes as label, as normal and as features, what it drops, and why.
    """
    from lpfuse.tables import TableModel
    from lpfuse.tables._outcome import outcome
    from lpfuse.tables._reading import read_table
    from lpfuse.tables._writing import check_target, said

    silent = as_json or console.is_quiet(ctx, quiet)
    check_target(model, [train])
    frame = read_table(train)

    def tell(notes: list[str]) -> None:
        if not silent:
            introduce(train, frame.shape, notes)

    with console.remarks(silent) as remarks, console.progress("Fitting", silent) as progress:
        fitted = TableModel.fit(
            frame,
            label=label,
            normal=normal,
            detectors=None if detectors is None else _names(detectors),
            p=p,
            false_alarm_rate=false_alarm_rate,
            features=features or (),
            drop=drop or (),
            categories=categories or (),
            random_state=seed,
            n_jobs=jobs,
            progress=progress,
            tell=tell,
        )
    with said(model.name):
        fitted.save(model)
    found = outcome(fitted.fused)
    if as_json:
        notes = {"notes": fitted.notes, "warnings": remarks}
        console.show_json({"model": str(model), "features": fitted.feature_names, **found, **notes})
    elif not silent:
        console.show(f"\n{weights_table(found)}", False)
        typer.echo(f"\n{conclusion(found)}")
        typer.echo(f"\nSaved {model}. Next: lpfuse score {model} DATA -o scores.csv")


def _names(detectors: str) -> list[str]:
    return [name.strip() for name in detectors.split(",") if name.strip()]


def introduce(source: str, shape: tuple[int, int], notes: list[str]) -> None:
    """Say what a table was taken for."""
    typer.echo(f"{source}: {shape[0]:,} rows, {shape[1]:,} columns")
    for note in notes:
        about, _, rest = note.partition(":")
        typer.echo(f"  {typer.style(about, bold=True)}:{rest}")


def weights_table(found: dict[str, Any], noun: str = "detector", most: int | None = None) -> str:
    """The detectors, those with the largest weights first, and their fusion."""
    areas, weights = found["auc"] or {}, found["weights"]
    total = sum(map(abs, weights.values())) or 1.0
    order = sorted(weights, key=lambda name: -weights[name])
    shown = order[:most]
    header = [noun, "weight", "share", *(["AUC"] if areas else [])]
    rows = [
        [name, f"{weights[name]:.3f}", f"{abs(weights[name]) / total:.0%}", *_area(areas, name)]
        for name in shown
    ]
    rest = order[len(shown) :]
    if rest:
        share = sum(abs(weights[name]) for name in rest) / total
        rows.append([f"{len(rest)} others", "", f"{share:.0%}", *([""] if areas else [])])
    last = [["fusion", "", "", *_area(areas, "fusion")]] if areas else []
    return console.table(header, rows + last)


def _area(areas: dict[str, float | None], name: str) -> list[str]:
    area = areas.get(name)
    return [] if not areas else ["" if area is None else f"{area:.3f}"]


def conclusion(found: dict[str, Any]) -> str:
    """Certificate, p, rows and threshold in sentences."""
    from lpfuse.tables._outcome import proof

    rows = found["learnt_from"]
    learnt = f"{rows['normal']:,} normal rows and {rows['anomalies']:,} anomalies"
    lines = [
        f"Weights {proof(found['certificate']['relative_gap'])} (p = {found['p']:g}), learnt from "
        f"{learnt}.",
    ]
    if found["auc"]:
        lines.append("AUC: of rows that neither the detectors nor the weights had seen.")
    rate = f"{100 * found['false_alarm_rate']:.3g} %"
    if isfinite(found["threshold"]):
        below = f"A score below {found['threshold']:.4g} is an anomaly"
        lines.append(f"{below}; about {rate} of all normal rows will be.")
    else:
        lines.append(
            f"No row will be called an anomaly: for {rate} false alarms, there are too few."
        )
    return "\n".join(lines)
