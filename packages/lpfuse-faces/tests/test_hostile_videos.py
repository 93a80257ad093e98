"""Files made to harm: what they name is not opened, what they claim is not believed."""

import os
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("av", reason="av is not installed")

import av

from helpers.cases import cases
from helpers.pairwise import each_value
from lpfuse_faces import Limits, Sampling, UnreadableVideo
from lpfuse_faces._video import frames_of, write_video

SIZE = (48, 64)
N_FRAMES = 12


def pictures(n=N_FRAMES, size=SIZE):
    noise = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    return [np.roll(noise, 5 * i, axis=1) for i in range(n)]


def encoded(path, images=None, codec="libx264", pixels="yuv420p", sound=False, times=None, **extra):
    """A file written by PyAV itself, with a track of sound if asked for."""
    images = pictures() if images is None else images
    with av.open(path, "w", container_options=extra) as container:
        stream = container.add_stream(codec, rate=25)
        stream.height, stream.width = images[0].shape[:2]
        stream.pix_fmt = pixels
        voice = container.add_stream("aac", rate=48000) if sound else None
        for i, image in enumerate(images):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            if times is not None:
                frame.pts, frame.time_base = times[i], Fraction(1, 25)
            container.mux(stream.encode(frame))
            if voice is not None:
                silence = np.zeros((1, 1920), np.float32)
                heard = av.AudioFrame.from_ndarray(silence, "fltp", "mono")
                heard.rate, heard.pts = 48000, 1920 * i
                container.mux(voice.encode(heard))
        for each in filter(None, (stream, voice)):
            container.mux(each.encode())
    return path


def reason_of(path, sampling=None, **limits):
    with pytest.raises(UnreadableVideo) as caught:
        list(frames_of(path, sampling or Sampling(), limits=Limits(**limits)))
    return caught.value.reason


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    write_video(path, pictures())
    return path


def changed(path, target, *changes):
    """A copy with some numbers replaced: (letters before, bytes after them, format, values)."""
    content = bytearray(path.read_bytes())
    for letters, offset, layout, *values in changes:
        at = content.index(letters)
        struct.pack_into(layout, content, at + len(letters) + offset, *values)
    target.write_bytes(content)
    return target


# What names other files

# Reports every file and connection that Python code opens, and at the end what is held open.
WATCHED = """
import sys
import time
from lpfuse_faces import UnreadableVideo
from lpfuse_faces._video import frames_of
import av, numpy
seen = []
sys.addaudithook(lambda name, what: seen.append((name, str(what[:1]))) if name in (
    "open", "socket.connect", "socket.__new__", "subprocess.Popen", "os.system") else None)
try:
    list(frames_of(sys.argv[1]))
except UnreadableVideo as error:
    print(error.reason)
print([what for what in seen if sys.argv[1] not in what[1]])
"""


def playlists(clip, port):
    """Every way we know of to name the clip, or an address, in a text."""
    web = f"http://127.0.0.1:{port}/clip.mp4"
    mpd = (
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
        'mediaPresentationDuration="PT1S"><Period><AdaptationSet><Representation id="0" '
        f'bandwidth="1" mimeType="video/mp4"><BaseURL>{web}</BaseURL></Representation>'
        "</AdaptationSet></Period></MPD>"
    )
    sdp = f"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nm=video {port} RTP/AVP 96\n"
    hls = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{}\n#EXT-X-ENDLIST\n"
    return {
        "hls.m3u8": hls.format(clip),
        "web.m3u8": hls.format(web),
        "live.m3u8": f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{clip}\n",  # never ends
        "list.ffconcat": f"ffconcat version 1.0\nfile '{clip}'\n",
        "endless.ffconcat": "ffconcat version 1.0\n" + "file endless.ffconcat\n" * 9,
        "list.txt": f"file '{clip}'\n",
        "subfile.ffconcat": f"ffconcat version 1.0\nfile 'subfile,,start,0,end,0,,:{clip}'\n",
        "stream.sdp": sdp,
        "dash.mpd": mpd,
        "smooth.ism": f'<smil><body><video src="{web}"/></body></smil>',
        "old.pls": f"[playlist]\nFile1={web}\n",
        "old.asx": f'<ASX version="3"><Entry><Ref href="{web}"/></Entry></ASX>',
        "mark.m3u8": "\ufeff" + hls.format(clip),
    }


