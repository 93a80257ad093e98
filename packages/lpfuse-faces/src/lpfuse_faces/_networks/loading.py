"""A network with its weights, from a file or at random, ready to give features."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from lpfuse._arrays.operations import Array, namespace, new_empty
from lpfuse_faces._extras import needed
from lpfuse_faces._networks.specification import NETWORKS, PRECISIONS
from lpfuse_faces._networks.weights import (
    checked_digest,
    find_weights,
    random_weights,
    read_weights,
)

RANDOM = "random"  # in place of a path: weights that are drawn


class FeatureNetwork:
    """A network that turns spectra into features; `load_network` makes one.

    Attributes
    ----------
    name : str
        "inception", "darknet" or "alexnet".
    size, width : int
        Side of the pictures, and number of features.
    digest : str
        Where the weights are from, and how they are used: "sha256:…" or "random:SEED", with
        " in float16" if they are rounded to that. Features of equal digests differ by
        rounding alone.
    is_random : bool
        Whether the weights were drawn at random, so that the features mean nothing.
    """

    def __init__(
        self, name: str, run: Callable[[Array], Array], source: str, precision: str = "float32"
    ) -> None:
        self.name = name
        self.size, self.width = NETWORKS[name].size, NETWORKS[name].width
        self.is_random = source.startswith(RANDOM)
        self.digest = source if precision == "float32" else f"{source} in {precision}"
        self._run = run

    def __call__(self, images: Array) -> Array:
        """Features of grey pictures.

        Parameters
        ----------
        images : array of shape (n, size, size)
            In [0, 1]; NumPy, or a torch tensor on any device.

        Returns
        -------
        features : float32 array of shape (n, width)
            In the library, and on the device, of the pictures.
        """
        if images.ndim != 3 or images.shape[1:] != (self.size, self.size):
            raise ValueError(
                f"{self.name} takes grey pictures of shape (n, {self.size}, {self.size}); "
                f"an array of shape {tuple(images.shape)} came."
            )
        xp = namespace(images)
        images = xp.astype(images, xp.float32, copy=False)
        if not images.shape[0]:
            return new_empty((0, self.width), images)
        low, high = float(xp.min(images)), float(xp.max(images))
        if not (low >= 0 and high <= 1):
            raise ValueError(
                f"Pictures must lie in [0, 1]; these range from {low:g} to {high:g}. Scale them "
                "first, for instance by spectrum_images."
            )
        features = self._run(images)
        if not bool(xp.all(xp.isfinite(features))):
            raise ValueError(
                f"{self.name} gave features that are not finite ({self.digest}): numbers grew past "
                'what the precision can hold. Use precision="float32".'
            )
        return features


def load_network(
    name: str,
    weights: str | PathLike[str] | None = None,
    *,
    folder: str | PathLike[str] | None = None,
    seed: int = 0,
    device: str = "cpu",
    precision: str = "float32",
    batch_size: int | None = None,
    compiled: bool = False,
) -> FeatureNetwork:
    """Return a network with its weights, ready to give features.

    Parameters
    ----------
    name : {"inception", "darknet", "alexnet"}
        =========  ============  ====  ========  ==============================================
        name       network       side  features  which
        =========  ============  ====  ========  ==============================================
        inception  Inception-v3  299   2,048     last map, averaged over the picture
        darknet    DarkNet-19    256   1,024     last map before the classes, averaged likewise
        alexnet    AlexNet       224   4,096     second connected layer, rectified
        =========  ============  ====  ========  ==============================================
    weights : path or "random", optional
        A file: a state dict of torch (``.pth``) with torchvision's names, darknet's ``.weights``,
        or ``.onnx``. By default the published file, looked for in ``folder``. Nothing is
        downloaded. Random weights, from ``seed``, cost as much time and mean nothing.
    folder : path, optional
        By default the environment variable LPFUSE_WEIGHTS, or ``~/.cache/lpfuse/weights``.
    seed : int, default=0
        Of random weights.
    device : str, default="cpu"
        Where the network runs, in torch's words.
    precision : {"float32", "float16", "bfloat16"}, default="float32"
        Of the arithmetic. On a GPU half precision is several times faster; features then differ
        by up to 0.1 % (float16) or 0.7 % (bfloat16) of the largest. They are float32 in any case.
    batch_size : int, optional
        Pictures that pass through the network together: by default 16, on a GPU 256.
    compiled : bool, default=False
        Whether torch compiles the network when it is first run, which takes seconds and a C
        compiler, and pays off for many pictures: on an H200 in float16 it is 2.4 times as fast.
        Batches then have one size, and the last one is filled up.

    Returns
    -------
    FeatureNetwork

    Notes
    -----
    A file whose name is a published one must have the published SHA-256. No code from a file is
    run: files of torch are read for their weights alone.

    A file of ONNX is run as it is, by onnxruntime on the CPU. It takes pictures of shape
    (n, 3, size, size), normalised as torchvision's transforms do (for DarkNet-19: in [0, 1]), and
    one of its outputs must be the features, so the layer of classes has to be left out before the
    export: ``model.fc = torch.nn.Identity()``, say.
    """
    if name not in NETWORKS:
        raise ValueError(f"name must be one of {', '.join(NETWORKS)}; {name!r} came.")
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}; {precision!r} came.")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch_size must be at least 1; {batch_size} came.")
    network = NETWORKS[name]
    if weights == RANDOM:
        path, source = None, f"{RANDOM}:{seed}"
    else:
        path = find_weights(name, folder) if weights is None else Path(weights).expanduser()
        source = f"sha256:{checked_digest(path)}"
    if path is not None and path.suffix == ".onnx":
        from lpfuse_faces._networks.onnx_network import OnnxNetwork

        return FeatureNetwork(name, OnnxNetwork(path, network, device, precision), source)
    needed("torch", network.title, extra="networks")
    from lpfuse_faces._networks.torch_network import MODULES, TorchNetwork, shapes_of

    shapes = shapes_of(name)
    if path is None:
        state = random_weights(shapes, seed)
    else:
        state = read_weights(path, shapes, MODULES[name].HEAD)
    run = TorchNetwork(name, state, network, device, precision, batch_size, compiled)
    return FeatureNetwork(name, run, source, precision)
