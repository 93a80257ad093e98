"""The names that users import from lpfuse_faces, each loaded when it is first asked for."""

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import pytest

import lpfuse_faces as faces
from helpers.cases import cases


@cases("name", faces.__all__)
def test_every_name_has_a_home(name):
    home = import_module(f"lpfuse_faces.{faces._HOMES[name]}")
    assert getattr(faces, name) is getattr(home, name)
    assert name in dir(faces)


def test_names_and_homes_agree():
    assert set(faces.__all__) == set(faces._HOMES)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        faces.nothing  # noqa: B018


def test_names_load_nothing_heavy():
    heavy = ("av", "cv2", "onnxruntime", "torch", "skimage", "matplotlib")
    code = (
        "import sys\n"
        f"from lpfuse_faces import {', '.join(faces.__all__)}\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def public_modules():
    """All but those with an underscore; the command line is no API."""
    found = iter_modules(faces.__path__)
    return [each.name for each in found if not each.name.startswith("_") and each.name != "cli"]


def test_public_modules_are_these():
    assert public_modules() == ["clips", "contact_sheet", "evaluation", "stand_in"]


@cases("name", public_modules())
def test_what_is_public_says_so(name):
    module = import_module(f"lpfuse_faces.{name}")
    assert module.__all__
    assert all(hasattr(module, each) for each in module.__all__)
    inside = [each.name for each in iter_modules(module.__path__)]
    assert all(each.startswith("_") for each in inside)
