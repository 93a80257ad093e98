"""The ten UCI sets of the paper, from a local folder, scikit-learn or OpenML."""

from __future__ import annotations

import csv
import os
import socket
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import sklearn.datasets

from lpfuse._arrays.operations import Host
from lpfuse._validation.params import did_you_mean, key, meaning
from research.common.datasets.base import (
    FOLDER_VARIABLE,
    Dataset,
    checked_dataset,
    counts_in_words,
    local_folder,
)

BUNDLED = MappingProxyType({"iris": "load_iris", "wine": "load_wine"})  # in sklearn.datasets
PATIENCE = 15.0  # seconds that a silent server is waited for


@dataclass(frozen=True)
class UCISet:
    """What the paper's Table 1 says of a set, and where the set is found.

    Parameters
    ----------
    code, title : str
        "D1" to "D10", and the name in the table.
    samples, normals, features : int
        Its counts in the table.
    file : str
        Its file in the folder ``uci`` of the local folder.
    openml : str
        Its name on OpenML.
    data_id : int
        Its number on OpenML.
    normal : str
        The class that is normal, in words.
    classes : tuple of str
        How sources spell that class; of several that occur, the first is meant.
    """

    code: str
    title: str
    samples: int
    normals: int
    features: int
    file: str
    openml: str
    data_id: int
    normal: str
    classes: tuple[str, ...]


# Counts: Table 1 of the paper. Classes: those with as many rows as it has normals; iris has three.
# fmt: off
UCI: Mapping[str, UCISet] = MappingProxyType({
    "banknotes": UCISet(
        "D1", "Banknotes", 1372, 762, 4,
        "d01_banknotes.csv", "banknote-authentication", 1462, "class 0", ("0", "1")),
    "ionosphere": UCISet(
        "D2", "Ionosphere", 351, 225, 34,
        "d02_ionosphere.csv", "ionosphere", 59, "good", ("g", "good")),
    "vote": UCISet(
        "D3", "Vote", 435, 267, 16,
        "d03_vote.csv", "vote", 56, "democrat", ("democrat",)),
    "glass": UCISet(
        "D4", "Glass", 214, 76, 9,
        "d04_glass.csv", "glass", 41, "type 2", ("build wind non-float", "2")),
    "iris": UCISet(
        "D5", "Iris", 150, 50, 4,
        "d05_iris.csv", "iris", 61, "virginica", ("virginica", "Iris-virginica")),
    "breast-cancer-wisconsin": UCISet(
        "D6", "Breast Cancer Wisconsin", 699, 458, 9,
        "d06_breastw.csv", "breast-w", 15, "benign", ("benign",)),
    "wine": UCISet(
        "D7", "Wine", 178, 71, 13,
        "d07_wine.csv", "wine", 187, "cultivar 2", ("class_1", "2")),
    "australia": UCISet(
        "D8", "Australia", 690, 383, 14,
        "d08_australian.csv", "Australian", 40981, "class 0", ("0", "-1")),
    "haberman": UCISet(
        "D9", "Haberman", 306, 225, 3,
        "d09_haberman.csv", "haberman", 43, "survived", ("1",)),
    "hepatitis": UCISet(
        "D10", "Hepatitis", 155, 123, 19,
        "d10_hepatitis.csv", "hepatitis", 55, "live", ("live",)),
})
# fmt: on

ALIASES: Mapping[str, str] = {
    key(alias): name
    for name, uci in UCI.items()
    for alias in (name, uci.code, uci.title, uci.openml, Path(uci.file).stem)
}


def load_uci(
    name: str, *, data_home: str | os.PathLike[str] | None = None, download: bool = True
) -> Dataset:
    """One of the ten UCI sets of the paper, its counts checked against the paper's Table 1.

    === ======================= ========= ======= ======== ==========
    ..  name                    samples   normal  features is normal
    === ======================= ========= ======= ======== ==========
    D1  banknotes               1372      762     4        class 0
    D2  ionosphere              351       225     34       good
    D3  vote                    435       267     16       democrat
    D4  glass                   214       76      9        type 2
    D5  iris                    150       50      4        virginica
    D6  breast-cancer-wisconsin 699       458     9        benign
    D7  wine                    178       71      13       cultivar 2
    D8  australia               690       383     14       class 0
    D9  haberman                306       225     3        survived
    D10 hepatitis               155       123     19       live
    === ======================= ========= ======= ======== ==========

    All other classes are anomalies. Missing values are kept as NaN.

    Parameters
    ----------
    name : str
        A name of the table, its code (D1), the paper's title, or OpenML's name; case, spaces,
        hyphens and underscores do not matter.
    data_home : path, optional
        A local folder, looked into first: ``uci/d01_banknotes.csv`` and so on hold feature columns
        and ``label`` (1 normal, −1 anomaly), an empty cell is missing. By default the folder that
        the environment variable ``LPFUSE_DATA`` names.
    download : bool, default=True
        Whether OpenML may be asked for what is neither in the folder nor in scikit-learn's bundle
        (iris, wine). It is asked through :func:`sklearn.datasets.fetch_openml`, which keeps what
        it fetched. False never touches the network, nor what was fetched before.

    Returns
    -------
    Dataset
        Rows and labels.

    Raises
    ------
    FileNotFoundError
        If the set is not at hand and may not be downloaded.
    ConnectionError
        If OpenML does not deliver it.
    ValueError
        If there is no such set, or what was found is not the set of the paper.

    Notes
    -----
    Sources differ in the order of rows and in small things, so figures should name theirs:
    scikit-learn's iris has two rows corrected, and categories come from OpenML as their number in
    its list of them (from 0), unless they are numbers themselves.

    Examples
    --------
    >>> from research.common.datasets import load_uci
    >>> iris = load_uci("Iris")
    >>> iris.X.shape, int((iris.y == 1).sum())
    ((150, 4), 50)
    """
    name = _uci_name(name)
    path = _local_path(name, data_home)
    if path is not None and path.is_file():
        return _as_in_table_1(_read_csv(name, path), path)
    if name in BUNDLED:
        bundle = getattr(sklearn.datasets, BUNDLED[name])()
        classes = bundle.target_names[bundle.target]
        data = _of_classes(name, bundle.data, classes, bundle.feature_names, "scikit-learn")
        return _as_in_table_1(data, "scikit-learn's bundle")
    not_here = f"there is no {path}" if path else "no local folder was named"
    if not download:
        raise FileNotFoundError(_not_at_hand(name, not_here, "download=False rules out OpenML"))
    return _as_in_table_1(_from_openml(name, not_here), f"OpenML, data_id={UCI[name].data_id}")


