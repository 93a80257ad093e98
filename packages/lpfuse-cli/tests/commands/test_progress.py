"""What is told of work that goes on: on a terminal, in a file, and to nobody."""

import io
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, redirect_stderr, suppress
from itertools import pairwise

import pytest
from typer.testing import CliRunner

from helpers.pumps import pumps, write
from lpfuse_cli import console
from lpfuse_cli.app import app
from lpfuse_cli.console import Phases, TimeToGo, format_elapsed, format_time_to_go

OPTIONS = ["--label", "state", "--normal", "ok", "--detectors", "gmm,kpca"]


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


@contextmanager
def terminal():
    with redirect_stderr(Terminal()) as screen:
        yield screen


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


# ------------------------------------------------------------------------------------ time to go


def test_steady_work_ends_when_it_was_said(clock):
    left = TimeToGo(clock)
    told = {}
    for done in range(1, 100):
        clock.now += 1.0
        left.report(done, 100)
        told[done] = left.seconds()
    assert all(told[done] == pytest.approx(100 - done) for done in (25, 50, 75, 99))


def test_nothing_is_said_before_there_is_evidence(clock):
    left = TimeToGo(clock)
    assert left.seconds() is None
    left.report(0, 1000)
    clock.now += 1.0
    left.report(100, 1000)
    assert left.seconds() is None  # a second is too short
    clock.now += 1.0
    assert left.seconds() is not None
    slow = TimeToGo(clock)
    clock.now += 20.0
    slow.report(1, 1000)
    assert slow.seconds() is None  # a thousandth is too little
    clock.now += 20.0
    assert slow.seconds() > 10_000  # but all that there is after so long


def test_nothing_is_said_of_work_that_is_done(clock):
    left = TimeToGo(clock)
    clock.now += 10.0
    left.report(4, 4)
    assert left.seconds() is None


def test_what_was_stored_before_tells_nothing_of_the_speed(clock):
    left = TimeToGo(clock, 50)
    for done in range(50, 61):
        left.report(done, 100)
        clock.now += 60.0
    assert left.seconds() == pytest.approx(40 * 60, rel=0.05)


def test_a_step_that_takes_long_moves_the_end_away(clock):
    left = TimeToGo(clock)
    for done in range(1, 6):
        clock.now += 2.0
        left.report(done, 10)
    assert left.seconds() == pytest.approx(10.0)
    clock.now += 50.0
    assert left.seconds() == pytest.approx(60 * 4 / 6)


def test_uneven_steps_do_not_make_it_jump(clock):
    left = TimeToGo(clock)
    told = []
    for done in range(1, 101):
        clock.now += 0.2 if done % 2 else 1.8  # steps of two kinds in turn
        left.report(done, 100)
        told.append(left.seconds())
    late = [seconds for seconds in told[10:90] if seconds is not None]
    assert max(abs(a - b) for a, b in pairwise(late)) < 5.0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "a few seconds"), (11, "about 15 s"), (90, "about 90 s"), (240, "about 4 min")],
)
def test_times_to_go_are_round(seconds, words):
    assert format_time_to_go(seconds) == words


def test_times_that_passed_are_exact():
    assert [format_elapsed(seconds) for seconds in (4.4, 59.9, 125)] == [
        "4 s",
        "1 min 0 s",
        "2 min 5 s",
    ]


# ------------------------------------------------------------------------------- without a terminal


def test_phases_in_order_each_told_of_when_it_begins(clock, capsys):
    with console.phases(False, clock) as phases:
        phases.begin("Reading a.csv")
        assert capsys.readouterr().err == "Reading a.csv …\n"
        clock.now += 1.0
        phases.begin("Fitting")
        assert capsys.readouterr().err == "Fitting …\n"
        for done in range(1, 21):
            clock.now += 2.0
            phases.progress(done, 20)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Fitting: 15 %, about 35 s to go"
    assert lines[-1] == "Fitting: done in 40 s"
    assert len(lines) <= 40 / 5 + 1


def test_the_last_unit_is_not_the_end(clock, capsys):
    with console.phases(False, clock) as phases:
        phases.begin("Fitting")
        clock.now += 10.0
        phases.progress(3, 3)  # what is learnt from all of them is still to come
    assert capsys.readouterr().err.splitlines()[1] == "Fitting: 99 %, 10 s so far"


def test_work_that_reports_nothing_is_not_silent(clock, capsys):
    with console.phases(False, clock) as phases:
        phases.begin("Loading m")
        for _ in range(60):
            clock.now += 1.0
            phases.tick()
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == ["Loading m …", "Loading m: 5 s so far", "Loading m: 10 s so far"]
    assert len(lines) == 1 + 12 + 1


def test_lines_become_rarer(clock, capsys):
    with console.phases(False, clock) as phases:
        phases.begin("Fitting")
        for done in range(36_000):
            clock.now += 1.0
            phases.progress(done, 36_000)
    assert len(capsys.readouterr().err.splitlines()) < 200


def test_rows_and_their_rate(clock, capsys):
    with console.stream("Scoring", False, clock) as report:
        clock.now += 5.0
        report(1000, 0.25)
        clock.now += 5.0
        report(2000, None)  # a stream, whose length nobody knows
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "Scoring: 25 %, 1,000 rows, 200 a second, about 15 s to go"
    assert lines[2].startswith("Scoring: 2,000 rows, ")
    assert "to go" not in lines[2]


def test_counts_of_what_others_do(clock, capsys):
    with console.progress("uci", False, clock) as report:
        report(50, 200)  # stored before: they took no time
        for done in range(51, 201):
            clock.now += 2.0
            report(done, 200)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["uci …", "uci: 53 of 200, 6 s so far"]
    assert "uci: 60 of 200, about 5 min to go" in lines or "about 5 min to go" in lines[4]
    assert lines[-1] == "uci: done in 5 min 0 s"


