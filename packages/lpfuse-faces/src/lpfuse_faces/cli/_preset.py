"""What ``--preset paper`` looks at: all frames, through the networks that are at hand."""

from __future__ import annotations

import warnings
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from lpfuse_faces import Settings

STAND_IN = "azimuthal"  # needs no weights


def check_preset(preset: str) -> None:
    """Refuse, before any work, a name that is none."""
    from lpfuse._validation.params import check_choice
    from lpfuse_faces.evaluation._presets import PRESETS

    check_choice("--preset", preset, tuple(PRESETS))


def preset_settings(preset: str, ctx: typer.Context, settings: Settings) -> Settings:
    """Return how videos are read; what an option has said stays as it is.

    The paper looks at all frames, through three networks. Those without weights, or without torch
    to run them, are named and left out; if that is all of them, azimuthal profiles stand in.
    """
    from lpfuse_faces import Sampling
    from lpfuse_faces._networks import NETWORKS

    if preset != "paper":
        return settings
    changes: dict[str, Any] = {}
    if not _is_given(ctx, "frames", "every"):
        changes["sampling"] = Sampling(every=1)
    if not _is_given(ctx, "features"):
        lacking = {name: why for name in NETWORKS if (why := _lacks(name, settings))}
        there = tuple(name for name in NETWORKS if name not in lacking)
        changes["features"] = there or (STAND_IN,)
        if lacking:
            told = "; ".join(
                f"{', '.join(name for name in lacking if lacking[name] == why)}: {why}"
                for why in dict.fromkeys(lacking.values())
            )
            instead = "" if there else " Azimuthal profiles stand in for them."
            warnings.warn(
                f"Networks of the paper are left out ({told}).{instead} "
                "`lpfuse faces extract --features NAME` says where to get weights.",
                UserWarning,
                stacklevel=2,
            )
    return replace(settings, **changes)


def _is_given(ctx: typer.Context, *names: str) -> bool:
    """Return whether one of the options is on the command line, or in the environment."""
    sources = [ctx.get_parameter_source(name) for name in names]
    return any(source is not None and source.name != "DEFAULT" for source in sources)


def _lacks(network: str, settings: Settings) -> str:
    """Why a network cannot be run; nothing where it can."""
    from lpfuse_faces._networks.weights import find_weights, weights_folder

    place = settings.weights.get(network)
    if place is None:
        try:
            place = find_weights(network)
        except FileNotFoundError:
            return f"no weights in {weights_folder(None)}"
    if Path(place).suffix != ".onnx" and find_spec("torch") is None:
        return "torch is not installed"
    return ""
