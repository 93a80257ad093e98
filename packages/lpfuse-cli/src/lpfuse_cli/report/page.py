"""The summary as one page of HTML that needs nothing but a browser: no network, no other file."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import datetime
from functools import cache
from hashlib import sha256
from os import PathLike
from typing import Any

from lpfuse._files import replacing
from lpfuse._format import (
    MISSING,
    fixed,
    number,
    per_cent,
    per_cent_range,
    percent,
    readable,
    rounded_up,
)
from lpfuse._validation.params import counted
from lpfuse_cli.alarms import alarm_table, describe_request
from lpfuse_cli.report.charts import calibration, histogram, points, shade, strange, trust

Summary = dict[str, Any]


def write_report(summary: Summary, path: str | PathLike[str]) -> None:
    """Write the page; the file appears whole or not at all.

    Parameters
    ----------
    summary : dict
        What `summarise` returned.
    path : path-like
        The file, usually ``….html``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from lpfuse import FusedDetector, GMMDetector, KernelPCADetector
    >>> from lpfuse_cli.report import summarise, write_report
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> detectors = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
    >>> fused = FusedDetector(detectors, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(summarise(fused), Path(folder) / "report.html")
    ...     page = (Path(folder) / "report.html").read_text(encoding="utf-8")
    >>> page.startswith("<!doctype html>")
    True
    """
    write_page(html(summary), path)


def write_page(page: str, path: str | PathLike[str]) -> None:
    """Write a page; the file appears whole or not at all."""
    with replacing(path) as file:
        file.write(page.encode("utf-8", "backslashreplace"))  # a name may be no valid text


def html(summary: Summary) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    summary : dict
        What `summarise` returned.
    """
    return rendered(
        "page.html",
        summary,
        styles=["page.css"],
        scripts=["alarms.js", "page.js"],
        **trust(summary),
        **_tables(summary),
        counts=_counts(summary["judged_on"]),
        data_name="standard input" if summary["files"]["data"] == "-" else summary["files"]["data"],
        tiles=_tiles(summary),
        threshold_words=_threshold_words(summary),
        histogram=histogram(summary),
        calibration=calibration(summary),
        alarm_rows=_alarm_rows(summary["alarms"]),
        alarm_table=alarm_table(summary),
        alarm_words=_alarm_words(summary["alarms"]),
        strange=strange(summary),
        data=_data(summary),
        proof=_proof(summary),
    )


def rendered(
    template: str, summary: Summary, styles: list[str], scripts: list[str], **values: Any
) -> str:
    """Render a page that runs its own style and script alone and holds its values as JSON.

    Parameters
    ----------
    template, styles, scripts : str, list of str, list of str
        Files of the folder ``template``.
    summary : dict
        Plain values: ``s`` in the template, JSON in its element.
    **values
        What else the template names.
    """
    from markupsafe import Markup

    environment = _environment()
    source = environment.loader.get_source
    style, code = (
        "".join(source(environment, name)[0] for name in names) for names in (styles, scripts)
    )
    policy = (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(code)}; "
        "base-uri 'none'; form-action 'none'"
    )
    page: str = environment.get_template(template).render(
        s=summary,
        policy=policy,
        style=Markup(style),  # nosec B704 # files of this package
        script=Markup(code),  # nosec B704 # a file of this package
        json=Markup(_embedded(summary)),  # nosec B704 # escaped in `_embedded`
        **values,
    )
    return page.strip() + "\n"


def _environment() -> Any:
    try:
        import jinja2  # noqa: F401
    except ImportError as error:
        raise ImportError('A page needs jinja2. Install it: pip install "lpfuse[cli]"') from error
    return _templates()


@cache  # compiled once: the page of a stream is written over and over
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("lpfuse_cli.report", "template"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": "{:,}".format,
        "date": lambda text: f"{datetime.fromisoformat(text):%d %B %Y, %H:%M} UTC",
        "fixed": fixed,
        "number": number,
        "percent": percent,
        "points": points,
        "readable": readable,
        "shade": shade,
        "signed": lambda value: number(value, 2, sign="+"),
        "rounded_up": rounded_up,
    }
    return environment


