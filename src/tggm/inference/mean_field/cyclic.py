"""The paper's Algorithm 1: mean field by visiting one coordinate after the other.

Kept for faithful reproduction. A cycle over a `LowRank` precision keeps s = U m up to date, so it costs
O(mn) a row, not O(m²); other structures use the rows of the dense matrix. `newton` reaches the optimum of
the same problem in a handful of steps.
"""

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import Limits, TruncatedGaussian
from tggm.inference.factors import scaled, standardised
from tggm.precision import LowRank

UNROLL = 8  # visits compiled together on a GPU, where starting an operation takes longer than a visit


def cyclic(tg: TruncatedGaussian, start: Array, n_cycles: Array) -> Array:
    """Natural parameters θ, shape (rows, m), after a fixed number of cycles from means `start`."""
    P = tg.precision
    U = P.weights if isinstance(P, LowRank) else P.dense()
    low_rank = isinstance(P, LowRank)
    p = P.diagonal()
    root = jnp.sqrt(p)
    walls = tg.walls()
    columns = (
        U.T,
        tg.shift.T,
        p,
        root,
        walls.map(jnp.transpose) if isinstance(walls, Limits) else tg.truncated,
    )

    def visit(product: Array, inputs: Any) -> tuple[Array, tuple[Array, Array]]:
        # Algorithm 1, lines 3-5: `product` is U m (LowRank) or P m (otherwise)
        (u, gamma, p_k, root_k, walls_k), m_k, k = inputs
        coupling = product @ u - (u @ u) * m_k if low_rank else product[:, k] - p_k * m_k
        theta = gamma - coupling
        g, _ = standardised(theta / root_k, scaled(walls_k, root_k))
        new = g / root_k
        return product + (new - m_k)[:, None] * u[None, :], (new, theta)

    def cycle(_: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        mean, product, _ = carry
        inputs = (columns, mean, jnp.arange(P.size))
        product, (mean, theta) = lax.platform_dependent(
            product, inputs, cuda=partial(lax.scan, visit, unroll=UNROLL), default=partial(lax.scan, visit)
        )
        return mean, product, theta

    mean = start.T
    carry = (mean, mean.T @ U.T, jnp.zeros_like(mean))
    theta: Array = lax.fori_loop(0, n_cycles, cycle, carry)[2]
    return theta.T
