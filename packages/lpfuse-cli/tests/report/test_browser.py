"""The page in a real browser: Debian's Chromium, driven by Playwright."""

import json
import re
from contextlib import contextmanager
from copy import deepcopy

import numpy as np
import pytest

from helpers.reports import NASTY
from lpfuse._format import readable
from lpfuse_cli.report import summarise, write_report

pytestmark = pytest.mark.slow  # starts a browser

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


NUMBERS = [
    sign * value
    for value in (
        *(0.0, 4e-10, 5e-7, 0.125, 2.125, 2.375, 24.85, 1234.5, 1235.5, 999.5, 999.4999, 99.95),
        *(9.995, 0.0009995, 1e6, 1234567.5, 123456789.0, 9.99e14, 0.1, 1.0, 10.0, 100.0, 1000.0),
        *np.round(10 ** np.random.default_rng(0).uniform(-7, 12, 100), 6).tolist(),
    )
    for sign in (1, -1)
]


def with_numbers(many):
    """A list of alarms whose scores are these."""
    found = deepcopy(many)
    rows = found["alarm_list"]["rows"][: len(NUMBERS)]
    for row, value in zip(rows, NUMBERS, strict=True):
        row[2:4] = value, 0.00372
    found["alarm_list"]["rows"] = rows
    return found


@pytest.fixture(scope="module")
def many(pure):
    """More alarms than a page lists, with ids, in an order of their own, and a text in many."""
    rng = np.random.default_rng(0)
    n = 20_000
    ids = [f"P-{i}" for i in rng.permutation(n)]
    notes = [None if i % 3 else f"note {i % 7}" for i in range(n)]
    X = 8.0 + rng.exponential(size=(n, 4)) ** 4  # scores from small to beyond a million
    found = summarise(pure, X, keep={"id": ids, "note": notes}, files={"data": "many.csv"})
    found["alarm_list"]["command"] = "lpfuse score model.lpfuse many.csv -o scores.csv"
    return found


@pytest.fixture(scope="module")
def written(summary, hostile, pure, many, fresh, labelled, tmp_path_factory):
    """Pages by name."""
    folder = tmp_path_factory.mktemp("pages")
    none, one = np.zeros((20, 4)), np.zeros((20, 4))
    one[7] = 50.0
    summaries = {
        "plain": summary,
        "hostile": hostile,
        "pure": summarise(pure),
        "many": many,
        "numbers": with_numbers(many),
        "none": summarise(pure, none),
        "one": summarise(pure, one),
        "given": summarise(labelled, *fresh),
    }
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
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.tagName + document.activeElement.id"))
        assert {"A", "INPUTp", "BUTTON", "SUMMARY", "DIV", "SELECTalarms-by"} <= reached


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
        assert page.locator("#alarms-by").is_hidden()
        assert page.locator("#alarms tbody tr").count() == min(25, summary["overview"]["alarms"])
        assert page.text_content("#auc-fusion") == f"{summary['fusion']['auc']:.3f}"
        page.locator("summary").first.click()
        assert page.locator("details[open] table").first.is_visible()


# ------------------------------------------------------------------------------------ the alarms


def listed(page, column=0):
    """A column of the alarms that are shown."""
    cells = page.locator(f"#alarms tbody tr > :nth-child({column + 1})")
    return cells.all_text_contents()


def test_alarms_can_be_paged_through_from_end_to_end(visit, many):
    rows = [str(row[0]) for row in many["alarm_list"]["rows"]]
    assert len(rows) == 5_000
    with visit("many") as page:
        assert "The strongest 5,000 of 20,000 alarms" in page.text_content("main")
        assert many["alarm_list"]["command"] in page.text_content("main")
        assert listed(page) == rows[:25]
        assert page.locator("#alarms-before").is_disabled()
        page.locator("#alarms-after").focus()
        page.keyboard.press("Enter")
        assert listed(page) == rows[25:50]
        assert page.text_content("#alarms-now") == "26 to 50 of 5,000"
        page.locator("#alarms-last").click()
        assert listed(page) == rows[-25:]
        assert page.locator("#alarms-after").is_disabled()
        page.locator("#alarms-before").click()
        assert listed(page) == rows[-50:-25]
        page.locator("#alarms-first").click()
        assert listed(page) == rows[:25]


