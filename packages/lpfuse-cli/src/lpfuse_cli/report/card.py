"""Texts of others in Markdown: they stay text, whatever they hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any

from lpfuse._files import replacing
from lpfuse._format import (
    fixed,
    number,
    per_cent,
    per_cent_range,
    printable,
    readable,
    rounded_up,
    shortened,
)
from lpfuse._validation.params import counted
from lpfuse_cli.alarms import describe_request, describe_shortage
from lpfuse_cli.report.summary import summarise

# ---------------------------------------------------------------------------------------- Markdown

# What begins markup inside a line: CommonMark and GitHub's tables, HTML, links, formulas, names.
MARKUP = re.compile(r"[\\`*_\[\]<>|~&$@]")
# What begins a block at the start of a line.
BLOCK = re.compile(r"^(?=[#+=-])|^(\d+)(?=[.)]\s)")
# What GitHub makes a link of without being asked: an entity is never a part of an address.
ADDRESS = re.compile(r":(?=//)|(?<=\bwww)\.", re.IGNORECASE)
WIDEST = 200  # columns of a text in a cell; chosen by hand


def escaped(text: object, width: int = WIDEST) -> str:
    r"""Escape a text so that Markdown shows it as it is, on one line.

    Parameters
    ----------
    text : object
        What somebody's table or call holds.
    width : int, default=200
        Columns from which its middle is left out.

    Examples
    --------
    >>> print(escaped("a|b *c*\n<i>"), escaped("# x"), escaped("1. y"), escaped("https://a.b"))
    a\|b \*c\* \<i\> \# x 1\. y https&#58;//a.b
    """
    line = shortened(printable(" ".join(str(text).split())), width)
    line = MARKUP.sub(lambda found: f"\\{found[0]}", line)
    line = BLOCK.sub(lambda found: (found[1] or "") + "\\", line)
    return ADDRESS.sub(lambda found: f"&#{ord(found[0])};", line)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""Format a table; cells are escaped.

    Examples
    --------
    >>> print(table(["name", "rows"], [["a|b", 3]]))
    | name | rows |
    |---|---|
    | a\|b | 3 |
    """
    lines = [head, *([escaped(cell) for cell in row] for row in rows)]
    first, *rest = (f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([first, "|" + "---|" * len(head), *rest])


def bullets(sentences: Iterable[str]) -> str:
    """Format a list; its items are escaped.

    Examples
    --------
    >>> print(bullets(["One.", "Two."]))
    - One.
    - Two.
    """
    return "\n".join(f"- {escaped(sentence, 10 * WIDEST)}" for sentence in sentences)


# ---------------------------------------------------------------------------------------- the card

Summary = dict[str, Any]
MOST_COLUMNS = 100  # that a card lists; chosen by hand
BY = {
    "split": "kept back: nothing has learnt from them",
    "cross": "training rows, each scored by fits that have not seen it",
    "forward": "a rehearsal: rows after the first third, each scored by fits to earlier rows",
    "plain": "training rows out of fold, as they are: false alarms may be off by twice the rate",
}
# True of every model, whatever it learnt from.
LIMITS = (
    "It ranks rows by how unlike the training rows they are, and by labelled anomalies where there "
    "were some. Rare is not wrong, and a kind of anomaly that no detector sees is not found.",
    "The rate of false alarms holds for rows like those of the calibration. Where the world moves "
    "on, it does not: compare alarms asked for and measured again and again.",
    "The proof is about the weights: no others have a lower loss on the same scores. It does not "
    "say that the loss is what matters, nor that the scores are good.",
    "Nothing here was checked for fairness to groups of people, nor for safety. A decision about "
    "people or machines needs a person, and measurements that are not on this card.",
    "The saved model holds its training rows: give it only to who may see them.",
)


def write_card(
    model: Any,
    path: str | PathLike[str],
    X: Any = None,
    y: Any = None,
    *,
    title: str = "Model card",
    use: str | None = None,
) -> None:
    """Write a model card in Markdown; the file appears whole or not at all.

    Parameters
    ----------
    model : FusedDetector
        Fitted.
    path : path-like
        The file, usually ``….md``; one that is there is replaced.
    X, y : rows and labels, optional
        To measure on, as for `summarise`; without them the training rows, each by what was learnt
        without it.
    title : str, default="Model card"
        The heading.
    use : str, optional
        What the model is meant for, as plain text. Without it the card says that nobody told.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from lpfuse import FusedDetector, GMMDetector, KernelPCADetector
    >>> from lpfuse_cli.report import write_card
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> detectors = [("kpca", KernelPCADetector()), ("gmm", GMMDetector())]
    >>> fused = FusedDetector(detectors, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_card(fused, Path(folder) / "card.md", use="To try the card.")
    ...     card = (Path(folder) / "card.md").read_text(encoding="utf-8")
    >>> [line for line in card.splitlines() if line.startswith("#")][:4]
    ['# Model card', '## Intended use', '## Data', '## Detectors and weights']
    """
    text = markdown(model, summarise(model, X, y), title, use)
    with replacing(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))  # a name may be no valid text


