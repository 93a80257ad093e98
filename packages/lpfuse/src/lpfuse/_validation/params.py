"""Validation of labels, sample weights, other per-row values and parameters.

Everything is checked once, at the entrance of a public function, and trusted below. A message says
what was expected, what was passed and what to do.
"""

from __future__ import annotations

import mmap
import re
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from math import prod
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lpfuse._arrays import operations as ops
from lpfuse._arrays.operations import Array, Host, total
from lpfuse._format import LONGEST_QUOTE, quote

# --------------------------------------------------------------------------------------------------
# Messages that several checks share. They use Python's names of arguments; the command line
# translates them.


ONLY_ANOMALIES = (
    "y holds only −1 (anomaly), but normal rows are needed too. Pass rows labelled +1 as well; if "
    "-1 marks the normal rows in your data, pass -y."
)
NO_WEIGHT = "sample_weight is zero in every row; give some row a weight above zero."
# Limits of a score and of the sum of weights: weights times squared scores stay below the largest
# double, 1.8e308, and what underflows is negligible.
LARGEST_SCORE = LARGEST_WEIGHT = 1e100
LEAST_WEIGHT = 1e-100


class Table(NamedTuple):
    """Names of an input table in messages."""

    letter: str
    noun: str
    shape: str
    mend: str  # the remedy for columns that are not numeric

    def not_two_dimensional(self, ndim: int, shape: Any = None, values: Any = None) -> str:
        """Return the message for what is not 2D, with its shape, or itself, if known."""
        got = f"{ndim}D" + ("" if shape is None else f" of shape {tuple(shape)}")
        mend = "Reshape your data with (len(X), -1) if each item is a row."
        if ndim == 1:
            mend = "Reshape your data with (-1, 1) if it is one column, (1, -1) if one row; take a "
            mend += "row of a frame by frame.iloc[[0]]."
        elif shape == ():
            got = f"{quote(values)} ({type(values).__name__})"
            mend = "Make a dict, or a list of dicts, a frame, pandas.DataFrame(X), and read a "
            mend += "file, pandas.read_csv(X)."
        what = f"a 2D array of {self.noun.lower()} ({self.shape}) or a data frame"
        return f"Expected {what}, got {got}. {mend.replace('X', self.letter)}"

    def too_small(self, got: str) -> str:
        """Return the message for a table without rows or without columns."""
        return f"{self.noun} need at least one row and one column, got {got}."

    def not_numbers(self, columns: str, what: str) -> str:
        """Return the message for columns that are not numeric."""
        return (
            f"{self.noun} must be numbers, but {columns} {what}. Leave such columns out, or "
            f"{self.mend}."
        )

    def not_finite(self, places: Sequence[str]) -> str:
        """Return the message for NaN or infinity in places such as columns."""
        return (
            f"{self.noun} must be finite, but there is NaN or infinity in {listed(places)}. Drop "
            "those rows, or fill them in first (for instance with sklearn.impute.SimpleImputer)."
        )

    def too_large(self, columns: Sequence[str], largest: float) -> str:
        """Return the message for columns beyond `LARGEST_SCORE`, with the largest value."""
        return (
            f"{self.noun} beyond {LARGEST_SCORE:g} cannot be squared and weighted in double "
            f"precision, but {listed(columns)} reach {largest:.3g}. Divide them by "
            f"{largest:.0e} first."
        )


SCORES = Table("S", "Scores", "n samples × R detectors", "turn them into scores first")
FEATURES = Table(
    "X",
    "Features",
    "n samples × d features",
    "encode them as numbers first; FusedDetector takes a data frame with text and dates",
)


def wrong_shape_message(argument: str, noun: str, n: int, shape: Sequence[int]) -> str:
    """Return the message for an array that does not hold one value for each of n rows.

    Examples
    --------
    >>> print(wrong_shape_message("y", "label", 3, (3, 1)))
    y must hold one label for each row: expected shape (3,), got (3, 1). Pass np.ravel(y).
    """
    remedy = f" Pass np.ravel({argument})." if len(shape) > 1 and prod(shape) == n else ""
    return (
        f"{argument} must hold one {noun} for each row: expected shape ({n},), got "
        f"{tuple(shape)}.{remedy}"
    )


def not_1d_message(argument: str, got: str) -> str:
    """Return the message for per-row values that are not 1D."""
    return f"{argument} must hold one number for each row: expected one dimension, got {got}."


def invalid_weights_message(first: float, count: int, row: int | None = None) -> str:
    """Return the message for negative, NaN or infinite weights: the first, its row, the count."""
    where = "" if row is None else f" in row {row}"
    return (
        f"sample_weight must be finite and not negative, got {first}{where} ({count} such rows). "
        "Use 0 to leave a row out."
    )


def check_weight_sum(total: float) -> None:
    """Raise where the sum of finite, non-negative weights is zero or out of range."""
    if total == 0.0:
        raise ValueError(NO_WEIGHT)
    if not LEAST_WEIGHT < total < LARGEST_WEIGHT:
        amount, factor = ("much", 1e-200) if total > 1.0 else ("little", 1e200)
        raise ValueError(
            f"sample_weight adds up to {total:.3g}, too {amount} for double precision: expected a "
            f"sum between {LEAST_WEIGHT:g} and {LARGEST_WEIGHT:g}. Multiply all weights by "
            f"{factor:g}."
        )


