"""From videos to features: equal to a naive loop, in bounded memory, and no work done twice.

Most tests put a detector in the place of MTCNN that takes a bright square for a face.
"""

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest

from helpers.cases import cases
from lpfuse_faces._cache import FeatureCache
from lpfuse_faces._detection.mtcnn import MTCNN, Faces
from lpfuse_faces._detection.tracking import FaceChooser
from lpfuse_faces._extraction import Extraction, extract_all, learn_stretch
from lpfuse_faces._extractor import FORMAT, Extractor, content_of, key_of
from lpfuse_faces._regions import REGIONS, crop
from lpfuse_faces._settings import Settings
from lpfuse_faces._spectrum import (
    Stretch,
    azimuthal_profiles,
    filtered_spectra,
    fit_stretch,
    spectrum_images,
)
from lpfuse_faces._video import Frame, Sampling, UnreadableVideo, frames_of, write_video

ALL = Sampling()
STRETCH = Stretch(dict.fromkeys(REGIONS, 0.0), dict.fromkeys(REGIONS, 4.0))


class SquareDetector:
    """Takes a bright square for a face, and remembers how much it was asked."""

    digest = "squares"

    def __init__(self, weights=None, *, min_face=40, threads=1):
        self.batches = []

    def detect(self, images):
        self.batches.append(len(images))
        return [self._faces(image) for image in images]

    @property
    def n_images(self):
        return sum(self.batches)

    @staticmethod
    def _faces(image):
        y, x = np.nonzero(image.min(axis=2) > 200)
        if not x.size:
            return Faces(*(np.empty((0, *shape), np.float32) for shape in [(4,), (), (5, 2)]))
        left, top, right, bottom = np.float32([x.min(), y.min(), x.max(), y.max()])
        marks = [[0.3, 0.4], [0.7, 0.45], [0.5, 0.6], [0.35, 0.8], [0.65, 0.8]]
        landmarks = [left, top] + np.float32(marks) * [right - left, bottom - top]
        box = np.float32([[left, top, right, bottom]])
        return Faces(box, np.ones(1, np.float32), landmarks[None].astype(np.float32))


class MeanNetwork:
    """Two features of a picture: its mean, and its largest value."""

    width = 2

    def __init__(self, name, weights, *, seed, device, precision):
        self.name, self.size = name, {"darknet": 16, "alexnet": 24}[name]
        self.is_random = weights == "random"
        self.digest = f"random:{seed}" if self.is_random else f"sha256:{name}"
        self.digest += f" in {precision}"

    def __call__(self, images):
        return np.stack([images.mean(axis=(1, 2)), images.max(axis=(1, 2))], axis=1)


@pytest.fixture
def squares(monkeypatch):
    """Extractors see squares for faces, and their networks are tiny."""
    monkeypatch.setattr("lpfuse_faces._extractor.MTCNN", SquareDetector)
    monkeypatch.setattr("lpfuse_faces._extractor.load_network", MeanNetwork)


def pictures(n, seed=0, without=(), size=96):
    """Noise with a square that walks to the right, but for the frames `without`."""
    rng = np.random.default_rng(seed)
    for k in range(n):
        image = rng.integers(0, 120, (size, size, 3), dtype=np.uint8)
        if k not in without:
            image[20:60, 10 + k : 50 + k] = rng.integers(230, 256, (40, 40, 3), dtype=np.uint8)
        yield image


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clips")
    write_video(folder / "a.mp4", pictures(7, seed=1, without={0, 4}), crf=10)
    write_video(folder / "b.mp4", pictures(5, seed=2), crf=10)
    write_video(folder / "nobody.mp4", pictures(3, seed=3, without=range(3)), crf=10)
    shutil.copy(folder / "b.mp4", folder / "copy of b.mp4")
    (folder / "broken.mp4").write_bytes((folder / "a.mp4").read_bytes()[:300])
    (folder / "empty.mp4").touch()
    return folder


