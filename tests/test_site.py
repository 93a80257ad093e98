"""What can be told of the site without building it; `test_built_site.py` looks at it built."""

import ast
import re
import runpy
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import lpfuse
import lpfuse_faces
import lpfuse_onnx

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs" / "site"
EXAMPLES = sorted((ROOT / "examples" / "gallery").glob("*.py"))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#([^)\s]+))?\)")


@pytest.fixture(scope="module")
def sources():
    return runpy.run_path(str(SITE / "sources.py"))


@pytest.fixture(scope="module")
def reference():
    return runpy.run_path(str(SITE / "reference.py"))


@pytest.fixture(scope="module")
def laid_out(sources, reference, tmp_path_factory):
    """The tree that Sphinx would read, without the gallery and the stubs that it makes itself."""
    folder = tmp_path_factory.mktemp("site")
    sources["write_sources"](folder)
    reference["write_reference"](folder / "reference")
    return folder


def listed(folder):
    """Every page that a toctree names."""
    found = set()
    for page in [*folder.rglob("*.md"), *folder.rglob("*.rst")]:
        text = page.read_text()
        for block in re.findall(r"```\{toctree\}\n(.*?)```", text, re.S):
            found |= entries(page, block)
        for block in re.findall(r"^\.\. toctree::\n((?:[ \t]+.*\n|\n)*)", text, re.M):
            found |= entries(page, block)
    return found


def entries(page, block):
    names = [line.strip() for line in block.splitlines()]
    names = [name for name in names if name and not name.startswith(":")]
    return {
        path.with_suffix("").resolve()
        for name in names
        for path in page.parent.glob(f"{name}.*")
        if path.suffix in (".md", ".rst")
    }


def test_settings_can_be_read():
    settings = runpy.run_path(str(SITE / "conf.py"))
    assert settings["project"] == "lpfuse"
    assert "intersphinx" not in " ".join(settings["extensions"])  # nothing is fetched


def test_every_page_is_in_a_toctree(laid_out):
    pages = [*laid_out.rglob("*.md"), *laid_out.rglob("*.rst")]
    pages = {path.with_suffix("").resolve() for path in pages if "files" not in path.parts}
    assert pages - listed(laid_out) == {(laid_out / "index").resolve()}


def test_every_markdown_page_of_the_documentation_is_on_the_site(sources, laid_out):
    for source, place in sources["pages"]().items():
        assert (ROOT / source).is_file()
        assert (laid_out / place).is_file()


