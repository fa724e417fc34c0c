"""An `Arithmetic` that computes nothing and writes an ONNX graph down instead."""

from collections.abc import Callable, Sequence
from functools import partialmethod
from typing import Any

import numpy as np

from tggm.deployment.arithmetic import Step, Value

OPSET, ML_OPSET, IR_VERSION = 18, 3, 9  # of 2022: every runtime since then reads them
Operator = Callable[["GraphValue", Any], "GraphValue"]


def _of_two(word: str) -> Operator:
    """The operator that a node of the graph computes."""
    return lambda self, other: self.graph.node(word, self, other)


def _both_ways(word: str) -> tuple[Operator, Operator]:
    """The same for a value on the left of another, and on its right."""
    return _of_two(word), lambda self, other: self.graph.node(word, other, self)


class GraphValue:
    """The name of a result in a graph, with the operators of an array."""

    __array_ufunc__ = None  # so that NumPy's numbers leave operators to us

    def __init__(self, graph: "OnnxArithmetic", name: str) -> None:
        self.graph, self.name = graph, name

    __add__, __radd__ = _both_ways("Add")
    __sub__, __rsub__ = _both_ways("Sub")
    __mul__, __rmul__ = _both_ways("Mul")
    __truediv__, __rtruediv__ = _both_ways("Div")
    __lt__, __gt__ = _of_two("Less"), _of_two("Greater")
    __matmul__ = _of_two("MatMul")

    def __neg__(self) -> "GraphValue":
        return self.graph.node("Neg", self)


