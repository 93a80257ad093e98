"""Tools for assistants: a server of the Model Context Protocol over standard input and output.

Each tool runs one command of lpfuse with ``--json`` in a process of its own, so an assistant gets
what a person gets, with the same checks and the same sentences. Files are those of one folder.
"""

from __future__ import annotations

import json
import subprocess  # nosec B404 # for DEVNULL: commands are those of this package
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mcp.server import MCPServer

__all__ = ["mcp", "server_of"]

MODELS, TABLES, PAGES = (".lpfuse",), (".csv", ".parquet", ".arrow", ".xlsx"), (".html", ".htm")
INSTRUCTIONS = """\
lpfuse finds unusual rows in tables: `fit` learns from rows what is normal, `score` judges others.

Repeat the sentences of the tools with their figures. Do not claim more than they say:
- An alarm says that a row is unlike the rows of the training. It does not say that something is
  wrong with it, or why.
- The false-alarm rate is about rows like those of the calibration. Where `score` says that more
  rows were flagged than expected, say that before naming any row.
- The proof (`audit`) is about the weights of the detectors. It does not make an alarm right.
- Scores of rows that the model learnt from say nothing about new rows.
- Normal and anomalous are labels that a person gives. Never guess which value of a column means
  normal: ask. Never answer the questions of `ask` yourself."""


def mcp(
    folder: Annotated[
        Path,
        typer.Argument(metavar="FOLDER", help="The only folder that the tools read and write."),
    ],
    timeout: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="Maximum run time of a tool.")
    ] = 600.0,
) -> None:
    """Serve fit, score, explain, ask and audit to an assistant, on the files of one folder.

    A server of the Model Context Protocol over standard input and output. The assistant starts it.
    It opens no port and replaces no file. It needs the extra `mcp`.
    """
    server_of(folder, timeout=timeout).run()


