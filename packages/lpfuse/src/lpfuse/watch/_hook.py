"""The command that is run once when drift is declared."""

from __future__ import annotations

import json
import os
import shlex
import subprocess  # nosec B404 # runs what the user asked for
from threading import Thread
from typing import Any

from lpfuse._files import as_json
from lpfuse._format import plain

# Seconds after which a command is ended, and for which the end of a watch waits for it: by hand.
LONGEST, PATIENCE = 600.0, 10.0


def split_command(command: str | None) -> list[str]:
    """The words of a command; none where there is no command.

    Examples
    --------
    >>> split_command("notify --to 'the team'")
    ['notify', '--to', 'the team']
    """
    try:
        words = shlex.split(command or "")
    except ValueError as error:
        raise ValueError(f"on_drift={command!r} cannot be split into words: {error}.") from None
    if command is not None and not words:
        raise ValueError("on_drift must name a command, got nothing but blanks.")
    return words


class Hook:
    """A command with the facts in its environment and on its standard input; nothing waits for it.

    Parameters
    ----------
    words : list of str
        The command and its arguments; no shell reads them.
    """

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.told: str | None = None  # what came of it, once it has ended
        self._thread: Thread | None = None

    def start(self, facts: dict[str, Any]) -> None:
        """Run it beside all else."""
        plain_facts = as_json(facts)
        texts = {f"LPFUSE_{name.upper()}": str(value) for name, value in plain_facts.items()}
        given = json.dumps(plain_facts)
        self._thread = Thread(target=self._run, args=(os.environ | texts, given), daemon=True)
        self._thread.start()

    def _run(self, environment: dict[str, str], given: str) -> None:
        try:
            done = subprocess.run(  # nosec B603 # the user's own command, without a shell
                self.words, input=given.encode(), env=environment, timeout=LONGEST, check=False,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            said = plain(done.stderr.decode(errors="replace").strip()[-200:])
            code = done.returncode
            self.told = "ended well" if code == 0 else f"ended with exit code {code}: {said}"
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.told = f"could not be run to its end: {plain(error)}"

    def wait(self) -> None:
        """Give it some seconds to end."""
        if self._thread is not None:
            self._thread.join(PATIENCE)
