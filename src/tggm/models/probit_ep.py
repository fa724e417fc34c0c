r"""Expectation propagation for the probability of a class, h and z together.

log p(c | x) is the logarithm of the integral of

    Π_k exp(−h_k²/2s0 + a_k h_k/s0) 1[h_k ≥ 0] · N(z | W1 h + b1, I) · Π_{j≠c} 1[y_j ≥ 0],   y_j = z_c − z_j,

less the prior's own log Z. Sites on all walls (`tggm.models.class_sites`) leave h independent given y, so a
sweep over all of them costs O(m n²) a row.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from tggm.inference.factors import gaussian_log_z
from tggm.models.class_sites import Marginals, Sites, differences, fit_sites, walls
from tggm.models.shallow import Shallow, locations, prior_log_z
from tggm.precision.protocol import rounding
from tggm.special.probit import own_class


class Joint(NamedTuple):
    """Marginals under all sites, and the logarithm of the Gaussian's integral."""

    marginals: Marginals
    log_z: Array


def _gaussian(params: Shallow, a: Array, s0: Array, own: Array, sites: Sites) -> Joint:
    """The Gaussian with walls replaced by sites."""
    W1 = params.W1
    n = W1.shape[0]
    V = 1 / (1 / s0 + sites.h_precision)
    h0 = V * (a / s0 + sites.h_shift)
    pairs = (W1[:, None, :] * W1[None, :, :]).reshape(n * n, -1)
    C = jnp.eye(n, dtype=a.dtype)[None] + (V @ pairs.T).reshape(-1, n, n)
    y = differences(own, h0 @ W1.T + params.b1[None, :], C, sites)
    # of a positive difference, written so that rounding keeps it so
    part = V * ((y.root.mT @ y.root).reshape(-1, n * n) @ pairs)
    h_var = V * jnp.maximum(1 - part, rounding(a.dtype))
    log_z = gaussian_log_z(a / s0 + sites.h_shift, 1 / V).sum(-1) + 0.5 * y.fit
    return Joint(Marginals(h0 + V * (y.back @ W1), h_var, y.mean, y.var), log_z)


def class_log_likelihood_ep(params: Shallow, X: Array, label: Array, s0: Array, max_iter: Array) -> Array:
    """EP's estimate of log p(c | x) for each row, differentiable: stationary in the sites."""
    own = own_class(label[:, None] + jnp.zeros_like(params.b1, label.dtype)[None, :], label)
    a = locations(params, X)
    fixed = lax.stop_gradient((params, a, s0))
    alone = jnp.zeros_like(a) + 1 / fixed[2]
    sites = fit_sites(lambda sites: _gaussian(*fixed, own, sites).marginals, alone, own, max_iter)
    q = _gaussian(params, a, s0, own, sites)
    return q.log_z + walls(lax.stop_gradient(q.marginals), own, sites) - prior_log_z(params, X, s0)
