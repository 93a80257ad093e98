"""FaceForensics++ as it lies on a user's disk, whole or in part; no video is opened."""

import json
import warnings

import pytest

from helpers.cases import cases
from lpfuse_faces.clips import check_disjoint, identity_groups, qualities, read_clips
from lpfuse_faces.clips._faceforensics import KINDS, faceforensics

PAIRS = {
    "train": [["071", "054"], ["087", "081"], ["003", "000"]],
    "val": [["720", "672"]],
    "test": [["953", "974"]],
}


def make_copy(root, *, quality="c23", kinds=KINDS, splits="splits", pairs=PAIRS):
    """A copy with empty files."""
    wanted = {f"original_sequences/youtube/{quality}/videos": lambda a, b: (a, b)}
    for kind in kinds:
        folder = f"manipulated_sequences/{kind}/{quality}/videos"
        wanted[folder] = lambda a, b: (f"{a}_{b}", f"{b}_{a}")
    for folder, names in wanted.items():
        (root / folder).mkdir(parents=True)
        for pair in (pair for each in pairs.values() for pair in each):
            for name in names(*pair):
                (root / folder / f"{name}.mp4").touch()
    (root / splits).mkdir(parents=True, exist_ok=True)
    for split, its_pairs in pairs.items():
        (root / splits / f"{split}.json").write_text(json.dumps(its_pairs))
    return root


def test_a_whole_copy(tmp_path):
    clips = faceforensics(make_copy(tmp_path))
    assert len(clips) == 10 * (1 + len(KINDS))
    assert all(clip.path.is_file() and clip.quality == "c23" for clip in clips)
    counts = {split: sum(clip.split == split for clip in clips) for split in PAIRS}
    assert counts == {"train": 36, "val": 12, "test": 12}
    by_path = {clip.path.relative_to(tmp_path).as_posix(): clip for clip in clips}
    original = by_path["original_sequences/youtube/c23/videos/054.mp4"]
    assert (original.label, original.kind, original.identities, original.split) == (
        1, None, ("054",), "train",
    )  # fmt: skip
    forged = by_path["manipulated_sequences/FaceSwap/c23/videos/974_953.mp4"]
    assert (forged.label, forged.kind, forged.identities, forged.split) == (
        -1, "FaceSwap", ("974", "953"), "test",
    )  # fmt: skip
    check_disjoint(clips)
    assert len(set(identity_groups(clips))) == 5  # one for each pair


def test_a_copy_is_recognised(tmp_path):
    make_copy(tmp_path)
    assert read_clips(tmp_path) == read_clips(tmp_path, quality="c23") == faceforensics(tmp_path)


@pytest.mark.parametrize("spelling", ["raw", "c0"])
@cases("asked", ["raw", "c0"])
def test_both_spellings_of_raw(tmp_path, spelling, asked):
    clips = faceforensics(make_copy(tmp_path, quality=spelling), asked)
    assert len(clips) == 60
    assert {clip.quality for clip in clips} == {"raw"}
    assert qualities(tmp_path) == ["raw"]


def test_one_of_several_qualities_has_to_be_chosen(tmp_path):
    make_copy(tmp_path)
    make_copy(tmp_path, quality="c40")
    assert qualities(tmp_path) == ["c23", "c40"]
    with pytest.raises(ValueError, match=r"several qualities: c23 and c40"):
        read_clips(tmp_path)
    assert {clip.path.parts[-3] for clip in read_clips(tmp_path, quality="c40")} == {"c40"}
    with pytest.raises(ValueError, match=r"qualities raw, c0, c23 and c40; got 'c24'"):
        faceforensics(tmp_path, "c24")


@pytest.mark.parametrize("place", ["splits", ".", "dataset/splits"])
def test_split_files_are_found(tmp_path, place):
    assert len(faceforensics(make_copy(tmp_path, splits=place))) == 60