def check_memmap_length(view: Any) -> None:
    """Raise where the file of a memory map is too short: reading past its end kills Python."""
    start = 0
    while isinstance(view, np.ndarray):
        if isinstance(view, np.memmap):
            start = view.offset - view.offset % mmap.ALLOCATIONGRANULARITY
        view = view.base
    if isinstance(view, mmap.mmap) and view.size() < start + len(view):
        raise ValueError(
            f"The file of a memory map has become shorter: expected {start + len(view):,} bytes, "
            f"got {view.size():,}. Write it again, and do not change it while it is read."
        )


def key(name: object) -> str:
    """Return a name without case, spaces, hyphens and underscores, for comparisons."""
    return re.sub(r"[\s_-]", "", str(name)).casefold()


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a suggestion for the end of a message, or "" where no known name is close."""
    keys = {key(choice): choice for choice in known}
    # Quadratic in the length of the name, which is therefore cut.
    closest = get_close_matches(key(name)[:LONGEST_QUOTE], keys, n=1)
    return f" Did you mean {quote(keys[closest[0]])}?" if closest else ""


def listed(items: Iterable[str], at_most: int = 5, last: str = " and ") -> str:
    """Join items into a phrase.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed("abcdefg", at_most=3)
    ('a', 'a and b', 'a, b, c and 4 more')
    """
    items = list(items)
    if len(items) > at_most:
        items, last = [*items[:at_most], f"{len(items) - at_most} more"], " and "
    return last.join(filter(None, [", ".join(items[:-1]), items[-1]]))


def quoted(values: Iterable[object], at_most: int = 8) -> str:
    """Join the representations of values with commas.

    Examples
    --------
    >>> quoted(["ok", 1, "1"])
    "'ok', 1, '1'"
    """
    return listed(map(quote, values), at_most, last=", ")


def counted(number: int, noun: str, nouns: str | None = None) -> str:
    """Format a count with its noun; `nouns` is the plural, where it is not regular.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun if number == 1 else nouns or noun + 's'}"


def column_labels(columns: Iterable[int], names: Sequence[str] | None) -> list[str]:
    """Return columns as messages call them: by name, or by position."""
    return [f"column {quote(names[j])}" if names is not None else f"column {j}" for j in columns]


def with_row_count(place: str, rows: int) -> str:
    """Return a place with the number of affected rows.

    Examples
    --------
    >>> with_row_count("column 2", 1)
    'column 2 (1 row)'
    """
    return f"{place} ({rows} {'row' if rows == 1 else 'rows'})"


# --------------------------------------------------------------------------------------------------
# Labels: what people write for normal rows, anomalies and unlabelled rows.


UNLABELLED = "fit(X, y, unlabelled=0)"  # the call of estimators that take no words
GAPS = ("", "nan", "nat", "<na>")  # texts of a missing label, by NumPy and pandas
MOST_CHOICES, MOST_KINDS = 4, 12  # lines of a message, and labels in a line; chosen by hand
Words = dict[str, list[Any]]
IsLater = bool | Literal["open"]
SIDES = {"normal": 1.0, "anomaly": -1.0, "unlabelled": 0.0}


class Labels(NamedTuple):
    """Labels of rows, as `read_labels` takes them.

    Attributes
    ----------
    values : ndarray of shape (n,)
        +1 normal, −1 anomaly, 0 unlabelled.
    words : dict
        All labels that are ``normal``, and all that are ``anomaly``: the arguments that read
        further labels in the same way. Empty where they are ±1 and 0.
    notes : list of str
        Which spellings are taken as another one.
    """

    values: Host
    words: Words
    notes: list[str]


