"""How a table is written: encoding, separator, quotes and decimal sign, as told or as found."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from lpfuse._format import quote as in_quotes
from lpfuse._saved import ANY, saved_as
from lpfuse._validation.params import listed
from lpfuse.tables._units import NUMBER, plain_numbers

if TYPE_CHECKING:
    import polars

# In the order in which they are believed where several fit: commas stand in numbers, too.
SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas"}
DECIMALS = {".": "points", ",": "commas"}
QUOTES = ('"', "'", "none")
# Names of Python for them; no others, for a name leads to code.
ENCODINGS = (
    "utf-8", "utf-16", "utf-16-le", "utf-16-be", "iso8859-1", "iso8859-2", "iso8859-5",
    "iso8859-7", "iso8859-9", "iso8859-15", "cp437", "cp850", "cp1250", "cp1251", "cp1252",
    "cp1253", "cp1254", "cp1257", "koi8-r", "mac-roman", "shift_jis", "euc_jp", "euc_kr", "big5",
    "gb18030",
)  # fmt: skip
# Cells that hold no value, as spreadsheets, R, pandas and SQL write them.
MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")
RECORDS = 200  # of a file that are looked at for its separator; chosen by hand
MOSTLY = 0.5  # share of numbers from which a column is one of numbers


@saved_as(
    "TableFormat",
    separator=tuple(SEPARATORS),
    decimal=tuple(DECIMALS),
    encoding=ENCODINGS,
    quote=QUOTES,
    sheet=ANY,
)
@dataclass(frozen=True)
class TableFormat:
    r"""How a table is written; what is None is found by looking at its beginning.

    Parameters
    ----------
    separator : {",", ";", "tab", "\t", "|"}, optional
        What stands between the cells of a CSV file.
    decimal : {".", ","}, optional
        What stands before the decimals of numbers; the other one may stand between thousands.
    encoding : str, optional
        Such as "utf-8", "utf-16", "cp1252" (Windows), "latin-1".
    quote : {'"', "'", "none"}, optional
        What stands around cells that hold separators.
    sheet : str, optional
        Of a spreadsheet; None: the first.

    Examples
    --------
    >>> TableFormat(separator="tab", encoding="latin-1").checked()
    TableFormat(separator='\t', decimal=None, encoding='iso8859-1', quote=None, sheet=None)
    >>> TableFormat(decimal="comma").checked()
    Traceback (most recent call last):
    ValueError: decimal='comma' is none of '.', ','. Name one of these.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    quote: str | None = None
    sheet: str | None = None

    def checked(self) -> TableFormat:
        """The same in the names that code uses; what is unknown is refused."""
        separator = {"tab": "\t", "\\t": "\t"}.get(str(self.separator), self.separator)
        encoding = self.encoding
        if encoding is not None:
            try:
                encoding = codecs.lookup(encoding.replace("latin-1", "latin1")).name
            except LookupError:
                encoding = self.encoding
        known = {
            "separator": (separator, ("tab", *SEPARATORS)),
            "decimal": (self.decimal, tuple(DECIMALS)),
            "encoding": (encoding, ENCODINGS),
            "quote": (self.quote, QUOTES),
        }
        for name, (value, choices) in known.items():
            if value is not None and value not in choices:
                shown = ", ".join(in_quotes(each) for each in choices if each != "\t")
                told = in_quotes(str(getattr(self, name)))
                raise ValueError(f"{name}={told} is none of {shown}. Name one of these.")
        return replace(self, separator=separator, encoding=encoding)

    def __or__(self, others: TableFormat) -> TableFormat:
        """What this one says, and where it says nothing what the other says."""
        names = [field.name for field in fields(self)]
        return TableFormat(
            *(
                getattr(others, name) if getattr(self, name) is None else getattr(self, name)
                for name in names
            )
        )

    @property
    def words(self) -> str:
        """What is not as everywhere (commas, points, UTF-8, double quotes), as a phrase."""
        told = []
        if self.separator not in (None, ","):
            told.append(f"{SEPARATORS[str(self.separator)]} between columns")
        if self.decimal == ",":
            told.append("decimal commas")
        if self.encoding not in (None, "utf-8"):
            told.append(f"encoding {self.encoding}")
        if self.quote not in (None, '"'):
            told.append("no quotes" if self.quote == "none" else "single quotes")
        if self.sheet is not None:
            told.append(f"sheet {in_quotes(self.sheet)}")
        return listed(told) if told else ""


PLAIN = TableFormat(",", ".", "utf-8", '"')
OPEN = TableFormat()  # all is to be found

# ---------------------------------------------------------------------------------------- encoding


