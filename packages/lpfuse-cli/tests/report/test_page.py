import hashlib
import json
import re
import sys
from base64 import b64encode
from copy import deepcopy
from html.parser import HTMLParser

import pytest

from helpers.pools import Distance, Lowest, both
from helpers.reports import NASTY, fitted
from lpfuse import FixedRule
from lpfuse_cli.report import summarise, write_report
from lpfuse_cli.report.charts import strange
from lpfuse_cli.report.page import html


class Outline(HTMLParser):
    """Elements with their attributes, and the text in each kind of them."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.texts, self.open = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def tags(self):
        return [tag for tag, _ in self.elements]

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self, tag):
        return "".join(text for name, text in self.texts if name == tag)


@pytest.fixture(scope="module")
def page(summary):
    return html(summary)


@pytest.fixture(scope="module")
def outline(page):
    return Outline(page)


def embedded(page):
    (text,) = re.findall(r'<script type="application/json" id="summary">(.*?)</script>', page, re.S)
    return json.loads(text)


# -------------------------------------------------------------------------------- self-contained


def test_nothing_is_fetched_from_anywhere(page, outline):
    assert not re.search(r"https?:|//[a-z]|@import|url\(", page.replace("</", ""))
    for tag in ("img", "link", "iframe", "object", "embed", "base", "form", "audio", "video"):
        assert outline.all(tag) == []
    for _, attributes in outline.elements:
        assert not {"src", "srcset", "action", "style"} & attributes.keys()
        assert not any(name.startswith("on") for name in attributes)
        assert attributes.get("href", "#").startswith("#")


def test_the_policy_allows_this_style_and_script_and_nothing_else(page, outline):
    (policy,) = (
        meta["content"]
        for meta in outline.all("meta")
        if meta.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for kind, tag in (("style-src", "style"), ("script-src", "script")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[kind] == f"'sha256-{digest}'"
    assert "unsafe" not in policy


def test_the_page_carries_the_summary(page, summary):
    assert embedded(page) == summary


def test_the_page_is_small():
    parts = [slice(a, b) for b in range(1, 5) for a in range(b)][1:]
    wide = [(f"detector {j}", Distance(columns)) for j, columns in enumerate(parts)]
    fused = fitted(*both(n=300, anomalies=100), wide)
    page = html(summarise(fused, *both(n=3000, anomalies=1000, seed=5)))
    assert 50_000 < len(page.encode()) < 700_000


# --------------------------------------------------------------------------------------- escaping


def test_hostile_strings_stay_strings(hostile):
    page = html(hostile)
    outline = Outline(page)
    assert "<img" not in page
    assert "img" not in outline.tags()
    assert page.count("</script>") == 2
    assert embedded(page) == hostile
    harmless = json.loads(json.dumps(hostile).replace(json.dumps(NASTY)[1:-1], "name"))
    assert Outline(html(harmless)).tags() == outline.tags()
    for place in ("bdi", "li", "dt", "title", "option", "code"):
        assert NASTY in outline.text(place), place


def test_the_script_reads_ascii_only(hostile):
    page = html(hostile)
    start = page.index('id="summary"')
    assert page[start : page.index("</script>", start)].isascii()


def test_what_is_no_text_can_be_written(summary, tmp_path):
    broken = json.loads(json.dumps(summary))
    broken["detectors"][0]["name"] = "half \ud83d"
    write_report(broken, tmp_path / "report.html")
    assert "half \\ud83d" in (tmp_path / "report.html").read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------ for everyone


def test_what_a_screen_reader_needs(outline):
    assert outline.all("html")[0]["lang"] == "en-GB"
    assert len(outline.all("h1")) == len(outline.all("main")) == 1
    (slider,) = (each for each in outline.all("input"))
    assert slider["type"] == "range"
    assert slider["aria-valuetext"] == "p = 4"
    assert slider["id"] in [label["for"] for label in outline.all("label")]
    for svg in outline.all("svg"):
        assert svg.get("aria-hidden") == "true" or (svg["role"] == "img" and svg["aria-label"])
    names = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(names) == len(set(names))
    for section in outline.all("section"):
        assert section["aria-labelledby"] in names
    for region in (each for each in outline.all("div") if each.get("role") == "region"):
        assert region["tabindex"] == "0"
        assert region["aria-label"]


def test_every_chart_has_its_values_as_a_table(page, outline):
    summaries = outline.text("summary")
    for told in ("ROC", "Precision", "Weights, AUC and gap", "Counts", "Rates", "Contributions"):
        assert f"{told} " in summaries or told in summaries
    assert page.count("<details>") == 6
    assert page.count("</details>") == 7  # the certificate is one as well
    assert len(re.findall(r"<details>.*?<table class=\"values\">", page, re.S)) == 6


def test_the_figures_are_there_without_the_script(summary, outline):
    assert outline.text("h1") == summary["headline"][0]
    cells = outline.text("td")
    for detector in summary["detectors"]:
        assert f"{detector['auc']:.3f}" in cells
    drawn = [each["points"] for each in outline.all("polyline") if "fusion" in each["class"]]
    x, y = summary["fusion"]["roc"]
    assert any(
        [float(v) for pair in points.split() for v in pair.split(",")]
        == pytest.approx([v for a, b in zip(x, y, strict=True) for v in (100 * a, 100 - 100 * b)])
        for points in drawn
    )


def test_bands_of_weights_fill_the_strip(outline):
    bands = [each["points"] for each in outline.all("polygon")]
    tops = [float(points.split()[0].split(",")[1]) for points in bands]
    assert tops[-1] == pytest.approx(0, abs=1e-3)
    assert tops == sorted(tops, reverse=True)


def test_the_same_summary_gives_the_same_page(page, summary):
    assert html(summary) == page


def test_static_figures_use_the_colours_of_the_page(page, outline, summary):
    labels = {each["id"]: each["aria-label"] for each in outline.all("svg") if "id" in each}
    assert "the threshold is at" in labels["histogram"]
    assert "5.0 % asked" in labels["calibration"]
    drawn = {name: page[page.index(f'<svg id="{name}"') :] for name in ("histogram", "calibration")}
    drawn = {name: text[: text.index("</svg>")] for name, text in drawn.items()}
    for property in ("--normal", "--odd", "--ink"):
        assert f"var({property}, #" in drawn["histogram"]
    assert drawn["calibration"].count("var(--accent, #") >= 1
    assert drawn["calibration"].count("<use") >= len(summary["calibration"])


# ----------------------------------------------------------------------------------- all situations


@pytest.mark.filterwarnings("ignore:.*cannot hold false alarms")
@pytest.mark.parametrize(
    "options",
    [{"fusion": FixedRule("sum")}, {"fusion": Lowest()}, {"false_alarm_rate": 0.001}],
    ids=["no path", "no weights", "no threshold"],
)
def test_a_page_for_every_fusion(rows, fresh, options):
    fused = fitted(*rows, **options)
    for found in (summarise(fused), summarise(fused, *fresh), summarise(fused, fresh[0])):
        outline = Outline(html(found))
        assert bool(outline.all("input")) == bool(found["path"])
        assert outline.text("h1") == found["headline"][0]


def test_without_anomalies_there_is_a_slider_and_no_curve(pure):
    outline = Outline(html(summarise(pure)))
    assert len(outline.all("input")) == 1
    assert "roc" not in [each.get("id") for each in outline.all("svg")]
    assert "None of these rows is labelled an anomaly" in outline.text("li")


def test_one_detector_alone(rows):
    outline = Outline(html(summarise(fitted(*rows, [("only", Distance())]))))
    assert "Do the detectors agree?" not in outline.text("h2")


# ----------------------------------------------------------------------------------------- writing


def test_the_file_appears_whole_or_not_at_all(summary, tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    target.write_text("the old one")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_report(summary, target)
    assert target.read_text() == "the old one"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_a_summary_that_cannot_be_drawn_leaves_the_old_file(tmp_path):
    target = tmp_path / "report.html"
    target.write_text("the old one")
    with pytest.raises(KeyError):
        write_report({}, target)
    assert target.read_text() == "the old one"


def test_without_jinja_the_extra_is_named(summary, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r'pip install "lpfuse\[cli\]"'):
        write_report(summary, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_the_extra_is_named(summary, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r'needs matplotlib.* pip install "lpfuse\[cli\]"'):
        write_report(summary, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_very_long_bars_are_shrunk_and_marked(summary):
    found = deepcopy(summary)
    rows = found["strangest"]
    for row in rows:
        row["contributions"] = [-1.0, 0.5, *[0.0] * (len(row["contributions"]) - 2)]
    rows[0]["contributions"] = [1000 * part for part in rows[0]["contributions"]]
    drawn = strange(found)
    first, *others = drawn["rows"]
    assert (first["shrunk"], {row["shrunk"] for row in others}) == ("125.0", {None})
    widths = [[float(bar["width"]) for bar in row["bars"]] for row in drawn["rows"]]
    assert widths[0] == pytest.approx([8 * width for width in widths[1]], abs=1e-3)
    assert [part["value"] for part in first["main"]] == [-1000.0, 500.0]  # the words are not shrunk
    assert html(found).count("times too small") == 1
    assert "times too small" not in html(summary)