@pytest.mark.parametrize("suffix", ["", ".mp4"])
def test_playlists_are_told_and_not_followed(clip, tmp_path, suffix):
    for name, text in playlists(clip, 9).items():
        path = tmp_path / f"{name}{suffix}"
        path.write_text(text)
        assert "names videos: such files are not followed. Name the videos" in reason_of(path)


def test_nothing_else_is_opened_and_nobody_is_called(clip, tmp_path):
    called = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        port = server.getsockname()[1]
        for name in ("web.m3u8", "dash.mpd", "list.ffconcat"):
            path = tmp_path / name
            path.write_text(playlists(clip, port)[name])
            done = subprocess.run(
                [sys.executable, "-c", WATCHED, path], capture_output=True, text=True, check=True
            )
            assert done.stdout.splitlines()[-1] == "[]"
        with suppress(TimeoutError):
            called.append(server.accept())
    assert called == []


def test_a_picture_with_a_number_is_no_sequence(tmp_path):
    for k in range(3):
        encoded(tmp_path / f"picture-{k}.avi", pictures(1), "mjpeg", "yuvj420p")
    jpeg = b"\xff\xd8" + (tmp_path / "picture-0.avi").read_bytes().split(b"\xff\xd8")[1]
    (tmp_path / "picture-%d.jpg").write_bytes(jpeg)
    assert "begins like none of them" in reason_of(tmp_path / "picture-%d.jpg")
    with pytest.raises(UnreadableVideo, match="there is no such file"):
        list(frames_of(tmp_path / "picture-%d.avi"))
    with pytest.raises(UnreadableVideo, match="there is no such file"):
        list(frames_of(f"concat:{tmp_path / 'picture-0.avi'}|{tmp_path / 'picture-1.avi'}"))


def test_a_movie_whose_data_lies_in_another_file(clip, tmp_path):
    """QuickTime may say that a track's data is elsewhere: here, that it is not in this file."""
    path = changed(clip, tmp_path / "refers.mov", (b"url ", 0, ">I", 0))
    (tmp_path / "refers.mov").write_bytes(path.read_bytes().replace(b"url ", b"alis"))
    assert [frame.index for frame in frames_of(path)] == list(range(N_FRAMES))  # its own data


@cases(
    "content",
    [
        b"GIF89a" + bytes(100),
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        b"FLV\x01\x05" + bytes(100),
        b"OggS" + bytes(100),
        b"YUV4MPEG2 W16 H16 F25:1 Ip A1:1 C420\nFRAME\n" + bytes(384),
        b"RIFF\x00\x00\x00\x00WAVE" + bytes(100),
        b"\x00\x00\x00\x01\x67" + bytes(100),
        bytes(5000),
        b"x",
    ],
)
def test_other_formats_are_refused_by_how_they_begin(tmp_path, content):
    path = tmp_path / "it.mp4"
    path.write_bytes(content)
    assert "Matroska and WebM" in reason_of(path)
    assert "ffmpeg -i IN -c copy OUT.mkv" in reason_of(path)


def test_a_name_does_not_matter(tmp_path):
    for suffix in ("mkv", "avi", "ts", "mp4"):
        path = encoded(tmp_path / f"it.{suffix}")
        path = path.rename(tmp_path / "list.m3u8")
        assert len(list(frames_of(path))) == N_FRAMES


def test_a_codec_that_is_not_on_the_list(tmp_path):
    path = encoded(tmp_path / "cells.mov", codec="qtrle", pixels="rgb24")
    assert "coded as qtrle" in reason_of(path)
    assert "ffmpeg -i IN -c:v ffv1 OUT.mkv" in reason_of(path)


