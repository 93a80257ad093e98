"""``lpfuse teach``: a model that has learnt from answers, and how good it is by these."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any

import typer

from lpfuse.cli import _options as options
from lpfuse.cli import console
from lpfuse.cli._early import check_there
from lpfuse.cli._models import load_detector, model_errors


def teach(
    ctx: typer.Context,
    model: options.Model,
    answers: Annotated[
        str, typer.Argument(metavar="ANSWERS", help="The file that the page of `lpfuse ask` made.")
    ],
    out: options.NewModel,
    trust: options.Trust = None,
    key: options.Key = None,
    separator: options.Separator = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    quote: options.Quote = None,
    sheet: options.Sheet = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Learn from answers: weights, threshold and experts anew, the other detectors as they are.

    Says how the weights changed and, from the answers alone, how good the new model is.
    """
    check_there(answers, model=model)
    from lpfuse._files import check_target, write_errors
    from lpfuse._validation.params import counted
    from lpfuse.tables import TableModel, read_answers
    from lpfuse.tables._answers import features_of

    silent = as_json or console.is_quiet(ctx, quiet)
    check_target(out, [model, answers])
    with console.remarks(silent) as remarks:
        loaded = load_detector(model, trust or (), key, "Teaching")
        fused = loaded.fused if isinstance(loaded, TableModel) else loaded
        told = options.table_format(separator, decimal, encoding, quote, sheet)
        found = read_answers(answers, told)
        before = _weights(fused)
        with model_errors(model, "taught"):
            fused.teach(features_of(loaded, found.rows), found.y, chances=found.chances)
            # Labels from elsewhere alone say nothing of rows that nobody looked at.
            asked = bool((found.chances == found.chances).any())
            audit = fused.audit_answers() if asked else None
    with write_errors(out.name):
        loaded.save(out, **({} if key is None else {"key": key.read_bytes()}))
    after, n_normal = _weights(fused), int((found.y > 0).sum())
    counts = {"normal": n_normal, "anomalies": len(found.y) - n_normal, "left_out": found.undecided}
    if as_json:
        weights = {"before": before, "after": after}
        told = {
            "answers": counts,
            "weights": weights,
            "audit": audit and _plain(audit),
            "warnings": remarks,
        }
        console.show_json({"model": str(out), **told})
    elif not silent:
        console.say(
            f"{counted(len(found.y), 'answer')}: {n_normal:,} normal, "
            f"{counts['anomalies']:,} anomalies; left out, for nobody knows: {found.undecided:,}."
        )
        if after:
            console.show(f"\n{_changes(before, after)}", False)
        said = "No row was asked about with a known chance: there is no audit."
        console.say(f"\n{audit.summary() if audit else said}\n\nSaved {out}.")


def _plain(audit: Any) -> dict[str, Any]:
    """An audit in terms of JSON: each estimate with its ends by name."""
    values = {field.name: getattr(audit, field.name) for field in fields(audit)}
    return {key: v._asdict() if hasattr(v, "_asdict") else v for key, v in values.items()}


def _weights(fused: Any) -> dict[str, float]:
    """Of each detector, as far as the fusion has them."""
    weights = getattr(fused, "weights_", ())
    return dict(zip(fused.detector_names_, map(float, weights), strict=False))


def _changes(before: dict[str, float], after: dict[str, float]) -> str:
    """The weights side by side, the largest of the new ones first; an expert may be new."""
    names = sorted({**before, **after}, key=lambda name: -after.get(name, 0.0))
    cells = [
        [f"{weights[name]:.3f}" if name in weights else "" for weights in (before, after)]
        for name in names
    ]
    rows = [[name, *pair] for name, pair in zip(names, cells, strict=True)]
    return console.table(["detector", "weight before", "after"], rows)
