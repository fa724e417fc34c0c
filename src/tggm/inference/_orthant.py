"""Box probabilities: log Z of a truncated Gaussian by quasi-Monte Carlo, with an error estimate.

Separation of variables (`_separation`) turns the probability of a box into an integral over the unit cube;
minimax tilting flattens the integrand, a randomly shifted lattice integrates it, and the spread over shifts
estimates the error. All in logs and in float64: probabilities such as e⁻⁵⁰⁰ cost and err no more than others.
Cost O(points · m²) and O(m³) per row; m up to a few hundred.

`log_box_probability` and its relatives choose an engine and return an error estimate with the result.
"""

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.lax.linalg import cholesky, triangular_solve

from tggm.gaussian import Limits, Moments, TruncatedGaussian
from tggm.inference._common import full_limits, restore
from tggm.inference._ep import ep, ep_with_error
from tggm.inference._exact import exact, exact_log_z, require_tractable
from tggm.inference._separation import generator, integrate, next_prime, separate, tent_points
from tggm.precision import Diagonal
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
    r"""Estimate log Z with its standard error, and means and variances from the same weighted points.

    .. math::
        \log Z = \tfrac m2 \log 2\pi - \tfrac12 \log\det P + \tfrac12 \gamma^T P^{-1} \gamma
                 + \log \Pr(l_k \le h_k \le u_k), \qquad h \sim N(P^{-1}\gamma, P^{-1}).

    Free variables are integrated out exactly. All rows use the same points, so differences between rows have
    smaller errors.

    Parameters
    ----------
    tg : TruncatedGaussian
        Rows that share a precision matrix.
    n_points : int
        Lattice points per random shift; rounded up to a prime.
    n_shifts : int
        Independent random shifts, at least 2: their spread gives the error estimate.
    key : Array or int
        Random key, or a seed.
    tol : float, optional
        Double `n_points` until the standard error of log Z, the relative error of Z, is below `tol` on every
        row.

    Returns
    -------
    Moments
        With kind "estimate" and `log_z_error`, one standard error. A row has converged when that is below
        `tol` (1e-2 if not given); `n_iter` counts points. Means and variances converge at the same rate and
        have no error estimate.
    """
    if n_points < 1:
        raise ValueError(f"`n_points` must be at least 1; got {n_points}. Use 1000 for an error near 1e-3.")
    if n_shifts < 2:
        raise ValueError(f"`n_shifts` must be at least 2, to estimate the error; got {n_shifts}. Use 8.")
    if tol is not None and not tol > 0:
        raise ValueError(f"`tol` must be positive; got {tol}. Omit it to use `n_points` as given.")
    if not is_concrete(*jax.tree.leaves(tg)) and jnp.result_type(float) != jnp.float64:
        raise ValueError(
            "orthant needs float64, which cannot be enabled inside a program traced in 32 bits. "
            "Call it outside of jit, or call the jitted function inside `with jax.enable_x64(True):`."
        )
    largest = _USABLE if tol is None else tol
    with jax.enable_x64(True):
        random = jax.random.key(key) if isinstance(key, int) else key
        while True:
            n = next_prime(n_points)
            result: Moments = _any_shape(tg, generator(n, tg.size), random, largest, n, n_shifts)
            if tol is None or bool(result.converged.all()) or 2 * n_points > _MAX_POINTS:
                break
            n_points *= 2
    if is_concrete(result.converged) and not np.asarray(result.converged).all():
        limit = "" if tol is None else f" with the largest number of points ({_MAX_POINTS} per shift)"
        worst = float(jnp.asarray(result.log_z_error).max())
        warnings.warn(
            f"orthant: the largest standard error of log Z is {worst:.2g}, above "
            f"{largest:g}{limit}; raise `n_points` or `n_shifts`, or use ep.",
            RuntimeWarning,
            stacklevel=2,
        )
    return result


@partial(jax.jit, static_argnames=("n", "n_shifts"))
def _any_shape(tg: TruncatedGaussian, z: Array, key: Array, tol: Array, n: int, n_shifts: int) -> Moments:
    """Run one compiled program: for small problems the overhead of several would dominate."""
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

    def row(given: tuple[Array, Limits]) -> tuple[Array, ...]:
        box = separate(covariance, *given)
        average = partial(integrate, box, n_sets=shifts_at_once, half_lines=tg.limits is None)
        return _pool(*(a.reshape(n_shifts, *a.shape[2:]) for a in lax.map(average, log_u)))

    log_p, error, mean, var = lax.map(row, (whitened @ root, full_limits(tg)), batch_size=rows_at_once)
    points = jnp.full(len(tg), n * n_shifts, jnp.int32)
    return Moments(mean, var, log_volume + log_p, error <= tol, points, "estimate", error)


