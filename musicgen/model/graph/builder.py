"""A small notation for ONNX graphs: values are names, and an operation is a call.

Design note: the graph is written by hand, not traced. Tracing would need torch's compiler, take seconds, and write down
whatever torch did. Here a graph is built in a fraction of a second, and has only operations of ONNX itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor
from torch.nn import functional

VECTOR = 16  # numbers that a processor computes at once, at most
OPSET = 17
IR_VERSION = 8
Kind = Literal["float32", "float64", "int64"]
_KINDS: dict[str, int] = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}

Feed = Callable[[Sequence[float]], NDArray[Any]]
"""The position of each row to an input that is computed outside the graph."""


class Graph:
    """A graph under construction.

    Args:
        half: Whether weights are stored in 16 bits. They are still computed with in 32.

    Attributes:
        feeds: Inputs that follow from positions and are computed outside.
        inputs, outputs: Kind and shape by name; the first axis has a name and any size.
    """

    def __init__(self, half: bool = False) -> None:
        self._half = half
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._number = 0
        self.feeds: dict[str, Feed] = {}
        self.inputs: dict[str, tuple[Kind, tuple[int | str, ...]]] = {}
        self.outputs: dict[str, tuple[Kind, tuple[int | str, ...]]] = {}

    def input(self, name: str, shape: Sequence[int] = (), kind: Kind = "float32", axis: str = "batch") -> str:
        """An input of shape `(batch, *shape)`. With the axis `places` it may have one row for all where rows agree."""
        self.inputs[name] = (kind, (axis, *shape))
        return name

    def output(self, name: str, shape: Sequence[int]) -> str:
        """An output of shape `(batch, *shape)`, to be the `name` of an operation."""
        self.outputs[name] = ("float32", ("batch", *shape))
        return name

    def constant(self, value: Tensor | NDArray[Any] | Sequence[int] | float) -> str:
        """A constant: a tensor, a number in 32 bits, or a list of whole numbers, as for shapes."""
        if isinstance(value, Tensor):
            array = value.detach().cpu().numpy()
        else:
            array = np.asarray(value, np.float32 if isinstance(value, float) else None)
        name = self._name()
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def weight(self, value: Tensor, factors: Tensor | float | None = None) -> str:
        """A matrix of weights, times factors for its columns. Runtimes multiply once, when they load the graph."""
        if self._half:
            name = self.op("Cast", self.constant(value.detach().to(torch.float16)), to=TensorProto.FLOAT)
        else:
            name = self.constant(value)
        return name if factors is None else self.op("Mul", name, self.constant(factors))

    def op(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """An operation with one result, which has a name if it is an output."""
        name = name or self._name()
        self._nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def split(self, value: str, sizes: Sequence[int], axis: int) -> list[str]:
        """The parts of a value along an axis."""
        names = [self._name() for _ in sizes]
        self._nodes.append(helper.make_node("Split", [value, self.constant(list(sizes))], names, axis=axis))
        return names

    def reshape(self, value: str, *shape: int) -> str:
        """`(batch, *shape)`."""
        return self.op("Reshape", value, self.constant([0, *shape]))

    def linear(self, rows: str, weight: Tensor, bias: Tensor, name: str = "", factors: Tensor | None = None) -> str:
        """(f·x)·Wᵀ + b of `(batch, inputs)`, with factors f for the inputs."""
        return self.op("Gemm", rows, self.weight(weight, factors), self.constant(bias), name=name, transB=1)

    def layer_norm(self, rows: str, weight: Tensor, bias: Tensor | None, eps: float) -> str:
        """Normalise the last axis."""
        others = [] if bias is None else [self.constant(bias)]
        return self.op("LayerNormalization", rows, self.constant(weight), *others, axis=-1, epsilon=eps)

    def cos_sin(self, position: str, frequencies: Tensor) -> tuple[str, str]:
        """Cosine and sine of 2πfn, `(batch, *frequencies)`, at `(batch,)` positions n.

        Whole turns are removed in 64 bits, before anything is rounded to 32.

        Args:
            position: n, in 64 bits.
            frequencies: f, in turns.
        """
        count, shape = frequencies.numel(), frequencies.shape
        # The last few of all numbers are rounded differently. With whole vectors in each row there are none such.
        padded = functional.pad(frequencies.detach().double().flatten(), (0, -count % VECTOR))
        turns = self.op("Mul", self.reshape(position, 1), self.constant(padded))
        rest = self.op("Sub", turns, self.op("Floor", turns))
        angle = self.op("Mul", self.op("Cast", rest, to=TensorProto.FLOAT), self.constant(2 * np.pi))
        waves = [self.op(kind, angle) for kind in ("Cos", "Sin")]
        if len(padded) > count:
            bounds = [self.constant([number]) for number in (0, count, 1)]
            waves = [self.op("Slice", wave, *bounds) for wave in waves]
        cosines, sines = (self.reshape(wave, *shape) for wave in waves)
        return cosines, sines

    def model(self) -> onnx.ModelProto:
        """The finished graph."""
        values = [
            [helper.make_tensor_value_info(name, _KINDS[kind], shape) for name, (kind, shape) in side]
            for side in (self.inputs.items(), self.outputs.items())
        ]
        graph = helper.make_graph(self._nodes, "step", values[0], values[1], self._constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)

    def _name(self) -> str:
        self._number += 1
        return f"v{self._number}"
