import gzip
import hashlib
import json
import os
import re
import socket
import time
from http.client import IncompleteRead, RemoteDisconnected
from pathlib import Path
from urllib.error import HTTPError, URLError

import numpy as np
import pytest
import sklearn.datasets
from sklearn.utils import Bunch

from helpers.cases import cases
from research.common.datasets import UCI, load_uci, uci_file

TABLE_1 = """
D1&Banknotes & 1372 & 762 & 4
D2&Ionosphere & 351 & 225 & 34
D3&Vote & 435 & 267 & 16
D4&Glass & 214 & 76 & 9
D5&Iris & 150 & 50 & 4
D6&Breast Cancer Wisconsin & 699 & 458 & 9
D7&Wine & 178 & 71 & 13
D8 & Australia & 690 & 383 & 14
D9 & Haberman & 306 & 225 & 3
D10 & Hepatitis & 155 & 123 & 19
"""
OPENML = {  # the normal class first
    "banknotes": ("1", "2"),
    "ionosphere": ("g", "b"),
    "vote": ("democrat", "republican"),
    "glass": ("build wind non-float", "build wind float", "vehic wind float", "headlamps"),
    "breast-cancer-wisconsin": ("benign", "malignant"),
    "australia": ("0", "1"),
    "haberman": ("1", "2"),
    "hepatitis": ("LIVE", "DIE"),
}
REAL_DATA = os.environ.get("LPFUSE_DATA")
real_fetch_openml = sklearn.datasets.fetch_openml


def shuffled_labels(name):
    uci = UCI[name]
    labels = np.repeat([1, -1], [uci.normals, uci.samples - uci.normals])
    return np.random.default_rng(0).permutation(labels)


def made_up_rows(name):
    return np.random.default_rng(1).normal(size=(UCI[name].samples, UCI[name].features)).round(3)


def write_csv(folder, name, X=None, y=None, at_end=True):
    """A file of the local folder; NaN becomes an empty cell."""
    X = made_up_rows(name) if X is None else X
    y = shuffled_labels(name) if y is None else y
    path = Path(folder) / "uci" / UCI[name].file
    path.parent.mkdir(exist_ok=True)
    header = [f"v{j}" for j in range(X.shape[1])]
    lines = [",".join([*header, "label"] if at_end else ["label", *header])]
    for row, label in zip(X, y, strict=True):
        cells = ["" if np.isnan(cell) else repr(float(cell)) for cell in row]
        lines.append(",".join([*cells, str(label)] if at_end else [str(label), *cells]))
    path.write_text("\n".join(lines) + "\n")
    return path


def fake_openml(monkeypatch, name, classes, categories=None, X=None):
    """What fetch_openml gives for a set, with as many rows of each class as there should be."""
    y, others = shuffled_labels(name), classes[1:]
    target = [classes[0] if y[i] == 1 else others[i % len(others)] for i in range(len(y))]
    X = made_up_rows(name) if X is None else X
    asked = []

    def fetch(**options):
        asked.append(options)
        return Bunch(
            data=X,
            target=np.array(target, dtype=object if isinstance(classes[0], str) else float),
            feature_names=[f"a{j}" for j in range(X.shape[1])],
            categories=categories or {},
        )

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    return X, y, asked


def test_counts_and_titles_are_those_of_the_papers_table():
    lines = [[cell.strip() for cell in line.split("&")] for line in TABLE_1.strip().splitlines()]
    ours = [
        [uci.code, uci.title, *map(str, (uci.samples, uci.normals, uci.features))]
        for uci in UCI.values()
    ]
    assert ours == lines
    assert [uci.file[:4] for uci in UCI.values()] == [f"d{k:02d}_" for k in range(1, 11)]


def test_the_documented_table_is_the_one_in_the_code():
    for name, uci in UCI.items():
        row = [uci.code, name, uci.samples, uci.normals, uci.features, uci.normal]
        assert re.search(r"\s+".join(map(str, row)) + "\n", load_uci.__doc__)


@cases("name", UCI)
def test_the_local_folder_comes_first(tmp_path, name):
    X, y = made_up_rows(name), shuffled_labels(name)
    X[3, 1] = np.nan
    write_csv(tmp_path, name, X, y)
    data = load_uci(name, data_home=tmp_path)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)
    assert (data.name, data.source) == (name, "local folder")
    assert data.feature_names == tuple(f"v{j}" for j in range(UCI[name].features))
    assert (data.X.dtype, data.y.dtype.kind, data.X.flags.c_contiguous) == (float, "i", True)


def test_the_label_column_and_file_type_may_vary(tmp_path):
    path = write_csv(tmp_path, "glass", at_end=False)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    data = load_uci("glass", data_home=tmp_path)
    np.testing.assert_array_equal(data.X, made_up_rows("glass"))
    np.testing.assert_array_equal(data.y, shuffled_labels("glass"))
    assert data.feature_names[0] == "v0"


