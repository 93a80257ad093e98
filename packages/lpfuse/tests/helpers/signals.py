"""Signals in tests."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def heed_sigint():
    """Heed SIGINT even where the shell ignores it for background jobs.

    An ignored signal is inherited by child processes, to which tests send it.
    """
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, signal.SIG_IGN)
