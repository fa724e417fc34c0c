"""Expectation propagation for truncated Gaussians.

Each truncated coordinate gets a Gaussian site exp(−½ λ h² + ν h) in place of its wall, chosen so that the
marginal of the Gaussian with all sites, and of the Gaussian with this one wall put back (the cavity times
1[h ≥ 0]), have the same mean and variance. Sites of a wall are never negative (λ ≥ 0), so all sites can be
updated at once; damping sets in only for rows whose mismatch grows. Nearly exact for the problems of this
library: 1e-4 to 1e-3 nats where mean field errs by tenths to tens. A step costs what `precision.factor`
costs, O(mn²) a row for `LowRank`.
"""

import warnings
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import Moments, TruncatedGaussian
from tggm.inference import rank_one
from tggm.inference.factors import log_normaliser, standardised
from tggm.inference.rows import restore
from tggm.precision.protocol import is_concrete, rounding


class Sites(NamedTuple):
    """Gaussian stand-ins for the walls, and how far their marginals are from the tilted ones."""

    precision: Array  # (rows, m) λ
    shift: Array  # (rows, m) ν
    mismatch: Array  # (rows,) largest standardised difference between marginal and tilted moments
    damping: Array  # (rows,) fraction of an update that is applied
    n_iter: Array  # (rows,)


class Cavity(NamedTuple):
    """A coordinate's Gaussian without its own site, in natural parameters."""

    precision: Array
    shift: Array


def ep(tg: TruncatedGaussian, *, max_iter: int = 100, tol: float | None = None) -> Moments:
    r"""Means, variances and EP's estimate of log Z.

    .. math::
        \log Z \approx \log Z_G(P + \Lambda, \gamma + \nu)
            + \sum_k \left[ A_T(\tau_k, \eta_k) - A_G(\tau_k + \lambda_k, \eta_k + \nu_k) \right],

    with cavity parameters τ, η, and A_T, A_G the log-normalisers of a truncated and of a whole Gaussian
    factor.

    Parameters
    ----------
    tg : TruncatedGaussian
        Rows that share a precision matrix.
    max_iter : int
        Most sweeps over all sites.
    tol : float, optional
        Largest difference between marginal and tilted means (in standard deviations) and variances
        (relative) at which a row counts as converged; by default the square root of rounding, where log Z
        is right to rounding.

    Returns
    -------
    Moments
        With kind "estimate".
    """
    if max_iter < 1:
        raise ValueError(f"`max_iter` must be at least 1; got {max_iter}.")
    rows = tg.rows()
    result = _ep(rows, jnp.int32(max_iter), jnp.asarray(tolerance(rows, tol), rows.shift.dtype))
    if is_concrete(result.converged) and not bool(result.converged.all()):
        warnings.warn(
            f"ep did not converge on {int((~result.converged).sum())} of {len(rows)} rows in "
            f"{max_iter} sweeps; raise `max_iter` or `tol`, or use float64 (see Moments.converged).",
            RuntimeWarning,
            stacklevel=2,
        )
    return restore(result, tg)


def tolerance(tg: TruncatedGaussian, tol: float | None) -> float:
    if tol is not None:
        if not tol > 0:
            raise ValueError(f"`tol` must be positive; got {tol}.")
        return tol
    return 1e-9 if tg.shift.dtype.itemsize == 8 else 1e-4


@jax.jit
def _ep(tg: TruncatedGaussian, max_iter: Array, tol: Array) -> Moments:
    if rank_one.suits(tg):
        fused = partial(rank_one.run, rank_one.ep_block, "estimate")
        result: Moments = lax.platform_dependent(tg, max_iter, tol, cuda=fused, default=_general_ep)
        return result
    return _general_ep(tg, max_iter, tol)


def _general_ep(tg: TruncatedGaussian, max_iter: Array, tol: Array) -> Moments:
    sites = fit_sites(tg, max_iter, tol)
    mean, var, _ = _marginals(tg, sites)
    cavity = _cavity(mean, var, sites)
    g, omega2 = standardised(cavity.shift / jnp.sqrt(cavity.precision), tg.truncated[None, :])
    return Moments(
        mean=g / jnp.sqrt(cavity.precision),
        var=omega2 / cavity.precision,
        log_z=ep_log_z(tg, sites),
        converged=sites.mismatch <= tol,
        n_iter=sites.n_iter,
        kind="estimate",
    )