class OnnxArithmetic:
    """Nodes and constants of a graph, as they are asked for."""

    def __init__(self) -> None:
        try:
            from onnx import TensorProto, helper, numpy_helper
        except ImportError as error:
            raise ImportError("export_onnx needs the package onnx; pip install onnx.") from error
        self._helper, self._arrays = helper, numpy_helper
        self._types = {
            "float64": TensorProto.DOUBLE,
            "float32": TensorProto.FLOAT,
            "int64": TensorProto.INT64,
            "bool": TensorProto.BOOL,
            "str": TensorProto.STRING,
        }
        self._nodes: list[Any] = []
        self._count = 0
        self._constants: dict[tuple[Any, ...], tuple[str, Any]] = {}

    def node(self, kind: str, *inputs: Any, domain: str = "", **attributes: Any) -> GraphValue:
        """The result of an operation; numbers among its inputs become constants."""
        name = self._name()
        given = [each if isinstance(each, GraphValue) else self.constant(each) for each in inputs]
        names = [each.name for each in given]
        self._nodes.append(self._helper.make_node(kind, names, [name], domain=domain, **attributes))
        return GraphValue(self, name)

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def constant(self, value: Any, dtype: Any = np.float64) -> Value:
        """An initialiser, one for equal arrays."""
        if isinstance(value, GraphValue):
            return value
        array = np.ascontiguousarray(np.asarray(value, dtype=dtype)).reshape(np.shape(value))
        key = (array.dtype.str, array.shape, array.tobytes() if array.dtype != object else tuple(array))
        if key not in self._constants:
            name = f"c{len(self._constants)}"
            self._constants[key] = name, self._arrays.from_array(array, name)
        return GraphValue(self, self._constants[key][0])

    def number(self, x: GraphValue) -> GraphValue:
        """In double precision."""
        return self.node("Cast", x, to=self._types["float64"])

    def given(self, name: str, kind: str, columns: int) -> tuple[GraphValue, Any]:
        """An input of so many columns of "float64", "float32" or "str", and its declaration."""
        info = self._helper.make_tensor_value_info(name, self._types[kind], ["rows", columns])
        return GraphValue(self, name), info

    def result(self, name: str, x: GraphValue, kind: str, shape: list[Any]) -> Any:
        """Call a value by this name, as a result of this type; its declaration."""
        last = ["Identity"] if kind in ("str", "bool", "int64") else ["Cast"]
        attributes = {} if last == ["Identity"] else {"to": self._types[kind]}
        self._nodes.append(self._helper.make_node(*last, [x.name], [name], **attributes))
        return self._helper.make_tensor_value_info(name, self._types[kind], shape)

    def content(self, name: str, inputs: list[Any], outputs: list[Any], **about: str) -> bytes:
        """The file; `inputs` and `outputs` are value infos, `about` goes into its metadata."""
        nodes, used = _needed(self._nodes, [each.name for each in outputs])
        tensors = [tensor for name, tensor in self._constants.values() if name in used]
        graph = self._helper.make_graph(nodes, name, inputs, outputs, tensors)
        opsets = [self._helper.make_opsetid("", OPSET), self._helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        made = self._helper.make_model(graph, opset_imports=opsets, producer_name="tggm")
        made.ir_version = IR_VERSION
        self._helper.set_model_props(made, about)
        content: bytes = made.SerializeToString()
        return content

    exp: Any = partialmethod(node, "Exp")
    log: Any = partialmethod(node, "Log")
    sqrt: Any = partialmethod(node, "Sqrt")
    cos: Any = partialmethod(node, "Cos")
    round: Any = partialmethod(node, "Round")
    abs: Any = partialmethod(node, "Abs")
    minimum: Any = partialmethod(node, "Min")
    maximum: Any = partialmethod(node, "Max")
    where: Any = partialmethod(node, "Where")

    def sum(self, x: Value, axis: int) -> Value:
        """ReduceSum."""
        return self.node("ReduceSum", x, self.constant([axis], np.int64), keepdims=1)

    def max(self, x: Value, axis: int) -> Value:
        """ReduceMax."""
        return self.node("ReduceMax", x, self.constant([axis], np.int64), keepdims=1)

    def is_largest(self, x: Value) -> Value:
        """By ArgMax, OneHot not being known for all types: the largest have a distance of 0 to the place."""
        place = self.node("ArgMax", x, axis=-1, keepdims=1)
        return self.node("Equal", place, self._places(x))

    def _places(self, x: Value) -> Value:
        """0, 1, … along the last axis."""
        size = self.node("Gather", self.node("Shape", x), self.constant(-1, np.int64))
        return self.node("Range", self.constant(0, np.int64), size, self.constant(1, np.int64))

    def concat(self, parts: Sequence[Value]) -> Value:
        """Concat."""
        return self.node("Concat", *parts, axis=-1)

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Reshape."""
        return self.node("Reshape", x, self.constant(shape, np.int64))

    def squeezed(self, x: Value) -> Value:
        """Squeeze."""
        return self.node("Squeeze", x, self.constant([0], np.int64))

    def repeated(self, step: Step, start: list[Value], count: int) -> list[Value]:
        """Loop, of which the body sees all values outside."""
        helper, outer = self._helper, self._nodes
        turn, going, still = (self._name() for _ in range(3))
        state = [GraphValue(self, self._name()) for _ in start]
        self._nodes = [helper.make_node("Identity", [going], [still])]
        after = step(state)
        body, self._nodes = self._nodes, outer
        number, flag, real = (self._types[kind] for kind in ("int64", "bool", "float64"))
        declared = [
            helper.make_tensor_value_info(turn, number, []),
            helper.make_tensor_value_info(going, flag, []),
        ]
        declared += [helper.make_tensor_value_info(each.name, real, None) for each in state]
        results = [helper.make_tensor_value_info(still, flag, [])]
        results += [helper.make_tensor_value_info(each.name, real, None) for each in after]
        body, _ = _needed(body, [each.name for each in results])
        inside = helper.make_graph(body, "step", declared, results)
        found = [GraphValue(self, self._name()) for _ in start]
        names = [self.constant(count, np.int64).name, "", *(each.name for each in start)]
        self._nodes.append(helper.make_node("Loop", names, [each.name for each in found], body=inside))
        return found


def _needed(nodes: list[Any], results: list[str]) -> tuple[list[Any], set[str]]:
    """The nodes that results depend on, and the names of all that these use: runtimes complain of others."""
    used, kept = set(results), []
    for node in reversed(nodes):
        if used.isdisjoint(node.output):
            continue
        kept.append(node)
        used |= _used_by(node)
    return kept[::-1], used


def _used_by(node: Any) -> set[str]:
    """The names that a node uses, in its graphs within graphs, too."""
    found = set(node.input)
    for attribute in node.attribute:
        found.update(each.name for each in attribute.g.output)
        found.update(*(_used_by(each) for each in attribute.g.node))
    return found
