"""What the fused kernels compute with: moments of a unit, and n × n systems unrolled into single numbers.

Everything here is in operations that the language of GPU kernels has: sums, no products of matrices, no
indices that are known only when the kernel runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from tggm.special.fits import FITS

SQRT_2PI, LOG_ROOT_2PI = 2.5066283, 0.9189385


class UnitAnswer(NamedTuple):
    """Of N(α, 1), given h ≥ 0 where it is truncated."""

    mean: Array
    var: Array
    log_z: Array  # log ∫ exp(−½h² + αh) dh


def standard(alpha: Array, truncated: Array) -> UnitAnswer:
    """All from one fit and one exponential at t = |α|, to about 1e-6.

    With R the hazard at −t, the mean is R − t left of zero and α + r right of it, r = ER / (√(2π) R − E),
    E = exp(−t²/2). The logarithm is −log R on the left and t²/2 + log √(2π) Φ(t) on the right.
    """
    _, c, of_mean = FITS["kernel"]["mean"]
    t, left = jnp.abs(alpha), alpha < 0
    shrunk = 1 / (t + c)
    u = 1 - 2 * c * shrunk
    low = _horner(of_mean, u) * shrunk
    R, half = t + low, 0.5 * t * t
    E = jnp.exp(-half)
    r = E * R / (SQRT_2PI * R - E)
    mean = jnp.where(left, low, alpha + r)
    var = jnp.where(left, low * low * _horner(FITS["kernel"]["ratio"][2], u), 1 - r * mean)
    log = jnp.log(jnp.where(left, R, 1 - E / (SQRT_2PI * R)))
    free = half + LOG_ROOT_2PI
    log_z = jnp.where(truncated, jnp.where(left, -log, free + log), free)
    return UnitAnswer(jnp.where(truncated, mean, alpha), jnp.where(truncated, var, 1.0), log_z)


def _horner(coefficients: tuple[float, ...], u: Array) -> Array:
    value = coefficients[-1] * u + coefficients[-2]
    for c in coefficients[-3::-1]:
        value = value * u + c
    return value


Stack = Sequence[Array]


def inner(U: Stack, x: Array) -> Stack:
    """U x."""
    return [jnp.sum(u * x, axis=1, keepdims=True) for u in U]


def outer(U: Stack, t: Stack) -> Array:
    """Uᵀ t; with t = U the squared lengths of columns."""
    total = U[0] * t[0]
    for u, number in zip(U[1:], t[1:], strict=True):
        total = total + u * number
    return total


@dataclass(frozen=True)
class Triangular:
    """K = L D Lᵀ, L with ones on its diagonal: no square roots."""

    lower: list[list[Array]]  # L_ij, j < i
    inverse: list[Array]  # 1 / D_i

    def forward(self, q: Stack) -> list[Array]:
        """L⁻¹ q."""
        y: list[Array] = []
        for row, value in zip(self.lower, q, strict=True):
            for factor, known in zip(row, y, strict=True):
                value = value - factor * known
            y.append(value)
        return y

    def log_det(self) -> Array:
        """Of K."""
        product = self.inverse[0]
        total = -jnp.log(product)
        for d in self.inverse[1:]:
            total = total - jnp.log(d)
        return total


def triangular(U: Stack, weight: Array) -> Triangular:
    """Factors of K = I + U diag(weight) Uᵀ; K ≽ I needs no pivoting."""
    lower: list[list[Array]] = []
    inverse: list[Array] = []
    for i, u in enumerate(U):
        scaled = u * weight
        row: list[Array] = []  # L_ij D_j
        for j in range(i):
            value = jnp.sum(scaled * U[j], axis=1, keepdims=True)
            for a, b in zip(row, lower[j], strict=True):
                value = value - a * b
            row.append(value)
        pivot = 1 + jnp.sum(scaled * u, axis=1, keepdims=True)
        factors = [a * d for a, d in zip(row, inverse, strict=True)]
        for a, b in zip(row, factors, strict=True):
            pivot = pivot - a * b
        lower.append(factors)
        inverse.append(1 / jnp.maximum(pivot, 1.0))  # what rounding must not change
    return Triangular(lower, inverse)


def solve(K: Triangular, q: Stack) -> Stack:
    """K⁻¹ q."""
    t = [y * d for y, d in zip(K.forward(q), K.inverse, strict=True)]
    for i in reversed(range(len(t))):
        for j, factor in enumerate(K.lower[i]):
            t[j] = t[j] - factor * t[i]
    return t


def quadratic(K: Triangular, U: Stack) -> Array:
    """u_kᵀ K⁻¹ u_k for every column."""
    y = K.forward(U)
    return outer([a * d for a, d in zip(y, K.inverse, strict=True)], y)
