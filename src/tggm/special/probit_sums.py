r"""The probit integral of one class among many, node by node.

With x_j = (t − μ_j)/σ_j, f the logarithm of the integrand of `tggm.special.probit`, and w = exp(f)/Σ exp(f)
at the nodes,

.. math::
    \log \sum_t e^{f(t)}, \qquad a_j = \sum_t w_t\, s_j(t), \qquad b_j = \sum_t w_t\, s_j(t)\, x_j(t),

s_j the slope of the logarithm of factor j: x for the class itself, minus the hazard for its rivals. One pass
over the nodes gives all three: arrays of rows × classes stay in a core's cache, and each Φ is computed once.
With the whole table of rows × classes × nodes it would be two or three times, and the table in memory.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.special import kernels

_LOG_ROOT_2PI = 0.9189385332046727


class Sums(NamedTuple):
    """What a quadrature with equal weights needs."""

    log: Array  # (rows,) log Σ exp(f)
    slope: Array  # (rows, n) a
    moment: Array  # (rows, n) b


def sums(mean: Array, std: Array, own: Array, t: Array) -> Sums:
    """Of each row, at its nodes t, (rows, nodes); `own` marks its class, (rows, n)."""
    inverse = 1 / std
    constant = jnp.where(own, jnp.log(std) + _LOG_ROOT_2PI, 0.0).sum(1)

    def add(k: Array, so_far: tuple[Array, ...]) -> tuple[Array, ...]:
        top, total, a, b = so_far
        x = (lax.dynamic_slice_in_dim(t, k, 1, 1) - mean) * inverse
        log_cdf, hazard = kernels.log_ndtr_and_hazard(x)
        f = jnp.where(own, -0.5 * x * x, log_cdf).sum(1) - constant
        slope = jnp.where(own, x, -hazard)
        highest = jnp.maximum(top, f)  # what was added up is in units of exp(top)
        before, w = jnp.exp(top - highest), jnp.exp(f - highest)
        old, new = before[:, None], w[:, None]
        return highest, total * before + w, a * old + new * slope, b * old + new * slope * x

    rows, none = jnp.zeros_like(t[:, 0]), jnp.zeros_like(mean)
    lowest = jnp.full_like(rows, np.finfo(t.dtype).min)
    top, total, a, b = lax.fori_loop(0, t.shape[1], add, (lowest, rows, none, none))
    return Sums(top + jnp.log(total), a / total[:, None], b / total[:, None])