def test_a_transport_stream_of_many_streams(tmp_path):
    for n_sounds, fine in ((3, True), (15, False), (30, False)):
        path = tmp_path / f"{n_sounds}.ts"
        with av.open(path, "w") as container:
            stream = container.add_stream("libx264", rate=25)
            stream.height, stream.width, stream.pix_fmt = *SIZE, "yuv420p"
            sounds = [container.add_stream("mp2", rate=48000) for _ in range(n_sounds)]
            for i, image in enumerate(pictures()):
                frame = av.VideoFrame.from_ndarray(image, format="rgb24")
                container.mux(stream.encode(frame))
                for sound in sounds:
                    silence = np.zeros((1, 1152), np.int16)
                    heard = av.AudioFrame.from_ndarray(silence, "s16", "mono")
                    heard.rate, heard.pts = 48000, 1152 * i
                    container.mux(sound.encode(heard))
            for each in (stream, *sounds):
                container.mux(each.encode())
        if fine:
            assert len(list(frames_of(path))) == N_FRAMES
        else:
            assert "it has 16 streams or more" in reason_of(path)


# What is no regular file


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices with names")
def test_pipes_devices_and_folders(clip, tmp_path):
    pipe = tmp_path / "pipe.mp4"
    os.mkfifo(pipe)
    told = "this is no file but a pipe, a socket or a device, which may never end"
    assert reason_of(pipe) == told
    assert reason_of(Path("/dev/zero")) == told
    assert reason_of(tmp_path) == "this is a folder"
    (tmp_path / "loop.mp4").symlink_to(tmp_path / "loop.mp4")
    assert "the file cannot be read" in reason_of(tmp_path / "loop.mp4")
    (tmp_path / "link.mp4").symlink_to(clip)
    assert len(list(frames_of(tmp_path / "link.mp4"))) == N_FRAMES
    (tmp_path / "zero.mp4").symlink_to("/dev/zero")
    assert reason_of(tmp_path / "zero.mp4") == told
    assert reason_of(Path("no\0name.mp4")) == "there is no such file"
    assert reason_of(clip / "clip.mp4") == "there is no such file"


# More than the limits allow

KINDS = ["mp4", "mov", "mkv", "avi", "ts", "mpg"]


def any_kind(folder, suffix, **options):
    codec = "mpeg2video" if suffix == "mpg" else "libx264"
    return encoded(folder / f"it.{suffix}", codec=codec, **options)


LIMITS = [
    ({"pixels": 48 * 64 - 1}, "it has pictures of 64 × 48 pixels, and at most 3,071 pixels"),
    ({"frames": N_FRAMES - 1}, "frames, and at most 11 frames are read"),
    ({"duration": 0.3}, "it has pictures over 0.4 seconds, and at most 0.3 seconds are read"),
    ({"seconds": 1e-9}, "reading it has taken more than 1e-09 seconds, and was given up"),
    ({"bytes": 999}, "bytes, and at most 999 bytes are read"),
]


@pytest.mark.parametrize("suffix", KINDS)
def test_each_limit_has_its_sentence_and_can_be_raised(tmp_path, suffix):
    path = any_kind(tmp_path, suffix)
    for limit, told in LIMITS:
        reason = reason_of(path, **limit)
        (name,) = limit
        assert told in reason
        assert f"raise the limit: 'Limits({name}=...)', or '--limit {name}=...'" in reason
    enough = {"pixels": 48 * 64, "frames": N_FRAMES, "duration": 0.5, "seconds": 600}
    assert len(list(frames_of(path, limits=Limits(**enough)))) == N_FRAMES


def test_time_that_others_take_does_not_count(clip, monkeypatch):
    frames, now = frames_of(clip, limits=Limits(seconds=60)), time.monotonic
    next(frames)
    monkeypatch.setattr(time, "monotonic", lambda: now() + 1e6)  # days go by
    assert len(list(frames)) == N_FRAMES - 1


