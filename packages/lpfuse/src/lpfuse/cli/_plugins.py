"""Commands of other packages: each a `typer.Typer` under an entry point of ``lpfuse.commands``."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

import typer

GROUP = "lpfuse.commands"


def add_plugins(app: typer.Typer) -> None:
    """Add the commands of what is installed, or on the path, beside lpfuse; in order of names.

    One that cannot be imported stays in the list, and says why when it is called: a broken plug-in
    must not take the other commands with it.
    """
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            app.add_typer(entry.load(), name=entry.name)
        except Exception as error:
            _add_broken(app, entry, error)


def _add_broken(app: typer.Typer, entry: EntryPoint, error: Exception) -> None:
    """A command that refuses, whatever it is given."""
    reason = f"{type(error).__name__}: {error}"

    @app.command(
        entry.name,
        help=f"Could not be loaded ({reason}).",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def refuse() -> None:
        raise ImportError(
            f"The command {entry.name!r} is a plug-in, {entry.value}, that could not be loaded "
            f"({reason}). Install its package anew: pip install --upgrade --force-reinstall"
        ) from error
