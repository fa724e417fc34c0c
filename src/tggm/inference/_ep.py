r"""Expectation propagation (EP) for truncated Gaussians.

Each truncated coordinate gets a Gaussian site exp(−½ λ h² + ν h) in place of its limits. A site is chosen so
that the marginal of the Gaussian with all sites has the same mean and variance as the tilted distribution:
the cavity (the marginal without this site) times 1[h ≥ 0]. Truncation to an interval lowers every variance,
so λ ≥ 0, and all sites can be updated at once. Where limits interact strongly, updates overshoot and can
cycle, so a row whose mismatch grows is damped.

The error of log Z is 1e-4 to 1e-3 nats on the problems of this library; that of mean field is 0.1 to tens of
nats. A step costs as much as `precision.factor`, O(mn²) per row for `LowRank`.

log Z is stationary in the sites, so its gradient is E[h] and −½ E[hhᵀ] under EP's Gaussian. A block
tridiagonal P (`Layered`) needs only the blocks of the covariance at the positions of its own blocks, and no
factorisation is differentiated.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm import settings as check
from tggm.gaussian import Limits, Moments, TruncatedGaussian, Walls
from tggm.inference import _gpu_kernel
from tggm.inference._common import log_normaliser, restore, unit_moments, warn_unconverged
from tggm.precision import Layered, LayeredFactor, rounding
from tggm.runtime import full_precision
from tggm.special import kernels
from tggm.special.box_kernels import high_cumulants

NARROW = 100.0  # site, relative to P_kk, that makes a box narrow
SAFETY, LARGEST_ERROR = 10.0, 0.3  # of the error estimate of log Z
LEAST_DAMPING = 0.1  # smallest fraction of an update that is applied


def ep(tg: TruncatedGaussian, *, max_iter: int = 100, tol: float | None = None) -> Moments:
    r"""Compute means, variances and EP's estimate of log Z, kind "estimate".

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
        Largest number of sweeps over all sites.
    tol : float, optional
        Largest difference between marginal and tilted means (in standard deviations) and variances
        (relative) at which a row counts as converged. By default the square root of rounding: log Z is then
        accurate to rounding.
    """
    check.count("max_iter", max_iter)
    rows = tg.rows()
    result = _ep(rows, jnp.int32(max_iter), site_tolerance(rows.shift.dtype, tol))
    warn_unconverged(
        result, f"ep did not converge on {{}} of {len(rows)} rows in {max_iter} sweeps; raise `max_iter` or "
        "`tol`, or use float64 (see Moments.converged)."
    )  # fmt: skip
    return restore(result, tg)


@jax.jit
@full_precision
def _ep(tg: TruncatedGaussian, max_iter: Array, tol: Array) -> Moments:
    if _gpu_kernel.is_supported(tg):
        kernel = partial(_gpu_kernel.run, _gpu_kernel.ep_row, "estimate")
        return lax.platform_dependent(tg, max_iter, tol, cuda=kernel, default=_general_ep)
    return _general_ep(tg, max_iter, tol)


def _general_ep(tg: TruncatedGaussian, max_iter: Array, tol: Array) -> Moments:
    sites = gaussian_sites(tg, max_iter, tol)
    cavity = marginals(tg, sites)[1]
    mean, omega2 = unit_moments(cavity.shift, cavity.precision, tg.walls())
    converged, log_z = sites.mismatch <= tol, ep_log_z(tg, sites)
    return Moments(mean, omega2 / cavity.precision, log_z, converged, sites.n_iter, "estimate")


class Sites(NamedTuple):
    """Gaussian sites, and the distance of their marginals from the tilted ones."""

    precision: Array  # (rows, m) λ
    shift: Array  # (rows, m) ν
    mismatch: Array  # (rows,) largest standardised difference between marginal and tilted moments
    damping: Array  # (rows,) fraction of an update that is applied
    n_iter: Array  # (rows,)


class Cavity(NamedTuple):
    """A coordinate's Gaussian without its own site, in natural parameters."""

    precision: Array
    shift: Array


def site_tolerance(dtype: jnp.dtype, tol: float | None = None) -> Array:
    """Return the mismatch at which a row counts as converged; by default log Z is accurate to rounding."""
    if tol is not None:
        check.number("tol", tol, above=0)
    return jnp.asarray(tol or (1e-9 if dtype.itemsize == 8 else 1e-4), dtype)