def naive(path, settings, detector, networks):
    """Frame after frame, with the public parts."""
    choose = FaceChooser(settings.face)
    sets = {name: [] for name in settings.sets}
    index, time, boxes, landmarks, n_frames = [], [], [], [], 0
    for frame in frames_of(path, settings.sampling):
        n_frames += 1
        face = choose(detector.detect([frame.image])[0])
        if face is None:
            continue
        index.append(frame.index)
        time.append(frame.time)
        boxes.append(face.box)
        landmarks.append(face.landmarks)
        for name in settings.sets:
            feature, region = name.split("/")
            spectra = filtered_spectra([crop(frame.image, face, region)])
            if feature == "azimuthal":
                row = azimuthal_profiles(spectra, settings.bins)
            else:
                network = networks[feature]
                ends = settings.stretch.low[region], settings.stretch.high[region]
                row = network(spectrum_images(spectra, network.size, *ends))
            sets[name].append(row[0])
    return index, time, boxes, landmarks, sets, n_frames


def assert_same(features, expected, atol=1e-5):
    index, time, boxes, landmarks, sets, n_frames = expected
    assert features.index.tolist() == index
    assert features.time.tolist() == time
    assert features.n_frames == n_frames
    np.testing.assert_allclose(features.boxes, boxes, atol=atol)
    np.testing.assert_allclose(features.landmarks, landmarks, atol=atol)
    assert list(features.sets) == list(sets)
    for name, rows in sets.items():
        np.testing.assert_allclose(features.sets[name], rows, atol=atol)


class TestExtractor:
    @pytest.mark.parametrize("batch_size", [1, 3, 16])
    def test_equal_to_a_naive_loop(self, clips, squares, batch_size):
        settings = Settings(
            sampling=ALL,
            features=["alexnet", "azimuthal", "darknet"],
            regions=["nose", "face"],
            bins=12,
            stretch=STRETCH,
        )
        extractor = Extractor(settings, batch_size=batch_size)
        features = extractor.extract(clips / "a.mp4")
        assert_same(
            features,
            naive(clips / "a.mp4", settings, SquareDetector(), extractor.networks),
        )
        assert (features.name, features.sha256) == ("a.mp4", content_of(clips / "a.mp4"))
        assert (features.n_frames, features.n_faces) == (7, 5)
        assert features.widths == extractor.widths

    def test_frames_are_looked_at_in_batches(self, clips, squares):
        extractor = Extractor(batch_size=3)
        extractor.extract(clips / "a.mp4")
        assert extractor.detector.batches == [3, 3, 1]

    @pytest.mark.parametrize(("face", "index"), [("tracked", [0, 1]), ("largest", [0, 1, 2, 3])])
    def test_the_face_is_chosen_over_all_batches(self, squares, tmp_path, face, index):
        there = list(pictures(2, size=128))
        gone = [np.roll(image, 60, axis=1) for image in there]  # another face, as far as one knows
        write_video(tmp_path / "it.mp4", there + gone, crf=10)
        features = Extractor(Settings(face=face), batch_size=1).extract(tmp_path / "it.mp4")
        assert features.index.tolist() == index

    def test_sampling_is_respected(self, clips, squares):
        features = Extractor(Settings(sampling=Sampling(every=3))).extract(clips / "a.mp4")
        assert (features.n_frames, features.index.tolist()) == (3, [3, 6])

    def test_a_video_without_a_face_has_no_rows(self, clips, squares):
        settings = Settings(features=["azimuthal", "darknet"], stretch=STRETCH)
        features = Extractor(settings).extract(clips / "nobody.mp4")
        assert (features.n_frames, features.n_faces, features.n_without_face) == (3, 0, 3)
        assert features.table().shape == (0, 3 * 64 + 3 * MeanNetwork.width)

    def test_a_batch_without_a_face_changes_nothing(self, clips, squares):
        settings = Settings(features=["azimuthal", "darknet"], stretch=STRETCH, sampling=ALL)
        one, all_ = (Extractor(settings, batch_size=size) for size in (1, 7))
        assert one.extract(clips / "a.mp4") == all_.extract(clips / "a.mp4")

    @cases("name", ["broken.mp4", "empty.mp4", "missing.mp4", "."])
    def test_what_cannot_be_read_raises_one_error(self, clips, squares, name):
        with pytest.raises(UnreadableVideo):
            Extractor().extract(clips / name)

    def test_random_weights_are_told(self, clips, squares):
        settings = Settings(
            features=["darknet", "alexnet"], weights={"alexnet": "random"}, seed=3, stretch=STRETCH
        )
        features = Extractor(settings).extract(clips / "b.mp4")
        told = "features of alexnet come from random weights, seed 3: they mean nothing"
        assert features.warnings == (told,)

    @pytest.mark.parametrize("stretch", [None, Stretch({"face": 0.0}, {"face": 1.0})])
    def test_networks_need_a_stretch(self, squares, stretch):
        settings = Settings(features=["darknet"], stretch=stretch)
        with pytest.raises(ValueError, match=r"none for .*mouth, nose\. .*learn_stretch"):
            Extractor(settings)

    @pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"threads": 0}])
    def test_counts_are_checked(self, squares, wrong):
        with pytest.raises(ValueError, match="whole number from 1"):
            Extractor(**wrong)

    def test_no_more_frames_than_a_batch_are_alive(self, clips, squares, monkeypatch):
        alive, most = set(), []

        def endless(path, sampling, **options):
            for k, image in enumerate(pictures(40)):
                alive.add(k)
                weakref.finalize(image, alive.discard, k)
                most.append(len(alive))
                yield Frame(k, k / 25, image)
                del image

        monkeypatch.setattr("lpfuse_faces._extractor.frames_of", endless)
        features = Extractor(Settings(sampling=ALL), batch_size=4).extract(clips / "b.mp4")
        assert features.n_faces == 40
        assert max(most) <= 4 + 1  # the next one is decoded


