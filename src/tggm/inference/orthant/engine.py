"""Orthant and box probabilities: log Z of a truncated Gaussian by quasi-Monte Carlo, with an error estimate.

Separation of variables turns Pr(h ≥ 0), or of a box (`box`), into an integral over the unit cube; minimax
tilting flattens the integrand, a randomly shifted lattice integrates it, and the spread over shifts tells the
error. All in logs and in float64: probabilities such as e⁻⁵⁰⁰ cost and err no more than others. Cost O(points
· m²) and O(m³) per row; m up to a few hundred. See `separation`, `ordering`, `tilting` and `lattice` for the
parts.
"""

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.lax.linalg import cholesky, triangular_solve

from tggm.gaussian import Limits, Moments, TruncatedGaussian
from tggm.inference.orthant.box import integrate_box, separate_box
from tggm.inference.orthant.lattice import generator, next_prime, tent_points
from tggm.inference.orthant.separation import Integral, integrate, separate
from tggm.inference.rows import restore
from tggm.precision.protocol import is_concrete

_MAX_POINTS = 2**17  # per shift
_USABLE = 1e-2  # standard error of log Z that counts as converged when no `tol` is given


def orthant(
    tg: TruncatedGaussian,
    *,
    n_points: int = 1000,
    n_shifts: int = 8,
    key: Array | int = 0,
    tol: float | None = None,
) -> Moments:
    r"""Log Z with its standard error; means and variances by self-normalised weights of the same points.

    .. math::
        \log Z = \tfrac m2 \log 2\pi - \tfrac12 \log\det P + \tfrac12 \gamma^T P^{-1} \gamma
                 + \log \Pr(l_k \le h_k \le u_k), \qquad h \sim N(P^{-1}\gamma, P^{-1}).

    Free variables are integrated out exactly. All rows use the same points, so differences between rows err
    less than each.

    Parameters
    ----------
    tg : TruncatedGaussian
        Rows that share a precision matrix.
    n_points : int
        Lattice points per random shift; rounded up to a prime.
    n_shifts : int
        Independent random shifts, at least 2: the error estimate comes from their spread.
    key : Array or int
        Random key, or a seed.
    tol : float, optional
        Double `n_points` until the standard error of log Z, the relative error of Z, is below `tol` on every
        row.

    Returns
    -------
    Moments
        With kind "estimate" and `log_z_error`, one standard error. A row has converged when that is below
        `tol` (1e-2 if not given); `n_iter` counts points. The means and variances converge at the same rate;
        no error is given for them.
    """
    _check(n_points, n_shifts, tol)
    _require_double(tg)
    with jax.enable_x64(True):
        random = jax.random.key(key) if isinstance(key, int) else key
        result = _estimate(tg, random, n_points, n_shifts, tol)
        while tol is not None and not bool(result.converged.all()) and 2 * n_points <= _MAX_POINTS:
            n_points *= 2
            result = _estimate(tg, random, n_points, n_shifts, tol)
    _warn(result, tol)
    return result


def _check(n_points: int, n_shifts: int, tol: float | None) -> None:
    if n_points < 1:
        raise ValueError(
            f"`n_points` must be at least 1; got {n_points}. Use 1000 for a relative error near 1e-3."
        )
    if n_shifts < 2:
        raise ValueError(f"`n_shifts` must be at least 2, to estimate the error; got {n_shifts}. Use 8.")
    if tol is not None and not tol > 0:
        raise ValueError(f"`tol` must be positive; got {tol}. Omit it to use `n_points` as given.")


def _require_double(tg: TruncatedGaussian) -> None:
    traced = not is_concrete(*jax.tree.leaves(tg))
    if traced and jnp.result_type(float) != jnp.float64:
        raise ValueError(
            "orthant works in float64, which cannot be switched on inside a program traced in 32 bits. "
            "Call it outside of jit, or call the jitted function inside `with jax.enable_x64(True):`."
        )


def _warn(result: Moments, tol: float | None) -> None:
    if result.log_z_error is None or not is_concrete(result.converged) or np.asarray(result.converged).all():
        return
    worst = float(result.log_z_error.max())
    limit = "" if tol is None else f" (the most, {_MAX_POINTS} points a shift, were used)"
    warnings.warn(
        f"orthant: the standard error of log Z is {worst:.2g} on the worst row, "
        f"above {tol or _USABLE:g}{limit}; "
        "raise `n_points` or `n_shifts`, or use ep.",
        RuntimeWarning,
        stacklevel=3,
    )


