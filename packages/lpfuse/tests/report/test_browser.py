"""The page in a real browser: Debian's Chromium, driven by Playwright."""

import json
from contextlib import contextmanager

import pytest

from helpers.reports import NASTY
from lpfuse.report import summarise, write_report

pytestmark = pytest.mark.slow  # starts a browser

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def written(summary, hostile, pure, tmp_path_factory):
    """Pages by name."""
    folder = tmp_path_factory.mktemp("pages")
    summaries = {"plain": summary, "hostile": hostile, "pure": summarise(pure)}
    for name, found in summaries.items():
        write_report(found, folder / f"{name}.html")
    return {name: (folder / f"{name}.html").as_uri() for name in summaries}


@pytest.fixture
def visit(browser, written):
    """A page that is shown; whatever it asks for or complains about fails the test."""

    @contextmanager
    def open_page(name="plain", *, script=True, **options):
        settings = {"viewport": DESKTOP, "java_script_enabled": script} | options
        context = browser.new_context(**settings)
        page = context.new_page()
        asked, complaints = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append("dialog"), dialog.dismiss()))
        page.goto(written[name])
        yield page
        page.wait_for_timeout(50)
        context.close()
        assert asked == [written[name]]
        assert complaints == []

    return open_page


def shown(page):
    """What the page says at the present place of the slider."""
    return {
        "p": page.text_content("#p-now"),
        "auc": page.text_content("#auc-now"),
        "fusion": page.text_content("#auc-fusion"),
        "told": page.get_attribute("#p", "aria-valuetext"),
        "roc": page.get_attribute("#roc-fusion", "points"),
        "pr": page.get_attribute("#pr-fusion", "points"),
        "shares": {
            int(row.get_attribute("data-j")): (
                row.locator(".pct").text_content(),
                float(row.locator("rect").get_attribute("width").rstrip("%")),
            )
            for row in page.locator("#weights tr[data-j]").all()
        },
    }


def check(found, entry):
    """The page shows an entry of the path."""
    assert found["p"] == entry["label"]
    assert found["auc"] == found["fusion"] == f"{entry['auc']:.3f}"
    assert found["told"] == f"p = {entry['label']}, AUC {entry['auc']:.3f}"
    for j, share in enumerate(entry["shares"]):
        text, width = found["shares"][j]
        assert text == f"{100 * share:.1f} %".replace("-0.0", "0.0")
        assert width == pytest.approx(100 * abs(share), abs=1e-3)
    for name in ("roc", "pr"):
        drawn = [tuple(map(float, point.split(","))) for point in found[name].split()]
        expected = [(100 * x, 100 - 100 * y) for x, y in zip(*entry[name], strict=True)]
        assert [v for at in drawn for v in at] == pytest.approx([v for at in expected for v in at])


# ------------------------------------------------------------------------------------- the slider


def test_the_slider_moves_weights_curves_and_figures_together(visit, summary):
    with visit() as page:
        chosen = next(k for k, entry in enumerate(summary["path"]) if entry["chosen"])
        assert page.input_value("#p") == str(chosen)
        check(shown(page), summary["path"][chosen])
        drawn = set()
        for k, entry in enumerate(summary["path"]):
            page.locator("#p").fill(str(k))
            found = shown(page)
            check(found, entry)
            drawn.add(found["roc"])
            assert page.get_attribute("#auc-dot", "d").startswith("M")
        assert len(drawn) > 1


def test_the_slider_answers_the_keyboard(visit, summary):
    path = summary["path"]
    with visit() as page:
        page.locator("#p").focus()
        page.keyboard.press("Home")
        check(shown(page), path[0])
        page.keyboard.press("ArrowRight")
        check(shown(page), path[1])
        page.keyboard.press("End")
        check(shown(page), path[-1])
        assert page.get_attribute("#p", "aria-valuetext").startswith("p = ∞")
        assert page.locator("#reset").is_visible()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "reset"
        page.keyboard.press("Enter")
        check(shown(page), next(entry for entry in path if entry["chosen"]))
        assert page.locator("#reset").is_hidden()
        assert page.evaluate("document.activeElement.id") == "p"


def test_everything_can_be_reached_by_keyboard(visit):
    with visit() as page:
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.tagName + document.activeElement.id"))
        assert {"A", "INPUTp", "BUTTON", "SUMMARY", "DIV"} <= reached


def test_a_detector_that_is_chosen_stands_out(visit):
    with visit() as page:
        button = page.locator("#weights tr[data-j='2'] button")
        button.focus()
        page.keyboard.press("Space")
        assert button.get_attribute("aria-pressed") == "true"
        lit = page.locator(".curve.lit")
        assert lit.count() == 2  # in both charts
        assert {each.get_attribute("data-j") for each in lit.all()} == {"2"}
        page.keyboard.press("Space")
        assert lit.count() == 0
        page.locator("#weights tr[data-j='1']").hover()
        assert lit.count() == 2


