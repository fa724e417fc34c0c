"""The site fitter of expectation propagation: Gaussian stand-ins for walls, whatever Gaussian they stand on.

Each truncated coordinate gets a site exp(−½ λ h² + ν h) in place of its wall, chosen so that the marginal of
the Gaussian with all sites, and of the Gaussian with this one wall put back (the cavity times 1[h ≥ 0]), have
the same mean and variance. Truncation to an interval lowers every variance, so sites of walls, and of boxes
with two, are never negative (λ ≥ 0), and all can be updated at once. Where walls act strongly on each other
the updates overshoot and can cycle for ever, so a row whose mismatch grows is damped.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import TruncatedGaussian, Walls
from tggm.inference.factors import gaussian_log_z, log_normaliser, scaled, standardised
from tggm.precision.protocol import rounding

LEAST = 0.1  # of an update that is applied, however often the mismatch grew


class Sites(NamedTuple):
    """Gaussian stand-ins for the walls, and how far their marginals are from the tilted ones."""

    precision: Array  # (rows, m) λ
    shift: Array  # (rows, m) ν
    mismatch: Array  # (rows,) largest standardised difference between marginal and tilted moments
    damping: Array  # (rows,) fraction of an update that is applied
    n_iter: Array  # (rows,)


class Marginals(NamedTuple):
    """Of the Gaussian with all sites, (rows, m) each."""

    mean: Array
    var: Array
    pull: Array  # natural parameters that the means were computed from: what rounding acts on


class Cavity(NamedTuple):
    """A coordinate's Gaussian without its own site, in natural parameters."""

    precision: Array
    shift: Array


def site_tolerance(dtype: jnp.dtype, tol: float | None = None) -> Array:
    """Mismatch at which a row counts as converged; by default one at which log Z is right to rounding."""
    if tol is not None and not tol > 0:
        raise ValueError(f"`tol` must be positive; got {tol}.")
    return jnp.asarray(tol or (1e-9 if dtype.itemsize == 8 else 1e-4), dtype)


def lone_sites(precision: Array, walls: Walls) -> tuple[Array, Array]:
    """λ and ν for coordinates by themselves, without a shift: a better first guess than no wall."""
    return tilted_sites(Cavity(precision, jnp.zeros_like(precision)), walls)


def fit_sites(
    marginals: Callable[[Sites], Marginals],
    start: tuple[Array, Array],
    walls: Walls,
    max_iter: Array,
    tol: Array,
) -> Sites:
    """Sites whose marginals match the tilted moments, by parallel updates.

    Parameters
    ----------
    marginals : callable
        The marginals under given sites.
    start : pair of Array, shape (rows, m)
        λ and ν to begin with.
    walls : Array of bool, or Limits, shape (rows or 1, m)
        Which coordinates are kept nonnegative, or the limits of all.
    max_iter, tol : Array
        Most updates; largest mismatch of a row that has converged.
    """
    one = jnp.ones(start[0].shape[0], start[0].dtype)
    first = Sites(*start, jnp.inf * one, one, jnp.zeros(one.shape, jnp.int32))

    def keep_going(carry: tuple[Array, Sites]) -> Array:
        i, sites = carry
        return (i < max_iter) & (sites.mismatch > tol).any()

    def body(carry: tuple[Array, Sites]) -> tuple[Array, Sites]:
        i, old = carry
        mean, var, pull = marginals(old)
        cavity = cavities(mean, var, old)
        g, omega2 = standardised(
            cavity.shift / jnp.sqrt(cavity.precision), scaled(walls, jnp.sqrt(cavity.precision))
        )
        off_mean = jnp.abs(g / jnp.sqrt(cavity.precision) - mean) / jnp.sqrt(var)
        off_var = jnp.abs(omega2 / (cavity.precision * var) - 1)
        off = jnp.maximum(off_mean, off_var)
        # a mismatch below what rounding does to the marginals is none
        noise = 8 * rounding(var.dtype) * jnp.abs(pull) * jnp.sqrt(var)
        mismatch = jnp.where(off > noise, off, 0).max(-1)
        worse = ~(mismatch < old.mismatch) & (i > 2)
        damping = jnp.where(worse, jnp.maximum(old.damping / 2, LEAST), jnp.minimum(1.5 * old.damping, 1))
        precision, shift = _sites_of(cavity, g, omega2)
        d = jnp.where(mismatch > tol, damping, 0)[:, None]
        return i + 1, Sites(
            old.precision + d * (precision - old.precision),
            old.shift + d * (shift - old.shift),
            mismatch,
            damping,
            old.n_iter + (mismatch > tol).astype(jnp.int32),
        )

    return lax.while_loop(keep_going, body, (jnp.int32(0), first))[1]


def gaussian_sites(tg: TruncatedGaussian, max_iter: Array, tol: Array) -> Sites:
    """Sites of a truncated Gaussian's walls."""

    def marginals(sites: Sites) -> Marginals:
        factor = tg.precision.factor(sites.precision)
        pull = tg.shift + sites.shift
        return Marginals(factor.solve(pull), factor.variances(), pull)

    alone = tg.precision.diagonal()[None, :] + jnp.zeros_like(tg.shift)
    walls = tg.walls()
    return fit_sites(marginals, lone_sites(alone, walls), walls, max_iter, tol)


def cavities(mean: Array, var: Array, sites: Sites) -> Cavity:
    """Every coordinate without its site."""
    # τ ≥ P's own conditional information stays positive; rounding must not change that
    tau = jnp.maximum(1 / var - sites.precision, rounding(var.dtype) / var)
    return Cavity(tau, mean / var - sites.shift)


def tilted_sites(cavity: Cavity, walls: Walls) -> tuple[Array, Array]:
    """λ and ν that give the cavity's Gaussian the moments of the cavity's truncated Gaussian."""
    root = jnp.sqrt(cavity.precision)
    return _sites_of(cavity, *standardised(cavity.shift / root, scaled(walls, root)))


def _sites_of(cavity: Cavity, g: Array, omega2: Array) -> tuple[Array, Array]:
    root = jnp.sqrt(cavity.precision)
    return cavity.precision * (1 / omega2 - 1), root * (g / omega2 - cavity.shift / root)


def walls(mean: Array, var: Array, sites: Sites, truncated: Array) -> Array:
    """A_T − A_G of every cavity with its wall and with its site: what walls add to the Gaussian's log Z."""
    cavity = cavities(mean, var, sites)
    whole = gaussian_log_z(cavity.shift + sites.shift, cavity.precision + sites.precision)
    return jnp.where(truncated, log_normaliser(cavity.shift, cavity.precision, truncated) - whole, 0).sum(-1)
