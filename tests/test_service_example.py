"""The example of a service, as a process with a real socket: what it answers, and under load."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import lpfuse
from lpfuse import FusedDetector

pd = pytest.importorskip("pandas", reason="pandas is not installed")
psutil = pytest.importorskip("psutil", reason="psutil is not installed")
pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

pytestmark = pytest.mark.slow  # starts servers

APP = Path(__file__).parents[1] / "examples" / "service"
COLUMNS = ["flow", "heat", "noise", "power"]
TOKEN = "a token of the test"
MEBIBYTE = 2**20


def rows(n, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 4)) + 4.0 * (rng.random((n, 1)) < 0.1)


@cache
def model(seed=0, n=300):
    frame = pd.DataFrame(rows(n, seed), columns=COLUMNS)
    return FusedDetector(["gmm", "kpca"], random_state=seed).fit(frame)


class Server:
    """One that runs, on a port of its own."""

    def __init__(self, process, port):
        self.process, self.port = process, port

    def ask(self, method, path, body=None, headers=None, connection=None):
        """Status and answer; a body that is no bytes is sent as JSON."""
        own = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        own.request(method, path, sent, {"content-type": "application/json"} | (headers or {}))
        answer = own.getresponse()
        status, text = answer.status, answer.read()
        if connection is None:
            own.close()
        return status, json.loads(text)

    @property
    def memory(self):
        return psutil.Process(self.process.pid).memory_info().rss


@contextmanager
def serving(folder, **settings):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "LPFUSE_MODEL": str(folder / "model.lpfuse"), "LPFUSE_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"
    } | settings  # fmt: skip
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(APP), "app:app"]
    command += ["--port", str(port), "--log-level", "warning"]
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        server = Server(process, port)
        try:
            for _ in range(1200):
                try:
                    server.ask("GET", "/health")
                    break
                except OSError:
                    assert process.poll() is None, (folder / "log.txt").read_text()
                    time.sleep(0.1)
            yield server
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("service")
    model().save(found / "model.lpfuse")
    return found


@pytest.fixture(scope="module")
def server(folder):
    with serving(folder) as found:
        yield found


def as_answers(verdicts):
    names = ("score", "p_value", "decision")
    arrays = (verdicts.scores, verdicts.pvalues, verdicts.decision)
    each = [dict(zip(names, map(float, row), strict=True)) for row in zip(*arrays, strict=True)]
    return [row | {"anomaly": row["decision"] < 0} for row in each]


def assert_same(found, expected):
    # One row and many are summed in another order.
    assert found == {k: pytest.approx(v, rel=1e-9, abs=1e-12) for k, v in expected.items()}


def test_eight_hundred_requests_sixteen_at_a_time(tmp_path):
    fused = model()
    fused.save(tmp_path / "model.lpfuse")
    X = rows(800, 1)
    expected = as_answers(fused.verdicts(pd.DataFrame(X, columns=COLUMNS)))
    wrong, memory = [], {}
    with serving(tmp_path) as server, ThreadPoolExecutor(16) as pool:

        def ask(k):
            row = X[k].tolist() if k % 2 else dict(zip(COLUMNS, X[k].tolist(), strict=True))
            status, found = server.ask("POST", "/row", row)
            return k, status, found

        for start, end in [(0, 300), (300, 800)]:
            for k, status, found in pool.map(ask, range(start, end)):
                if status != 200:
                    wrong.append((k, status, found))
                else:
                    assert_same(found, expected[k])
            memory[end] = server.memory
        assert not wrong
        health = server.ask("GET", "/health")[1]
        assert health["rows"] == 800
        server.process.send_signal(signal.SIGTERM)  # as an orchestrator stops it
        server.process.wait(60)
        assert server.process.returncode in (0, -signal.SIGTERM)
    # Caches and the heap settle within the first requests; a leak of 8 kB a request is told.
    assert memory[800] - memory[300] < 4 * MEBIBYTE, memory
    assert "Error" not in (tmp_path / "log.txt").read_text()
    # What was watched was saved, and goes on from there.
    assert lpfuse.load(tmp_path / "model.lpfuse.monitor").n_rows_ == 800
    with serving(tmp_path) as server:
        assert server.ask("GET", "/health")[1]["rows"] == 800


def test_many_rows_at_once_and_gaps(server, folder):
    X = rows(50, 2)
    X[3, 1] = X[4] = np.nan
    listed = [[None if np.isnan(value) else value for value in row] for row in X.tolist()]
    with pytest.warns(UserWarning, match="could not score some rows"):
        expected = as_answers(model().verdicts(pd.DataFrame(X, columns=COLUMNS)))
    assert np.isnan(expected[4]["score"])
    status, found = server.ask("POST", "/rows", listed)
    assert status == 200
    for k, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if any(np.isnan(value) for value in theirs.values()):
            assert ours["score"] is None
            assert ours["anomaly"]
        else:
            assert_same(ours, theirs)
        assert k != 4 or ours["anomaly"]


BAD = {
    "short": ([1.0, 2.0], "expected 4 numbers, got 2"),
    "text": ([1.0, "x", 2.0, 3.0], "column 'heat' must be a number"),
    "boolean": ([1.0, True, 2.0, 3.0], "column 'heat' must be a number"),
    "nested": ([1.0, [1.0], 2.0, 3.0], "got a list"),
    "unknown": (dict.fromkeys([*COLUMNS, "colour"], 1.0), "unknown column 'colour'"),
    "missing": (dict.fromkeys(COLUMNS[:3], 1.0), "column 'power' is not there"),
    "number": (7, "expected a list of 4 numbers"),
    "null": (b"null", ""),  # no body at all, to older versions of FastAPI
    "infinite": (b"[1, Infinity, 2, 3]", "'heat' must be a finite number"),
    "large": (b"[1, 1e999, 2, 3]", "'heat' must be a finite number"),
    "digits": (b"[1, 1" + b"0" * 400 + b", 2, 3]", "'heat' must be a finite number"),
    "NaN": (b"[1, NaN, 2, 3]", "'heat' must be a finite number"),
    "no JSON": (b"{", "must be JSON"),
    "bytes": (b"\xff\x00", "must be JSON"),
    "empty": (b"", "must be JSON"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_refused_in_plain_words(server, name):
    body, words = BAD[name]
    before = server.ask("GET", "/health")[1]["rows"]
    status, answer = server.ask("POST", "/row", body)
    assert status in (400, 422)
    assert isinstance(answer["detail"], str)
    assert words in answer["detail"]
    assert server.ask("GET", "/health")[1]["rows"] == before


def test_a_body_must_be_said_to_be_json(server):
    status, answer = server.ask("POST", "/row", [1.0] * 4, {"content-type": "text/plain"})
    assert status in (400, 422)
    assert "application/json" in answer["detail"]


def test_the_bad_row_of_many_is_named(server):
    status, answer = server.ask("POST", "/rows", [[1.0] * 4, [1.0] * 3])
    assert (status, answer["detail"]) == (422, "Row 1: expected 4 numbers, got 3.")
    assert server.ask("POST", "/rows", [])[0] == server.ask("POST", "/rows", {})[0] == 422


def test_large_bodies_are_refused(server):
    large = b"[" + b"1," * 600_000 + b"1]"
    assert server.ask("POST", "/rows", large)[0] == 413
    # The same in pieces, whose number is not told beforehand.
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {"content-type": "application/json"}
    pieces = (large[k : k + 50_000] for k in range(0, len(large), 50_000))
    try:
        connection.request("POST", "/rows", pieces, headers, encode_chunked=True)
        assert connection.getresponse().status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # it hung up before all was sent
    connection.close()
    assert server.ask("GET", "/health")[0] == 200


def test_a_new_model_is_taken_with_the_token_only(tmp_path):
    model().save(tmp_path / "model.lpfuse")
    row = [0.5, -0.5, 1.0, 3.0]
    frame = pd.DataFrame([row], columns=COLUMNS)
    with serving(tmp_path) as server:
        token = {"Authorization": f"Bearer {TOKEN}"}
        assert server.ask("POST", "/reload")[0] == 403
        assert server.ask("POST", "/reload", headers={"Authorization": "Bearer other"})[0] == 403
        other = model(seed=5)
        assert_same(server.ask("POST", "/row", row)[1], as_answers(model().verdicts(frame))[0])
        other.save(tmp_path / "model.lpfuse")
        status, health = server.ask("POST", "/reload", headers=token)
        assert (status, health["rows"]) == (200, 0)  # the monitor compares with the new model
        assert_same(server.ask("POST", "/row", row)[1], as_answers(other.verdicts(frame))[0])
        (tmp_path / "model.lpfuse").write_bytes(b"damaged")
        status, answer = server.ask("POST", "/reload", headers=token)
        assert status == 409
        assert "The model stays as it was" in answer["detail"]
        assert_same(server.ask("POST", "/row", row)[1], as_answers(other.verdicts(frame))[0])
