"""Weight files of the networks: which are known, where they lie, and how they are read.

Nothing is ever downloaded, and no code from a weight file is ever run.
"""

from __future__ import annotations

import hashlib
import os
import pickle  # nosec B403 # for the name of its error
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from io import BufferedReader
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lpfuse_faces._extras import needed
from lpfuse_faces._regular_file import check_stored, open_regular, read_regular

State = dict[str, NDArray[np.float32]]
Shapes = Mapping[str, tuple[int, ...]]

FOLDER_VARIABLE = "LPFUSE_WEIGHTS"
LARGEST = 1 << 30  # bytes of a weight file, four times those of AlexNet, the largest
COUNTER = "num_batches_tracked"  # of batch normalisation, for training alone
SAFE_TORCH = (2, 10)  # before, a crafted file could run code even so: CVE-2026-24747


class KnownFile(NamedTuple):
    """A file that its publishers offer. torchvision's names end in the start of the SHA-256."""

    network: str
    name: str
    url: str
    megabytes: int
    sha256: str = ""


_TORCHVISION = "https://download.pytorch.org/models/"
_DARKNET = "https://pjreddie.com/media/files/"

# For each network, the one to get comes first. Sizes are 4 bytes a number. The author of DarkNet
# publishes no digests: his files are checked by their length.
KNOWN = tuple(
    KnownFile(network, name, site + name, megabytes, sha256)
    for network, site, name, megabytes, sha256 in (
        ("inception", _TORCHVISION, "inception_v3_google-0cc3c7bd.pth", 109, "0cc3c7bd"),
        ("inception", _TORCHVISION, "inception_v3_google-1a9a5a14.pth", 109, "1a9a5a14"),
        ("darknet", _DARKNET, "darknet19.weights", 83, ""),
        ("darknet", _DARKNET, "darknet19_448.weights", 83, ""),
        ("alexnet", _TORCHVISION, "alexnet-owt-7be5be79.pth", 244, "7be5be79"),
        ("alexnet", _TORCHVISION, "alexnet-owt-4df8aa71.pth", 244, "4df8aa71"),
    )
)


def weights_folder(folder: str | PathLike[str] | None = None) -> Path:
    """Return the given folder, else that of LPFUSE_WEIGHTS, else a default.

    Examples
    --------
    >>> import os
    >>> os.environ["LPFUSE_WEIGHTS"] = "/data/weights"
    >>> weights_folder().as_posix()
    '/data/weights'
    >>> del os.environ["LPFUSE_WEIGHTS"]
    >>> weights_folder().parts[-3:]
    ('.cache', 'lpfuse', 'weights')
    """
    if folder is None:
        folder = os.environ.get(FOLDER_VARIABLE) or "~/.cache/lpfuse/weights"
    return Path(folder).expanduser()


def find_weights(network: str, folder: str | PathLike[str] | None = None) -> Path:
    """Return the network's known file in the folder, or an error that says where to get it."""
    place = weights_folder(folder)
    known = [file for file in KNOWN if file.network == network]
    for file in known:
        if (place / file.name).is_file():
            return place / file.name
    best = known[0]
    raise FileNotFoundError(
        f"No weights for {network} in {place}. Download {best.name} (about {best.megabytes} MB) "
        f"from {best.url} and put it there; or set {FOLDER_VARIABLE} to the folder that has it; "
        'or name a file of your own; or ask for weights="random", whose features mean nothing.'
    )


