"""How files of tables are written: separator, decimals, encoding, quotes, sheet."""

from __future__ import annotations

import codecs
from contextlib import suppress
from dataclasses import dataclass, replace

from lpfuse._files import ANY, saved_as
from lpfuse._format import quote as in_quotes
from lpfuse._validation.params import listed

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


@saved_as(
    "TableFormat", separator=tuple(SEPARATORS), decimal=tuple(DECIMALS), encoding=ENCODINGS,
    quote=QUOTES, sheet=ANY,
)  # fmt: skip
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
        """Return the same format in canonical names; refuse unknown ones."""
        separator = {"tab": "\t", "\\t": "\t"}.get(str(self.separator), self.separator)
        encoding = self.encoding
        if encoding is not None:
            with suppress(LookupError):
                encoding = codecs.lookup(encoding.replace("latin-1", "latin1")).name
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
        """Merge two formats; this one takes precedence."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return replace(others, **known)

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


OPEN = TableFormat()  # all is to be found
