"""A fused detector as a service.

    LPFUSE_MODEL=model.lpfuse uvicorn --app-dir examples/service app:app

POST /row and /rows score; GET /health tells how it goes; POST /reload takes the model file anew.
The guide is docs/service.md. Settings, all by environment variables:

    LPFUSE_MODEL      the saved FusedDetector; model.lpfuse
    LPFUSE_MONITOR    where the drift monitor is kept; beside the model, .monitor behind its name
    LPFUSE_TOKEN      what `Authorization: Bearer …` must say to reload; without it nobody may
    LPFUSE_MAX_BYTES  the largest body of a request; 1,000,000
"""

from __future__ import annotations

import hmac
import math
import os
import threading
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import Body, FastAPI, Header, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

import lpfuse
from lpfuse.monitor import DriftMonitor

MODEL = Path(os.environ.get("LPFUSE_MODEL", "model.lpfuse"))
MONITOR = Path(os.environ.get("LPFUSE_MONITOR", f"{MODEL}.monitor"))
TOKEN = os.environ.get("LPFUSE_TOKEN", "")
MAX_BYTES = int(os.environ.get("LPFUSE_MAX_BYTES", "1000000"))
SAVE_EVERY = 1000  # rows between two states of the monitor on the disk


@dataclass(frozen=True)
class Served:
    """A model and what watches its rows. Never changed, only replaced as a whole."""

    fused: Any
    monitor: DriftMonitor
    columns: list[str] | None
    stamp: tuple[int, int]  # which file it is: time and size

    @classmethod
    def from_files(cls, *, continued: bool) -> Served:
        """Load the model; and the monitor, where it is `continued` and of this very model."""
        status = MODEL.stat()
        fused = lpfuse.load(MODEL)
        names = getattr(fused, "feature_names_in_", None)
        fused.verdicts(np.zeros((1, fused.n_features_in_)))  # single rows are prepared for, once
        # A monitor older than its model has compared rows with another one.
        known = continued and MONITOR.exists() and MONITOR.stat().st_mtime >= status.st_mtime
        monitor = lpfuse.load(MONITOR) if known else DriftMonitor().fit(fused)
        columns = None if names is None else [str(name) for name in names]
        return cls(fused, monitor, columns, (status.st_mtime_ns, status.st_size))


class Service:
    """What requests share."""

    def __init__(self) -> None:
        self.served = Served.from_files(continued=True)
        self.watching = threading.Lock()  # scoring needs none: it changes nothing
        self.unsaved = 0

    def score(self, rows: np.ndarray, served: Served) -> list[dict[str, Any]]:
        """Verdicts, in terms of JSON; NaN, where no detector could score, is null there."""
        found = served.fused.verdicts(rows)
        with self.watching:
            served.monitor.update(rows, found)
            self.unsaved += len(rows)
            if self.unsaved >= SAVE_EVERY:
                self.save()
        anomaly = ~(found.decision >= 0)
        each = zip(found.scores, found.pvalues, found.decision, anomaly, strict=True)
        return [
            {"anomaly": bool(a), "p_value": number(p), "score": number(s), "decision": number(d)}
            for s, p, d, a in each
        ]

    def save(self) -> None:
        """Keep the monitor's state; whoever calls holds the lock."""
        lpfuse.io.save(self.served.monitor, MONITOR)
        self.unsaved = 0

    def reload(self) -> None:
        """Take the model file anew; requests under way end with the model they began with."""
        fresh = Served.from_files(continued=False)
        with self.watching:
            self.served = fresh
            self.save()


def number(value: float) -> float | None:
    """A number of JSON, which knows no NaN."""
    return float(value) if math.isfinite(value) else None


# ------------------------------------------------------------------------- what requests bring


def rows_of(listed: Any, served: Served) -> np.ndarray:
    """Rows of JSON as a table of numbers; whatever is wrong is said of the first row with it."""
    if not isinstance(listed, list):
        raise refusal(f"rows must be a list of rows, got {kind(listed)}.")
    if not listed:
        raise refusal("rows must hold one row at least, got an empty list.")
    table = np.empty((len(listed), served.fused.n_features_in_))
    for k, row in enumerate(listed):
        table[k] = values_of(row, served, f"Row {k}: ")
    return table


