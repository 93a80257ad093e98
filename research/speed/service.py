"""What one row costs: in Python, by ONNX, and through the service of examples/service.

    python -m research.speed.service

Latencies are those of a clock on the wall, one row after the other, then sixteen requests at a time
over connections that stay open; the default `FusedDetector` of 2,000 rows and ten columns.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess  # nosec B404 # starts the service that is measured
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil

from lpfuse import FusedDetector
from lpfuse.monitor import DriftMonitor
from lpfuse.onnx_export import to_onnx

ROOT = Path(__file__).parents[2]
ROWS, AT_A_TIME = 2000, 16


def report(name: str, times: list[float]) -> None:
    median, tail = np.quantile(np.array(times) * 1e3, [0.5, 0.99])
    print(f"{name:44s} {median:7.2f} ms median {tail:7.2f} ms at 99 %", flush=True)


def measure(name: str, call: Callable[[int], object], n: int = ROWS) -> None:
    for k in range(20):
        call(k)
    times = []
    for k in range(n):
        start = time.perf_counter()
        call(k)
        times.append(time.perf_counter() - start)
    report(name, times)


def in_process(fused: FusedDetector, X: np.ndarray, folder: Path) -> None:
    import onnxruntime

    to_onnx(fused, folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options)
    measure("fused.predict", lambda k: fused.predict(X[k : k + 1]))
    measure("fused.verdicts", lambda k: fused.verdicts(X[k : k + 1]))
    measure("onnxruntime", lambda k: session.run(None, {"X": X[k : k + 1]}))
    monitor = DriftMonitor().fit(fused)
    verdicts = [fused.verdicts(X[k : k + 1]) for k in range(ROWS)]
    measure("monitor.update", lambda k: monitor.update(X[k : k + 1], verdicts[k]))


def served(X: np.ndarray, folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(ROOT / "examples" / "service")]
    command += ["app:app", "--port", str(port), "--log-level", "error"]
    environment = os.environ | {"LPFUSE_MODEL": str(folder / "model.lpfuse")}
    process = subprocess.Popen(command, env=environment)  # nosec B603 # our own words, no shell
    try:
        while True:
            try:
                http.client.HTTPConnection("127.0.0.1", port).request("GET", "/health")
                break
            except OSError:
                time.sleep(0.1)
        one = http.client.HTTPConnection("127.0.0.1", port)
        measure("POST /row, one after the other", lambda k: ask(one, X[k]))
        before = psutil.Process(process.pid).memory_info().rss
        start = time.perf_counter()
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            parts = pool.map(lambda w: asked(port, X[w::AT_A_TIME]), range(AT_A_TIME))
            times = [each for part in parts for each in part]
        wall = time.perf_counter() - start
        report(f"POST /row, {AT_A_TIME} at a time", times)
        after = psutil.Process(process.pid).memory_info().rss
        print(
            f"{ROWS / wall:.0f} requests a second; resident {before >> 20}, then {after >> 20} MiB"
        )
        one = http.client.HTTPConnection("127.0.0.1", port)  # the other has been closed meanwhile
        measure("POST /rows, 1,000 rows", lambda k: ask(one, X[:1000], "/rows"), 10)
    finally:
        process.terminate()
        process.wait()


def asked(port: int, rows: np.ndarray) -> list[float]:
    connection, times = http.client.HTTPConnection("127.0.0.1", port), []
    for row in rows:
        start = time.perf_counter()
        ask(connection, row)
        times.append(time.perf_counter() - start)
    return times


def ask(connection: http.client.HTTPConnection, row: np.ndarray, path: str = "/row") -> None:
    body, kind = json.dumps(row.tolist()), {"content-type": "application/json"}
    connection.request("POST", path, body, kind)
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise RuntimeError(f"status {answer.status}")


def main() -> None:
    rng = np.random.default_rng(0)
    fused = FusedDetector(random_state=0).fit(rng.normal(size=(2000, 10)))
    X = rng.normal(size=(ROWS, 10))
    with tempfile.TemporaryDirectory() as name:
        fused.save(Path(name) / "model.lpfuse")
        in_process(fused, X, Path(name))
        served(X, Path(name))


if __name__ == "__main__":
    main()
