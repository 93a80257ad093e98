"""Validation of labels, sample weights, other per-row values and parameters.

Everything is checked once, at the entrance of a public function, and trusted below. A message says
what was expected, what was passed and what to do.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from math import prod
from numbers import Integral, Real
from typing import Any, NamedTuple

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
ZERO_AND_ONE = (
    "y holds only 0 and 1, which is ambiguous. Choose one of:\n"
    "1 is an anomaly, 0 normal (as in PyOD): y = np.where(y == 1, -1, 1)\n"
    "1 is normal, 0 an anomaly: y = np.where(y == 1, 1, -1)\n"
    "1 is known to be normal, 0 is unlabelled: fit(X, y, unlabelled=0)"
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

    def not_two_dimensional(self, ndim: int, shape: Sequence[int] | None = None) -> str:
        """Return the message for an array that is not 2D, with its shape if known."""
        got = f"{ndim}D" + ("" if shape is None else f" of shape {tuple(shape)}")
        return (
            f"Expected a 2D array of {self.noun.lower()} ({self.shape}), got {got}. Reshape with "
            "(-1, 1) if it is one column, (1, -1) if one row."
        )

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
    "encode them as numbers first (lpfuse.frames.make_table_detector does, for text and dates)",
)


def wrong_shape_message(argument: str, noun: str, n: int, shape: Sequence[int]) -> str:
    """Return the message for an array that does not hold one value for each of n rows.

    Examples
    --------
    >>> print(wrong_shape_message("y", "label", 3, (3, 1)))
    y must hold one label for each row: expected shape (3,), got (3, 1). Pass y.ravel().
    """
    remedy = f" Pass {argument}.ravel()." if len(shape) > 1 and prod(shape) == n else ""
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


def counted(number: int, noun: str) -> str:
    """Format a count with its noun.

    Examples
    --------
    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def meaning(wanted: Any, values: Iterable[Any]) -> set[Any]:
    """Return the values that equal `wanted`; if none does, those with the same text.

    Examples
    --------
    >>> meaning("1", [1, 2]), meaning(True, ["true", "false"]), meaning("1", ["1", "1.0"])
    ({1}, {'true'}, {'1'})
    """
    kinds = set(values)
    same = {kind for kind in kinds if kind == wanted}
    return same or {kind for kind in kinds if _parse_text(kind) == _parse_text(wanted)}


def _parse_text(value: Any) -> Any:
    """Convert a text to the number or boolean that it spells; return all else unchanged."""
    if not isinstance(value, str):
        return value
    text = value.strip().strip("'\"").casefold()
    with suppress(ValueError):
        return float(text)
    return {"true": True, "false": False}.get(text, text)


def invalid_labels_message(labels: list[Any], unlabelled: bool) -> str:
    """Return the message for invalid labels, with the line of code that maps them."""
    expected = "+1 (normal)" + (
        ", -1 (anomaly) or 0 (unlabelled)" if unlabelled else " or -1 (anomaly)"
    )
    missing = sum(label is None or label != label for label in labels)
    if missing:
        mend = "Pass 0 for those rows" if unlabelled else "Drop those rows from both S and y"
        return (
            f"y must be {expected} in every row, but {missing} of {len(labels)} labels are missing "
            f"(NaN or None). {mend}."
        )
    if not all(isinstance(label, str | Real) for label in labels):  # lists, complex numbers, …
        return f"y must be {expected}, got {listed(dict.fromkeys(map(quote, labels)))}."
    values = sorted(set(labels), key=lambda value: (str(type(value)), value))
    last = quote(values[-1])
    chosen = f"y == {last}" if not isinstance(values[-1], bool) else "y"
    return (
        f"y must be {expected}, got {listed(map(quote, values))}.\n"
        f"If {last} means anomaly (as 1 does in PyOD): y = np.where({chosen}, -1, 1)\n"
        f"If {last} means normal: y = np.where({chosen}, 1, -1)"
    )


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
# Per-row values and parameters.


def check_labels(
    y: Any, n: int, *, unlabelled: bool = False, zero: int | None = None
) -> Host | None:
    """Return the labels as +1.0 (normal) and −1.0 (anomaly), or None where all rows are normal.

    Parameters
    ----------
    y : array-like of shape (n,), or None
        +1 normal, −1 anomaly. Other labels raise an error with the line that maps them.
    n : int
        Number of rows of the scores.
    unlabelled : bool, default=False
        Whether 0 is allowed, for unlabelled rows.
    zero : 0, optional
        The user's ``unlabelled=``. Without it, labels that are only 0 and 1 (normal and anomaly in
        PyOD) raise an error.

    Examples
    --------
    >>> check_labels([1, -1, 1], 3)
    array([ 1., -1.,  1.])
    """
    if y is None:
        return None
    labels = check_one_per_row(y, n, "y", "label")
    known = (-1, 0, 1) if unlabelled else (-1, 1)
    if labels.dtype.kind not in "iuf" or not np.isin(labels, known).all():
        raise ValueError(invalid_labels_message(labels.tolist(), unlabelled))
    check_choice("unlabelled", zero, (None, 0))
    if unlabelled and zero is None and set(np.unique(labels)) == {0, 1}:
        raise ValueError(ZERO_AND_ONE)
    if not (labels >= 0 if unlabelled else labels > 0).any():
        raise ValueError(ONLY_ANOMALIES)
    return labels.astype(np.float64)


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


def check_one_per_row(values: Any, n: int, argument: str, noun: str) -> NDArray[Any]:
    """Return `values` as a NumPy array with one entry per row."""
    if ops.is_blocked(values):
        raise TypeError(
            f"{argument} is a Dask collection, but the rows are in memory: pass "
            f"{argument}.compute()."
        )
    try:
        array = np.asarray(_plain(values))
        if array.dtype == object:
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


def check_p(p: Any) -> float:
    """Return the exponent of the norm as a float in [1, ∞].

    Parameters
    ----------
    p : float
        1 favours few detectors, ``float("inf")`` all of them.

    Examples
    --------
    >>> check_p(2), check_p(float("inf"))
    (2.0, inf)
    """
    if not isinstance(p, Real) or isinstance(p, bool | np.bool_):
        raise ValueError(
            f"p must be a number in [1, inf], got {quote(p)} of type {type(p).__name__}. "
            'Write float("inf") for the largest one.'
        )
    if not float(p) >= 1:  # NaN included
        raise ValueError(
            f"p must be in [1, inf], got {quote(p)}. Use p=1 for the sparsest weights and "
            'p=float("inf") for the most even ones.'
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


def check_answers(y: Any, n: int) -> Host:
    """Return answers as +1.0 (normal), −1.0 (anomaly) and 0.0 (don't know); one class is enough.

    Examples
    --------
    >>> check_answers([-1, 0], 2)
    array([-1.,  0.])
    """
    answers = check_one_per_row(y, n, "y", "answer")
    if answers.dtype.kind not in "iuf" or not np.isin(answers, (-1, 0, 1)).all():
        raise ValueError(invalid_labels_message(answers.tolist(), unlabelled=True))
    return answers.astype(np.float64)


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
        alone = f" {PAPER!r} is a pool and cannot be combined." if known == PAPER else ""
        raise ValueError(
            f"There is no detector {quote(name)}.{alone}{did_you_mean(name, choices)} Known are "
            f"{', '.join(choices)}, and those of PyOD as {PYOD}NAME."
        )
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
