"""The budget: what the packages may weigh, and how many quick tests there may be.

The figures are the maintainers'. Where something does not fit, something else leaves, moves to
another package, or becomes simpler. As a plugin of pytest (``-p tools.budget``, which `make test`
loads) it fails a run that collects more tests than that.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any, NamedTuple

from tools.environments import ROOT

# The maintainers' own file, where it lies beside the clone.
THEIRS = ROOT.parent / "shared" / "tools" / "budget.py"


class Budget(NamedTuple):
    """Lines of code that are no comment, docstring or blank; files; per cent; tests."""

    core: int = 22_000
    core_files: int = 130
    all: int = 40_000
    imports: float = 8.0
    tests: int = 9_000


def budget(theirs: Path = THEIRS) -> Budget:
    """The figures of the maintainers' file where it is found, or else this copy of them."""
    if not theirs.is_file():
        return Budget()
    found = runpy.run_path(str(theirs))
    return Budget(*(found[name.upper()] for name in Budget._fields))


class Count:
    """How many tests the run collected, in this process or in one of xdist."""

    found = 0

    def pytest_collection_finish(self, session: Any) -> None:
        self.found = max(self.found, len(session.items))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.found > budget().tests:
            over = f"{self.found:,} tests were collected; the budget is {budget().tests:,}."
            terminalreporter.write_line(f"ERROR {over} Compare fewer cases, or mark some slow.")

    def pytest_sessionfinish(self, session: Any) -> None:
        if self.found > budget().tests:
            session.exitstatus = session.exitstatus or 1


class CountOfWorkers(Count):
    """The hook of xdist is known only where xdist is."""

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.found = max(self.found, len(ids))


def pytest_configure(config: Any) -> None:
    """Count in the process that the user started."""
    if not hasattr(config, "workerinput"):
        distributed = config.pluginmanager.hasplugin("xdist")
        config.pluginmanager.register(CountOfWorkers() if distributed else Count(), "budget")
