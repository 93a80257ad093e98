"""Run a test with many cheap cases as one item, and name every case with which it fails.

`pytest.mark.parametrize` makes an item of each case. Where a rule is stated by a table of inputs
that take a millisecond each, most of all inputs that are refused, one item is enough::

    @cases("value", [0, 1.5, "many", None])
    def test_other_values_are_refused(value): ...

Each case has a `tmp_path` and a `monkeypatch` of its own. Other fixtures are made once and shared
by all cases, which must leave them as they were.
"""

import functools
import inspect
from contextlib import contextmanager

import pytest


def cases(names, values):
    """Call the test with each of the values; fail if it fails with any of them."""
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    table = [value if len(names) > 1 else (value,) for value in values]

    def decorate(test):
        @functools.wraps(test)
        def run(*instance, **fixtures):
            failed = []
            for number, case in enumerate(table):
                given = dict(zip(names, case, strict=True))
                try:
                    with _own(fixtures, number) as own:
                        test(*instance, **own, **given)
                except (Exception, pytest.fail.Exception) as error:
                    failed.append((given, error))
            if failed:
                told = "\n".join(f"{given}: {error!r}" for given, error in failed)
                text = f"{len(failed)} of {len(table)} cases failed:\n{told}"
                raise AssertionError(text) from failed[0][1]

        signature = inspect.signature(test)
        others = [each for name, each in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=others)
        return run

    return decorate


@contextmanager
def _own(fixtures, number):
    """The fixtures, of which those that a case may change are its own."""
    own = dict(fixtures)
    if "tmp_path" in own:
        own["tmp_path"] = fixtures["tmp_path"] / str(number)
        own["tmp_path"].mkdir()
    with pytest.MonkeyPatch.context() as patch:
        if "monkeypatch" in own:
            own["monkeypatch"] = patch
        yield own
