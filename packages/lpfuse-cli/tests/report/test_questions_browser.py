"""The questions in a real browser: answer, undo, come back, export, teach."""

from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from helpers.pumps import DETECTORS, pumps, write
from helpers.reports import NASTY
from lpfuse import load
from lpfuse_cli.app import app
from lpfuse_cli.fitting import fit_table
from lpfuse_cli.report import ask, read_answers, write_questions

pytestmark = pytest.mark.slow  # starts a browser

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
REFUSE_STORAGE = """Object.defineProperty(window, "localStorage",
                    {get() { throw new DOMException("refused", "SecurityError"); }});"""

SPOIL = """(text) => localStorage.setItem(
           JSON.parse(document.getElementById("questions").textContent).key, text)"""


def lpfuse(*arguments):
    answer = CliRunner().invoke(app, [*map(str, arguments)])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def hostile_rows():
    """Every text and name is an attack, and every kind of cell occurs."""
    rng = np.random.default_rng(0)
    rows = {
        "answer": rng.normal(size=60), "row": np.where(rng.random(60) < 0.5, np.nan, 1e-7),
        NASTY: rng.choice([NASTY, '=cmd|"x"!A1', " two\r\nlines,", "NA", "", "'q'", "ünï"], 60),
        "long" * 40: ["w" * 300] * 60,
    }  # fmt: skip
    return pl.DataFrame(rows).with_columns(pl.col("row").fill_nan(None))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Pages by name, beside the models that they are of."""
    folder = tmp_path_factory.mktemp("pages")
    model = fit_table(pumps(), label="state", normal="ok", detectors=DETECTORS)
    model.save(folder / "plain.lpfuse")
    write(pumps(90, seed=5), folder / "plain.csv")
    data = folder / "plain.csv"
    lpfuse("ask", folder / "plain.lpfuse", data, "-o", folder / "plain.html")
    odd = fit_table(hostile_rows(), detectors=["gmm"])
    odd.save(folder / "hostile.lpfuse")
    write_questions(ask(odd, hostile_rows(), 12), folder / "hostile.html")
    return folder


@pytest.fixture
def visit(browser, written):
    """A page that is shown; whatever it asks for or complains about fails the test."""

    @contextmanager
    def open_page(name="plain", *, before="", **options):
        context = browser.new_context(**{"viewport": DESKTOP, "accept_downloads": True} | options)
        context.add_init_script(before)
        page = context.new_page()
        url = (written / f"{name}.html").as_uri()
        asked, complaints = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        yield page
        page.wait_for_timeout(50)
        context.close()
        assert {each for each in asked if not each.startswith("blob:")} == {url}
        assert complaints == []

    return open_page


def exported(page, path):
    with page.expect_download() as waiting:
        page.click("#export")
    assert waiting.value.suggested_filename == "answers.csv"
    waiting.value.save_as(path)
    return path


def heading(page):
    return page.locator(".question:visible h2, #done:visible h2").text_content()


def focused(page):
    return page.evaluate("document.activeElement.id")


# ------------------------------------------------------------------------------------ the whole way


def test_ten_rows_answered_by_keyboard_exported_and_taught(visit, written, tmp_path):
    with visit() as page:
        assert page.text_content("#count") == "0 of 10 answered"
        for k, key in enumerate("naddnannan"):
            assert heading(page).startswith(f"Question {k + 1} of 10: row ")
            page.keyboard.press(key)
            assert page.text_content("#count") == f"{k + 1} of 10 answered"
        assert heading(page) == "All 10 rows are answered"
        assert focused(page) == "h-done"
        answers = exported(page, tmp_path / "answers.csv")
        assert page.text_content("#told") == "10 answers exported to answers.csv."
    found = read_answers(answers)
    assert found.y.tolist() == [1, -1, 1, -1, 1, 1, -1, 1]
    assert found.undecided == 2
    told = lpfuse("teach", written / "plain.lpfuse", answers, "-o", tmp_path / "better.lpfuse")
    assert told.startswith("8 answers: 5 normal, 3 anomalies; left out as unknown: 2.")
    assert load(tmp_path / "better.lpfuse").audit_answers().summary() in told


def test_every_cell_comes_back_through_the_browser(visit, written, tmp_path):
    with visit("hostile") as page:
        for _ in range(12):
            page.keyboard.press("a")
        answers = exported(page, tmp_path / "answers.csv")
        assert page.locator("img").count() == 0
    found, model = read_answers(answers), load(written / "hostile.lpfuse")
    rows = pl.read_csv(answers, infer_schema_length=0)["row"].cast(int).to_list()
    asked = hostile_rows()[rows]
    assert found.rows.columns == asked.columns
    assert np.array_equal(
        model.preparation_.rows_of(found.rows), model.preparation_.rows_of(asked), equal_nan=True
    )
    assert found.rows[NASTY].to_list() == asked[NASTY].to_list()


# -------------------------------------------------------------------------------------- one by one


def test_buttons_answer_and_show_what_was_answered(visit):
    with visit() as page:
        page.click("[data-answer='1']")
        assert heading(page).startswith("Question 2")
        assert focused(page) == "h1"
        assert ": anomaly. 1 of 10 answered." in page.text_content("#told")
        page.click("#back")
        pressed = [each.get_attribute("aria-pressed") for each in page.locator(".choice").all()]
        assert pressed == ["false", "true", "false"]
        page.click("[data-answer='0']")  # a second thought
        assert page.text_content("#count") == "1 of 10 answered"


def test_arrows_go_back_and_forth_without_an_answer(visit):
    with visit() as page:
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert heading(page).startswith("Question 3")
        page.keyboard.press("ArrowLeft")
        assert heading(page).startswith("Question 2")
        for _ in range(20):
            page.keyboard.press("ArrowRight")
        assert heading(page).startswith("Question 10")  # the end comes when all are answered
        page.keyboard.press("n")
        assert heading(page).startswith("Question 1 ")  # the first that is open
        assert page.text_content("#count") == "1 of 10 answered"


def test_undo_takes_answers_back_one_by_one(visit):
    with visit() as page:
        assert page.locator("#undo").is_disabled()
        for key in "nad":
            page.keyboard.press(key)
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("n")  # instead of "don't know"
        page.keyboard.press("u")
        assert heading(page).startswith("Question 3")
        assert page.locator("[data-answer='2']").get_attribute("aria-pressed") == "true"
        assert page.text_content("#told").endswith("is don't know again.")
        for _ in range(5):
            page.keyboard.press("u")
        assert page.text_content("#count") == "0 of 10 answered"
        assert page.locator("#export").is_disabled()


def test_keys_can_be_switched_off_and_leave_shortcuts_alone(visit):
    with visit() as page:
        page.keyboard.press("Control+a")
        assert page.text_content("#count") == "0 of 10 answered"
        page.click("#keys")
        page.keyboard.press("n")
        assert page.text_content("#count") == "0 of 10 answered"


def test_everything_can_be_reached_by_tab(visit):
    with visit() as page:
        page.keyboard.press("n")
        reached = set()
        for _ in range(15):
            page.keyboard.press("Tab")
            reached.add(
                page.evaluate("document.activeElement.id || document.activeElement.className")
            )
        assert {"choice", "back", "next", "undo", "export", "keys"} <= reached


# --------------------------------------------------------------------------- what the browser keeps


def test_answers_are_there_after_a_reload(visit, tmp_path):
    with visit() as page:
        for key in "nad":
            page.keyboard.press(key)
        page.reload()
        assert page.text_content("#count") == "3 of 10 answered"
        assert heading(page).startswith("Question 4")
        assert page.locator("#unkept").is_hidden()
        assert read_answers(exported(page, tmp_path / "answers.csv")).y.tolist() == [1, -1]


def test_page_works_without_browser_storage(visit, tmp_path):
    with visit(before=REFUSE_STORAGE) as page:
        assert page.locator("#unkept").is_visible()
        page.keyboard.press("n")
        assert page.text_content("#count") == "1 of 10 answered"
        assert read_answers(exported(page, tmp_path / "answers.csv")).y.tolist() == [1]


def test_what_was_kept_and_is_nonsense_does_no_harm(visit, written):
    for nonsense in ("{", "null", "7", '["x", 1, {"a": 2}]'):
        with visit() as page:
            page.evaluate(SPOIL, nonsense)
            page.reload()
            assert page.text_content("#count") == "0 of 10 answered"
            page.keyboard.press("n")
            assert page.text_content("#count") == "1 of 10 answered"


def test_answers_can_be_copied_as_text(visit, tmp_path):
    with visit(permissions=["clipboard-read", "clipboard-write"]) as page:
        page.keyboard.press("n")
        page.keyboard.press("a")
        page.click("#text summary")
        shown = page.input_value("#csv")
        assert shown == exported(page, tmp_path / "answers.csv").read_text(encoding="utf-8")
        page.click("#copy")
        page.wait_for_function("document.getElementById('told').textContent.endsWith('copied.')")
        assert page.evaluate("navigator.clipboard.readText()") == shown


# ------------------------------------------------------------------------------------------ looks


@pytest.mark.parametrize("name", ["plain", "hostile"])
def test_nothing_scrolls_sideways(visit, name):
    with visit(name) as page:
        for _ in range(13):
            for width in (320, 360, 640, 1280):
                page.set_viewport_size({"width": width, "height": 740})
                assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.keyboard.press("n")


def test_the_answers_stay_in_sight_on_a_phone(visit):
    with visit("hostile", viewport=PHONE, has_touch=True, is_mobile=True) as page:
        for place in ("0", "document.body.scrollHeight / 2"):
            page.evaluate(f"window.scrollTo(0, {place})")
            box = page.locator("[data-answer='2']").bounding_box()
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= PHONE["height"]
            assert box["height"] >= 44  # a thumb


def test_without_scripts_the_rows_can_be_read(visit):
    with visit(java_script_enabled=False) as page:
        assert page.locator(".question").count() == page.locator(".question:visible").count() == 10
        assert page.locator("noscript").count() == 1
        assert page.locator("#answers").is_hidden()
