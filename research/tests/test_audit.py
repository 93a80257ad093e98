"""The audit of dependencies finds what it should, and says so where it could not be done."""

from packaging.requirements import Requirement

from research.audit import CANARY, audit, declared, installed, known_among, lowest


def test_a_listed_version_is_found_with_its_advisory():
    assert known_among([("torch", "2.5.1"), ("torch", "2.10.0")]) == [
        "torch 2.5.1: CVE-2026-24747 (and CVE-2025-32434 before 2.6): a file of weights runs code, "
        "weights_only or not"
    ]
    assert len(known_among([("protobuf", "5.29.4"), ("protobuf", "5.29.5")])) == 1


def test_the_lower_ends_of_our_ranges_are_sound():
    assert list(lowest([Requirement("Jinja2>=3.1,<4"), Requirement("rich")])) == [("jinja2", "3.1")]
    ends = list(lowest(declared()))
    assert {"numpy", "scikit-learn", "jinja2", "av"} <= {name for name, _ in ends}
    assert known_among(ends) == []


def test_all_that_our_packages_bring_along_is_looked_at():
    versions = installed()
    assert {"numpy", "scipy", "click", "markupsafe"} <= set(versions)  # the latter two indirectly
    assert not {
        "lpfuse",
        "lpfuse-cli",
        "lpfuse-onnx",
        "lpfuse-clients",
        "lpfuse-faces",
        "ruff",
    } & set(versions)
    assert known_among(versions.items()) == []


class Service:
    """An oracle with a few advisories; one that knows none is what a plain mirror looks like."""

    def __init__(self, **advisories):
        self.advisories, self.was_asked = advisories, []

    def __call__(self, versions):
        self.was_asked.append(dict(versions))
        return [f"{name}: {self.advisories[name]}" for name in versions if name in self.advisories]


def test_an_empty_service_reply_is_no_answer():
    mirror = Service()
    told, found = audit({"numpy": "2.3"}, mirror)
    assert "could not be asked" in told
    assert found == []
    assert mirror.was_asked == [CANARY]  # one question, not one for each package
    assert "could not be asked" in audit({"numpy": "2.3"}, lambda versions: None)[0]


def test_what_the_service_knows_is_found():
    told, found = audit({"numpy": "2.3"}, Service(jinja2="the canary", numpy="an advisory"))
    assert told.startswith("1 packages are checked by pip-audit")
    assert found == ["numpy: an advisory"]


def test_what_the_list_knows_is_found_without_a_service():
    assert audit({"skops": "0.12"}, Service())[1] == [
        "skops 0.12: CVE-2025-54412, CVE-2025-54413, CVE-2025-54886: a file runs code"
    ]
