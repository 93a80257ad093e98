"""The names that users import from lpfuse_faces, each loaded when it is first asked for."""

import subprocess
import sys
from importlib import import_module

import pytest

import lpfuse_faces as faces


@pytest.mark.parametrize("name", faces.__all__)
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
