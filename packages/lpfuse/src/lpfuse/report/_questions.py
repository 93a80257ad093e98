"""Rows to ask a person about: why each is asked, what is odd in it, and a page to answer on."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import sha256
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._files import as_json, versions
from lpfuse._format import MINUS, number, percent, shortened
from lpfuse._validation.params import counted
from lpfuse.ensemble import FusedDetector
from lpfuse.report._measures import rounded
from lpfuse.report._page import rendered, write_page
from lpfuse.tables import TableModel
from lpfuse.tables._answers import MEANINGS, answer_file, are_empty, cells_of, features_of
from lpfuse.tables._cells import is_number, is_text

if TYPE_CHECKING:
    import polars

# Chosen by hand, for a page that is read on a phone:
UNUSUAL = 0.05  # share of rows whose value lies as far out, from where one is worth a word
FEW = 16  # values that are shown in the order of the file; of more, the oddest first
NAMES = 3  # of columns that the model does not use, before these: they may say which row it is
MOST = 200  # values of a row that are shown at all
LOUDEST = 12  # detectors that are shown, those that say most
LONGEST = 200  # letters of a value

Questions = dict[str, Any]


def ask(
    model: TableModel | FusedDetector,
    frame: polars.DataFrame,
    n_questions: int = 10,
    *,
    random_state: int | None = 0,
) -> Questions:
    """Choose rows whose answers help most, see :meth:`FusedDetector.query`, and describe them.

    Parameters
    ----------
    model : TableModel or FusedDetector
        Fitted.
    frame : polars.DataFrame
        Rows to choose from, as `lpfuse.tables.read_table` reads them. Those that hold no value in
        the columns of the model are never asked about.
    n_questions : int, default=10
        How many; fewer, where there are not as many rows.
    random_state : int, optional
        Seed of the draw.

    Returns
    -------
    dict
        Plain values: ``questions``, one for each row, the names of the ``detectors``, how many
        ``rows`` there were to choose from, and the pieces of the file of answers.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from lpfuse.report import ask
    >>> from lpfuse.tables import TableModel
    >>> rows = pl.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), schema=["a", "b"])
    >>> found = ask(TableModel.fit(rows, detectors=["gmm", "kpca"]), rows, 3)
    >>> len(found["questions"]), found["rows"], found["header"]
    (3, 60, 'row,answer,chance,a,b')
    """
    fused, label = (model.fused, model.label) if isinstance(model, TableModel) else (model, None)
    cells = cells_of(model, frame)
    some = np.flatnonzero(~are_empty(cells))
    if not len(some):
        raise ValueError("No row has a value in the columns of the model. Bring rows to ask about.")
    features = features_of(model, frame[some])
    wanted = min(n_questions, len(some))
    found, chances = fused.query(features, wanted, random_state=random_state, return_chances=True)
    positions = some[found]
    # The label is what is asked.
    held = frame.select(name for name in frame.columns if name != label)
    # Texts will be read as these were; other cells are written as the model sees them.
    texts = {column.name for column in held if is_text(column)}
    asked = held.with_columns(each for each in cells if each.name not in texts)[positions]
    header, lines = answer_file(asked, positions.tolist(), chances.tolist())
    used = set(cells.columns)
    columns = [
        _described(column, cells[column.name] if column.name in used else None, positions)
        for column in held
    ]
    told = _judged(fused.verdicts(features[found]))
    questions = [
        {"row": int(row), "chance": float(chance), "before": line[0], "behind": line[1], **said}
        | {"values": list(values)}
        for row, chance, line, said, *values in zip(
            positions, chances, lines, told, *columns, strict=True
        )
    ]
    for question in questions:
        question["why"] = _reasons(question, average=len(positions) / len(some))
    return {
        "questions": questions,
        "detectors": list(fused.detector_names_),
        "rows": len(some),
        "header": header,
        "answers": list(MEANINGS),
        # What answers are kept under: other questions, other answers.
        "key": "lpfuse-" + sha256(json.dumps([header, lines]).encode()).hexdigest()[:32],
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": versions()["lpfuse"],
    }


def write_questions(questions: Questions, path: str | PathLike[str]) -> None:
    """Write the page to answer on; the file appears whole or not at all.

    Parameters
    ----------
    questions : dict
        What `ask` returned.
    path : path-like
        The file, usually ``….html``.
    """
    write_page(html(questions), path)


def html(questions: Questions) -> str:
    """The page.

    Parameters
    ----------
    questions : dict
        What `ask` returned.
    """
    parts = [part for q in questions["questions"] for part in q["contributions"] or []]
    longest = max((abs(part) for part in parts if part is not None), default=0.0) or 1.0
    needed = ("header", "answers", "key")
    lines = [{key: q[key] for key in ("row", "before", "behind")} for q in questions["questions"]]
    return rendered(
        "questions.html",
        {key: questions[key] for key in needed} | {"questions": lines},
        styles=["page.css", "questions.css"],
        scripts=["questions.js"],
        made=questions,
        shown=[_shown(q, questions["detectors"], longest) for q in questions["questions"]],
    )


def _judged(verdicts: Any) -> list[Questions]:
    """What the model says of each row; of detectors that are silent, None."""
    silent = np.isnan(verdicts.detector_scores)
    parts = verdicts.contributions
    return [
        {
            "score": as_json(verdicts.scores[i]),
            "p_value": as_json(verdicts.pvalues[i]),
            "normal": bool(verdicts.decision[i] >= 0),
            "contributions": None
            if parts is None
            else rounded(np.where(silent[i], np.nan, parts[i])),
        }
        for i in range(len(silent))
    ]


# ------------------------------------------------------------------------------------ the values


def _described(
    held: polars.Series, seen: polars.Series | None, rows: NDArray[np.intp]
) -> list[Questions]:
    """Of each asked row its value as text and, in a column of the model, where that lies.

    Parameters
    ----------
    held, seen : polars.Series
        A column of the file, and the same as the model sees it; None: it does not.
    rows : ndarray
        The asked rows.

    Returns
    -------
    list of dict
        ``name``; ``text``, None where it is missing; ``place``, the share of rows with a lower
        number, ties by half; ``tail``, the share of rows that lie as far out, or hold the same, and
        whether that is ``odd``; ``note``, in words.
    """
    name, texts = held.name, [_text(value) for value in held[rows]]
    if seen is None:
        return [_value(name, text, "not used by the model") for text in texts]
    if not is_number(seen):
        counts = [int(seen.eq_missing(value).sum()) for value in seen[rows]]
        return [
            _common(name, text, count, len(seen)) for text, count in zip(texts, counts, strict=True)
        ]
    values = np.array(seen.cast(float).fill_null(np.nan), dtype=np.float64)
    known = np.sort(values[~np.isnan(values)])
    n, asked = len(known), values[rows]
    below, above = np.searchsorted(known, asked), n - np.searchsorted(known, asked, "right")
    return [
        _common(name, None, len(values) - n, len(values))
        if text is None or np.isnan(value)
        else _ranked(name, _figure(text, value), int(low), int(high), n)
        for text, value, low, high in zip(texts, asked, below, above, strict=True)
    ]


def _text(value: Any) -> str | None:
    return None if value is None or value != value else shortened(str(value), LONGEST)


def _figure(text: str, value: float) -> str:
    """A number for the eye: whole where it is, else with 6 digits; true and false as they are."""
    if text.casefold() in ("true", "false"):
        return text
    whole = value == round(value) and abs(value) < 1e15
    return f"{value:.0f}".replace("-", MINUS) if whole else number(value, 6)


def _value(
    name: str, text: str | None, note: str, place: float | None = None, tail: float | None = None
) -> Questions:
    odd = tail is not None and tail <= UNUSUAL
    return {"name": name, "text": text, "note": note, "place": place, "tail": tail, "odd": odd}


def _common(name: str, text: str | None, count: int, n: int) -> Questions:
    """A text, or a gap, that so many of n rows have."""
    return _value(name, text, f"{count:,} of {n:,} rows", tail=count / n)


def _ranked(name: str, text: str, below: int, above: int, n: int) -> Questions:
    """A number with so many of n below and above it, ties with neither."""
    place = (below + n - above) / (2 * n)
    tail = 2 * min(place, 1 - place)
    beyond, side = min((below, "lowest"), (above, "highest"))
    last = beyond + n - below - above
    note = f"the {side} of {n:,}" if last == 1 else f"among the {last:,} {side} of {n:,}"
    return _value(name, text, note if tail <= UNUSUAL else "", place, tail)


# -------------------------------------------------------------------------------------- the words


def _reasons(question: Questions, average: float) -> list[str]:
    """Why a row is asked, as far as score and chance tell."""
    called = "normal" if question["normal"] else "an anomaly"
    verdict = f"The model calls this row {called}"
    if question["p_value"] is not None:
        strange = _percent(question["p_value"])
        verdict += f": of normal rows, about {strange} look at least as strange"
    odd = sum(value["odd"] for value in question["values"])
    if odd:
        verdict += f"; {counted(odd, 'value')} below {'is' if odd == 1 else 'are'} unusual"
    chance = question["chance"]
    drawn = f"it was asked with a chance of {_percent(chance)}, the average row with "
    drawn += _percent(average)
    if average >= 1:
        why = "Every row of the file is asked about"
    elif chance >= 2 * average:
        why = f"Its answer tells much: {drawn}"
    elif chance <= average:
        why = (
            f"It is one of the rows that are seldom asked about ({drawn}): without some of these "
            "nobody would know what the model misses"
        )
    else:
        why = drawn.capitalize()
    return [f"{verdict}.", f"{why}."]


def _percent(share: float) -> str:
    """Two digits, or whole per cents from 10 on."""
    return percent(share, 0) if share >= 0.0995 else f"{number(100 * share, 2)} %"


def _shown(question: Questions, detectors: list[str], longest: float) -> Questions:
    """A question as the template takes it."""
    values = question["values"]
    if len(values) > FEW:
        names = [value for value in values if value["tail"] is None][:NAMES]
        rest = [value for value in values if value not in names]
        rest.sort(key=lambda value: 2.0 if value["tail"] is None else value["tail"])
        values = names + rest
    parts = question["contributions"] or []
    order = sorted(range(len(parts)), key=lambda j: -abs(parts[j] or 0.0))
    return {
        **question,
        "values": values[:FEW],
        "more": values[FEW:MOST],
        "hidden": max(0, len(values) - MOST),
        "parts": [_bar(j, detectors[j], parts[j], longest) for j in order[:LOUDEST]],
        "others": max(0, len(parts) - LOUDEST),
    }


def _bar(j: int, name: str, part: float | None, longest: float) -> Questions:
    """A bar to the left for what speaks for an anomaly, to the right for a normal row."""
    width = 50 * abs(part or 0.0) / longest
    says = (
        "silent" if part is None else "anomaly" if part < 0 else "normal" if part > 0 else "neither"
    )
    x = 50 - width if part is not None and part < 0 else 50
    return {"j": j, "name": name, "value": part, "x": x, "width": width, "says": says}