class TestKey:
    SETTINGS = Settings(features=["azimuthal", "darknet"], stretch=STRETCH)

    def key(self, **changes):
        return Extractor(replace(self.SETTINGS, **changes)).key

    @cases(
        "change",
        [
            {"sampling": Sampling(count=8)},
            {"face": "largest"},
            {"min_face": 60},
            {"features": ("azimuthal",)},
            {"features": ("azimuthal", "alexnet")},
            {"regions": ("face",)},
            {"bins": 32},
            {"stretch": replace(STRETCH, low=dict.fromkeys(REGIONS, 0.5))},
            {"weights": {"darknet": "random"}},
            {"precision": "float16"},
        ],
    )
    def test_changes_with_what_the_features_depend_on(self, squares, change):
        assert self.key(**change) != self.key()

    @cases(
        "change",
        [
            {"device": "cuda"},
            {"detector_weights": "the same files in another place"},
            {"weights": {"darknet": "the same file in another place"}},
            {"weights": {"alexnet": "random"}},  # a network that is not asked for
            {"seed": 5},
        ],
    )
    def test_stays_with_what_they_do_not_depend_on(self, squares, change):
        assert self.key(**change) == self.key()

    def test_knows_what_is_not_used(self, squares):
        light = Settings()
        assert Extractor(replace(light, stretch=STRETCH)).key == Extractor(light).key
        deep = Settings(features=["darknet"], stretch=STRETCH)
        assert Extractor(replace(deep, bins=8)).key == Extractor(deep).key

    def test_the_seed_of_random_weights_counts(self, squares):
        weights = {"darknet": "random"}
        assert self.key(weights=weights, seed=1) != self.key(weights=weights, seed=2)

    def test_other_weights_and_other_code_change_it(self, squares, monkeypatch):
        key = self.key()
        monkeypatch.setattr(SquareDetector, "digest", "other squares")
        other = Extractor(self.SETTINGS)
        newer = other.meaning | {"format": FORMAT + 1}
        assert other.meaning["format"] == FORMAT
        assert len({key, other.key, key_of(newer)}) == 3

    def test_does_not_know_how_the_work_is_cut(self, squares):
        assert Extractor(self.SETTINGS, batch_size=2, threads=2).key == self.key()

    def test_is_the_hash_of_what_it_stands_for(self, squares, clips, tmp_path):
        extractor = Extractor(self.SETTINGS)
        extract_all([], extractor, FeatureCache(tmp_path))
        meaning = json.loads((tmp_path / extractor.key / "settings.json").read_text())
        assert meaning == extractor.meaning
        canonical = json.dumps(meaning, sort_keys=True, separators=(",", ":"))
        assert hashlib.sha256(canonical.encode()).hexdigest().startswith(extractor.key)


