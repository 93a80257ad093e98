"""Features of the three networks on a GPU: ``python -m research.speed.faces.networks``.

First what users call, `load_network`, on three regions of every frame by all three networks, with
the spectra on the device already: frames a second. Then ways to run each network: precision,
normalisations folded or not, kernels started one by one, recorded as a CUDA graph, or compiled.
Weights are random: they cost as much time as any. Differences are from float32, relative to the
largest feature.
"""

from __future__ import annotations

import json
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import nn

from lpfuse_faces._networks import NETWORKS, load_network
from lpfuse_faces._networks.layers import NormalisedConvolution, fold_normalisations
from lpfuse_faces._networks.torch_network import MODULES, assembled, shapes_of
from lpfuse_faces._networks.weights import State, random_weights
from research.common.machine import cpu_name, environment
from research.common.tables import table
from research.speed.faces import RESULTS

PACKAGES = ("lpfuse", "torch", "numpy", "triton", "torchvision")
REGIONS = 3
GOAL = 2_000  # frames a second
COMPARED = 4  # pictures, in every comparison
LARGEST_BATCH = 512
Record = dict[str, Any]
Tensor = torch.Tensor


class Way(NamedTuple):
    """One way to run a network."""

    precision: str = "float16"
    how: str = "eager"  # or "one kernel", "graph", "compiled"
    folded: bool = True
    tf32: bool = False
    batch: int = 256


