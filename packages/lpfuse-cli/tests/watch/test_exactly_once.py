"""No row is lost and none is judged twice, wherever the process ends."""

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

from helpers.streams import rows
from lpfuse_cli.watch import watch

SMALL = {"batch_rows": 7, "batch_seconds": 0, "once": True, "jobs": 2, "keep": ["serial"]}


class PowerCut(BaseException):
    """Nothing may catch it and go on."""


def cutting_power(monkeypatch, at, error=PowerCut):
    """Let the k-th call of the system that makes things last fail; how many there were."""
    calls = 0

    def failing(action):
        def call(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls == at:
                raise error
            return action(*arguments, **options)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, failing(getattr(os, name)))
    return lambda: calls


def outputs(folder, out):
    if out.endswith("/"):
        parts = sorted((folder / out).glob("part-*"))
        assert all(part.suffix == ".parquet" for part in parts)
        return pl.concat([pl.read_parquet(part) for part in parts]).write_csv().encode()
    return (folder / out).read_bytes()


def make_source(folder, kind):
    """Twelve rows and something broken; the tables are longer than a batch."""
    frame = rows(12)
    if kind == "file":
        text = frame.write_csv()
        (folder / "rows.csv").write_text(text.replace("P-0011", "P-0011,broken"))
        return folder / "rows.csv"
    source = folder / "rows"
    source.mkdir()
    if kind == "CSV":
        frame[:10].write_csv(source / "a.csv")
        frame[10:].write_parquet(source / "b.parquet")
    else:
        (source / "a.parquet").write_bytes(b"PAR1 no table")
        frame[:10].write_parquet(source / "b.parquet")
        frame[10:].write_csv(source / "c.csv")
    return source


@pytest.mark.parametrize(("kind", "out"), [("file", "v.csv"), ("CSV", "v.csv"), ("Parquet", "v/")])
def test_power_cut_at_any_call_changes_no_output(model, tmp_path, monkeypatch, kind, out):
    source = make_source(tmp_path, kind)
    whole = tmp_path / "whole"
    whole.mkdir()
    found = watch(model, source, f"{whole}/{out}", **SMALL)
    assert found.rows == 12
    expected = outputs(whole, out)
    rng = random.Random(0)
    at = cuts = 0
    while True:
        at += 1
        folder = tmp_path / "cut"
        folder.mkdir()
        with monkeypatch.context() as patch:
            calls = cutting_power(patch, at)
            try:
                watch(model, source, f"{folder}/{out}", **SMALL)
            except PowerCut:
                cuts += 1
            if calls() < at:
                break
        if out.endswith(".csv") and (folder / out).exists():  # a write that was half done
            with (folder / out).open("ab") as file:
                file.write(rng.randbytes(rng.randrange(40)))
        again = watch(model, source, f"{folder}/{out}", **SMALL)
        assert (again.rows, again.judged, again.notes) == (12, found.judged, found.notes), at
        assert outputs(folder, out) == expected, at
        left = [path.name for path in folder.rglob("*.tmp")]
        assert not left, at
        shutil.rmtree(folder)
    assert cuts > 10


