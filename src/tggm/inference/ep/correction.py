r"""How far off EP's log Z is: the leading terms of what EP leaves out.

EP replaces each wall by a Gaussian and treats the walls one at a time; what is lost is how they act together.
Expanding that in cumulants of the tilted marginals gives, to second order,

.. math::
    \log Z - \log Z_{EP} \approx \tfrac12 \sum_{i \ne j} \sum_{l \ge 3} \frac{c_{l,i}\, c_{l,j}}{l!}
        \left( \frac{\Sigma_{ij}}{\Sigma_{ii} \Sigma_{jj}} \right)^{l},

c_{l,k} the l-th cumulant of the truncated marginal of h_k and Σ the covariance of EP's Gaussian. The terms of
order 3 and 4 are taken. They serve as an error estimate, not as a correction: small where EP is good, and of
the size of the error where it is not.

M. Opper, U. Paquet and O. Winther, Perturbative corrections for approximate inference in Gaussian latent
variable models, JMLR 14 (2013).
"""

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import Limits, TruncatedGaussian, Walls
from tggm.inference.ep.engine import ep_log_z
from tggm.inference.ep.sites import Cavity, gaussian_sites
from tggm.inference.factors import scaled
from tggm.products import full_precision
from tggm.special import kernels, standard
from tggm.special.box_standard import standard as box_standard


@jax.jit
@full_precision
def ep_with_error(tg: TruncatedGaussian, max_iter: Array, tol: Array) -> tuple[Array, Array]:
    """EP's log Z and the estimated size of its error, shape (rows,) each; costs O(m³) a row.

    The error of a row that did not converge is infinite: nothing is known of it.
    """
    sites = gaussian_sites(tg, max_iter, tol)
    P = tg.precision.dense()

    def row(given: tuple[Array, Array, Array, Walls]) -> Array:
        lam, nu, gamma, walls = given
        covariance = jnp.linalg.inv(P + jnp.diag(lam))
        return _second_order(covariance, covariance @ (gamma + nu), lam, nu, walls)

    walls = jax.tree.map(lambda a: jnp.broadcast_to(a, tg.shift.shape), tg.walls())
    error = lax.map(row, (sites.precision, sites.shift, tg.shift, walls))
    return ep_log_z(tg, sites), jnp.where(sites.mismatch <= tol, error, jnp.inf)


def _second_order(covariance: Array, mean: Array, lam: Array, nu: Array, walls: Walls) -> Array:
    var = jnp.diagonal(covariance)
    cavity = Cavity(1 / var - lam, mean / var - nu)
    scale = 1 / jnp.sqrt(cavity.precision)
    alpha = cavity.shift * scale
    # cumulants over powers of the variance, so that Σ_ij/(Σ_ii Σ_jj) needs no more than Σ_ij
    third, fourth = _cumulants(alpha, scaled(walls, 1 / scale))
    third, fourth = third * (scale / var) ** 3, fourth * (scale / var) ** 4
    off = covariance - jnp.diag(var)
    terms = jnp.outer(third, third) * off**3 / 6, jnp.outer(fourth, fourth) * off**4 / 24
    return sum((jnp.abs(term.sum()) / 2 for term in terms), jnp.zeros((), var.dtype))


def _cumulants(alpha: Array, walls: Walls) -> tuple[Array, Array]:
    """Third and fourth cumulant of N(α, 1) between walls."""
    if isinstance(walls, Limits):
        found = box_standard(alpha, jnp.ones_like(alpha), *walls, 4)
        return found.third, found.fourth
    return jnp.where(walls, standard.third(alpha), 0), jnp.where(walls, kernels.fourth(alpha), 0)