def read_labels(
    y: Any,
    n: int,
    *,
    normal: Any = None,
    anomaly: Any = None,
    zero: int | None = None,
    called: str = "y",
    call: str | None = "fit(X, y, {})",
    is_partial: bool = True,
    is_later: IsLater = False,
) -> Labels | None:
    """Read labels as people have them: ±1 and 0, words, booleans or other numbers, with gaps.

    Missing labels (None, NaN, NaT, pandas.NA, blank texts) are unlabelled. Case, blanks around a
    word, and whether a number is written as a text do not matter.

    Parameters
    ----------
    y : array-like of shape (n,), Labels or None
        One label for each row. `Labels` were read before, and are returned.
    n : int
        Number of rows.
    normal, anomaly : value or list of values, optional
        Labels of normal rows, and of anomalies. If one of the two is given, all other labels are of
        the other class. An empty text stands for missing labels. If none is given, labels are +1
        (normal), −1 (anomaly) and 0 (unlabelled), or one of them is the word "normal".
    zero : 0, optional
        The user's ``unlabelled=``. Without it, labels that are only 0 and 1 (normal and anomaly in
        PyOD) raise an error.
    called, call : str
        For messages: the name of the labels, and the call that takes `normal` and `anomaly`; None:
        there is none.
    is_partial : bool, default=True
        Whether rows may be unlabelled.
    is_later : bool or "open", default=False
        Whether `normal` and `anomaly` are what earlier labels meant. A class may then be absent,
        and ±1 and 0 have their usual meaning, unless a number had another one. Where both classes
        are given, other labels are refused; "open": they are unlabelled.

    Returns
    -------
    Labels or None
        None without labels.

    Examples
    --------
    >>> found = read_labels(["ok", "OK", "fault", None], 4, normal="ok")
    >>> found.values, found.notes
    (array([ 1.,  1., -1.,  0.]), ["Labels 'OK' (1 row) are taken as 'ok'."])
    >>> read_labels([0, 1, float("nan")], 3)
    Traceback (most recent call last):
    ValueError: y holds only 0, 1 and 1 missing, which is ambiguous. Choose one of:
    fit(X, y, normal=0)  # 1 normal row, 1 anomaly, 1 unlabelled
    fit(X, y, normal=1)  # 1 normal row, 1 anomaly, 1 unlabelled
    fit(X, y, unlabelled=0)  # 1 normal row, 0 anomalies, 2 unlabelled
    """
    check_choice("unlabelled", zero, (None, 0))
    if isinstance(y, Labels):
        return y
    words = {
        name: list(value) if isinstance(value, list | tuple | set | np.ndarray) else [value]
        for name, value in (("normal", normal), ("anomaly", anomaly))
        if value is not None
    }
    if y is None:
        if words:
            raise ValueError(f"y=None has no labels for {' and '.join(words)} to name. Pass y=.")
        return None
    counts, place = _count_labels(check_one_per_row(y, n, called, "label", mixed=True), called)
    listing = "y.tolist()" if hasattr(y, "tolist") else "y"
    found = _FoundLabels(counts, called, call, is_partial, listing)
    notes: list[str] = []
    signs = None if words else found.usual_signs(zero)
    if signs is None:
        usual = [kind for kind in found.known if _parse_text(kind) == "normal"]
        words = words or ({"normal": usual[:1]} if usual else {})
        if not words:
            raise ValueError(found.advise())
        signs, notes = found.read(words, is_later)
        words = found.all_words(words, signs)
    if not is_partial and 0.0 in signs.values():
        raise ValueError(found.advise(signs))
    if not is_later and max(signs.values(), default=-1.0) < 0:
        lines = found.choices([{"normal": found.known}])
        raise ValueError(f"{called} holds only anomalies.{lines}" if words else ONLY_ANOMALIES)
    return Labels(np.array(list(signs.values()))[place], words, notes)


def invalid_labels_message(labels: NDArray[Any], is_partial: bool) -> str:
    """Return the message for labels of a Dask block that are not ±1 (or 0, if `is_partial`)."""
    found = _FoundLabels(_count_labels(labels, "y")[0], "y", None, is_partial, "y")
    return f"{found.start()} What to do depends on all labels: pass y.compute(), which shows it."


def is_gap(label: Any) -> bool:
    """Return whether a label is missing.

    Examples
    --------
    >>> is_gap(None), is_gap(float("nan")), is_gap(" "), is_gap("none"), is_gap(0)
    (True, True, True, False, False)
    """
    if isinstance(label, str):
        return label.strip().casefold() in GAPS
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):  # pandas.NA; cells that hold arrays
        return True


def meaning(wanted: Any, values: Iterable[Any]) -> set[Any]:
    """Return the values that equal `wanted`; if none does, those with the same text.

    Examples
    --------
    >>> meaning("1", [1, 2]), meaning(True, ["true", "false"]), meaning("1", ["1", "1.0"])
    ({1}, {'true'}, {'1'})
    """
    kinds, text = set(values), _parse_text(wanted)
    same = {kind for kind in kinds if kind == wanted}
    return same or {kind for kind in kinds if _parse_text(kind) == text}


def _parse_text(value: Any) -> Any:
    """Convert a text to the number or boolean that it spells; return all else unchanged."""
    if not isinstance(value, str):
        return value
    text = value.strip().strip("'\"").casefold()
    with suppress(ValueError):
        return float(text)
    return {"true": True, "false": False}.get(text, text)


def _spelling(word: Any) -> Any:
    """Return what a word spells, None where it stands for missing labels."""
    return None if is_gap(word) else _parse_text(word)


def _usual_sign(label: Any) -> float | None:
    """Return the sign of ±1 and 0, also as texts; None of all other labels."""
    number = _parse_text(label)
    return None if isinstance(number, bool) or number not in SIDES.values() else float(number)


def _count_labels(cells: NDArray[Any], called: str) -> tuple[dict[Any, int], NDArray[np.intp]]:
    """Return the different labels, None for missing ones, with their counts; and each row's."""
    number: dict[Any, int] = {}
    labels: dict[Any, int] = {}
    place: Any
    if cells.dtype == object:
        try:
            place = [number.setdefault(cell, len(number)) for cell in cells.tolist()]
        except TypeError:  # lists and their like
            odd = listed(dict.fromkeys(map(quote, cells.tolist())))
            raise ValueError(f"{called} must hold one label for each row, got {odd}.") from None
    kinds, place = (list(number), place) if number else np.unique(cells, return_inverse=True)
    merged = [labels.setdefault(_plain_label(kind), len(labels)) for kind in kinds]
    place = np.array(merged, dtype=np.intp)[place]
    return dict(zip(labels, np.bincount(place, minlength=len(labels)).tolist(), strict=True)), place


