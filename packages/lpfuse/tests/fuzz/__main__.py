"""``python -m fuzz [LIMIT [KIND [MODEL ...]]]``: the long form, and its figures.

LIMIT files of each kind of forgery out of each model; KIND as in `corpus.models`.
"""

import sys
import tempfile

from fuzz.hunting import hunt

limit = int(sys.argv[1]) if len(sys.argv) > 1 else 100
with tempfile.TemporaryDirectory() as folder:
    found = hunt(folder, limit, *sys.argv[2:3], only=sys.argv[3:] or None)
print(f"{len(found.models)} honest models; not saved: {found.unsaved}")
print(f"{found.outcomes.total()} files: {dict(found.outcomes.most_common())}")
print(f"{len(found.findings)} findings")
shown = {(finding.model, finding.what.split("(")[0][:80]): finding for finding in found.findings}
for finding in shown.values():  # the last one of each sort
    print(*finding, sep=" | ")
sys.exit(bool(found.findings))
