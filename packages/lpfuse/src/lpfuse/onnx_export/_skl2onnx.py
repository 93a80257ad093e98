"""Converters of skl2onnx: our models become part of the one that it makes of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lpfuse.onnx_export._columns import width_of
from lpfuse.onnx_export._graph import ML_OPSET, extra

Make = Callable[
    [Any, Any, int], Any
]  # of an estimator, the type of its input and an opset: a model


def register(detectors: Iterable[type], transformers: Iterable[type], make: Make) -> None:
    """Enter classes into the tables of skl2onnx.

    Parameters
    ----------
    detectors, transformers : iterables of classes
        Which ones.
    make : callable
        ``make(estimator, dtype, opset)`` is a model of ONNX with the input X.
    """
    skl2onnx = extra("skl2onnx")  # nosec B610 # no SQL

    def convert(scope: Any, operator: Any, container: Any) -> None:
        _include(operator, container, scope.get_unique_variable_name("lpfuse"), make)

    for cls in detectors:
        skl2onnx.update_registered_converter(cls, f"Lpfuse{cls.__name__}", _of_labels, convert)
    for cls in transformers:
        skl2onnx.update_registered_converter(cls, f"Lpfuse{cls.__name__}", _of_table, convert)


def _of_labels(operator: Any) -> None:
    """Shapes of what a detector gives, as skl2onnx has them for an isolation forest."""
    n = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type.shape = operator.outputs[1].type.shape = [n, 1]


def _of_table(operator: Any) -> None:
    n = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type.shape = [n, width_of(operator.raw_operator)]


def _include(operator: Any, container: Any, prefix: str, make: Make) -> None:
    """The nodes of our model between the input and the outputs of an operator."""
    helper, tensors = extra("onnx.helper"), extra("onnx").TensorProto  # nosec B610 # no SQL
    opset = container.target_opset_any_domain("")
    model = make(operator.raw_operator, np.float64, opset)
    inner = extra("onnx.compose").add_prefix(model, prefix).graph  # nosec B610 # no SQL

    def cast(source: str, target: str, to: int) -> None:
        container.nodes.append(helper.make_node("Cast", [source], [target], to=to))

    cast(operator.inputs[0].full_name, inner.input[0].name, tensors.DOUBLE)
    container.initializers.extend(inner.initializer)
    container.nodes.extend(inner.node)
    container.node_domain_version_pair_sets |= {("", opset), ("ai.onnx.ml", ML_OPSET)}
    wanted = ("label", "decision") if len(operator.outputs) > 1 else ("transformed",)
    for name, output in zip(wanted, operator.outputs, strict=True):
        kind = output.type.to_onnx_type().tensor_type.elem_type
        found = prefix + name
        if name != "transformed":
            column = found + "_column"
            axes = prefix + name + "_axes"
            container.initializers.append(helper.make_tensor(axes, tensors.INT64, [1], [1]))
            container.nodes.append(helper.make_node("Unsqueeze", [found, axes], [column]))
            found = column
        cast(found, output.full_name, kind)