def _plain_label(label: Any) -> Any:
    """Return a label as Python's own type, 1 for 1.0, and None where it is missing."""
    label = label.item() if isinstance(label, np.generic) else label
    is_whole = isinstance(label, float) and label.is_integer()
    return None if is_gap(label) else int(label) if is_whole else label


@dataclass(frozen=True)
class _FoundLabels:
    """The different labels of some rows: what they mean, and messages where that is open."""

    counts: dict[Any, int]
    called: str
    call: str | None
    is_partial: bool
    listing: str  # code that lists the labels of all rows

    @property
    def known(self) -> list[Any]:
        """All but the missing ones, frequent ones first."""
        known = [kind for kind in self.counts if kind is not None]
        return sorted(known, key=lambda kind: -self.counts[kind])

    @cached_property
    def spelled(self) -> dict[Any, list[Any]]:
        """Labels by what their texts spell, the missing ones by None."""
        found: dict[Any, list[Any]] = {None: [None] * (None in self.counts)}
        for kind in self.known:
            found.setdefault(_parse_text(kind), []).append(kind)
        return found

    def meant(self, words: Iterable[Any]) -> list[Any]:
        """Return the labels that some words stand for."""
        return [kind for word in words for kind in self.spelled.get(_spelling(word), [])]

    def usual_signs(self, zero: int | None) -> dict[Any, float] | None:
        """Return the signs of labels that are ±1 and 0; None where they are others, or in doubt."""
        numbers = {kind: _usual_sign(kind) for kind in self.known}
        kinds = set(numbers.values())
        # 0 and 1 are normal and anomaly in PyOD; beside gaps, one of them alone may be either.
        either = kinds == {0, 1} or (None in self.counts and kinds in ({0}, {1}))
        if None in kinds or (zero is None and either):
            return None
        return {kind: numbers.get(kind) or 0.0 for kind in self.counts}

    def signs(self, words: Words) -> dict[Any, float]:
        """Return +1, −1 or 0 for each label; 0 for those that neither of both classes names."""
        rest = 0.0 if len(words) == 2 else -1.0 if "normal" in words else 1.0
        found = {kind: 0.0 if kind is None else rest for kind in self.counts}
        found |= dict.fromkeys(self.meant(words.get("anomaly", ())), -1.0)
        return found | dict.fromkeys(self.meant(words.get("normal", ())), 1.0)

    def read(self, words: Words, is_later: IsLater) -> tuple[dict[Any, float], list[str]]:
        """Return the signs of the labels, and which spellings are taken as another.

        Raise where the words do not fit the labels. Where they name both classes, labels to come
        may be among them.
        """
        notes, every = [], [word for each in words.values() for word in each]
        for word in every:
            meant = self.meant([word])
            if not (meant or is_later or len(words) == 2):
                what = "an empty label" if is_gap(word) else quote(word)
                hint = (
                    f"{did_you_mean(word, map(str, self.known))}{self.choices(self.each_alone())}"
                )
                raise ValueError(f"{self.held(self.known)}, and nowhere {what}.{hint}")
            spelled = (kind for kind in meant if isinstance(_parse_text(kind), str))
            other = sorted(text for text in spelled if text != str(word))
            if other:
                rows = counted(sum(self.counts[text] for text in other), "row")
                notes.append(f"Labels {quoted(other)} ({rows}) are taken as {quote(word)}.")
        both = set(self.meant(words.get("normal", ()))) & set(self.meant(words.get("anomaly", ())))
        if both:
            raise ValueError(f"{quoted(both)} cannot be normal and an anomaly. Name it once.")
        signs, usual, named = self.signs(words), {}, set(self.meant(every))
        rest = [kind for kind in self.known if kind not in named]
        said = [(_spelling(word), SIDES[name]) for name, each in words.items() for word in each]
        # A class alone leaves all other labels to the other class.
        is_other = any(n in SIDES.values() and (n != side or len(words) < 2) for n, side in said)
        if is_later and not is_other:
            usual = {kind: sign for kind in rest if (sign := _usual_sign(kind)) is not None}
        neither = [kind for kind in rest if kind not in usual]
        if neither and len(words) == 2 and not is_later:
            what = "neither normal nor an anomaly. Leave them empty (None) if they say neither."
            lines = self.choices([{name: each} for name, each in words.items()])
            raise ValueError(f"{self.held(neither)}, {what}{lines}")
        if neither and len(words) == 2 and is_later != "open":
            texts = [w for w in every if isinstance(w, str) and isinstance(neither[0], str)]
            kind = str if isinstance(neither[0], str) else lambda word: word  # as in a CSV file
            known = [f"{quoted(map(kind, each))} ({name})" for name, each in words.items() if each]
            known += [] if is_other else ["1 (normal)", "-1 (anomaly)"]
            what = f"which the fit did not see.{did_you_mean(neither[0], texts)} Known are "
            what += f"{listed(dict.fromkeys(known))}; leave other rows empty (None)."
            raise ValueError(f"{self.held(neither)}, {what}")
        return signs | usual, notes

    def all_words(self, words: Words, signs: dict[Any, float]) -> Words:
        """Return all labels of each class, spelled as the user named them."""
        found: Words = {}
        for name in ("normal", "anomaly"):
            kinds = [kind for kind, sign in signs.items() if sign == SIDES[name]]
            spelled = {_spelling(kind): _plain_label(kind) for kind in kinds + words.get(name, [])}
            found[name] = ["" if kind is None else kind for kind in spelled.values()]
        can_be_saved = all(isinstance(kind, str | Real) for each in found.values() for kind in each)
        return found if can_be_saved else {}

    def held(self, kinds: Iterable[Any]) -> str:
        """Say which labels there are, with their counts."""
        found = [with_row_count(quote(kind), self.counts[kind]) for kind in kinds]
        return f"{self.called} holds {listed(found or ['no label'], at_most=8)}"

    def start(self) -> str:
        """Return the beginning of the message for labels that are in doubt, or invalid."""
        if self.call == "{}":
            return f"{self.held(self.known)}. Which is normal?"
        known = sorted(self.known, key=lambda kind: (str(type(kind)), str(kind)))
        got = [*map(quote, known), *[f"{n:,} missing" for k, n in self.counts.items() if k is None]]
        if self.is_partial and self.usual_signs(0) is not None:
            return f"{self.called} holds only {listed(got)}, which is ambiguous."
        zero = ", -1 (anomaly) or 0 (unlabelled)" if self.is_partial else " or -1 (anomaly)"
        return f"{self.called} must be +1 (normal){zero}, got {listed(got)}."

    def advise(self, signs: dict[Any, float] | None = None) -> str:
        """Return the message for labels that are in doubt or, with signs, must not be 0."""
        if signs is not None:
            return f"{self.start()} Leave these rows out: {self.mapping(signs)}"
        if not all(isinstance(kind, str | Real) for kind in self.known):  # dates, complex numbers
            return self.start()
        found, usual = self.start() + self.choices(self.each_alone()), self.usual_signs(0)
        if self.call not in (None, "{}") and self.is_partial and usual is not None and 0 in usual:
            found += f"\n{str(self.call).format('unlabelled=0')}  # {self.outcome(usual)}"
        return found

    def each_alone(self) -> list[Words]:
        """Return the choices: each label may be the normal one."""
        spelled = {_parse_text(kind): kind for kind in self.known[::-1]}
        kinds = [kind for kind in self.known if kind in spelled.values()][:MOST_CHOICES]
        names = ["anomaly", "normal"] if len(kinds) == 1 else ["normal"]
        empty = [{"normal": [""]}] * (self.call == "{}" and None in self.counts)
        return [{name: [kind]} for kind in kinds for name in names] + empty

    def choices(self, choices: Iterable[Words]) -> str:
        """Return code to choose from, each with what it makes of the rows."""
        found, call = [], self.call or ""
        for words in choices:
            signs = self.signs(words)
            line = self.mapping(signs)
            if "{}" in call:
                ((name, each),) = words.items()
                shown = list(map(str, each)) if call == "{}" else each  # options are texts
                line = call.format(f"{name}={quote(shown if shown[1:] else shown[0])}")
            if max(signs.values(), default=0.0) >= 0:  # anomalies alone are refused
                found.append((line, self.outcome(signs)))
        if call == "{}":  # complaints of commands have one line
            return f" Say {listed((f'{line} ({told})' for line, told in found), last=' or ')}."
        is_long = "{}" not in call and len(self.known) > MOST_KINDS
        lines = "".join(f"\n{line}  # {told}" for line, told in found)
        if len(found) == 1:
            rows = "normal or unlabelled rows" if self.is_partial else "normal rows"
            return f" Pass {rows} as well or, if these are normal:{lines}"
        return "" if is_long or not found else f" Choose one of:{lines}"

    def mapping(self, signs: dict[Any, float]) -> str:
        """Return the line of code that turns the labels into ±1, and leaves rows out if it must."""
        pairs = ", ".join(f"{quote(k)}: {s:.0f}" for k, s in signs.items() if s and k is not None)
        drop = "" if self.is_partial or all(signs.values()) else "; S, y = S[y != 0], y[y != 0]"
        return f"y = np.array([{{{pairs}}}.get(v, 0) for v in {self.listing}]){drop}"

    def outcome(self, signs: dict[Any, float]) -> str:
        """Count the rows of each class."""
        normal, odd, rest = (
            sum(self.counts[kind] for kind, sign in signs.items() if sign == side)
            for side in (1.0, -1.0, 0.0)
        )
        anomalies = f"{odd:,} {'anomaly' if odd == 1 else 'anomalies'}"
        return f"{counted(normal, 'normal row')}, {anomalies}" + f", {rest:,} unlabelled" * (
            rest > 0
        )


