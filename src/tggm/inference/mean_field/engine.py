"""Mean-field inference for truncated Gaussians.

Approximates p(h) ∝ exp(−½ hᵀPh + γᵀh) in its box by independent univariate truncated normals, the q that
minimises KL(q ‖ p). The problem is strictly convex, since no box lets a variance grow, so there is one
answer; `solver="newton"` finds it to rounding, `solver="cyclic"` is the paper's Algorithm 1, stopped after a
number of cycles. `log_z` is a lower bound. Exact when P is diagonal; overconfident, and the bound loose, when
P has strong off-diagonals: see docs/choosing-an-engine.md.
"""

import warnings
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from tggm.gaussian import Moments, TruncatedGaussian
from tggm.inference import fused
from tggm.inference.factors import log_normaliser, scaled, standardised
from tggm.inference.mean_field.cyclic import cyclic
from tggm.inference.mean_field.low_rank import low_rank_newton, suits
from tggm.inference.mean_field.newton import newton, solve
from tggm.inference.rows import restore
from tggm.precision.protocol import is_concrete
from tggm.products import full_precision

SOLVERS = ("newton", "cyclic")


def mean_field(
    tg: TruncatedGaussian,
    *,
    solver: str = "newton",
    max_iter: int = 100,
    n_cycles: int = 10,
    start: ArrayLike | None = None,
) -> Moments:
    r"""Means, variances and a lower bound on log Z under the best factorised approximation.

    .. math::
        \log Z \ge \sum_k A_k(\theta_k) + (\gamma - \theta)^T m - \tfrac12 m^T \tilde P m,

    with m the means of q and A_k the univariate log-normalisers; at the optimum θ = γ − P̃m.

    Parameters
    ----------
    tg : TruncatedGaussian
        Rows that share a precision matrix.
    solver : {"newton", "cyclic"}
        Newton's method to convergence, or the paper's coordinate updates for `n_cycles` cycles.
    max_iter : int
        Most Newton steps, backtracking included.
    n_cycles : int
        Cycles of the cyclic solver.
    start : array_like, shape of the shift, optional
        Means to start from, within the limits; e.g. the answer of an earlier visit of the same
        rows.

    Returns
    -------
    Moments
        With kind "bound". `converged` is per row; for the cyclic solver it tells whether the last cycle moved
        no mean by more than a thousandth of its standard deviation.
    """
    if solver not in SOLVERS:
        raise ValueError(f"`solver` must be one of {SOLVERS}; got {solver!r}.")
    if n_cycles < 1:
        raise ValueError(f"`n_cycles` must be at least 1; got {n_cycles}.")
    rows = tg.rows()
    begin = None if start is None else jnp.asarray(start, rows.shift.dtype).reshape(rows.shift.shape)
    if solver == "newton":
        result = newton_moments(rows, begin, jnp.int32(max_iter))
        if is_concrete(result.converged) and not np.asarray(result.converged).all():
            warnings.warn(
                f"mean_field did not converge on {int((~result.converged).sum())} of {len(rows)} rows in "
                f"{max_iter} steps (see Moments.converged); raise `max_iter`, or use float64 where couplings "
                "are strong.",
                RuntimeWarning,
                stacklevel=2,
            )
    else:
        result = cyclic_moments(rows, begin, jnp.int32(n_cycles))
    return restore(result, tg)


@jax.jit
@full_precision
def newton_moments(tg: TruncatedGaussian, start: Array | None, max_iter: Array) -> Moments:
    """Newton's answer for rows, by whichever path suits the structure; `start` holds means."""
    general = partial(_general_newton, start=start)
    if start is None and fused.suits(tg):
        kernel = partial(fused.run, fused.mean_field_row, "bound")
        result: Moments = lax.platform_dependent(tg, max_iter, cuda=kernel, default=general)
        return result
    return general(tg, max_iter)


def _general_newton(tg: TruncatedGaussian, max_iter: Array, start: Array | None) -> Moments:
    if not suits(tg):
        return _safeguarded(tg, _start_theta(tg, start), max_iter)
    fast = low_rank_newton(tg, start, max_iter)

    def rescue(fast: Moments) -> Moments:
        done = fast.converged
        stationary = tg.shift - tg.precision.off_diagonal(fast.mean)
        theta = jnp.where(done[:, None], stationary, _start_theta(tg, start))
        slow = _safeguarded(tg, theta, max_iter - fast.n_iter.max())
        return replace(slow, n_iter=fast.n_iter + jnp.where(done, 0, slow.n_iter))

    result: Moments = lax.cond(fast.converged.all(), lambda fast: fast, rescue, fast)
    return result


def _safeguarded(tg: TruncatedGaussian, theta: Array, max_iter: Array) -> Moments:
    state = newton(tg, theta, max_iter)
    return factor_moments(tg, state.point.theta, state.done, state.n_iter)


@jax.jit
@full_precision
def cyclic_moments(tg: TruncatedGaussian, start: Array | None, n_cycles: Array) -> Moments:
    """What the paper's Algorithm 1 reaches from means `start`."""
    if start is None:
        start = _lone_means(tg)
    theta = cyclic(tg, start, n_cycles)
    result = factor_moments(tg, theta, jnp.zeros(len(tg), bool), jnp.full(len(tg), n_cycles))
    drift = theta + tg.precision.off_diagonal(result.mean) - tg.shift
    still = (jnp.abs(drift) * jnp.sqrt(result.var)).max(-1) <= 1e-3
    return Moments(result.mean, result.var, result.log_z, still, result.n_iter, "bound")


def _lone_means(tg: TruncatedGaussian) -> Array:
    """Means of the coordinates as if their off-diagonal couplings were not there."""
    p = tg.precision.diagonal()[None, :]
    g, _ = standardised(tg.shift / jnp.sqrt(p), scaled(tg.walls(), jnp.sqrt(p)))
    return g / jnp.sqrt(p)


def _start_theta(tg: TruncatedGaussian, start: Array | None) -> Array:
    """Stationarity θ = γ − P̃m at the starting means."""
    if start is None:  # the answer, were nothing truncated
        return solve(tg, jnp.zeros_like(tg.shift), tg.shift) * tg.precision.diagonal()[None, :]
    return tg.shift - tg.precision.off_diagonal(start)


def factor_moments(tg: TruncatedGaussian, theta: Array, converged: Array, n_iter: Array) -> Moments:
    """Moments of q and the bound it gives, valid for any θ."""
    p = tg.precision.diagonal()[None, :]
    walls = tg.walls()
    g, omega2 = standardised(theta / jnp.sqrt(p), scaled(walls, jnp.sqrt(p)))
    mean = g / jnp.sqrt(p)
    energy = ((tg.shift - theta - tg.precision.off_diagonal(mean) / 2) * mean).sum(-1)
    log_z = log_normaliser(theta, p, walls).sum(-1) + energy
    return Moments(mean, omega2 / p, log_z, converged, n_iter, "bound")


def expected_energy(tg: TruncatedGaussian, mean: Array, var: Array) -> Array:
    """E_q[−½ hᵀPh + γᵀh] for a factorised q with these means and variances."""
    P = tg.precision
    second = P.off_diagonal(mean) * mean + P.diagonal()[None, :] * (mean**2 + var)
    return (tg.shift * mean - second / 2).sum(-1)


def limit_energy(tg: TruncatedGaussian, theta: Array) -> Array:
    """What a bound gains with the limits, q having θ: ∂/∂l and ∂/∂u are q's densities there."""
    p = lax.stop_gradient(tg.precision.diagonal())[None, :]
    return log_normaliser(lax.stop_gradient(theta), p, tg.walls()).sum(-1)
