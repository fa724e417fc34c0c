"""Samplers of truncated Gaussians: Gibbs sampling and exact Hamiltonian Monte Carlo.

`gibbs` draws one variable after the other from its univariate truncated normal. It is exact in the limit for
any precision matrix and mixes slowly when variables are strongly correlated. A sweep costs O(m²) per chain
and row; all chains of all rows are updated together. Draws invert the distribution function in logs, so they
are accurate for means any number of standard deviations outside of the limits.

`hmc` moves particles along ellipses that are reflected at the walls. With potential −log p and kinetic energy
½ vᵀPv a particle moves along h(t) = μ + v sin t + (h₀ − μ) cos t, known in closed form, as are the times at
which a variable reaches a limit. Nothing is discretised, and only trajectories with too many reflections are
rejected. It mixes well under strong correlations, and is slow when means are many standard deviations outside
of the limits, because there are many reflections. Each reflection costs O(m) per chain and row, each
trajectory O(m²).

A. Pakman and L. Paninski, Exact Hamiltonian Monte Carlo for truncated multivariate Gaussians, JCGS 23 (2014).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.lax.linalg import cholesky, triangular_solve
from jax.typing import ArrayLike

from tggm import settings as check
from tggm.gaussian import Limits, Moments, TruncatedGaussian, Walls
from tggm.inference._common import LEAST_EFFECTIVE, full_limits, restore, student_bound, unit_moments
from tggm.runtime import full_precision
from tggm.special import truncated_quantile
from tggm.special.quantile import survival_quantile, truncated_excess

Step = Callable[[Array, Array], tuple[Array, tuple[Array, Array] | None]]


def _sample(
    method: Callable[..., Step], tg: TruncatedGaussian, key: Array, n: int, n_chains: int, burn_in: int,
    thin: int, init: ArrayLike | None, *numbers: Array,
) -> Moments:  # fmt: skip
    """Check the arguments, divide the draws among the chains and run them, all in parallel.

    `method` returns a step from the states of all chains to the next ones, (m, walkers), and to conditional
    moments or None; walker = chain * rows + row.
    """
    for name, value in {"n": n, "n_chains": n_chains, "burn_in": burn_in, "thin": thin}.items():
        check.count(name, value, least=0 if name == "burn_in" else 1)
    rows, n_chains = tg.rows(), min(n, n_chains)
    steps = np.full(-(-n // n_chains), thin, np.int32)  # before each kept draw
    steps[0] += burn_in
    key, first = jax.random.split(key)
    start = starting_point(rows, n_chains, init, first)
    return restore(_run(method, n, rows, key, start, jnp.asarray(steps), *numbers), tg)


@partial(jax.jit, static_argnums=(0, 1))
@full_precision
def _run(
    method: Callable[..., Step], n: int, tg: TruncatedGaussian, key: Array, h: Array, steps: Array,
    *numbers: Array,
) -> Moments:  # fmt: skip
    n_rows, m = tg.shift.shape
    n_chains = h.shape[1] // n_rows
    step = method(tg, n_chains, *numbers)

    def move(_: Array, state: Any) -> Any:
        key, now = jax.random.split(state[0])
        return key, *step(now, state[1])

    def keep(state: Any, count: Array) -> tuple[Any, Any]:
        state = lax.fori_loop(0, count, move, state)
        return state, state[1:]

    like = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(step, key, h)[1])
    _, kept = lax.scan(keep, (key, h, like), steps)
    draws, moments = jax.tree.map(lambda a: a.reshape(-1, m, n_chains, n_rows).transpose(0, 2, 3, 1), kept)
    means, variances = (draws, 0.0) if moments is None else moments
    mean = means.mean((0, 1))
    var = (variances + (means - mean[None, None]) ** 2).mean((0, 1))
    some, n_iter = draws.reshape(-1, n_rows, m)[:n], jnp.broadcast_to(steps.sum(), n_rows)
    converged, ess = agreement(draws, var)
    pieces = 2 * n_chains if draws.shape[0] > 1 else max(n_chains, 2)
    error = student_bound(pieces) * jnp.sqrt(var / ess)
    return Moments(mean, var, None, converged, n_iter, "sample", mean_error=error, ess=ess, draws=some)


def starting_point(tg: TruncatedGaussian, n_chains: int, init: ArrayLike | None, key: Array) -> Array:
    """Return first states of all chains, (m, n_chains * rows), by default draws clipped to the limits."""
    rows, m = tg.shift.shape
    lower, upper = (jnp.tile(a.T, (1, n_chains)) for a in full_limits(tg))
    if init is None:
        L = cholesky(tg.precision.dense())
        z = jax.random.normal(key, (m, n_chains * rows), L.dtype)
        z = z + jnp.tile(triangular_solve(L, tg.shift.T, left_side=True, lower=True), (1, n_chains))
        h = triangular_solve(L, z, left_side=True, lower=True, transpose_a=True)
        return jnp.clip(h, lower, upper)
    h = jnp.asarray(init, tg.shift.dtype)
    if h.size not in (rows * m, n_chains * rows * m) or h.shape[-1:] != (m,):
        raise ValueError(
            f"`init` must have the shape of the shift, or that with {n_chains} chains in front; "
            f"got shape {h.shape} for {rows} rows of {m} variables."
        )
    h = jnp.broadcast_to(h.reshape(-1, rows, m), (n_chains, rows, m))
    return jnp.clip(h.reshape(n_chains * rows, m).T, lower, upper)


def agreement(draws: Array, var: Array) -> tuple[Array, Array]:
    """Return whether the chains of each row agree, and effective sample sizes, (rows, m).

    The spread of the means of halves of every chain of `draws`, (per_chain, n_chains, rows, m), and the
    difference between first and second halves give the squared standard error of a mean; the variance over
    it is the effective sample size, which must be at least 100. It is at most the number of draws that differ
    from their predecessors: equal chains that do not move have no spread.
    """
    per_chain, n_chains = draws.shape[:2]
    half = max(per_chain // 2, 1)
    pieces = jnp.stack([draws[:half].mean(0), draws[-half:].mean(0)])[: min(per_chain, 2)]
    n_pieces = pieces.shape[0] * n_chains
    if n_pieces == 1:
        return jnp.zeros(draws.shape[2], bool), jnp.ones_like(var)
    error = pieces.var((0, 1), ddof=1) / n_pieces
    halves = pieces.mean(1)
    drift = (halves[0] - halves[-1]) ** 2 / 4
    ess = var / jnp.maximum(jnp.maximum(error, drift), float(np.finfo(var.dtype).tiny))
    moved = (draws[1:] != draws[:-1]).sum((0, 1), dtype=var.dtype) * (per_chain / max(per_chain - 1, 1))
    ess = jnp.minimum(ess, moved if per_chain > 1 else n_chains)
    return (ess >= LEAST_EFFECTIVE).all(-1), ess


def gibbs(
    tg: TruncatedGaussian, key: Array, n: int, *, n_chains: int = 64, burn_in: int = 100, thin: int = 1,
    init: ArrayLike | None = None,
) -> Moments:  # fmt: skip
    r"""Draw by systematic scan; means and variances integrate each variable out given the others.

    .. math::
        h_k \mid h_{-k} \sim N_T(\theta_k / P_{kk}, 1 / P_{kk}), \qquad \theta_k = \gamma_k - \sum_{j \ne k}
        P_{kj} h_j,

    untruncated where the variable is free. The moments average E[h_k | h₋ₖ] and E[h_k² | h₋ₖ] over the kept
    sweeps (Rao and Blackwell), which usually has a smaller error than the average of the draws.

    Parameters
    ----------
    tg : TruncatedGaussian
        Rows that share a precision matrix.
    key : Array
        Random key.
    n : int
        Draws per row, from all chains.
    n_chains : int
        Independent chains per row, at most `n`.
    burn_in, thin : int
        Sweeps before the first draw, and between draws.
    init : array_like, shape of the shift or (n_chains, shape of the shift), optional
        States to start from; clipped to the limits.

    Returns
    -------
    Moments
        With kind "sample", `draws` of shape (n, …, m) and no `log_z`. `ess` are effective sample sizes, from
        the spread of the chains; `converged` is true if all are at least 100, and `mean_error` is a 99.9 %
        bound then. `n_iter` counts sweeps.
    """
    return _sample(_gibbs_step, tg, key, n, n_chains, burn_in, thin, init)


def _gibbs_step(tg: TruncatedGaussian, n_chains: int) -> Step:
    gamma = jnp.tile(tg.shift.T, (1, n_chains))
    P = tg.precision.dense()
    walls: Walls = tg.truncated
    if tg.limits is not None:  # (m, walkers)
        walls = full_limits(tg).map(lambda a: jnp.tile(a.T, (1, n_chains)))
    return partial(_sweep, P, walls, gamma)


def _sweep(P: Array, walls: Walls, gamma: Array, key: Array, h: Array) -> tuple[Array, tuple[Array, Array]]:
    """Update every variable once; return new states and the conditional means and variances."""
    m = h.shape[0]
    tiny = 2.0**-24 if h.dtype == jnp.float32 else 2.0**-54
    u = jax.random.uniform(key, h.shape, h.dtype, minval=tiny)

    def variable(h: Array, given: Any) -> tuple[Array, tuple[Array, Array]]:
        k, row, wall, gamma_k, u_k = given
        p = row[k]
        theta = gamma_k - row @ h + p * h[k]
        alpha, sigma = theta / jnp.sqrt(p), 1 / jnp.sqrt(p)
        if isinstance(wall, Limits):
            drawn = truncated_quantile(u_k, theta / p, sigma, *wall)
        else:
            bounded = truncated_excess(alpha, jnp.log(u_k))
            drawn = sigma * jnp.where(wall, bounded, alpha + survival_quantile(-jnp.log(u_k)))
        mean, omega2 = unit_moments(theta, p, wall)
        return lax.dynamic_update_index_in_dim(h, drawn, k, 0), (mean, omega2 / p)

    return lax.scan(variable, h, (jnp.arange(m, dtype=jnp.int32), P, walls, gamma, u))


class _Trajectory(NamedTuple):
    h: Array  # (m, walkers) position
    v: Array  # (m, walkers) velocity
    left: Array  # (walkers,) time still to travel
    n_bounces: Array  # ()


def hmc(
    tg: TruncatedGaussian, key: Array, n: int, *, n_chains: int = 64, burn_in: int = 20, thin: int = 1,
    max_bounces: int | None = None, init: ArrayLike | None = None,
) -> Moments:  # fmt: skip
    r"""Draw at the ends of trajectories of length π/2, each with a new velocity v ~ N(0, P⁻¹).

    Without walls this length makes the new state independent of the old.
    A wall h_k = 0 is reached at time t = φ + arccos(−μ_k / u), where h_k(t) = μ_k + u cos(t − φ); the
    reflection that keeps the energy is

    .. math::
        v \leftarrow v - 2\, \Sigma_{\cdot k}\, v_k / \Sigma_{kk}, \qquad \Sigma = P^{-1}.

    Parameters
    ----------
    tg, key, n, n_chains, init
        As in `gibbs`. The result is also the same, but `n_iter` counts trajectories.
    burn_in, thin : int
        Trajectories before the first draw, and between draws.
    max_bounces : int, optional
        Trajectories with more reflections (1000 + 100 m) are rejected, which keeps the distribution.
    """
    bounces = 1000 + 100 * tg.size if max_bounces is None else max_bounces
    check.count("max_bounces", bounces)
    return _sample(_hmc_step, tg, key, n, n_chains, burn_in, thin, init, jnp.int32(bounces))


def _hmc_step(tg: TruncatedGaussian, n_chains: int, max_bounces: Array) -> Step:
    m = tg.size
    L = cholesky(tg.precision.dense())
    root = triangular_solve(L, jnp.eye(m, dtype=L.dtype), left_side=True, lower=True)  # Σ = rootᵀ root
    covariance = root.T @ root
    mean = jnp.tile(covariance @ tg.shift.T, (1, n_chains))  # (m, walkers)
    lower = jnp.where(tg.truncated, 0.0, -jnp.inf).astype(L.dtype)[:, None]
    upper: Array | None = None
    if tg.limits is not None:  # (m, walkers)
        lower, upper = (jnp.tile(a.T, (1, n_chains)) for a in full_limits(tg))

    def step(key: Array, h: Array) -> tuple[Array, None]:
        v = root.T @ jax.random.normal(key, h.shape, h.dtype)
        return _end_of_trajectory(mean, covariance, lower, upper, h, v, max_bounces), None

    return step


def _end_of_trajectory(
    mean: Array, covariance: Array, lower: Array, upper: Array | None, h: Array, v: Array, max_bounces: Array
) -> Array:
    """Return each particle's place after time π/2, or its start if it was reflected too often."""

    def unfinished(state: _Trajectory) -> Array:
        return (state.left > 0).any() & (state.n_bounces <= max_bounces)

    def to_next_wall(state: _Trajectory) -> _Trajectory:
        offset, v, left = state.h - mean, state.v, state.left
        time = _hit_time(mean - lower, offset, v)
        if upper is not None:
            other = _hit_time(upper - mean, -offset, -v)
            wall, time = jnp.where(other < time, upper, lower), jnp.minimum(time, other)
        else:
            wall = jnp.broadcast_to(lower, time.shape)
        k = time.argmin(0)
        hit_time = time.min(0)
        hits = hit_time < left
        t = jnp.where(hits, hit_time, left)[None, :]
        h = mean + v * jnp.sin(t) + offset * jnp.cos(t)
        v = v * jnp.cos(t) - offset * jnp.sin(t)
        at_wall = (jnp.arange(h.shape[0])[:, None] == k[None, :]) & hits[None, :]
        h = jnp.where(at_wall, wall, jnp.clip(h, lower, upper))  # against rounding
        # the lower wall is reached going down and the upper one going up; rounding must not change that
        up = jnp.abs(v) if upper is None else jnp.where(wall == upper, -1, 1) * jnp.abs(v)
        inward = jnp.where(at_wall, up, 0).sum(0) / jnp.diagonal(covariance)[k]
        return _Trajectory(h, v + 2 * covariance[:, k] * inward[None, :], left - t[0], state.n_bounces + 1)

    left = jnp.full(h.shape[1:], 0.5 * math.pi, h.dtype)
    end = lax.while_loop(unfinished, to_next_wall, _Trajectory(h, v, left, jnp.int32(0)))
    return jnp.where((end.left > 0)[None, :], h, end.h)


def _hit_time(mean: Array, offset: Array, v: Array) -> Array:
    """Return the first time at which mean + v sin t + offset cos t decreases to zero, or infinity.

    `mean` is relative to a wall, and infinite where there is none.
    """
    radius = jnp.hypot(v, offset)
    reaches = radius > jnp.abs(mean)
    angle = jnp.arccos(jnp.where(reaches, -mean / jnp.where(reaches, radius, 1), 0))
    return jnp.where(reaches, jnp.maximum(angle + jnp.arctan2(v, offset), 0), jnp.inf)