def uci_file(name: str, *, data_home: str | os.PathLike[str] | None = None) -> Path | None:
    """Where a UCI set lies in the local folder, or None where it does not.

    Parameters
    ----------
    name : str
        As in `load_uci`.
    data_home : path, optional
        The local folder; by default what the environment variable ``LPFUSE_DATA`` names.

    Returns
    -------
    Path or None
        A file that exists.

    Examples
    --------
    >>> import tempfile
    >>> from research.common.datasets import uci_file
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     print(uci_file("banknotes", data_home=empty))
    None
    """
    path = _local_path(_uci_name(name), data_home)
    return path if path is not None and path.is_file() else None


def _uci_name(name: str) -> str:
    if key(name) not in ALIASES:
        known = [*UCI, *(uci.openml for uci in UCI.values())]
        raise ValueError(
            f"The paper has no UCI set {name!r}.{did_you_mean(name, known)} Its ten are "
            f"{', '.join(UCI)}."
        )
    return ALIASES[key(name)]


def _local_path(name: str, data_home: str | os.PathLike[str] | None) -> Path | None:
    folder = local_folder(data_home)
    return None if folder is None else folder / "uci" / UCI[name].file


def _read_csv(name: str, path: Path) -> Dataset:
    """A set of the local folder; these are plain enough to be read without polars."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *rows = [row for row in csv.reader(file) if row] or [[]]
        at = header.index("label")
        table = np.array([[float(cell.strip() or "nan") for cell in row] for row in rows])
        if table.shape != (len(rows), len(header)) or not np.isin(table[:, at], (1, -1)).all():
            raise ValueError("a row is too short or too long, or its label is another")
    except (ValueError, csv.Error) as error:
        raise ValueError(
            f"{path} is not a table of numbers under a header, with a column 'label' that holds 1 "
            f"(normal) and -1 (anomaly): {error}. Replace the file."
        ) from error
    names = [*header[:at], *header[at + 1 :]]
    y = table[:, at].astype(np.int_)
    return checked_dataset(name, np.delete(table, at, axis=1), y, names, "local folder")


def _from_openml(name: str, not_here: str) -> Dataset:
    try:
        with _patience(PATIENCE), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of each attempt: one message tells of them all
            bunch = sklearn.datasets.fetch_openml(
                data_id=UCI[name].data_id, as_frame=False, parser="liac-arff", n_retries=1
            )
    except (OSError, HTTPException, EOFError, KeyError, ValueError) as error:
        told = f"OpenML did not deliver it ({type(error).__name__}: {error})"
        raise ConnectionError(_not_at_hand(name, not_here, told)) from error
    X = np.array(bunch.data, dtype=np.float64)
    for j, feature in enumerate(bunch.feature_names):
        _restore_numbers(X[:, j], (bunch.get("categories") or {}).get(feature, []))
    return _of_classes(name, X, bunch.target, bunch.feature_names, "OpenML")


@contextmanager
def _patience(seconds: float) -> Iterator[None]:
    """Wait so long for an answer from the network, unless the user has set another limit."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds if before is None else before)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _not_at_hand(name: str, not_here: str, no_openml: str) -> str:
    uci = UCI[name]
    return (
        f"The data set {name!r} is not at hand: {not_here}, and {no_openml}. It is {uci.openml!r} "
        f"on OpenML, data_id={uci.data_id}. To do without, give data_home, or set "
        f"{FOLDER_VARIABLE}, to a folder that holds uci/{uci.file}: feature columns and 'label' "
        f"(1 normal, which is {uci.normal}; -1 anomaly), an empty cell where a value is missing."
    )


def _restore_numbers(column: Host, categories: Sequence[str]) -> None:
    """Put numbers for the codes of categories that are numbers, such as years, in place."""
    try:
        numbers = np.array(categories, dtype=np.float64)
    except ValueError:
        return
    if len(numbers):
        known = ~np.isnan(column)
        column[known] = numbers[column[known].astype(int)]


def _of_classes(name: str, X: Host, classes: Any, features: Iterable[str], source: str) -> Dataset:
    values = np.asarray(classes).tolist()
    spellings = (meaning(spelling, values) for spelling in UCI[name].classes)
    normal = next(filter(None, spellings), set())
    y = np.array([1 if value in normal else -1 for value in values])
    return checked_dataset(name, X, y, features, source)


def _as_in_table_1(data: Dataset, where: object) -> Dataset:
    uci = UCI[data.name]
    expected = (uci.samples, uci.normals, uci.features)
    if data.counts != expected:
        raise ValueError(
            f"{data.name} ({where}) is not the set of the paper's Table 1: expected "
            f"{counts_in_words(*expected)}; found {counts_in_words(*data.counts)}. Replace it, or "
            f"name a folder with the right uci/{uci.file} by data_home or {FOLDER_VARIABLE}."
        )
    return data