def _estimate(tg: TruncatedGaussian, key: Array, n_points: int, n_shifts: int, tol: float | None) -> Moments:
    n = next_prime(n_points)
    limit = _USABLE if tol is None else tol
    result: Moments = _any_shape(tg, generator(n, tg.size), key, limit, n, n_shifts)
    return result


@partial(jax.jit, static_argnames=("n", "n_shifts"))
def _any_shape(tg: TruncatedGaussian, z: Array, key: Array, tol: Array, n: int, n_shifts: int) -> Moments:
    """All of it in one compiled program: small problems would otherwise spend their time between programs."""
    rows = jax.tree.map(lambda a: a if a.dtype == bool else a.astype(jnp.float64), tg.rows())
    result = restore(_rows(rows, z, key, tol, n, n_shifts), tg)
    same: Moments = jax.tree.map(lambda a: a.astype(tg.shift.dtype) if a.dtype == jnp.float64 else a, result)
    return same


def _rows(tg: TruncatedGaussian, z: Array, key: Array, tol: Array, n: int, n_shifts: int) -> Moments:
    m = tg.size
    L = cholesky(tg.precision.dense())
    root = triangular_solve(L, jnp.eye(m, dtype=L.dtype), left_side=True, lower=True)
    covariance = root.T @ root
    whitened = tg.shift @ root.T
    log_volume = m * math.log(2 * math.pi) / 2 - jnp.log(jnp.diagonal(L)).sum() + (whitened**2).sum(-1) / 2

    rows_at_once, shifts_at_once = _portions(len(tg), n_shifts, n * m)
    shifts = jax.random.uniform(key, (n_shifts // shifts_at_once, shifts_at_once, m), dtype=L.dtype)
    log_u = jnp.log(tent_points(z, n, shifts))

    def row(given: tuple[Array, Limits | None]) -> tuple[Array, ...]:
        mean, limits = given
        average: Callable[..., Integral]
        if limits is None:
            average = partial(integrate, separate(covariance, mean, tg.truncated), n_sets=shifts_at_once)
        else:
            average = partial(integrate_box, separate_box(covariance, mean, limits), n_sets=shifts_at_once)
        return _pool(*(a.reshape(n_shifts, *a.shape[2:]) for a in lax.map(average, log_u)))

    limits = None if tg.limits is None else tg.limits.map(lambda a: jnp.broadcast_to(a, tg.shift.shape))
    log_p, error, mean, var = _map_rows(row, (whitened @ root, limits), rows_at_once)
    points = jnp.full(len(tg), n * n_shifts, jnp.int32)
    return Moments(mean, var, log_volume + log_p, error <= tol, points, "estimate", error)


def _pool(log_p: Array, mean: Array, var: Array) -> tuple[Array, ...]:
    """Average over shifts: log probability, its standard error, mean and variance."""
    n_shifts = log_p.shape[0]
    top = log_p.max()
    p = jnp.exp(log_p - top)
    error = p.std(ddof=1) / p.mean() / math.sqrt(n_shifts)
    w = p / p.sum()
    pooled = w @ mean
    return top + jnp.log(p.mean()), error, pooled, w @ (var + (mean - pooled[None, :]) ** 2)


def _map_rows(row: Callable[..., tuple[Array, ...]], given: Any, at_once: int) -> tuple[Array, ...]:
    """Apply `row` to every row of arrays, so many at once; the last portion is filled up with copies."""
    n_rows = jax.tree.leaves(given)[0].shape[0]
    results: tuple[Array, ...]
    if at_once == 1:
        results = lax.map(row, given)
        return results
    n_portions = -(-n_rows // at_once)

    def portions(a: Array) -> Array:
        filled = jnp.pad(a, ((0, n_portions * at_once - n_rows), (0, 0)), mode="edge")
        return filled.reshape(n_portions, at_once, -1)

    results = lax.map(jax.vmap(row), jax.tree.map(portions, given))
    return tuple(a.reshape(-1, *a.shape[2:])[:n_rows] for a in results)


def _portions(n_rows: int, n_shifts: int, size: int) -> tuple[int, int]:
    """How many rows and shifts to do at once: a processor's caches, or a GPU's memory, should hold them."""
    on_cpu = jax.default_backend() == "cpu"
    budget = 2**18 if on_cpu else 2**27
    fitting = [k for k in range(1, n_shifts + 1) if n_shifts % k == 0 and k * size <= budget]
    shifts_at_once = max(fitting, default=1)
    rows_at_once = 1 if on_cpu else min(n_rows, max(1, budget // (n_shifts * size)))
    return rows_at_once, shifts_at_once
