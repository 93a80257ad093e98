"""Commands of other packages: each a `typer.Typer` under an entry point of ``lpfuse.commands``."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

import typer

GROUP = "lpfuse.commands"


def plugins() -> Iterator[tuple[str, typer.Typer]]:
    """Names and commands of what is installed, or on the path, beside lpfuse; in order of names.

    One that cannot be imported stays in the list, and says why when it is called: a broken plug-in
    must not take the other commands with it.
    """
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            yield entry.name, entry.load()
        except Exception as error:
            yield entry.name, _broken(entry, error)


def _broken(entry: EntryPoint, error: Exception) -> typer.Typer:
    """A command that refuses, whatever it is given."""
    told = f"{type(error).__name__}: {error}"
    command = typer.Typer(help=f"Could not be loaded ({told}).")

    @command.callback(
        invoke_without_command=True,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def refuse() -> None:
        raise ImportError(
            f"The command {entry.name!r} is a plug-in, {entry.value}, that could not be loaded "
            f"({told}). Install its package anew: pip install --upgrade --force-reinstall"
        ) from error

    return command
