"""What a contact sheet shows, as data, as a picture, and as a page."""

import re
import shutil
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pytest

from helpers.cases import cases
from lpfuse_faces._detection.tracking import Face
from lpfuse_faces._explanation import Explained
from lpfuse_faces._features import VideoFeatures
from lpfuse_faces._regions import REGIONS, crop
from lpfuse_faces._settings import Settings
from lpfuse_faces._spectrum import Stretch
from lpfuse_faces._verdict import VideoVerdict
from lpfuse_faces._video import Sampling, frames_of, write_video
from lpfuse_faces.contact_sheet import contact_sheet, write_sheet
from lpfuse_faces.contact_sheet._contents import bar_labels, chosen_frames
from lpfuse_faces.contact_sheet._page import html
from lpfuse_faces.contact_sheet._picture import figure

NASTY = '<script>alert("x")</script>&日本語 $x_1$ ' + 40 * "long " + ".mp4"
SETTINGS = Settings(sampling=Sampling(every=2))
EYES, NOSE, MOUTH = [[38, 40], [62, 44]], [[50, 55]], [[40, 66], [60, 68]]


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    rng = np.random.default_rng(0)
    write_video(path, rng.integers(0, 256, (20, 96, 128, 3), dtype=np.uint8))
    return path


def features_of(rows):
    """A face in so many of the ten frames that are looked at."""
    sets = {f"azimuthal/{region}": np.zeros((rows, 2)) for region in REGIONS}
    box, landmarks = [30, 25, 70, 80], [*EYES, *NOSE, *MOUTH]
    return VideoFeatures(
        "clip.mp4", "00", 2 * np.arange(rows), 2 * np.arange(rows) / 25,
        np.tile(box, (rows, 1)), np.tile(landmarks, (rows, 1, 1)), sets, n_frames=10,
    )  # fmt: skip


def explained(rows=10, learners=5, threshold=0.0, name="clip.mp4", warnings=(), additive=True):
    rng = np.random.default_rng(1)
    names = [f"gp{j}: azimuthal/{REGIONS[j % 3]}" for j in range(learners)]
    scores = rng.normal(size=rows)
    parts = rng.normal(size=learners)
    score = float(scores.mean()) if rows else np.nan
    verdict = VideoVerdict(
        name=name,
        score=score,
        decision=score - threshold,
        pvalue=0.04 if rows else np.nan,
        frame_scores=scores,
        time=2 * np.arange(rows) / 25,
        contributions=parts if additive and rows else None,
        learner_names=names,
        learner_sets=[text.partition(": ")[2] for text in names],
        n_frames=10,
        n_without_face=10 - rows,
        warnings=warnings,
    )
    return Explained(verdict, np.full(learners, 0.25) if additive else None)


def sheet_of(video, rows=10, settings=SETTINGS, **options):
    return contact_sheet(video, features_of(rows), explained(rows, **options), settings)


# ---------------------------------------------------------------------------------------- contents


def test_the_strangest_the_most_ordinary_and_others_are_shown():
    scores = np.linspace(0, 1, 50)
    scores[17], scores[31] = -1, 2
    chosen = chosen_frames(scores)
    assert chosen[17] == "strangest"
    assert chosen[31] == "most ordinary"
    assert len(chosen) == 6
    assert list(chosen) == sorted(chosen)
    spread = [row for row, remark in chosen.items() if not remark]
    assert min(spread) == 0
    assert max(spread) >= 25


@cases("n, most", product(range(9), [1, 2, 3, 6]))
def test_as_many_frames_as_there_are_and_no_more(n, most):
    chosen = chosen_frames(np.random.default_rng(n).normal(size=n), most)
    assert len(chosen) == min(n, most)
    assert set(chosen) <= set(range(n))


def test_frames_without_a_score_are_not_the_strangest():
    assert chosen_frames(np.array([np.nan, 1.0, 2.0]), 2) == {1: "strangest", 2: "most ordinary"}
    assert chosen_frames(np.full(3, np.nan), 2) == {0: "", 2: ""}
    assert chosen_frames(np.zeros(3), 2) == {0: "strangest", 2: ""}