def test_the_environment_names_a_folder_and_the_argument_overrules_it(tmp_path, monkeypatch):
    near, far = tmp_path / "near", tmp_path / "far"
    for folder, shift in ((near, 0), (far, 100)):
        folder.mkdir()
        write_csv(folder, "haberman", made_up_rows("haberman") + shift)
    monkeypatch.setenv("LPFUSE_DATA", str(far))
    assert load_uci("haberman").X.min() > 50
    assert load_uci("haberman", data_home=str(near)).X.min() < 50
    assert uci_file("D9") == far / "uci" / "d09_haberman.csv"
    assert uci_file("D9", data_home=near) == near / "uci" / "d09_haberman.csv"
    assert uci_file("D8") is None


def test_an_empty_variable_names_no_folder(tmp_path, monkeypatch):
    write_csv(tmp_path, "iris")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LPFUSE_DATA", "")
    assert load_uci("iris").source == "scikit-learn"
    assert uci_file("iris") is None


def test_a_folder_that_does_not_exist_is_told(tmp_path, monkeypatch):
    nowhere = tmp_path / "nowhere"
    with pytest.raises(FileNotFoundError, match=r"data_home names '.*nowhere', which is no folder"):
        load_uci("iris", data_home=nowhere)
    monkeypatch.setenv("LPFUSE_DATA", str(nowhere))
    with pytest.raises(FileNotFoundError, match="LPFUSE_DATA names"):
        load_uci("iris")


def test_a_home_folder_is_found(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write_csv(tmp_path, "haberman")
    assert load_uci("haberman", data_home="~").source == "local folder"


@cases(
    ("name", "alias"),
    [
        ("banknotes", "D1"),
        ("banknotes", "d01_banknotes"),
        ("banknotes", "Banknote Authentication"),
        ("breast-cancer-wisconsin", "Breast Cancer Wisconsin"),
        ("breast-cancer-wisconsin", "breast_cancer wisconsin"),
        ("breast-cancer-wisconsin", "BREAST-W"),
        ("australia", "Australian"),
        ("australia", "d8"),
        ("hepatitis", "d10"),
    ],
)
def test_names_are_forgiving(tmp_path, name, alias):
    write_csv(tmp_path, name)
    assert load_uci(alias, data_home=tmp_path).name == name


@pytest.mark.parametrize(
    ("name", "meant"), [("irsi", "iris"), ("bank-note", "banknotes"), ("breast cancer", "breast-")]
)
def test_an_unknown_name_suggests_the_closest(name, meant):
    with pytest.raises(ValueError, match=rf"no UCI set '{name}'\. Did you mean '{meant}.*Its ten"):
        load_uci(name)


@cases("name", ["faceforensics", "D11", "", 5])
def test_a_strange_name_is_refused_without_a_guess(name):
    with pytest.raises(ValueError, match=r"'?\. Its ten are banknotes, .*, hepatitis\.$"):
        load_uci(name)


@pytest.mark.parametrize(("name", "normal"), [("iris", 2), ("wine", 1)])
def test_iris_and_wine_come_with_scikit_learn(tmp_path, name, normal):
    bundle = getattr(sklearn.datasets, f"load_{name}")()
    data = load_uci(name, data_home=tmp_path, download=False)
    np.testing.assert_array_equal(data.X, bundle.data)
    np.testing.assert_array_equal(data.y == 1, bundle.target == normal)
    assert (data.source, data.feature_names) == ("scikit-learn", tuple(bundle.feature_names))


@cases("name", OPENML)
def test_the_rest_comes_from_openml_without_pandas(monkeypatch, name):
    X, y, asked = fake_openml(monkeypatch, name, OPENML[name])
    data = load_uci(name)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)
    assert (data.name, data.source, data.feature_names[:2]) == (name, "OpenML", ("a0", "a1"))
    (options,) = asked
    assert options["data_id"] == UCI[name].data_id
    assert (options["as_frame"], options["parser"]) == (False, "liac-arff")


@cases(
    ("name", "classes"),
    [
        ("banknotes", ("0", "1")),
        ("australia", ("-1", "1")),
        ("glass", ("'build wind non-float'", "headlamps")),
        ("haberman", (1.0, 2.0)),
        ("hepatitis", ("Live", "Die")),
        ("ionosphere", ("good", "bad")),
    ],
)
def test_a_class_may_be_spelled_in_other_ways(monkeypatch, name, classes):
    _, y, _ = fake_openml(monkeypatch, name, classes)
    np.testing.assert_array_equal(load_uci(name).y, y)


