"""Weight files: found, checked, read; damaged, strange and dangerous ones are refused."""

import hashlib
import os
import pickle
import struct
import sys
from contextlib import suppress

import numpy as np
import pytest

from helpers.pairwise import each_value
from lpfuse_faces._networks.weights import (
    KNOWN,
    KnownFile,
    checked_digest,
    find_weights,
    random_weights,
    read_weights,
    weights_folder,
)

SHAPES = {
    "conv1.conv.weight": (2, 3, 3, 3),
    "conv1.bn.weight": (2,),
    "conv1.bn.bias": (2,),
    "conv1.bn.running_mean": (2,),
    "conv1.bn.running_var": (2,),
    "conv2.conv.weight": (4, 2, 1, 1),
    "conv2.bn.weight": (4,),
    "conv2.bn.bias": (4,),
    "conv2.bn.running_mean": (4,),
    "conv2.bn.running_var": (4,),
}
NUMBERS = sum(int(np.prod(shape)) for shape in SHAPES.values())
UNUSED = ("conv3.",)


def read(path):
    return read_weights(path, SHAPES, UNUSED)


# Where files are


def test_a_missing_file_is_described(tmp_path):
    with pytest.raises(FileNotFoundError) as told:
        find_weights("inception", tmp_path)
    for part in (
        str(tmp_path),
        "inception_v3_google-0cc3c7bd.pth",
        "https://download.pytorch.org/models/inception_v3_google-0cc3c7bd.pth",
        "109 MB",
        "LPFUSE_WEIGHTS",
        '"random"',
    ):
        assert part in str(told.value)


def test_the_folder_is_given_or_set_or_the_default(monkeypatch, tmp_path):
    monkeypatch.setenv("LPFUSE_WEIGHTS", str(tmp_path / "set"))
    assert weights_folder(tmp_path / "given") == tmp_path / "given"
    assert weights_folder() == tmp_path / "set"
    monkeypatch.setenv("LPFUSE_WEIGHTS", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert weights_folder() == tmp_path / ".cache/lpfuse/weights"


def test_the_file_to_get_is_preferred_and_older_ones_do(tmp_path):
    new, old = (file.name for file in KNOWN if file.network == "alexnet")
    (tmp_path / old).touch()
    assert find_weights("alexnet", tmp_path).name == old
    (tmp_path / new).touch()
    assert find_weights("alexnet", tmp_path).name == new
    with pytest.raises(FileNotFoundError, match=r"darknet19\.weights"):
        find_weights("darknet", tmp_path)


def test_what_is_known_of_known_files_is_consistent():
    for file in KNOWN:
        assert file.url.startswith("https://")
        assert file.url.endswith("/" + file.name)
        if file.name.endswith(".pth"):
            assert file.name.removesuffix(".pth").endswith("-" + file.sha256)
    assert {file.network for file in KNOWN} == {"inception", "darknet", "alexnet"}


# What they are


def test_a_known_name_needs_the_known_digest(tmp_path):
    digest = hashlib.sha256(b"the published weights").hexdigest()
    known = KnownFile("alexnet", "published.pth", "https://site/published.pth", 1, digest[:8])
    path = tmp_path / "published.pth"
    path.write_bytes(b"the published weights")
    assert checked_digest(path, [known]) == digest
    path.write_bytes(b"something else")
    came = hashlib.sha256(b"something else").hexdigest()
    with pytest.raises(ValueError, match=f"start with {digest[:8]} and is {came}.*Download.*own"):
        checked_digest(path, [known])
    assert checked_digest(path.rename(tmp_path / "mine.pth"), [known]) == came


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"mine\.pth"):
        checked_digest(tmp_path / "mine.pth")


def test_an_unknown_kind_of_file(tmp_path):
    path = tmp_path / "weights.h5"
    path.touch()
    with pytest.raises(ValueError, match=r"\.pth.*\.weights.*\.onnx.*weights\.h5"):
        read(path)


# Files of torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def state(torch):
    values = random_weights(SHAPES, seed=3)
    return {name: torch.from_numpy(value) for name, value in values.items()}


