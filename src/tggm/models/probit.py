"""The shallow model with classes for outputs: multinomial probit, §4.1 of Su et al. (2016).

    p(h | x) = N_T(h | W0 x + b0, s0 I),  h ≥ 0      z = W1 h + b1 + ε,  ε ~ N(0, I)      class = argmax z

The unit noise of z is a gauge like s0: scaling z changes no class. Parameters are those of `Shallow` with
log_noise = 0.
"""

import jax.numpy as jnp
from jax import Array

from tggm.models.shallow import Shallow, latent_moments


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


def class_mean(params: Shallow, X: Array, s0: Array) -> Array:
    """E[z | x] = W1 E[h | x] + b1, shape (rows, n)."""
    return latent_moments(params, X, s0)[0] @ params.W1.T + params.b1[None, :]
