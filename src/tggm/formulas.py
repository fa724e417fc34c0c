r"""Evaluate the formulas of a prediction with any array namespace: `jax.numpy`, `numpy` or `ndonnx`.

`xp` is the namespace. Training and prediction by JAX, prediction by NumPy and the export to ONNX all use
these functions. Arrays may have a leading axis of ensemble members. Functions with their own derivative rules
(`moments`, `erfc`, `log_ndtr`) are passed as arguments.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

Array = Any  # of every namespace
BULK = 4.0  # standard deviations within which an input is unchanged
N_WAVES = 8  # of a column
N_SUMS = 3  # of its waves
N_NODES = 3  # of the quadrature over locations, in training and prediction
COSINE_TERMS = {"float32": 6, "float64": 11}  # of the series of a cosine, accurate to rounding
MOST_INPUT = 1e6  # standard deviations at which bounded inputs are cut off
CONTENDERS = 0.8  # weight of the likely classes; the rest is divided equally among all
LEAST_VARIANCE = 0.25  # of a class score
LOG_ROOT_2PI = 0.9189385332046727
Triple = tuple[Array, Array, Array]
Moments = Callable[[Array], tuple[Array, Array]]


def bounded(xp: Any, X: Any) -> Any:
    """Return X where |X| ≤ BULK, elsewhere BULK + log(1 + |X| − BULK) with the sign of X."""
    far = xp.abs(X) - BULK
    return xp.where(far <= 0, X, xp.sign(X) * (BULK + xp.log1p(xp.maximum(far, 0.0))))


def cos_turns(xp: Any, t: Array, terms: int) -> Array:
    """Return cos 2πt by a polynomial that vectorises: XLA calls a scalar cosine on a CPU.

    With u = |t − round(t)| − ¼, cos 2πt = −sin 2πu, and |2πu| ≤ π/2, where a few terms of the series suffice.
    """
    u = xp.abs(t - xp.round(t)) - 0.25
    square = u * u
    total = xp.zeros_like(u)
    for n in reversed(range(terms)):
        total = total * square + (-1) ** (n + 1) * (2 * math.pi) ** (2 * n + 1) / math.factorial(2 * n + 1)
    return total * u


class LayerMoments(NamedTuple):
    """Moments of a layer's units given x, (rows, m) each."""

    mean: Array
    var: Array
    slope: Array  # κ, mean derivative of E[h | u] by the location u
    own: Array  # variance that comes from no layer below


def layer_above(
    xp: Any, W: Array, b: Array, s0: Array, below: LayerMoments, averaged: Callable[[Array, Array], Triple]
) -> LayerMoments:
    """Return the moments of the layer above `below`; `averaged` averages those of units over locations."""
    sigma0 = xp.sqrt(s0)
    mean, var = below.mean @ W.mT + b[..., None, :], below.var @ (W**2).mT
    alpha, spread = mean / sigma0, xp.sqrt(var + xp.finfo(mean.dtype).smallest_normal) / sigma0
    centre, slope, moved = averaged(alpha, spread)
    own = s0 * slope + xp.maximum(s0 * moved - slope**2 * var, 0.0)
    return LayerMoments(sigma0 * centre, s0 * (slope + moved), slope, own)


@cache
def gauss_hermite(n_nodes: int) -> tuple[list[float], list[float]]:
    """Return places z and weights w for the standard normal."""
    places, masses = np.polynomial.hermite_e.hermegauss(n_nodes)
    return places.tolist(), (masses / masses.sum()).tolist()


def weighted_sum(weights: list[float], values: list[Array]) -> Array:
    """Return Σ w_i v_i."""
    total = weights[0] * values[0]
    for weight, value in zip(weights[1:], values[1:], strict=True):
        total = total + weight * value
    return total


def unit_nodes(moments: Moments, places: list[float], alpha: Array, spread: Array) -> list[Triple]:
    """Return location, mean and variance at each node, as a list: an axis of nodes is three times slower."""
    return [(a, *moments(a)) for a in (alpha + spread * place for place in places)]