class Decoder:
    """Blocks of a file as UTF-8.

    Without a name for it, a file is UTF-8 or UTF-16; one whose first sign beyond ASCII is no UTF-8
    is of Windows (cp1252, which includes what people call latin-1). That rests on that sign alone,
    and so does not depend on where blocks end.

    Parameters
    ----------
    name : str
        Of the file, for messages.
    encoding : str or None
        As told.
    head : bytes
        How the file begins.
    """

    def __init__(self, name: str, encoding: str | None, head: bytes) -> None:
        self.name = name
        self.is_open = encoding is None
        self.encoding = encoding or _wide(head) or "utf-8"
        self._codec = codecs.getincrementaldecoder(self.encoding)()
        self._only_ascii = True

    def __call__(self, block: bytes, *, last: bool = False) -> bytes:
        """The next block; `last`: there are no more."""
        try:
            text = self._codec.decode(block, last)
        except UnicodeDecodeError as error:
            before = error.object[: error.start]
            if not (self.is_open and self.encoding == "utf-8" and self._only_ascii):
                raise self._refusal(error) from error
            if not before.isascii():
                raise self._refusal(error) from error
            self.encoding = "cp1252"
            self._codec = codecs.getincrementaldecoder(self.encoding)()
            try:
                text = self._codec.decode(error.object, last)
            except UnicodeDecodeError as again:
                raise self._refusal(again) from again
        self._only_ascii = self._only_ascii and text.isascii()
        return text.encode(errors="replace")

    def _refusal(self, error: UnicodeDecodeError) -> ValueError:
        strange = error.object[error.start : error.start + 1].hex()
        told = f"the byte 0x{strange} is not {self.encoding.upper()}"
        return ValueError(
            f"{self.name} could not be read as CSV: {told}. Save it as UTF-8, or name what it is: "
            "encoding='cp1252' of Windows, or encoding='latin-1'."
        )


def _wide(head: bytes) -> str | None:
    """UTF-16, by its mark, or by every other byte of Western letters being zero."""
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    even, odd = head[:1000:2], head[1:1000:2]
    if len(odd) < 2:
        return None
    if odd.count(0) > 0.7 * len(odd) and 0 not in even[:2]:
        return "utf-16-le"
    return "utf-16-be" if even.count(0) > 0.7 * len(even) and 0 not in odd[:2] else None


# ---------------------------------------------------------------------------- separator and quotes


def found_format(head: str, told: TableFormat) -> TableFormat:
    r"""The separator and the quotes of a file, by its beginning.

    The separator is the one that cuts most records into as many cells as the header has.

    Parameters
    ----------
    head : str
        How it begins.
    told : TableFormat
        What is settled already.

    Examples
    --------
    >>> found_format("a;b\n1,5;2,5\n", TableFormat()).separator
    ';'
    """
    quote = told.quote or ("'" if _in_apostrophes(head) else '"')
    if told.separator is not None:
        return replace(told, quote=quote)
    best, most = ",", 0.0
    for separator in SEPARATORS:
        counts = list(islice(cells_in_records(head, separator, quote), RECORDS))
        if not counts or counts[0] < 2:
            continue
        rest = counts[1:-1] or counts[1:] or counts  # the last one may be cut off
        share = sum(count == counts[0] for count in rest) / len(rest)
        if share > most or (most == 0.0 and best == ","):
            best, most = separator, share
    return replace(told, quote=quote, separator=best)


def cells_in_records(text: str, separator: str, quote: str) -> Iterator[int]:
    """How many cells each record has, empty lines aside."""
    quoting: Any = csv.QUOTE_NONE if quote == "none" else csv.QUOTE_MINIMAL
    sign = None if quote == "none" else quote
    reader = csv.reader(
        text.splitlines(keepends=True), delimiter=separator, quotechar=sign, quoting=quoting
    )
    try:
        yield from (len(record) for record in reader if record)
    except csv.Error:  # a cell of more than 128 KiB
        return


def _in_apostrophes(head: str) -> bool:
    """Whether apostrophes are used as quotes: two cells or more, and no apostrophe elsewhere."""
    if '"' in head or "'" not in head:
        return False
    ends = r"[,;|\t\r\n]"
    whole = re.findall(rf"(?:(?<={ends})|^)'[^'\r\n]*'(?={ends}|$)", head)
    return len(whole) >= 2 and 2 * len(whole) >= head.count("'") - 1  # the last may be cut off


# ------------------------------------------------------------------------------------ decimal sign


def decimals_of(frame: polars.DataFrame, format: TableFormat) -> tuple[str, dict[str, str]]:
    """The decimal sign of a file, and of each of its columns of numbers.

    A column that holds 7,67 has decimal commas, one that holds 7.67 has not. Where it holds neither
    (1,234 may be either), it is like most of the others; if these say nothing, a file with
    semicolons has decimal commas, for that is why it has semicolons.

    Parameters
    ----------
    frame : polars.DataFrame
        First rows, as texts.
    format : TableFormat
        What is settled.

    Returns
    -------
    decimal, signs : str, dict of str: str
        Columns of texts are not among `signs`: their cells stay as they are.
    """
    found: dict[str, str | None] = {}
    open_commas = False
    for column in frame:
        cells = column.drop_nulls()
        fits: dict[str, Any] = {sign: cells.str.contains(NUMBER[sign]) for sign in DECIMALS}
        if len(cells) and max(each.mean() for each in fits.values()) < MOSTLY:
            continue
        points, commas = (
            int((fits["."] & ~fits[","]).sum()),
            int((fits[","] & ~fits["."]).sum()),
        )
        found[column.name] = None if points == commas else "," if commas > points else "."
        open_commas |= bool((cells.filter(fits[","])).str.contains(",", literal=True).any())
    known = [sign for sign in found.values() if sign is not None]
    decimal = format.decimal
    if decimal is not None:
        return decimal, dict.fromkeys(found, decimal)
    if known:
        decimal = "," if known.count(",") > known.count(".") else "."
    else:
        decimal = "," if format.separator == ";" and open_commas else "."
    return decimal, {name: sign or decimal for name, sign in found.items()}


def with_points(frame: polars.DataFrame, signs: dict[str, str]) -> polars.DataFrame:
    """The same table with numbers as everywhere: decimal points, nothing between thousands."""
    return frame.with_columns(
        plain_numbers(frame[name], sign) for name, sign in signs.items() if name in frame.columns
    )
