"""The site as readers get it: built, followed link by link, and used in a browser."""

import fcntl
import functools
import http.server
import importlib.util
import json
import re
import runpy
import shutil
import subprocess
import sys
import threading
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from packaging.requirements import Requirement

from tools.site_steps import check_list

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs" / "site"
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("*.py"))
NEEDED = (
    "sphinx",
    "furo",
    "myst_parser",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery",
    "hatchling",
)
# Stands in for Python for browsers, whose compiled libraries CI cannot reach: it tells what it got.
STAND_IN = """
export async function loadPyodide() {
  const got = { packages: [], wheels: [], code: [] };
  window.got = got;
  return {
    loadPackage: async (names) => { got.packages.push(...names); },
    unpackArchive: (buffer, kind) => {
      got.wheels.push([kind, String.fromCharCode(...new Uint8Array(buffer.slice(0, 2)))]);
    },
    setStdout: ({ batched }) => { got.write = batched; },
    setStderr: () => {},
    toPy: (value) => value,
    runPythonAsync: async (code, options) => {
      got.code.push(code);
      if (options) {
        if (code.includes("1/0")) throw new Error("Traceback\\nZeroDivisionError: by zero");
        got.write("printed");
      }
      return { toJs: () => ["iVBORw0KGgo="] };
    },
  };
}
"""


class Page(HTMLParser):
    """What a page links to, what it loads, what it can be linked by, and its pictures."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loads, self.ids, self.pictures = [], [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in ("script", "img", "iframe", "source") and found.get("src"):
            self.loads.append(found["src"])
        if tag == "link" and "stylesheet" in found.get("rel", ""):
            self.loads.append(found["href"])
        if tag == "img":
            self.pictures.append((found.get("src", ""), found.get("alt")))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A copy of what `make docs` builds: others may build at the same time, one after the other."""
    for name in NEEDED:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} of docs/requirements.txt is not installed")
    (ROOT / "build").mkdir(exist_ok=True)
    with (ROOT / "build" / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = [sys.executable, "-m", "tools.step", "docs"]
        done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        copy = tmp_path_factory.mktemp("built") / "site"
        shutil.copytree(ROOT / "build" / "site", copy)
    return copy


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


@pytest.mark.slow
def test_the_site_is_complete(site):
    for name in ("index.html", "llms.txt", "searchindex.js", "paper.html", "tutorial.html"):
        assert (site / name).is_file()
    assert len(list((site / "gallery").glob("plot_*.html"))) == len(EXAMPLES)
    assert len(list(site.rglob("plot_*.ipynb"))) == len(EXAMPLES)
    assert "text/plain" not in (site / "paper.html").read_text()


@pytest.mark.slow
def test_links_of_the_site_lead_to_pages_and_places(site, pages):
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            file = file / "index.html" if file.is_dir() else file
            known = pages.get(file)
            if not file.exists() or (
                parts.fragment and known and unquote(parts.fragment) not in known.ids
            ):
                wrong.append(f"{path.relative_to(site)}: {link}")
    assert not wrong


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere_and_pictures_have_words(site, pages):
    for path, page in pages.items():
        for source in page.loads:
            assert source.startswith("data:") or not urlsplit(source).netloc, (path.name, source)
        for source, words in page.pictures:
            assert words is not None, (path.name, source)
            # Beside a thumbnail is its title, which a reader would hear twice.
            assert words.strip() or "_thumb" in source, (path.name, source)
            assert not re.match(r"plot \d\d ", words), f"{source}: a figure without a title"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:|@import", style.read_text()), style.name


# ------------------------------------------------------------------------------------ in a browser


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or pytest.skip("no chromium")
    with playwright.sync_playwright() as running:
        options = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        opened = running.chromium.launch(executable_path=program, args=options)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def address(site):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


FOCUSED = """() => {
  const e = document.activeElement, style = getComputedStyle(e);
  const outline = [parseFloat(style.outlineWidth), style.outlineStyle];
  return [e.className, e.getAttribute("href") ?? "", ...outline];
}"""


@pytest.mark.slow
def test_the_keyboard_reaches_everything_and_shows_where_it_is(browser, address):
    page = browser.new_page(viewport={"width": 1200, "height": 900}, reduced_motion="reduce")
    page.goto(f"{address}/index.html")
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUSED))
    kinds = [each[0] for each in reached]
    assert "skip-to-content" in kinds[0]
    assert "sidebar-search" in kinds[:5]
    targets = [each[1] for each in reached]
    assert targets.index("tutorial.html") < targets.index("benchmarks.html")
    unseen = [each for each in reached if each[0] and (each[2] < 2 or each[3] == "none")]
    assert not unseen
    page.goto(f"{address}/index.html")
    page.keyboard.press("Tab")
    page.wait_for_function(
        "document.querySelector('.skip-to-content').getBoundingClientRect().top >= 0"
    )
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.content, [role=main]') !== null")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("false alarms", "false-alarms"),
        ("drift", "streams"),
        ("SVDD", "reference/names/lpfuse.SVDD"),
    ],
)
def test_search_finds_the_page_for_it(browser, address, words, first):
    page = browser.new_page()
    page.goto(f"{address}/search.html?q={words}")
    page.wait_for_selector("#search-results li a")
    page.wait_for_function("document.querySelectorAll('#search-results li').length > 3")
    target = page.locator("#search-results li a").first.get_attribute("href")
    assert target.partition(".html")[0] == first


