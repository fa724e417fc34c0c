"""Genz's separation of variables with minimax tilting, for one orthant under some sets of points.

With h = μ + L z, L the Cholesky factor of the covariance, the constraints h ≥ 0 bound each z_k from below
given the earlier ones, so the orthant probability is a nested integral of univariate normals. Drawing each
z_k from its truncated normal turns it into the mean over the unit cube of a product of univariate
probabilities. Free variables come last, where they integrate to one and cost nothing.

A. Genz, Numerical computation of multivariate normal probabilities, J. Comp. Graph. Stat. 1 (1992).
"""

from typing import NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array, lax

from tggm.inference.orthant.ordering import ordered_cholesky
from tggm.inference.orthant.tilting import minimax_tilt
from tggm.special import log_ndtr
from tggm.special.quantile import survival_quantile


class Separated(NamedTuple):
    """An orthant whose variables are integrated one after the other, in their order of integration."""

    U: Array  # (m, m) Cholesky factor of the covariance, rows divided by its diagonal
    scale: Array  # (m,) that diagonal
    bound: Array  # (m,) what (U z)_k must exceed: −mean / scale
    tilt: Array  # (m,) mean of the normal that z_k is drawn from
    truncated: Array  # (m,) bool
    order: Array  # (m,) which variable it is


class Integral(NamedTuple):
    """What each of several sets of points says."""

    log_p: Array  # (sets,) log probability of the orthant
    mean: Array  # (sets, m)
    var: Array  # (sets, m)


class _Walk(NamedTuple):
    Z: Array  # (m, n) z so far
    log_w: Array  # (n,) log weight so far
    k: Array  # place of the next variable


def separate(covariance: Array, mean: Array, truncated: Array) -> Separated:
    """Order the variables, factorise, and find the tilt. Arguments of shapes (m, m), (m,), (m,)."""
    L, order = ordered_cholesky(covariance, mean, truncated)
    scale = jnp.diagonal(L)
    U = L / scale[:, None]
    bound = -mean[order] / scale
    kept = truncated[order]
    return Separated(U, scale, bound, minimax_tilt(U, bound, kept), kept, order)


def integrate(orthant: Separated, log_u: Array, n_sets: int) -> Integral:
    r"""Average over points u of the unit cube.

    .. math::
        \Pr(h \ge 0) = E\Bigl[\exp \sum_k \tfrac12 \mu_k^2 - \mu_k z_k + \log\Phi(-a_k)\Bigr],
        \qquad a_k = b_k - \sum_{j<k} U_{kj} z_j - \mu_k,

    where z_k = μ_k + x_k and x_k is exceeded with probability u_k Φ(−a_k) by a standard normal. Means and
    variances of h are those of the weighted points.

    Parameters
    ----------
    orthant : Separated
        Of m variables.
    log_u : Array, shape (m, n_sets * n)
        Logarithms of the points, set after set.
    n_sets : int
        Number of sets.
    """
    m = log_u.shape[0]
    below = orthant.U - jnp.eye(m, dtype=log_u.dtype)

    def variable(state: _Walk, given: tuple[Array, ...]) -> tuple[_Walk, Array]:
        Z, log_w, k = state
        row, bound, tilt, truncated, log_u_k = given
        drift = row @ Z
        a = bound - drift - tilt
        log_p = log_ndtr(-a)
        x = jnp.maximum(survival_quantile(-(log_p + log_u_k)), a)
        z = jnp.where(truncated, x + tilt, 0)
        log_w = log_w + jnp.where(truncated, log_p + tilt * (tilt / 2 - z), 0)
        h = jnp.where(truncated, x - a, drift - bound)  # of the free: given the truncated
        return _Walk(lax.dynamic_update_index_in_dim(Z, z, k, 0), log_w, k + 1), h

    start = _Walk(jnp.zeros_like(log_u), jnp.zeros_like(log_u[0]), jnp.int32(0))
    given = (below, orthant.bound, orthant.tilt, orthant.truncated, log_u)
    (_, log_w, _), h = lax.scan(variable, start, given)
    return averaged(log_w, h, n_sets, orthant)


class Placed(Protocol):
    """What turns places in the order of integration back into variables."""

    @property
    def U(self) -> Array:
        """Cholesky factor with unit diagonal."""

    @property
    def scale(self) -> Array:
        """Its diagonal before that."""

    @property
    def truncated(self) -> Array:
        """Which places have limits."""

    @property
    def order(self) -> Array:
        """Which variable is at a place."""


def averaged(log_w: Array, h: Array, n_sets: int, orthant: Placed) -> Integral:
    """Weighted means over each set of points; log_w (n_sets * n,) and h (m, n_sets * n), over scale."""
    m = h.shape[0]
    log_w = log_w.reshape(n_sets, -1)
    h = h.reshape(m, n_sets, -1)
    top = log_w.max(-1, keepdims=True)
    w = jnp.exp(log_w - top)
    log_p = top[:, 0] + jnp.log(w.mean(-1))
    w = w / w.sum(-1, keepdims=True)
    mean = jnp.einsum("msn,sn->sm", h, w)
    var = jnp.einsum("msn,sn->sm", (h - mean.T[:, :, None]) ** 2, w) + _variance_of_free(orthant)[None, :]
    back = jnp.argsort(orthant.order)
    scale = orthant.scale[None, :]
    return Integral(log_p, (mean * scale)[:, back], (var * scale * scale)[:, back])


def _variance_of_free(orthant: Placed) -> Array:
    """Variance of each free variable given the truncated ones, in units of scale²."""
    return jnp.where(orthant.truncated[None, :], 0, orthant.U**2).sum(1)