def test_the_frames_are_those_that_were_measured(video):
    sheet = sheet_of(video)
    measured = {frame.index: frame for frame in frames_of(video)}
    scores = sheet.verdict.frame_scores
    assert len(sheet.shown) == 6
    for shown in sheet.shown:
        row = int(np.argmin(abs(sheet.verdict.time - shown.time)))
        assert shown.score == scores[row]
        image = measured[2 * row].image
        face = Face(features_of(1).boxes[0], 1.0, features_of(1).landmarks[0])
        for region in REGIONS:
            patch = crop(image, face, region)
            assert np.abs(shown.regions[region] - patch.clip(0, 255)).max() <= 0.5
    assert [shown.time for shown in sheet.shown] == sorted(shown.time for shown in sheet.shown)


def test_marks_lie_where_they_lie_in_the_frame(video):
    """The pixel under the nose is the same in the frame and in the cutout."""
    flat = video.with_name("dots.mp4")
    picture = np.zeros((96, 128, 3), np.uint8)
    picture[51:60, 46:55] = 255  # around the nose, at (50, 55)
    write_video(flat, [picture] * 3)
    shown = sheet_of(flat, rows=1).shown[0]
    x, y = shown.landmarks[2].round().astype(int)
    assert shown.cutout[y, x].min() > 200
    bright = np.argwhere(shown.cutout.min(axis=2) > 180)
    assert bright.mean(axis=0) == pytest.approx([y, x], abs=2.5)
    corners = shown.outlines["nose"]
    assert corners.mean(axis=0) == pytest.approx([x, y], abs=2.5)
    assert shown.box[0] < x < shown.box[2]


def test_beyond_the_frame_there_is_grey(video):
    features = features_of(1)
    features.boxes[:] = [-20, -20, 30, 30]
    sheet = contact_sheet(video, features, explained(1), SETTINGS)
    assert (sheet.shown[0].cutout[:20, :20] == 128).all()
    assert (sheet.shown[0].cutout[-20:, -20:] != 128).any()


def test_spectra_are_stretched_as_for_the_networks(video):
    low, high = dict.fromkeys(REGIONS, 100.0), dict.fromkeys(REGIONS, 200.0)
    settings = Settings(sampling=Sampling(every=2), stretch=Stretch(low, high))
    dark = sheet_of(video, rows=1, settings=settings).shown[0].spectra["face"]
    assert dark.max() == 0.0
    assert 0.2 < sheet_of(video, rows=1).shown[0].spectra["face"].mean() < 0.8


def test_the_video_is_read_no_further_than_needed(video, monkeypatch):
    read = []

    def counted(*arguments, **options):
        for frame in frames_of(*arguments, **options):
            read.append(frame.index)
            yield frame

    monkeypatch.setattr("lpfuse_faces.contact_sheet._contents.frames_of", counted)
    sheet_of(video, rows=2)
    assert read == [0, 2]
    read.clear()
    assert sheet_of(video, rows=0).shown == ()
    assert read == []


def test_the_heaviest_learners_and_the_sum_of_the_others(video):
    sheet = sheet_of(video, rows=1, learners=36)
    parts = sheet.explained.learners
    told = sheet.learners
    assert len(told) == 13
    assert list(told)[-1] == "24 others, summed"
    assert sum(told.values()) == pytest.approx(sum(parts.values()))
    named = list(told.values())[:-1]
    assert named == sorted(named)
    assert min(map(abs, named)) >= max(abs(parts[name]) for name in set(parts) - set(told))
    assert sum(sheet.sets.values()) == pytest.approx(sum(parts.values()))
    assert bar_labels({"a": 1.0, "b": -1e-9}) == ["1", "≈ 0"]


# ----------------------------------------------------------------------------------------- picture


def texts(drawn):
    from matplotlib.text import Text

    return [text.get_text() for text in drawn.findobj(Text) if text.get_text()]


def test_the_picture_has_all_parts(video):
    drawn = figure(sheet_of(video, learners=36))
    said = texts(drawn)
    for name in ("face", "mouth", "nose", "seconds", "24 others, summed", "clip.mp4"):
        assert name in said
    for start in ("strangest\n", "most ordinary\n", "threshold ", "video "):
        assert any(text.startswith(start) for text in said)
    pictures = sum(len(axes.images) for part in drawn.subfigs for axes in part.axes)
    assert pictures == 6 * (1 + 2 * 3)