def test_split_files_elsewhere(tmp_path):
    make_copy(tmp_path / "copy", splits="../official")
    with pytest.raises(FileNotFoundError, match=r"official split files .* dataset/splits of https"):
        faceforensics(tmp_path / "copy")
    assert len(faceforensics(tmp_path / "copy", splits=tmp_path / "official")) == 60
    with pytest.raises(FileNotFoundError, match=r"not found in .*nowhere"):
        faceforensics(tmp_path / "copy", splits=tmp_path / "nowhere")


def test_missing_videos_are_counted_and_named(tmp_path):
    make_copy(tmp_path)
    forged = tmp_path / "manipulated_sequences"
    for name in ("071_054", "054_071", "087_081", "720_672"):
        (forged / f"Deepfakes/c23/videos/{name}.mp4").unlink()
    (tmp_path / "original_sequences/youtube/c23/videos/953.mp4").unlink()
    told = (
        r"1 of originals \(953.mp4\); 4 of Deepfakes "
        r"\(071_054.mp4, 054_071.mp4, 087_081.mp4 and 1 more\)\. The rest is used"
    )
    with pytest.warns(UserWarning, match=told):
        clips = faceforensics(tmp_path)
    assert len(clips) == 55


def test_a_kind_without_a_folder_is_left_out_and_said(tmp_path):
    make_copy(tmp_path, kinds=KINDS[:4])
    with pytest.warns(UserWarning, match=r"all of FaceShifter"):
        clips = faceforensics(tmp_path)
    assert {clip.kind for clip in clips} == {None, *KINDS[:4]}
    with warnings.catch_warnings():  # what was not asked for is not missed
        warnings.simplefilter("error")
        assert faceforensics(tmp_path, kinds=KINDS[:4]) == clips
    with pytest.raises(FileNotFoundError, match=r"No video of FaceShifter of quality c23"):
        faceforensics(tmp_path, kinds=KINDS)
    with pytest.raises(ValueError, match=r"got Faceswap"):
        faceforensics(tmp_path, kinds=["Faceswap"])


def test_a_kind_that_lacks_the_quality(tmp_path):
    make_copy(tmp_path)
    make_copy(tmp_path, quality="c0", kinds=["Face2Face"])
    told = r"No video of Deepfakes of quality raw .*Deepfakes was .* 071_054.mp4 in raw/videos and"
    with pytest.raises(FileNotFoundError, match=told):
        faceforensics(tmp_path, "raw")
    with pytest.raises(FileNotFoundError, match=r"No original video of quality c40"):
        faceforensics(tmp_path, "c40")


def test_no_copy_tells_how_to_get_one(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"form to be filled in: https://github.com/ondyari"
    ):
        faceforensics(tmp_path)
    (tmp_path / "original_sequences").mkdir()
    (tmp_path / "splits").mkdir()
    for split, pairs in PAIRS.items():
        (tmp_path / f"splits/{split}.json").write_text(json.dumps(pairs))
    with pytest.raises(FileNotFoundError, match=r"no folder Deepfakes, .* form to be filled in"):
        read_clips(tmp_path)


@pytest.mark.parametrize("split", ["train", "test"])
def test_nobody_is_in_two_splits(tmp_path, split):
    pairs = {**PAIRS, split: [*PAIRS[split], ["672", "900"]]}
    with pytest.raises(ValueError, match=r"672 is twice in the split files .*val.json"):
        faceforensics(make_copy(tmp_path, pairs=pairs))


@cases(
    "content",
    ['{"071": "054"}', "[]", "[[71, 54]]", '[["071"]]', '["071", "054"]', '[["../../x", "054"]]'],
)
def test_what_is_no_split_file_is_refused(tmp_path, content):
    make_copy(tmp_path)
    (tmp_path / "splits/val.json").write_text(content)
    with pytest.raises(ValueError, match=r"val.json must hold pairs of ids in three digits"):
        faceforensics(tmp_path)


def test_a_torn_split_file_is_refused(tmp_path):
    make_copy(tmp_path)
    (tmp_path / "splits/val.json").write_text('[["071", "0')
    with pytest.raises(ValueError, match=r"val.json is not JSON"):
        faceforensics(tmp_path)
