"""Workflows, hooks and Makefile run steps that there are, on versions that the packages admit."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tools.oldest import FILE, PROJECTS, constraints, requirements
from tools.step import STEPS

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
HOOKS = ROOT / ".pre-commit-config.yaml"
ALONE = "import sys; sys.path.insert(0, sys.argv[1]); import tools.step, tools.oldest"
CALL = re.compile(r"python -m tools\.step ([\w-]+)(?: (oldest|pure|sdist|\"\$TAG\"))?")


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps(workflow):
    for job in read(workflow)["jobs"].values():
        yield from job["steps"]


def pythons(workflow):
    """All versions of Python that a workflow names."""
    for job in read(workflow)["jobs"].values():
        yield from job.get("strategy", {}).get("matrix", {}).get("python", [])
        for step in job["steps"]:
            told = str(step.get("with", {}).get("python-version", "${{"))
            if not told.startswith("${{"):
                yield told


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_read_and_have_what_they_need(path):
    workflow = read(path)
    assert workflow["name"] == path.stem
    assert workflow[True]  # "on", as YAML reads it
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert "runs-on" in job
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_steps_that_there_are(path):
    commands = [step["run"] for step in steps(path) if "run" in step]
    for command in commands:
        found = CALL.fullmatch(command)
        assert found, command
        assert found[1] in STEPS


def test_steps_run_where_nothing_is_installed():
    """As on a machine of CI before `install`: the standard library is enough."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", ALONE, str(ROOT)], check=True)
    assert done.returncode == 0


def test_every_step_is_run_by_some_workflow():
    commands = [step["run"] for path in WORKFLOWS for step in steps(path) if "run" in step]
    called = {found[1] for command in commands if (found := CALL.fullmatch(command))}
    assert called == STEPS.keys() - {"number"}  # which a person runs, before the tag


def test_the_makefile_runs_steps_that_there_are():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    called = set(re.findall(r"^\t\$\(STEP\) ([\w-]+)", text, re.M))
    assert {"lint", "types", "contracts", "audit", "test", "build", "smoke"} <= called
    assert called <= STEPS.keys()


def test_hooks_run_steps_that_there_are():
    hooks = [hook for repo in read(HOOKS)["repos"] for hook in repo["hooks"]]
    called = [found[1] for hook in hooks if (found := CALL.match(hook["entry"]))]
    assert {"contracts", "types", "files"} <= set(called) <= STEPS.keys()
    assert all(hook["language"] == "system" for hook in hooks)


def test_workflows_name_the_versions_of_python_that_the_packages_admit():
    named = {Version(each) for path in WORKFLOWS for each in pythons(path)}
    for project in PROJECTS:
        table = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        admitted = SpecifierSet(table["requires-python"])
        assert all(version in admitted for version in named)
        assert lower_bound_of_python(admitted) == min(named)
        claimed = {
            Version(found[1])
            for each in table["classifiers"]
            if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", each))
        }
        assert claimed, "no classifier names a version of Python"
        assert claimed <= named


def lower_bound_of_python(admitted):
    (bound,) = (Version(each.version) for each in admitted if each.operator == ">=")
    return bound


def test_the_matrix_has_three_systems_and_four_versions():
    for name, job in (("tests", "newest"), ("packages", "smoke")):
        matrix = read(ROOT / f".github/workflows/{name}.yml")["jobs"][job]["strategy"]["matrix"]
        assert {system.split("-")[0] for system in matrix["os"]} == {"ubuntu", "macos", "windows"}
        assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]


def test_only_the_job_that_publishes_may_prove_who_it_is():
    for path in WORKFLOWS:
        for name, job in read(path)["jobs"].items():
            publishes = (path.stem, name) == ("release", "publish")
            assert job.get("permissions") == ({"id-token": "write"} if publishes else None)
            assert ("environment" in job) == publishes
        assert "secrets." not in path.read_text()


def test_the_oldest_versions_are_those_of_the_projects():
    assert FILE.read_text(encoding="utf-8") == constraints()
    pins = dict(line.split("==") for line in constraints().splitlines()[1:])
    for project in PROJECTS:
        for asked in map(Requirement, requirements(project)):
            pinned = Version(pins[asked.name])
            assert asked.specifier.contains(pinned)
            older = [each for each in asked.specifier if each.operator == ">="]
            assert [Version(each.version) for each in older] == [pinned]


def test_templates_of_issues_ask_for_something():
    forms = [
        path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"
    ]
    assert len(forms) == 2
    for form in map(read, forms):
        assert {"name", "description", "body"} <= form.keys()
        assert any(part.get("validations", {}).get("required") for part in form["body"])
        assert len({part["id"] for part in form["body"]}) == len(form["body"])
