"""Collections of clips: read as they lie on disk, refused where damaged, people kept apart."""

from dataclasses import replace
from itertools import permutations, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.cases import cases
from lpfuse_faces.clips import (
    SPLITS,
    Clip,
    check_disjoint,
    identity_groups,
    qualities,
    read_clips,
    with_splits,
    write_clips,
)


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def csv_of(folder, *lines, head="path,label,kind,identities,split,quality"):
    path = folder / "clips.csv"
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return path


# ---------------------------------------------------------------------------------------------- csv


def test_what_is_written_is_read(tmp_path):
    touch(tmp_path, "a/ünï, code.mp4", "b.mp4", "c.mov", "d.mp4")
    clips = [
        Clip(tmp_path / "a/ünï, code.mp4", 1, None, ("ann",), "train", "c23"),
        Clip(tmp_path / "b.mp4", -1, "face swap", ("ann", "ben"), "val", "c23"),
        Clip(tmp_path / "c.mov", -1, "Deepfakes", (), "test", "c23"),
        Clip(tmp_path / "d.mp4"),
    ]
    write_clips(tmp_path / "clips.csv", clips)
    assert read_clips(tmp_path / "clips.csv") == clips
    assert read_clips(tmp_path) == clips


def test_a_collection_can_move(tmp_path):
    touch(tmp_path, "old/videos/a.mp4")
    write_clips(tmp_path / "old/clips.csv", [Clip(tmp_path / "old/videos/a.mp4", 1)])
    (tmp_path / "old").rename(tmp_path / "new")
    assert read_clips(tmp_path / "new") == [Clip(tmp_path / "new/videos/a.mp4", 1)]


def test_videos_elsewhere_keep_their_whole_path(tmp_path):
    touch(tmp_path, "elsewhere/a.mp4", "here/x")
    clips = [Clip(tmp_path / "elsewhere/a.mp4", 1)]
    write_clips(tmp_path / "here/clips.csv", clips)
    assert read_clips(tmp_path / "here") == clips


def test_writing_goes_wrong_without_a_trace(tmp_path):
    write_clips(tmp_path / "clips.csv", [])
    before = (tmp_path / "clips.csv").read_text()

    def broken():
        yield Clip(Path("a.mp4"))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_clips(tmp_path / "clips.csv", broken())
    assert (tmp_path / "clips.csv").read_text() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_not_known_may_be_left_out(tmp_path):
    touch(tmp_path, "a.mp4", "b.mp4")
    csv_of(tmp_path, "forged,swap,a.mp4,anything", ",,b.mp4,", head="label,kind,path,remarks")
    assert read_clips(tmp_path) == [Clip(tmp_path / "a.mp4", -1, "swap"), Clip(tmp_path / "b.mp4")]


