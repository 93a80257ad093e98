"""Weights, features and tables made to harm: regular files, bounded, or a sentence."""

import json
import os
import struct
import zipfile

import numpy as np
import pytest
from typer.testing import CliRunner

from lpfuse_cli.app import app
from lpfuse_faces import FeatureCache, Limits, Settings, UnreadableVideo, VideoFeatures, read_clips
from lpfuse_faces._detection.networks import FILES, read_cascade
from lpfuse_faces._extractor import Extractor, content_of
from lpfuse_faces._networks.loading import load_network
from lpfuse_faces._networks.weights import LARGEST, checked_digest, read_weights
from lpfuse_faces._regular_file import NotRegular, read_regular
from lpfuse_faces._video import write_video
from lpfuse_faces.clips import faceforensics

posix = pytest.mark.skipif(os.name != "posix", reason="pipes and devices with names")
SHAPES = {"a.weight": (2, 3), "a.bias": (2,)}


def features(sha256="ba78"):
    rows = {"boxes": np.zeros((1, 4)), "landmarks": np.zeros((1, 5, 2))}
    sets = {"azimuthal/face": np.ones((1, 64))}
    return VideoFeatures("a.mp4", sha256, index=[0], time=[0.0], sets=sets, n_frames=1, **rows)


def repacked(path, target, compression=zipfile.ZIP_DEFLATED, **replaced):
    """The same archive, compressed, with some members replaced."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", compression) as new:
        for name in old.namelist():
            new.writestr(name, replaced.get(name.removesuffix(".npy"), old.read(name)))
    return target


# Features


def test_features_that_are_compressed_are_refused(tmp_path):
    features().save(tmp_path / "it.npz")
    bomb = np.lib.format.magic(1, 0)
    head = repr({"descr": "<f8", "fortran_order": False, "shape": (10**7,)}).encode()
    member = bomb + struct.pack("<H", len(head) + 1) + head + b"\n" + bytes(8 * 10**7)
    path = repacked(tmp_path / "it.npz", tmp_path / "bomb.npz", time=member)
    assert path.stat().st_size < 200_000
    with pytest.raises(ValueError, match=r"it is compressed, which such files are not.*Extract"):
        VideoFeatures.load(path)
    same = repacked(tmp_path / "it.npz", tmp_path / "same.npz", zipfile.ZIP_STORED)
    assert VideoFeatures.load(same) == features()


def test_features_with_objects_or_claims_are_refused(tmp_path):
    features().save(tmp_path / "it.npz")
    for descr, shape in (("|O", (1,)), ("<f8", (10**15,)), ("|V0", (10**15,)), ("<f8", (-1,))):
        head = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
        member = np.lib.format.magic(1, 0) + struct.pack("<H", len(head)) + head + bytes(8)
        stored = zipfile.ZIP_STORED
        path = repacked(tmp_path / "it.npz", tmp_path / "odd.npz", stored, time=member)
        with pytest.raises(ValueError, match="is not a file of features"):
            VideoFeatures.load(path)


@posix
def test_a_cache_with_a_pipe_in_it_is_no_cache(tmp_path):
    cache = FeatureCache(tmp_path)
    cache.store(features(), "key")
    place = tmp_path / "key" / "ba" / "ba78.npz"
    place.unlink()
    os.mkfifo(place)
    assert cache.find("ba78", "key") is None
    with pytest.raises(OSError, match="a pipe, a socket or a device"):
        VideoFeatures.load(place)
    assert cache.find("ba78\0", "key") is None


# Weights


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def test_weights_that_are_compressed_are_refused(torch, tmp_path):
    state = {name: torch.zeros(shape) for name, shape in SHAPES.items()}
    torch.save(state, tmp_path / "w.pth")
    assert list(read_weights(tmp_path / "w.pth", SHAPES, ())) == list(SHAPES)
    path = repacked(tmp_path / "w.pth", tmp_path / "packed.pth")
    with pytest.raises(ValueError, match="it is compressed, which such files are not"):
        read_weights(path, SHAPES, ())


def test_tensors_that_repeat_one_number_are_not_spread_out(torch, tmp_path):
    """Ten bytes may stand for a tensor of a terabyte: its shape is looked at first."""
    huge = torch.zeros(1, dtype=torch.float16).expand(10**6, 10**6)
    torch.save({"a.weight": huge, "a.bias": torch.zeros(2)}, tmp_path / "w.pth")
    with pytest.raises(ValueError, match=r"a.weight should have the shape \(2, 3\) and has"):
        read_weights(tmp_path / "w.pth", SHAPES, ())
    torch.save(
        {"head.weight": huge, **{k: torch.zeros(v) for k, v in SHAPES.items()}}, tmp_path / "w.pth"
    )
    assert list(read_weights(tmp_path / "w.pth", SHAPES, ("head.",))) == list(SHAPES)


def test_tensors_of_other_kinds_are_refused(torch, tmp_path):
    for odd in (torch.zeros(2, 3).to_sparse(), torch.zeros(2, 3, device="meta")):
        torch.save({"a.weight": odd, "a.bias": torch.zeros(2)}, tmp_path / "w.pth")
        with pytest.raises(ValueError, match=r"is no plain tensor|is damaged"):
            read_weights(tmp_path / "w.pth", SHAPES, ())


def test_files_of_torch_that_are_damaged_anywhere(torch, tmp_path):
    torch.save({name: torch.ones(shape) for name, shape in SHAPES.items()}, tmp_path / "w.pth")
    whole, rng, path = (
        (tmp_path / "w.pth").read_bytes(),
        np.random.default_rng(0),
        tmp_path / "d.pt",
    )
    refused = 0
    for _ in range(100):
        damaged = bytearray(whole)
        for at in rng.integers(0, len(whole), 5):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            read_weights(path, SHAPES, ())
        except ValueError:
            refused += 1
    assert refused


def test_a_weight_file_of_more_than_a_gigabyte(tmp_path):
    path = tmp_path / "w.pth"
    with path.open("wb") as file:
        file.truncate(LARGEST + 1)  # a hole: it takes no room
    with pytest.raises(ValueError, match=r"has 1,073,741,825 bytes.*at most 1,073,741,824"):
        checked_digest(path)


@posix
def test_weights_are_regular_files(tmp_path):
    for name in ("w.pth", *FILES):
        os.mkfifo(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="There is no weight file"):
        checked_digest(tmp_path / "w.pth")
    with pytest.raises(FileNotFoundError, match="MTCNN needs"):
        read_cascade(tmp_path)


def test_an_onnx_file_that_keeps_its_weights_elsewhere(tmp_path):
    """What its digest does not cover is not read."""
    onnx = pytest.importorskip("onnx")
    np.zeros((1, 1024), np.float32).tofile(tmp_path / "beside.bin")
    weight = onnx.TensorProto(name="w", data_type=1, dims=[1, 1024], data_location=1)
    for key, value in (("location", "beside.bin"), ("offset", "0"), ("length", "4096")):
        weight.external_data.add(key=key, value=value)
    floats = onnx.helper.make_tensor_value_info
    nodes = [
        onnx.helper.make_node("GlobalAveragePool", ["x"], ["mean"]),
        onnx.helper.make_node("ReduceMean", ["mean"], ["one"], axes=[1, 2, 3], keepdims=0),
        onnx.helper.make_node("Unsqueeze", ["one", "axis"], ["column"]),
        onnx.helper.make_node("MatMul", ["column", "w"], ["y"]),
    ]
    axis = onnx.helper.make_tensor("axis", 7, [1], [1])
    ends = [floats("x", 1, ["n", 3, 256, 256])], [floats("y", 1, ["n", 1024])]
    graph = onnx.helper.make_graph(nodes, "g", *ends, [weight, axis])
    opset = onnx.helper.make_opsetid("", 13)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match="All weights must be in this one file"):
        load_network("darknet", tmp_path / "net.onnx")
    del weight.external_data[:]
    inside = onnx.numpy_helper.from_array(np.zeros((1, 1024), np.float32), "w")
    graph = onnx.helper.make_graph(nodes, "g", *ends, [inside, axis])
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    images = np.zeros((2, 256, 256), np.float32)
    assert load_network("darknet", tmp_path / "net.onnx")(images).shape == (2, 1024)


# Settings of a model's file


def test_no_file_raises_limits_or_widths():
    settings = Settings(limits=Limits(pixels=1))
    assert "limits" not in settings.to_dict()
    with pytest.raises(ValueError, match="Settings have no 'limits'"):
        Settings.from_dict({"limits": {"pixels": 10**12}})
    with pytest.raises(ValueError, match="bins must be at most 4,096"):
        Settings.from_dict({"bins": 10**12})
    assert Extractor(settings).key == Extractor().key  # they change no feature


# Collections


@posix
def test_collections_with_pipes_loops_and_odd_names(tmp_path):
    for folder in ("genuine", "forged"):
        (tmp_path / folder).mkdir()
    odd = "a b\n\x1b[31m.mp4"
    write_video(tmp_path / "genuine" / odd, np.zeros((2, 32, 32, 3), np.uint8))
    os.mkfifo(tmp_path / "genuine" / "pipe.mp4")
    (tmp_path / "genuine" / "loop.mp4").symlink_to("loop.mp4")
    (tmp_path / "forged" / "up").symlink_to(tmp_path)
    (tmp_path / "forged" / "zero.mp4").symlink_to("/dev/zero")
    assert [clip.path.name for clip in read_clips(tmp_path)] == [odd]


@posix
def test_tables_and_splits_are_regular_files_of_some_size(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(FileNotFoundError, match="There is no file or folder"):
        read_clips(tmp_path / "pipe.csv")
    with pytest.raises(NotRegular, match=r"pipe.csv: this is no file but a pipe"):
        read_regular(tmp_path / "pipe.csv", 10)
    for part in ("original_sequences", "manipulated_sequences/Deepfakes"):
        (tmp_path / part).mkdir(parents=True)
    pairs = [["001", "002"]]
    for name in ("train", "val", "test"):
        (tmp_path / f"{name}.json").write_text(json.dumps(pairs))
    for content in ("[" * 200_000, " " * (1 << 21), '[["../../etc", "002"]]', "[" * 10**6):
        (tmp_path / "val.json").write_text(content)
        with pytest.raises(ValueError, match=r"val.json (is not JSON|must hold)"):
            faceforensics(tmp_path)


@posix
def test_content_is_not_read_without_end(tmp_path):
    os.mkfifo(tmp_path / "pipe.mp4")
    for path in (tmp_path / "pipe.mp4", "/dev/zero"):
        with pytest.raises(UnreadableVideo, match="which may never end"):
            content_of(path)
    with (tmp_path / "hole.mp4").open("wb") as file:
        file.truncate(65 << 30)
    with pytest.raises(UnreadableVideo, match=r"69,793,218,560 bytes.*--limit bytes="):
        content_of(tmp_path / "hole.mp4")


# The command line


@posix
def test_commands_name_and_skip_what_is_hostile(tmp_path):
    clips, cache = tmp_path / "clips", tmp_path / "cache"
    clips.mkdir()
    write_video(clips / "good.mp4", np.full((4, 64, 64, 3), 128, np.uint8))
    (clips / "list.mp4").write_text(f"#EXTM3U\n{clips / 'good.mp4'}\n")
    (clips / "concat.avi").write_text(f"ffconcat version 1.0\nfile {clips / 'good.mp4'}\n")
    (clips / "empty.mkv").touch()
    (clips / "\x1b[31mred.mp4").write_bytes(b"nothing")
    before = sorted(clips.iterdir())
    run = CliRunner().invoke
    answer = run(app, ["faces", "extract", str(clips), "--cache", str(cache), "--json"])
    assert answer.exit_code == 0
    told = json.loads(answer.stdout)
    assert (told["extracted"], len(told["skipped"])) == (1, 4)
    assert sorted(clips.iterdir()) == before
    line = ["faces", "extract", str(clips), "--cache", str(cache)]
    name = "\x1b[31mred.mp4"
    answer = run(app, line, color=True)
    assert repr(name)[1:] in answer.output
    assert name not in answer.output
    line = ["faces", "extract", str(clips / name), "--cache", str(cache)]
    answer = run(app, line, color=True)
    assert answer.exit_code == 2
    assert repr(name) in answer.output
    assert name not in answer.output
    assert "Traceback" not in answer.output


def test_limits_on_the_command_line(tmp_path):
    clip, cache = tmp_path / "clip.mp4", tmp_path / "cache"
    write_video(clip, np.full((4, 64, 64, 3), 128, np.uint8))
    line = ["faces", "extract", str(clip), "--cache", str(cache)]
    answer = CliRunner().invoke(app, [*line, "--limit", "frames=3"])
    assert answer.exit_code == 2
    assert "at most 3 frames are read" in answer.stderr
    assert "--limit frames=..." in answer.stderr
    answer = CliRunner().invoke(app, [*line, "--limit", "frame=3"])
    assert answer.exit_code == 2
    assert "'pixels', 'frames', 'duration', 'seconds', 'bytes'" in answer.stderr
    assert list(cache.rglob("*.npz")) == []
    answer = CliRunner().invoke(app, [*line, "--limit", "frames=4", "--limit", "seconds=500"])
    assert answer.exit_code == 0