class TestExtractAll:
    NAMES = ["b.mp4", "broken.mp4", "a.mp4", "missing.mp4", "copy of b.mp4", "nobody.mp4"]

    def paths(self, clips):
        return [clips / name for name in self.NAMES]

    @pytest.mark.parametrize("n_jobs", [1, 3])
    def test_each_video_is_in_order_or_skipped_with_reason(self, clips, squares, n_jobs):
        extractor = Extractor()
        result = extract_all(self.paths(clips), extractor, n_jobs=n_jobs)
        assert [path.name for path in result.features] == [
            "b.mp4", "a.mp4", "copy of b.mp4", "nobody.mp4"
        ]  # fmt: skip
        assert all(
            features == extractor.extract(path) for path, features in result.features.items()
        )
        assert [path.name for path in result.skipped] == ["broken.mp4", "missing.mp4"]
        assert result.skipped[clips / "missing.mp4"] == "there is no such file"

    @pytest.mark.parametrize("n_jobs", [1, 3])
    def test_the_same_content_is_extracted_once(self, clips, squares, n_jobs):
        extractor = Extractor()
        names = ["b.mp4", "copy of b.mp4", "b.mp4"]
        result = extract_all([str(clips / name) for name in names], extractor, n_jobs=n_jobs)
        assert extractor.detector.n_images == 5
        assert [features.name for features in result.features.values()] == names[:2]

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_what_was_stored_is_not_read_again(self, clips, squares, tmp_path, n_jobs):
        cache = FeatureCache(tmp_path)
        first = extract_all(self.paths(clips), Extractor(), cache, n_jobs=n_jobs)
        again = Extractor(batch_size=2)
        result = extract_all(self.paths(clips), again, cache, n_jobs=n_jobs)
        assert (result.features, result.skipped) == (first.features, first.skipped)
        assert again.detector.n_images == 0
        assert all(counts.found for counts in result.counts.values())

    @pytest.mark.parametrize("cached", [False, True])
    def test_counts_are_those_of_the_features(self, clips, squares, tmp_path, cached):
        cache = FeatureCache(tmp_path) if cached else None
        result = extract_all(self.paths(clips), Extractor(), cache)
        assert list(result.counts) == list(result.features)
        for path, features in result.features.items():
            assert result.counts[path][:2] == (features.n_frames, features.n_faces)
        found = [path.name for path, counts in result.counts.items() if counts.found]
        assert found == ["copy of b.mp4"]

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_with_a_cache_no_features_are_held(self, clips, squares, tmp_path, monkeypatch, n_jobs):
        extract, made = Extractor.extract, []

        def watched(*arguments):
            features = extract(*arguments)
            made.append(weakref.ref(features))
            return features

        monkeypatch.setattr(Extractor, "extract", watched)
        result = extract_all(self.paths(clips), Extractor(), FeatureCache(tmp_path), n_jobs=n_jobs)
        assert [features() for features in made] == [None] * 3
        assert len(result.features) == 4

    def test_features_that_are_gone_are_told(self, clips, squares, tmp_path):
        result = extract_all([clips / "a.mp4"], Extractor(), FeatureCache(tmp_path))
        shutil.rmtree(tmp_path)
        with pytest.raises(FileNotFoundError, match=r"a\.mp4 were stored and are gone"):
            result.features[clips / "a.mp4"]
        with pytest.raises(KeyError):
            result.features[clips / "b.mp4"]

    def test_other_settings_are_other_features(self, clips, squares, tmp_path):
        cache = FeatureCache(tmp_path)
        for bins in (8, 16):
            result = extract_all([clips / "b.mp4"], Extractor(Settings(bins=bins)), cache)
            assert result.features[clips / "b.mp4"].widths["azimuthal/nose"] == bins

    def test_a_changed_video_is_read_again(self, squares, clips, tmp_path):
        cache, path = FeatureCache(tmp_path / "cache"), tmp_path / "it.mp4"
        shutil.copy(clips / "a.mp4", path)
        extract_all([path], Extractor(), cache)
        shutil.copy(clips / "b.mp4", path)
        result = extract_all([path], Extractor(), cache)
        assert result.features[path].n_frames == 5

    def test_a_damaged_file_is_replaced(self, clips, squares, tmp_path):
        cache = FeatureCache(tmp_path)
        first = extract_all([clips / "b.mp4"], Extractor(), cache)
        [file] = tmp_path.rglob("*.npz")
        file.write_bytes(file.read_bytes()[:-9])
        extractor = Extractor()
        assert extract_all([clips / "b.mp4"], extractor, cache).features == first.features
        assert extractor.detector.n_images == 5
        assert cache.find(content_of(clips / "b.mp4"), extractor.key) is not None

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_progress_tells_of_each_video_in_the_calling_thread(
        self, clips, squares, tmp_path, n_jobs
    ):
        told = []

        def progress(done, total, path, note):
            assert threading.current_thread() is threading.main_thread()
            told.append((done, total, path.name, note))

        cache = FeatureCache(tmp_path)
        extract_all([clips / "b.mp4"], Extractor(), cache)
        extract_all(self.paths(clips), Extractor(), cache, n_jobs=n_jobs, progress=progress)
        assert [(done, total) for done, total, *_ in told] == [(k, 6) for k in range(1, 7)]
        notes = {name: note for *_, name, note in told}
        assert notes["b.mp4"] == notes["copy of b.mp4"] == "found"
        assert notes["a.mp4"] == notes["nobody.mp4"] == "extracted"
        assert notes["missing.mp4"] == "skipped: there is no such file"

    def test_no_videos(self, squares, tmp_path):
        assert extract_all([], Extractor(), FeatureCache(tmp_path)) == Extraction({}, {}, {})

    def test_a_folder_that_cannot_be_written_fails_before_the_work(self, clips, squares, tmp_path):
        (tmp_path / "file").touch()
        extractor = Extractor()
        with pytest.raises(OSError, match="Name a folder that can be written to"):
            extract_all([clips / "b.mp4"], extractor, FeatureCache(tmp_path / "file"))
        assert extractor.detector.n_images == 0

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_an_error_that_is_not_the_videos_names_it(self, clips, squares, monkeypatch, n_jobs):
        def fails(detector, images):
            raise MemoryError

        monkeypatch.setattr(SquareDetector, "detect", fails)
        with pytest.raises(MemoryError) as caught:
            extract_all([clips / "a.mp4", clips / "b.mp4"], Extractor(), n_jobs=n_jobs)
        assert caught.value.__notes__[0].endswith("a.mp4.")

    @pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_an_interruption_loses_nothing_that_was_done(
        self, clips, squares, tmp_path, stop, n_jobs
    ):
        cache, paths = FeatureCache(tmp_path), [clips / name for name in ("a.mp4", "b.mp4")]

        def interrupt(done, total, path, note):
            raise stop

        with pytest.raises(stop):
            extract_all(paths, Extractor(), cache, n_jobs=n_jobs, progress=interrupt)
        notes = []
        extract_all(paths, Extractor(), cache, progress=lambda *told: notes.append(told[-1]))
        assert "found" in notes


