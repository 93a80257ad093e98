"""Models in files: what is no model, and what was tampered with, is refused."""

import os

import numpy as np
import pytest

from helpers.model_files import members_of, write_members
from helpers.pumps import Stranger, pumps
from lpfuse import FusedDetector
from lpfuse_cli.scoring import load_model, score_frame


def test_what_is_no_model_is_refused(model, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"There is no model '.*nowhere'\."):
        load_model(tmp_path / "nowhere")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="is damaged, or was not written by lpfuse"):
        load_model(tmp_path / "text")
    rows = np.random.default_rng(0).normal(size=(50, 2))
    FusedDetector(["gmm"]).fit(rows).save(tmp_path / "fused.lpfuse")
    with pytest.raises(ValueError, match="holds FusedDetector, which knows no columns of tables"):
        load_model(tmp_path / "fused.lpfuse")


def forged(path, old, new):
    """The model with another manifest, its checks in order."""
    members = members_of(path.read_bytes())
    assert old in members["manifest.json"]
    members["manifest.json"] = members["manifest.json"].replace(old, new)
    write_members(path, members)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"object": ["FusedDetector"', b'"object": ["Fused"'),
        (b'"object": ["TablePreparation"', b'"object": ["Kernel"'),
        (b'"preparation": [', b'"preparation": 3, "x": ['),
        (b'"number_columns"', b'"numbers"'),
        (b'"categories"', b'"texts"'),
        (b'"object": ["LpFusion"', b'"object": ["TwoSidedMinMax"'),
    ],
)
def test_a_model_that_was_tampered_with_is_refused(model, tmp_path, old, new):
    path = tmp_path / "pumps.lpfuse"
    model.save(path)
    forged(path, old, new)
    with pytest.raises(ValueError, match=r"pumps\.lpfuse is (refused|damaged)"):
        load_model(path)


def test_a_flipped_byte_is_noticed(model, tmp_path):
    path = tmp_path / "pumps.lpfuse"
    model.save(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged"):
        load_model(path)
    assert os.listdir(tmp_path) == ["pumps.lpfuse"]


def test_types_of_others_must_be_trusted(model, tmp_path):
    frame = pumps(60)
    path = tmp_path / "pumps.lpfuse"
    stranger = FusedDetector([("stranger", Stranger())], random_state=0)
    stranger.fit(frame.drop_nulls().drop("state")).save(path)
    with pytest.raises(ValueError, match=r"not trusted: .*\.Stranger") as refusal:
        load_model(path)
    assert f"pass trusted=['{Stranger.__module__}.Stranger']" in str(refusal.value)
    copy = load_model(path, [f"{Stranger.__module__}.Stranger"])
    assert score_frame(copy, frame.drop_nulls())["score"].null_count() == 0
