"""Rows to ask a person about, the page to answer on, and the file of the answers."""

from __future__ import annotations

import csv
import io
import json
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays.operations import Host
from lpfuse._files import as_json, versions
from lpfuse._format import MINUS, number, percent, plain, quote, shortened
from lpfuse._validation.params import counted, quoted
from lpfuse.ensemble import FusedDetector
from lpfuse.frames import TableFormat
from lpfuse.frames.cells import (
    OPEN,
    check_names,
    first_cell,
    is_number,
    is_text,
    labels_of,
    numbers_of,
    polars_module,
)
from lpfuse_cli.report.measures import rounded
from lpfuse_cli.report.page import rendered, write_page
from lpfuse_cli.scoring import cells_of, features_of, rows_of
from lpfuse_cli.tables import (
    FORMULA,
    MISSING,
    describe_labels,
    describe_numbers,
    numbered_errors,
    read_table,
)

if TYPE_CHECKING:
    import polars

# ----------------------------------------------------------------------------- the file of answers

MEANINGS = {"normal": 1.0, "anomaly": -1.0, "don't know": 0.0}
OWN_COLUMNS = ("row", "answer", "chance")  # of the file, before those of the rows
LEAST_CHANCE = 1e-18  # of more rows than any table has; weights of lower ones would overflow
# Texts that would not come back as they are: those in apostrophes, and those with what readers of
# CSV disagree on, above all in names of columns.
_PROTECTED = re.compile(r"'.*'|.*[\"\x00-\x1f\x7f].*", re.DOTALL)


def rows_without_cells(cells: polars.DataFrame) -> NDArray[np.bool_]:
    """Rows that hold no value at all: nobody could be asked about them."""
    pl = polars_module()
    known = cells.with_columns(pl.selectors.float().fill_nan(None))
    found: NDArray[np.bool_] = (
        known.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
    )
    return found


def answer_file(
    rows: polars.DataFrame, positions: Sequence[int], chances: Sequence[float]
) -> tuple[str, list[tuple[str, str]]]:
    """Prepare the file of answers, without the answers: CSV, in pieces.

    Texts that `read_table` would change, or a spreadsheet run, and names that are those of
    `OWN_COLUMNS`, stand in apostrophes, written as in JSON; so do those that stand in apostrophes
    already. What `read_answers` reads is thereby what was written.

    Parameters
    ----------
    rows : polars.DataFrame of n rows
        Those that are asked about, without other columns than theirs.
    positions, chances : sequences of length n
        Where they are in their file, from 0, and with which chance each was asked.

    Returns
    -------
    header : str
        The first line.
    lines : list of (str, str)
        Of each row what stands before its answer, and behind it.
    """
    names = [_escape(name, OWN_COLUMNS) for name in rows.columns]
    lines = [
        (_line([position]) + ",", "," + _line([float(chance), *map(_written, row)]))
        for position, chance, row in zip(positions, chances, rows.iter_rows(), strict=True)
    ]
    return _line([*OWN_COLUMNS, *names]), lines