@pytest.mark.usefixtures("squares")
class TestStretch:
    def test_is_that_of_the_pooled_spectra(self, clips):
        settings = Settings(regions=["face", "nose"], features=["darknet"])
        paths = [clips / name for name in ("a.mp4", "broken.mp4", "nobody.mp4", "b.mp4")]
        pooled = {region: [] for region in settings.regions}
        for path in paths[::3]:
            for frame in frames_of(path, Sampling(count=2)):
                face = FaceChooser("largest")(SquareDetector().detect([frame.image])[0])
                for region, spectra in pooled.items():
                    spectra += filtered_spectra([crop(frame.image, face, region)])
        stretch = learn_stretch(paths, settings, frames_per_video=2)
        assert stretch == fit_stretch(pooled)
        assert stretch == learn_stretch(paths, settings, frames_per_video=2, n_jobs=3)

    def test_makes_networks_possible(self, clips):
        settings = Settings(features=["darknet"])
        settings = replace(settings, stretch=learn_stretch([clips / "b.mp4"], settings))
        features = Extractor(settings).extract(clips / "b.mp4")
        assert features.table().max() <= 1.0

    def test_clips_without_faces_are_refused(self, clips):
        with pytest.raises(ValueError, match="None of the 2 clips shows a face"):
            learn_stretch([clips / "nobody.mp4", clips / "broken.mp4"], Settings())