def test_categories_that_are_numbers_stay_numbers(monkeypatch):
    X = made_up_rows("haberman")
    X[:, 0], X[:, 1] = np.arange(306) % 2, np.arange(306) % 3
    X[5, 1] = np.nan
    categories = {"a0": ["no", "yes"], "a1": ["58", "60", "59"], "status": ["1", "2"]}
    fake_openml(monkeypatch, "haberman", ("1", "2"), categories, X.copy())
    data = load_uci("haberman")
    np.testing.assert_array_equal(data.X[:6, 1], [58, 60, 59, 58, 60, np.nan])
    np.testing.assert_array_equal(data.X[:, [0, 2]], X[:, [0, 2]])


@pytest.mark.parametrize("missing", ["row", "column", "normal"])
def test_other_counts_than_the_papers_are_refused(tmp_path, monkeypatch, missing):
    X, y = made_up_rows("haberman"), shuffled_labels("haberman")
    if missing == "row":
        X, y = X[y.argmin() != np.arange(306)], y[y.argmin() != np.arange(306)]
    elif missing == "column":
        X = X[:, :2]
    else:
        y[y.argmax()] = -1
    found = f"{len(y)} rows, {(y == 1).sum()} of them normal, {X.shape[1]} features"
    path = write_csv(tmp_path, "haberman", X, y)
    with pytest.raises(ValueError, match="expected 306 rows, 225 of them normal, 3 f") as refusal:
        load_uci("haberman", data_home=tmp_path)
    assert str(path) in str(refusal.value)
    assert f"found {found}" in str(refusal.value)


def test_counts_are_checked_whatever_the_source(monkeypatch):
    fake_openml(monkeypatch, "vote", ("Democrats", "Republicans"))
    with pytest.raises(ValueError, match=r"vote \(OpenML, data_id=56\).*found 435 rows, 0 of them"):
        load_uci("vote")
    short = sklearn.datasets.load_iris()
    short.data, short.target = short.data[1:], short.target[1:]
    monkeypatch.setattr(sklearn.datasets, "load_iris", lambda: short)
    with pytest.raises(ValueError, match=r"iris \(scikit-learn's bundle\).*found 149 rows, 50 of"):
        load_uci("iris")


@cases(
    "text",
    [
        "",
        "\n\n",
        "a,b,c\n1,2,3\n",
        "a,b,c,label\n",
        "a,b,c,label\n1,2,x,1\n",
        "a,b,c,label\n1,2,1\n1,2,3,1\n",
        "a,b,c,label\n1,2,3,1,5\n",
        "a,b,c,label\n1,2,3,0\n",
        "a,b,c,label\n1,2,3,\n",
        b"\xff\xfe\x00",
    ],
)
def test_a_damaged_file_is_refused_by_name(tmp_path, text):
    path = write_csv(tmp_path, "haberman")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=r"d09_haberman\.csv is not a table of numbers.*Replace"):
        load_uci("haberman", data_home=tmp_path)


def test_infinity_is_refused_with_the_column(tmp_path):
    X = made_up_rows("haberman")
    X[7, 1] = np.inf
    write_csv(tmp_path, "haberman", X)
    with pytest.raises(ValueError, match=r"haberman \(local folder\) holds infinity.* in 'v1'\."):
        load_uci("haberman", data_home=tmp_path)


@cases(
    "error",
    [
        URLError("no route"),
        HTTPError("https://www.openml.org", 503, "no route", {}, None),
        TimeoutError("no route"),
        ConnectionResetError("no route"),
        RemoteDisconnected("no route"),
        IncompleteRead(b"no route"),
        PermissionError("no route"),
        ValueError("no route: the md5 checksum does not match"),
        EOFError("no route"),
        KeyError("data_set_description"),
    ],
)
def test_without_a_network_the_message_says_what_to_do(tmp_path, monkeypatch, error):
    def fails(**options):
        raise error

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fails)
    with pytest.raises(ConnectionError) as refusal:
        load_uci("D4")
    told = str(refusal.value)
    assert "'glass' is not at hand: no local folder was named, and OpenML did not deliver" in told
    assert type(error).__name__ in told
    for needed in ("data_home", "LPFUSE_DATA", "uci/d04_glass.csv", "type 2", "data_id=41"):
        assert needed in told
    with pytest.raises(ConnectionError, match=re.escape(str(tmp_path / "uci" / "d04_glass.csv"))):
        load_uci("D4", data_home=tmp_path)
    assert not any(tmp_path.iterdir())


def test_download_false_never_touches_the_network(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"download=False.*uci/d01_banknotes\.csv"):
        load_uci("banknotes", download=False)
    with pytest.raises(FileNotFoundError, match=re.escape(f"there is no {tmp_path}")):
        load_uci("banknotes", data_home=tmp_path, download=False)
    with pytest.raises(AssertionError, match="touched"):
        load_uci("banknotes", data_home=tmp_path)