def server_of(folder: Path | str, *, timeout: float = 600.0) -> MCPServer:
    """Return the server of `lpfuse mcp`.

    Parameters
    ----------
    folder : path
        Files elsewhere are neither read nor written, also where a link leads there.
    timeout : float, default=600.0
        The longest that a tool may run, in seconds.

    Returns
    -------
    mcp.server.MCPServer
        With the tools fit, score, explain, ask and audit.

    Raises
    ------
    NotADirectoryError
        Where there is no such folder.
    """
    try:
        from mcp.server import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise ImportError(
            'Tools for assistants need an extra: pip install "lpfuse[mcp]"'
        ) from error
    from lpfuse import __version__

    tools = _Tools(folder, timeout)
    server = MCPServer(
        "lpfuse", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    for tool in (tools.fit, tools.score, tools.explain, tools.ask, tools.audit):
        reads = tool in (tools.explain, tools.audit)
        hints = ToolAnnotations(read_only_hint=reads, destructive_hint=False, open_world_hint=False)
        server.tool(annotations=hints)(tool)
    return server


class _Tools:
    """The tools; their docstrings are what an assistant reads."""

    def __init__(self, folder: Path | str, timeout: float) -> None:
        self.folder, self.timeout = Path(folder).expanduser().resolve(), timeout
        if not self.folder.is_dir():
            raise NotADirectoryError(f"There is no folder '{folder}'. Make it, or name another.")

    async def fit(
        self,
        data: str,
        model: str,
        label: str | None = None,
        normal: list[str] | None = None,
        anomaly: list[str] | None = None,
        drop: list[str] | None = None,
        time: str | None = None,
        false_alarm_rate: float = 0.05,
        confidence: float | None = None,
    ) -> dict[str, Any]:
        """Learn from the rows of a table what is normal, and write a model.

        `data` is a .csv, .parquet, .arrow or .xlsx file, `model` a new .lpfuse file. With labels,
        `label` names their column, and `normal` or `anomaly` the values that mean it: ask the user,
        do not guess. `time` names a column where rows come in time. The AUC in the result is of
        rows that the detectors had not seen; without labelled anomalies there is none, and nothing
        is known about how many anomalies would be found. `notes` say how columns were understood:
        show them, for a wrong one spoils the model. Next: `audit` for the promise and the proof.
        """
        chosen = {"label": label, "time": time, "false-alarm-rate": false_alarm_rate}
        many = {"normal": normal, "anomaly": anomaly, "drop": drop}
        options = {**chosen, **many, "confidence": confidence, "output": self._new(model, MODELS)}
        return await self._run("fit", [self._there(data, TABLES)], **options)

    async def score(self, model: str, data: str, output: str) -> dict[str, Any]:
        """Score the rows of a table, and write score, p-value, decision and reasons of each.

        `output` is a new .csv, .parquet, .arrow or .xlsx file. Its decision is 1 for normal and -1
        for an alarm; a low score and a low p-value mean unusual. `alarms.sentences` compare the
        share of alarms with the rate that was asked for: repeat them. An alarm is a row to look at,
        not a fault that was found.
        """
        files = [self._there(model, MODELS), self._there(data, TABLES)]
        return await self._run("score", files, output=self._new(output, TABLES))

    async def explain(self, model: str, data: str, alarms: int = 5) -> dict[str, Any]:
        """Say of the first alarms in a table which columns pushed the score down.

        Writes no file. `rows` has row (1 is the first below the header), score, p_value and why: a
        column, its value, the usual range, and its share of the score with a standard error. The
        reason is that of the model, not a cause in the world: do not turn it into one.
        """
        import polars

        files = [self._there(model, MODELS), self._there(data, TABLES)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "scores.parquet"
            found = await self._run("score", files, output=path, explain=max(1, alarms), keep="")
            scored = polars.read_parquet(path).with_row_index("row", 1)
        told = scored.filter(polars.col("decision") == -1).head(max(1, alarms))
        rows = told.select("row", "score", "p_value", "why").to_dicts()
        return {"rows": rows, **{name: found[name] for name in ("anomalies", "alarms", "notes")}}

    async def ask(self, model: str, data: str, output: str, questions: int = 10) -> dict[str, Any]:
        """Write a page that asks a person about the rows whose answers help the model most.

        `output` is a new .html file. Only a person who knows these rows may answer: give the page
        to the user, and do not answer yourself, for the model would learn your guesses as facts.
        """
        files = [self._there(model, MODELS), self._there(data, TABLES)]
        options = {"output": self._new(output, PAGES), "questions": questions}
        return await self._run("ask", files, **options)

    async def audit(self, model: str) -> dict[str, Any]:
        """Check the proof of a model's weights anew, and say what is promised of its alarms.

        Where `proof.holds` is false, the model was altered or is damaged: say so and do not use it.
        Null: the weights were not learnt from the rows, and there is nothing to prove. `promise` is
        about rows like those of the calibration; `limits` says what is not proven: repeat both.
        """
        return await self._run("audit", [self._there(model, MODELS)])

    # ----------------------------------------------------------------------------- files, processes

    def _inside(self, name: str, endings: tuple[str, ...]) -> Path:
        """Return a path in the folder, relative to it."""
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder) or path.suffix.lower() not in endings:
            raise _tool_error(
                f"{name!r} must be a file in the folder of this server, with the ending "
                f"{' or '.join(endings)}."
            )
        return path.relative_to(self.folder)

    def _there(self, name: str, endings: tuple[str, ...]) -> Path:
        path = self._inside(name, endings)
        if not (self.folder / path).is_file():
            same = sorted(found.name for found in self.folder.iterdir() if found.suffix in endings)
            listed = ", ".join(same[:20]) or "none"
            raise _tool_error(f"There is no file {name!r}. Files of this kind: {listed}.")
        return path

    def _new(self, name: str, endings: tuple[str, ...]) -> Path:
        path = self._inside(name, endings)
        if (self.folder / path).exists():
            raise _tool_error(f"{name!r} exists, and no file is replaced. Take another name.")
        return path

    async def _run(self, command: str, files: list[Path], **options: Any) -> dict[str, Any]:
        """Run a command, and return its JSON object; its error is that of the tool."""
        import anyio

        given = [
            f"--{name}={value}"
            for name, values in options.items()
            for value in (values if isinstance(values, list) else [values])
            if value is not None
        ]
        # Behind `--`, no name of a file is taken for an option.
        words = ["-m", "lpfuse_cli", command, "--json", *given, "--", *map(str, files)]
        try:
            with anyio.fail_after(self.timeout):
                ended = await anyio.run_process(
                    [sys.executable, *words],
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    check=False,
                )
        except TimeoutError:
            raise _tool_error(
                f"{command} took longer than {self.timeout:g} seconds and was ended. Take fewer "
                "rows, or start the server with a longer --timeout."
            ) from None
        said = ended.stderr.decode(errors="replace").strip()
        try:
            found: dict[str, Any] = json.loads(ended.stdout)
        except ValueError:
            raise _tool_error(said or f"{command} ended with code {ended.returncode}.") from None
        return found


def _tool_error(sentence: str) -> Exception:
    """Return an error whose words reach the assistant."""
    from mcp.server.mcpserver.exceptions import ToolError

    return ToolError(sentence)
