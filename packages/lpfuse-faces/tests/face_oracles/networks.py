"""The three networks as ONNX graphs, written by hand from the papers and torchvision's names.

They share nothing with the library: kernels are as large as the weights say, and everything else
(strides, padding, pooling, order of branches, constants of normalisation) is written down here.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

FINE = (
    "branch1x1 | branch5x5_1 branch5x5_2 | branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3"
    " | average branch_pool"
)
MIDDLE = (
    "branch1x1 | branch7x7_1 branch7x7_2 branch7x7_3"
    " | branch7x7dbl_1 branch7x7dbl_2 branch7x7dbl_3 branch7x7dbl_4 branch7x7dbl_5"
    " | average branch_pool"
)
COARSE = (
    "branch1x1 | branch3x3_1 branch3x3_2a | branch3x3_1 branch3x3_2b"
    " | branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3a"
    " | branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3b | average branch_pool"
)
# Branches of each block, in the order in which they are joined; /2 has stride 2 and no padding.
MIXED = {
    "Mixed_5b": FINE,
    "Mixed_5c": FINE,
    "Mixed_5d": FINE,
    "Mixed_6a": "branch3x3/2 | branch3x3dbl_1 branch3x3dbl_2 branch3x3dbl_3/2 | maximum",
    "Mixed_6b": MIDDLE,
    "Mixed_6c": MIDDLE,
    "Mixed_6d": MIDDLE,
    "Mixed_6e": MIDDLE,
    "Mixed_7a": "branch3x3_1 branch3x3_2/2"
    " | branch7x7x3_1 branch7x7x3_2 branch7x7x3_3 branch7x7x3_4/2 | maximum",
    "Mixed_7b": COARSE,
    "Mixed_7c": COARSE,
}
DARKNET_POOLS_AFTER = (1, 2, 5, 8, 13)


class Graph:
    def __init__(self, weights, size):
        self.weights, self.size = weights, size
        self.nodes, self.used = [], {}

    def apply(self, operator, *inputs, **attributes):
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def weight(self, name):
        self.used[name] = self.weights[name]
        return name

    def constant(self, name, value):
        self.used[name] = np.asarray(value, dtype=np.float32)
        return name

    def convolution(self, x, *names, stride=1, padding=0):
        if isinstance(padding, int):
            padding = (padding, padding)
        return self.apply(
            "Conv", x, *map(self.weight, names), strides=[stride] * 2, pads=[*padding, *padding]
        )

    def normalised(self, x, layer, epsilon, stride=1, same=True):
        kernel = self.weights[f"{layer}.conv.weight"].shape[2:]
        padding = [side // 2 for side in kernel] if same else (0, 0)
        x = self.convolution(x, f"{layer}.conv.weight", stride=stride, padding=padding)
        parts = ("weight", "bias", "running_mean", "running_var")
        names = [self.weight(f"{layer}.bn.{part}") for part in parts]
        return self.apply("BatchNormalization", x, *names, epsilon=epsilon)

    def maximum(self, x, kernel, stride):
        return self.apply("MaxPool", x, kernel_shape=[kernel] * 2, strides=[stride] * 2)

    def model(self, output):
        pictures = helper.make_tensor_value_info(
            "x", TensorProto.FLOAT, ["n", 3, self.size, self.size]
        )
        features = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["n", "d"])
        constants = [numpy_helper.from_array(value, name) for name, value in self.used.items()]
        graph = helper.make_graph(self.nodes, "network", [pictures], [features], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def alexnet(weights):
    graph = Graph(weights, 224)
    x = "x"
    for index, stride, padding, pooled in (
        (0, 4, 2, True), (3, 1, 2, True), (6, 1, 1, False), (8, 1, 1, False), (10, 1, 1, True),
    ):  # fmt: skip
        names = f"features.{index}.weight", f"features.{index}.bias"
        x = graph.apply("Relu", graph.convolution(x, *names, stride=stride, padding=padding))
        x = graph.maximum(x, 3, 2) if pooled else x
    x = graph.apply("Flatten", x)
    for index in (1, 4):
        names = (graph.weight(f"classifier.{index}.{part}") for part in ("weight", "bias"))
        x = graph.apply("Relu", graph.apply("Gemm", x, *names, transB=1))
    return graph.model(x)


def darknet(weights):
    graph = Graph(weights, 256)
    x = "x"
    for number in range(1, 19):
        x = graph.apply("LeakyRelu", graph.normalised(x, f"conv{number}", 1e-5), alpha=0.1)
        x = graph.maximum(x, 2, 2) if number in DARKNET_POOLS_AFTER else x
    return graph.model(graph.apply("Flatten", graph.apply("GlobalAveragePool", x)))


def inception(weights):
    graph = Graph(weights, 299)

    def layer(x, name, stride=1, same=True):
        return graph.apply("Relu", graph.normalised(x, name, 1e-3, stride, same))

    def step(x, block, word):
        if word == "average":
            return graph.apply(
                "AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1
            )
        if word == "maximum":
            return graph.maximum(x, 3, 2)
        name, _, halved = word.partition("/")
        return layer(x, f"{block}.{name}", stride=2 if halved else 1, same=not halved)

    # From ImageNet's normalisation back to [0, 1], and on to [−1, 1].
    std = graph.constant("std", np.reshape([0.229, 0.224, 0.225], (1, 3, 1, 1)))
    mean = graph.constant("mean", np.reshape([0.485, 0.456, 0.406], (1, 3, 1, 1)))
    half = graph.constant("half", 0.5)
    x = graph.apply("Add", graph.apply("Mul", "x", std), mean)
    x = graph.apply("Div", graph.apply("Sub", x, half), half)
    x = layer(x, "Conv2d_1a_3x3", stride=2, same=False)
    x = layer(layer(x, "Conv2d_2a_3x3", same=False), "Conv2d_2b_3x3")
    x = layer(graph.maximum(x, 3, 2), "Conv2d_3b_1x1")
    x = graph.maximum(layer(x, "Conv2d_4a_3x3", same=False), 3, 2)
    for block, branches in MIXED.items():
        outputs = []
        for branch in branches.split("|"):
            y = x
            for word in branch.split():
                y = step(y, block, word)
            outputs.append(y)
        x = graph.apply("Concat", *outputs, axis=1)
    return graph.model(graph.apply("Flatten", graph.apply("GlobalAveragePool", x)))


BY_HAND = {"inception": inception, "darknet": darknet, "alexnet": alexnet}