def gaussian_sites(tg: TruncatedGaussian, max_iter: Array, tol: Array) -> Sites:
    """Fit sites whose marginals match the tilted moments, by parallel updates.

    They start from the sites of coordinates without couplings and without a shift.
    """
    walls, none = tg.walls(), jnp.zeros_like(tg.shift)
    alone = Cavity(tg.precision.diagonal()[None, :] + none, none)
    start = _sites_of(alone, *unit_moments(alone.shift, alone.precision, walls))
    one = jnp.ones(len(tg), none.dtype)
    first = Sites(*start, jnp.inf * one, one, jnp.zeros(one.shape, jnp.int32))

    def unfinished(carry: tuple[Array, Sites]) -> Array:
        i, sites = carry
        return (i < max_iter) & (sites.mismatch > tol).any()

    def sweep(carry: tuple[Array, Sites]) -> tuple[Array, Sites]:
        i, old = carry
        mean, cavity, pull = marginals(tg, old)
        var = 1 / (cavity.precision + old.precision)
        tilted, omega2 = unit_moments(cavity.shift, cavity.precision, walls)
        off_mean = jnp.abs(tilted - mean) / jnp.sqrt(var)
        off_var = jnp.abs(omega2 / (cavity.precision * var) - 1)
        off = jnp.maximum(off_mean, off_var)
        # ignore a mismatch below the rounding error of the marginals
        noise = 8 * rounding(var.dtype) * jnp.abs(pull) * jnp.sqrt(var)
        mismatch = jnp.where(off > noise, off, 0).max(-1)
        worse = ~(mismatch < old.mismatch) & (i > 2)
        slower = jnp.maximum(old.damping / 2, LEAST_DAMPING)
        damping = jnp.where(worse, slower, jnp.minimum(1.5 * old.damping, 1))
        d = jnp.where(mismatch > tol, damping, 0)[:, None]
        target = _sites_of(cavity, tilted, omega2)
        precision, shift = (a + d * (b - a) for a, b in zip(old[:2], target, strict=True))
        n_iter = old.n_iter + (mismatch > tol).astype(jnp.int32)
        return i + 1, Sites(precision, shift, mismatch, damping, n_iter)

    return lax.while_loop(unfinished, sweep, (jnp.int32(0), first))[1]


def marginals(tg: TruncatedGaussian, sites: Sites) -> tuple[Array, Cavity, Array]:
    """Return means and cavities of the Gaussian with precision P + Λ and shift γ + ν, and that shift.

    The rounding errors of the means are relative to the shift.
    """
    factor = tg.precision.factor(sites.precision)
    pull = tg.shift + sites.shift
    mean = factor.solve(pull)
    return mean, cavities(tg, mean, factor.cavity(), sites), pull


def cavities(tg: TruncatedGaussian, mean: Array, tau: Array, sites: Sites) -> Cavity:
    """Return the cavity of every coordinate, given the means of the Gaussian with all sites.

    Its shift is mean / var − ν. The site of a narrow box is of size 1 / width², which cancels: there it is
    computed as τ mean + γ − P mean, because (P + Λ) mean = γ + ν.
    """
    P = tg.precision
    own = P.diagonal()[None, :]
    # τ is positive in exact arithmetic; rounding must not change that
    tau = jnp.maximum(tau, rounding(tau.dtype) * own)
    shift = (tau + sites.precision) * mean - sites.shift
    beside = (tau - own) * mean + tg.shift - P.off_diagonal(mean)
    return Cavity(tau, jnp.where(_is_narrow(tg, sites), beside, shift))


def _is_narrow(tg: TruncatedGaussian, sites: Sites) -> Array:
    """Return which coordinates are in narrow boxes, where ν is not subtracted from numbers of its size."""
    return (sites.precision > NARROW * tg.precision.diagonal()[None, :]) & jnp.asarray(tg.limits is not None)


def _sites_of(cavity: Cavity, mean: Array, omega2: Array) -> tuple[Array, Array]:
    """Return λ and ν with which the cavity has this mean, and ω² times its own variance."""
    return cavity.precision * (1 / omega2 - 1), cavity.precision * mean / omega2 - cavity.shift


def ep_log_z(tg: TruncatedGaussian, sites: Sites) -> Array:
    """Return EP's log Z; its gradient with sites and cavities held fixed is E[h], −½ E[hhᵀ]."""
    sites, fixed = jax.tree.map(lax.stop_gradient, (sites, tg))
    layered = isinstance(tg.precision, Layered)
    of = fixed if layered else tg
    factor = of.precision.factor(sites.precision)
    mean, tau, log_det = factor.solve(of.shift + sites.shift), factor.cavity(), factor.log_det()
    if layered:
        assert isinstance(factor, LayeredFactor)
        gaussian = gaussian_energy(tg, mean, factor.blocks())
    else:
        gaussian = 0.5 * (((tg.shift + sites.shift) * mean).sum(-1) - log_det)
    mean, tau, log_det = lax.stop_gradient((mean, tau, log_det))
    cavity = cavities(fixed, mean, tau, sites)
    value = _log_z_value(fixed, sites, mean, cavity, log_det) + (gaussian - lax.stop_gradient(gaussian))
    if tg.limits is None:
        return value
    # the derivatives by limits are the densities of tilted marginals
    wall = log_normaliser(cavity.shift, cavity.precision, tg.walls()).sum(-1)
    return value + (wall - lax.stop_gradient(wall))