def test_alarms_can_be_sorted_by_each_column(visit, many):
    rows = many["alarm_list"]["rows"]
    by_id = sorted(rows, key=lambda row: int(row[5][2:]))
    by_note = sorted(rows, key=lambda row: (row[6] is None, row[6] or ""))
    by_row = sorted(rows, key=lambda row: row[0])
    with visit("many") as page:
        page.locator("#alarms thead button", has_text="id").click()
        assert listed(page, 1) == [row[5] for row in by_id[:25]]
        assert page.locator("#alarms th[aria-sort=ascending]").text_content() == "id"
        page.locator("#alarms thead button", has_text="id").click()
        assert listed(page, 1) == [row[5] for row in by_id[::-1][:25]]
        assert page.locator("#alarms th[aria-sort=descending]").count() == 1
        page.locator("#alarms-by").select_option("6")
        assert listed(page) == [str(row[0]) for row in by_note[:25]]
        page.locator("#alarms-turn").click()
        assert listed(page, 2)[0] == "note 6"
        page.locator("#alarms-last").click()
        assert set(listed(page, 2)) == {"–"}  # missing comes last, whichever way
        page.locator("#alarms-by").select_option("0")
        assert listed(page) == [str(row[0]) for row in by_row[:25]]
        page.locator("#alarms-by").select_option("-1")
        assert listed(page) == [str(row[0]) for row in rows[:25]]
        assert page.locator("#alarms th[aria-sort]").count() == 0


def test_numbers_of_the_script_are_those_of_python(visit):
    """Ties, ends of decades, tiny and huge numbers, in the place of scores."""
    with visit("numbers") as page:
        for at in range(0, len(NUMBERS), 25):
            assert listed(page, 4) == [readable(value) for value in NUMBERS[at : at + 25]]
            assert listed(page, 5) == [readable(0.00372)] * len(NUMBERS[at : at + 25])
            if at + 25 < len(NUMBERS):
                page.locator("#alarms-after").click()


def test_on_a_phone_alarms_are_cards_that_name_their_columns(visit, many):
    with visit("many", viewport=PHONE, has_touch=True, is_mobile=True) as page:
        assert page.locator("#alarms tbody tr").count() == 10
        names = page.locator("#alarms tbody tr").first.locator("th, td")
        told = names.evaluate_all("all => all.map((e) => getComputedStyle(e, '::before').content)")
        assert told[:3] == ['"row"', '"id"', '"note"']
        page.locator("#alarms-by").select_option("5")
        assert page.locator("#alarms tbody tr").count() == 10


def test_no_alarm_and_one(visit):
    with visit("none") as page:
        assert page.locator("h1").text_content() == "No alarms among 20 rows."
        assert page.locator("#alarms").count() == 0
        assert "No row lies below the threshold." in page.text_content("main")
    with visit("one") as page:
        assert listed(page) == ["7"]
        assert page.text_content("#alarms-now") == "1 to 1 of 1"
        assert page.locator("#alarms-after").is_disabled()


def test_powers_of_ten_stay_in_the_details(visit):
    for name in ("plain", "many", "given"):
        with visit(name) as page:
            # Values of a user's columns may be of any size; what is closed is not part of the text.
            page.evaluate("document.querySelectorAll('.features').forEach((e) => e.remove())")
            told = page.locator("body").inner_text()
            assert not re.search(r"\d[eE][+\-−]?\d", told), name
            page.locator(".proof summary").click()
            assert "relative gap" in page.locator(".proof").inner_text()


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
        for selector in (".fine", "summary", "thead th", ".mark", ".lead", "#alarms td"):
            assert contrast(page, selector) > 4.5, selector
        assert contrast(page, ".tag.odd") > 3
        assert contrast(page, ".tiles dt", ".tiles div") > 4.5
        assert contrast(page, ".tools select", ".tools select") > 4.5
        assert contrast(page, "#alarms-last", "#alarms-last") > 4.5


@pytest.mark.parametrize("name", ["plain", "hostile", "pure", "many", "none", "one", "given"])
def test_nothing_scrolls_sideways(visit, name):
    with visit(name) as page:
        page.evaluate("document.querySelectorAll('details').forEach((each) => each.open = true)")
        for width in (320, 360, 640, 1000, 1280):
            page.set_viewport_size({"width": width, "height": 740})
            assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", ["hostile", "many", "given"])
def test_numbers_of_rows_and_labels_stay_on_one_line(visit, name):
    with visit(name) as page:
        for width in (660, 800, 1280):
            page.set_viewport_size({"width": width, "height": 740})
            cells = page.locator('#alarms tbody :is(th, td[data-name="known as"]) bdi')
            lines = cells.evaluate_all("all => all.map((e) => e.getClientRects().length)")
            assert {*lines} == {1}


@pytest.mark.parametrize("name", ["hostile", "many", "one", "given"])
def test_tables_of_alarms_are_not_clipped_on_a_phone(visit, name):
    with visit(name, viewport=PHONE, has_touch=True, is_mobile=True) as page:
        for table in page.locator(".cards").all():
            box = table.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= PHONE["width"]
        cells = page.locator(".cards tbody :is(th, td)")
        over = cells.evaluate_all("all => all.filter((e) => e.scrollWidth > e.clientWidth).length")
        assert cells.count() > 0
        assert over == 0


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
