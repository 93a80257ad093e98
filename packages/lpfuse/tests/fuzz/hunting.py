"""Starts workers on forged files, goes on where one died, and counts what happened."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from fuzz.corpus import models
from fuzz.forging import BAIT
from helpers.pumps import pumps, write
from lpfuse.io import save

ROWS, OWN_MISTAKE = "rows.csv", 70


class Finding(NamedTuple):
    """A forged file that did what no file may do."""

    model: str
    forgery: str
    what: str


class Hunt(NamedTuple):
    """What came of it."""

    models: list  # names of the honest models that can be saved
    unsaved: list  # names of those that cannot
    outcomes: Counter  # files by what became of them
    findings: list  # of Finding


def hunt(folder, limit, kind=None, only=None, seconds=20, without=(), forge=()):
    """Forge `limit` files of each kind out of each model, and use them in another process.

    `without` names checks that are switched off there, `forge` the only kinds of forgeries.
    """
    folder = Path(folder)
    (folder / BAIT).mkdir()
    write(pumps(5), folder / ROWS)
    made, unsaved = [], []
    for name, model in models(kind):
        if only is None or name in only:
            try:
                save(model, folder / f"{name}.honest")
                made.append(name)
            except TypeError:
                unsaved.append(name)
    findings = []
    outcomes = Counter()
    while (begun := run(folder, limit, seconds, [*without, *forge])) is not None:
        findings.append(begun)
        outcomes["stopped the process"] += 1
    for line in (folder / "done.jsonl").read_text().splitlines():
        model, words, outcome, events = json.loads(line)
        outcomes[outcome.partition(":")[0]] += 1
        if events:
            findings.append(Finding(model, words, events[0]))
        elif outcome.startswith(("load ", "traceback", "out of")):
            findings.append(Finding(model, words, outcome))
        elif words.startswith("honest") and words != f"honest: {outcome}":
            findings.append(Finding(model, words, f"used again: {outcome}"))
    return Hunt(made, unsaved, outcomes, findings)


def run(folder, limit, seconds, names=()):
    """One worker, to its end: None if it came through, else what stopped it."""
    command = [sys.executable, "-m", "fuzz.worker", str(folder), str(limit), str(seconds)]
    command.extend(names)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    begun = folder / "begun"
    if done.returncode == 0:
        return None
    if done.returncode == OWN_MISTAKE or not begun.exists():
        raise RuntimeError(f"The fuzzer itself failed: {done.stderr[-2000:]}")
    model, _, words = begun.read_text().split("\t")
    too_long = done.returncode in (1, -signal.SIGPROF)
    died = "took too long" if too_long else f"died of signal {-done.returncode}"
    return Finding(model.removesuffix(".honest"), words, f"{died}: {_where(folder)}")


def _where(folder):
    """The innermost function of Python that ran, by the record of the crash."""
    lines = (folder / "crash.txt").read_text().splitlines()
    return next((line.strip() for line in lines if line.strip().startswith("File")), "")