@pytest.mark.parametrize("out", ["v.csv", "v/"])
@pytest.mark.parametrize("at", [2, 5, 8])
def test_full_disk_changes_no_byte_of_the_output(model, tmp_path, monkeypatch, at, out):
    source = make_source(tmp_path, "file")
    for name in ("whole", "full"):
        (tmp_path / name).mkdir()
    watch(model, source, f"{tmp_path}/whole/{out}", **SMALL)
    with monkeypatch.context() as patch:
        cutting_power(patch, at, OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(OSError, match=r"No space left on device\. Free disk space, then start"):
            watch(model, source, f"{tmp_path}/full/{out}", **SMALL)
    watch(model, source, f"{tmp_path}/full/{out}", **SMALL)
    assert outputs(tmp_path / "full", out) == outputs(tmp_path / "whole", out)


DIRT = ["1.0", "P,1.0,2.0,a,b", "P,one,2.0,a", "P,\udcff,2.0,a", 'P,1.0,"2.0,a', ",,,"]


@pytest.mark.parametrize("seed", range(4))
def test_pieces_pauses_and_starts_change_nothing(model, tmp_path, seed):
    """Dirt anywhere, text cut anywhere, ends after any row: what a naive reader finds."""
    rng = random.Random(seed)
    header, *good = rows(120, seed=seed).write_csv().splitlines()
    lines = []
    # The last ones are clean: behind an open quote, lines wait until three of them are whole.
    for line in good[:-3]:
        if rng.random() < 0.15:
            lines.append(rng.choice(DIRT))
        if rng.random() < 0.05:
            lines.append("")
        if rng.random() < 0.2:
            serial, rest = line.split(",", 1)
            line = f'"{serial}, a ""pump"" in\ntwo lines",{rest}'
        lines.append(line)
    lines += good[-3:]
    data = "\n".join([header, *lines, ""]).encode(errors="surrogateescape")
    source, out = tmp_path / "rows.csv", tmp_path / "v.csv"
    sent = rng.randrange(len(header) + 1, len(data))
    source.write_bytes(data[:sent])
    while True:
        found = watch(
            model, source, out, once=True, keep=["serial"], batch_rows=rng.randrange(1, 40),
            rows=rng.randrange(1, 60), batch_seconds=rng.choice([0, 1]), jobs=2,
        )  # fmt: skip
        if sent == len(data) and found.ended == "source":
            break
        more = rng.randrange(0, 2000)
        with source.open("ab") as file:
            file.write(data[sent : sent + more])
        sent = min(len(data), sent + more)
    there = [line for line in lines if line]
    expected = [place for place, line in enumerate(there, start=1) if line not in DIRT]
    verdicts = pl.read_csv(out)
    assert verdicts["row"].to_list() == expected
    assert [name[:6] for name in verdicts["serial"]] == [f"P-{k:04d}" for k in range(120)]
    assert found.rows == len(there)
    assert sum(found.notes.values()) == len(there) - 120


def start(model, source, out, *more):
    config = out.with_suffix(".toml")
    config.write_text("batch-rows = 5\nbatch-seconds = 0\n")
    words = [sys.executable, "-m", "lpfuse_cli", "watch", model, source, "-o", out]
    words += ["--config", config, "--keep", "serial", "-j", "2", *more]
    command = list(map(str, words))
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def grown(path, size):
    return path.exists() and path.stat().st_size > size


def wait_until(condition, process, seconds=60):
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_kill_9_loses_and_repeats_no_row(model, tmp_path, kills):
    frame = rows(60 * (kills + 2))
    source = tmp_path / "rows.csv"
    frame.write_csv(source)
    watch(model, source, tmp_path / "whole.csv", once=True, batch_rows=5, keep=["serial"])
    whole = tmp_path / "whole.csv"
    lines = source.read_bytes().splitlines(keepends=True)
    live, out = tmp_path / "live.csv", tmp_path / "v.csv"
    live.write_bytes(lines[0])
    rng, sent, killed = random.Random(1), 1, 0
    while killed < kills:
        size = out.stat().st_size if out.exists() else 0
        # Whole lines and a torn one, while it runs and while it does not.
        text = b"".join(lines[sent : sent + 60])
        sent += 60
        torn = rng.randrange(1, len(text))
        with live.open("ab") as file:
            file.write(text[:torn])
        process = start(model, live, out)
        wait_until(lambda size=size: grown(out, size), process)
        with live.open("ab") as file:
            file.write(text[torn:])
        time.sleep(rng.random() * 0.15)
        assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += 1
    with live.open("ab") as file:
        file.write(b"".join(lines[sent:]))
    process = start(model, live, out, "--once")
    assert process.communicate()[1] is not None
    assert process.returncode == 0
    seen, expected = pl.read_csv(out), pl.read_csv(whole)
    assert seen["row"].to_list() == list(range(1, len(frame) + 1))
    assert seen.select("row", "serial", "decision").equals(
        expected.select("row", "serial", "decision")
    )
    # Batches ended elsewhere, so that products were rounded otherwise.
    assert (seen["score"] - expected["score"]).abs().max() < 1e-9


def test_kill_9_changes_no_byte(timed_model_file, tmp_path, new_rows):
    source, out, page = (tmp_path / name for name in ("rows.csv", "v.csv", "s.html"))
    new_rows.write_csv(source)
    options = {"once": True, "keep": ["serial"], "batch_rows": 5}
    watch(timed_model_file, source, tmp_path / "whole.csv", **options)
    rng = random.Random(1)
    for _ in range(2):
        size = out.stat().st_size if out.exists() else 0
        process = start(timed_model_file, source, out, "--page", page)
        wait_until(lambda size=size: grown(out, size + 500), process)
        time.sleep(rng.random() * 0.1)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    watch(timed_model_file, source, out, **options)
    assert out.read_bytes() == (tmp_path / "whole.csv").read_bytes()


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_signal_ends_after_the_batch(model, tmp_path, number):
    source, out = tmp_path / "rows.csv", tmp_path / "v.csv"
    rows(40).write_csv(source)
    process = start(model, source, out, "--page", tmp_path / "s.html", "--json")
    wait_until(lambda: grown(out, 100), process)
    with pytest.raises(ValueError, match="Another `lpfuse watch` is running"):
        watch(model, source, out, **SMALL)
    process.send_signal(number)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert b'"ended": "signal"' in said.splitlines()[-1]
    judged = pl.read_csv(out).height
    assert f'"rows": {judged},'.encode() in said.splitlines()[-1]
    watch(model, source, out, **SMALL)  # the lock went with the process
    assert pl.read_csv(out)["row"].to_list() == list(range(1, 41))
    assert "it was stopped by a signal" in (tmp_path / "s.html").read_text()


def test_open_pipe_does_not_delay_the_end(model, tmp_path):
    """The thread that waits for standard input must not keep the process alive."""
    out = tmp_path / "v.csv"
    read = "watch(sys.argv[1], '-', sys.argv[2], rows=12)"
    code = f"import sys; from lpfuse_cli.watch import watch; {read}"
    command = [sys.executable, "-c", code, str(model), str(out)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(rows(12).write_csv().encode())
    process.stdin.flush()
    assert process.wait(60) == 0, process.stderr.read()
    process.stdin.close()
    process.stderr.close()
    assert pl.read_csv(out).height == 12
