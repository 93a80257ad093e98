"""The networks are the published ones, agree with onnxruntime, and are loaded with care."""

import struct
import subprocess
import sys
import warnings

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

from face_oracles.networks import BY_HAND, MIXED
from lpfuse_faces._networks import NETWORKS, FeatureNetwork, load_network
from lpfuse_faces._networks.layers import NormalisedConvolution, fold_normalisations
from lpfuse_faces._networks.torch_network import MODULES, assembled, shapes_of
from lpfuse_faces._networks.weights import find_weights, random_weights

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
PLAIN = ([0, 0, 0], [1, 1, 1])
NORMALISATION = {"inception": IMAGENET, "darknet": PLAIN, "alexnet": IMAGENET}


# What was published


def whole(name):
    """The network with its classes, as shapes alone."""
    with torch.device("meta"):
        return MODULES[name](classes=1000).to("meta")


@pytest.fixture(scope="module", params=list(NETWORKS))
def published(request):
    return request.param, whole(request.param)


def test_parameters_are_as_many_as_published(published):
    name, module = published
    # torchvision's figures; DarkNet-19 from the table of its paper, with scale and bias a channel.
    table = [
        (3, 32, 3), (32, 64, 3), (64, 128, 3), (128, 64, 1), (64, 128, 3), (128, 256, 3),
        (256, 128, 1), (128, 256, 3), (256, 512, 3), (512, 256, 1), (256, 512, 3), (512, 256, 1),
        (256, 512, 3), (512, 1024, 3), (1024, 512, 1), (512, 1024, 3), (1024, 512, 1),
        (512, 1024, 3),
    ]  # fmt: skip
    darknet = sum(out * (inputs * side**2 + 2) for inputs, out, side in table) + 1000 * 1025
    assert darknet == 20_842_376
    expected = {"inception": 27_161_264, "darknet": darknet, "alexnet": 61_100_840}
    assert sum(parameter.numel() for parameter in module.parameters()) == expected[name]


def test_layers_are_as_many_as_published(published):
    name, module = published
    kinds = (torch.nn.Conv2d, torch.nn.Linear)
    found = [sum(isinstance(each, kind) for each in module.modules()) for kind in kinds]
    # Inception-v3: 94 convolutions and 1 layer of classes, and 2 and 1 for the second classifier.
    assert found == {"inception": [96, 2], "darknet": [19, 0], "alexnet": [5, 3]}[name]


@pytest.mark.slow
def test_products_are_as_many_as_published():
    # torchvision's tables, in 10⁹; DarkNet-19's paper counts both operations, at 224×224.
    for name, size, billions in (
        ("inception", 299, 5.713),
        ("alexnet", 224, 0.714),
        ("darknet", 224, 5.58 / 2),
    ):
        module = whole(name)
        products = []

        def count(layer, inputs, output, products=products):
            products.append(output[0].numel() * layer.weight[0].numel())

        for layer in module.modules():
            if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
                layer.register_forward_hook(count)
        assert module(torch.empty(2, 3, size, size, device="meta")).shape == (2, 1000)
        assert sum(products) / 1e9 == pytest.approx(billions, rel=2e-3)


def test_maps_are_as_large_as_published():
    module = MODULES["inception"](classes=None).to("meta")
    seen = {}
    for name, layer in module.named_children():
        layer.register_forward_hook(
            lambda _, __, output, name=name: seen.__setitem__(name, tuple(output.shape[1:]))
        )
    assert module(torch.empty(1, 3, 299, 299, device="meta")).shape == (1, 2048)
    assert seen["Conv2d_1a_3x3"] == (32, 149, 149)
    assert seen["Conv2d_2b_3x3"] == (64, 147, 147)
    assert seen["Conv2d_4a_3x3"] == (192, 71, 71)
    assert seen["Mixed_5b"] == (256, 35, 35)
    assert seen["Mixed_5d"] == (288, 35, 35)
    assert seen["Mixed_6e"] == (768, 17, 17)
    assert seen["Mixed_7a"] == (1280, 8, 8)
    assert seen["Mixed_7c"] == (2048, 8, 8)
    darknet = MODULES["darknet"](classes=None).to("meta")
    sizes = []
    darknet.pool.register_forward_hook(lambda _, __, output: sizes.append(output.shape[-1]))
    assert darknet(torch.empty(1, 3, 256, 256, device="meta")).shape == (1, 1024)
    assert sizes == [128, 64, 32, 16, 8]