def test_pictures_of_twelve_thousand_pixels_a_side(clip, tmp_path):
    """By the header alone: nothing of that size is made."""
    path = changed(clip, tmp_path / "huge.mp4", (b"stsd", 40, ">HH", 12_000, 12_000))
    told = "it has pictures of 12,000 × 12,000 pixels, and at most 9,437,184 pixels are read"
    assert told in reason_of(path)


def test_pictures_that_are_larger_than_the_header_says(tmp_path):
    path = encoded(tmp_path / "it.avi", codec="mjpeg", pixels="yuvj420p")
    small = changed(path, tmp_path / "small.avi", (b"strf", 8, "<ii", 8, 6))
    assert "has more than 3,000 pixels, the limit: 'Limits(pixels=...)'" in reason_of(
        small, pixels=3000
    )
    assert next(frames_of(small)).image.shape == (*SIZE, 3)


def two_sizes(folder):
    """A transport stream whose pictures grow in the middle, as video calls do."""
    parts = [encoded(folder / f"{k}.ts", pictures(10, (k * 48, k * 64))) for k in (1, 2)]
    path = folder / "grows.ts"
    path.write_bytes(b"".join(part.read_bytes() for part in parts))
    return path


def test_pictures_that_grow_in_the_middle(tmp_path):
    path = two_sizes(tmp_path)
    shapes = [frame.image.shape[:2] for frame in frames_of(path)]
    assert shapes == [(48, 64)] * 10 + [(96, 128)] * 10
    assert "has more than 3,072 pixels" in reason_of(path, pixels=48 * 64)


# Claims that cost memory or time: MP4


def bomb(clip, target, count, *more):
    """Constant sizes need no table: a count is enough, for the reader to build one of its own."""
    one_chunk = (b"stsc", 8, ">III", 1, count, 1)
    return changed(clip, target, (b"stsz", 4, ">II", 1, count), one_chunk, *more)


@pytest.mark.parametrize("count", [1_000_001, 40_000_000, 2**32 - 1])
def test_an_index_of_more_frames_than_the_file_can_hold(clip, tmp_path, count):
    path = bomb(clip, tmp_path / "bomb.mp4", count)
    assert path.stat().st_size < 200_000
    told = f"it has an index of {count:,} frames, and at most 1,000,000 frames are read"
    assert told in reason_of(path)


def test_an_index_that_hides_elsewhere(clip, tmp_path):
    """FFmpeg reads the table in boxes of many kinds; all of them are looked through."""
    content = bomb(clip, tmp_path / "it.mp4", 40_000_000).read_bytes()
    for box in (b"stbl", b"minf", b"mdia"):
        path = tmp_path / "hidden.mp4"
        path.write_bytes(content.replace(box, b"udta"))
        assert "40,000,000 frames" in reason_of(path)
    path.write_bytes(content.replace(b"moov", b"free"))  # where FFmpeg would look once more
    assert "an MP4 file has an index, and there is none" in reason_of(path)
    path.write_bytes(content.replace(b"mvhd", b"cmov"))
    assert "its index is compressed" in reason_of(path)


def with_edits(clip, target, count):
    """The same pictures shown over and over again, by an edit list."""
    content = clip.read_bytes()
    at = content.index(b"edts") - 4
    (length,) = struct.unpack_from(">I", content, at)
    entry = struct.pack(">IiI", 500, 0, 1 << 16)
    edits = b"elst" + struct.pack(">II", 0, count) + count * entry
    box = b"edts" + struct.pack(">I", 4 + len(edits)) + edits
    grown = bytearray(content[:at] + struct.pack(">I", 4 + len(box)) + box + content[at + length :])
    for name in (b"trak", b"moov"):
        place = grown.index(name) - 4
        (size,) = struct.unpack_from(">I", grown, place)
        struct.pack_into(">I", grown, place, size + 4 + len(box) - length)
    target.write_bytes(grown)
    return target


