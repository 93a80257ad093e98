"""Packages that are imported when they are first needed."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any


def needed(package: str, purpose: str, extra: str = "") -> Any:
    """Return the package, or an error that says what to install.

    Examples
    --------
    >>> from lpfuse_faces._extras import needed
    >>> needed("no_such_package", "Reading videos")
    Traceback (most recent call last):
    ImportError: Reading videos needs no_such_package. Install it: pip install "lpfuse-faces"
    """
    try:
        return import_module(package)
    except ImportError as error:
        wanted = f"lpfuse-faces[{extra}]" if extra else "lpfuse-faces"
        raise ImportError(
            f'{purpose} needs {package}. Install it: pip install "{wanted}"'
        ) from error


def session_options(runtime: Any) -> Any:
    """Options of onnxruntime under which a model opens no other file.

    An ONNX file may keep its weights in files that it names. They are no part of its digest, so
    they are looked for in a folder that can hold nothing.
    """
    options = runtime.SessionOptions()
    options.add_session_config_entry(
        "session.model_external_initializers_file_folder_path", os.devnull
    )
    return options