@pytest.mark.parametrize("limit", [None, 3.0])
def test_a_silent_server_is_not_waited_for_without_end(monkeypatch, limit):
    seen = []

    def fetch(**options):
        seen.append(socket.getdefaulttimeout())
        raise URLError("timed out")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    before = socket.getdefaulttimeout()
    try:
        socket.setdefaulttimeout(limit)
        with pytest.raises(ConnectionError):
            load_uci("vote")
        assert socket.getdefaulttimeout() == limit
    finally:
        socket.setdefaulttimeout(before)
    assert 0 < seen[0] <= 60
    assert limit in (None, seen[0])


@pytest.fixture
def openml_cache(tmp_path, monkeypatch):
    """scikit-learn's own fetch_openml, with an empty cache and no network behind it."""

    def unreachable(*args, **kwargs):
        raise socket.gaierror("Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", real_fetch_openml)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    return tmp_path / "openml" / "openml.org"


def test_scikit_learns_own_client_fails_clearly_and_leaves_nothing_behind(openml_cache):
    with pytest.raises(ConnectionError, match=r"OpenML did not deliver it \(URLError: .*not known"):
        load_uci("hepatitis")
    assert [path for path in openml_cache.parents[1].rglob("*") if path.is_file()] == []


def test_what_scikit_learns_own_client_fetched_before_needs_no_network(openml_cache):
    X, y = made_up_rows("hepatitis"), shuffled_labels("hepatitis")
    X[:, 0], X[:, 1] = np.arange(155) % 2, 58 + np.arange(155) % 3
    X[[2, 3], [0, 4]] = np.nan
    names = [f"a{j}" for j in range(19)] + ["Class"]
    types = ["{no,yes}", "{58,60,59}", *["REAL"] * 17, "{DIE,LIVE}"]
    lines = ["@relation hepatitis"]
    lines += [f"@attribute {name} {kind}" for name, kind in zip(names, types, strict=True)]
    lines.append("@data")
    for row, label in zip(X, y, strict=True):
        cells = ["?" if np.isnan(cell) else f"{cell:g}" for cell in row]
        cells[0] = {"0": "no", "1": "yes"}.get(cells[0], "?")
        lines.append(",".join([*cells, "LIVE" if label == 1 else "DIE"]))
    arff = "\n".join(lines).encode()
    features = [
        {
            "index": str(j),
            "name": name,
            "data_type": "numeric" if kind == "REAL" else "nominal",
            "is_target": str(name == "Class").lower(),
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": "0",
        }
        for j, (name, kind) in enumerate(zip(names, types, strict=True))
    ]
    about = {
        "name": "hepatitis",
        "version": "1",
        "status": "active",
        "format": "ARFF",
        "description": "",
        "url": "https://www.openml.org/data/v1/download/55/hepatitis.arff",
        "file_id": "55",  # from which older versions of scikit-learn make the url
        "md5_checksum": hashlib.md5(arff).hexdigest(),
    }
    instances = {"name": "NumberOfInstances", "value": "155.0"}
    answers = {
        "api/v1/json/data/55": {"data_set_description": about},
        "api/v1/json/data/features/55": {"data_features": {"feature": features}},
        "api/v1/json/data/qualities/55": {"data_qualities": {"quality": [instances]}},
        "data/v1/download/55/hepatitis.arff": arff,
        "data/v1/download/55": arff,
    }
    for path, answer in answers.items():
        file = openml_cache / f"{path}.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        file.write_bytes(gzip.compress(content))
    data = load_uci("hepatitis")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)


@pytest.mark.skipif(not REAL_DATA, reason="LPFUSE_DATA names no folder of sets")
@pytest.mark.parametrize("name", UCI)
def test_the_real_files_are_the_sets_of_the_paper(name):
    data = load_uci(name, data_home=REAL_DATA)
    table = np.genfromtxt(uci_file(name, data_home=REAL_DATA), delimiter=",", skip_header=1)
    np.testing.assert_array_equal(data.X, table[:, :-1])
    np.testing.assert_array_equal(data.y, table[:, -1])
    gaps = {"vote", "breast-cancer-wisconsin", "hepatitis"}
    assert np.isnan(data.X).any() == (name in gaps)


@pytest.mark.skipif(not REAL_DATA, reason="LPFUSE_DATA names no folder of sets")
@pytest.mark.parametrize(("name", "corrected"), [("iris", [34, 37]), ("wine", [])])
def test_the_real_files_agree_with_scikit_learns_bundle(name, corrected):
    ours, theirs = load_uci(name, data_home=REAL_DATA), load_uci(name)
    np.testing.assert_array_equal(ours.y, theirs.y)
    different = (ours.X != theirs.X).any(axis=1)
    assert np.flatnonzero(different).tolist() == corrected
