"""Features on disk: found by content and key, and never half a file."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from lpfuse_faces._cache import FeatureCache
from lpfuse_faces._extractor import content_of
from lpfuse_faces._features import VideoFeatures

SHA = "ba" * 32


def make_video(name="clip.mp4", sha256=SHA, value=0.0):
    return VideoFeatures(
        name=name,
        sha256=sha256,
        index=[0, 1],
        time=[0.0, 0.04],
        boxes=np.zeros((2, 4)),
        landmarks=np.zeros((2, 5, 2)),
        sets={"azimuthal/face": np.full((2, 3), value)},
        n_frames=2,
    )


@pytest.fixture
def cache(tmp_path):
    return FeatureCache(tmp_path / "cache")


def test_what_was_stored_is_found_by_content_and_key(cache):
    assert cache.find(SHA, "key") is None
    cache.store(make_video(), "key")
    assert cache.find(SHA, "key") == make_video()
    assert cache.find(SHA, "other") is None
    assert cache.find("cd" * 32, "key") is None


def test_the_layout_is_as_documented(cache):
    cache.prepare("key", {"format": 1, "settings": {"bins": 64}})
    cache.store(make_video(), "key")
    files = {str(file.relative_to(cache.folder)) for file in cache.folder.rglob("*.*")}
    assert files == {"key/settings.json", f"key/ba/{SHA}.npz"}
    meaning = json.loads((cache.folder / "key" / "settings.json").read_text())
    assert meaning == {"format": 1, "settings": {"bins": 64}}


def test_the_later_one_replaces_the_earlier(cache):
    cache.store(make_video(value=1.0), "key")
    cache.store(make_video(value=2.0), "key")
    assert cache.find(SHA, "key") == make_video(value=2.0)


def test_damaged_and_foreign_files_count_as_absent_and_are_replaced(cache):
    cache.store(make_video(), "key")
    [file] = cache.folder.rglob("*.npz")
    whole = file.read_bytes()
    other = cache.folder / "other.npz"
    make_video(sha256="cd" * 32).save(other)
    np.savez(cache.folder / "foreign.npz", x=1)
    foreign = (cache.folder / "foreign.npz").read_bytes()
    for content in (b"", whole[:-1], whole[: len(whole) // 2], foreign, other.read_bytes()):
        file.write_bytes(content)
        assert cache.find(SHA, "key") is None
        cache.store(make_video(), "key")
        assert cache.find(SHA, "key") == make_video()


def test_a_folder_instead_of_a_file_counts_as_absent(cache):
    (cache.folder / "key" / "ba" / f"{SHA}.npz").mkdir(parents=True)
    assert cache.find(SHA, "key") is None


def test_an_error_while_storing_leaves_what_was_there(cache, monkeypatch):
    cache.store(make_video(value=1.0), "key")

    def full(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        cache.store(make_video(value=2.0), "key")
    assert cache.find(SHA, "key") == make_video(value=1.0)
    assert [file.suffix for file in cache.folder.rglob("*.*")] == [".npz"]


def run(script, *arguments):
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)])


DIES_WHILE_STORING = """
import os, signal, sys
from lpfuse_faces._cache import FeatureCache
from lpfuse_faces._extractor import content_of
from lpfuse_faces._features import VideoFeatures

video = VideoFeatures.load(sys.argv[2])
os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
FeatureCache(sys.argv[1]).store(video, "key")
"""


def test_a_process_killed_while_storing_leaves_nothing_that_is_read(cache, tmp_path):
    make_video().save(tmp_path / "it.npz")
    process = run(DIES_WHILE_STORING, cache.folder, tmp_path / "it.npz")
    assert process.wait() == -signal.SIGKILL
    [left] = cache.folder.rglob("*.*")
    assert left.suffix == ".tmp"
    assert cache.find(SHA, "key") is None
    cache.store(make_video(), "key")
    assert cache.find(SHA, "key") == make_video()


KEEPS_STORING = """
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from lpfuse_faces._cache import FeatureCache
from lpfuse_faces._extractor import content_of
from lpfuse_faces._features import VideoFeatures

video, enough = VideoFeatures.load(sys.argv[2]), Path(sys.argv[3])
for n_frames in count(2):
    FeatureCache(sys.argv[1]).store(replace(video, n_frames=n_frames), "key")
    if enough.exists():
        break
"""


@pytest.mark.slow
def test_readers_never_see_half_of_what_another_process_writes(cache, tmp_path):
    make_video().save(tmp_path / "it.npz")
    cache.store(make_video(), "key")
    process = run(KEEPS_STORING, cache.folder, tmp_path / "it.npz", tmp_path / "enough")
    seen = set()
    while len(seen) < 10 and process.poll() is None:
        seen.add(cache.find(SHA, "key").n_frames)  # None would be an error
    (tmp_path / "enough").touch()
    assert process.wait() == 0
    assert len(seen) == 10


def test_a_folder_that_cannot_be_written_is_refused_with_advice(tmp_path):
    (tmp_path / "file").touch()
    cache = FeatureCache(tmp_path / "file" / "cache")
    with pytest.raises(OSError, match=r"cannot be stored in .*Name a folder"):
        cache.prepare("key", {})


def test_preparing_twice_keeps_what_is_there(cache):
    cache.prepare("key", {"format": 1})
    cache.store(make_video(), "key")
    cache.prepare("key", {"format": 1})
    assert cache.find(SHA, "key") == make_video()


def test_the_hash_of_a_file_is_that_of_its_content(tmp_path):
    content = np.random.default_rng(0).bytes(3_000_000)  # several pieces
    (tmp_path / "it").write_bytes(content)
    (tmp_path / "copy").write_bytes(content)
    (tmp_path / "other").write_bytes(content[:-1] + b"x")
    assert content_of(tmp_path / "it") == content_of(tmp_path / "copy")
    assert content_of(tmp_path / "it") != content_of(tmp_path / "other")
