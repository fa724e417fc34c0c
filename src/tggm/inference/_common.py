"""Functions that several engines share: axes of rows, univariate factors, batched conjugate gradients.

A univariate factor has precision p and natural parameter θ. A truncated coordinate is N_T(θ/p, 1/p); a free
one is N(θ/p, 1/p). With α = θ/√p,

    mean g(α)/√p,   variance ω²(α)/p,   A(θ) = log ∫ exp(−½ p h² + θ h) dh,

where the integral is over h ≥ 0, over a box, or over the whole line. `Walls` are a mask of the coordinates
with h ≥ 0, or `Limits`.
"""

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from scipy.special import stdtrit

from tggm.gaussian import Limits, Moments, TruncatedGaussian, Walls
from tggm.precision import is_concrete, rounding
from tggm.special import standard_moments, truncated_log_z, truncated_mean, truncated_var

# Squared Newton decrement, by bytes per number, after which one more full step ends at rounding error.
STEP_TOLERANCE = {4: 1e-5, 8: 1e-12}
LEAST_EFFECTIVE = 100  # number of points, effectively, below which errors are unknown
LARGEST_REDUCTION = 1e-3  # an inexact Newton step multiplies ‖r‖² by this factor at most


def restore(moments: Moments, tg: TruncatedGaussian) -> Moments:
    """Reshape results, (rows, ...), to the leading axes of the shift."""
    lead = tg.shift.shape[:-1]
    draws = moments.draws
    if draws is not None:
        draws = draws.reshape((draws.shape[0], *lead, draws.shape[-1]))
    rest = dataclasses.replace(moments, draws=None)
    by_row: Moments = jax.tree.map(lambda a: a.reshape(lead + a.shape[1:]), rest)
    return dataclasses.replace(by_row, draws=draws)


def warn_unconverged(moments: Moments, message: str) -> None:
    """Warn if rows did not converge; `message` has a placeholder for their number."""
    if is_concrete(moments.converged) and not np.asarray(moments.converged).all():
        warnings.warn(message.format(int((~moments.converged).sum())), RuntimeWarning, stacklevel=3)


def map_blocks(function: Callable[[Any], Any], rows: Any, size: int) -> Any:
    """Apply a function to blocks of at most `size` rows of a tree of arrays.

    Blocks have equal sizes; copies of the last row fill the last block.
    """
    count = jax.tree.leaves(rows)[0].shape[0]
    if count <= size:
        return function(rows)
    n_blocks = -(-count // size)
    size = -(-count // n_blocks)

    def cut(a: Array) -> Array:
        padding = ((0, n_blocks * size - count), *((0, 0),) * (a.ndim - 1))
        return jnp.pad(a, padding, "edge").reshape(n_blocks, size, *a.shape[1:])

    out = lax.map(function, jax.tree.map(cut, rows))
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:count], out)


def full_limits(rows: TruncatedGaussian) -> Limits:
    """Return the limits of every row and variable, of the shape of the shift."""
    if rows.limits is not None:
        return rows.limits.map(lambda a: jnp.broadcast_to(a, rows.shift.shape))
    lower = jnp.where(rows.truncated[None, :], jnp.zeros_like(rows.shift), -jnp.inf)
    return Limits(lower, jnp.full_like(lower, jnp.inf))


def unit_moments(theta: Array, p: Array, walls: Walls) -> tuple[Array, Array]:
    """Return the mean of univariate factors, and their variance times p, which is at most 1."""
    root = jnp.sqrt(p)
    alpha = theta / root
    if isinstance(walls, Limits):
        box = theta / p, 1 / root, *walls  # limits as they are: rescaled ones would round a small width
        return truncated_mean(*box), jnp.minimum(truncated_var(*box) * p, 1)
    g, omega2 = standard_moments(alpha)
    return jnp.where(walls, g, alpha) / root, jnp.where(walls, omega2, 1)


def log_normaliser(theta: Array, p: Array, walls: Walls) -> Array:
    """Return A(θ), finite for every finite θ."""
    if isinstance(walls, Limits):
        return truncated_log_z(theta, p, *walls)
    free = 0.5 * (math.log(2 * math.pi) - jnp.log(p)) + theta**2 / (2 * p)
    return jnp.where(walls, truncated_log_z(theta, p), free)


