"""Build ONNX graphs from formulas: tensors that record the operations on them.

All arithmetic is in double precision for any input: kernels and forests are too inaccurate in
single precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from onnx import compose, helper, numpy_helper

OPSET, ML_OPSET, IR_VERSION = 17, 3, 8  # supported by onnxruntime since 2022
# Bytes of the constants of a model: Protocol Buffers limit a model to 2 GiB, of which some are left
# for its nodes. How many was chosen by hand.
LARGEST = 2**31 - 2**24


class Graph:
    """Nodes and constants of a model under construction; `X` is its input in double precision."""

    def __init__(self, columns: int, dtype: Any, opset: int = OPSET) -> None:
        self.opset = opset  # ours are the same in all from 13 on; what others make may not be
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self._used = 0
        self._input = self._described("X", dtype, [None, columns])
        self.X = Tensor(self, "X").cast(np.float64)

    def apply(
        self, operator: str, *inputs: Any, output: int = 0, outputs: int = 1, **how: Any
    ) -> Tensor:
        """Apply an ONNX operator to tensors and constants.

        Of several `outputs` the one at position `output` is returned.
        """
        names = [one.name if isinstance(one, Tensor) else self._constant(one) for one in inputs]
        result = Tensor(self, self._new(operator))
        made = [self._new("unused") for _ in range(max(outputs, output + 1))]
        made[output] = result.name
        self.nodes.append(helper.make_node(operator, names, made, **how))
        return result

    def include(self, model: Any, X: Tensor, output: str) -> Tensor:
        """Include another model with input X, and return one of its outputs."""
        prefix = self._new("model")
        inner = compose.add_prefix(model, prefix).graph
        self._name(X, inner.input[0].name)
        self.nodes.extend(inner.node)
        for constant in inner.initializer:
            self.constants[constant.name] = numpy_helper.to_array(constant)
        return Tensor(self, prefix + output)

    def model(
        self, outputs: dict[str, tuple[Tensor, Any, list[Any]]], largest: int = LARGEST
    ) -> Any:
        """Return the finished model, with its outputs by name: tensor, type and shape of each."""
        if sum(constant.nbytes for constant in self.constants.values()) > largest:
            raise ValueError(
                "The model is larger than 2 GB, the most that ONNX can hold. Use "
                'approximation="nystroem", or fit on fewer rows.'
            )
        for name, (tensor, _, _) in outputs.items():
            self._name(tensor, name)
        graph = helper.make_graph(
            self.nodes,
            "lpfuse",
            [self._input],
            [self._described(name, dtype, shape) for name, (_, dtype, shape) in outputs.items()],
            [numpy_helper.from_array(value, name) for name, value in self.constants.items()],
        )
        versions = {"": self.opset, "ai.onnx.ml": ML_OPSET}
        return helper.make_model(
            graph,
            producer_name="lpfuse",
            opset_imports=[helper.make_opsetid(*version) for version in versions.items()],
            ir_version=IR_VERSION,
        )

    def type_of(self, dtype: Any) -> int:
        """Return the number that ONNX has for a type of NumPy."""
        return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _described(self, name: str, dtype: Any, shape: list[Any]) -> Any:
        return helper.make_tensor_value_info(name, self.type_of(dtype), shape)

    def _name(self, tensor: Tensor, name: str) -> None:
        self.nodes.append(helper.make_node("Identity", [tensor.name], [name]))

    def _constant(self, value: Any) -> str:
        """Return the name of a constant: integers as they are, numbers in double precision."""
        whole = isinstance(value, np.ndarray) and value.dtype == np.int64
        array = value if whole else np.asarray(value, dtype=np.float64)
        content = f"{array.dtype}{array.shape}".encode() + array.tobytes()
        name = f"constant_{sha256(content).hexdigest()}"  # equal ones are held once
        self.constants[name] = array
        return name

    def _new(self, what: str) -> str:
        self._used += 1
        return f"{what}_{self._used}"


class Tensor:
    """A tensor of a graph, to calculate with."""

    __array_ufunc__ = None  # NumPy leaves sums and products of arrays and tensors to tensors

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph = graph
        self.name = name

    def apply(self, operator: str, *others: Any, **how: Any) -> Tensor:
        """Apply an ONNX operator with the tensor as its first input."""
        return self.graph.apply(operator, self, *others, **how)

    def __add__(self, other: Any) -> Tensor:
        return self.apply("Add", other)

    def __sub__(self, other: Any) -> Tensor:
        return self.apply("Sub", other)

    def __rsub__(self, other: Any) -> Tensor:
        return self.graph.apply("Sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return self.apply("Mul", other)

    def __truediv__(self, other: Any) -> Tensor:
        return self.apply("Div", other)

    def __pow__(self, exponent: float) -> Tensor:
        return self * self if exponent == 2 else self.apply("Pow", exponent)

    def __matmul__(self, other: Any) -> Tensor:
        return self.apply("MatMul", other)

    def __neg__(self) -> Tensor:
        return self.apply("Neg")

    __radd__, __rmul__ = __add__, __mul__

    def sum(self, *, keepdims: bool = False) -> Tensor:
        """Return the sum of each row."""
        return self.apply("ReduceSum", np.array([1]), keepdims=int(keepdims))

    def highest(self) -> Tensor:
        """Return the highest number of each row, as a column."""
        return self.apply(
            "TopK", np.array([1]), outputs=2, axis=1
        )  # ReduceMax is written in two ways

    def clip(self, low: float = -np.inf, high: float = np.inf) -> Tensor:
        """Return each number, or the nearest within limits; NaN stays NaN."""
        return self.apply("Clip", low, high)

    def take(self, columns: Any) -> Tensor:
        """Return some columns, by position."""
        return self.apply("Gather", np.asarray(columns, dtype=np.int64), axis=1)

    def as_column(self) -> Tensor:
        """Return one number a row as a table of one column."""
        return self.apply("Unsqueeze", np.array([1]))

    def cast(self, dtype: Any) -> Tensor:
        """Return the numbers in another type."""
        return self.apply("Cast", to=self.graph.type_of(dtype))


def hstack(tensors: list[Tensor]) -> Tensor:
    """Concatenate tables along columns."""
    first, *rest = tensors
    return first.apply("Concat", *rest, axis=1) if rest else first


Converters = Mapping[type, Callable[[Any, Tensor], Tensor]]  # by the estimator's class
