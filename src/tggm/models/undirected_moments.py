r"""Moments of the output of an undirected deep model given x: inference on its prior.

Mean field gives means m; covariances are its linear response, ∂m/∂γ = (diag(1/v) + P̃)⁻¹, which knows the
correlations that the factors themselves leave out. EP's Gaussian has its covariance at hand.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import TruncatedGaussian
from tggm.inference.conjugate_gradient import conjugate_gradient
from tggm.inference.ep.sites import gaussian_sites, site_tolerance
from tggm.inference.factor_bound import best_factors, no_term
from tggm.models.deep import Undirected
from tggm.models.deep_energy import at_top, deep_prior, top
from tggm.models.directed_bound import forward_means
from tggm.special import standard_moments

BLOCK = 512  # rows treated at once: EP holds several matrices a row
MAX_ITER = 50


def _mean_field(
    params: Undirected, tg: TruncatedGaussian, start: Array, weights: Array
) -> tuple[Array, Array]:
    q = best_factors(tg, no_term, start, jnp.int32(MAX_ITER))
    scale = tg.precision.diagonal()[None, :] / q.omega2

    def response(w: Array) -> Array:
        r = jnp.broadcast_to(at_top(params, w)[None, :], tg.shift.shape)
        return conjugate_gradient(lambda x: tg.precision.off_diagonal(x) + scale * x, r, scale)

    solved = top(params, jax.vmap(response)(weights))
    return top(params, q.mean), jnp.einsum("ik,jbk->bij", weights, solved)


def _ep(params: Undirected, tg: TruncatedGaussian, weights: Array) -> tuple[Array, Array]:
    sites = gaussian_sites(tg, jnp.int32(MAX_ITER), site_tolerance(tg.shift.dtype))
    factor = tg.precision.factor(sites.precision)

    def response(w: Array) -> Array:
        return factor.solve(jnp.broadcast_to(at_top(params, w)[None, :], tg.shift.shape))

    solved = top(params, jax.vmap(response)(weights))
    mean = factor.solve(tg.shift + sites.shift)
    return top(params, mean), jnp.einsum("ik,jbk->bij", weights, solved)


def _top_moments(params: Undirected, X: Any, s0: Array, weights: Array, engine: str) -> tuple[Array, Array]:
    """Means of the last hidden layer, and the covariance of `weights` times it, block by block of rows."""

    def one(rows: Any) -> tuple[Array, Array]:
        tg = deep_prior(params, rows, s0)
        if engine == "ep":
            return _ep(params, tg, weights)
        return _mean_field(params, tg, forward_means(params, rows, s0), weights)

    count = jax.tree.leaves(X)[0].shape[0]
    if count <= BLOCK:
        return one(X)
    blocks = -(-count // BLOCK)

    def cut(a: Array) -> Array:
        extra = [(0, blocks * BLOCK - count), *[(0, 0)] * (a.ndim - 1)]
        return jnp.pad(a, extra, mode="edge").reshape(blocks, BLOCK, *a.shape[1:])

    mean, cov = lax.map(one, jax.tree.map(cut, X))
    n = weights.shape[0]
    return mean.reshape(blocks * BLOCK, -1)[:count], cov.reshape(blocks * BLOCK, n, n)[:count]


def undirected_output_moments(
    params: Undirected, X: Any, s0: Array, engine: str = "mean_field"
) -> tuple[Array, Array]:
    """Mean (rows, n) and covariance (rows, n, n) of y given x, noise included."""
    h, cov = _top_moments(params, X, s0, params.W1, engine)
    return h @ params.W1.T + params.b1[None, :], cov + jnp.diag(jnp.exp(params.log_noise))[None]


def undirected_class_moments(
    params: Undirected, X: Any, s0: Array, engine: str = "mean_field"
) -> tuple[Array, Array]:
    """Means and deviations of z as independent normals; see `tggm.models.probit.class_moments`."""
    n = params.b1.shape[0]
    contrast = params.W1 - params.W1.mean(0, keepdims=True)
    h, cov = _top_moments(params, X, s0, contrast, engine)
    shared = jnp.diagonal(cov, axis1=1, axis2=2)
    return h @ params.W1.T + params.b1[None, :], jnp.sqrt(1 + jnp.maximum(shared, 0.0) * (n / (n - 1)))


def undirected_mean(params: Undirected, X: Any, s0: Array) -> Array:
    r"""E[y | x] by mean field on the prior, differentiable in the parameters.

    At the solution m of r(m) = θ(m) + P̃m − γ = 0 a Newton step −H⁻¹ r is zero, and its derivative by the
    parameters, with m and H held fixed, is that of m. (θ(m) depends on them through P_kk.)
    """
    fixed = lax.stop_gradient(params)
    held = deep_prior(fixed, X, s0)
    q = best_factors(held, no_term, forward_means(fixed, X, s0), jnp.int32(MAX_ITER))
    q = jax.tree.map(lax.stop_gradient, q)
    scale = held.precision.diagonal()[None, :] / q.omega2  # 1/v
    tg = deep_prior(params, X, s0)
    root = jnp.sqrt(tg.precision.diagonal())[None, :]
    moved = standard_moments(q.theta / root)[0] / root
    residual = tg.precision.off_diagonal(q.mean) - tg.shift - moved * scale
    step = lax.custom_linear_solve(
        lambda x: held.precision.off_diagonal(x) + scale * x,
        residual - lax.stop_gradient(residual),
        lambda product, r: conjugate_gradient(product, r, scale),
        symmetric=True,
    )
    return top(params, q.mean - step) @ params.W1.T + params.b1[None, :]