def values_of(row: Any, served: Served, where: str) -> list[float]:
    """The numbers of one row, in the order of the model's columns."""
    n, columns = served.fused.n_features_in_, served.columns
    if isinstance(row, dict):
        if columns is None:
            raise refusal(
                f"{where}the model has no names for its columns. Send a list of {n} numbers."
            )
        unknown = [name for name in row if name not in columns]
        if unknown:
            raise refusal(
                f"{where}unknown column {shown(unknown[0])}. The model knows {', '.join(columns)}."
            )
        missing = [name for name in columns if name not in row]
        if missing:
            raise refusal(
                f"{where}column {shown(missing[0])} is not there. Send null where it has no value."
            )
        row = [row[name] for name in columns]
    if not isinstance(row, list):
        raise refusal(
            f"{where}expected a list of {n} numbers, or an object of columns; got {kind(row)}."
        )
    if len(row) != n:
        raise refusal(f"{where}expected {n} numbers, got {len(row)}.")
    names = columns or [str(j) for j in range(n)]
    return [number_of(v, f"{where}column {shown(c)} ") for v, c in zip(row, names, strict=True)]


def number_of(value: Any, where: str) -> float:
    """A finite number, or NaN for null."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refusal(f"{where}must be a number, or null where there is none; got {kind(value)}.")
    try:
        found = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        found = math.inf
    if not math.isfinite(found):
        raise refusal(
            f"{where}must be a finite number; got {found}. Send null where it is missing."
        )
    return found


def refusal(sentence: str) -> HTTPException:
    return HTTPException(422, sentence)


def kind(value: Any) -> str:
    """What came, in the words of JSON."""
    words = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    words[bytes] = "a body that is not said to be application/json"
    return words.get(type(value), "null" if value is None else "a number")


def shown(name: str) -> str:
    """A name that a request made up, cut, and without what would break a line."""
    return repr(name[:80])


class LimitedBody:
    """Refuse bodies above `MAX_BYTES`, before they are read where they say their size."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        told = dict(scope["headers"]).get(b"content-length", b"")
        messages, size = [], int(told) if told.isdigit() else 0
        more = size <= MAX_BYTES
        while more:
            messages.append(await receive())
            size = sum(len(message.get("body", b"")) for message in messages)
            more = messages[-1].get("more_body", False) and size <= MAX_BYTES
        if size > MAX_BYTES:
            sentence = f"A request may have {MAX_BYTES:,} bytes. Send fewer rows at a time."
            return await JSONResponse({"detail": sentence}, 413)(scope, receive, send)
        waiting = iter(messages)

        async def again() -> Any:
            return next(waiting, None) or await receive()

        return await self.app(scope, again, send)


# ------------------------------------------------------------------------------------ the service


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # That a row has a gap is no news to a service. Filters of warnings belong to the process: this
    # one is set before there are threads. (scikit-learn sets one while it checks a table, which
    # threads may leave in place: complex numbers are then errors, which they are anyway.)
    warnings.filterwarnings("ignore", category=UserWarning, module="lpfuse")
    app.state.service = Service()
    yield
    with app.state.service.watching:
        app.state.service.save()


app = FastAPI(title="A fused detector", lifespan=lifespan)
app.add_middleware(LimitedBody)


@app.exception_handler(RequestValidationError)
async def not_json(_: Request, error: RequestValidationError) -> JSONResponse:
    """FastAPI's own checks end here: no JSON, or no body at all."""
    sentence = "The body must be JSON, sent as application/json."
    return JSONResponse({"detail": sentence}, 400)


# Functions without async run in threads, so that a slow row keeps nobody else from being heard.


@app.post("/row")
def score_row(row: Annotated[Any, Body()], request: Request) -> dict[str, Any]:
    """One row, as a list of numbers or an object of columns."""
    service = request.app.state.service
    served = service.served
    return service.score(np.array([values_of(row, served, "The row: ")]), served)[0]


@app.post("/rows")
def score_rows(rows: Annotated[Any, Body()], request: Request) -> list[dict[str, Any]]:
    """Many rows; their verdicts are in the same order."""
    service = request.app.state.service
    served = service.served
    return service.score(rows_of(rows, served), served)


@app.get("/health")
def health(request: Request) -> dict[str, Any]:
    service = request.app.state.service
    with service.watching:
        status = service.served.monitor.status_
    return {
        "ready": True,
        "columns": service.served.columns or service.served.fused.n_features_in_,
        "detectors": list(service.served.fused.detector_names_),
        "rows": status.n_rows,
        "drift": status.alarm,
        "sentence": status.sentence(),
    }


@app.post("/reload")
def reload(request: Request, authorization: Annotated[str, Header()] = "") -> dict[str, Any]:
    if not TOKEN or not hmac.compare_digest(authorization.encode(), f"Bearer {TOKEN}".encode()):
        raise HTTPException(403, "To reload takes the token that LPFUSE_TOKEN holds.")
    try:
        request.app.state.service.reload()
    except (OSError, ValueError) as error:
        raise HTTPException(409, f"The model stays as it was. {error}") from error
    return health(request)
