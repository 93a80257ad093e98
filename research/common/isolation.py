"""An object in a process of its own, so that a run can be stopped and leaves nothing behind.

A solver that overshoots its limit, eats the memory or crashes takes its process with it; the
benchmark records that and goes on.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import resource
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

START_UP_SECONDS = 600.0


class Stopped(Exception):
    """The call did not return. ``reason``: "time", "memory" or "error"."""

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(f"{reason}: {message}" if message else reason)
        self.reason = reason


class Isolated:
    """Calls methods of ``factory(*arguments)``, built in a fresh process when first needed."""

    def __init__(
        self, factory: Callable[..., Any], *arguments: Any, memory_limit: int | None = None
    ) -> None:
        self._recipe = (factory, arguments, memory_limit)
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Isolated:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def call(self, method: str, *arguments: Any, limit: float) -> Any:
        """The method's result; :class:`Stopped` when it takes longer than ``limit`` or fails."""
        if self._process is None:
            self._start()
        assert self._connection is not None
        self._connection.send((method, arguments))
        return self._receive(limit)

    def stop(self) -> None:
        """End the process; the next call starts a fresh one."""
        if self._process is not None and self._connection is not None:
            self._connection.close()
            self._process.kill()
            self._process.join()
        self._process = self._connection = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, *self._recipe), daemon=True)
        self._process.start()
        theirs.close()
        try:
            self._receive(START_UP_SECONDS)
        except Stopped:
            self.stop()
            raise

    def _receive(self, limit: float) -> Any:
        assert self._connection is not None
        assert self._process is not None
        if not self._connection.poll(limit):
            self.stop()
            raise Stopped("time", f"no answer after {limit:.0f} s")
        try:
            reason, result = self._connection.recv()
        except EOFError:
            self._process.join()
            code = self._process.exitcode
            self.stop()
            # Native code that cannot allocate aborts; so does the kernel's own memory guard.
            raise Stopped("memory", f"process ended with code {code}") from None
        if reason:
            raise Stopped(reason, result)
        return result


def _serve(
    connection: Connection,
    factory: Callable[..., Any],
    arguments: tuple[Any, ...],
    memory_limit: int | None,
) -> None:
    """The other side: build the object, say so, then answer calls until the pipe closes."""
    if memory_limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (memory_limit, memory_limit))
    with contextlib.suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
        served = _answer(connection, lambda: factory(*arguments), describe=lambda built: None)
        while served is not None:
            method, inputs = connection.recv()
            _answer(connection, partial(getattr(served, method), *inputs))


def _answer(
    connection: Connection,
    action: Callable[[], Any],
    describe: Callable[[Any], Any] = lambda result: result,
) -> Any:
    """Run the action and send (reason it failed or "", what it gave)."""
    try:
        result = action()
    except MemoryError as error:
        connection.send(("memory", str(error)))
    except Exception as error:
        connection.send(("error", f"{type(error).__name__}: {error}"))
    else:
        connection.send(("", describe(result)))
        return result
    return None
