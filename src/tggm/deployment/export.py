"""`export_onnx`: a fitted model as one ONNX file, for runtimes in any language."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tggm.deployment.classes import GRAPH_NODES, log_probabilities, mixed, scores
from tggm.deployment.columns import encoded, inputs_of
from tggm.deployment.graph import GraphValue, OnnxArithmetic
from tggm.deployment.laws import MixtureLaw, pooled_law
from tggm.deployment.network import outputs, variances
from tggm.deployment.predictors import NumPyClassifier, NumPyRegressor
from tggm.deployment.targets import Units, in_units, point
from tggm.deployment.weights import Weights
from tggm.settings import one_of
from tggm.storage import write_atomically
from tggm.tables import Preparation

DTYPES = ("float64", "float32")
LABELS = {"U": "str", "O": "str", "i": "int64", "u": "int64", "b": "bool", "f": "float64"}  # by NumPy's kinds
Described = tuple[GraphValue, str, list[Any]]  # a result, its type and its shape


class Exportable(Protocol):
    """What an estimator offers to be exported."""

    task: str

    def to_state(self) -> tuple[Mapping[str, np.ndarray], Mapping[str, Any]]:
        """Learned arrays, and everything else as JSON-able values."""

    def table_preparation(self) -> Preparation | None:
        """How the columns of a table become its inputs, None if it takes arrays."""


def export_onnx(
    model: Exportable,
    path: str | os.PathLike[str],
    *,
    quantiles: Sequence[float] = (0.05, 0.5, 0.95),
    dtype: str = "float64",
) -> None:
    """Write what a fitted model predicts to an ONNX file.

    The graph computes in double precision, by standard operators alone. Of a regressor it has the results
    ``mean``, ``deviation`` and ``quantiles``; of a classifier ``probabilities`` and ``label``. A model of an
    array takes ``X``, shape (rows, columns), NaN for gaps. A model of a table takes each column by its name,
    shape (rows, 1): numbers with NaN for gaps, words with "" for gaps, dates as days since 1970-01-01.
    Numbers with marks, as ``<LOD`` in a column "dose", have a second input "dose: mark", "" for none.

    Parameters
    ----------
    model : TGGMRegressor or TGGMClassifier
        Fitted; with one hidden layer or several directed ones.
    path : path
        Usually ending in ``.onnx``; an existing file is replaced.
    quantiles : sequence of float
        Levels of the quantiles, in the order of the last axis; () for none.
    dtype : {"float64", "float32"}
        Type of the numbers that go in and come out.

    Raises
    ------
    ImportError
        Without the package onnx: ``pip install onnx``.
    ValueError
        For models that are of another kind.
    """
    one_of("dtype", dtype, DTYPES)
    arrays, meta = model.to_state()
    ops = OnnxArithmetic()
    if model.task == "classification":
        classifier = NumPyClassifier.from_state(arrays, meta)
        X, inputs = _inputs(ops, classifier.fitted_.weights, model.table_preparation(), dtype)
        found = _classes(ops, classifier, X, dtype)
    else:
        regressor = NumPyRegressor.from_state(arrays, meta)
        X, inputs = _inputs(ops, regressor.fitted_.weights, model.table_preparation(), dtype)
        found = _numbers(ops, regressor, X, _levels(quantiles), dtype)
    results = [ops.result(name, *described) for name, described in found.items()]
    about = {"quantiles": json.dumps(list(quantiles))}
    write_atomically(Path(path), ops.content("tggm", inputs, results, **about))


def _levels(quantiles: Sequence[float]) -> list[float]:
    levels = [float(q) for q in quantiles]
    if not all(0 < q < 1 for q in levels):
        raise ValueError(f"`quantiles` must be levels between 0 and 1; got {levels}. For 90 % pass 0.9.")
    return levels


def _inputs(
    ops: OnnxArithmetic, w: Weights, preparation: Preparation | None, dtype: str
) -> tuple[GraphValue, list[Any]]:
    """Standardised inputs, and what the graph is given."""
    if preparation is None:
        given, info = ops.given("X", dtype, len(w.x.shift))
        X = ops.number(given)
        return _standardised(ops, w, ops.where(ops.node("IsNaN", X), w.x.shift, X)), [info]
    parts, infos = [], []
    for column in preparation.columns:
        values = []
        for name, words in inputs_of(column).items():
            given, info = ops.given(name, "str" if words else dtype, 1)
            infos.append(info)
            values.append(given if words else ops.number(given))
        parts += encoded(column, ops, *values)
    return _standardised(ops, w, ops.concat(parts)), infos


def _standardised(ops: OnnxArithmetic, w: Weights, X: GraphValue) -> GraphValue:
    Z = (X - w.x.shift) / w.x.scale
    return Z if w.most == np.inf else ops.minimum(ops.maximum(Z, -w.most), w.most)


def _numbers(
    ops: OnnxArithmetic, model: NumPyRegressor, X: GraphValue, levels: list[float], dtype: str
) -> dict[str, Described]:
    """Mean, deviation and quantiles of every output."""
    fit, w = model.fitted_, model.fitted_.weights
    n, found = w.n_outputs, outputs(ops, w, X)
    var = variances(ops, found) + np.asarray(w.noise)[:, None, :]
    points, ends = [], []
    for j in range(n):
        at = np.eye(n)[:, [j]]
        mixture = MixtureLaw(ops, found.mean @ at, var @ at, np.full(len(w.s0), 1 / len(w.s0)))
        law = pooled_law(model.pool(j, shape=bool(levels)), mixture)
        units = Units(float(w.y.shift[j]), float(w.y.scale[j]), fit.transform)
        points.append(point(ops, units, law))
        if levels:
            ends.append(in_units(ops, units, law.quantiles(levels)))
    shape = [-1] if model.flat_target_ else [-1, n]
    made = {
        "mean": _shaped(ops, [each.mean for each in points], dtype, shape),
        "deviation": _shaped(ops, [each.deviation for each in points], dtype, shape),
    }
    if levels:
        made["quantiles"] = _shaped(ops, ends, dtype, [*shape, len(levels)])
    return made


def _shaped(ops: OnnxArithmetic, parts: list[GraphValue], dtype: str, shape: list[int]) -> Described:
    return ops.reshape(ops.concat(parts), tuple(shape)), dtype, ["rows", *shape[1:]]


def _classes(ops: OnnxArithmetic, model: NumPyClassifier, X: GraphValue, dtype: str) -> dict[str, Described]:
    """Probabilities, and the most probable label."""
    w, n = model.fitted_.weights, len(model.classes_)
    mean, std = scores(ops, outputs(ops, w, X))
    each = log_probabilities(ops, mean, std, members=len(w.s0), n=n, n_nodes=GRAPH_NODES)
    log_p = mixed(ops, each, len(w.s0), model.fitted_.temperature)
    place = ops.node("ArgMax", log_p, axis=-1, keepdims=0)
    kind = LABELS[model.classes_.dtype.kind]
    labels = ops.constant(model.classes_, object if kind == "str" else kind)
    return {
        "probabilities": (ops.exp(log_p), dtype, ["rows", n]),
        "label": (ops.node("Gather", labels, place), kind, ["rows"]),
    }
