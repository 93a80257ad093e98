"""Atomic writing of files, JSON values, versions, and messages about files."""

from __future__ import annotations

import math
import os
import platform
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from glob import escape, glob
from importlib import import_module
from importlib.metadata import entry_points, version
from numbers import Integral, Real
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, ClassVar, TypeVar
from uuid import uuid4

from lpfuse._compiled import solver_core
from lpfuse._format import plain, quote

# --------------------------------------------------------------------------------------------------
# Registry of the classes that saved files may hold, under names that never change.
#
# A class is registered where it is defined, so that it can be renamed or moved without affecting
# saved files. Files refer to classes by these names only.


Class = TypeVar("Class", bound=type)

# Modules that register classes. They are imported when a file names a class that is not registered
# yet: `import lpfuse` imports none of them.
REGISTERING_MODULES = (
    "adapters", "detectors", "ensemble", "frames", "fusion", "monitor", "multiclass", "optim",
    "paper", "scaling", "selection", "time", "views",
)  # fmt: skip
GROUP = "lpfuse.saved"  # entry points of other packages: modules that register classes

# Allowed strings of a parameter. With an ellipsis at the end the parameter may also be a list of
# any strings, such as column names; `ANY` allows any string, which must be a name or a sentence: no
# code of the class may use it as a path, a method or an option.
Words = Collection[Any]
ANY: Words = (str,)

# Classes and attributes of earlier versions, which are ignored on loading. Names of classes are
# never reused. Some attributes invalidate others: weights that were updated after the fit have no
# certificate. Nor are the names of fusions that left the library reused (CosineSimilarity,
# DecisionTemplates, DynamicEnsemble, ExhaustiveWeights, GeneticWeights, IterativeEnsemble,
# LocalLpFusion, SwarmWeights), nor that of random Fourier features (Waves): a model cannot score
# without these, so files that name them are refused, as those of an unknown class are.
FORMER_CLASSES = frozenset((
    "FollowedRows", "GradientLearner", "LabelledWindow", "OnlineWeights", "QuantileSketch",
    "RunningQuantiles", "SafeMixture",
))  # fmt: skip
FORMER_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "extremes_": (),
    "following_": (),
    "max_values": (),
    "n_samples_seen_": (),
    "online_": ("certificate_",),
    "running_": (),
}

_CLASSES: dict[str, type] = {}
_NAMES: dict[type, str] = {}
_WORDS: dict[type, dict[str, Words]] = {}


def saved_as(name: str, /, **words: Words) -> Callable[[Class], Class]:
    """Register a class, so that `lpfuse.io` can save and load its instances.

    Instances are restored from their attributes, ``vars(instance)``, without running a
    constructor.

    Parameters
    ----------
    name : str
        Name of the class in files. Never change it, and never give it to another class.
    **words : collection of str
        For each parameter that can be a string, the allowed strings; see `Words`. A file with any
        other raises an error. Subclasses inherit them.

    Examples
    --------
    >>> @saved_as("an example", side=("left", "right"))
    ... class Example:
    ...     pass
    >>> saved_name(Example), class_saved_as("an example") is Example
    ('an example', True)
    """

    def register(cls: Class) -> Class:
        known = _CLASSES.get(name)
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise ValueError(
                f"{cls.__qualname__} cannot be saved as {name!r}: that is the name of "
                f"{known.__qualname__}. Give it one of its own."
            )
        _CLASSES[name], _NAMES[cls], _WORDS[cls] = cls, name, words
        return cls

    return register


class FieldsOnlyState:
    """A dataclass whose copies hold only its fields, without cached properties."""

    def __getstate__(self) -> dict[str, Any]:
        names = {field.name for field in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in vars(self).items() if name in names}


class NotBelowZero:
    """A dataclass with fields that are never negative: when it is made, and when it is loaded."""

    not_below_zero: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        wrong = {name: getattr(self, name) for name in self.not_below_zero}
        wrong = {name: value for name, value in wrong.items() if value < 0.0}
        if wrong:
            raise ValueError(
                f"{type(self).__name__} claims {wrong}; expected figures of at least 0."
            )