# --------------------------------------------------------------------------------------------------
# Per-row values and parameters.


def check_labels(
    y: Any, n: int, *, unlabelled: bool = False, zero: int | None = None
) -> Host | None:
    """Return the labels as +1.0 (normal) and −1.0 (anomaly), or None where all rows are normal.

    Parameters
    ----------
    y : array-like of shape (n,), or None
        As in `read_labels` without words. Other labels raise an error with a line that maps them.
    n : int
        Number of rows of the scores.
    unlabelled : bool, default=False
        Whether rows may be unlabelled: 0, or missing.
    zero : 0, optional
        As in `read_labels`.

    Examples
    --------
    >>> check_labels([1, -1, 1], 3)
    array([ 1., -1.,  1.])
    """
    found = read_labels(y, n, zero=zero, call=UNLABELLED, is_partial=unlabelled)
    return None if found is None else found.values


def check_labels_like(y: Any, S: Array) -> Array | None:
    """Check the labels of rows S; return them in the library and on the device of S.

    Labels on the same device are checked there.
    """
    n = int(S.shape[0])
    if _same_device(y, S, "y") and tuple(y.shape) == (n,):
        xp = ops.namespace(y)
        labels = xp.astype(y, xp.float64)
        if bool(xp.all(xp.abs(labels) == 1.0)) and bool(xp.any(labels > 0.0)):
            return labels
    labels = check_labels(y, n)
    return None if labels is None else ops.like(labels, S)