@pytest.mark.slow
def test_no_page_is_wider_than_a_phone(browser, address, site, pages):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    wide = []
    for path in pages:
        if "names" not in path.parts or path.name.startswith("lpfuse.FusedDetector"):
            page.goto(f"{address}/{path.relative_to(site).as_posix()}")
            if page.evaluate("document.documentElement.scrollWidth") > 390:
                wide.append(path.name)
    assert not wide


@pytest.mark.slow
def test_an_example_runs_on_a_click_and_fetches_nothing_before(browser, address):
    """With a stand-in for Pyodide: what it is asked for, what it is given, what the page shows."""
    settings = runpy.run_path(str(SITE / "browser.py"))
    for name in settings["EXAMPLES"]:
        page, asked = browser.new_page(), []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.route(
            f"{settings['HOST']}**",
            lambda route: route.fulfill(
                body=STAND_IN,
                content_type="text/javascript",
                headers={"Access-Control-Allow-Origin": "*"},
            ),
        )
        page.goto(f"{address}/gallery/{name}.html")
        page.wait_for_selector(".run-here button")
        assert urlsplit(settings["HOST"]).netloc in page.inner_text(".run-here")
        assert all(each.startswith(address) for each in asked)
        run_and_wait(page)
        elsewhere = [each for each in asked if not each.startswith(("data:", address))]
        assert elsewhere == [f"{settings['HOST']}pyodide.mjs"]
        got = page.evaluate("window.got")
        assert got["packages"] == list(settings["LOADED"])
        assert got["wheels"] == [["wheel", "PK"]] * 2
        example = (ROOT / "examples" / "gallery" / f"{name}.py").read_text()
        assert code_lines(got["code"][1]) == code_lines(example.partition('"""\n\n')[2])
        assert page.inner_text(".run-here pre") == "printed\n"
        assert page.locator(".run-here img").count() == 1
        page.fill(".run-here textarea", "1/0")
        run_and_wait(page)
        assert "ZeroDivisionError" in page.inner_text(".run-here [role=status]")
        page.close()


def run_and_wait(page):
    page.click(".run-here button")
    page.wait_for_function("!document.querySelector('.run-here button').disabled")


def code_lines(text):
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


# --------------------------------------------------------------------------- Python for browsers


def test_pyodide_has_what_lpfuse_requires():
    """In versions that are admitted; what it has not is pure Python, and comes from the site."""
    settings = runpy.run_path(str(SITE / "browser.py"))
    project = tomllib.loads((ROOT / "packages/lpfuse/pyproject.toml").read_text())["project"]
    versions = settings["PYODIDE"]["packages"]
    for asked in map(Requirement, project["dependencies"]):
        if asked.name in settings["OTHERS"]:
            continue
        assert asked.specifier.contains(versions[asked.name]), asked.name
    plots = map(Requirement, project["optional-dependencies"]["plots"])
    assert all(asked.specifier.contains(versions[asked.name]) for asked in plots)


def test_a_list_of_another_version_is_refused(tmp_path):
    told = json.loads((SITE / "pyodide.json").read_text())
    packages = {name: {"version": number} for name, number in told["packages"].items()}
    lock = tmp_path / "lock.json"
    lock.write_text(json.dumps({"info": {"python": told["python"]}, "packages": packages}))
    check_list(told, lock)
    packages["numpy"]["version"] = "1.0"
    lock.write_text(json.dumps({"info": {"python": told["python"]}, "packages": packages}))
    with pytest.raises(SystemExit, match=r"pyodide\.json must say .*1\.0"):
        check_list(told, lock)