def test_names_are_those_of_torchvision():
    shapes = {name: tuple(value.shape) for name, value in whole("inception").state_dict().items()}
    stem = ("Conv2d_1a_3x3", "Conv2d_2a_3x3", "Conv2d_2b_3x3", "Conv2d_3b_1x1", "Conv2d_4a_3x3")
    layers = [*stem, "AuxLogits.conv0", "AuxLogits.conv1"]
    for block, branches in MIXED.items():
        words = branches.replace("|", " ").replace("/2", "").split()
        layers += [f"{block}.{word}" for word in words if word.startswith("branch")]
    parts = ("conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var")
    named = {f"{layer}.{part}" for layer in layers for part in parts}
    assert set(shapes) == named | {
        f"{fc}.{part}" for fc in ("fc", "AuxLogits.fc") for part in ("weight", "bias")
    }
    for layer, shape in {
        "Mixed_5b.branch_pool": (32, 192, 1, 1),
        "Mixed_6b.branch7x7_2": (128, 128, 1, 7),
        "Mixed_6b.branch7x7_3": (192, 128, 7, 1),
        "Mixed_6c.branch7x7dbl_2": (160, 160, 7, 1),
        "Mixed_6e.branch7x7dbl_5": (192, 192, 1, 7),
        "Mixed_7a.branch7x7x3_2": (192, 192, 1, 7),
        "Mixed_7a.branch7x7x3_3": (192, 192, 7, 1),
        "Mixed_7b.branch3x3_2a": (384, 384, 1, 3),
        "Mixed_7c.branch3x3dbl_3b": (384, 384, 3, 1),
    }.items():
        assert shapes[f"{layer}.conv.weight"] == shape
    alexnet = whole("alexnet").state_dict()
    layers = [f"features.{k}" for k in (0, 3, 6, 8, 10)] + [f"classifier.{k}" for k in (1, 4, 6)]
    assert list(alexnet) == [f"{layer}.{part}" for layer in layers for part in ("weight", "bias")]


# Published activations, for who has the weights


def test_inception_gives_the_published_activation():
    """The first class of a picture of ones: torchvision's network, as mlverse/torchvision tests it.

    Only runs where LPFUSE_WEIGHTS holds torchvision's file.
    """
    try:
        path = find_weights("inception")
    except FileNotFoundError:
        pytest.skip("the weights of Inception-v3 are not at hand")
    module = MODULES["inception"](classes=1000).eval()
    state = torch.load(path, weights_only=True)
    assert not module.load_state_dict(state, strict=False).missing_keys
    with torch.inference_mode():
        scores = module(torch.ones(2, 3, 299, 299))
    assert float(scores[0, 0]) == pytest.approx(0.18005197, rel=5e-5)


# Agreement with onnxruntime


def trained_like(name):
    """Random weights whose normalisations have something to do."""
    state = random_weights(shapes_of(name), seed=5)
    rng = np.random.default_rng(6)
    for key in list(state):
        layer, _, part = key.rpartition(".")
        shape = state[key].shape
        if part == "running_var":
            variance = np.exp(rng.uniform(np.log(0.01), 0, shape)).astype(np.float32)
            state[key] = variance
            convolution = f"{layer.removesuffix('.bn')}.conv.weight"
            state[convolution] = state[convolution] * np.sqrt(variance)[:, None, None, None]
        elif part == "weight" and len(shape) == 1:
            state[key] = rng.uniform(0.5, 1.5, shape).astype(np.float32)
        elif part in ("bias", "running_mean"):
            state[key] = rng.normal(0, 0.1, shape).astype(np.float32)
    return state