def checked_digest(path: Path, published: Sequence[KnownFile] = KNOWN) -> str:
    """SHA-256 of the file, which must be the published one if the file has a published name."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no weight file {path}.")
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST:
            raise ValueError(
                f"{path} has {size:,} bytes, and weights of the networks here have at most "
                f"{LARGEST:,}. Was another file meant?"
            )
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    for known in published:
        if known.name == path.name and not digest.startswith(known.sha256):
            raise ValueError(
                f"{path} is damaged or not what its name says: its SHA-256 should start with "
                f"{known.sha256} and is {digest}. Download it again from {known.url}; if it is a "
                "file of your own, give it a name of its own."
            )
    return digest


def read_weights(path: Path, shapes: Shapes, unused: tuple[str, ...]) -> State:
    """Return the network's weights from a file of torch or of darknet, by name.

    Parameters
    ----------
    path : Path
        ``.pth`` or ``.pt``: a state dict that torch saved; ``.weights``: darknet's own format.
    shapes : mapping of str to tuple
        What the network needs, in its order of layers.
    unused : tuple of str
        How the names of layers begin that the features do not need: any number of classes will do.
    """
    state: Mapping[str, Any]
    if path.suffix in (".pth", ".pt"):
        state = _read_torch(path)
    elif path.suffix == ".weights":
        state = _read_darknet(path, shapes)
    else:
        raise ValueError(
            "Weights are read from files of torch (.pth, .pt), darknet (.weights) or ONNX (.onnx); "
            f"{path.name} is none of these. Rename it if only its name is at fault."
        )
    return _checked(path, state, shapes, unused)


def random_weights(shapes: Shapes, seed: int) -> State:
    """Weights drawn at random, the same for the same seed on every machine.

    Uniform with variance ``2/m`` where a unit reads m numbers (He et al. 2015), so that signals
    neither fade nor grow through rectified layers; biases are zero, normalisations do nothing.
    """
    rng = np.random.default_rng(seed)
    state: State = {}
    for name, shape in shapes.items():
        if len(shape) > 1:
            bound = np.float32(np.sqrt(6 / np.prod(shape[1:])))
            state[name] = (2 * rng.random(shape, dtype=np.float32) - 1) * bound
        else:
            ones = name.endswith(("bn.weight", "running_var"))
            state[name] = np.full(shape, ones, dtype=np.float32)
    return state


def _read_torch(path: Path) -> dict[str, Any]:
    torch = needed("torch", "Reading .pth files", extra="networks")
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if version < SAFE_TORCH:
        raise ImportError(
            f"torch {torch.__version__} cannot keep a crafted file from running code "
            '(CVE-2026-24747), so no .pth file is read. Update it: pip install "torch>=2.10"'
        )
    try:
        with open_regular(path) as raw, BufferedReader(raw) as file:
            if zipfile.is_zipfile(file):  # else the older format, which is not compressed
                check_stored(file)
            file.seek(0)
            found = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} holds more than weights, and reading it could run code: it is refused. Have "
            "its maker save the weights alone: torch.save(model.state_dict(), path)."
        ) from error
    except Exception as error:  # a damaged file raises whatever its damage leads to
        raise ValueError(f"{path} is damaged, or no file of torch: {error}") from error
    return _tensors_of(path, found)


def _tensors_of(path: Path, found: Any) -> dict[str, Any]:
    """Return a state dict without its counters."""
    wanted = "a state dict was expected: torch.save(model.state_dict(), path)"
    if not isinstance(found, Mapping):
        raise ValueError(f"{path} holds a {type(found).__name__}; {wanted}.")
    strange = [name for name, value in found.items() if not hasattr(value, "detach")]
    if strange:
        raise ValueError(f"{path} holds {_some(strange)}, which are no tensors; {wanted}.")
    return {str(name): value for name, value in found.items() if not str(name).endswith(COUNTER)}


def _numbers(path: Path, name: str, values: Any) -> NDArray[np.float32]:
    """Return an array, or a tensor, as an array.

    Only of the shape that is needed, so it is not larger.
    """
    try:
        plain = values.detach().float().numpy() if hasattr(values, "detach") else values
    except (TypeError, RuntimeError) as error:  # sparse, quantised, or without any values
        raise ValueError(f"{path} does not fit the network: {name} is no plain tensor.") from error
    return np.asarray(plain, dtype=np.float32)


def _read_darknet(path: Path, shapes: Shapes) -> State:
    """Biases, scales, means, variances and weights of each layer, one after the other.

    The header holds three numbers of a version and a count of pictures seen, which has grown from
    32 to 64 bits. After the layers come those of the classifier, if any: 1 + m numbers a class.
    """
    parts = ("bn.bias", "bn.weight", "bn.running_mean", "bn.running_var", "conv.weight")
    layers = [name.removesuffix(".conv.weight") for name in shapes if name.endswith(parts[-1])]
    if not layers or layers != [f"conv{1 + k}" for k in range(len(layers))]:
        raise ValueError(f"{path} is a file of darknet, which only DarkNet-19 can use.")
    numbers = _numbers_of_darknet(path)
    state: State = {}
    start = 0
    for name in (f"{layer}.{part}" for layer in layers for part in parts):
        size = int(np.prod(shapes[name]))
        if start + size > numbers.size:
            raise ValueError(
                f"{path} ends within {name}: its layers need {_total(shapes):,} numbers, and "
                f"{numbers.size:,} came. Download it again, or use a file of DarkNet-19."
            )
        state[name] = numbers[start : start + size].reshape(shapes[name])
        start += size
    a_class = 1 + shapes[f"{layers[-1]}.conv.weight"][0]
    if (numbers.size - start) % a_class:
        raise ValueError(
            f"{path} holds {numbers.size - start:,} numbers after the {start:,} of the layers, "
            f"where a multiple of {a_class:,}, one a class and weight, was expected: it is no file "
            "of DarkNet-19."
        )
    return state


def _numbers_of_darknet(path: Path) -> NDArray[np.float32]:
    content = read_regular(path, LARGEST)
    if len(content) < 12:
        raise ValueError(f"{path} has {len(content)} bytes: too few for a file of darknet.")
    major, minor, _ = (int(number) for number in np.frombuffer(content[:12], "<i4"))
    if not (0 <= major < 1000 and 0 <= minor < 1000):
        raise ValueError(f"{path} is no file of darknet: its version would be {major}.{minor}.")
    start = 12 + (8 if 10 * major + minor >= 2 else 4)
    if (len(content) - start) % 4:
        raise ValueError(
            f"{path} has {len(content):,} bytes, which is no whole number of weights: it is "
            "damaged. Download it again."
        )
    return np.frombuffer(content, "<f4", offset=start).astype(np.float32, copy=False)


def _checked(
    path: Path, state: Mapping[str, Any], shapes: Shapes, unused: tuple[str, ...]
) -> State:
    """Return what the network needs of the file, if it is all there and nothing else is."""
    needs = {name: value for name, value in state.items() if not name.startswith(unused)}
    missing = [name for name in shapes if name not in needs]
    strange = [name for name in needs if name not in shapes]
    if missing or strange:
        raise ValueError(
            f"{path} does not fit the network. Missing: {_some(missing)}; not known to it: "
            f"{_some(strange)}. Names are torchvision's (DarkNet-19: conv1.conv.weight …): was the "
            "file made for another network?"
        )
    for name, shape in shapes.items():
        if tuple(needs[name].shape) != shape:
            raise ValueError(
                f"{path} does not fit the network: {name} should have the shape {shape} and has "
                f"{tuple(needs[name].shape)}."
            )
        needs[name] = _numbers(path, name, needs[name])
        if not np.isfinite(needs[name]).all():
            raise ValueError(f"{path} is damaged: {name} holds numbers that are not finite.")
    return {name: needs[name] for name in shapes}


def _total(shapes: Shapes) -> int:
    return sum(int(np.prod(shape)) for shape in shapes.values())


def _some(names: Iterable[Any]) -> str:
    """Return the first few names."""
    listed = [str(name) for name in names]
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if listed[3:] else "") or "none"
