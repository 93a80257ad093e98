"""A call in its own process comes back, or is stopped for a stated reason."""

from importlib import import_module

import pytest

from research.common.isolation import Isolated, Stopped


def test_results_and_state_stay_in_one_process():
    with Isolated(import_module, "os") as remote:
        first, second = (remote.call("getpid", limit=30.0) for _ in range(2))
        assert first == second
        remote.stop()
        assert remote.call("getpid", limit=30.0) != first


def test_a_call_that_takes_too_long_is_stopped():
    with Isolated(import_module, "time") as remote:
        with pytest.raises(Stopped) as stopped:
            remote.call("sleep", 60.0, limit=0.2)
        assert stopped.value.reason == "time"
        assert remote.call("sleep", 0.0, limit=30.0) is None


def test_an_error_is_reported_and_the_process_lives_on():
    with Isolated(import_module, "math") as remote:
        with pytest.raises(Stopped, match="ValueError"):
            remote.call("sqrt", -1.0, limit=30.0)
        assert remote.call("sqrt", 4.0, limit=30.0) == 2.0


def test_a_process_that_dies_is_noticed():
    with Isolated(import_module, "os") as remote, pytest.raises(Stopped, match="code 3"):
        remote.call("_exit", 3, limit=30.0)


def test_what_cannot_be_built_is_an_error():
    with Isolated(import_module, "no_such_module") as remote, pytest.raises(Stopped, match="error"):
        remote.call("anything", limit=30.0)


def test_memory_limit_is_kept():
    with (
        Isolated(import_module, "numpy", memory_limit=2 << 30) as remote,
        pytest.raises(Stopped) as stopped,
    ):
        remote.call("ones", 1 << 30, limit=30.0)
    assert stopped.value.reason == "memory"