def test_a_strange_row_says_which_columns_made_it(visit, hostile):
    """Names of columns are texts, whatever they hold; nothing is cut off on a phone."""
    told = [reason for row in hostile["strangest"] for reason in row["reasons"]]
    assert told
    with visit("hostile", viewport=PHONE) as page:
        spans = page.locator(".strange .features > span").all()
        assert len(spans) == len(told)
        for span, reason in zip(spans, told, strict=True):
            text = " ".join(span.inner_text().split())
            assert " ".join(reason["name"].split()) in text
            assert text.endswith(f"{reason['held']} ({reason['usually']}): {reason['pushed']}")
            assert span.bounding_box()["x"] + span.bounding_box()["width"] <= PHONE["width"]


def test_without_anomalies_the_slider_moves_weights_alone(visit, pure):
    path = summarise(pure)["path"]
    with visit("pure") as page:
        page.locator("#p").fill("0")
        assert page.text_content("#p-now") == "1"
        assert page.get_attribute("#p", "aria-valuetext") == "p = 1"
        for j, share in enumerate(path[0]["shares"]):
            told = page.text_content(f"#weights tr[data-j='{j}'] .pct")
            assert told == f"{100 * share:.1f} %"
        assert page.locator("#roc").count() == 0


def test_without_scripts_the_figures_stay_readable(visit, summary):
    with visit(script=False) as page:
        assert page.locator("#p").is_hidden()
        assert page.locator("h1").text_content() == summary["headline"][0]
        assert page.text_content("#auc-fusion") == f"{summary['fusion']['auc']:.3f}"
        page.locator("summary").first.click()
        assert page.locator("details[open] table").first.is_visible()


# ----------------------------------------------------------------------------------------- safety


def test_hostile_names_do_nothing_and_are_shown_as_they_are(visit, hostile):
    with visit("hostile") as page:
        assert page.locator("img").count() == 0
        assert page.title().startswith("lpfuse report")
        names = [f"{NASTY}{j}" for j in range(4)]
        told = page.locator("#weights tr[data-j] bdi").all_text_contents()
        assert sorted(told) == names
        assert json.loads(page.text_content("#summary")) == hostile
        for k in range(len(hostile["path"])):
            page.locator("#p").fill(str(k))
        assert page.text_content("#p-now") == "∞"
        page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
        assert page.locator("img").count() == 0


def test_the_policy_forbids_other_scripts_and_hosts(browser, written):
    """What slipped in could neither run nor call out."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(written["plain"])
    page.evaluate(
        """() => {
            window.broken = [];
            document.addEventListener("securitypolicyviolation",
                                      (event) => window.broken.push(event.effectiveDirective));
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
            document.body.append(Object.assign(new Image(), {src: "https://example.org/x.png"}));
            document.body.insertAdjacentHTML("beforeend", "<p style='color:red'>x</p>");
            fetch("https://example.org/").catch(() => {});
        }"""
    )
    page.wait_for_function("window.broken.length >= 4")
    broken = set(page.evaluate("window.broken"))
    assert broken == {"script-src-elem", "img-src", "style-src-attr", "connect-src"}
    assert page.evaluate("window.ran") is None
    context.close()


# ------------------------------------------------------------------------------------------ looks


def luminance(colour):
    """Of a colour as CSS computes it, see WCAG 2.2."""
    parts = [float(v) / 255 for v in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(page, selector, background="body"):
    look = "e => getComputedStyle(e)."
    ink = luminance(page.locator(selector).first.evaluate(look + "color"))
    paper = luminance(page.locator(background).first.evaluate(look + "backgroundColor"))
    light, dark = max(ink, paper), min(ink, paper)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_are_readable(visit, scheme):
    with visit(color_scheme=scheme) as page:
        paper = page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
        assert (luminance(paper) < 0.1) == (scheme == "dark")
        assert contrast(page, "h1") > 7
        for selector in (".fine", "summary", "thead th", ".mark"):
            assert contrast(page, selector) > 4.5, selector
        assert contrast(page, ".tag.odd") > 3
        assert contrast(page, ".tiles dt", ".tiles div") > 4.5


@pytest.mark.parametrize("name", ["plain", "hostile", "pure"])
def test_nothing_scrolls_sideways(visit, name):
    with visit(name) as page:
        page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
        for width in (320, 360, 640, 1000, 1280):
            page.set_viewport_size({"width": width, "height": 740})
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_slider_stays_in_sight_on_a_phone(visit):
    with visit(viewport=PHONE, has_touch=True, is_mobile=True) as page:
        page.locator("#roc").scroll_into_view_if_needed()
        box = page.locator("#p").bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= PHONE["height"]


def test_it_prints_on_a_few_pages(visit):
    with visit() as page:
        page.emulate_media(media="print")
        assert page.locator("#p").is_hidden()
        assert page.locator("details").first.is_hidden()
        assert page.locator("#roc-fusion").is_visible()
        printed = page.pdf(format="A4")
        assert printed.startswith(b"%PDF")
        assert 2 <= printed.count(b"/Type /Page\n") <= 8