@pytest.mark.parametrize(
    ("options", "headline"),
    [
        ({"rows": 0}, "No face found"),
        ({"rows": 1, "threshold": 99.0}, "Forged"),
        ({"rows": 2, "threshold": -np.inf}, "Undecided"),
        ({"rows": 3, "threshold": -99.0, "additive": False}, "Genuine, as far as"),
        ({"rows": 2, "name": NASTY, "warnings": ("darknet is random",)}, None),
    ],
)
@pytest.mark.parametrize("suffix", [pytest.param("png", marks=pytest.mark.slow), "html"])
def test_every_kind_of_video_has_a_sheet(video, tmp_path, options, headline, suffix):
    sheet = sheet_of(video, **options)
    path = tmp_path / f"sheet.{suffix}"
    write_sheet(sheet, path)
    assert path.stat().st_size > 1000
    if suffix == "html":
        said = Elements(path.read_text(encoding="utf-8")).text
    else:
        said = "\n".join(texts(figure(sheet)))
    assert headline is None or headline in said
    assert ("Beware: darknet is random." in said) == ("warnings" in options)
    assert ("threshold" in said) == (options.get("rows") != 0)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_sheet_is_a_picture(video, tmp_path):
    sheet = sheet_of(video, rows=1, threshold=99.0, warnings=("darknet is random",))
    write_sheet(sheet, tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")
    assert {"Forged", " Beware: darknet is random. "} <= set(texts(figure(sheet)))


@pytest.mark.slow
def test_nothing_reaches_beyond_the_picture(video):
    """Texts of a sheet with long names stay inside."""
    drawn = figure(sheet_of(video, name=NASTY.replace("日本語", ""), learners=36))
    drawn.canvas.draw()
    width = drawn.bbox.width
    from matplotlib.text import Text

    for text in drawn.findobj(Text):
        if text.get_text() and text.get_visible():
            extent = text.get_window_extent()
            assert extent.x0 >= -1, text
            assert extent.x1 <= width + 1, text


def test_other_suffixes_are_refused(video, tmp_path):
    with pytest.raises(ValueError, match=r"written as \.png or \.html"):
        write_sheet(sheet_of(video, rows=0), tmp_path / "sheet.pdf")
    assert list(tmp_path.iterdir()) == []


# -------------------------------------------------------------------------------------------- page


class Elements(HTMLParser):
    """The elements of a page, and whether they nest."""

    VOID = {"meta", "img", "image", "rect", "circle", "polygon", "path", "polyline"}

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += data


def test_the_page_is_whole_and_needs_no_other_file(video):
    page = Elements(html(sheet_of(video, learners=36)))
    assert page.open == []
    images = [attributes for tag, attributes in page.found if tag in ("img", "image")]
    assert len(images) == 6 * 7
    for attributes in images:
        assert (attributes.get("src") or attributes["href"]).startswith("data:image/jpeg;base64,")
    for tag, attributes in page.found:
        assert tag not in ("script", "link", "iframe")
        if tag == "img":
            assert re.match(
                r"(Spectrum of the )?(face|mouth|nose) at \d\.\d\d s", attributes["alt"]
            )
        if tag == "svg":
            assert "aria-label" in attributes or attributes.get("aria-hidden") == "true"
    for shown in ("24 others, summed", "strangest", "most ordinary"):
        assert shown in page.text


def test_names_are_text_and_nothing_else(video):
    page = Elements(html(sheet_of(video, rows=1, name=NASTY)))
    assert "script" not in [tag for tag, _ in page.found]
    assert NASTY in page.text


BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.mark.slow
def test_in_a_browser(video, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser is installed: none of {', '.join(BROWSERS)}")
    write_sheet(sheet_of(video, learners=36, name=NASTY), tmp_path / "sheet.html")
    place = (tmp_path / "sheet.html").as_uri()
    complaints, asked = [], []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for width in (360, 1280):
            page = browser.new_page(viewport={"width": width, "height": 800})
            page.on("console", lambda message: complaints.append(message.text))
            page.on("request", lambda request: asked.append(request.url))
            page.goto(place)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            loaded = "[...document.images].every(image => image.naturalWidth > 0)"
            assert page.evaluate(loaded)
            assert page.evaluate("getComputedStyle(document.querySelector('h1')).color") != ""
        browser.close()
    assert complaints == []
    assert {url for url in asked if not url.startswith("data:")} == {place}
