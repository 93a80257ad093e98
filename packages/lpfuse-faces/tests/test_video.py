"""Frames in the right order and number, whatever the file; one error for all that is no video."""

import copy
import os
import struct
import tracemalloc
import weakref
from contextlib import suppress
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("av", reason="av is not installed")

import av
import cv2

from helpers.cases import cases
from lpfuse._format import plain
from lpfuse_faces._limits import Limits, Stopwatch, UnreadableVideo
from lpfuse_faces._video import Sampling, _chosen, _count_of_frames, frames_of, write_video

N_FRAMES = 40


def shades(n=N_FRAMES, height=48, width=64):
    """Pictures that tell their number: each is a little lighter, with a dark corner top left."""
    for i in range(n):
        image = np.full((height, width, 3), 20 + 5 * (i % N_FRAMES), np.uint8)
        image[: height // 4, : width // 4] = 0
        yield image


def number_of(image):
    return round((np.median(image) - 20) / 5)


def encoded(path, images, codec="libx264", pixels="yuv420p", times=None, **options):
    """A file written by PyAV itself."""
    images = list(images)
    with av.open(path, "w", container_options=options) as container:
        stream = container.add_stream(codec, rate=25)
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = pixels
        for i, image in enumerate(images):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            if times is not None:
                frame.pts, frame.time_base = times[i], Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    write_video(path, shades())
    return path


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """Frames that take bytes, with the index of the file at its front."""
    noise = np.random.default_rng(0).integers(0, 256, (N_FRAMES, 48, 64, 3), dtype=np.uint8)
    return encoded(tmp_path_factory.mktemp("clips") / "n.mp4", noise, movflags="faststart")


# Which frames


@pytest.mark.parametrize("threads", [1, 3])
def test_every_frame_comes_once_and_in_order(clip, threads):
    frames = list(frames_of(clip, threads=threads))
    assert [frame.index for frame in frames] == list(range(N_FRAMES))
    assert [number_of(frame.image) for frame in frames] == list(range(N_FRAMES))
    np.testing.assert_allclose([frame.time for frame in frames], np.arange(N_FRAMES) / 25)
    image = frames[0].image
    assert (image.dtype, image.shape, image.flags.c_contiguous) == (np.uint8, (48, 64, 3), True)


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(every=15), [0, 15, 30]),
        (Sampling(every=100), [0]),
        (Sampling(count=4), [5, 15, 25, 35]),
        (Sampling(count=3), [6, 20, 33]),
        (Sampling(count=1), [20]),
        (Sampling(count=N_FRAMES), list(range(N_FRAMES))),
        (Sampling(count=1000), list(range(N_FRAMES))),
    ],
)
def test_sampled_frames_are_those_of_the_whole_video(clip, sampling, expected):
    frames = list(frames_of(clip, sampling))
    assert [frame.index for frame in frames] == expected
    assert [number_of(frame.image) for frame in frames] == expected
    np.testing.assert_allclose([frame.time for frame in frames], np.array(expected) / 25)


@cases("n_frames, count", product([1, 2, 7, 100, 101], [1, 2, 6, 33, 200]))
def test_a_count_spreads_evenly(n_frames, count):
    taken = list(Sampling(count=count).of(n_frames))
    assert len(taken) == min(count, n_frames)
    gaps = np.diff([-0.5, *taken, n_frames - 0.5])
    assert gaps[1:-1].size == 0 or np.ptp(gaps[1:-1]) <= 1
    assert abs(gaps[0] - gaps[-1]) <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"every": 2, "count": 3}, "Either every or count may be given, got every=2 and count=3"),
        ({"every": 0}, "every must be a whole number from 1, got 0"),
        ({"count": 2.5}, "count must be a whole number from 1, got 2.5"),
    ],
)
def test_a_sampling_that_means_nothing_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**arguments)