def test_edits_that_multiply_the_frames(clip, tmp_path):
    path = with_edits(clip, tmp_path / "edits.mp4", 400_000)
    assert "it has fragments, or edits, with 4,800,000 frames" in reason_of(path)
    path = with_edits(clip, tmp_path / "edits.mp4", 20)
    assert "more frames, and at most 100 frames are read" in reason_of(path, frames=100)


FRAGMENTS = {"movflags": "frag_keyframe+empty_moov+default_base_moof"}


def test_fragments_are_read_and_counted(tmp_path):
    path = encoded(tmp_path / "it.mp4", sound=True, **FRAGMENTS)
    assert len(list(frames_of(path))) == N_FRAMES
    many = changed(path, tmp_path / "many.mp4", (b"trun", 4, ">I", 2**31))
    assert "fragments, or edits, with 2,147,4" in reason_of(many)


def test_an_index_of_fragments_leads_nowhere(tmp_path):
    """`sidx` may point into the data, at a fragment that nobody has looked at; it is skipped."""
    path = encoded(tmp_path / "it.mp4", movflags="dash+frag_keyframe+global_sidx")
    assert b"sidx" in path.read_bytes()
    astray = changed(path, tmp_path / "astray.mp4", (b"sidx", 20, ">I", 2**31 - 1))
    assert len(list(frames_of(astray))) == N_FRAMES


@each_value(
    suffix=["mp4", "mov", "mkv", "ts", "mp4", "mp4", "mov"],
    options=[{}, FRAGMENTS, {"movflags": "frag_keyframe"}],
)
def test_frames_are_those_of_ffmpeg_left_to_itself(tmp_path, suffix, options):
    path = encoded(tmp_path / f"it.{suffix}", sound=True, **options)
    with av.open(path) as container:
        expected = [(f.time, f.to_ndarray(format="rgb24")) for f in container.decode(video=0)]
    found = [(frame.time, frame.image) for frame in frames_of(path)]
    for one, other in zip(found, expected, strict=True):
        assert one[0] == other[0]
        np.testing.assert_array_equal(one[1], other[1])


def test_more_boxes_than_anyone_waits_for(clip, tmp_path):
    path = tmp_path / "boxes.mp4"
    path.write_bytes(clip.read_bytes() + struct.pack(">I4s", 8, b"free") * 100_000)
    assert len(list(frames_of(path))) == N_FRAMES
    assert "was given up" in reason_of(path, seconds=1e-6)


def indexed(path, target, entries):
    """An AVI file with an index of indices, each of which is itself."""
    content = bytearray(path.read_bytes())
    at = content.index(b"strf") - 8 + 8
    (length,) = struct.unpack_from("<I", content, at + 4)
    here = at + 8 + length
    head = struct.pack("<HBBI4s3I", 4, 0, 0, entries, b"00dc", 0, 0, 0)
    index = head + entries * struct.pack("<QII", here, 0, 1)
    content[here:here] = b"indx" + struct.pack("<I", len(index)) + index
    for name in (b"RIFF", b"hdrl", b"strl"):
        place = content.index(name) + (4 if name == b"RIFF" else -4)
        (size,) = struct.unpack_from("<I", content, place)
        struct.pack_into("<I", content, place, size + 8 + len(index))
    target.write_bytes(content)
    return target


def test_an_index_of_itself(tmp_path):
    path = encoded(tmp_path / "it.avi", codec="mpeg4")
    path = indexed(path, tmp_path / "indexed.avi", 50)
    assert len(list(frames_of(path, limits=Limits(seconds=60)))) == N_FRAMES


# Claims that cost nothing