def saved_name(cls: type) -> str | None:
    """Return the name of a class in files; None where it is not registered."""
    return _NAMES.get(cls)


def class_saved_as(name: str) -> type | None:
    """Return the class with that name in files; None where no installed package registers it."""
    if name not in _CLASSES:
        register_all()
    return _CLASSES.get(name)


def words_of(cls: type) -> dict[str, Words]:
    """Return the allowed strings of the parameters of a registered class."""
    found: dict[str, Words] = {}
    for base in reversed(cls.__mro__):
        found |= _WORDS.get(base, {})
    return found


def saved_classes() -> dict[str, type]:
    """Return all registered classes by their names in files."""
    return dict(_CLASSES)


def register_all() -> None:
    """Import every module that registers classes, of lpfuse and of other installed packages."""
    for module in REGISTERING_MODULES:
        import_module(f"lpfuse.{module}")
    for entry in entry_points(group=GROUP):
        entry.load()


# --------------------------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """Return the versions that results depend on: lpfuse, Python, libraries, solver core.

    Examples
    --------
    >>> list(versions())
    ['lpfuse', 'python', 'numpy', 'scipy', 'scikit-learn', 'solver core']
    """
    return {
        "lpfuse": version("lpfuse"),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
        "solver core": solver_core(),
    }


def missing_file_message(path: Any) -> str:
    """Return the message for a missing table."""
    return f"There is no file {quote(str(path))}. Check its path."


def missing_model_message(path: Any) -> str:
    """Return the message for a missing model."""
    return f"There is no model {quote(str(path))}. FusedDetector.save makes one."


@contextmanager
def replacing(path: Any) -> Iterator[IO[bytes]]:
    """Write a file atomically: yield a temporary file that replaces `path` when the block ends.

    After an error, an interruption or a signal the former file is unchanged and no temporary file
    is left. A replaced file keeps its mode, owner and group. Devices and pipes raise an error.
    """
    target = os.path.realpath(path)
    there = os.path.exists(target)
    if there and not os.path.isfile(target):
        raise FileExistsError(f"{plain(path)} is not a regular file and cannot be replaced.")
    unfinished = f"{target}.{uuid4().hex}.tmp"
    # Readable by the owner only until it gets the mode of the file that it replaces.
    mode = 0o600 if there else 0o666
    with _remove_on_signals(unfinished):
        try:
            with open(unfinished, "xb", opener=lambda p, flags: os.open(p, flags, mode)) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if there:
                _copy_permissions(target, unfinished)
            os.replace(unfinished, target)
        except BaseException:
            _remove(unfinished)
            raise


def _copy_permissions(source: str, path: str) -> None:
    """Copy mode, owner and group of a file; no group gains permissions."""
    status = os.stat(source)
    mode = stat.S_IMODE(status.st_mode)
    if hasattr(os, "chown"):  # not on Windows
        try:
            os.chown(path, status.st_uid, status.st_gid)
        except OSError:
            mode &= 0o777 if os.stat(path).st_gid == status.st_gid else 0o707
    os.chmod(path, mode)


@contextmanager
def _remove_on_signals(unfinished: str) -> Iterator[None]:
    """Let SIGTERM and SIGHUP remove the unfinished file before they end the process.

    A separate thread removes it, because Python's handlers wait for the main thread, which may be
    in compiled code. The exit code is 128 plus the signal number, as in shells. Nothing is done
    where the program handles a signal itself, outside the main thread (Python sets handlers only
    there), or without threads (in a browser).
    """
    main = threading.current_thread() is threading.main_thread()
    main = main and sys.platform not in ("emscripten", "wasi")
    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    ours = [each for each in known if main and signal.getsignal(each) is signal.SIG_DFL]
    if not ours:
        yield
        return
    numbers, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def watch() -> None:
        while number := os.read(numbers, 1)[0]:  # 0: the file is complete
            if number in ours:
                _remove(unfinished)
                os._exit(128 + number)

    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for each in ours:
        signal.signal(each, lambda *_: None)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)
        signal.set_wakeup_fd(before)
        os.write(write_end, b"\0")
        watcher.join()  # a signal that came before still ends the process
        os.close(numbers)
        os.close(write_end)


def _remove(unfinished: str) -> None:
    """Remove a file or folder, and all paths that start with its name."""
    for path in glob(f"{escape(unfinished)}*"):
        with suppress(OSError):
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def check_writable(path: str | Path, sources: Iterable[str | Path] = ()) -> None:
    """Raise, before any work, where a file cannot or should not be written.

    Parameters
    ----------
    path : str or path
        The file to write.
    sources : iterable of path
        Input files, which must not be overwritten.
    """
    path = Path(path).expanduser()
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {quote(str(folder))}. Make it, or name another."
        )
    if path.exists() and not path.is_file():
        raise ValueError(f"{quote(str(path))} is there, and is no file. Name another.")
    for source in map(Path, sources):
        if path.exists() and source.exists() and path.samefile(source):
            raise ValueError(f"{quote(str(path))} is read, so it cannot be written. Name another.")
    try:
        # Permissions are not enough: the disk may be full or read-only. The file has no name where
        # the system allows it, so that nothing is left when the process is killed here.
        TemporaryFile(dir=folder, prefix=".").close()
    except OSError as error:
        reason = f"Nothing can be written to {quote(str(folder))}: {error.strerror}."
        raise type(error)(f"{reason} Name another folder, or ask for access to it.") from error


class WriteError(OSError):
    """A write failed; the message says why and what to do."""


@contextmanager
def write_errors(name: str, *kinds: type[Exception]) -> Iterator[None]:
    """Convert errors of writing to `WriteError` with a message of one sentence.

    Parameters
    ----------
    name : str
        Name of the file.
    *kinds : type of exception
        Exceptions that a library raises in place of an OSError.
    """
    refused: tuple[type[Exception], ...] = (OSError, *kinds)
    try:
        yield
    except (BrokenPipeError, WriteError):  # `lpfuse … | head`; or converted already
        raise
    except refused as error:
        # polars: "… error: File too large (os error 27)"
        text = str(error).rpartition("error: ")[2].partition(" (os error")[0]
        reason = getattr(error, "strerror", None) or text
        raise WriteError(
            f"{plain(name)} could not be written: {reason}. No partial file is left; free disk "
            "space, or choose another folder, and try again."
        ) from error


@contextmanager
def state_errors(owner: Any) -> Iterator[None]:
    """Convert errors that the state of an object causes, which may be from a file.

    Parameters
    ----------
    owner : object
        Whose state it is.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"The state of this {type(owner).__name__} is damaged, or does not fit what it was "
            f"given ({type(error).__name__}: {error!s:.200}). Restore its file from a copy, or "
            "begin a new one."
        ) from error


def as_json(value: Any, *, infinite: bool = True) -> Any:
    """Convert a value to JSON types; JSON has neither NaN nor infinity.

    Parameters
    ----------
    value : object
        A number, string, boolean or None, of Python or NumPy, or arrays, lists and mappings of
        these.
    infinite : bool, default=True
        Whether infinity becomes ``"inf"``, which ``float`` reads; if not, it becomes None, as NaN
        always does.

    Examples
    --------
    >>> as_json({"p": float("inf"), "gap": float("nan"), "passes": (3, 4)})
    {'p': 'inf', 'gap': None, 'passes': [3, 4]}
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        if math.isinf(number):
            return str(number) if infinite else None
        return None if math.isnan(number) else number
    if hasattr(value, "tolist"):  # arrays, booleans and strings of NumPy and its relatives
        return as_json(value.tolist(), infinite=infinite)
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {str(key): as_json(item, infinite=infinite) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item, infinite=infinite) for item in value]
    raise TypeError(
        "Results hold numbers, strings, booleans, None, and lists or dicts of those; got "
        f"{quote(value)} of type {type(value).__name__}."
    )
