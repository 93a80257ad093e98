"""What an index shows of the packages: classifiers, addresses, and a README that it can render."""

import re
import shutil
import tomllib

import pytest

from tools import address
from tools.environments import ROOT

PACKAGES = [ROOT / "packages" / name for name in address.PACKAGES]
EXAMPLE = "https://example.org/someone/lpfuse"


def project(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize("folder", PACKAGES, ids=address.PACKAGES)
def test_classifiers_are_those_of_the_index(folder):
    known = pytest.importorskip("trove_classifiers", reason="trove-classifiers is not installed")
    given = project(folder)["classifiers"]
    assert set(given) <= known.classifiers
    assert given == sorted(set(given), key=given.index)
    assert any("Industry" in each or "Manufacturing" in each for each in given)


@pytest.mark.parametrize("folder", PACKAGES, ids=address.PACKAGES)
def test_the_readme_renders_on_an_index(folder, tmp_path):
    renderer = pytest.importorskip("readme_renderer.markdown", reason="readme-renderer is missing")
    text = (folder / "README.md").read_text(encoding="utf-8")
    html = renderer.render(address.in_readme(text, EXAMPLE))
    assert html is not None
    assert html.count("<a href") >= len(address.PAGES)
    # On an index, a path leads nowhere.
    links = re.findall(r'(?:href|src)="([^"]+)"', html)
    assert all(link.startswith(("https://", "#")) for link in links), links


def test_no_address_is_named_while_there_is_none():
    if address.ADDRESS:
        pytest.skip("there is an address: the next test compares it with the files")
    assert all("urls" not in project(folder) for folder in PACKAGES)
    pytest.skip("no address is known: fill in ADDRESS of tools/address.py, python -m tools.address")


def test_files_hold_the_address():
    assert address.wrong(address.ADDRESS) == []


def test_an_address_is_written_into_all_files_and_removed_again(tmp_path):
    for path in address.files():
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    copies = address.files(tmp_path)
    before = {path: path.read_text(encoding="utf-8") for path in copies}
    assert address.wrong(address.ADDRESS, tmp_path) == []
    assert set(address.wrong(EXAMPLE, tmp_path)) == set(copies)
    for path, put in copies.items():
        path.write_text(put(before[path], EXAMPLE), encoding="utf-8")
    assert address.wrong(EXAMPLE, tmp_path) == []
    for name in address.PACKAGES:
        urls = project(tmp_path / "packages" / name)["urls"]
        assert urls.keys() == address.PAGES.keys()
        assert urls["Issues"] == f"{EXAMPLE}/issues"
    assert f'repository-code: "{EXAMPLE}"' in (tmp_path / "CITATION.cff").read_text()
    for path, put in copies.items():
        assert put(path.read_text(encoding="utf-8"), address.ADDRESS) == before[path]
