"""What a process touches beside its own memory, by Python's audit events.

A hook cannot be taken away again, so a process that watches is started for that alone.
"""

import os
import sys
import sysconfig
from contextlib import contextmanager

# Events that reach out of the interpreter, or bring code into it.
WATCHED = (
    "open", "exec", "compile", "import", "os.", "subprocess.", "socket.", "pickle.", "marshal.",
    "ctypes.", "shutil.", "tempfile.", "glob.", "pathlib.", "urllib.", "http.", "ftplib.",
    "smtplib.", "telnetlib.", "webbrowser.", "mmap.", "sqlite3.", "pty.", "fcntl.", "signal.",
    "syslog.", "code.__new__", "function.__new__", "builtins.input", "builtins.breakpoint",
    "_thread.start_new_thread", "_posixsubprocess.", "setopencodehook", "sys.addaudithook",
    "sys.set", "cpython.",
)  # fmt: skip
READING = (None, "r", "rb")
MODULES = (".py", ".pyc", ".so", ".onnx", "entry_points.txt", "METADATA")
OF_TYPER = b"PYDANTIC_DISABLE_PLUGINS"  # a variable that every command sets for a moment
LITERAL = "<unknown>"  # the name that ast.literal_eval compiles by: the header of an array


class Watch:
    """Records events while it is open, and forbids what is not allowed."""

    def __init__(self, *readable):
        self.readable = {os.fspath(path) for path in readable}
        self.places = tuple(
            {sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
            | {path for path in sys.path if path}
        )
        self.events = None
        sys.addaudithook(self._hook)

    @contextmanager
    def open(self):
        """Yield the list that fills with what was touched."""
        found = self.events = []
        try:
            yield found
        finally:
            self.events = None

    def _hook(self, event, arguments):
        if self.events is None or not event.startswith(WATCHED):
            return
        if not self._is_allowed(event, arguments):
            self.events.append(f"{event} {arguments!r:.160}")
            raise PermissionError(f"{event} is not allowed here.")

    def _is_allowed(self, event, arguments):
        """The file itself, modules of what is installed, and literals."""
        if event == "open":
            path, mode = arguments[0], arguments[1]
            if mode not in READING or not isinstance(path, str | os.PathLike):
                return False
            return os.fspath(path) in self.readable or self._is_module(os.fspath(path))
        if event in ("os.putenv", "os.unsetenv"):
            return arguments[0] == OF_TYPER
        if event == "compile":
            return arguments[1] == LITERAL
        return event in ("os.listdir", "os.scandir") and arguments[0] in self.places

    def _is_module(self, path):
        return path in self.places or (path.startswith(self.places) and path.endswith(MODULES))
