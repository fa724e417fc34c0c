r"""Moments of a hidden unit and of the standard normal, with the operations of an `Arithmetic`.

The formulas and the fitted tails are those of `tggm.special.kernels`, where they are derived: for
h ~ N(a, 1) given h ≥ 0, the mean g, the variance ω² and r = φ/Φ, without cancellation on either side.
"""

import numpy as np

from tggm.deployment.arithmetic import Arithmetic, Value
from tggm.special.coefficients import FITS

SQRT_2PI = 2.5066282746310002
FAR = 1e8  # right of this the limits are reached
N_NODES = 3  # of the quadrature over a location, as many as in training (`tggm.training.methods`)
_FITS = FITS["float64"]
_SURE = 9.0  # right of this Φ is 1 to rounding


def _fitted(name: str, t: Value) -> tuple[Value, Value]:
    """The polynomial of a fit, and the inverse of t + c that it is multiplied by."""
    start, c, coefficients = _FITS[name]
    w = 1.0 / (t + c)
    u = 1.0 - (2 * (c + start)) * w
    p = u * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        p = p * u + coefficient
    return p, w


def _parts(ops: Arithmetic, a: Value) -> tuple[Value, Value, Value]:
    """Where the fit holds, the place t it is evaluated at, and g there or r elsewhere."""
    left = a < -_FITS["mean"][0]
    t = ops.where(left, -a, a)
    p, w = _fitted("mean", t)
    near = ops.minimum(t, ops.constant(FAR))
    R = ops.minimum(t + p * w, ops.constant(FAR))
    E = ops.exp(near * near * -0.5)
    return left, t, ops.where(left, p * w, E * R / (R * SQRT_2PI - E))


def moments(ops: Arithmetic, a: Value) -> tuple[Value, Value]:
    """The mean g(a) and the variance ω²(a)."""
    left, t, q = _parts(ops, a)
    g = ops.where(left, q, a + q)
    p, w = _fitted("var", t)
    return g, ops.where(left, p * w * w, 1.0 - q * ops.minimum(g, ops.constant(FAR)))


def hazard(ops: Arithmetic, a: Value) -> Value:
    """r(a) = φ(a)/Φ(a)."""
    left, _, q = _parts(ops, a)
    return ops.where(left, q - a, q)


def density(ops: Arithmetic, a: Value) -> Value:
    """φ(a)."""
    return ops.exp(a * a * -0.5) * (1 / SQRT_2PI)


def probability(ops: Arithmetic, a: Value) -> Value:
    """Φ(a), with relative accuracy where it is small."""
    near = ops.minimum(a, ops.constant(_SURE))
    return ops.where(a > _SURE, ops.constant(1.0), density(ops, near) / hazard(ops, near))


def log_probability(ops: Arithmetic, a: Value) -> Value:
    """Log Φ(a); 0 right of nine deviations."""
    near = ops.minimum(a, ops.constant(_SURE))
    log = near * near * -0.5 - ops.log(hazard(ops, near) * SQRT_2PI)
    return ops.where(a > _SURE, ops.constant(0.0), log)


def averages(ops: Arithmetic, alpha: Value, spread: Value) -> tuple[Value, Value, Value]:
    """E[g(u)], E[ω²(u)] and Var[g(u)] for u ~ N(alpha, spread²), by Gauss–Hermite quadrature.

    Nodes are a leading axis. Deviations are from g(alpha): nothing large cancels in the variance.
    """
    places, masses = np.polynomial.hermite_e.hermegauss(N_NODES)
    z, w = (ops.constant(a.reshape(-1, 1, 1, 1)) for a in (places, masses / masses.sum()))
    g, omega2 = moments(ops, alpha + spread * z)
    start, _ = moments(ops, alpha)
    away = g - start
    moved, slope, squares = (ops.squeezed(ops.sum(term * w, 0)) for term in (away, omega2, away * away))
    return start + moved, slope, ops.maximum(squares - moved * moved, ops.constant(0.0))