DIES_AT_THE_THIRD = """
import os, signal, sys
from lpfuse_faces._cache import FeatureCache
from lpfuse_faces._extraction import extract_all
from lpfuse_faces._extractor import Extractor

store, stored = FeatureCache.store, []

def dies(cache, features, key):
    stored.append(features)
    if len(stored) == 3:
        os.fsync = lambda file: os.kill(os.getpid(), signal.SIGKILL)
    store(cache, features, key)

FeatureCache.store = dies
extract_all(sys.argv[2:], Extractor(), FeatureCache(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    face = pytest.importorskip("skimage.data").astronaut()[0:256, 96:352]
    folder = tmp_path_factory.mktemp("real")
    for k in range(4):
        shown = [np.roll(face, shift + 3 * k, axis=1) for shift in range(0, 12, 2)]
        write_video(folder / f"{k}.mp4", [*shown[:3], np.zeros_like(face), *shown[3:]])
    return folder


class TestForReal:
    """With MTCNN, on the photograph of a face that comes with scikit-image."""

    SETTINGS = Settings(sampling=ALL, min_face=80)

    def test_equal_to_a_naive_loop(self, folder):
        extractor = Extractor(self.SETTINGS, batch_size=3)
        features = extractor.extract(folder / "0.mp4")
        assert_same(
            features, naive(folder / "0.mp4", self.SETTINGS, MTCNN(min_face=80), {}), atol=1e-3
        )
        assert (features.n_frames, features.index.tolist()) == (7, [0, 1, 2, 4, 5, 6])

    def test_features_do_not_depend_on_batches_and_threads(self, folder):
        expected = Extractor(self.SETTINGS).extract(folder / "0.mp4")
        for batch_size, threads in ((1, 1), (3, 2)):
            extractor = Extractor(self.SETTINGS, batch_size=batch_size, threads=threads)
            assert extractor.extract(folder / "0.mp4") == expected

    def test_several_videos_at_once_are_as_one_by_one(self, folder):
        paths = sorted(folder.glob("*.mp4"))
        one, many = (
            extract_all(paths, Extractor(self.SETTINGS), n_jobs=n_jobs) for n_jobs in (1, 4)
        )
        assert one == many

    def test_a_network_with_random_weights(self, folder):
        pytest.importorskip("torch")
        settings = Settings(
            sampling=Sampling(count=3),
            features=["darknet"],
            regions=["mouth"],
            stretch=STRETCH,
            weights={"darknet": "random"},
        )
        extractor = Extractor(settings, batch_size=1)  # the second frame shows no face
        features = extractor.extract(folder / "0.mp4")
        assert_same(features, naive(folder / "0.mp4", settings, MTCNN(), extractor.networks))
        assert (features.n_frames, features.widths) == (3, {"darknet/mouth": 1024})
        assert features.n_without_face == 1
        assert np.ptp(features.table(), axis=0).max() > 0

    def test_a_killed_run_goes_on_where_it_ended(self, folder, tmp_path):
        paths = sorted(folder.glob("*.mp4"))
        script = [sys.executable, "-c", DIES_AT_THE_THIRD, tmp_path / "cache", *paths]
        assert subprocess.run([*map(str, script)]).returncode == -signal.SIGKILL
        notes = {}
        result = extract_all(
            paths,
            Extractor(),
            FeatureCache(tmp_path / "cache"),
            progress=lambda done, total, path, note: notes.update({path.name: note}),
        )
        assert list(notes.values()) == ["found", "found", "extracted", "extracted"]
        assert result.features == extract_all(paths, Extractor()).features
