"""Decision 0007 lists the checks of scikit-learn that are excepted, as the tests do."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_decision_lists_what_the_tests_except():
    decision = (ROOT / "docs" / "adr" / "0007-fused-detector.md").read_text()
    (section,) = re.findall(r"\n## scikit-learn's checks\n(.*?)\n## ", decision, re.DOTALL)
    tests = (ROOT / "packages/lpfuse/tests/ensemble/test_contract.py").read_text()
    lists = re.findall(
        r"^(?:OTHER_LABELS|TWO_LABELS|THRESHOLDS) = (.*?[)}])$", tests, re.MULTILINE | re.DOTALL
    )
    assert len(lists) == 3
    names = {name for text in lists for name in re.findall(r'"(check_\w+)"', text)}
    assert names | {"check_estimator"} == set(re.findall(r"`(check_\w+)`", section))
