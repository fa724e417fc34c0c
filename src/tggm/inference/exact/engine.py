"""Exact moments and log Z where mathematics allows it: three kinds of truncated Gaussian.

- `Diagonal`: independent truncated normals, closed form.
- `LowRank` of rank one, any size: with x_k ~ N_T independent of mean γ_k/d_k and variance 1/d_k,

      log Z = Σ_k log Z(d_k, γ_k) + ½ log 2π + log f(0),      f the density of u·x + ε, ε ~ N(0, 1),

  and the moments are those of x given u·x + ε = 0 (`tggm.inference.exact.fourier`). Variables that are not
  truncated are Gaussian: they shift f and widen ε.
- up to three variables, any structure: quadrature.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from tggm.gaussian import Moments, TruncatedGaussian
from tggm.inference.exact import quadrature
from tggm.inference.exact.fourier import averages, log_density
from tggm.inference.exact.saddle import Sum
from tggm.inference.factors import log_normaliser, scaled, standardised
from tggm.inference.rows import restore
from tggm.precision import Diagonal, LowRank
from tggm.precision.protocol import is_concrete

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def exact(tg: TruncatedGaussian) -> Moments:
    """Log Z, means and variances to rounding error.

    Parameters
    ----------
    tg : TruncatedGaussian
        `Diagonal`, `LowRank` of rank one, or any structure of at most three variables.

    Returns
    -------
    Moments
        kind "exact". In float64 log Z errs by less than 1e-12 and the moments by 1e-10, relative. Single
        precision is computed in double and rounded.
    """
    require_tractable(tg)
    if tg.shift.dtype != jnp.float64 and is_concrete(*jax.tree.leaves(tg)):
        with jax.enable_x64(True):
            single: Moments = _cast(exact(_cast(tg, jnp.float64)), tg.shift.dtype)
            return single
    rows = tg.rows()
    log_z, mean, var = _moments(rows)
    n = rows.shift.shape[0]
    found = Moments(mean, var, log_z, jnp.ones(n, bool), jnp.zeros(n, jnp.int32), kind="exact")
    return restore(found, tg)


def exact_log_z(tg: TruncatedGaussian) -> Array:
    """Log Z of shape (rows,), differentiable with respect to shift and every parameter of the precision."""
    require_tractable(tg)
    rows, P = tg.rows(), tg.precision
    value: Array
    if isinstance(P, Diagonal) or P.size == 1:
        value = _independent_log_z(P.diagonal(), rows)
    elif _is_rank_one(rows):
        value = _rank_one_log_z(P, rows)
    else:
        dense = P.dense()
        value = quadrature.log_z(dense, rows.shift, quadrature.walls(rows), quadrature.panels(dense))
    return value


def _is_rank_one(tg: TruncatedGaussian) -> bool:
    """Whether Fourier inversion serves it; it does not know the characteristic function of a box."""
    return isinstance(tg.precision, LowRank) and tg.precision.rank == 1 and tg.limits is None


def require_tractable(tg: TruncatedGaussian) -> None:
    """Raise unless there is an exact answer; the error names an engine that has one."""
    P = tg.precision
    if isinstance(P, Diagonal) or _is_rank_one(tg) or P.size <= quadrature.MAX_VARIABLES:
        return
    what = f"LowRank of rank {P.rank}" if isinstance(P, LowRank) else type(P).__name__
    what = what if tg.limits is None else f"{what} in a box"
    raise ValueError(
        f"`exact` handles Diagonal, LowRank of rank 1 (with limits 0), and any precision of "
        f"{quadrature.MAX_VARIABLES} variables or fewer; got {what} with {P.size} variables. "
        "Use `ep` for log Z and moments (error near 1e-3), or `orthant` for log Z with an error estimate."
    )


def _cast(tree: Any, dtype: Any) -> Any:
    return jax.tree.map(lambda a: a.astype(dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a, tree)


def _moments(rows: TruncatedGaussian) -> tuple[Array, Array, Array]:
    P = rows.precision
    found: tuple[Array, Array, Array]
    if isinstance(P, Diagonal) or P.size == 1:
        found = _independent(P.diagonal(), rows)
    elif _is_rank_one(rows):
        found = _rank_one(P, rows)
    else:
        dense = P.dense()
        found = quadrature.moments(dense, rows.shift, quadrature.walls(rows), quadrature.panels(dense))
    return found


@jax.jit
def _independent_log_z(d: Array, rows: TruncatedGaussian) -> Array:
    shift = rows.shift
    d = jnp.broadcast_to(d[None, :], shift.shape)
    return log_normaliser(shift, d, rows.walls()).sum(1)


@jax.jit
def _independent(d: Array, rows: TruncatedGaussian) -> tuple[Array, Array, Array]:
    root = jnp.sqrt(d)[None, :]
    g, v = standardised(rows.shift / root, scaled(rows.walls(), root))
    return _independent_log_z(d, rows), g / root, v / root**2


def _as_sum(P: LowRank, rows: TruncatedGaussian) -> tuple[Sum, Array]:
    """The truncated part of u·x + ε, and the value it takes: what is not truncated joins the noise."""
    root = jnp.sqrt(P.base)[None, :]
    alpha = rows.shift / root
    coef = jnp.broadcast_to(P.weights / root, alpha.shape)
    kept = rows.truncated[None, :]
    outside = jnp.where(kept, 0.0, coef)
    sums = Sum(jnp.where(kept, alpha, 0.0), jnp.where(kept, coef, 0.0), 1 + (outside**2).sum(1))
    return sums, -(outside * alpha).sum(1)


@jax.jit
def _rank_one_log_z(P: LowRank, rows: TruncatedGaussian) -> Array:
    value: Array = _independent_log_z(P.base, rows) + _HALF_LOG_2PI + log_density(*_as_sum(P, rows))
    return value


@jax.jit
def _rank_one(P: LowRank, rows: TruncatedGaussian) -> tuple[Array, Array, Array]:
    sums, y = _as_sum(P, rows)
    found = averages(sums, y)
    root = jnp.sqrt(P.base)[None, :]
    kept, coef = rows.truncated[None, :], P.weights / root
    free_mean = rows.shift / root + coef * found.s[:, None]
    free_var = 1 + coef**2 * (found.s2 - found.s**2)[:, None]
    mean = jnp.where(kept, found.mean, free_mean) / root
    var = jnp.where(kept, found.var, free_var) / root**2
    return _independent_log_z(P.base, rows) + _HALF_LOG_2PI + found.log_density, mean, var