@pytest.mark.parametrize(
    "lie",
    [
        (b"mvhd", 16, ">I", 2**32 - 1),  # duration
        (b"mdhd", 16, ">I", 2**32 - 1),
        (b"mdhd", 12, ">I", 2**31 - 1),  # ticks a second: a rate of millions
    ],
)
def test_what_a_header_says_of_time_is_not_used(clip, tmp_path, lie):
    path = changed(clip, tmp_path / "lies.mp4", lie)
    assert len(list(frames_of(path))) == N_FRAMES


@pytest.mark.parametrize("suffix", ["mkv", "mp4"])
def test_odd_times(tmp_path, suffix):
    before = [*range(-5, N_FRAMES - 5)]
    path = encoded(tmp_path / f"negative.{suffix}", times=before, avoid_negative_ts="disabled")
    shown = N_FRAMES if suffix == "mkv" else 7  # in MP4 an edit list cuts what comes before zero
    assert len(list(frames_of(path))) == shown
    far = [*range(N_FRAMES - 1), 25 * 100_000]
    path = encoded(tmp_path / f"far.{suffix}", times=far)
    assert "it has pictures over 100,000.0 seconds" in reason_of(path)
    assert len(list(frames_of(path, limits=Limits(duration=2e5)))) == N_FRAMES


def test_subtitles_and_attachments_beside_the_video(clip, tmp_path):
    path, words = tmp_path / "all.mkv", tmp_path / "words.srt"
    words.write_text("1\n00:00:00,000 --> 00:00:01,000\nHello\n\n")
    with av.open(clip) as pictures, av.open(words) as said, av.open(path, "w") as target:
        target.add_attachment("font.ttf", "application/x-truetype-font", bytes(1000))
        sources = [
            (each, target.add_stream_from_template(each.streams[0])) for each in (said, pictures)
        ]
        for source, stream in sources:
            for packet in source.demux(source.streams[0]):
                if packet.dts is not None:
                    packet.stream = stream
                    target.mux(packet)
    assert len(list(frames_of(path))) == N_FRAMES


@pytest.mark.parametrize(
    ("codec", "pixels"),
    [("ffv1", "gbrp16le"), ("ffv1", "gray16le"), ("rawvideo", "monob"), ("ffv1", "yuva444p10le")],
)
def test_odd_pixels_become_rgb(tmp_path, codec, pixels):
    path = encoded(tmp_path / ("it.avi" if codec == "rawvideo" else "it.mkv"), None, codec, pixels)
    assert {frame.image.shape for frame in frames_of(path)} == {(*SIZE, 3)}


@pytest.mark.parametrize("suffix", KINDS)
def test_cut_anywhere_it_is_told_or_read(tmp_path, suffix):
    content = any_kind(tmp_path, suffix, sound=suffix in ("mp4", "mkv")).read_bytes()
    path = tmp_path / "cut"
    for length in range(1, len(content), len(content) // 40):
        path.write_bytes(content[:length])
        with suppress(UnreadableVideo):
            assert len(list(frames_of(path))) <= N_FRAMES


@pytest.mark.parametrize("suffix", KINDS)
def test_damaged_anywhere_it_is_told_or_read(tmp_path, suffix):
    content = any_kind(tmp_path, suffix).read_bytes()
    path, rng = tmp_path / "damaged", np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(content)
        for at in rng.integers(0, min(len(content), 2000), 4):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        with suppress(UnreadableVideo):
            assert len(list(frames_of(path, Sampling(count=3)))) <= 3


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"pixels": 0}, "pixels must be a whole number from 1"),
        ({"seconds": 0}, "seconds must be"),
        ({"duration": float("nan")}, "duration must be"),
    ],
)
def test_limits_are_checked(wrong, told):
    with pytest.raises(ValueError, match=told):
        Limits(**wrong)


@cases("text", ["pixels", "pixels=many", "colour=3", "frames=1.5", "=3"])
def test_limits_in_words_are_checked(text):
    with pytest.raises(ValueError, match=r"limit .*pixels|A limit is a number, such as"):
        Limits.of([text])
