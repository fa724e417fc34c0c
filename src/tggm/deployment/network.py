r"""From inputs to the moments of the outputs of every member, with the operations of an `Arithmetic`.

The formulas are those of `tggm.models`: features (`features/periodic.py`), one exact layer
(`hidden/shallow.py`), moments propagated through the others and the variance of an output as a sum over the
units of all layers (`hidden/directed.py`). Values have the axes (members, rows, units).
"""

from typing import NamedTuple

import numpy as np

from tggm.deployment.arithmetic import Arithmetic, Value
from tggm.deployment.units import averages, moments
from tggm.deployment.weights import BULK, Layer, Weights

_TINY = float(np.finfo(np.float64).tiny)


class UnitMoments(NamedTuple):
    """Moments of a layer's units given x, (members, rows, m) each."""

    mean: Value
    var: Value
    slope: Value | None  # mean derivative by the location; None where no layer is below
    own: Value  # the part of the variance that comes from no layer below


class Outputs(NamedTuple):
    """The linear outputs given x, without noise."""

    mean: Value  # (members, rows, n)
    parts: list[list[tuple[Value, Value]]]  # of each output: sensitivities and own variances of every layer


def outputs(ops: Arithmetic, w: Weights, Z: Value) -> Outputs:
    """For standardised inputs, (rows, d), no larger than `w.most`."""
    x = bounded(ops, Z) if w.bounded else Z
    layers = [_first_layer(ops, w, x)]
    for layer in w.layers[1:]:
        layers.append(_above(ops, layer, w.s0, layers[-1]))
    mean = layers[-1].mean @ _transposed(ops, w.output.W) + _by_member(ops, w.output.b)
    if w.A is not None:
        mean = mean + x @ _transposed(ops, w.A)
    return Outputs(mean, [_sensitivities(ops, w, layers, j) for j in range(w.n_outputs)])


def bounded(ops: Arithmetic, Z: Value) -> Value:
    """The same within `BULK`, its logarithm beyond."""
    size = ops.abs(Z)
    far = ops.maximum(size - BULK, ops.constant(0.0))
    beyond = ops.log(far + 1.0) + BULK
    return ops.where(size > BULK, ops.where(Z > 0.0, beyond, -beyond), Z)


def variances(ops: Arithmetic, found: Outputs) -> Value:
    """Variance of each output, (members, rows, n), without noise."""
    return ops.concat([_total(ops, [(J * J * own) for J, own in parts]) for parts in found.parts])


def products(ops: Arithmetic, found: Outputs, weight: Value) -> Value:
    """Covariance of the outputs times weights of each row, (members, rows, n)."""
    n, levels = len(found.parts), len(found.parts[0])
    columns = _columns(ops, weight, n)
    pulled = []
    for level in range(levels):
        terms = [columns[j] * found.parts[j][level][0] for j in range(n)]
        pulled.append(_added(terms) * found.parts[0][level][1])
    return ops.concat(
        [_total(ops, [J * pull for (J, _), pull in zip(parts, pulled, strict=True)]) for parts in found.parts]
    )


def _first_layer(ops: Arithmetic, w: Weights, x: Value) -> UnitMoments:
    first, d = w.layers[0], len(w.x.shift)
    location = x @ _transposed(ops, first.W[:, :, :d]) + _by_member(ops, first.b)
    if w.c is not None and w.phi is not None and w.E is not None:
        K, waves = len(w.c), w.c.shape[2]
        turns = ops.reshape(x, (1, -1, d, 1)) * ops.constant(w.c[:, None]) + ops.constant(w.phi[:, None])
        cosines = ops.cos((turns - ops.round(turns)) * (2 * np.pi))
        # sums of waves only go into the first layer: their weights and its weights are one matrix
        W = first.W[:, :, d:].reshape(K, -1, d, w.E.shape[2])
        joined = np.einsum("kmdi,kdiw->kdwm", W, w.E).reshape(K, d * waves, -1)
        location = location + ops.reshape(cosines, (K, -1, d * waves)) @ ops.constant(joined)
    sigma0 = ops.constant(np.sqrt(w.s0)[:, None, None])
    g, omega2 = moments(ops, location / sigma0)
    var = omega2 * sigma0 * sigma0
    return UnitMoments(g * sigma0, var, None, var)


def _above(ops: Arithmetic, layer: Layer, s0: np.ndarray, below: UnitMoments) -> UnitMoments:
    """Moments of the layer above another, whose sum is taken for a Gaussian."""
    mean = below.mean @ _transposed(ops, layer.W) + _by_member(ops, layer.b)
    var = below.var @ _transposed(ops, layer.W**2)
    sigma0, gauge = (ops.constant(a[:, None, None]) for a in (np.sqrt(s0), s0))
    centre, slope, moved = averages(ops, mean / sigma0, ops.sqrt(var + _TINY) / sigma0)
    own = slope * gauge + ops.maximum(moved * gauge - slope * slope * var, ops.constant(0.0))
    return UnitMoments(centre * sigma0, (slope + moved) * gauge, slope, own)


def _sensitivities(
    ops: Arithmetic, w: Weights, layers: list[UnitMoments], j: int
) -> list[tuple[Value, Value]]:
    """How output j depends on the units of every layer, the last first, and their own variances."""
    J = ops.constant(w.output.W[:, None, j, :])
    found = [(J, layers[-1].own)]
    for level in reversed(range(1, len(layers))):
        J = (layers[level].slope * J) @ ops.constant(w.layers[level].W)
        found.append((J, layers[level - 1].own))
    return found


def _columns(ops: Arithmetic, x: Value, n: int) -> list[Value]:
    """The columns of the last axis, each with length 1."""
    return [x @ ops.constant(np.eye(n)[:, [j]]) for j in range(n)]


def _total(ops: Arithmetic, terms: list[Value]) -> Value:
    """The sum over units and layers, (members, rows, 1)."""
    return _added([ops.sum(term, -1) for term in terms])


def _added(terms: list[Value]) -> Value:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _transposed(ops: Arithmetic, W: np.ndarray) -> Value:
    return ops.constant(np.ascontiguousarray(np.swapaxes(W, 1, 2)))


def _by_member(ops: Arithmetic, b: np.ndarray) -> Value:
    return ops.constant(b[:, None, :])
