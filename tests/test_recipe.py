"""The conda recipe asks for what the package asks for, and rehearsals find wrong numbers."""

import hashlib
import re
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from tools.oldest import PROJECTS
from tools.packaging_steps import check_release, checksums, projects, set_version

ROOT = Path(__file__).parents[1]
RECIPE_FILE = ROOT / "recipes" / "lpfuse" / "recipe.yaml"
RECIPE = yaml.safe_load(RECIPE_FILE.read_text(encoding="utf-8"))
PROJECT, COMMAND = (tomllib.loads(path.read_text(encoding="utf-8")) for path in PROJECTS[:2])
CONDA_NAMES = {"matplotlib": "matplotlib-base"}  # without the windows that nobody opens here


def bounds(lines):
    """Names and bounds, whatever the spaces and the order."""
    found = (Requirement(line) for line in lines)
    names = CONDA_NAMES
    return {names.get(each.name, each.name.lower()): str(each.specifier) for each in found}


def test_a_recipe_requires_what_the_package_and_its_command_do():
    table = PROJECT["project"]
    extras, command = table["optional-dependencies"], COMMAND["project"]["dependencies"]
    asked = [*table["dependencies"], *extras["frames"], *extras["persist"], *extras["plots"]]
    assert command[0].startswith("lpfuse[frames,persist,plots]==")
    asked += command[1:]
    asked.append(f"python {table['requires-python']}")
    assert bounds(RECIPE["requirements"]["run"]) == bounds(asked)
    host = bounds(RECIPE["requirements"]["host"])
    assert host["python"] == table["requires-python"].replace(" ", "")
    assert bounds(PROJECT["build-system"]["requires"]).items() <= host.items()


def test_a_recipe_has_the_packages_version_and_licence():
    table = PROJECT["project"]
    assert RECIPE["context"]["version"] == table["version"]
    assert RECIPE["about"]["license"] == table["license"]
    assert RECIPE["about"]["summary"] == table["description"]
    assert RECIPE["build"]["script"]["env"] == {"LPFUSE_BUILD": "required"}


def test_the_recipe_is_one_that_conda_packages_are_built_from():
    """As the program that builds them reads it: names of fields, bounds, what is computed."""
    builder = pytest.importorskip("rattler_build", reason="requirements-dev.txt")
    (variant,) = builder.Stage0Recipe.from_yaml(RECIPE_FILE.read_text(encoding="utf-8")).render()
    told = variant.recipe.to_dict()
    assert told["package"] == {"name": "lpfuse", "version": PROJECT["project"]["version"]}
    assert "noarch" not in told["build"]
    assert told["requirements"]["build"]  # a compiler
    assert bounds(told["requirements"]["run"]) == bounds(RECIPE["requirements"]["run"])
    for source in told["source"]:
        assert (RECIPE_FILE.parent / source["path"] / "pyproject.toml").is_file()


def test_a_release_of_another_number_is_refused():
    with pytest.raises(SystemExit, match=r"lpfuse has the version .*CHANGELOG.*CITATION"):
        check_release("v99.0")


def test_a_number_is_written_wherever_one_stands(tmp_path):
    old = PROJECT["project"]["version"]
    names = [*ROOT.glob("packages/*/pyproject.toml"), RECIPE_FILE]
    names += [ROOT / "CITATION.cff", ROOT / "CHANGELOG.md"]
    for path in names:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    set_version("7.8.9", "2031-02-03", tmp_path)
    for path in names:
        before = path.read_text(encoding="utf-8")
        after = (tmp_path / path.relative_to(ROOT)).read_text(encoding="utf-8")
        if path.name == "CHANGELOG.md":
            assert "\n## [Unreleased]\n\n## [7.8.9], 2031-02-03\n" in after
        else:
            # Nothing else has changed: put back, the text is as before.
            assert after.replace("7.8.9", old) == before != after
            assert not re.search(rf"(==|ersion[ =:\"]+){re.escape(old)}", after)
    with pytest.raises(SystemExit, match="A version is such as"):
        set_version("v1", "2031-02-03", tmp_path)


def test_checksums_are_those_of_the_files(tmp_path):
    sums = tmp_path / "SHA256SUMS"
    with pytest.raises(SystemExit, match="no wheel"):
        checksums(tmp_path, sums)
    (tmp_path / "a-1.whl").write_bytes(b"a")
    (tmp_path / "b-1.tar.gz").write_bytes(b"b")
    (tmp_path / "notes.txt").write_bytes(b"c")
    checksums(tmp_path, sums)
    lines = dict(line.split("  ")[::-1] for line in sums.read_text().splitlines())
    assert lines == {
        "a-1.whl": hashlib.sha256(b"a").hexdigest(),
        "b-1.tar.gz": hashlib.sha256(b"b").hexdigest(),
    }


def test_all_packages_have_one_number():
    library, command, onnx, clients, faces = projects()
    assert library["version"] == command["version"] == onnx["version"] == faces["version"]
    assert clients["version"] == library["version"]
    assert f"lpfuse[persist]=={library['version']}" in faces["dependencies"]
    assert f"lpfuse=={library['version']}" in onnx["dependencies"]
    assert library["optional-dependencies"]["onnx"] == [f"lpfuse-onnx=={library['version']}"]
    assert library["optional-dependencies"]["cli"] == [f"lpfuse-cli=={library['version']}"]