def student_bound(count: int) -> float:
    """Return the 99.9 % bound of a mean of so many numbers, in standard errors."""
    return float(stdtrit(count - 1, 0.9995))


def log_bound(p: Any, xp: Any) -> Any:
    """Return a 99.9 % bound of the error of log mean p, from p of each shift; infinite if p may be zero."""
    bound = student_bound(len(p)) * p.std(ddof=1) / p.mean() / math.sqrt(len(p))
    return xp.where(bound < 1, -xp.log1p(-xp.minimum(bound, 0.99)), xp.inf)


def weight_bound(log_w: Any, xp: Any = jnp) -> Any:
    """Return a 99.9 % bound of the error of the log of the mean weight, of NumPy or JAX arrays (shifts, n).

    It is infinite if few points carry the weight: shifts that agree are then no evidence.
    """
    w = xp.exp(log_w - log_w.max())
    few = w.sum() ** 2 < LEAST_EFFECTIVE * (w**2).sum()
    return xp.where(few, xp.inf, log_bound(w.mean(1), xp))


def rounding_error(P: Any, sd: Any, log_w: Any, off: Any, xp: Any = jnp) -> tuple[Any, Any]:
    """Estimate the effect of relative rounding errors of the covariance, for NumPy or JAX.

    On log Pr it is ½ tr(dΣ (E[vvᵀ] − P)), v = P (h − μ), and on a mean, in standard deviations, it is bounded
    by the spread of vᵀ dΣ v / 2. `log_w` are log weights of points and `off` their h − μ, (m, n).
    """
    eps, v, w = 8 * float(np.finfo(float).eps), P @ off, xp.exp(log_w - log_w.max())
    w = w / w.sum()
    first = (v * w[None, :]).sum(1)
    spread = ((v - first[:, None]) ** 2 * w[None, :]).sum(1) ** 0.5
    second = abs((v * w[None, :]) @ v.T - P)
    slope, width = sd @ abs(first), sd @ spread
    return eps * (len(P) + sd @ second @ sd), eps * (1 + (slope + width) * width)


def conjugate_gradient(
    product: Callable[[Array], Array], r: Array, diagonal: Array, enough: float | None = None
) -> Array:
    """Solve A_i x_i = r_i for every row i by conjugate gradients, preconditioned by the diagonal of A_i.

    Stops when ‖r − A x‖² in the preconditioner's norm is below rounding times ‖r‖², or below `enough`, after
    at most 2 m steps. Every row with r ≠ 0 takes at least one step; converged rows do not change.

    `product` maps (rows, m) to A_i x_i, each A_i symmetric positive definite with the given diagonal.
    `enough` is for Newton steps: stop also when ‖r‖² is reduced by the factor min(‖r‖², LARGEST_REDUCTION) or
    is below `enough`. Newton's method then still converges quadratically.
    """
    z = r / diagonal
    rho = (r * z).sum(-1)
    target = rho * rounding(r.dtype)
    if enough is not None:
        target = jnp.maximum(rho * jnp.clip(rho, rounding(r.dtype), LARGEST_REDUCTION), enough)

    def active_rows(i: Array, rho: Array) -> Array:
        return (rho > target) | ((i == 0) & (rho > 0))

    def unfinished(carry: Any) -> Array:
        i, _, _, _, rho = carry
        return jnp.asarray((i < 2 * r.shape[-1]) & active_rows(i, rho).any())

    def step(carry: Any) -> Any:
        i, x, res, d, rho = carry
        Ad = product(d)
        active = active_rows(i, rho)
        length = jnp.where(active, rho / _nonzero((d * Ad).sum(-1)), 0)[:, None]
        x, res = x + length * d, res - length * Ad
        z = res / diagonal
        new = (res * z).sum(-1)
        beta = jnp.where(active, new / _nonzero(rho), 0)[:, None]
        return i + 1, x, res, z + beta * d, jnp.where(active, new, rho)

    return lax.while_loop(unfinished, step, (jnp.int32(0), jnp.zeros_like(r), r, z, rho))[1]


def _nonzero(a: Array) -> Array:
    return jnp.where(a == 0, 1, a)