def test_weights_of_torch_come_back(torch, state, tmp_path):
    extras = {"conv1.bn.num_batches_tracked": torch.tensor(7), "conv3.weight": torch.zeros(2, 4)}
    torch.save(state | extras, tmp_path / "w.pth")
    found = read(tmp_path / "w.pth")
    assert list(found) == list(SHAPES)
    for name, value in found.items():
        np.testing.assert_array_equal(value, state[name].numpy())


def test_half_precision_and_old_format_weights_are_read(torch, state, tmp_path):
    half = {name: value.half() for name, value in state.items()}
    torch.save(half, tmp_path / "w.pth", _use_new_zipfile_serialization=False)
    found = read(tmp_path / "w.pth")
    assert {value.dtype for value in found.values()} == {np.dtype(np.float32)}
    np.testing.assert_allclose(
        found["conv1.conv.weight"], state["conv1.conv.weight"], rtol=1e-3, atol=1e-6
    )


class Dangerous:
    """Leaves a trace where a reader runs it."""

    def __init__(self, trace):
        self.trace = str(trace)

    def __reduce__(self):
        return os.mkdir, (self.trace,)


@pytest.mark.parametrize("way", ["pickle", "torch", "old torch", "beside weights"])
def test_code_in_a_file_is_refused_and_does_not_run(torch, state, tmp_path, way):
    path, trace = tmp_path / "w.pth", tmp_path / "trace"
    content = Dangerous(trace)
    if way == "pickle":
        path.write_bytes(pickle.dumps(content, protocol=2))
    elif way == "beside weights":
        torch.save(state | {"conv3.weight": content}, path)
    else:
        torch.save(content, path, _use_new_zipfile_serialization=way == "torch")
    with pytest.raises(ValueError, match=r"could run code: it is refused.*state_dict"):
        read(path)
    assert not trace.exists()
    with suppress(RuntimeError):
        torch.load(path, weights_only=False)
    assert trace.exists()  # it was dangerous


def test_torch_that_could_run_code_reads_nothing(monkeypatch, tmp_path):
    class Old:
        __version__ = "2.5.1+cu124"

    monkeypatch.setitem(sys.modules, "torch", Old)
    with pytest.raises(ImportError, match=r"CVE-2026-24747.*torch>=2\.10"):
        read(tmp_path / "w.pth")


@pytest.mark.parametrize("content", [b"", b"no weights at all", b"PK\x03\x04 cut off"])
def test_a_damaged_file_of_torch(torch, tmp_path, content):
    path = tmp_path / "w.pth"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"w\.pth (is damaged|holds more)"):
        read(path)


def test_a_truncated_file_of_torch(torch, state, tmp_path):
    torch.save(state, tmp_path / "w.pth")
    content = (tmp_path / "w.pth").read_bytes()
    (tmp_path / "w.pth").write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="damaged"):
        read(tmp_path / "w.pth")


def test_other_content_of_torch(torch, state, tmp_path):
    path = tmp_path / "w.pth"
    torch.save([1, 2], path)
    with pytest.raises(ValueError, match=r"holds a list; a state dict was expected"):
        read(path)
    torch.save({"epoch": 3, "state_dict": state}, path)
    with pytest.raises(ValueError, match=r"epoch, state_dict, which are no tensors"):
        read(path)


def test_weights_of_another_network(torch, state, tmp_path):
    path = tmp_path / "w.pth"
    fewer = {name: value for name, value in state.items() if not name.startswith("conv2.bn.")}
    torch.save(fewer | {"layer.weight": torch.zeros(2)}, path)
    with pytest.raises(ValueError, match=r"Missing: conv2.* and 1 more; not known.*layer\.weight"):
        read(path)
    torch.save(state | {"conv2.conv.weight": torch.zeros(4, 2, 3, 3)}, path)
    with pytest.raises(ValueError, match=r"conv2\.conv\.weight.*\(4, 2, 1, 1\).*\(4, 2, 3, 3\)"):
        read(path)
    torch.save(state | {"conv2.bn.bias": torch.full((4,), torch.nan)}, path)
    with pytest.raises(ValueError, match=r"conv2\.bn\.bias holds numbers that are not finite"):
        read(path)


