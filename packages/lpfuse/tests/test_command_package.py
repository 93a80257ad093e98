"""Without lpfuse-cli the library works, and says what to install for the rest."""

import sys

import numpy as np
import polars as pl
import pytest

import lpfuse
from lpfuse import FusedDetector
from lpfuse._command_package import main


@pytest.fixture
def without_cli(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "lpfuse_cli"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "lpfuse_cli", None)


def test_command_without_lpfuse_cli_names_the_extra(without_cli, capsys):
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    told = 'The lpfuse command needs lpfuse-cli. Install it: pip install "lpfuse[cli]"\n'
    assert capsys.readouterr().err == told


def test_command_runs_lpfuse_cli(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["lpfuse", "version", "--quiet"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip()


def test_card_without_lpfuse_cli_names_the_extra(without_cli, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    fused = FusedDetector(["gmm"], random_state=0).fit(X)
    with pytest.raises(ImportError, match=r'pip install "lpfuse\[cli\]"'):
        fused.card(tmp_path / "card.md")


def test_table_models_load_without_lpfuse_cli(without_cli, tmp_path):
    rows = pl.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), schema=["a", "b"])
    model = FusedDetector(["gmm"], random_state=0).fit(rows)
    model.save(tmp_path / "model.lpfuse")
    again = lpfuse.load(tmp_path / "model.lpfuse")
    np.testing.assert_array_equal(again.score_samples(rows), model.score_samples(rows))
