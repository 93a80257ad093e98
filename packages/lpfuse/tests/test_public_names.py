"""The names that users import: all there, each loaded when it is first asked for."""

import ast
import inspect
import subprocess
import sys
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

import lpfuse
from helpers.cases import cases


def said_by(code):
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_every_public_name_has_a_home():
    for name in lpfuse.__all__:
        home = import_module(f"lpfuse.{lpfuse._MODULE_OF[name]}")
        assert getattr(lpfuse, name) is getattr(home, name)
        assert name in dir(lpfuse)


def test_rooms_need_no_import_of_their_own():
    rooms = ", ".join(f"lpfuse.{name}.__name__" for name in lpfuse._SUBMODULES)
    told = said_by(f"import lpfuse; print({rooms})")
    assert told.split() == [f"lpfuse.{name}" for name in lpfuse._SUBMODULES]


@cases("room", lpfuse._SUBMODULES)
def test_every_room_lists_its_public_names(room):
    """Each name is there, begins without an underscore, and says what it is."""
    module = import_module(f"lpfuse.{room}")
    assert module.__all__
    for name in module.__all__:
        assert not name.startswith("_")
        found = getattr(module, name)
        assert not callable(found) or (found.__doc__ or "").strip()


def test_checkers_of_types_see_the_rooms():
    source = Path(lpfuse.__file__).read_text(encoding="utf-8")
    for room in lpfuse._SUBMODULES:
        assert f"from lpfuse import {room} as {room}\n" in source


def test_load_is_declared_with_the_parameters_it_has():
    tree = ast.parse(Path(lpfuse.__file__).read_text(encoding="utf-8"))
    (declared,) = (x for x in ast.walk(tree) if getattr(x, "name", None) == "load")
    real = ast.parse(textwrap.dedent(inspect.getsource(lpfuse.load))).body[0]
    assert ast.dump(declared.args) == ast.dump(real.args)


def test_names_and_homes_agree():
    assert set(lpfuse.__all__) == set(lpfuse._MODULE_OF)


def test_import_alone_loads_nothing_heavy():
    heavy = ("numpy", "scipy", "sklearn")
    told = said_by(f"import sys, lpfuse; print([m for m in {heavy} if m in sys.modules])")
    assert told.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        lpfuse.nothing  # noqa: B018
