"""What a command can refuse at once, before it imports what takes seconds.

The library checks all of it again, in the same words: here a wrong option need not wait for that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lpfuse.cli._options import STANDARD


def check_there(*tables: Any, model: Any = None) -> None:
    """Refuse tables and a model that are not there.

    Parameters
    ----------
    *tables : path-like or None
        Tables to read; None and ``-`` are no files.
    model : path-like, optional
        A model to read.
    """
    from lpfuse._files import no_file, no_model

    if model is not None:
        path = Path(model).expanduser()
        if not path.exists() or path.is_dir():
            raise FileNotFoundError(no_model(path))
    for table in tables:
        if table is not None and str(table) != STANDARD:
            path = Path(table).expanduser()
            if not path.exists():
                raise FileNotFoundError(no_file(path))


def settled_detectors(
    p: str, false_alarm_rate: float, confidence: float | None = None, detectors: str | None = None
) -> Any:
    """Refuse values of options that no table makes right; the detectors, as the library takes them.

    Parameters
    ----------
    p, false_alarm_rate, confidence, detectors
        As the options of these names.
    """
    from lpfuse._validation.params import (
        check_confidence,
        check_false_alarm_rate,
        check_norm,
        listed_names,
    )

    check_norm(p)
    check_false_alarm_rate(false_alarm_rate)
    check_confidence(confidence)
    return None if detectors is None else listed_names(detectors)
