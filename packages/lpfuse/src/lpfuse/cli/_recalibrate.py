"""``lpfuse recalibrate``: the same model for rows that have changed."""

from __future__ import annotations

import typer

from lpfuse.cli import _options as options
from lpfuse.cli import console
from lpfuse.cli._early import check_there
from lpfuse.cli._models import load_detector, model_errors


def recalibrate(
    ctx: typer.Context,
    model: options.Model,
    data: options.Data,
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
    """Move threshold, p-values and scale to normal rows as they come now.

    Detectors and weights stay. Rows should be normal, and the model should not have learnt from
    them; where they have the column of labels, known anomalies are left out. Says what is promised
    of false alarms.
    """
    check_there(data, model=model)
    from lpfuse._files import check_target, write_errors
    from lpfuse.tables import TableModel, read_table
    from lpfuse.tables._answers import features_of
    from lpfuse.threshold import calibration_promise

    silent = as_json or console.is_quiet(ctx, quiet)
    check_target(out, [model, data])
    with console.remarks(silent) as remarks:
        loaded = load_detector(model, trust or (), key, "Recalibrating")
        of_tables = isinstance(loaded, TableModel)
        fused = loaded.fused if of_tables else loaded
        told = options.table_format(separator, decimal, encoding, quote, sheet)
        frame = read_table(data, format=told | getattr(loaded, "format", told))
        before = float(fused.offset_)
        with model_errors(model, "recalibrated"):
            if of_tables:
                loaded.recalibrate(frame)
            else:
                fused.recalibrate(features_of(loaded, frame))
    with write_errors(out.name):
        loaded.save(out, **({} if key is None else {"key": key.read_bytes()}))
    n = len(fused.calibration_)
    promise = calibration_promise(n, fused.false_alarm_rate, fused.confidence).sentence()
    if as_json:
        offsets = {"before": before, "after": float(fused.offset_)}
        found = {"rows": len(frame), "calibration_rows": n, "offset": offsets, "promise": promise}
        console.show_json({"model": str(out), **found, "warnings": remarks})
    elif not silent:
        console.say(f"Threshold {before:.4g} before, {fused.offset_:.4g} now. {promise}")
        console.say(f"Saved {out}.")