def check_weights_like(sample_weight: Any, S: Array) -> Array | None:
    """Check the weights of rows S; return them in the library and on the device of S."""
    n = int(S.shape[0])
    if _same_device(sample_weight, S, "sample_weight") and tuple(sample_weight.shape) == (n,):
        xp = ops.namespace(sample_weight)
        weights = xp.astype(sample_weight, xp.float64)
        usable = xp.isfinite(weights) & (weights >= 0.0)
        if bool(xp.all(usable)) and LEAST_WEIGHT < total(weights) < LARGEST_WEIGHT:
            return weights
    weights = check_sample_weight(sample_weight, n)
    return None if weights is None else ops.like(weights, S)


def _same_device(vector: Any, S: Array, name: str) -> bool:
    """Return whether a vector is of the library and device of S; raise for another device.

    NumPy arrays, lists and data frames may accompany rows on any device.
    """
    if (
        ops.is_numpy(vector)
        or ops.is_blocked(vector)
        or not array_api_compat.is_array_api_obj(vector)
    ):
        return False
    here, there = array_api_compat.device(S), array_api_compat.device(vector)
    library, other = ops.namespace(S).__name__, ops.namespace(vector).__name__
    if library != other or here != there:
        raise ValueError(
            f"S and {name} must be on one device, got S on {here!s} and {name} on {there!s}"
            f"{'' if library == other else ' of another array library'}. Move {name} to where S "
            "is, or pass it as a NumPy array."
        )
    return not ops.is_numpy(S)


def check_sample_weight(sample_weight: Any, n: int) -> Host | None:
    """Return the non-negative weight of each row; None where all are equal.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), or None
        The factors ``c_i`` of the rows' losses.
    n : int
        Number of rows of the scores.

    Examples
    --------
    >>> check_sample_weight([1, 0, 2], 3)
    array([1., 0., 2.])
    """
    if sample_weight is None:
        return None
    weights = check_one_per_row(sample_weight, n, "sample_weight", "number")
    if weights.dtype.kind not in "biuf":
        raise ValueError(f"sample_weight must be numbers, got {weights.dtype} values.")
    with np.errstate(over="ignore"):  # of long doubles
        weights = weights.astype(np.float64)
    refused = ~(np.isfinite(weights) & (weights >= 0))
    if refused.any():
        row = int(np.flatnonzero(refused)[0])
        raise ValueError(invalid_weights_message(weights[row], int(refused.sum()), row))
    with np.errstate(over="ignore"):
        check_weight_sum(float(weights.sum()))
    return weights


def check_values(values: Any, name: str, *, allow_nan: bool = False) -> Host:
    """Check one number per row; return a one-dimensional float64 array.

    Parameters
    ----------
    values, name : array-like of shape (n,), str
        The values and the name of the argument.
    allow_nan : bool, default=False
        Whether NaN is allowed for missing values.

    Examples
    --------
    >>> check_values([1, 2], "scores")
    array([1., 2.])
    """
    from sklearn.utils.validation import check_array  # late: keeps the command line fast

    array: Host = check_array(
        _plain(values),
        dtype=np.float64,
        ensure_2d=False,
        allow_nd=True,
        ensure_all_finite=False,
        ensure_min_samples=0,
        input_name=name,
    )
    if array.ndim != 1:
        raise ValueError(not_1d_message(name, f"shape {array.shape}"))
    missing = np.isnan(array)
    if missing.any() and not allow_nan:
        raise ValueError(
            f"{name} must be numbers, but {missing.sum()} of {array.size} are NaN. "
            "Leave those rows out."
        )
    return array


def check_row_names(names: Any, n: int, argument: str) -> NDArray[Any] | None:
    """Check one name per row, such as its group; return None where there are none.

    Examples
    --------
    >>> check_row_names(["a", "b", "a"], 3, "groups")
    array(['a', 'b', 'a'], dtype='<U1')
    """
    return None if names is None else check_one_per_row(names, n, argument, "name")


