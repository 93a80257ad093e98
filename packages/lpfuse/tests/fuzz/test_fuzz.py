"""No forged file touches anything, stops the interpreter or makes it wait; it would be seen.

This is the small form; ``python -m fuzz`` from the folder of the tests runs the long one.
"""

import json
import subprocess
import sys
import zipfile

import pytest

from fuzz.corpus import models
from fuzz.hunting import hunt
from lpfuse.io import save

pytest.importorskip("resource", reason="memory can be limited on Unix alone")


@pytest.fixture(scope="module")
def caught(tmp_path_factory):
    """What is found of a class that is unsafe on purpose."""
    return hunt(tmp_path_factory.mktemp("careless"), 300, "careless", seconds=2)


UNSAFE = {
    "cache = 'bait'": "open ('bait', 'r'",
    "cache = '/etc/passwd'": "open ('/etc/passwd', 'r'",
    "size = 4611686018427387904": "died of signal 6",
    "size = -1": "took too long",
}


@pytest.mark.slow
def test_the_fuzzer_finds_what_an_unsafe_class_does(caught):
    alone = [found for found in caught.findings if found.forgery.startswith("values")]
    for forgery, what in UNSAFE.items():
        told = [found.what for found in alone if found.forgery.endswith(forgery)]
        assert len(told) == 1, forgery
        assert told[0].startswith(what)


PREVENTED = {  # by a check: a model, a kind of forgery, and what it does where the check is off
    "owner": ("StandardScaler", "misplaced", "died of signal"),
    "children": ("DecisionTreeClassifier", "rewired", "died of signal"),
    "order": ("OneHotEncoder, two", "arrays", "out of range"),
}


@pytest.mark.parametrize("check", PREVENTED)
@pytest.mark.slow
def test_the_fuzzer_finds_what_a_check_prevents(check, tmp_path):
    model, kind, what = PREVENTED[check]
    for without, is_found in (((), False), ((check,), True)):
        folder = tmp_path / str(is_found)
        folder.mkdir()
        # A process whose memory is overwritten may also wait for itself: not for long.
        found = hunt(folder, 200, "scikit-learn", [model], 2, without=without, forge=[kind])
        assert any(each.what.startswith(what) for each in found.findings) == is_found


@pytest.mark.slow
def test_the_fuzzer_counts_what_asks_for_too_much_memory(caught):
    assert caught.outcomes["MemoryError"] >= 1
    assert caught.outcomes["refused"] > 100


@pytest.mark.slow
def test_every_class_that_a_file_may_hold_is_fuzzed(tmp_path):
    held = set()
    for _, model in models():
        save(model, tmp_path / "model")
        with zipfile.ZipFile(tmp_path / "model") as archive:
            objects = json.loads(archive.read("manifest.json"))["objects"]
        held |= {described["object"][0] for described in objects if "object" in described}
    # In a process of its own, where no test has registered a class.
    code = "from lpfuse.io.reading import loadable_classes; print(*loadable_classes())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(told.stdout.split()) > 100
    assert set(told.stdout.split()) <= held


def test_the_model_that_ran_code_does_nothing_any_more(tmp_path):
    """A pipeline in an adapter: with a cache and a method that fits, it read pickles."""
    found = hunt(tmp_path, 30, "ours", ["ScoreFunction, pipeline"])
    assert found.findings == []
    assert found.outcomes["refused"] > 50


@pytest.mark.parametrize("kind", ["ours", "faces", "scikit-learn"])
@pytest.mark.slow
def test_no_forged_file_does_anything(kind, tmp_path):
    found = hunt(tmp_path, 1, kind)
    assert found.findings == []