def markdown(model: Any, summary: Summary, title: str, use: str | None) -> str:
    """Return the card as Markdown.

    Parameters
    ----------
    model : FusedDetector
        For what the summary leaves out: names and kinds of columns, answers, what calibrates.
    summary : dict
        What `summarise` returned of it.
    title, use : str, str or None
        As in `write_card`.
    """
    sections = {
        "Intended use": _use(use),
        "Data": [_rows(model, summary), *_columns(model), *_notes(summary)],
        "Detectors and weights": [_detectors(model, summary), *_proof(summary)],
        "Calibration": list(_calibration(model, summary)),
        "What was measured": _measured(summary),
        "Limits": [bullets(LIMITS)],
        "Settings": [table(["parameter", "value"], summary["settings"].items())],
        "Versions": [_versions(summary)],
    }
    parts = [f"# {escaped(title)}", _first(model, summary)]
    for name, paragraphs in sections.items():
        parts += [f"## {name}", *paragraphs]
    return "\n\n".join(part for part in parts if part) + "\n"


def _first(fused: Any, summary: Summary) -> str:
    detectors = counted(len(summary["detectors"]), "anomaly detector")
    return (
        f"{detectors}, fused into one by {escaped(summary['fusion']['what'])}: a score for each "
        f"row, high for normal ones; below {readable(summary['threshold']['value'])} a row is "
        f"called an anomaly. Class `{type(fused).__name__}` of lpfuse "
        f"{escaped(summary['versions']['lpfuse'])}; card of {escaped(summary['created'])}."
    )


def _use(use: str | None) -> list[str]:
    told = escaped(use, 10_000) if use else "The intended use is not stated. State it before use."
    return [
        told,
        "Meant to put rows before a person, the strangest first. Not meant to decide alone where a "
        "wrong answer harms somebody.",
    ]


def _rows(fused: Any, summary: Summary) -> str:
    """How many rows of which kind, and what was said of them."""
    data, known = summary["data"], fused.out_of_fold_.known
    taught = data["taught"]
    facts = [("rows learnt from", f"{taught['normal'] + taught['anomalies']:,}")]
    if known is None:
        facts += [("labels", "not kept")]
    else:
        kinds = {"normal": known > 0, "anomalies": known < 0, "unlabelled": known == 0}
        counts = (f"{int(rows.sum()):,} {name}" for name, rows in kinds.items() if rows.any())
        facts += [("labels", ", ".join(counts))]
        artificial = taught["anomalies"] - int((known < 0).sum())
        if artificial > 0:
            facts.append(("artificial anomalies", f"{artificial:,}"))
    if fused.unseen_.n_split:
        facts.append(("rows kept back", f"{fused.unseen_.n_split:,}"))
    if fused.rows_.n_added:
        facts.append(("rows that came with answers", f"{fused.rows_.n_added:,}"))
    facts += [(f"column of {key}s", data[key]) for key in ("label",) if data[key] is not None]
    facts += [("label of normal rows", data["normal"] or "nothing")] * (data["normal"] is not None)
    made, columns = fused.preparation_, f"{data['columns']:,}"
    if made is not None and len(made.columns) < len(made.names):
        columns += f", of which {len(made.columns):,} are used"
    return table(["what", "value"], [*facts, ("columns", columns)])


def _columns(model: Any) -> Iterator[str]:
    """Yield tables of the columns in use and of those left out."""
    preparation = model.preparation_
    if preparation is None:
        names = getattr(model, "feature_names_in_", None)
        kind = "number" if model.rows_.values is not None else "number or word"
        if names is None:
            yield f"The rows were an array without names: {model.n_features_in_:,} columns."
            return
        found = [(name, kind) for name in names]
        yield from _cut(["column", "taken as"], found)
        return
    kinds, gaps, ranges = preparation.kinds, preparation.gaps, preparation.ranges
    yield from _cut(
        ["column", "taken as", "missing cells", "98 % of the rows lie in"],
        [
            (name, kinds[name], f"{gaps.get(name, 0):,}", _range(ranges.get(name)))
            for name in preparation.columns
        ],
    )
    dropped = [(name, kinds.get(name, ""), why) for name, why in preparation.dropped.items()]
    if dropped:
        yield "Not used:"
        yield from _cut(["column", "taken as", "why"], dropped)