WAYS = (
    Way("float32", folded=False),
    Way("float32"),
    Way("float32", tf32=True),
    Way("bfloat16"),
    Way(folded=False),
    Way(),
    Way(batch=512),
    Way(how="one kernel"),
    Way(how="graph"),
    Way(how="compiled"),
)
TOGETHER = (  # precision, batch, compiled
    ("float32", 256, False),
    ("float16", 256, False),
    ("float16", 512, False),
    ("float16", 256, True),
    ("float16", 512, True),
)


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"))
    parser.add_argument("--output", type=Path, default=RESULTS / "networks.json")
    parser.add_argument("--networks", nargs="+", choices=tuple(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--quick", action="store_true", help="two pictures: does everything work?")
    options = parser.parse_args()
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    on_gpu = device == "cuda"
    if not on_gpu:
        print("No CUDA device is used: few pictures, on the CPU. The goal is a GPU's.")
    small = options.quick or not on_gpu
    result = {
        "environment": environment(
            torch.get_num_threads(),
            PACKAGES,
            device=torch.cuda.get_device_name() if on_gpu else cpu_name(),
            cuda=torch.version.cuda,
        ),
        "agreement": [agreement(name, device) for name in options.networks],
        "together": [
            together(options.networks, device, *way, frames=2 if small else 1024)
            for way in ([("float32", 2, False)] if small else TOGETHER)
        ],
        "ways": [
            measured(name, way._replace(batch=2) if small else way, device, 1 if small else 10)
            for way in WAYS  # the daring ones last: what breaks a GPU breaks all that follows
            if on_gpu or possible_on_cpu(way)
            for name in options.networks
        ],
    }
    print(f"\n{pages(result)}")
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {options.output}")


def together(
    names: list[str], device: str, precision: str, batch: int, compiled: bool, frames: int
) -> Record:
    """What `load_network` gives: all networks, on the regions of all frames."""
    networks = [
        load_network(
            name,
            "random",
            device=device,
            precision=precision,
            batch_size=batch,
            compiled=compiled,
        )
        for name in names
    ]
    spectra = {
        network.size: pictures(REGIONS * frames, network.size, device) for network in networks
    }

    def once() -> None:
        for network in networks:
            network(spectra[network.size])

    seconds = seconds_of(once, device, repeats=3)
    record = {"precision": precision, "batch": batch, "compiled": compiled}
    return told({**record, "frames_a_second": frames / seconds})


def measured(name: str, way: Way, device: str, repeats: int) -> Record:
    """Pictures a second, and how far the features are from float32; a failure is recorded."""
    record: Record = {"network": name, **way._asdict()}
    x = normalised_noise(NETWORKS[name].size, device)[: way.batch]
    try:
        with settings(way), torch.inference_mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = runner(name, way, x)
            start = perf_counter()
            features = run().float()  # compiled before the clock starts
            wait(device)
            record["first_seconds"] = perf_counter() - start
            record["pictures_a_second"] = way.batch / seconds_of(run, device, repeats)
        record["difference"] = difference(features, exact_features(name, device))
    except Exception as error:
        record["error"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    if device == "cuda":
        torch.cuda.empty_cache()
    return told(record)


def runner(name: str, way: Way, x: Tensor) -> Callable[[], Tensor]:
    """The network, prepared to run on x in this way."""
    module = assembled(name, state_of(name))
    if way.folded:
        fold_normalisations(module)
    if way.how == "one kernel":
        fuse(module)
    dtype = getattr(torch, way.precision)
    module = module.to(x.device, dtype).to(memory_format=torch.channels_last)
    x = x.to(dtype, memory_format=torch.channels_last)
    if way.how == "compiled":
        torch.compiler.reset()
        module = torch.compile(module, fullgraph=True)
    if way.how != "graph":
        return lambda: module(x)
    return recorded(module, x)


def recorded(module: nn.Module, x: Tensor) -> Callable[[], Tensor]:
    """All kernels of a pass as one CUDA graph, started at once."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            module(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        features = module(x)

    def replay() -> Tensor:
        graph.replay()
        return features

    return replay


def fuse(module: nn.Module) -> None:
    """Convolution, bias and rectifier by one kernel of cuDNN, where the rectifier is not leaky."""

    def fused(conv: nn.Conv2d) -> Callable[[Tensor], Tensor]:
        return lambda x: torch.cudnn_convolution_relu(
            x, conv.weight, conv.bias, conv.stride, conv.padding, conv.dilation, conv.groups
        )

    for layer in module.modules():
        if isinstance(layer, NormalisedConvolution) and isinstance(layer.activation, nn.ReLU):
            layer.forward = fused(layer.conv)


@contextmanager
def settings(way: Way) -> Iterator[None]:
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=way.tf32):
        yield


def possible_on_cpu(way: Way) -> bool:
    return way.how == "eager" and way.precision != "float16" and not way.tf32


def agreement(name: str, device: str) -> Record:
    """Pictures in float32: the device against the CPU, and our network against torchvision's.

    torchvision knows no DarkNet-19; where it is not installed there is nothing to compare with.
    """
    reference = exact_features(name, "cpu")
    x = normalised_noise(NETWORKS[name].size, "cpu").to(device)
    record: Record = {
        "network": name,
        "device": difference(features_in_float32(name, x), reference),
    }
    if name != "darknet":
        try:
            record["torchvision"] = from_torchvision(name, x[:2].cpu())
        except Exception as error:
            record["torchvision"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return told(record)


def from_torchvision(name: str, x: Tensor) -> float:
    """How far class scores of our network are from torchvision's, which loads our state dict."""
    from torchvision import models

    theirs = (
        models.inception_v3(init_weights=False, transform_input=True)
        if name == "inception"
        else models.alexnet()
    )
    ours = MODULES[name](classes=1000)
    weights = random_weights({k: tuple(v.shape) for k, v in ours.state_dict().items()}, seed=1)
    state = {key: torch.from_numpy(value) for key, value in weights.items()}
    assert not ours.load_state_dict(state, strict=False).missing_keys
    left_out = theirs.load_state_dict(state, strict=False)
    counters = [key for key in left_out.missing_keys if key.endswith("num_batches_tracked")]
    assert counters == left_out.missing_keys
    assert not left_out.unexpected_keys
    with torch.inference_mode():
        return difference(ours.eval()(x), theirs.eval()(x))


@cache
def exact_features(name: str, device: str) -> Tensor:
    """Of the first pictures, on the host, to compare with."""
    x = normalised_noise(NETWORKS[name].size, device)
    return features_in_float32(name, x)


def features_in_float32(name: str, x: Tensor) -> Tensor:
    """One kernel after the other, normalisations as they are."""
    way = Way("float32", folded=False)
    with settings(way), torch.inference_mode():
        return runner(name, way, x[:COMPARED])().cpu()


@cache
def state_of(name: str) -> State:
    return random_weights(shapes_of(name), seed=0)


def difference(found: Tensor, reference: Tensor) -> float:
    n = min(len(found), len(reference))
    found, reference = found[:n].cpu(), reference[:n]
    return float((found - reference).abs().max() / reference.abs().max())


def pictures(n: int, size: int, device: str) -> Tensor:
    """Noise with a slope across the picture, in [0, 1]."""
    generator = torch.Generator("cpu").manual_seed(0)
    noise = torch.rand((COMPARED, size, size), generator=generator).to(device)
    repeated = noise.repeat(-(-n // COMPARED), 1, 1)[:n]
    return (repeated + torch.linspace(0, 1, size, device=device)) / 2


def normalised_noise(size: int, device: str) -> Tensor:
    n = LARGEST_BATCH if device == "cuda" else COMPARED
    return (4 * pictures(n, size, device) - 2)[:, None].expand(-1, 3, -1, -1)


def seconds_of(action: Callable[[], Any], device: str, repeats: int) -> float:
    """Seconds of one call, in a row of several, after one that is not counted."""
    action()
    wait(device)
    start = perf_counter()
    for _ in range(repeats):
        action()
    wait(device)
    return (perf_counter() - start) / repeats


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def told(record: Record) -> Record:
    print(json.dumps(record), flush=True)
    return record


def pages(result: Record) -> str:
    ways = []
    for r in result["ways"]:
        extras = [name for name in ("folded", "tf32") if r[name]]
        asked = [r["network"], r["precision"], r["how"], ", ".join(extras), str(r["batch"])]
        if "error" in r:
            ways.append([*asked, r["error"], "", ""])
            continue
        rate = f"{r['pictures_a_second']:,.0f}"
        ways.append([*asked, rate, f"{r['first_seconds']:.1f}", f"{r['difference']:.1e}"])
    head = ["network", "precision", "how", "with", "batch", "pictures / s", "first s", "difference"]
    sums = [
        [
            r["precision"],
            str(r["batch"]),
            "yes" if r["compiled"] else "no",
            f"{r['frames_a_second']:,.0f}",
            f"{GOAL:,}",
        ]
        for r in result["together"]
    ]
    agreed = [
        [r["network"], f"{r['device']:.1e}", _told(r.get("torchvision", "–"))]
        for r in result["agreement"]
    ]
    return "\n".join(
        [
            table(["network", "GPU against CPU", "ours against torchvision's"], agreed),
            "All networks on three regions, as `load_network` gives them:\n",
            table(["precision", "batch", "compiled", "frames / s", "goal"], sums),
            "Each network by itself:\n",
            table(head, ways),
        ]
    )


def _told(found: float | str) -> str:
    return found if isinstance(found, str) else f"{found:.1e}"


if __name__ == "__main__":
    main()