@cases(
    ("line", "told"),
    [
        ("b.mp4,fake,,,,", "Line 3 .* genuine or forged, got 'fake'"),
        ("nowhere.mp4,genuine,,,,", "Line 3 .* no file 'nowhere.mp4'"),
        (",genuine,,,,", "Line 3 .* no file ''"),
        ("./a.mp4,genuine,,,,", "Line 3 .* there already, in line 2"),
        ("b.mp4,forged,,,,", "Line 3 .* A forged clip has a kind"),
        ("b.mp4,genuine,swap,,,", "Line 3 .* A forged clip has a kind, .* and no other"),
        ("b.mp4,genuine,,,dev,", "Line 3 .* train, val or test; got 'dev'"),
        ("b.mp4,genuine", "Line 3 .* more or fewer fields"),
        ("b.mp4,genuine,,,,,", "Line 3 .* more or fewer fields"),
        ('b.mp4,"genuine"x,,,,', "Line 3 "),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line, told):
    touch(tmp_path, "a.mp4", "b.mp4")
    csv_of(tmp_path, "a.mp4,genuine,,,,", line)
    with pytest.raises(ValueError, match=told):
        read_clips(tmp_path)


@cases(
    ("content", "told"),
    [
        (b"path,class\na.mp4,genuine\n", "Line 1 .* label is missing among path and class"),
        (b"", "Line 1 .* path and label is missing among none"),
        (b"path,label\n", "names no clips"),
        (b"path,label\n\xff.mp4,genuine\n", "UTF-8"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, content, told):
    (tmp_path / "clips.csv").write_bytes(content)
    with pytest.raises(ValueError, match=told):
        read_clips(tmp_path)


def test_a_byte_order_mark_is_no_column(tmp_path):
    touch(tmp_path, "a.mp4")
    (tmp_path / "clips.csv").write_bytes(b"\xef\xbb\xbfpath,label\r\na.mp4,genuine\r\n")
    assert read_clips(tmp_path) == [Clip(tmp_path / "a.mp4", 1)]


# ------------------------------------------------------------------------------------------ folders


@cases("genuine", ["genuine", "original", "real", "Real"])
def test_a_folder_for_each_kind(tmp_path, genuine):
    touch(tmp_path, f"{genuine}/ann.mp4", f"{genuine}/b c.MP4", "swap/ann.avi", "blend/ann.mp4")
    touch(tmp_path, "swap/notes.txt", "blend/._ann.mp4", "other/readme.txt")
    found = [(clip.path.name, clip.label, clip.kind) for clip in read_clips(tmp_path)]
    assert found == [
        ("ann.mp4", 1, None),
        ("b c.MP4", 1, None),
        ("ann.mp4", -1, "blend"),
        ("ann.avi", -1, "swap"),
    ]
    assert identity_groups(read_clips(tmp_path)) == ["ann", "b-c", "ann", "ann"]


def test_videos_of_which_nothing_is_known(tmp_path):
    touch(tmp_path, "b.mp4", "a.webm", "c.txt")
    assert read_clips(tmp_path) == [Clip(tmp_path / "a.webm"), Clip(tmp_path / "b.mp4")]
    assert read_clips(str(tmp_path / "b.mp4")) == [Clip(tmp_path / "b.mp4")]


def test_nothing_to_read(tmp_path):
    touch(tmp_path, "c.txt")
    with pytest.raises(ValueError, match=r"neither a video .*mp4.* nor a .csv"):
        read_clips(tmp_path / "c.txt")
    with pytest.raises(ValueError, match=r"holds no videos .*genuine, original and real"):
        read_clips(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no file or folder"):
        read_clips(tmp_path / "nowhere")


def test_one_of_several_qualities_has_to_be_chosen(tmp_path):
    touch(tmp_path, "a.mp4", "b.mp4", "c.mp4")
    csv_of(tmp_path, "a.mp4,genuine,,,,c40", "b.mp4,genuine,,,,c23", "c.mp4,genuine,,,,c23")
    assert qualities(tmp_path) == ["c23", "c40"]
    with pytest.raises(
        ValueError, match=r"several qualities: c23 and c40. Choose one: quality='c2"
    ):
        read_clips(tmp_path)
    assert [clip.path.name for clip in read_clips(tmp_path, quality="c23")] == ["b.mp4", "c.mp4"]
    with pytest.raises(ValueError, match=r"no clips of quality 'raw'; there are: c23 and c40"):
        read_clips(tmp_path, quality="raw")


def test_clips_that_do_not_tell_their_quality(tmp_path):
    touch(tmp_path, "a.mp4")
    assert qualities(tmp_path) == []
    with pytest.raises(ValueError, match=r"no clips of quality 'c23'; there are: none"):
        read_clips(tmp_path, quality="c23")


# --------------------------------------------------------------------------------------------- clip


@cases(
    "wrong",
    [
        {"label": 0},
        {"label": -1},
        {"label": 1, "kind": "swap"},
        {"kind": "swap"},
        {"split": "dev"},
        {"identities": ("ann lee",)},
        {"identities": ("",)},
    ],
)
def test_a_clip_that_contradicts_itself(wrong):
    with pytest.raises(ValueError, match=r"clip|Identities"):
        Clip(Path("a.mp4"), **wrong)


# ------------------------------------------------------------------------------------------- people


def clips_of(*people):
    return [Clip(Path(f"{i}.mp4"), 1, identities=tuple(names)) for i, names in enumerate(people)]


def test_groups_are_joined_by_third_ones_in_any_order():
    people = ["a", "c", "cb", "ba", "d", "fe", "e"]
    for order in permutations(people):
        groups = dict(zip(order, identity_groups(clips_of(*order)), strict=True))
        assert groups == {"a": "a", "c": "a", "cb": "a", "ba": "a", "d": "d", "fe": "e", "e": "e"}


@given(st.lists(st.frozensets(st.integers(0, 9), max_size=3), max_size=12))
def test_groups_are_connected_components(people):
    clips = clips_of(*(sorted(map(str, names)) for names in people))
    groups = identity_groups(clips)
    sets = [set(names) for names in people]
    for _ in sets:  # the naive way: everybody takes in whoever they share somebody with
        sets = [set().union(own, *(other for other in sets if own & other)) for own in sets]
    for i, own in enumerate(sets):
        for j, other in enumerate(sets):
            assert (groups[i] == groups[j]) == (i == j or bool(own & other))


def test_who_is_in_two_splits_is_named():
    a, b, c = clips_of("ab", "cd", "db")
    check_disjoint([replace(a, split="train"), replace(b, split="val"), c])
    with pytest.raises(ValueError, match=r"'d' is in two splits: val \(1.mp4\) and test \(2.mp4\)"):
        check_disjoint([replace(b, split="val"), replace(c, split="test")])
    nobody = Clip(Path("x.mp4"), 1)
    with pytest.raises(ValueError, match=r"x.mp4' is in two splits"):
        check_disjoint([replace(nobody, split="train"), replace(nobody, split="test")])


@cases("n, seed", product([3, 4, 7, 50], [0, 1]))
def test_splits_share_nobody_and_have_their_share(n, seed):
    names = [f"p{i:02d}" for i in range(n)]
    clips = clips_of(*([name] for name in names), *([name, f"x{name}"] for name in names))
    divided = with_splits(clips, seed)
    check_disjoint(divided)
    assert [replace(clip, split=None) for clip in divided] == clips
    counts = [sum(clip.split == split for clip in divided) for split in SPLITS]
    assert all(counts)
    assert n < 50 or counts == [72, 14, 14]
    backwards = with_splits(clips[::-1], seed)
    assert backwards[::-1] == divided
    assert n < 50 or with_splits(clips, seed + 2) != divided


def test_two_people_are_too_few_to_split():
    with pytest.raises(ValueError, match=r"three groups .* 3 clips are of 2"):
        with_splits(clips_of("a", "b", "b"))
