"""What a model carries, what it refuses, and how it explains itself."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from lpfuse import FixedRule
from lpfuse.ensemble.components import Combination
from lpfuse_faces import _extractor as extractor_module
from lpfuse_faces._detection.networks import FILES, read_cascade
from lpfuse_faces._detector import VideoDetector
from lpfuse_faces._explanation import Explained, usual_contributions
from lpfuse_faces._extractor import Extractor
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces._model_file import extractor_of, load_model, model_settings, settings_of, summary
from lpfuse_faces._pooling import pooled
from lpfuse_faces._settings import Settings
from lpfuse_faces._spectrum import Stretch

SETS = ("azimuthal/face", "azimuthal/mouth")


def videos(n, shift=0.0, seed=0, frames=5):
    rng = np.random.default_rng(seed)
    found = []
    for k in range(n):
        sets = {name: rng.normal(size=3) + 0.3 * rng.normal(size=(frames, 3)) for name in SETS}
        sets["azimuthal/mouth"] += shift
        where = np.arange(frames), np.arange(frames) / 25
        places = np.zeros((frames, 4)), np.zeros((frames, 5, 2))
        found.append(VideoFeatures(f"{k}.mp4", "", *where, *places, sets, n_frames=frames + 1))
    return found


GENUINE, FORGED = videos(24), videos(8, shift=4.0, seed=1)
LABELS = np.repeat([1, -1], [24, 8])


@pytest.fixture(scope="module", params=["mean", 0.2])
def model(request):
    made = VideoDetector(learners=["gmm", "kpca"], pooling=request.param, random_state=0)
    return made.set_params(settings=model_settings(Extractor(), pure=False)).fit(
        GENUINE + FORGED, LABELS
    )


def test_saved_and_loaded_it_says_the_same(model, tmp_path):
    model.save(tmp_path / "m")
    copy = load_model(tmp_path / "m")
    assert settings_of(copy) == Settings()
    assert copy.settings["about"] == {"pure": False}
    assert extractor_of(copy).meaning == Extractor().meaning
    assert np.array_equal(copy.score_samples(FORGED), model.score_samples(FORGED))
    assert summary(copy) == summary(model)


class Network:
    """Of random weights, or of whatever file is named."""

    width, size, is_random = 3, 8, False

    def __init__(self, weights):
        self.digest = f"sha256:{weights}"


@pytest.fixture
def networks(monkeypatch):
    """Files that were asked for, by network."""
    asked = {}

    def load(name, weights=None, **options):
        asked[name] = weights, options["device"]
        return Network("good" if weights is None else Path(weights).read_text())

    monkeypatch.setattr(extractor_module, "load_network", load)
    return asked


def test_weights_are_found_by_name_never_by_stored_path(networks, tmp_path, monkeypatch):
    monkeypatch.setenv("LPFUSE_WEIGHTS", str(tmp_path))
    place = tmp_path / "alexnet.pth"
    place.write_text("good")
    stretch = Stretch(
        dict.fromkeys(Settings().regions, 0.0), dict.fromkeys(Settings().regions, 1.0)
    )
    settings = Settings(features=["alexnet"], stretch=stretch, weights={"alexnet": place})
    detector = VideoDetector(settings=model_settings(Extractor(settings)))
    assert str(tmp_path) not in str(detector.settings)
    assert extractor_of(detector).settings == settings
    detector.settings["settings"]["weights"] = {"alexnet": str(place)}  # a file that names a place
    monkeypatch.setenv("LPFUSE_WEIGHTS", str(tmp_path / "elsewhere"))
    extractor_of(detector)
    assert networks["alexnet"] == (None, "cpu")
    extractor_of(detector, device="cuda")
    assert networks["alexnet"] == (None, "cuda")
    elsewhere = tmp_path / "elsewhere.pth"
    elsewhere.write_text("good")
    extractor_of(detector, weights={"alexnet": str(elsewhere)})
    assert networks["alexnet"] == (str(elsewhere), "cpu")
    elsewhere.write_text("bad")
    told = "other weights of alexnet: sha256:good, and these are sha256:bad. .*--weights alexnet="
    with pytest.raises(ValueError, match=told):
        extractor_of(detector, weights={"alexnet": str(elsewhere)})


def test_the_face_detector_may_lie_elsewhere(tmp_path):
    default = Extractor()
    for name, content in zip(FILES, read_cascade(), strict=True):
        (tmp_path / name).write_bytes(content)
    carried = model_settings(default)
    detector = VideoDetector(settings=carried)
    assert extractor_of(detector, detector_weights=tmp_path).key == default.key
    gone = replace(default.settings, detector_weights=str(tmp_path / "gone"))
    carried["settings"] = gone.to_dict()
    assert extractor_of(detector).key == default.key


def test_the_auc_is_that_of_videos_out_of_fold(model):
    found = summary(model)
    assert found["learnt_from"] == {"genuine": 24, "forged": 8, "frames": 32 * 5}
    taught = model.out_of_fold_
    fold = np.array([taught.fold[taught.video == k][0] for k in range(32)])
    scores = pooled(taught.scores[:, 0], taught.video, 32, model.pooling)
    areas, counts = [], []
    for number in np.unique(fold):
        rows = fold == number
        areas.append(roc_auc_score(LABELS[rows], scores[rows]))
        counts.append((LABELS[rows] < 0).sum())
    name = taught.names[0]
    assert found["auc"][name] == pytest.approx(np.average(areas, weights=counts))
    assert found["auc"]["fusion"] > 0.9
    assert found["threshold"] == model.offset_
    assert list(found["weights"]) == model.learner_names_


# ------------------------------------------------------------------------------------- explanation


def test_what_is_usual_is_the_mean_over_genuine_videos(model):
    taught = model.out_of_fold_
    parts = Combination(model.fused_.scaler_, model.fused_.fusion_).contributions(taught.scores)
    by_video = []
    for k in range(24):
        rows = parts[taught.video == k]
        order = np.argsort(rows.sum(axis=1))
        if model.pooling == "mean":
            by_video.append(rows.mean(axis=0))
        else:  # five frames: the quantile 0.2 lies 0.8 of the way from the first to the second
            by_video.append(0.2 * rows[order[0]] + 0.8 * rows[order[1]])
    assert usual_contributions(model) == pytest.approx(np.mean(by_video, axis=0))


def test_differences_add_up(model):
    usual = usual_contributions(model)
    explained = Explained(model.verdict(FORGED[0]), usual)
    difference = explained.verdict.score - usual.sum()
    for parts in (explained.learners, explained.sets, explained.regions):
        assert sum(parts.values()) == pytest.approx(difference)
    assert set(explained.regions) == {"face", "mouth"}
    assert explained.regions["mouth"] < explained.regions["face"]
    assert explained.threshold == pytest.approx(model.offset_)


def test_sentences_name_what_speaks_against_a_video(model):
    usual = usual_contributions(model)
    told = Explained(model.verdict(FORGED[0]), usual).sentences(few=1)
    assert told[0].startswith("Score −")
    assert "A face was found in 5 of 6 frames that were looked at." in told
    assert told[2].startswith("Against it, by region (0: as genuine videos): mouth\xa0−")
    assert told[2].count("−") == 1
    assert "azimuthal/mouth" in told[3]
    best = max(GENUINE, key=lambda video: model.score_samples([video])[0])
    assert len(Explained(model.verdict(best), np.full(4, -99.0)).sentences()) == 2


def test_without_a_face_there_is_little_to_say(model):
    explained = Explained(model.verdict(videos(1, frames=0)[0]), usual_contributions(model))
    assert explained.sentences() == ["A face was found in 0 of 1 frames that were looked at."]
    assert explained.learners == {}
    assert explained.values["verdict"] == "no face found"


def test_too_few_genuine_videos():
    with pytest.warns(UserWarning, match="cannot hold false alarms"):
        model = VideoDetector(learners=["gmm"], random_state=0).fit(GENUINE[:8])
    explained = Explained(model.verdict(FORGED[0]), usual_contributions(model))
    assert "there is no threshold, since the model has seen too few" in explained.sentences()[0]
    assert explained.values["verdict"] == "undecided"


def test_a_fusion_that_is_no_sum(model):
    other = model.with_fusion(FixedRule("product"))
    assert usual_contributions(other) is None
    explained = Explained(other.verdict(FORGED[0]), None)
    assert explained.learners == {}
    assert len(explained.sentences()) == 2
    assert usual_contributions(model.with_fusion(FixedRule("sum"))) is not None
