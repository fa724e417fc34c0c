"""Expectation propagation for truncated Gaussians.

Walls are replaced by Gaussian sites (`sites`). Nearly exact for the problems of this library: 1e-4 to 1e-3
nats where mean field errs by tenths to tens. A step costs what `precision.factor` costs, O(mn²) a row for
`LowRank`.
"""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.gaussian import Moments, TruncatedGaussian
from tggm.inference import fused
from tggm.inference.ep.sites import Cavity, Sites, cavities, gaussian_sites, site_tolerance
from tggm.inference.factors import log_normaliser, scaled, standardised
from tggm.inference.rows import restore
from tggm.precision.protocol import is_concrete
from tggm.products import full_precision


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
    result = _ep(rows, jnp.int32(max_iter), site_tolerance(rows.shift.dtype, tol))
    if is_concrete(result.converged) and not np.asarray(result.converged).all():
        warnings.warn(
            f"ep did not converge on {int((~result.converged).sum())} of {len(rows)} rows in "
            f"{max_iter} sweeps; raise `max_iter` or `tol`, or use float64 (see Moments.converged).",
            RuntimeWarning,
            stacklevel=2,
        )
    return restore(result, tg)


@jax.jit
@full_precision
def _ep(tg: TruncatedGaussian, max_iter: Array, tol: Array) -> Moments:
    if fused.suits(tg):
        kernel = partial(fused.run, fused.ep_row, "estimate")
        result: Moments = lax.platform_dependent(tg, max_iter, tol, cuda=kernel, default=_general_ep)
        return result
    return _general_ep(tg, max_iter, tol)


def _general_ep(tg: TruncatedGaussian, max_iter: Array, tol: Array) -> Moments:
    sites = gaussian_sites(tg, max_iter, tol)
    mean, var, _ = _marginals(tg, sites)
    cavity = cavities(mean, var, sites)
    root = jnp.sqrt(cavity.precision)
    g, omega2 = standardised(cavity.shift / root, scaled(tg.walls(), root))
    return Moments(
        mean=g / root,
        var=omega2 / cavity.precision,
        log_z=ep_log_z(tg, sites),
        converged=sites.mismatch <= tol,
        n_iter=sites.n_iter,
        kind="estimate",
    )


def ep_log_z(tg: TruncatedGaussian, sites: Sites) -> Array:
    """EP's log Z, stationary in sites and cavities: its gradient with those held fixed is E[h], −½ E[hhᵀ]."""
    sites = jax.tree.map(lax.stop_gradient, sites)
    mean, var, log_det = _marginals(tg, sites)
    gaussian = 0.5 * (((tg.shift + sites.shift) * mean).sum(-1) - log_det)
    fixed, *rest = jax.tree.map(lax.stop_gradient, (tg, sites, mean, var, log_det))
    value = log_z_value(fixed, *rest) + gaussian - lax.stop_gradient(gaussian)
    return value if tg.limits is None else value + by_limits(tg, cavities(rest[1], rest[2], sites))


def by_limits(tg: TruncatedGaussian, cavity: Cavity) -> Array:
    """Zero, with the derivatives of log Z by the limits: the densities of the tilted marginals there."""
    wall = log_normaliser(cavity.shift, cavity.precision, tg.walls()).sum(-1)
    return wall - lax.stop_gradient(wall)


def log_z_value(tg: TruncatedGaussian, sites: Sites, mean: Array, var: Array, log_det: Array) -> Array:
    """Value of log Z with the quadratic forms of the whole and of its marginals subtracted term by term.

    Each is large, their difference is not: written apart, they would cost float32 most of its digits. The
    residual of the linear solve enters so that an error of the mean counts squared only.
    """
    cavity = cavities(mean, var, sites)
    wall = log_normaliser(cavity.shift, cavity.precision, tg.walls())
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
