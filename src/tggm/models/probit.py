"""The shallow model with classes for outputs: multinomial probit, §4.1 of Su et al. (2016).

    p(h | x) = N_T(h | W0 x + b0, s0 I),  h ≥ 0      z = W1 h + b1 + ε,  ε ~ N(0, I)      class = argmax z

The unit noise of z is a gauge like s0: scaling z changes no class. Parameters are those of `Shallow` with
log_noise = 0.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.models.shallow import Shallow, latent_moments

CONTENDERS = 0.8  # weight of the classes that may win, against all alike
LEAST_VARIANCE = 0.25


def class_moments(params: Shallow, X: Array, s0: Array) -> tuple[Array, Array]:
    r"""Means of z, and standard deviations that make independent normals of the classes.

    Which z is largest depends on differences only, so what all classes share is no uncertainty about the
    class. With w̄ the mean of W1 over classes, the variances

    .. math:: D_j = 1 + \frac{n}{n-1} \sum_k (W_{1,jk} - \bar w_k)^2\, \mathrm{Var}[h_k \mid x]

    are those of n independent normals whose contrasts z_j − z̄ have the exact variances up to the rest of
    their sum, and whose pairwise differences have the exact total variance; for two classes D_1 + D_2 is
    exactly Var[z_1 − z_2].

    Returns
    -------
    mean, std : Array, shape (rows, n)
    """
    h, v = latent_moments(params, X, s0)
    n = params.b1.shape[0]
    contrast = params.W1 - params.W1.mean(0, keepdims=True)
    var = 1 + v @ (contrast**2).T * (n / (n - 1))
    return h @ params.W1.T + params.b1[None, :], jnp.sqrt(var)


def contended_moments(params: Shallow, X: Array, s0: Array) -> tuple[Array, Array]:
    """As `class_moments`, with the deviations of `contended_std`: what is predicted."""
    h, v = latent_moments(params, X, s0)
    mean = h @ params.W1.T + params.b1[None, :]
    return mean, contended_std(mean, v @ (params.W1**2).T, lambda w: (v * (w @ params.W1)) @ params.W1.T)


def contended_of_covariance(mean: Array, cov: Array) -> Array:
    """`contended_std` from the whole matrix, (rows, n, n), the unit noise included."""
    var = jnp.diagonal(cov, axis1=1, axis2=2) - 1
    return contended_std(mean, var, lambda w: jnp.einsum("bij,bj->bi", cov, w) - w)


def contended_std(mean: Array, var: Array, product: Callable[[Array], Array]) -> Array:
    r"""Deviations of independent normals whose differences vary as those of the classes that may win.

    With C the covariance of W1 h given x, t_ij = 2 + C_ii + C_jj − 2 C_ij are the variances of differences.
    Independent normals have D_i + D_j instead: exact for up to three classes, and the least squares

    .. math:: \min_D \sum_{i<j} w_i w_j\, (D_i + D_j - t_{ij})^2

    for more, in closed form. The class with the largest mean has half of the weight, the others share the
    rest by the square of the chance of each to pass it, and a part is for all alike.

    Parameters
    ----------
    mean, var : Array, shape (rows, n)
        Means of z, and the diagonal of C.
    product : callable
        (rows, n) weights to the rows' C w.
    """
    n = mean.shape[1]
    if n == 2:
        sign = jnp.asarray([1.0, -1.0], mean.dtype)[None, :]
        difference = (product(jnp.broadcast_to(sign, mean.shape)) * sign).sum(1, keepdims=True)
        return jnp.broadcast_to(jnp.sqrt(1 + 0.5 * difference), mean.shape)
    first = mean.argmax(1)[:, None] == jnp.arange(n)[None, :]
    spread = 2 + var + jnp.where(first, var, 0.0).sum(1, keepdims=True)
    behind = (mean.max(1, keepdims=True) - mean) / jnp.sqrt(2 * spread)
    chance = jnp.where(first, 0.0, lax.erfc(behind) ** 2 + np.finfo(mean.dtype).tiny)
    share = jnp.where(first, 0.5, 0.5 * chance / chance.sum(1, keepdims=True))
    w = (1 - CONTENDERS) / n + CONTENDERS * share  # sums to 1, and no weight reaches 1/2
    t = 2 * (1 - w) + var * (1 - 2 * w) + (w * var).sum(1, keepdims=True) - 2 * (product(w) - w * var)
    # Σ_j≠i w_j t_ij = D_i (1 − 2 w_i) + Σ_j w_j D_j; the last sum follows from multiplying by w_i and adding
    rest, free, D = 1 - 2 * w, jnp.ones_like(w), jnp.zeros_like(w)
    for _ in range(3):  # where classes exclude each other D may want to be negative: held, the others follow
        held = (w * (1 - free)).sum(1, keepdims=True) * LEAST_VARIANCE
        total = (free * w * (t - held) / rest).sum(1, keepdims=True)
        total = total / (1 + (free * w / rest).sum(1, keepdims=True))
        D = jnp.where(free > 0, (t - held - total) / rest, LEAST_VARIANCE)
        free = jnp.where(D > LEAST_VARIANCE, free, 0.0)
    return jnp.sqrt(jnp.maximum(D, LEAST_VARIANCE))


def class_mean(params: Shallow, X: Array, s0: Array) -> Array:
    """E[z | x] = W1 E[h | x] + b1, shape (rows, n)."""
    return latent_moments(params, X, s0)[0] @ params.W1.T + params.b1[None, :]