def _digest(text: str) -> str:
    """Return the digest that lets a browser run this text and no other."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _embedded(summary: Summary) -> str:
    """JSON that cannot end the element it stands in: all but ASCII is escaped, so is markup."""
    text = json.dumps(summary, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _tables(summary: Summary) -> dict[str, Any]:
    """Tabulate the curves and the path."""
    detectors, path = summary["detectors"], summary["path"]
    entries = [("fusion", summary["fusion"]), ("equal weights", summary["equal_weights"])]
    entries += [(detector["name"], detector) for detector in detectors]
    if summary["comparisons"]:
        entries += [(f"p = {entry['label']}", entry) for entry in path]
    grid = summary["grid"]
    return {
        "rates": [f"{rate:.0%}" for rate in grid["false_alarm_rates"]],
        "recalls": [f"{recall:.0%}" for recall in grid["recalls"]],
        "roc_rows": [[name, *map(percent, entry["found_at"] or [])] for name, entry in entries],
        "pr_rows": [[name, *map(percent, entry["precision_at"] or [])] for name, entry in entries],
        "path_head": ["p", "AUC", "gap", *(detector["name"] for detector in detectors)],
        "path_rows": [
            [
                entry["label"],
                fixed(entry["auc"]),
                rounded_up(entry["certificate"]["relative_gap"]),
                *(fixed(weight) for weight in entry["weights"]),
            ]
            for entry in path
        ],
    }


def _counts(judged: Summary) -> str:
    kinds = ("normal", "anomalies", "unlabelled")
    return ", ".join(f"{judged[kind]:,} {kind}" for kind in kinds if judged[kind])


def _tiles(summary: Summary) -> list[dict[str, str]]:
    """Return the headline figures."""
    first, alarms = summary["overview"], summary["alarms"]
    share = percent(first["alarms"] / first["rows"])
    tiles = [("alarms", f"{first['alarms']:,}", f"{share} of {first['rows']:,} rows")]
    tiles += _false_tile(alarms, first["likely_false"], first["guessed"])
    for name, figure in (("precision", first["precision"]), ("recall", first["recall"])):
        what = "right alarms" if name == "precision" else "anomalies found"
        if figure is None:
            tiles.append((f"{name}: {what}", MISSING, "not known"))
            continue
        interval = per_cent_range(figure["low"], figure["high"])
        if name == "precision" and not figure["measured"] and figure["low"] == 0:
            tiles.append((f"{name}: {what}", interval, "expected, not measured"))
            continue
        rests = "by labels" if figure.get("measured", True) else "expected, not measured"
        if name == "recall":
            rests = f"{figure['flagged']:,} of {figure['rows']:,} {figure['on']}"
        tiles.append((f"{name}: {what}", percent(figure["value"]), f"{interval}; {rests}"))
    if summary["comparisons"]:
        best, auc = summary["comparisons"][0], summary["fusion"]["auc"]
        beside = f"best detector, {best['name']}: {fixed(auc - best['gain'])}"
        tiles.append(("AUC of the fusion", fixed(auc), beside))
    return [dict(zip(("what", "value", "beside"), tile, strict=True)) for tile in tiles]


def _false_tile(
    alarms: Summary, likely: Summary | None, guessed: bool
) -> list[tuple[str, str, str]]:
    """Return false alarms: measured on normal rows, or expected among unlabelled alarms."""
    flatters = alarms["trained_on"]["flatters"]
    if (normal := alarms["taken_as_normal" if guessed else "normal"]) is not None:
        which = "rows" if guessed else "normal rows"
        beside = f"{normal['flagged']:,} of {normal['rows']:,} {which}"
        if flatters:
            beside += ", training rows: no measure of new ones"
        elif normal["verdict"]:
            beside += f"; {per_cent(alarms['asked'])} asked for"
        what = "flagged of rows taken as normal" if guessed else "false alarms, measured"
        return [(what, percent(normal["share"]), beside)]
    if flatters:
        return [("false alarms", MISSING, "training rows: no measure of new ones")]
    if likely is None:
        return []
    ends = f"{likely['low']:,} to {likely['high']:,}"
    beside = f"{ends} of {counted(alarms['unlabelled']['flagged'], 'alarm')}, by the calibration"
    return [("likely false", f"{likely['value']:,}", beside)]


def _alarm_words(alarms: Summary) -> str:
    """Return the sentence above the table of alarms."""
    told, n = describe_request(alarms), f"{alarms['calibration_rows']:,}"
    if any((alarms[kind] or {}).get("expected") for kind in ("normal", "unlabelled")):
        return (
            f"{told}. Expected is what as many rows like those of the calibration would give, in "
            f"95 of 100 cases; the threshold rests on {n} rows, and is uncertain itself."
        )
    if alarms["trained_on"]["flatters"]:
        return "The model learnt from these rows: there is nothing to compare their alarms with."
    return f"{told}." if told else ""


def _alarm_rows(alarms: Summary) -> list[list[str]]:
    """Alarms by kind of rows, as a table: those kinds that tell something of their own."""
    labels = [kind for kind in ("normal", "anomalies", "unlabelled") if alarms[kind]]
    names = {kind: kind for kind in labels}
    if len(labels) != 1 or alarms["trained_on"]["rows"]:
        names["rows"] = "all"
    if alarms["incomplete"]:
        names |= {"complete": "complete", "incomplete": "with gaps"}
    return [
        [
            name,
            f"{found['flagged']:,} of {found['rows']:,}",
            percent(found["share"]),
            per_cent_range(found["low"], found["high"]),
            per_cent_range(*found["expected"]) if found.get("expected") else MISSING,
        ]
        for kind, name in names.items()
        if (found := alarms[kind])
    ]


def _threshold_words(summary: Summary) -> str:
    threshold, judged = summary["threshold"], summary["judged_on"]
    flagged = [
        f"{threshold['flagged'][side]:,} of {judged[side]:,} {name}"
        for side, name in (
            ("normal", "normal rows"),
            ("anomalies", "anomalies"),
            ("unlabelled", "unlabelled rows"),
        )
        if judged[side]
    ]
    return (
        f"The dashed line is the threshold, {readable(threshold['value'])} ({threshold['rule']}): "
        f"rows to its left are called anomalies. They are {' and '.join(flagged)}."
    )


def _data(summary: Summary) -> list[tuple[str, str]]:
    data, taught = summary["data"], summary["data"]["taught"]
    facts = [
        ("columns", f"{data['columns']:,}"),
        ("learnt from", f"{taught['normal']:,} normal rows, {taught['anomalies']:,} anomalies"),
        ("judged on", f"{summary['judged_on']['rows']:,} rows"),
    ]
    return facts + [(key, data[key]) for key in ("label", "normal") if data[key] is not None]


def _proof(summary: Summary) -> list[tuple[str, str]]:
    certificate = summary["certificate"]
    if certificate is None:
        return [("status", "the fusion has none")]
    names = {"primal": "loss", "dual": "no weights below", "relative_gap": "relative gap"}
    return [
        ("status", certificate["status"]),
        *((name, number(certificate[key], 10)) for key, name in names.items()),
    ]
