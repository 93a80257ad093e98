"""Known vulnerabilities in what lpfuse brings along: ``python -m research.audit``.

What is looked at: the packages that lpfuse and its sibling packages require, with
all their extras, in the versions that are installed here. There is no lock file: lpfuse is a
library, its users' versions lie anywhere in its ranges, and a list of pins would speak for nobody.
So the lower ends of those ranges are looked at too.

1. Offline: none of them is in ``known_vulnerabilities.txt``.
2. Online: pip-audit asks its service. It says "no known vulnerabilities" also where the service
   knew none of the packages, as a mirror of the package index does. So it is first asked about a
   version that is known to be vulnerable; where it does not know that, the audit says that it could
   not be done, and is no failure: a network that is down must not stop all work.
"""

from __future__ import annotations

import json
import subprocess  # nosec B404 # runs pip-audit, with arguments that are written here
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
KNOWN = Path(__file__).with_name("known_vulnerabilities.txt")
OURS = ("lpfuse", "lpfuse-cli", "lpfuse-onnx", "lpfuse-clients", "lpfuse-faces")
CANARY = {"jinja2": "2.10"}  # CVE-2019-10906: every database of advisories has it

Versions = Mapping[str, str]


def main() -> int:
    """Audit, tell, and return the exit status."""
    told, found = audit(installed(), asked)
    print(told)
    for line in found:
        print(f"VULNERABLE  {line}")
    return int(bool(found))


def audit(versions: Versions, ask: Callable[[Versions], list[str] | None]) -> tuple[str, list[str]]:
    """What was done, in a sentence, and what was found; `ask` is the service."""
    found = known_among(versions.items()) + known_among(lowest(declared()))
    if not ask(CANARY):
        return (
            f"{len(versions)} packages are checked against {KNOWN.name} alone: the service of "
            "pip-audit could not be asked, or knows no advisories.",
            found,
        )
    answer = ask(versions)
    if answer is None:
        return f"The service of pip-audit broke off: only {KNOWN.name} was looked at.", found
    told = f"{len(versions)} packages are checked by pip-audit and against {KNOWN.name}."
    return told, found + answer


def declared() -> Iterator[Requirement]:
    """What both packages ask for, in all their extras."""
    for name in OURS:
        project = tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text())
        extras = project["project"].get("optional-dependencies", {})
        for requirements in (project["project"]["dependencies"], *extras.values()):
            yield from map(Requirement, requirements)


def installed() -> Versions:
    """Versions of everything that is installed here since our packages require it, by name."""
    versions: dict[str, str] = {}
    waiting = list(declared())
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue  # an extra that is not installed here
        if name not in OURS:
            versions[name] = found.version
        for extra in {"", *requirement.extras} - {e for n, e in seen if n == name}:
            seen.add((name, extra))
            required = map(Requirement, found.requires or ())
            waiting += [r for r in required if not r.marker or r.marker.evaluate({"extra": extra})]
    return versions


def lowest(requirements: Iterable[Requirement]) -> Iterator[tuple[str, str]]:
    """The lower end of each range that has one."""
    for requirement in requirements:
        for clause in requirement.specifier:
            if clause.operator in (">=", "=="):
                yield canonicalize_name(requirement.name), clause.version


def known_among(versions: Iterable[tuple[str, str]]) -> list[str]:
    """Names with versions that `known_vulnerabilities.txt` lists, each with its advisory."""
    lines = [line.partition("#") for line in KNOWN.read_text().splitlines()]
    known = [(Requirement(text), advisory.strip()) for text, _, advisory in lines if text.strip()]
    return [
        f"{name} {version}: {advisory}"
        for name, version in versions
        for requirement, advisory in known
        if name == requirement.name and requirement.specifier.contains(version, prereleases=True)
    ]


def asked(versions: Versions) -> list[str] | None:
    """What pip-audit's service knows about them; None where it could not be asked."""
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder) / "pins.txt"
        public = {name: version.partition("+")[0] for name, version in versions.items()}
        pins.write_text("".join(f"{name}=={version}\n" for name, version in public.items()))
        options = ["--no-deps", "--disable-pip", "--format=json", "--progress-spinner=off"]
        command = [sys.executable, "-m", "pip_audit", *options, f"--requirement={pins}"]
        told = subprocess.run(  # nosec B603 # no shell, and every word is from above
            command, capture_output=True, text=True, check=False
        )
    try:
        packages = json.loads(told.stdout)["dependencies"]
    except (ValueError, KeyError):
        return None
    return [
        f"{package['name']} {package['version']}: {advisory['id']}"
        for package in packages
        for advisory in package.get("vulns", ())
    ]


if __name__ == "__main__":
    sys.exit(main())