def check_one_per_row(
    values: Any, n: int, argument: str, noun: str, *, mixed: bool = False
) -> NDArray[Any]:
    """Return `values` as a NumPy array with one entry per row; `mixed`: of several types."""
    if ops.is_blocked(values):
        raise TypeError(
            f"{argument} is a Dask collection, but the rows are in memory: pass "
            f"{argument}.compute()."
        )
    try:
        is_list = mixed and isinstance(values, list | tuple)
        array = np.asarray(_plain(values), dtype=object if is_list else None)
        if array.dtype == object and not mixed:
            array = np.array(array.tolist())  # Python numbers in an object array
    except ValueError as error:  # lists of unequal lengths
        raise ValueError(f"{argument} must hold one {noun} for each row: {error}") from error
    if array.shape != (n,):
        raise ValueError(wrong_shape_message(argument, noun, n, array.shape))
    return array


def _plain(values: Any) -> Any:
    """Convert arrays of other libraries and masked arrays to NumPy; return all else unchanged."""
    if getattr(values, "base", None) is not None:
        check_memmap_length(values)
    foreign = array_api_compat.is_array_api_obj(values) and not ops.is_numpy(values)
    return ops.to_host(values) if foreign else ops.fill_masked(values)


def check_p(p: Any, name: str = "p") -> float:
    """Return the exponent of a norm as a float in [1, ∞].

    Parameters
    ----------
    p : float
        1 favours few detectors, ``float("inf")`` all of them.
    name : str, default="p"
        Name of the parameter.

    Examples
    --------
    >>> check_p(2), check_p(float("inf"))
    (2.0, inf)
    """
    if not isinstance(p, Real) or isinstance(p, bool | np.bool_):
        raise ValueError(
            f"{name} must be a number in [1, inf], got {quote(p)} of type {type(p).__name__}. "
            'Write float("inf") for the largest one.'
        )
    if not float(p) >= 1:  # NaN included
        raise ValueError(
            f"{name} must be in [1, inf], got {quote(p)}. Use {name}=1 for the sparsest weights "
            f'and {name}=float("inf") for the most even ones.'
        )
    return float(p)


def check_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float = np.inf,
    hint: str = "",
) -> float:
    """Return a parameter that must be a finite number within limits.

    Parameters
    ----------
    name, value : str, object
        Name and value of the parameter.
    above, at_least, at_most : float, optional
        Its limits; `above` is exclusive.
    hint : str, optional
        Remedy for the message.

    Examples
    --------
    >>> check_number("nu", 0.5, above=0, at_most=1)
    0.5
    >>> check_number("nu", 2, above=0, at_most=1)
    Traceback (most recent call last):
    ValueError: nu must be a finite number above 0 and at most 1, got 2.
    """
    if isinstance(value, Real) and not isinstance(value, bool | np.bool_):
        with suppress(OverflowError):
            number = float(value)
            low = (above is None or number > above) and (at_least is None or number >= at_least)
            if low and number <= at_most and np.isfinite(number):
                return number
    limits = [
        f"{word} {limit:g}"
        for word, limit in (("above", above), ("at least", at_least), ("at most", at_most))
        if limit is not None and np.isfinite(limit)
    ]
    expected = " ".join(["a finite number", " and ".join(limits)]).strip()
    raise ValueError(f"{name} must be {expected}, got {quote(value)}. {hint}".strip())


def check_share(name: str, value: Any, of: str, *, at_most: float = 0.5) -> float:
    """Return a parameter that must be a fraction above 0 rather than a percentage.

    Examples
    --------
    >>> check_share("rate", 5, of="the rows", at_most=1)
    Traceback (most recent call last):
    ValueError: rate must be a finite number above 0 and at most 1, got 5. It is a share of the \
rows: write 0.05 for 5 %.
    """
    hint = f"It is a share of {of}: write 0.05 for 5 %."
    return check_number(name, value, above=0, at_most=at_most, hint=hint)


def is_count(value: Any) -> bool:
    """Return whether a value is an integer of at least 1; 3.0 and True are not."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def check_count(name: str, value: Any) -> int:
    """Return a parameter that must be an integer of at least 1.

    Examples
    --------
    >>> check_count("n_init", 3)
    3
    """
    if not is_count(value):
        raise ValueError(f"{name} must be a whole number from 1, got {quote(value)}.")
    return int(value)


def check_choice(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise where a parameter is none of the allowed values.

    Parameters
    ----------
    name, value : str, object
        Name and value of the parameter.
    choices : sequence
        Allowed values.

    Examples
    --------
    >>> check_choice("score", "mode", ["mean", "median"])
    Traceback (most recent call last):
    ValueError: score must be one of 'mean', 'median'; got 'mode'.
    """
    if not any(isinstance(value, type(choice)) and value == choice for choice in choices):
        allowed = ", ".join(map(repr, choices))
        raise ValueError(f"{name} must be one of {allowed}; got {quote(value)}.")


# --------------------------------------------------------------------------------------------------
# Answers of an annotator, and the probabilities with which rows were queried.


def check_answers(y: Any, n: int, words: Mapping[str, Any] | None = None) -> Host:
    """Return answers as +1.0 (normal), −1.0 (anomaly) and 0.0 (don't know); one class is enough.

    Examples
    --------
    >>> check_answers([-1, 0], 2)
    array([-1.,  0.])
    """
    found = read_labels(y, n, zero=0, call=None, is_later=True, **(words or {}))
    assert found is not None
    return found.values