def save(name, state, folder):
    """As torch does, or as darknet does."""
    if name != "darknet":
        torch.save({k: torch.from_numpy(v) for k, v in state.items()}, folder / "weights.pth")
        return folder / "weights.pth"
    parts = ("bn.bias", "bn.weight", "bn.running_mean", "bn.running_var", "conv.weight")
    path = folder / "weights.weights"
    with path.open("wb") as file:
        file.write(struct.pack("<3iq", 0, 2, 0, 1))
        for number in range(1, 19):
            for part in parts:
                file.write(state[f"conv{number}.{part}"].astype("<f4").tobytes())
        file.write(np.zeros(1000 * 1025, "<f4").tobytes())
    return path


def pictures(name, n=2, seed=0):
    size = NETWORKS[name].size
    slope = np.linspace(0, 1, size, dtype=np.float32)
    noise = np.random.default_rng(seed).random((n, size, size), dtype=np.float32)
    return (noise * slope + slope[:, None]) / 2


def run(model, name, images):
    """Features by onnxruntime, of pictures normalised here."""
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    mean, std = (np.reshape(each, (1, 3, 1, 1)) for each in NORMALISATION[name])
    x = ((np.repeat(images[:, None], 3, axis=1) - mean) / std).astype(np.float32)
    return session.run(None, {session.get_inputs()[0].name: x})[0]


SLOW = {"inception", "alexnet"}  # DarkNet-19 is the smallest of them
EACH = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in NETWORKS]


@pytest.fixture(scope="module", params=EACH)
def loaded(request, tmp_path_factory):
    name = request.param
    state = trained_like(name)
    path = save(name, state, tmp_path_factory.mktemp(name))
    network = load_network(name, path)
    images = pictures(name)
    features = network(images)
    path.unlink()
    return name, state, network, images, features


def assert_close(found, reference):
    assert found.shape == reference.shape
    assert np.abs(found - reference).max() <= 1e-4 * np.abs(reference).max()
    spread = np.abs(reference[0] - reference[1]).max()
    assert np.abs(found - reference).max() <= 1e-2 * spread  # not merely because all are alike


@pytest.mark.slow
def test_features_agree_with_graphs_written_by_hand(loaded):
    name, state, _, images, features = loaded
    assert_close(features, run(BY_HAND[name](state), name, images))


@pytest.mark.slow
def test_features_agree_with_the_export_of_torch(loaded, tmp_path):
    name, state, _, images, features = loaded
    exported = load_network(name, export(name, state, tmp_path))
    assert_close(features, exported(images))


def export(name, state, folder):
    path = folder / f"{name}.onnx"
    size = NETWORKS[name].size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            assembled(name, state),
            (torch.zeros(1, 3, size, size),),
            str(path),
            dynamo=False,  # the other exporter needs one package more
            input_names=["pictures"],
            dynamic_axes={"pictures": {0: "n"}},
        )
    return path


def test_features_are_of_single_precision_and_of_the_right_number(loaded):
    name, _, network, _, features = loaded
    assert features.dtype == np.float32
    assert features.shape == (2, {"inception": 2048, "darknet": 1024, "alexnet": 4096}[name])
    assert (network.name, network.size, network.width) == (name, *NETWORKS[name][1:3])
    assert network.digest.startswith("sha256:")
    assert not network.is_random


# What a network takes and gives


@pytest.fixture(scope="module")
def alexnet():
    return load_network("alexnet", "random", batch_size=2)


