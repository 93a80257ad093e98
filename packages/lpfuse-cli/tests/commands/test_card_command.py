import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers.pools import both
from lpfuse import FusedDetector, LpFusion
from lpfuse.io import save
from lpfuse_cli.app import app


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.lpfuse"
    X, y = both(n=60, anomalies=12)
    FusedDetector(["gmm", "kpca"], random_state=0).fit(X, y).save(path)
    return path


@pytest.fixture(autouse=True)
def elsewhere(model, tmp_path, monkeypatch):
    """A folder to work in, with a model, and no settings."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(model, tmp_path)


def lpfuse(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_a_card_of_the_training_rows(tmp_path):
    answer = lpfuse("card", "m.lpfuse")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout == "Written to card.md.\n"
    card = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert card.startswith("# Model card of m.lpfuse\n")
    assert "60 normal, 12 anomalies" in card


def test_heading_and_use_are_told(tmp_path):
    told = ["--title", "Pumps", "--use", "One plant.", "--quiet", "-o", "pumps.md"]
    answer = lpfuse("card", "m.lpfuse", *told)
    assert answer.stdout == "pumps.md\n"
    card = (tmp_path / "pumps.md").read_text(encoding="utf-8")
    assert card.startswith("# Pumps\n")
    assert "\nOne plant.\n" in card


def test_json_names_the_card(tmp_path):
    answer = lpfuse("card", "m.lpfuse", "--json")
    assert json.loads(answer.stdout) == {"card": "card.md"}
    assert (tmp_path / "card.md").is_file()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["m.lpfuse", "-o", "none/card.md"], "There is no folder"),
        (["m.lpfuse", "-o", "m.lpfuse"], "is read, so it cannot be written"),
        (["weights.lpfuse"], "A card needs a fused detector"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(arguments, told, tmp_path):
    save(LpFusion().fit(np.random.default_rng(0).normal(size=(20, 2))), "weights.lpfuse")
    answer = lpfuse("card", *arguments)
    assert answer.exit_code == 2
    assert told in " ".join(answer.stderr.split())
    assert not (tmp_path / "card.md").exists()