def test_threads_must_be_a_count(clip):
    with pytest.raises(ValueError, match="threads must be a whole number from 1, got 0"):
        next(frames_of(clip, threads=0))


def test_only_sampled_frames_are_converted(clip):
    converted = []

    class Decoded:
        time, rotation = 0.0, 0

        def __init__(self, k):
            self.k = k

        def to_ndarray(self, format):
            converted.append(self.k)
            return np.zeros((2, 2, 3), np.uint8)

    frames = list(_chosen(clip, map(Decoded, range(9)), Sampling(every=4).of(9)))
    assert [frame.index for frame in frames] == converted == [0, 4, 8]


def test_no_more_than_a_few_frames_are_held(tmp_path):
    path, size = tmp_path / "long.mp4", 240 * 320 * 3
    write_video(path, shades(60, 240, 320))
    next(frames_of(path))
    tracemalloc.start()
    try:
        for frame in frames_of(path):
            assert frame.image.nbytes == size
        assert tracemalloc.get_traced_memory()[1] < 5 * size
    finally:
        tracemalloc.stop()


# Whatever FFmpeg reads


@pytest.mark.parametrize(
    ("name", "codec", "pixels", "size"),
    [
        ("grey.mkv", "ffv1", "gray", (48, 64)),
        ("deep.mkv", "ffv1", "yuv420p10le", (37, 51)),
        ("full.mkv", "ffv1", "yuv444p", (37, 51)),
        ("alpha.mkv", "ffv1", "bgra", (48, 51)),
        ("old.avi", "mjpeg", "yuvj420p", (37, 64)),
        ("stream.ts", "libx264", "yuv420p", (48, 64)),
    ],
)
def test_formats_and_odd_sizes(tmp_path, name, codec, pixels, size):
    path = encoded(tmp_path / name, shades(10, *size), codec, pixels)
    for sampling, expected in ((Sampling(), range(10)), (Sampling(count=2), [2, 7])):
        frames = list(frames_of(path, sampling))
        assert [frame.index for frame in frames] == list(expected)
        assert [number_of(frame.image) for frame in frames] == list(expected)
        assert {frame.image.shape for frame in frames} == {(*size, 3)}


def test_a_frame_rate_that_varies(tmp_path):
    times = [0, 1, 5, 6, 20]
    path = encoded(tmp_path / "phone.mp4", shades(5), times=times)
    np.testing.assert_allclose([frame.time for frame in frames_of(path)], np.array(times) / 25)