def fit_sites(tg: TruncatedGaussian, max_iter: Array, tol: Array) -> Sites:
    """Sites whose marginals match the tilted moments, by parallel updates."""
    rows = len(tg)
    zeros = jnp.zeros_like(tg.shift)
    # a wall at the mode of each coordinate's own Gaussian is a better first guess than no wall
    first = _tilted_sites(Cavity(tg.precision.diagonal()[None, :] + zeros, zeros), tg.truncated)
    one = jnp.ones(rows, tg.shift.dtype)
    start = Sites(first.precision, first.shift, jnp.inf * one, one, jnp.zeros(rows, jnp.int32))

    def keep_going(carry: tuple[Array, Sites]) -> Array:
        i, sites = carry
        return (i < max_iter) & (sites.mismatch > tol).any()

    def body(carry: tuple[Array, Sites]) -> tuple[Array, Sites]:
        i, old = carry
        mean, var, _ = _marginals(tg, old)
        cavity = _cavity(mean, var, old)
        g, omega2 = standardised(cavity.shift / jnp.sqrt(cavity.precision), tg.truncated[None, :])
        off_mean = jnp.abs(g / jnp.sqrt(cavity.precision) - mean) / jnp.sqrt(var)
        off_var = jnp.abs(omega2 / (cavity.precision * var) - 1)
        off = jnp.maximum(off_mean, off_var)
        # a mismatch below what rounding does to the marginals is none
        noise = 8 * rounding(var.dtype) * jnp.abs(tg.shift + old.shift) * jnp.sqrt(var)
        mismatch = jnp.where(off > noise, off, 0).max(-1)
        worse = ~(mismatch < old.mismatch) & (i > 2)
        damping = jnp.where(worse, jnp.maximum(old.damping / 2, 0.1), jnp.minimum(1.5 * old.damping, 1))
        new = _tilted_sites(cavity, tg.truncated)
        d = jnp.where(mismatch > tol, damping, 0)[:, None]
        return i + 1, Sites(
            old.precision + d * (new.precision - old.precision),
            old.shift + d * (new.shift - old.shift),
            mismatch,
            damping,
            old.n_iter + (mismatch > tol).astype(jnp.int32),
        )

    return lax.while_loop(keep_going, body, (jnp.int32(0), start))[1]


def ep_log_z(tg: TruncatedGaussian, sites: Sites) -> Array:
    """EP's log Z, stationary in sites and cavities: its gradient with those held fixed is E[h], −½ E[hhᵀ]."""
    sites = jax.tree.map(lax.stop_gradient, sites)
    mean, var, log_det = _marginals(tg, sites)
    gaussian = 0.5 * (((tg.shift + sites.shift) * mean).sum(-1) - log_det)
    value = log_z_value(*jax.tree.map(lax.stop_gradient, (tg, sites, mean, var, log_det)))
    return value + gaussian - lax.stop_gradient(gaussian)


def log_z_value(tg: TruncatedGaussian, sites: Sites, mean: Array, var: Array, log_det: Array) -> Array:
    """Value of log Z with the quadratic forms of the whole and of its marginals subtracted term by term.

    Each is large, their difference is not: written apart, they would cost float32 most of its digits. The
    residual of the linear solve enters so that an error of the mean counts squared only.
    """
    cavity = _cavity(mean, var, sites)
    wall = log_normaliser(cavity.shift, cavity.precision, tg.truncated[None, :])
    P = tg.precision
    excess = P.diagonal()[None, :] + sites.precision - 1 / var
    coupling = P.off_diagonal(mean)
    residual = tg.shift + sites.shift - (P.diagonal()[None, :] + sites.precision) * mean - coupling
    quadratic = mean * (coupling + excess * mean + 2 * residual)
    return (wall + 0.5 * (quadratic - jnp.log(var))).sum(-1) - 0.5 * log_det


def _marginals(tg: TruncatedGaussian, sites: Sites) -> tuple[Array, Array, Array]:
    """Means, variances and log-determinant of the Gaussian with precision P + Λ and shift γ + ν."""
    factor = tg.precision.factor(sites.precision)
    return factor.solve(tg.shift + sites.shift), factor.variances(), factor.log_det()


def _cavity(mean: Array, var: Array, sites: Sites) -> Cavity:
    # τ ≥ P's own conditional information stays positive; rounding must not change that
    tau = jnp.maximum(1 / var - sites.precision, rounding(var.dtype) / var)
    return Cavity(tau, mean / var - sites.shift)


def _tilted_sites(cavity: Cavity, truncated: Array) -> Sites:
    """Sites that give the cavity's Gaussian the moments of the cavity's truncated Gaussian."""
    root = jnp.sqrt(cavity.precision)
    alpha = cavity.shift / root
    g, omega2 = standardised(alpha, truncated[None, :])
    none = jnp.zeros(())
    return Sites(cavity.precision * (1 / omega2 - 1), root * (g / omega2 - alpha), none, none, none)
