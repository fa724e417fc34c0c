"""The order in which to integrate the variables of an orthant probability, and the Cholesky factor in it."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from tggm.special import hazard

_TINY, _HUGE = 1e-300, 1e300


class OrderedFactor(NamedTuple):
    """Lower triangular L with L Lᵀ = Σ[order][:, order]."""

    L: Array  # (m, m)
    order: Array  # (m,) variable at each place; the free ones come last


def ordered_cholesky(covariance: Array, mean: Array, truncated: Array) -> OrderedFactor:
    r"""Cholesky factor of a covariance, the variable least likely to be nonnegative first.

    At each step the variable with the smallest probability of h ≥ 0 given that the earlier ones stand at
    their truncated means is taken next (Gibson, Glasbey and Elston, 1994): it makes the first integrals carry
    most of the variation. Free variables are left to the end, where they are integrated out by being ignored.

    Parameters
    ----------
    covariance : Array, shape (m, m)
    mean : Array, shape (m,)
    truncated : Array of bool, shape (m,)
    """
    m = mean.shape[0]

    def step(k: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
        columns, order, left, var, bound = state
        # bound: what h − mean must exceed, given the earlier variables
        score = jnp.where(truncated, bound / jnp.sqrt(var), -_HUGE)
        p = jnp.argmax(jnp.where(left, score, -jnp.inf)).astype(jnp.int32)
        column = covariance[p] - columns[:, p] @ columns
        column = jnp.where(left, column, 0) / jnp.sqrt(var[p])
        expected = jnp.where(truncated[p], hazard(-score[p]), 0)
        return (
            columns.at[k].set(column),
            order.at[k].set(p),
            left.at[p].set(False),
            jnp.maximum(var - column * column, _TINY),
            bound - expected * column,
        )

    start = (
        jnp.zeros_like(covariance),
        jnp.zeros(m, jnp.int32),
        jnp.ones(m, bool),
        jnp.diagonal(covariance),
        -mean,
    )
    columns, order, *_ = lax.fori_loop(0, m, step, start)
    return OrderedFactor(columns.T[order], order)
