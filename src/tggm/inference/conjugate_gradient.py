"""Conjugate gradients for a batch of systems that share one matrix product.

Solves A_i x_i = r_i for every row i, preconditioned by the diagonal of A_i. Each step costs one product
with the matrix shared by the batch; rows that are done no longer move.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from tggm.precision.protocol import rounding

LOOSEST = 1e-3  # part of ‖r‖² that is left of a step


def conjugate_gradient(
    product: Callable[[Array], Array], r: Array, diagonal: Array, enough: float | None = None
) -> Array:
    """Solution x with ‖r − A x‖ below rounding of ‖r‖, or `enough`, in the preconditioner's norm.

    At most 2 m steps; at least one for every row whose r is not zero, so that no solution is zero by being
    good enough.

    Parameters
    ----------
    product : callable
        Maps (rows, m) to A_i x_i, each A_i symmetric positive definite.
    r : Array, shape (rows, m)
        Right-hand sides.
    diagonal : Array, shape (rows, m)
        Diagonals of the A_i, positive.
    enough : float, optional
        For steps of Newton's method: ‖r‖² is reduced to a part ‖r‖² of it, `LOOSEST` at most, or to this. No
        step is then solved further than the next one makes good, and convergence stays quadratic.
    """
    z = r / diagonal
    rho = (r * z).sum(-1)
    # Newton corrects what is left, so half of the digits are enough
    target = rho * rounding(r.dtype)
    if enough is not None:
        target = jnp.maximum(rho * jnp.clip(rho, rounding(r.dtype), LOOSEST), enough)

    def active_rows(i: Array, rho: Array) -> Array:
        return (rho > target) | ((i == 0) & (rho > 0))

    def keep_going(carry: Any) -> Array:
        i, _, _, _, rho = carry
        return jnp.asarray((i < 2 * r.shape[-1]) & active_rows(i, rho).any())

    def body(carry: Any) -> Any:
        i, x, res, d, rho = carry
        Ad = product(d)
        active = active_rows(i, rho)
        step = jnp.where(active, rho / _nonzero((d * Ad).sum(-1)), 0)[:, None]
        x, res = x + step * d, res - step * Ad
        z = res / diagonal
        new = (res * z).sum(-1)
        beta = jnp.where(active, new / _nonzero(rho), 0)[:, None]
        return i + 1, x, res, z + beta * d, jnp.where(active, new, rho)

    x: Array = lax.while_loop(keep_going, body, (jnp.int32(0), jnp.zeros_like(r), r, z, rho))[1]
    return x


def _nonzero(a: Array) -> Array:
    return jnp.where(a == 0, 1, a)