@pytest.mark.parametrize("name", ["12:30.mp4", "a clip – Ünï%03d.mp4", "no_suffix"])
def test_names_are_names_and_nothing_else(clip, tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(clip.read_bytes())
    assert next(frames_of(name)).index == 0


@pytest.mark.parametrize(
    ("matrix", "corner"),
    [((0, 1, -1, 0), (0, -1)), ((-1, 0, 0, -1), (-1, -1)), ((0, -1, 1, 0), (-1, 0))],
)
def test_pictures_stand_upright(clip, tmp_path, matrix, corner):
    """A phone notes by which matrix its pictures are turned; the dark corner must move along."""
    content = bytearray(clip.read_bytes())
    a, b, c, d = (65536 * entry for entry in matrix)
    at = content.find(b"tkhd") + 44
    struct.pack_into(">9i", content, at, a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path = tmp_path / "turned.mp4"
    path.write_bytes(content)
    image = next(frames_of(path)).image
    assert image.shape[:2] == ((48, 64) if a else (64, 48))
    assert image.flags.c_contiguous
    corners = {(y, x) for y in (0, -1) for x in (0, -1) if image[y, x].max() < 10}
    assert corners == {corner}


def test_frames_that_an_edit_list_trims_are_not_missed(noisy, tmp_path):
    content = bytearray(noisy.read_bytes())
    at = content.find(b"elst") + 12
    length, start = struct.unpack_from(">II", content, at)
    struct.pack_into(">II", content, at, length // 2, start)
    path = tmp_path / "trimmed.mp4"
    path.write_bytes(content)
    assert len(list(frames_of(path))) == N_FRAMES // 2
    assert [f.index for f in frames_of(path, Sampling(count=4))] == [2, 7, 12, 17]


# What is no video


ALL = Sampling()


def reason_of(path, sampling=ALL):
    with pytest.raises(UnreadableVideo) as caught:
        list(frames_of(path, sampling))
    assert caught.value.path == path
    assert str(caught.value) == f"{plain(path.name)}: {caught.value.reason}"
    return caught.value.reason


def sound(path, cover=False):
    with av.open(path, "w") as container:
        stream = container.add_stream("flac" if path.suffix == ".flac" else "aac", rate=16000)
        if cover and path.suffix == ".mka":
            _, png = cv2.imencode(".png", np.full((16, 16, 3), 9, np.uint8))
            container.add_attachment("cover.png", "image/png", png.tobytes())
        elif cover:
            picture = container.add_stream("png", rate=1)
            picture.height, picture.width, picture.pix_fmt = 16, 16, "rgb24"
            picture.disposition = av.stream.Disposition.attached_pic.value
            grey = np.full((16, 16, 3), 9, np.uint8)
            container.mux(picture.encode(av.VideoFrame.from_ndarray(grey, format="rgb24")))
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 4096), np.int16), "s16", "mono")
        frame.rate = 16000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def test_missing_folder_empty_and_text(tmp_path):
    assert reason_of(tmp_path / "none.mp4") == "there is no such file"
    assert reason_of(tmp_path / ("long" * 100)) == "there is no such file"
    assert reason_of(tmp_path) == "this is a folder"
    empty, text = tmp_path / "empty.mp4", tmp_path / "text.mp4"
    empty.touch()
    text.write_text("no video at all\n" * 100)
    assert reason_of(empty) == "the file is empty"
    assert "this is no video, or one that was cut short or damaged" in reason_of(text)