def _log_z_value(tg: TruncatedGaussian, sites: Sites, mean: Array, cavity: Cavity, log_det: Array) -> Array:
    """Compute log Z, subtracting the quadratic forms of the Gaussian and of its marginals term by term.

    Both are large and their difference is small: computed separately in float32 it would lose most digits.
    The residual of the linear solve is included, so that an error of the mean enters only squared.
    """
    wall = log_normaliser(cavity.shift, cavity.precision, tg.walls())
    P = tg.precision
    own, coupling = P.diagonal()[None, :], P.off_diagonal(mean)
    residual = tg.shift + sites.shift - (own + sites.precision) * mean - coupling
    residual = jnp.where(_is_narrow(tg, sites), 0, residual)  # part of the cavity there
    quadratic = mean * (coupling + (own - cavity.precision) * mean + 2 * residual)
    return (wall + 0.5 * (quadratic + jnp.log(cavity.precision + sites.precision))).sum(-1) - 0.5 * log_det


def gaussian_energy(
    tg: TruncatedGaussian, mean: Array, blocks: tuple[tuple[Array, ...], tuple[Array, ...]]
) -> Array:
    """Return E[−½ hᵀPh + γᵀh] under a Gaussian with this mean and `LayeredFactor.blocks`."""
    P = tg.precision
    assert isinstance(P, Layered)
    quadratic = ((P.off_diagonal(mean) + P.diagonal()[None, :] * mean) * mean).sum(-1)
    for A, S in zip(P.diagonal_blocks, blocks[0], strict=True):
        quadratic = quadratic + jnp.einsum("ij,bij->b", A, S)
    for B, S in zip(P.lower_blocks, blocks[1], strict=True):
        quadratic = quadratic + 2 * jnp.einsum("ij,bij->b", B, S)
    return (tg.shift * mean).sum(-1) - 0.5 * quadratic


@jax.jit
@full_precision
def ep_with_error(tg: TruncatedGaussian, max_iter: Array, tol: Array) -> tuple[Array, Array]:
    r"""Return EP's log Z and the estimated size of its error, shape (rows,) each; costs O(m³) per row.

    EP treats limits one at a time. Their joint effect, expanded in cumulants of the tilted marginals, is to
    second order

    .. math::
        \log Z - \log Z_{EP} \approx \tfrac12 \sum_{i \ne j} \sum_{l \ge 3} \frac{c_{l,i}\, c_{l,j}}{l!}
            \left( \frac{\Sigma_{ij}}{\Sigma_{ii} \Sigma_{jj}} \right)^{l},

    with c_{l,k} the l-th cumulant of the truncated marginal of h_k and Σ the covariance of EP's Gaussian. The
    terms of order 3 and 4, times ten, serve as an error estimate, not as a correction. The error is infinite
    if they are not small or the row did not converge.

    M. Opper, U. Paquet and O. Winther, Perturbative corrections for approximate inference in Gaussian latent
    variable models, JMLR 14 (2013).
    """
    sites = gaussian_sites(tg, max_iter, tol)
    cavity, P = marginals(tg, sites)[1], tg.precision.dense()
    walls = jax.tree.map(lambda a: jnp.broadcast_to(a, tg.shift.shape), tg.walls())
    error = lax.map(lambda row: _second_order(P, *row), (sites.precision, cavity, walls))
    known = (sites.mismatch <= tol) & (SAFETY * error <= LARGEST_ERROR)
    return ep_log_z(tg, sites), jnp.where(known, SAFETY * error, jnp.inf)


def _second_order(P: Array, lam: Array, cavity: Cavity, walls: Walls) -> Array:
    scale, sd = 1 / jnp.sqrt(cavity.precision), 1 / jnp.sqrt(cavity.precision + lam)
    # correlations and standardised cumulants: variances in narrow boxes have no inverse sixth powers
    correlation = jnp.linalg.inv((P + jnp.diag(lam)) * sd[:, None] * sd[None, :])
    alpha = cavity.shift * scale
    if isinstance(walls, Limits):
        box = walls.map(lambda limit: limit / scale)
        third, fourth = high_cumulants(alpha, jnp.ones_like(alpha), *box)
    else:
        third = jnp.where(walls, kernels.third(alpha), 0)
        fourth = jnp.where(walls, kernels.fourth(alpha), 0)
    third, fourth = third * (scale / sd) ** 3, fourth * (scale / sd) ** 4
    off = correlation - jnp.diag(jnp.diagonal(correlation))
    terms = jnp.outer(third, third) * off**3 / 6, jnp.outer(fourth, fourth) * off**4 / 24
    return sum((jnp.abs(term.sum()) / 2 for term in terms), jnp.zeros((), lam.dtype))