def test_several_parts_are_timed_apart(clock, capsys):
    with console.progress("claims", False, clock) as report:
        for seconds in (1.0, 10.0):
            for done in range(11):
                clock.now += seconds
                report(done, 10)
    lines = capsys.readouterr().err.splitlines()
    assert "claims: 4 of 10, about 60 s to go" in lines  # not what the first part would tell


def test_an_error_is_not_the_end_of_the_work(clock, capsys):
    with suppress(KeyboardInterrupt), console.phases(False, clock) as phases:
        phases.begin("Fitting")
        clock.now += 60.0
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "Fitting …\n"


# ---------------------------------------------------------------------------------- on a terminal


def test_a_live_line_on_a_terminal(clock):
    with terminal() as screen, console.phases(False, clock) as phases:
        phases.begin("Reading [red]odd[/red].csv")
        clock.now += 6.0
        phases.progress(3, 10)
        phases.view.refresh()
    shown = screen.getvalue()
    assert "Reading [red]odd[/red].csv …" in shown
    assert "Reading [red]odd[/red].csv: 30 %, about 15 s to go" in shown
    assert shown.count("\n") <= 1  # one line, which is drawn anew


def test_names_cannot_command_a_terminal(clock):
    with terminal() as screen, console.phases(False, clock) as phases:
        phases.begin("Reading \x1b[5mblink")
    assert "\x1b[5m" not in screen.getvalue()


def test_notes_between_two_phases_go_to_standard_output(clock, capsys):
    with terminal() as screen, console.phases(False, clock) as phases:
        phases.begin("Reading")
        print("while it reads")
        phases.end()
    assert "while it reads" not in screen.getvalue()
    assert capsys.readouterr().out == "while it reads\n"


def test_no_line_when_all_is_stored():
    with terminal() as screen, console.progress("uci", quiet=False) as report:
        report(20, 20)
    assert screen.getvalue() == ""


# ------------------------------------------------------------------------------------------ quiet


def test_nothing_when_quiet(clock, capsys):
    phases = Phases(True, clock)
    phases.begin("Fitting")
    clock.now += 60.0
    phases.tick()
    phases.end()
    assert (phases.progress, phases.stream) == (None, None)
    with console.progress("uci", quiet=True) as report, console.stream("s", quiet=True) as rows:
        assert (report, rows) == (None, None)
    assert capsys.readouterr().err == ""


# --------------------------------------------------------------------------------------- commands


def titles(answer):
    assert answer.exit_code == 0, answer.output
    lines = answer.stderr.splitlines()
    return [line.removesuffix(" …") for line in lines if line.endswith(" …")]


def test_commands_tell_what_they_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(pumps(100), tmp_path / "[b]pumps.csv")
    run = CliRunner().invoke
    fit = run(app, ["fit", "[b]pumps.csv", *OPTIONS, "-o", "m.lpfuse"])
    assert titles(fit) == [
        "Reading [b]pumps.csv",
        "Preparing columns",
        "Fitting",
        "Writing m.lpfuse",
    ]
    score = run(app, ["score", "m.lpfuse", "[b]pumps.csv", "-o", "s.csv"])
    assert titles(score) == ["Loading m.lpfuse", "Scoring [b]pumps.csv"]
    report = run(app, ["report", "m.lpfuse", "[b]pumps.csv", "-o", "page.html"])
    assert titles(report) == [
        "Loading m.lpfuse", "Reading [b]pumps.csv", "Judging 100 rows", "Writing page.html",
    ]  # fmt: skip
    own = run(app, ["report", "m.lpfuse", "-o", "page.html"])
    assert titles(own) == ["Loading m.lpfuse", "Judging the training rows", "Writing page.html"]


def test_standard_input_has_a_name(tmp_path):
    text = write(pumps(60), tmp_path / "p.csv").read_text()
    call = ["fit", "-", *OPTIONS, "-o", str(tmp_path / "m")]
    assert titles(CliRunner().invoke(app, call, input=text))[0] == "Reading standard input"


def test_the_first_line_comes_before_anything_heavy_is_loaded(tmp_path):
    train = write(pumps(60), tmp_path / "p.csv")
    watch = (
        "import sys, builtins\n"
        "from lpfuse_cli import console\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'polars'}\n"
        "def told(self, line):\n"
        "    print(line, sorted(heavy & sys.modules.keys()))\n"
        "    raise SystemExit\n"
        "console.Phases._print = told\n"
        "from lpfuse_cli import main\n"
        "main()\n"
    )
    model = tmp_path / "m"
    model.touch()  # of a file that is not there no line is told
    for call in (
        ["fit", train, "-o", tmp_path / "new"],
        ["score", model, train, "-o", "-"],
        ["report", model],
    ):
        done = subprocess.run(
            [sys.executable, "-c", watch, *map(str, call)], capture_output=True, text=True
        )
        assert done.stdout.endswith(" … []\n"), (call, done)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_while_it_fits_leaves_nothing(tmp_path):
    train = write(pumps(300), tmp_path / "p.csv")
    call = ["fit", train, "--label", "state", "--normal", "ok", "-o", tmp_path / "m.lpfuse"]
    work = subprocess.Popen(
        [sys.executable, "-m", "lpfuse_cli", *map(str, call)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in work.stderr:
        if line == "Fitting …\n":
            break
    work.send_signal(signal.SIGINT)
    _, err = work.communicate()
    assert (work.returncode, err.splitlines()[-1]) == (130, "Interrupted.")
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]
