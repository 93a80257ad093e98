import json
import sys

import pytest

pytest.importorskip("av", reason="av is not installed")
pytest.importorskip("cv2", reason="OpenCV is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("skimage", reason="scikit-image is not installed")

from lpfuse_faces import _extractor as extractor
from lpfuse_faces._detection.mtcnn import MTCNN
from lpfuse_faces._video import write_video
from research.speed.faces import detection


def test_rates_stages_and_goals(monkeypatch, tmp_path, capsys):
    peaks = iter([100 * 2**20, 200 * 2**20])
    monkeypatch.setattr(detection, "memory", lambda _, n: {"frames": n, "peak_bytes": next(peaks)})
    monkeypatch.setattr(detection, "set_threads", lambda _: None)
    untouched = extractor.frames_of, extractor.crop, MTCNN.detect
    path = tmp_path / "figures.json"
    arguments = ["detection", "--frames", "3", "--repeats", "1", "--output", str(path)]
    monkeypatch.setattr(sys, "argv", arguments)
    detection.main()
    assert (extractor.frames_of, extractor.crop, MTCNN.detect) == untouched

    stored = json.loads(path.read_text())
    assert [(row["threads"], row["streams"]) for row in stored["detection"]] == [
        (1, 1), (2, 1), (1, 2),
    ]  # fmt: skip
    for row in stored["detection"]:
        assert row["frames_with_a_face"] == 3
        assert row["frames_a_second"] > 0
    for row in stored["stages"]:
        parts = [row[name] for name in ("decoding", "detection", "regions", "spectra", "rest")]
        assert min(part["ms"] for part in parts) >= 0
        assert sum(part["ms"] for part in parts) == pytest.approx(row["whole"]["ms"])
        assert sum(part["share"] for part in parts) == pytest.approx(1)
    told = capsys.readouterr().out
    assert "| 30 | 200 MiB |" in told
    assert "| memory for ten times the frames | the same | 200 MiB after 100 MiB | **no** |" in told


def test_peak_memory_of_an_extraction(tmp_path):
    clip = tmp_path / "clip.mp4"
    write_video(clip, detection.moving(2))
    peak = detection.Extraction(clip).peak()
    assert peak is None or peak >= 0
