"""Gibbs sampling of truncated Gaussians: one variable after the other, from its univariate truncated normal.

Exact in the limit for any precision matrix; mixes slowly when variables are strongly correlated, where `hmc`
does better. A sweep costs O(m²) per chain and row; all chains of all rows move together. Draws come by
inverting the distribution function in logs, so variables pushed any number of standard deviations behind
their wall are drawn as exactly as others.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from tggm.gaussian import Limits, Moments, TruncatedGaussian, Walls
from tggm.inference.factors import scaled, standardised
from tggm.inference.rows import restore
from tggm.inference.sampling.chains import agreement, plan, starting_point
from tggm.products import full_precision
from tggm.special import box_quantile
from tggm.special.quantile import survival_quantile, truncated_excess


class _SweepState(NamedTuple):
    key: Array
    h: Array  # (m, walkers)
    mean: Array  # (m, walkers) E[h_k | rest] met on the last sweep
    var: Array  # (m, walkers) Var[h_k | rest] likewise


class _Running(NamedTuple):
    n: Array  # draws kept so far
    mean: Array  # (m, walkers) mean of E[h_k | rest]
    square: Array  # (m, walkers) sum of its squared deviations
    inner: Array  # (m, walkers) sum of Var[h_k | rest]


def gibbs(
    tg: TruncatedGaussian,
    key: Array,
    n: int,
    *,
    n_chains: int = 64,
    burn_in: int = 100,
    thin: int = 1,
    init: ArrayLike | None = None,
) -> Moments:
    r"""Draws by systematic scan; means and variances with each variable integrated out given the others.

    .. math::
        h_k \mid h_{-k} \sim N_T(\theta_k / P_{kk}, 1 / P_{kk}), \qquad \theta_k = \gamma_k - \sum_{j \ne k}
        P_{kj} h_j,

    untruncated where the variable is free. The moments average E[h_k | h₋ₖ] and E[h_k² | h₋ₖ] over the kept
    sweeps (Rao and Blackwell), which as a rule errs less than averaging the draws.

    Parameters
    ----------
    tg : TruncatedGaussian
        Rows that share a precision matrix.
    key : Array
        Random key.
    n : int
        Draws per row, all chains together.
    n_chains : int
        Independent chains per row, at most `n`.
    burn_in, thin : int
        Sweeps before the first draw, and from one draw to the next.
    init : array_like, shape of the shift or (n_chains, shape of the shift), optional
        States to start from, nonnegative where truncated.

    Returns
    -------
    Moments
        With kind "sample", `draws` of shape (n, …, m) and no `log_z`. `converged` tells whether the chains of
        a row agree; `n_iter` counts sweeps.
    """
    rows = tg.rows()
    schedule = plan(n, n_chains, burn_in, thin)
    start = starting_point(rows, schedule.n_chains, init)
    return restore(_run(rows, key, start, schedule.sweeps(), schedule.n), tg)


@partial(jax.jit, static_argnames="n")
@full_precision
def _run(tg: TruncatedGaussian, key: Array, h: Array, sweeps: Array, n: int) -> Moments:
    m, n_rows = tg.shift.shape[1], tg.shift.shape[0]
    n_chains = h.shape[1] // n_rows
    gamma = jnp.tile(tg.shift.T, (1, n_chains))  # (m, walkers): walker = chain * rows + row
    P = tg.precision.dense()
    walls: Walls = tg.truncated
    if tg.limits is not None:  # (m, walkers)
        walls = tg.limits.map(lambda a: jnp.tile(jnp.broadcast_to(a, tg.shift.shape).T, (1, n_chains)))

    def sweep(_: Array, state: _SweepState) -> _SweepState:
        key, now = jax.random.split(state.key)
        return _SweepState(key, *_sweep(P, walls, gamma, now, state.h))

    def keep(
        carry: tuple[_SweepState, _Running], n_sweeps: Array
    ) -> tuple[tuple[_SweepState, _Running], Array]:
        state, running = carry
        state = lax.fori_loop(0, n_sweeps, sweep, state)
        return (state, _update(running, state)), state.h

    zero = jnp.zeros_like(h)
    start = (_SweepState(key, h, zero, zero), _Running(jnp.zeros((), h.dtype), zero, zero, zero))
    (_, running), kept = lax.scan(keep, start, sweeps)
    draws = kept.reshape(-1, m, n_chains, n_rows).transpose(0, 2, 3, 1)
    mean, var = _integrated(running, (m, n_chains, n_rows))
    n_iter = jnp.broadcast_to(sweeps.sum(), (n_rows,))
    return Moments(
        mean, var, None, agreement(draws), n_iter, "sample", draws=draws.reshape(-1, n_rows, m)[:n]
    )


def _sweep(P: Array, walls: Walls, gamma: Array, key: Array, h: Array) -> tuple[Array, Array, Array]:
    """Every variable once: new states, and the conditional means and variances met on the way."""
    m = h.shape[0]
    tiny = 2.0**-24 if h.dtype == jnp.float32 else 2.0**-54
    u = jax.random.uniform(key, h.shape, h.dtype, minval=tiny)

    def variable(h: Array, given: Any) -> tuple[Array, tuple[Array, Array]]:
        k, row, wall, gamma_k, u_k = given
        p = row[k]
        theta = gamma_k - row @ h + p * h[k]
        alpha, sigma = theta / jnp.sqrt(p), 1 / jnp.sqrt(p)
        if isinstance(wall, Limits):
            drawn = box_quantile(u_k, theta / p, sigma, *wall)
        else:
            bounded = truncated_excess(alpha, u_k)
            drawn = sigma * jnp.where(wall, bounded, alpha + survival_quantile(-jnp.log(u_k)))
        g, omega2 = standardised(alpha, scaled(wall, jnp.sqrt(p)))
        return lax.dynamic_update_index_in_dim(h, drawn, k, 0), (sigma * g, sigma * sigma * omega2)

    h, (mean, var) = lax.scan(variable, h, (jnp.arange(m, dtype=jnp.int32), P, walls, gamma, u))
    return h, mean, var


def _update(running: _Running, state: _SweepState) -> _Running:
    """Welford's update, which does not cancel however far the mean is from zero."""
    n = running.n + 1
    step = state.mean - running.mean
    mean = running.mean + step / n
    square = running.square + step * (state.mean - mean)
    return _Running(n, mean, square, running.inner + state.var)


def _integrated(running: _Running, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Mean and variance of each row from all its chains, shape (rows, m)."""
    per_chain = running.mean.reshape(shape)
    mean = per_chain.mean(1)
    within = ((running.inner + running.square) / running.n).reshape(shape)
    return mean.T, (within + (per_chain - mean[:, None]) ** 2).mean(1).T