def test_libraries_are_kept_and_batches_do_not_matter(alexnet):
    images = pictures("alexnet", n=3)
    features = alexnet(images)
    assert isinstance(features, np.ndarray)
    single = np.concatenate([alexnet(images[k : k + 1]) for k in range(3)])
    np.testing.assert_allclose(features, single, rtol=1e-4, atol=1e-4 * features.max())
    tensors = alexnet(torch.from_numpy(images).double())
    assert isinstance(tensors, torch.Tensor)
    assert tensors.dtype == torch.float32
    np.testing.assert_array_equal(tensors.numpy(), features)
    tensors += 1  # its owner may change it
    images.setflags(write=False)
    np.testing.assert_allclose(alexnet(images[::-1]), features[::-1], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_compiled_networks_see_batches_of_one_size(alexnet, monkeypatch):
    sizes = []

    def watched(module, **options):
        assert options == {"fullgraph": True, "dynamic": False}

        def run(x):
            sizes.append(len(x))
            return module(x)

        return run

    monkeypatch.setattr(torch, "compile", watched)
    network = load_network("alexnet", "random", batch_size=2, compiled=True)
    images = pictures("alexnet", n=3)
    features = network(images)
    assert sizes == [2, 2]
    np.testing.assert_allclose(features, alexnet(images), rtol=1e-4, atol=1e-4 * features.max())


@pytest.mark.parametrize("array", [np.zeros, torch.zeros])
def test_no_pictures_have_no_features(alexnet, array):
    features = alexnet(array((0, 224, 224)))
    assert features.shape == (0, 4096)
    assert type(features) is type(array(1))


def test_pictures_that_cannot_be_used(alexnet):
    with pytest.raises(ValueError, match=r"\(n, 224, 224\).*\(2, 3, 224, 224\)"):
        alexnet(np.zeros((2, 3, 224, 224)))
    with pytest.raises(ValueError, match=r"\(n, 224, 224\).*\(1, 224, 256\)"):
        alexnet(np.zeros((1, 224, 256)))
    for bad in (-0.1, 1.1, np.nan):
        images = np.full((1, 224, 224), 0.5)
        images[0, 3, 4] = bad
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            alexnet(images)
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            alexnet(torch.from_numpy(images))


def test_features_that_are_not_finite_are_refused():
    overflowing = FeatureNetwork(
        "alexnet", lambda x: np.full((len(x), 4096), np.inf), "random:0", "float16"
    )
    with pytest.raises(ValueError, match=r"not finite \(random:0 in float16\).*float32"):
        overflowing(np.zeros((1, 224, 224)))


def test_random_weights_are_marked_and_leave_other_random_numbers_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    first = load_network("darknet", "random", seed=7)
    np.testing.assert_array_equal(torch.rand(3), expected)
    assert first.is_random
    assert first.digest == "random:7"
    images = pictures("darknet", n=1)
    again, other = (load_network("darknet", "random", seed=seed) for seed in (7, 8))
    np.testing.assert_array_equal(first(images), again(images))
    assert np.abs(first(images) - other(images)).max() > 0.1 * first(images).max()


@pytest.mark.parametrize("name", EACH)
def test_random_features_neither_fade_nor_grow(name):
    features = load_network(name, "random")(pictures(name, n=1))
    assert 0.1 < np.sqrt((features**2).mean()) < 10


def test_precision_is_recorded_and_close():
    images = pictures("alexnet", n=1)
    exact = load_network("alexnet", "random")(images)
    network = load_network("alexnet", "random", precision="bfloat16")
    assert network.digest == "random:0 in bfloat16"
    features = network(images)
    assert features.dtype == np.float32
    assert 1e-4 < np.abs(features - exact).max() / exact.max() < 3e-2


def test_folding_changes_nothing_but_rounding():
    torch.manual_seed(0)
    layer = NormalisedConvolution(3, 5, (1, 3), stride=2, padding=(0, 1), eps=0.1, slope=0.3)
    layer.double().eval().requires_grad_(False)
    for values in (layer.bn.weight, layer.bn.bias, layer.bn.running_mean):
        values.normal_()
    layer.bn.running_var.uniform_(0.1, 2)
    x = torch.randn(2, 3, 9, 9, dtype=torch.float64)
    expected = layer(x)
    folded = torch.nn.Sequential(layer)
    fold_normalisations(folded)
    fold_normalisations(folded)
    assert not any(isinstance(each, torch.nn.BatchNorm2d) for each in folded.modules())
    torch.testing.assert_close(folded(x), expected, rtol=1e-12, atol=1e-12)
    assert (expected < 0).any()  # the rectifier leaks


def test_choices_are_checked(tmp_path):
    with pytest.raises(ValueError, match=r"inception, darknet, alexnet; 'vgg' came"):
        load_network("vgg", "random")
    with pytest.raises(ValueError, match=r"float32, float16, bfloat16; 'int8' came"):
        load_network("alexnet", "random", precision="int8")
    with pytest.raises(ValueError, match="at least 1; 0 came"):
        load_network("alexnet", "random", batch_size=0)
    with pytest.raises(ValueError, match=r"'gpu' here.*device=\"cpu\""):
        load_network("darknet", "random", device="gpu")
    with pytest.raises(FileNotFoundError, match=r"alexnet-owt-7be5be79\.pth"):
        load_network("alexnet", folder=tmp_path)


def test_nothing_is_needed_until_a_network_is():
    code = (
        "import sys; import lpfuse_faces._networks as networks\n"
        "print([name for name in ('torch', 'onnxruntime') if name in sys.modules])\n"
        "sys.modules['torch'] = None\n"
        "try: networks.load_network('alexnet', 'random')\n"
        "except ImportError as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == [
        "[]",
        'AlexNet needs torch. Install it: pip install "lpfuse-faces[networks]"',
    ]


# Files of ONNX


def onnx_file(path, outputs=1024, n="n", side=256, trailing=False):
    """A tiny network of the form of DarkNet-19: averages of colours, mixed."""
    weight = np.random.default_rng(0).normal(size=(outputs, 3, 1, 1)).astype(np.float32)
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["mean"]),
        helper.make_node("Conv", ["mean", "weight"], ["mixed"]),
        helper.make_node("Flatten", ["mixed"], ["flat"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [n, 3, side, side])],
        [
            helper.make_tensor_value_info("mean", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("mixed" if trailing else "flat", TensorProto.FLOAT, None),
        ],
        [numpy_helper.from_array(weight, "weight")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return weight[:, :, 0, 0]


@pytest.mark.parametrize("trailing", [False, True])
@pytest.mark.parametrize("n", ["n", 2])
def test_files_of_onnx_are_run(tmp_path, n, trailing):
    weight = onnx_file(tmp_path / "mine.onnx", n=n, trailing=trailing)
    network = load_network("darknet", tmp_path / "mine.onnx")
    assert network.digest.startswith("sha256:")
    images = pictures("darknet", n=3)
    expected = images.mean((1, 2), keepdims=True)[:, :, 0] * weight.sum(1)
    features = network(images)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-5)
    tensors = network(torch.from_numpy(images))
    assert isinstance(tensors, torch.Tensor)
    np.testing.assert_array_equal(tensors.numpy(), features)


def test_files_of_onnx_that_cannot_be_used(tmp_path):
    path = tmp_path / "mine.onnx"
    onnx_file(path, outputs=1000)
    with pytest.raises(ValueError, match=r"1,024 features.*flat \(1, 1000\).*Identity"):
        load_network("darknet", path)
    onnx_file(path, side=224)
    with pytest.raises(ValueError, match=r"\(n, 3, 256, 256\); it takes x .*224"):
        load_network("darknet", path)
    onnx_file(path)
    with pytest.raises(ValueError, match="on the CPU in float32"):
        load_network("darknet", path, device="cuda")
    with pytest.raises(ValueError, match="on the CPU in float32"):
        load_network("darknet", path, precision="float16")
    path.write_bytes(b"no model")
    with pytest.raises(ValueError, match="cannot be run as ONNX"):
        load_network("darknet", path)