# Files of darknet


def darknet_file(path, numbers, version=(0, 2, 0), seen="<q"):
    """As the author's program writes it."""
    header = struct.pack("<3i", *version) + struct.pack(seen, 12_345)
    path.write_bytes(header + np.asarray(numbers, dtype="<f4").tobytes())
    return path


@each_value(
    counted=[((0, 1, 0), "<i"), ((0, 2, 0), "<q"), ((0, 2, 5), "<q"), ((1, 0, 0), "<q")],
    classes=[0, 1, 10],
)
def test_layers_of_darknet_are_read_in_their_order(tmp_path, counted, classes):
    version, seen = counted
    numbers = np.arange(NUMBERS + 5 * classes)
    found = read(darknet_file(tmp_path / "w.weights", numbers, version, seen))
    # Layer 1: 2 biases, scales, means, variances, then 2·3·3·3 weights; layer 2 follows.
    np.testing.assert_array_equal(found["conv1.bn.bias"], [0, 1])
    np.testing.assert_array_equal(found["conv1.bn.weight"], [2, 3])
    np.testing.assert_array_equal(found["conv1.bn.running_mean"], [4, 5])
    np.testing.assert_array_equal(found["conv1.bn.running_var"], [6, 7])
    np.testing.assert_array_equal(found["conv1.conv.weight"].ravel(), np.arange(8, 62))
    assert found["conv1.conv.weight"][1, 2, 0, 1] == 8 + 27 + 18 + 1
    np.testing.assert_array_equal(found["conv2.bn.bias"], [62, 63, 64, 65])
    np.testing.assert_array_equal(found["conv2.conv.weight"].ravel(), np.arange(78, 86))
    assert NUMBERS == 86


def test_a_file_of_darknet_of_the_wrong_length(tmp_path):
    path = tmp_path / "w.weights"
    with pytest.raises(ValueError, match=r"ends within conv2\.conv\.weight.*need 86 .* 85 came"):
        read(darknet_file(path, np.zeros(85)))
    with pytest.raises(ValueError, match=r"holds 7 numbers after the 86.*multiple of 5"):
        read(darknet_file(path, np.zeros(93)))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="no whole number of weights"):
        read(path)


def test_no_file_of_darknet(tmp_path):
    path = tmp_path / "w.weights"
    path.write_bytes(b"PK\x03\x04 something else")
    with pytest.raises(ValueError, match="no file of darknet: its version would be"):
        read(path)
    path.write_bytes(b"short")
    with pytest.raises(ValueError, match="5 bytes: too few"):
        read(path)


@pytest.mark.parametrize("names", [["features.0.weight"], ["Conv2d_1a_3x3.conv.weight"]])
def test_only_darknet_reads_files_of_darknet(tmp_path, names):
    path = darknet_file(tmp_path / "w.weights", np.zeros(86))
    with pytest.raises(ValueError, match="only DarkNet-19"):
        read_weights(path, dict.fromkeys(names, (2, 3, 3, 3)), ())


# Random weights


def test_random_weights_are_those_of_their_seed():
    first, again, other = (random_weights(SHAPES, seed) for seed in (0, 0, 1))
    for name, value in first.items():
        assert value.shape == SHAPES[name]
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, again[name])
    assert (first["conv1.conv.weight"] != other["conv1.conv.weight"]).mean() > 0.9
    # The same on every machine, today and tomorrow.
    assert first["conv1.conv.weight"].ravel()[:2] == pytest.approx([0.33057, 0.12913], abs=1e-5)


def test_random_weights_keep_the_size_of_signals():
    small = ("bn.weight", "bn.bias", "bn.running_mean", "bn.running_var", "fc.bias")
    found = random_weights({"weight": (500, 8, 5, 5)} | dict.fromkeys(small, (3,)), seed=0)
    assert found["weight"].var() == pytest.approx(2 / (8 * 5 * 5), rel=0.02)
    assert found["weight"].mean() == pytest.approx(0, abs=1e-3)
    for name in small:
        assert set(found[name]) == {float(name in ("bn.weight", "bn.running_var"))}