def _line(cells: Sequence[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


def _written(value: Any) -> str:
    """Write a cell: empty where missing; floats with all digits that they need."""
    if value is None or value != value:
        return ""
    return _escape(value) if isinstance(value, str) else str(value)


def _escape(text: str, taken: Sequence[str] = ()) -> str:
    """Put a text in apostrophes where it would not be read back unchanged."""
    runs = re.match(FORMULA, text) and not _spells_number(text)
    if runs or text != text.strip() or text in {*MISSING, *taken} or _PROTECTED.fullmatch(text):
        inside = json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', "\\u0022")
        return f"'{inside}'"
    return text


def _unescape(text: str | None) -> str | None:
    """Undo `_escape`; other texts stay as they are."""
    if text is None or len(text) < 2 or not text[0] == text[-1] == "'":
        return text
    with suppress(ValueError):
        found = str(json.loads(f'"{text[1:-1]}"'))
        found.encode()  # half of a surrogate pair is no text
        return found
    return text


def _spells_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


@dataclass(frozen=True)
class Answers:
    """What a person said about rows.

    Attributes
    ----------
    rows : polars.DataFrame of n rows
        With the columns of the file that they are from.
    y : ndarray of shape (n,)
        +1 normal, −1 anomaly.
    chances : ndarray of shape (n,)
        With which each was asked; NaN where the file says nothing.
    undecided : int
        How many rows more there were, with "don't know" or nothing for an answer.
    note : str
        Which labels of a table were taken as what; empty for the file of the page.
    numbers : sequence of n ints
        Of the rows in the file, see `read_table`.
    features : ndarray or None
        Of the rows with those before them, for a model with time.
    """

    rows: polars.DataFrame
    y: Host
    chances: Host
    undecided: int
    note: str = ""
    numbers: Sequence[int] = ()
    features: Host | None = None


def _format_of(path: str | Path) -> TableFormat:
    """How the page writes, where a file begins as its own do; other programs may save it anew."""
    path = Path(path).expanduser()
    if path.is_file():  # a pipe would wait for its writer: `read_table` refuses it
        with suppress(OSError), path.open("rb") as file:
            if file.read(32).removeprefix(BOM_UTF8).startswith(b"row,answer,chance"):
                return TableFormat(separator=",", decimal=".", encoding="utf-8", quote='"')
    return TableFormat(quote='"')


def read_answers(path: str | Path, format: TableFormat = OPEN) -> Answers:
    r"""Read a file of answers, as the page of `lpfuse_cli.report.write_questions` exports it.

    Parameters
    ----------
    path : str or path
        A table, see `read_table`, with the columns ``answer`` and ``chance`` beside those of rows.
    format : TableFormat, optional
        How it is written; quotes are double ones, for apostrophes protect texts.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "answers.csv"
    >>> lines = ["row,answer,chance,bar", "7,normal,0.5,2.5", "9,don't know,0.5,2.6"]
    >>> _ = path.write_text("\n".join(lines))
    >>> answers = read_answers(path)
    >>> answers.rows.rows(), answers.y, answers.undecided
    ([('2.5',)], array([1.]), 1)
    """
    numbers: list[int] = []
    table = read_table(path, format=format | _format_of(path), numbers=numbers)
    with numbered_errors(lambda: numbers):
        return _answers_in(path, table, np.array(numbers))


def _answers_in(path: str | Path, table: polars.DataFrame, numbers: Host) -> Answers:
    """Take the answers from the table of a file."""
    pl = polars_module()
    name = "Standard input" if str(path) == "-" else plain(Path(path).name)
    lacking = [column for column in ("answer", "chance") if column not in table.columns]
    if lacking:
        raise ValueError(
            f"{name} lacks {quoted(lacking)}: expected the file that the page of `lpfuse ask` "
            f"exports, with {quoted(OWN_COLUMNS)} before the columns of the rows. Export it again, "
            "or, for a table with labels, name their column: label=COLUMN"
        )
    y = _meanings(name, table["answer"])
    decided = y != 0
    if not decided.any():
        raise ValueError(
            f"{name} says of no row whether it is normal or an anomaly ({counted(len(y), 'row')} "
            "without an answer), so there is nothing to learn. Answer some questions first."
        )
    chances = numbers_of(table["chance"])
    wrong = pl.Series((chances < LEAST_CHANCE) | (chances > 1))
    if wrong.any():
        raise ValueError(
            f"{name}: a chance must lie between {LEAST_CHANCE:g} and 1; "
            f"{first_cell(table['chance'], wrong)}. Export the answers again, or leave the cell "
            "empty where a label is from elsewhere."
        )
    rows = table.drop(OWN_COLUMNS, strict=False)
    texts = pl.selectors.string().map_elements(_unescape, return_dtype=pl.String)
    names = {column: str(_unescape(column)) for column in rows.columns}
    if twice := [meant for meant, count in Counter(names.values()).items() if count > 1]:
        raise ValueError(
            f"{name}: two columns are called {quote(twice[0])}. Export the answers again."
        )
    rows = rows.with_columns(texts).rename(names)
    return Answers(
        rows.filter(decided), y[decided], chances[decided], int((~decided).sum()),
        numbers=numbers[decided].tolist(),
    )  # fmt: skip


def read_labelled(
    model: FusedDetector,
    path: str | Path,
    label: str,
    normal: list[str] | None = None,
    anomaly: list[str] | None = None,
    format: TableFormat = OPEN,
) -> Answers:
    """Read a table with a column of labels, of rows that were not asked about.

    Parameters
    ----------
    model : FusedDetector
        Fitted; a table is written as its training rows were, and labels mean the same.
    path : str or path
        The table, see `read_table`.
    label : str
        The column of labels; where it is empty, nothing is known.
    normal, anomaly : list of str, optional
        Labels of normal rows, and of anomalies, as in `lpfuse_cli.fitting.fit_table`. If neither is
        given, those of the model.
    format : TableFormat, optional
        How the table is written.
    """
    made = model.preparation_
    numbers: list[int] = []
    known = format if made is None else format | made.format
    table = read_table(path, format=known, numbers=numbers)
    (label,) = check_names([label], table.columns)
    column = table[label]
    for word in (*(normal or ()), *(anomaly or ())):
        if not (labels_of(column, anomaly=word, is_later=True).values < 0).any():
            raise ValueError(
                f"The label column {quote(label)} holds {quote(word)} nowhere, but "
                f"{quoted(map(str, column.drop_nulls().unique(maintain_order=True)))}."
            )
    words = {"normal": normal, "anomaly": anomaly}
    if not normal and not anomaly:  # files of former versions have them in the preparation
        former = {} if made is None else {"normal": made.normal, "anomaly": made.anomaly}
        words = getattr(model, "label_words_", None) or former
    labels = labels_of(column, **words, is_later=True)
    decided = labels.values != 0
    if not decided.any():
        raise ValueError(
            f"The label column {quote(label)} says of no row whether it is normal or an anomaly, "
            "so there is nothing to learn."
        )
    y, note = labels.values[decided], describe_labels(column, labels)
    rows = table.drop(label).filter(decided)
    features = None
    if model.windows_ is not None:
        with numbered_errors(lambda: numbers):
            features = features_of(model, table)[decided]
    unknown = np.full(len(y), np.nan)
    return Answers(
        rows,
        y,
        unknown,
        int((~decided).sum()),
        note,
        np.array(numbers)[decided].tolist(),
        features,
    )


def _meanings(name: str, column: polars.Series) -> Host:
    """+1, −1, and 0 where nothing is known."""
    pl = polars_module()
    texts = column.cast(pl.String).str.strip_chars().str.to_lowercase().str.replace("’", "'")
    y = texts.replace_strict(MEANINGS, default=None, return_dtype=pl.Float64)
    wrong = y.is_null() & texts.is_not_null()
    if wrong.any():
        *others, last = map(quote, MEANINGS)
        raise ValueError(
            f"{name}: an answer must be {', '.join(others)} or {last}; {first_cell(column, wrong)}."
            " Correct it, or leave the cell empty."
        )
    return np.array(y.fill_null(0.0))


# --------------------------------------------------------------------------------------- questions

# Chosen by hand, for a page that is read on a phone:
UNUSUAL = 0.05  # share of rows whose value lies as far out, from where one is worth a word
FEW = 16  # values that are shown in the order of the file; of more, the oddest first
NAMES = 3  # of columns that the model does not use, before these: they may say which row it is
MOST = 200  # values of a row that are shown at all
LOUDEST = 12  # detectors that are shown, those that say most
LONGEST = 200  # letters of a value

Questions = dict[str, Any]


def ask(
    model: FusedDetector,
    frame: polars.DataFrame,
    n_questions: int = 10,
    *,
    numbers: Sequence[int] | None = None,
    random_state: int | None = 0,
) -> Questions:
    """Choose rows whose answers help most, see :meth:`FusedDetector.query`, and describe them.

    Parameters
    ----------
    model : FusedDetector
        Fitted.
    frame : polars.DataFrame
        Rows to choose from, as `lpfuse_cli.tables.read_table` reads them. Those that hold no value
        in the columns of the model are never asked about.
    n_questions : int, default=10
        How many; fewer, where there are not as many rows.
    numbers : sequence of int, optional
        What the rows are called, see `lpfuse_cli.tables.read_table`; None: they count from 0.
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
    >>> from lpfuse_cli.report import ask
    >>> from lpfuse import FusedDetector
    >>> rows = pl.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), schema=["a", "b"])
    >>> found = ask(FusedDetector(["gmm", "kpca"], random_state=0).fit(rows), rows, 3)
    >>> len(found["questions"]), found["rows"], found["header"]
    (3, 60, 'row,answer,chance,a,b')
    """
    label = None if model.preparation_ is None else model.preparation_.label
    cells = cells_of(model, frame)
    some = np.flatnonzero(~rows_without_cells(cells))
    if not len(some):
        raise ValueError("No row has a value in the columns of the model. Bring rows to ask about.")
    rows = rows_of(model, frame[some])
    wanted = min(n_questions, len(some))
    found, chances = model.query(rows, wanted, random_state=random_state, return_chances=True)
    positions = some[found]
    # The label is what is asked.
    held = frame.select(name for name in frame.columns if name != label)
    # Texts will be read as these were; other cells are written as the model sees them.
    texts = {column.name for column in held if is_text(column)}
    asked = held.with_columns(each for each in cells if each.name not in texts)[positions]
    called = positions if numbers is None else np.asarray(numbers)[positions]
    header, lines = answer_file(asked, called.tolist(), chances.tolist())
    used = set(cells.columns)
    columns = [
        _described(column, cells[column.name] if column.name in used else None, positions)
        for column in held
    ]
    verdicts = model.verdicts(rows)  # all of them: rows in time are judged by those before
    cut: list[Any] = [None if part is None else part[found] for part in verdicts]
    told = _judged(type(verdicts)(*cut))
    questions = [
        {"row": int(row), "chance": float(chance), "before": line[0], "behind": line[1], **said}
        | {"values": list(values)}
        for row, chance, line, said, *values in zip(
            called, chances, lines, told, *columns, strict=True
        )
    ]
    for question in questions:
        question["why"] = _reasons(question, average=len(positions) / len(some))
    return {
        "questions": questions,
        "detectors": list(model.detector_names_),
        "rows": len(some),
        "numbering": describe_numbers(numbers),
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
    """Return the page as HTML.

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
    """Return the verdict on each row; None for detectors without a score."""
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
        whether that is ``odd``; ``note``, in words. Dates have no place: the model looks at their
        time of day and day of the week.
    """
    name, texts = held.name, [_text(value) for value in held[rows]]
    if seen is not None and seen.dtype.is_temporal():
        # Hardly two rows have the same date, so that how many do tells nothing.
        gaps = seen.null_count()
        return [
            _common(name, None, gaps, len(seen)) if text is None else _value(name, text, "")
            for text in texts
        ]
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
    """Format a number: whole numbers in full, others with 6 digits."""
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
    """Describe a text, or a gap, by the number of rows that have it."""
    return _value(name, text, f"{count:,} of {n:,} rows", tail=count / n)


def _ranked(name: str, text: str, below: int, above: int, n: int) -> Questions:
    """Describe a number by its rank among n rows."""
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
        why = f"Its answer is informative: {drawn}"
    elif chance <= average:
        why = (
            f"It is one of the rows that are rarely asked about ({drawn}); some of them are needed "
            "to learn what the model misses"
        )
    else:
        why = drawn.capitalize()
    return [f"{verdict}.", f"{why}."]


def _percent(share: float) -> str:
    """Two digits, or whole per cents from 10 on."""
    return percent(share, 0) if share >= 0.0995 else f"{number(100 * share, 2)} %"


def _shown(question: Questions, detectors: list[str], longest: float) -> Questions:
    """Convert a question to what the template takes."""
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
    """Place a bar: to the left for anomaly, to the right for normal."""
    width = 50 * abs(part or 0.0) / longest
    says = (
        "silent" if part is None else "anomaly" if part < 0 else "normal" if part > 0 else "neither"
    )
    x = 50 - width if part is not None and part < 0 else 50
    return {"j": j, "name": name, "value": part, "x": x, "width": width, "says": says}
