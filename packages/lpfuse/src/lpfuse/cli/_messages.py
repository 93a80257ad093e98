"""Errors of the library as sentences of the command line: parameters become options."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Mapping
from typing import Any

import typer

from lpfuse._format import brief, plain

# Parameters of the API, and of commands, that mean the same under two names.
SYNONYMS = {"random_state": "seed", "n_jobs": "jobs", "trusted": "trust", "high": "direction"}
# What the API calls by a method, and the command line by a command.
METHODS = {"TableModel.fit": "`lpfuse fit`", "TableModel.fuse": "`lpfuse fuse`"}
_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ARGUMENT = re.compile(
    # What a user wrote comes in quotes, and stays as it is; an apostrophe has a letter before it.
    rf"(?<!\w)(?:{_TEXT})"
    # name= and a text, a list of texts, a column and its kind, a placeholder in capitals, a number,
    # or nothing
    rf"|(?<![\w-])([a-z]\w*)=({_TEXT}|\[(?:{_TEXT})(?:, (?:{_TEXT}))*\]"
    rf"|\{{(?:{_TEXT}): (?:{_TEXT})\}}|[A-Z]+\b|[\d.]+\b|)"
)
_SUBJECT = re.compile(r"(?:^|(?<=[.:] ))([a-z]\w*)(?= must )")  # "p must be …", as checks write


def options_of(command: Any) -> dict[str, str]:
    """Parameters of a command, or of all commands of a group, and what their options are called."""
    if command is None:
        return {}
    found = {
        parameter.name: max(parameter.opts, key=len)
        for parameter in command.params
        if parameter.opts[0].startswith("-")
    }
    for part in getattr(command, "commands", {}).values():
        found |= options_of(part)
    return found


def in_options(text: str, options: Mapping[str, str]) -> str:
    """A message of the library in words of the command line: parameters become options.

    Parameters
    ----------
    text : str
        Where it names parameters, it does so as Python code does, or begins a sentence with one.
    options : mapping of str: str
        Parameters of the command, and its options, see `options_of`.

    Examples
    --------
    >>> options = {"drop": "--drop", "normal": "--normal", "p": "--p", "trust": "--trust"}
    >>> in_options("Leave it out: drop=['the site', 'when'], or say normal='ok'.", options)
    "Leave it out: --drop 'the site' --drop when, or say --normal ok."
    >>> in_options("p must be at least 1.", options), in_options("Pass trusted=['a.B'].", options)
    ('--p must be at least 1.', 'Pass --trust a.B.')
    >>> in_options("There is no column 'a drop=b'; keep= is not known.", options)
    "There is no column 'a drop=b'; keep= is not known."
    """

    def option(match: re.Match[str]) -> str:
        name = options.get(SYNONYMS.get(match[1], match[1]))
        if name is None:
            return match[0]
        value = match[2] if match.re is _ARGUMENT else ""
        if value[:1] in {"'", '"', "[", "{"}:
            values = ast.literal_eval(value)
            values = [f"{k}={v}" for k, v in values.items()] if value[0] == "{" else values
            values = [values] if isinstance(values, str) else values
            return " ".join(f"{name} {shlex.quote(each)}" for each in values)
        return f"{name} {value}".rstrip()

    text = _ARGUMENT.sub(option, _SUBJECT.sub(option, text))
    for method, called in METHODS.items():
        text = text.replace(method, called)
    return text


def complain(error: BaseException, options: Mapping[str, str] | None = None) -> None:
    """Say on stderr what went wrong; `options` as in `in_options`."""
    typer.secho(brief(in_options(sentence(error), options or {})), fg="red", err=True)


def exit_code(error: BaseException) -> int | None:
    """How a command ends that raised this; None where a sentence would not do.

    Parameters
    ----------
    error : BaseException
        What was raised.

    Examples
    --------
    >>> exit_code(ValueError("p must be at least 1")), exit_code(OSError("no space left"))
    (2, 1)
    """
    from concurrent.futures import BrokenExecutor

    match error:
        case KeyboardInterrupt():
            return 130
        case BrokenPipeError():  # `lpfuse … | head`: the command line knows what to do
            return None
        case ImportError():
            return 2 if "pip install" in str(error) else None
        case ValueError() | FileNotFoundError() | PermissionError():
            return 2
        case FileExistsError() | NotADirectoryError() | IsADirectoryError():
            return 2
        case OSError() | MemoryError() | BrokenExecutor():
            return 1
    return None


def sentence(error: BaseException) -> str:
    """An error in words, with the notes that it carries.

    Parameters
    ----------
    error : BaseException
        What was raised.

    Examples
    --------
    >>> sentence(PermissionError(13, "Permission denied", "results"))
    'Error: Permission denied: results.'
    """
    match error:
        case KeyboardInterrupt():
            words = "Interrupted"
        case OSError(strerror=str(reason), filename=name) if name is not None:
            words = f"Error: {reason}: {plain(name)}"
        case MemoryError():
            words = "Error: The memory is not enough"
        case _:
            words = f"Error: {error}".rstrip()
    words = words if words.endswith((".", "!", "?", ")", '"')) else f"{words}."
    return " ".join([words, *getattr(error, "__notes__", [])])
