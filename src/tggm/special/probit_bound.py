r"""Second-order expansions of the multinomial probit and of its fully factorised bound, unit variances.

Both are concave functions of the means η of z ~ N(η, I), and for both η plus the gradient is the mean of z
under the distribution of z that they stand for:

* `exact`: log P_c(η), z ~ N(η, I) given that z_c is the largest;
* `factorised`: the mean-field bound in which s = T_c z (s_c = z_c, s_j = z_c − z_j; T_c is its own inverse)
  has independent components. Its optimum over all components but s_c is explicit, and what is left is

.. math::
    F_c(\eta) = \max_u \Big[ -\tfrac12 (u - \eta_c)^2 + \sum_{j \ne c} \log\Phi(u - \eta_j) \Big]
        - \tfrac12 \log n \;\le\; \log P_c(\eta),

with u the mean of s_c, whose variance is 1/n. The paper's supplement reaches the same point by cycling.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tggm.special import standard
from tggm.special.probit import class_grid, log_integrand, log_sum, mode, own_class


class Expansion(NamedTuple):
    """Value, gradient and Hessian at η."""

    value: Array  # (rows,)
    gradient: Array  # (rows, n)
    hessian: Array  # (rows, n, n), negative semidefinite


@partial(jax.jit, static_argnames=("n_nodes", "n_steps"), inline=True)
def exact(eta: Array, label: Array, n_nodes: int, n_steps: int) -> Expansion:
    """Log P_c(η) and its first two derivatives, all from one grid."""
    one = jnp.ones_like(eta)
    own = own_class(eta, label)
    t, h = class_grid(eta, one, own, n_nodes, n_steps)
    terms = log_integrand(eta, one, own, t)
    value = log_sum(terms)
    p = jnp.exp(terms - value[:, None])[:, None, :]
    x = t[:, None, :] - eta[:, :, None]
    slope = jnp.where(own[:, :, None], x, -standard.hazard(x))
    bend = jnp.where(own[:, :, None], 1.0, standard.decay(x))
    gradient = (p * slope).sum(-1)
    spread = slope - gradient[:, :, None]
    hessian = jnp.matmul(p * spread, spread.mT, precision="highest") - _diagonal((p * bend).sum(-1))
    return Expansion(jnp.minimum(value + jnp.log(h), 0.0), gradient, hessian)


@partial(jax.jit, static_argnames="n_steps", inline=True)
def factorised(eta: Array, label: Array, n_steps: int) -> Expansion:
    """F_c(η) and its first two derivatives, by the envelope theorem."""
    own = own_class(eta, label)
    u, _ = mode(eta, jnp.ones_like(eta), own, n_steps)
    x = u[:, None] - eta
    bend = jnp.where(own, 1.0, standard.decay(x))
    value = jnp.where(own, -0.5 * x * x, standard.log_ndtr(x)).sum(-1)
    gradient = jnp.where(own, x, -standard.hazard(x))
    hessian = bend[:, :, None] * bend[:, None, :] / bend.sum(-1)[:, None, None] - _diagonal(bend)
    return Expansion(value - 0.5 * math.log(eta.shape[1]), gradient, hessian)


def _diagonal(values: Array) -> Array:
    """Diagonal matrices, (rows, n, n)."""
    return values[:, :, None] * jnp.eye(values.shape[1], dtype=values.dtype)[None]
