"""Settings are checked and plain; features of a video are whole, or refused."""

import json
from dataclasses import replace

import numpy as np
import pytest

from helpers.cases import cases
from lpfuse_faces._features import FILE_FORMAT, VideoFeatures
from lpfuse_faces._settings import Settings
from lpfuse_faces._spectrum import Stretch
from lpfuse_faces._video import Sampling

LEVELS = {"face": 0.5, "mouth": 0.25, "nose": 0.125}
STRETCH = Stretch(low=LEVELS, high={region: 2 + low for region, low in LEVELS.items()})


def make_video(n=3, **changes):
    rng = np.random.default_rng(0)
    video = VideoFeatures(
        name="clip é.mp4",
        sha256="ab" * 32,
        index=np.arange(n) * 5,
        time=np.arange(n) / 5,
        boxes=rng.normal(size=(n, 4)),
        landmarks=rng.normal(size=(n, 5, 2)),
        sets={"azimuthal/mouth": rng.normal(size=(n, 2)), "inception/face": np.ones((n, 3))},
        n_frames=n + 2,
        warnings=("features of inception come from random weights, seed 0: they mean nothing",),
    )
    return replace(video, **changes)


class TestSettings:
    def test_sets_are_named_feature_by_feature(self):
        settings = Settings(features=["darknet", "azimuthal"], regions=["nose", "face"])
        assert settings.sets == ("darknet/nose", "darknet/face", "azimuthal/nose", "azimuthal/face")
        assert settings.networks == ("darknet",)

    @pytest.mark.parametrize(
        "settings",
        [
            Settings(),
            Settings(
                sampling=Sampling(every=3),
                face="largest",
                min_face=60,
                detector_weights="weights",
                features=("azimuthal", "alexnet"),
                regions=("mouth",),
                bins=32,
                stretch=STRETCH,
                weights={"alexnet": "random"},
                seed=7,
                device="cuda:1",
                precision="float16",
            ),
        ],
    )
    def test_settings_survive_json(self, settings):
        assert Settings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings

    def test_paths_become_text(self, tmp_path):
        settings = Settings(detector_weights=tmp_path, weights={"darknet": tmp_path / "it"})
        assert settings.detector_weights == str(tmp_path)
        assert settings.weights == {"darknet": str(tmp_path / "it")}
        json.dumps(settings.to_dict())

    def test_settings_do_not_follow_what_they_were_made_of(self):
        weights, regions = {"darknet": "random"}, ["face"]
        settings = Settings(weights=weights, regions=regions)
        weights["alexnet"] = "random"
        regions.append("nose")
        assert (settings.weights, settings.regions) == ({"darknet": "random"}, ("face",))

    def test_what_is_left_out_has_its_default(self):
        assert Settings.from_dict({"bins": 8}) == Settings(bins=8)

    def test_unknown_settings_are_refused(self):
        with pytest.raises(ValueError, match=r"Settings have no 'colour'.*newer version"):
            Settings.from_dict({"colour": True})

    @cases(
        ("wrong", "message"),
        [
            ({"sampling": 8}, "sampling must be a Sampling, got 8"),
            ({"face": "nearest"}, "face must be one of 'tracked', 'largest'"),
            ({"min_face": 0}, "min_face must be a whole number from 1"),
            ({"bins": 2.5}, "bins must be a whole number from 1"),
            ({"features": "azimuthal"}, "features must be a sequence of names"),
            ({"features": ["vgg"]}, "Each of features must be one of 'azimuthal', 'inception'"),
            ({"features": ()}, "features must name something"),
            ({"regions": ["face", "face"]}, "nothing twice"),
            ({"regions": ["ear"]}, "Each of regions must be one of 'face', 'mouth', 'nose'"),
            ({"stretch": (0, 1)}, "stretch must be a Stretch"),
            ({"weights": {"vgg": "random"}}, "A key of weights must be one of 'inception'"),
            ({"weights": "random"}, "weights must map networks to files"),
            ({"seed": -1}, "seed must be a whole number from 0"),
            ({"seed": True}, "seed must be a whole number from 0"),
            ({"device": 0}, "device must be a str"),
            ({"precision": "double"}, "precision must be one of 'float32', 'float16'"),
        ],
    )
    def test_wrong_settings_are_refused(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            Settings(**wrong)


class TestVideoFeatures:
    def test_the_table_has_the_sets_in_the_order_asked_for(self):
        video = make_video()
        mouth, face = video.sets.values()
        assert np.array_equal(video.table(), np.hstack([mouth, face]))
        turned = video.table(["inception/face", "azimuthal/mouth"])
        assert np.array_equal(turned, np.hstack([face, mouth]))
        assert turned.dtype == np.float32
        assert video.widths == {"azimuthal/mouth": 2, "inception/face": 3}

    def test_a_video_without_a_face_has_a_table_without_rows(self):
        video = make_video(n=0)
        assert video.table().shape == (0, 5)
        assert video.table([]).shape == (0, 0)
        assert (video.n_faces, video.n_without_face) == (0, 2)

    def test_a_set_that_is_not_there_is_named(self):
        with pytest.raises(ValueError, match=r"no features azimuthal/nose, only azimuthal/mouth"):
            make_video().table(["azimuthal/nose"])

    @cases(
        ("wrong", "message"),
        [
            ({"time": [0.0]}, r"time must have shape \(3,\), got \(1,\)"),
            ({"boxes": np.zeros((3, 5))}, r"boxes must have shape \(3, 4\)"),
            ({"landmarks": np.zeros((2, 5, 2))}, r"landmarks must have shape \(3, 5, 2\)"),
            ({"sets": {"a/b": np.zeros((4, 1))}}, r"sets\['a/b'\] must have shape \(3, 1\)"),
            ({"sets": {"a/b": np.zeros(3)}}, "must have two dimensions"),
            ({"sets": {"a/b": np.zeros((3, 1, 1))}}, "must have two dimensions"),
            ({"n_frames": 2}, "n_frames must be at least 3"),
        ],
    )
    def test_what_does_not_fit_together_is_refused(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            make_video(**wrong)

    def test_equality_looks_at_everything(self):
        video = make_video()
        assert video == make_video()
        turned = dict(reversed(video.sets.items()))
        changes = [
            {"name": "other.mp4"},
            {"sha256": "cd" * 32},
            {"index": video.index + 1},
            {"time": video.time + 1},
            {"boxes": video.boxes + 1},
            {"landmarks": video.landmarks + 1},
            {"sets": turned},
            {"sets": {name: rows + 1 for name, rows in video.sets.items()}},
            {"n_frames": 9},
            {"warnings": ()},
        ]
        assert all(make_video(**change) != video for change in changes)
        assert video != "a video"


class TestFiles:
    @pytest.mark.parametrize("n", [0, 3])
    def test_what_was_saved_is_loaded(self, tmp_path, n):
        video = make_video(n)
        video.save(tmp_path / "it.npz")
        loaded = VideoFeatures.load(tmp_path / "it.npz")
        assert loaded == video
        for name in ("index", "time", "boxes", "landmarks"):
            assert getattr(loaded, name).dtype == getattr(video, name).dtype

    def test_a_missing_file_is_missing(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            VideoFeatures.load(tmp_path / "it.npz")

    def test_another_format_is_refused(self, tmp_path):
        make_video().save(tmp_path / "it.npz")
        with np.load(tmp_path / "it.npz") as arrays:
            about = json.loads(str(arrays["about"])) | {"format": FILE_FORMAT + 1}
            others = {name: arrays[name] for name in arrays if name != "about"}
        np.savez(tmp_path / "it.npz", about=json.dumps(about), **others)
        with pytest.raises(ValueError, match=f"its format is {FILE_FORMAT + 1}, not {FILE_FORMAT}"):
            VideoFeatures.load(tmp_path / "it.npz")

    def test_no_object_is_ever_unpickled(self, tmp_path):
        class Trap:
            def __reduce__(self):
                return pytest.fail, ("code from a file was run",)

        np.savez(tmp_path / "it.npz", about=np.array([Trap()], dtype=object))
        with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
            VideoFeatures.load(tmp_path / "it.npz")

    def test_damage_is_refused_or_does_not_matter(self, tmp_path):
        """Bytes all over the file are changed, and it is cut at many lengths."""
        video, path = make_video(1), tmp_path / "it.npz"
        video.save(path)
        whole = path.read_bytes()
        damaged = [whole[:cut] for cut in range(0, len(whole), 31)]
        damaged += [
            whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]
            for place in range(0, len(whole), 11)
        ]
        answers = []
        for content in damaged:
            path.write_bytes(content)
            try:
                answers.append(VideoFeatures.load(path) == video)
            except ValueError as error:
                answers.append("Extract them again" in str(error) and "refused")
        assert all(answers)
        assert answers.count("refused") > len(damaged) / 2