def _pool(log_p: Array, mean: Array, var: Array) -> tuple[Array, ...]:
    """Average over shifts; return log probability, its standard error, mean and variance."""
    n_shifts = log_p.shape[0]
    top = log_p.max()
    p = jnp.exp(log_p - top)
    error = p.std(ddof=1) / p.mean() / math.sqrt(n_shifts)
    w = p / p.sum()
    pooled = w @ mean
    return top + jnp.log(p.mean()), error, pooled, w @ (var + (mean - pooled[None, :]) ** 2)


def _portions(n_rows: int, n_shifts: int, size: int) -> tuple[int | None, int]:
    """Choose how many rows and shifts fit into a CPU's caches or a GPU's memory."""
    on_cpu = jax.default_backend() == "cpu"
    budget = 2**18 if on_cpu else 2**27
    fitting = [k for k in range(1, n_shifts + 1) if n_shifts % k == 0 and k * size <= budget]
    shifts_at_once = max(fitting, default=1)
    rows_at_once = None if on_cpu else min(n_rows, max(1, budget // (n_shifts * size)))
    return rows_at_once, shifts_at_once


ENGINES = ("auto", "exact", "ep", "orthant")
_ROUNDING = 1e-12  # relative error of log Z by `exact`


class Estimate(NamedTuple):
    """Values, and their errors: one standard error, or an estimate of the size of the error."""

    value: Array
    error: Array


def choose_engine(tg: TruncatedGaussian, engine: str) -> str:
    """Return the engine for "auto": exact where there is an exact answer, EP elsewhere.

    Independent variables always have a closed form.
    """
    if engine not in ENGINES:
        raise ValueError(f"`engine` must be one of {ENGINES}; got {engine!r}.")
    if engine != "auto" and not isinstance(tg.precision, Diagonal):
        return engine
    try:
        require_tractable(tg)
    except ValueError:
        return "ep"
    return "exact"


def estimate_moments(tg: TruncatedGaussian, engine: str, **options: Any) -> Moments:
    """Return the moments of each row by the chosen engine."""
    return _BY_ENGINE[choose_engine(tg, engine)][0](tg, **options)


def estimate_log_z(tg: TruncatedGaussian, engine: str, **options: Any) -> Estimate:
    """Return log Z of each row; the error is rounding, a second-order term, or a spread over shifts."""
    return _BY_ENGINE[choose_engine(tg, engine)][1](tg, **options)


def _exact_log_z(tg: TruncatedGaussian, **_: Any) -> Estimate:
    value = exact_log_z(tg).reshape(tg.shift.shape[:-1])
    return Estimate(value, _ROUNDING * jnp.maximum(jnp.abs(value), 1))


def _ep_log_z(tg: TruncatedGaussian, *, max_iter: int = 200, tol: float = 1e-9, **_: Any) -> Estimate:
    rows, shape = tg.rows(), tg.shift.shape[:-1]
    value, error = ep_with_error(rows, jnp.int32(max_iter), jnp.asarray(tol, rows.shift.dtype))
    return Estimate(value.reshape(shape), jnp.maximum(error, _ROUNDING).reshape(shape))


def _orthant_log_z(tg: TruncatedGaussian, **options: Any) -> Estimate:
    found = orthant(tg, **options)
    return Estimate(jnp.asarray(found.log_z), jnp.asarray(found.log_z_error))


_BY_ENGINE: dict[str, tuple[Callable[..., Moments], Callable[..., Estimate]]] = {
    "exact": (lambda tg, **_: exact(tg), _exact_log_z),
    "ep": (ep, _ep_log_z),
    "orthant": (orthant, _orthant_log_z),
}


def log_box_probability(tg: TruncatedGaussian, engine: str, **options: Any) -> Estimate:
    """Return the log probability of the box for each row under N(P⁻¹γ, P⁻¹).

    log Pr = log Z(P, γ) − ½ (m log 2π − log det P + γᵀP⁻¹γ).
    """
    found = estimate_log_z(tg, engine, **options)
    return Estimate(found.value - _log_volume(tg), found.error)


@jax.jit
def _log_volume(tg: TruncatedGaussian) -> Array:
    """Return log Z without truncation."""
    rows = tg.rows()
    factor = tg.precision.factor(jnp.zeros_like(rows.shift))
    quadratic = (rows.shift * factor.solve(rows.shift)).sum(-1)
    value = 0.5 * (tg.size * math.log(2 * math.pi) - factor.log_det() + quadratic)
    return value.reshape(tg.shift.shape[:-1])