LEAST_CHANCE = 1e-18  # the weight of an answer is one over its chance, and is squared


def check_chances(chances: Any, n: int | None = None, *, allow_nan: bool = True) -> Host:
    """Return the probability in (0, 1] with which each row was queried; NaN where it was not.

    Examples
    --------
    >>> check_chances([0.5, 0.0])
    Traceback (most recent call last):
    ValueError: chances must lie between 1e-18 and 1, got 0 in row 1 (1 such rows). A row that \
could not be asked about has no chance: pass NaN for labels from elsewhere.
    """
    known = check_values(chances, "chances", allow_nan=allow_nan)
    if n is not None:
        check_one_per_row(known, n, "chances", "number")
    refused = ~(np.isnan(known) | (known >= LEAST_CHANCE) & (known <= 1))
    if refused.any():
        row = int(np.flatnonzero(refused)[0])
        mend = "pass NaN for labels from elsewhere" if allow_nan else "leave it out"
        raise ValueError(
            f"chances must lie between {LEAST_CHANCE:g} and 1, got {known[row]:g} in row {row} "
            f"({refused.sum()} such rows). A row that could not be asked about has no chance: "
            f"{mend}."
        )
    return known


# --------------------------------------------------------------------------------------------------
# Parameters shared with the command line, checked without importing scikit-learn.


PAPER = "paper"  # a whole pool, not a detector
PYOD = "pyod:"
NAMES = (
    "gp", "knn", "knn-subspaces", "knn-samples", "histogram", "columns",
    "trees", "boosting", "svm",
    "svdd", "kpca", "gmm", "forest", "lof", "logistic", "random-forest",
)  # fmt: skip
ALIASES = {"iforest": "forest", "isolation-forest": "forest"}
AUTO = "auto"  # p: that of the default fusion
MOST_CONFIDENCE = 0.9999  # no number of rows gives 1


def canonical_detector_name(name: str) -> str:
    """Return the detector in `NAMES` for a user's spelling; detectors of PyOD as ``pyod:NAME``.

    Case does not matter, and spaces may replace hyphens.

    Examples
    --------
    >>> (
    ...     canonical_detector_name("KNN subspaces"),
    ...     canonical_detector_name("iforest"),
    ...     canonical_detector_name("PyOD:HBOS"),
    ... )
    ('knn-subspaces', 'forest', 'pyod:HBOS')
    >>> canonical_detector_name("svd")
    Traceback (most recent call last):
    ValueError: There is no detector 'svd'. Did you mean 'svdd'? Known are gp, ...
    """
    if name.casefold().startswith(PYOD):
        return PYOD + name[len(PYOD) :]
    known = name.casefold().replace(" ", "-")
    known = ALIASES.get(known, known)
    if known not in NAMES:
        choices = [*NAMES, *ALIASES]
        alone = f" {PAPER!r} is a pool and cannot be combined."
        hint = alone if known == PAPER else did_you_mean(name, [*choices, PAPER])
        told = f"There is no detector {quote(name)}.{hint} Known are {', '.join(choices)}"
        raise ValueError(f"{told}, and those of PyOD as {PYOD}NAME.")
    return known


def parse_detector_names(text: str) -> str | Sequence[str]:
    """Parse a comma-separated list of detectors into a value of the parameter `detectors`.

    Examples
    --------
    >>> parse_detector_names("svdd, lof"), parse_detector_names("paper")
    (['svdd', 'lof'], 'paper')
    """
    names = [name for part in text.split(",") if (name := part.strip())]
    if [name.casefold() for name in names] == [PAPER]:
        return PAPER
    if not names:
        raise ValueError(
            f"detectors must name at least one detector, got {quote(text)}. Leave it out for the "
            "default pool."
        )
    for name in names:
        canonical_detector_name(name)
    return names


def check_norm(p: Any) -> Any:
    """Return ``"auto"``, or p as a number in [1, ∞]; texts of the command line are converted.

    Examples
    --------
    >>> check_norm("auto"), check_norm("2"), check_norm(float("inf"))
    ('auto', 2.0, inf)
    >>> check_norm("tight")
    Traceback (most recent call last):
    ValueError: p must be "auto" or a number in [1, inf], got 'tight'.
    """
    if isinstance(p, str):
        if p == AUTO:
            return p
        with suppress(ValueError):
            p = float(p)
    if isinstance(p, str) or p is None:
        raise ValueError(f'p must be "auto" or a number in [1, inf], got {quote(p)}.')
    return check_p(p)


def check_false_alarm_rate(rate: Any) -> float:
    """Return a valid false alarm rate."""
    return check_share("false_alarm_rate", rate, of="the normal rows")


def check_confidence(confidence: float | None) -> float | None:
    """Return a valid confidence, or None."""
    if confidence is None:
        return None
    hint = "It is a probability: write 0.9 for nine calibration sets of ten, or None."
    return check_number("confidence", confidence, at_least=0.5, at_most=MOST_CONFIDENCE, hint=hint)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the innermost line outside this package, however deep the call."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("lpfuse."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