def _range(ends: list[float] | None) -> str:
    return "" if ends is None else f"{readable(ends[0])} to {readable(ends[-1])}"


def _cut(head: list[str], rows: list[tuple[Any, ...]]) -> Iterator[str]:
    yield table(head, rows[:MOST_COLUMNS])
    if len(rows) > MOST_COLUMNS:
        yield f"And {len(rows) - MOST_COLUMNS:,} columns more."


def _notes(summary: Summary) -> list[str]:
    return [bullets(summary["data"]["notes"])]


def _detectors(fused: Any, summary: Summary) -> str:
    experts = {member.name for member in fused.pool_.experts}
    return table(
        ["detector", "made of", "learns from", "columns", "weight", "share", "AUC"],
        [
            (
                found["name"],
                found["what"],
                "labels" if found["name"] in experts else "normal rows",
                "all" if found["columns"] is None else f"{found['columns']:,}",
                number(found["weight"]),
                number(found["share"], 2),
                fixed(found["auc"]),
            )
            for found in summary["detectors"]
        ],
    )


def _proof(summary: Summary) -> Iterator[str]:
    certificate = summary["certificate"]
    if certificate is None:
        yield "There is no proof: this fusion does not minimise a loss that lpfuse can bound."
        return
    gap = rounded_up(certificate["relative_gap"])
    yield (
        f"**Proof.** Loss {number(certificate['primal'], 10)}, and no weights have one below "
        f"{number(certificate['dual'], 10)}: a relative gap of at most {gap} "
        f"(status: {escaped(certificate['status'])})."
    )


def _calibration(fused: Any, summary: Summary) -> Iterator[str]:
    """Yield the requested rate, the calibration rows, and what was measured."""
    alarms = summary["alarms"]
    rate = alarms["asked"] is not None and alarms["of"] == "normal"  # else all rows set it
    threshold = f"Threshold {readable(summary['threshold']['value'])}: "
    yield f"{'' if alarms['adaptive'] else threshold}{summary['threshold']['rule']}."
    yield escaped(describe_shortage(alarms) or alarms["promise"], 1000)
    facts = [
        ("asked for", describe_request(alarms) or "no rate"),
        (
            "rests on" if rate else "p-values rest on",
            counted(alarms["calibration_rows"], "normal row"),
        ),
        ("these rows are", BY[fused.unseen_.by]),
    ]
    if alarms["long_run"]:
        told = f"{per_cent_range(*alarms['long_run'])} (95 % of such calibrations)"
        facts.append(("to be expected in the long run", told))
    guessed = summary["overview"]["guessed"]
    measured = alarms["taken_as_normal" if guessed else "normal"]
    where = f"measured on {'rows taken as normal' if guessed else 'normal rows'}"
    if measured is None:
        facts.append((where, "nothing: no row is known to be normal"))
    else:
        interval = per_cent_range(measured["low"], measured["high"])
        told = f"{measured['flagged']:,} of {measured['rows']:,} rows"
        share = per_cent(measured["share"])
        facts.append((where, f"{share}: {told} (95 %: {interval})"))
    yield table(["false alarms" if rate else "alarms", ""], facts)
    if alarms["trained_on"]["flatters"]:
        yield "The detectors were fitted to the rows of this measurement, so it is optimistic."


def _measured(summary: Summary) -> list[str]:
    judged = summary["judged_on"]
    kinds = ("normal", "anomalies", "unlabelled")
    counts = ", ".join(f"{judged[kind]:,} {kind}" for kind in kinds if judged[kind])
    fused, equal = summary["fusion"], summary["equal_weights"]
    parts = [f"On {escaped(judged['words'], 1000)}: {counts}."]
    if fused["auc"] is not None:
        best = max(summary["detectors"], key=lambda found: found["auc"])
        rivals = [("fusion", fused), ("equal weights", equal), (f"best: {best['name']}", best)]
        figures = ("auc", "average_precision")
        rows = [(name, *(fixed(found[key]) for key in figures)) for name, found in rivals]
        parts.append(table(["", "AUC", "average precision"], rows))
    told = [*summary["remarks"], *summary["words"]["alarms"], *summary["words"]["fusing"]]
    return [*parts, bullets(told)]


def _versions(summary: Summary) -> str:
    return table(["package", "version"], summary["versions"].items())
