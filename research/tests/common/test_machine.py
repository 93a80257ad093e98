"""What a record says about its surroundings."""

import shutil
import subprocess

import pytest

from research.common.machine import MEASURED, _git


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_added_results_do_not_mark_the_tree_as_changed(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)

    def changes():
        return _git("status", "--porcelain", "-uall", "--", *MEASURED, folder=tmp_path)

    for folder in ("packages", "research/results/speed", "research/speed", "docs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "research/results/speed/solver.jsonl").write_text("{}\n")
    (tmp_path / "docs/page.md").write_text("a page\n")
    assert changes() == ""
    (tmp_path / "research/speed/run.py").write_text("pass\n")
    assert changes() == "?? research/speed/run.py"
    (tmp_path / "packages/solver.py").write_text("pass\n")
    assert "packages/solver.py" in changes()
