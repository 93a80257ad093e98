"""Without the packages above it the library works, and says what to install for the rest."""

import sys

import numpy as np
import polars as pl
import pytest

import lpfuse
from lpfuse import SVDD, FusedDetector
from lpfuse._command_package import main
from lpfuse.onnx_export import register_converters, to_onnx


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


def test_onnx_without_lpfuse_onnx_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lpfuse_onnx", None)
    learner = SVDD().fit(np.random.default_rng(0).normal(size=(60, 2)))
    for call in (lambda: to_onnx(learner), register_converters):
        with pytest.raises(ImportError, match=r'needs? lpfuse-onnx.*pip install "lpfuse\[onnx\]"'):
            call()


def test_onnx_forwards_to_lpfuse_onnx(tmp_path):
    lpfuse_onnx = pytest.importorskip("lpfuse_onnx", reason="lpfuse-onnx is an extra")
    learner = SVDD().fit(np.random.default_rng(0).normal(size=(60, 2)))
    for export in (to_onnx, lpfuse_onnx.to_onnx):
        model = export(learner, tmp_path / "model.onnx", dtype=np.float32)
        assert (tmp_path / "model.onnx").read_bytes() == model.SerializeToString()
    assert to_onnx(learner, dtype=np.float32) == model


def test_what_lpfuse_onnx_lacks_is_named_itself(monkeypatch):
    """A broken package is not reported as a missing one."""
    pytest.importorskip("lpfuse_onnx", reason="lpfuse-onnx is an extra")
    for name in [name for name in sys.modules if name.partition(".")[0] == "lpfuse_onnx"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ModuleNotFoundError, match="skl2onnx"):
        register_converters()