def test_links_between_pages_lead_somewhere(laid_out):
    for page in laid_out.rglob("*.md"):
        fenced = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        for target, _ in LINK.findall(fenced):
            if "://" not in target and not target.startswith("mailto:"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_links_are_moved_with_their_page(sources):
    placed = {"docs/a.md": "a.md", "CHANGELOG.md": "changelog.md", "docs/b/c.md": "b/c.md"}
    text = "[x](../CHANGELOG.md#one) [y](b/c.md) [z](../examples/demo.py) [w](https://a.b)\n"
    moved, files = sources["moved"](text, "docs/a.md", placed)
    assert moved == (
        "[x](changelog.md#one) [y](b/c.md) [z](files/examples/demo.py) [w](https://a.b)\n"
    )
    assert files == ["examples/demo.py"]
    code = "```\n[x](../CHANGELOG.md)\n```\n"
    assert sources["moved"](code, "docs/a.md", placed) == (code, [])


def test_every_public_name_is_in_the_reference(laid_out, reference):
    """Of both packages, their rooms and whatever else lists its public names."""
    described = {
        id(getattr(import_module(module), name))
        for module, names in reference["public_names"]().items()
        for name in names
    }
    rooms = [import_module(f"lpfuse.{room}") for room in lpfuse._SUBMODULES]
    for module in (lpfuse, lpfuse_onnx, lpfuse_faces, *rooms):
        assert all(id(getattr(module, name)) in described for name in module.__all__)
    for module, names in reference["public_names"]().items():
        page = (laid_out / "reference" / f"{module}.rst").read_text()
        assert all(re.search(rf"(^|[ :]){name}$", page, re.M) for name in names)


def test_stubs_are_made_for_modules_that_are_new(laid_out, reference):
    config = SimpleNamespace()
    settings = runpy.run_path(str(SITE / "conf.py"))
    settings["list_modules"](SimpleNamespace(srcdir=laid_out), config)
    modules = {f"reference/{module}.rst" for module in reference["public_names"]()}
    assert {*config.autosummary_generate} == modules | {"reference/index.rst"}


def test_the_reference_lists_names_by_task(laid_out, reference):
    found = reference["public_names"]()
    by_task = reference["tasks"](found)
    listed = [(module, name) for parts in by_task.values() for module, of in parts for name in of]
    assert sorted(listed) == sorted((module, name) for module in found for name in found[module])
    assert ("lpfuse", ["SVDD"]) not in by_task["Fuse detectors"]
    assert "SVDD" in dict(by_task["Detect anomalies with one detector"])["lpfuse"]
    page = (laid_out / "reference" / "index.rst").read_text()
    assert all(f"\n{task}\n---" in page for task in by_task)
    assert reference["tasks"]({"lpfuse.new": {"Thing": "class"}}) == {
        "More": [("lpfuse.new", ["Thing"])]
    }


def test_the_landing_page_shows_the_table_of_the_readme(laid_out):
    (row,) = re.findall(r"^\| \*\*`FusedDetector\(\)`.*$", (ROOT / "README.md").read_text(), re.M)
    page = (laid_out / "index.md").read_text()
    assert row in page
    assert "](benchmarks/tables.md)" in page


def test_the_dashboard_shows_figures_of_the_pages_with_date_and_commit(laid_out):
    board = runpy.run_path(str(SITE / "dashboard.py"))
    page = (laid_out / "benchmarks.md").read_text()
    for figures in board["FIGURES"].values():
        for figure in figures:
            (row,) = re.findall(rf"^\| {re.escape(figure.words)} \| (.+?) \|$", page, re.M)
            value, date, commit, link = row.split(" | ")
            assert value
            assert re.fullmatch(r"\d{4}-\d\d-\d\d|not known", date)
            assert re.fullmatch(r"`([0-9a-f]{7,}|not known)`", commit)
            assert figure.page in link
    assert all(
        f"({page})" in (laid_out / "benchmarks.md").read_text() for page, _ in board["goals"]()
    )


def test_a_figure_that_a_page_does_not_have_is_an_error():
    board = runpy.run_path(str(SITE / "dashboard.py"))
    first = next(iter(board["FIGURES"].values()))[0]
    assert float(board["value"](first).partition(" ")[0]) > 50
    with pytest.raises(KeyError, match="has no cell 'no such method'"):
        board["value"](first._replace(row="no such method"))


def test_there_are_a_dozen_examples_and_the_build_runs_all():
    pattern = runpy.run_path(str(SITE / "conf.py"))["sphinx_gallery_conf"]["filename_pattern"]
    assert len(EXAMPLES) >= 12
    assert all(re.search(pattern, str(path)) for path in EXAMPLES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_begins_with_a_question_and_draws(path):
    text = path.read_text()
    title, line, *_ = ast.get_docstring(ast.parse(text)).splitlines()
    assert "?" in title
    assert set(line) == {"="}
    assert len(line) >= len(title)
    assert "plt.show()" in text


def test_the_map_for_assistants_leads_somewhere(sources, laid_out):
    for target, _ in LINK.findall((ROOT / "llms.txt").read_text()):
        assert (ROOT / target).exists(), target
    for target, _ in LINK.findall((laid_out / "extra" / "llms.txt").read_text()):
        page = laid_out / target
        assert page.parts[-2] == "gallery" or page.with_suffix(".md").exists(), target


def test_the_cheat_sheet_names_what_there_is():
    """Every function and class that it calls is public; its table says where."""
    text = (ROOT / "docs" / "cheat-sheet.md").read_text()
    rows = re.findall(r"^\| (`lpfuse.*?) \| (.*?) \|$", text, re.M)
    told = {}
    for homes, names in rows:
        homes = [
            home if home[0] == "l" else f"lpfuse{home}" for home in re.findall(r"`(.*?)`", homes)
        ]
        for name in re.findall(r"`(.*?)`", names):
            (told[name],) = [
                getattr(import_module(home), name)
                for home in homes
                if name in import_module(home).__all__
            ]
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        for call in ast.walk(ast.parse(block)):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                assert call.func.id in {*told, "IsolationForest", "print"}, call.func.id
            if isinstance(call, ast.Attribute) and getattr(call.value, "id", "") == "fused":
                known = [*dir(lpfuse.FusedDetector), "certificate_"]
                assert call.attr in known, call.attr


def test_the_cheat_sheet_is_one_printed_page(tmp_path):
    browser = shutil.which("chromium") or pytest.skip("no chromium")
    page, printed = tmp_path / "sheet.html", tmp_path / "sheet.pdf"
    subprocess.run([sys.executable, str(SITE / "cheat_sheet.py"), str(page)], check=True)
    run = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"]
    run += [f"--print-to-pdf={printed}", str(page)]
    subprocess.run(run, check=True, capture_output=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes())) == 1
