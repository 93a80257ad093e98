"""The unit, the container file and the settings of `lpfuse watch` name what there is."""

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from lpfuse_cli.app import app
from lpfuse_cli.watch_command import read_config

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "watch"


def unit():
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str
    found.read(FOLDER / "lpfuse-watch.service")
    return found


def container():
    lines = (FOLDER / "Containerfile").read_text().splitlines()
    pairs = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in pairs]


def check_command(words):
    """The command exists, and so do its options."""
    command = get_command(app).commands[words[0]]
    there = {name for each in command.params for name in each.opts}
    assert {word for word in words if word.startswith("-")} <= there


def test_the_settings_are_read_and_the_paths_are_those_of_the_unit():
    settings = read_config(str(FOLDER / "watch.toml"))
    assert {"model", "source", "output"} <= settings.keys()
    state = "/var/lib/" + unit()["Service"]["StateDirectory"]
    paths = [value for value in settings.values() if str(value).startswith("/")]
    assert paths
    assert all(path.startswith(state) for path in paths)


def test_the_unit_starts_a_command_that_there_is():
    service = unit()["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert Path(program).name == "lpfuse"
    check_command(words)
    assert service["RestartPreventExitStatus"] == "2"


def test_the_container_copies_what_there_is_and_starts_a_command():
    found = container()
    assert found[0][0] == "FROM"
    assert {word for word, _ in found} <= {
        "FROM", "COPY", "RUN", "USER", "STOPSIGNAL", "ENTRYPOINT", "CMD",
    }  # fmt: skip
    copied = [rest.split()[0] for word, rest in found if word == "COPY"]
    assert all((ROOT / each).exists() for each in copied)
    installed = re.findall(r"/src/(packages/[\w-]+)", " ".join(rest for _, rest in found))
    assert all((ROOT / each / "pyproject.toml").is_file() for each in installed)
    steps = dict(found)
    assert json.loads(steps["ENTRYPOINT"]) == ["lpfuse"]
    check_command(json.loads(steps["CMD"]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pgae = 'a.html'", "there is no setting 'pgae'. Did you mean 'page'?"),
        ("once = 1", "once must be true or false, got '1'"),
        ("keep = 'serial'", "keep must be a list of texts"),
        ("page = ", "is no TOML"),
    ],
)
def test_a_wrong_setting_is_told(tmp_path, text, message):
    (tmp_path / "w.toml").write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_config(str(tmp_path / "w.toml"))