def unit_averages(weights: list[float], nodes: list[Triple]) -> Triple:
    """Return E[g(u)], E[ω²(u)] and Var[g(u)] over Gaussian locations u, from `unit_nodes`."""
    centre = weighted_sum(weights, [g for _, g, _ in nodes])
    slope = weighted_sum(weights, [omega2 for _, _, omega2 in nodes])
    return centre, slope, weighted_sum(weights, [(g - centre) ** 2 for _, g, _ in nodes])


def contended_std(
    xp: Any, erfc: Callable[[Array], Array], mean: Array, var: Array, product: Callable[[Array], Array]
) -> Array:
    r"""Return standard deviations of independent normals that fit the differences between likely classes.

    With C the covariance of W1 h given x, t_ij = 2 + C_ii + C_jj − 2 C_ij are the variances of differences.
    Independent normals have D_i + D_j instead: exact for up to three classes, and the least squares

    .. math:: \min_D \sum_{i<j} w_i w_j\, (D_i + D_j - t_{ij})^2

    for more, in closed form. The class with the largest mean has half of the weight; the others share the
    rest by the squared probability to exceed it; a part of all weight is divided equally. `mean` are
    the means of the scores, `var` is the diagonal of C, (..., rows, n), and `product` maps weights w to C w.
    """
    n = mean.shape[-1]

    def total(x: Array) -> Array:
        return xp.sum(x, axis=-1, keepdims=True)

    if n == 2:
        sign = xp.asarray([1.0, -1.0], dtype=mean.dtype)[None, :]
        difference = total(product(xp.ones_like(mean) * sign) * sign)
        return xp.sqrt(1 + 0.5 * difference) * xp.ones_like(mean)
    first = xp.argmax(mean, axis=-1, keepdims=True) == xp.arange(n)[None, :]
    spread = 2 + var + total(xp.where(first, var, 0.0))
    behind = (xp.max(mean, axis=-1, keepdims=True) - mean) / xp.sqrt(2 * spread)
    chance = xp.where(first, 0.0, erfc(behind) ** 2 + xp.finfo(mean.dtype).smallest_normal)
    share = xp.where(first, 0.5, 0.5 * chance / total(chance))
    w = (1 - CONTENDERS) / n + CONTENDERS * share  # sums to 1, and no weight reaches 1/2
    t = 2 * (1 - w) + var * (1 - 2 * w) + total(w * var) - 2 * (product(w) - w * var)
    # Σ_j≠i w_j t_ij = D_i (1 − 2 w_i) + Σ_j w_j D_j; the last sum follows from multiplying by w_i and adding
    rest, free, D = 1 - 2 * w, xp.ones_like(w), xp.zeros_like(w)
    for _ in range(3):  # a D below `LEAST_VARIANCE` is fixed there, and the others are solved again
        held = total(w * (1 - free)) * LEAST_VARIANCE
        found = total(free * w * (t - held) / rest)
        found = found / (1 + total(free * w / rest))
        D = xp.where(free > 0, (t - held - found) / rest, LEAST_VARIANCE)
        free = xp.where(D > LEAST_VARIANCE, free, 0.0)
    return xp.sqrt(xp.maximum(D, LEAST_VARIANCE))


def class_reach(xp: Any, mean: Array, std: Array, z: float) -> tuple[Array, Array]:
    """Return the ends, (..., rows), of an interval that holds the bulk of the integrand of every class.

    `z` is the distance in deviations at which a normal density is negligible.
    """
    high = xp.max(mean + z * std, axis=-1)
    # the mode for class c is right of the mode of its density times that of the strongest rival
    s2 = std**2
    rival = xp.argmax(mean - 0.5 * std, axis=-1, keepdims=True)
    top, top2 = (xp.take_along_axis(a, rival, axis=-1) for a in (mean, s2))
    middle = (mean * top2 + top * s2) / (s2 + top2)
    width = xp.sqrt(s2 * top2 / (s2 + top2))
    alone = xp.where(mean >= top, mean - z * std, middle - z * width)
    return xp.min(alone, axis=-1), high


def log_sum(xp: Any, terms: Array, axis: int = -1) -> Array:
    """Return the logarithm of the sum of exponentials over one axis, which keeps the length 1."""
    top: Array = xp.max(terms, axis=axis, keepdims=True)
    return xp.log(xp.sum(xp.exp(terms - top), axis=axis, keepdims=True)) + top
