"""Every promise of SECURITY.md names a test, and every test that it names is there."""

import re
from pathlib import Path

from lpfuse.io.safety import MODULE_OF, OWNERS

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text()
NAMED = re.findall(r"`(test_\w+\.py)::(test_\w+)`", PAGE)


def test_every_test_that_the_page_names_is_there():
    assert len(NAMED) > 20
    folders = [ROOT / "tests", ROOT / "research/tests", *ROOT.glob("packages/*/tests")]
    for file, test in NAMED:
        found = [path for folder in folders for path in folder.rglob(file)]
        assert any(f"def {test}(" in path.read_text() for path in found), (file, test)


def test_the_table_of_indices_has_every_class():
    """Those of scikit-learn in `safety`, with their compiled parts and those of our own."""
    rows = re.findall(
        r"^\| (`[^|]*) \|.*\| ([^|]*) \|$", PAGE.split("### What compiled code")[1], re.M
    )
    listed = [name for classes, _ in rows for name in re.findall(r"`(\w+)`", classes)]
    others = {*OWNERS.values(), "ColumnForest", "Generator", "RandomState"}
    assert sorted(listed) == sorted({*MODULE_OF, *others})
    assert all("::test_" in tests for _, tests in rows)


def test_every_promise_names_a_test():
    promises = re.findall(r"^- .*\n(?:  .*\n)*", PAGE, re.M)
    assert len(promises) > 10
    for promise in promises:
        held = "::test_" in promise
        assert held or "Not promised" in promise or "none of that is evidence" in promise, promise