def test_sound_alone_even_with_a_cover(tmp_path):
    assert reason_of(sound(tmp_path / "talk.mp4")) == "no video stream, only audio"
    assert reason_of(sound(tmp_path / "song.mka")) == "no video stream, only audio"
    assert "MP4 and MOV" in reason_of(sound(tmp_path / "song.flac", cover=True))
    assert reason_of(sound(tmp_path / "song.mka", cover=True)) == "no video stream, only audio"


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(count=2), Sampling(every=30)])
def test_a_cut_file_is_found_before_any_frame(noisy, tmp_path, sampling):
    content = noisy.read_bytes()
    with av.open(noisy) as container:
        *_, last, _ = container.demux()
        between = last.pos
    for length in (len(content) // 2, between, len(content) - 100):
        path = tmp_path / f"{length}.mp4"
        path.write_bytes(content[:length])
        assert "the file is cut short: it ends at frame" in reason_of(path, sampling)
        with pytest.raises(UnreadableVideo):
            next(frames_of(path, sampling))


def test_a_cut_file_without_its_index_or_of_another_kind(clip, tmp_path):
    end = tmp_path / "end.mp4"
    end.write_bytes(clip.read_bytes()[:-500])  # the index comes last
    assert "cut short or damaged" in reason_of(end)
    avi = encoded(tmp_path / "whole.avi", shades(), "mpeg4")
    cut = tmp_path / "cut.avi"
    cut.write_bytes(avi.read_bytes()[:-2000])
    assert f"of {N_FRAMES}" in reason_of(cut)


def test_damage_and_unknown_codecs(noisy, tmp_path):
    content = bytearray(noisy.read_bytes())
    at = content.find(b"mdat") + 4
    zeroed, unknown = tmp_path / "zeroed.mp4", tmp_path / "unknown.mp4"
    zeroed.write_bytes(content[:at] + bytes(len(content) - at))
    assert "the video is damaged" in reason_of(zeroed)
    unknown.write_bytes(content.replace(b"avc1", b"xyz9").replace(b"avcC", b"xyzC"))
    assert "FFmpeg does not know" in reason_of(unknown)


def test_a_stream_without_frames(clip):
    nothing = SimpleNamespace(demux=lambda _: [])
    watch = Stopwatch(clip, 60)
    with pytest.raises(UnreadableVideo, match="the video stream has no frames"):
        _count_of_frames(clip, nothing, SimpleNamespace(frames=0, time_base=None), Limits(), watch)
    with pytest.raises(UnreadableVideo, match="none of the frames asked for can be decoded"):
        list(_chosen(clip, [], Sampling().of(9)))


def test_the_error_travels_between_processes():
    error = copy.copy(UnreadableVideo("a/b.mp4", "the file is empty"))  # as pickle does it
    assert str(error) == "b.mp4: the file is empty"
    assert isinstance(error, ValueError)


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on POSIX alone")
def test_an_undecodable_name_does_not_stop_a_batch(clip, tmp_path):
    name = os.fsdecode(b"clip\xff.mp4")
    try:
        (tmp_path / name).write_bytes(clip.read_bytes())
    except OSError:
        pytest.skip("the file system takes text alone")
    with suppress(UnreadableVideo):
        assert next(frames_of(tmp_path / name)).index == 0


# Writing


def test_the_same_pictures_give_the_same_bytes(tmp_path):
    noise = np.random.default_rng(1).integers(0, 256, (12, 32, 48, 3), dtype=np.uint8)
    for name, crf in (("a.mp4", 23), ("b.mp4", 23), ("poor.mp4", 40)):
        write_video(tmp_path / name, noise, crf=crf)
    a, b, poor = (tmp_path / name for name in ("a.mp4", "b.mp4", "poor.mp4"))
    assert a.read_bytes() == b.read_bytes()
    assert poor.stat().st_size < a.stat().st_size / 2


def test_colours_survive(tmp_path):
    colours = np.array([[200, 40, 40], [40, 200, 40], [40, 40, 200]], np.uint8)
    write_video(tmp_path / "c.mp4", np.tile(colours[:, None, None], (1, 32, 32, 1)), crf=10, fps=5)
    frames = list(frames_of(tmp_path / "c.mp4"))
    assert [frame.time for frame in frames] == [0.0, 0.2, 0.4]
    for frame, colour in zip(frames, colours, strict=True):
        np.testing.assert_allclose(frame.image.mean((0, 1)), colour, atol=4)


def test_pictures_are_written_one_at_a_time(tmp_path):
    given = []

    def pictures():
        for image in shades(12):
            given.append(weakref.ref(image))
            yield image
            del image
            assert sum(picture() is not None for picture in given) <= 2

    write_video(tmp_path / "lazy.mp4", pictures())


@cases(
    ("images", "message"),
    [
        ([], "at least one picture"),
        ([np.zeros((31, 32, 3), np.uint8)], "even height and width, got 31 x 32"),
        ([np.zeros((32, 32, 3))], "uint8 of shape .H, W, 3., got float64"),
        ([np.zeros((32, 32), np.uint8)], r"got uint8 of shape \(32, 32\)"),
        (
            [np.zeros((32, 32, 3), np.uint8), np.zeros((32, 34, 3), np.uint8)],
            r"one size, got \(32, 32\) and then \(32, 34\)",
        ),
    ],
)
def test_what_cannot_be_written_leaves_no_trace(tmp_path, images, message):
    path = tmp_path / "it.mp4"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match=message):
        write_video(path, images)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("options", [{"fps": 0}, {"crf": 52}, {"crf": -1}])
def test_settings_of_the_encoder_are_checked(tmp_path, options):
    with pytest.raises(ValueError, match="must be"):
        write_video(tmp_path / "it.mp4", shades(1), **options)
