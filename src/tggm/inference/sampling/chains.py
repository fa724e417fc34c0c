"""What all samplers share: how many draws each chain owes, where chains start, and whether they agree."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from tggm.gaussian import Limits, TruncatedGaussian
from tggm.inference.factors import scaled, standardised
from tggm.precision.protocol import is_concrete

_PRECISE = 0.1  # error of a mean, in standard deviations, that counts as converged


class ChainPlan(NamedTuple):
    """A sampler's schedule; all chains run side by side."""

    n: int  # draws wanted in all
    n_chains: int
    per_chain: int  # draws kept from each chain, n_chains * per_chain >= n
    burn_in: int  # steps before the first kept draw
    thin: int  # steps from one kept draw to the next

    def sweeps(self) -> Array:
        """Steps before each kept draw, shape (per_chain,); burn-in precedes the first."""
        return jnp.full(self.per_chain, self.thin, jnp.int32).at[0].add(self.burn_in)


def plan(n: int, n_chains: int, burn_in: int, thin: int) -> ChainPlan:
    """Check the numbers and share the draws among the chains."""
    for name, value, least in (
        ("n", n, 1),
        ("n_chains", n_chains, 1),
        ("burn_in", burn_in, 0),
        ("thin", thin, 1),
    ):
        if value < least:
            raise ValueError(f"`{name}` must be at least {least}; got {value}. Raise it to {least} or more.")
    n_chains = min(n, n_chains)
    return ChainPlan(n, n_chains, -(-n // n_chains), burn_in, thin)


def starting_point(tg: TruncatedGaussian, n_chains: int, init: ArrayLike | None) -> Array:
    """Feasible states of all chains, shape (m, n_chains * rows), the chains of a row `rows` apart.

    By default the means of the coordinates as if nothing else were there.
    """
    rows, m = tg.shift.shape
    if init is None:
        root = jnp.sqrt(tg.precision.diagonal())[None, :]
        h = standardised(tg.shift / root, scaled(tg.walls(), root))[0] / root
        h = jnp.broadcast_to(h[None], (n_chains, rows, m))
    else:
        h = jnp.asarray(init, tg.shift.dtype)
        if h.size not in (rows * m, n_chains * rows * m) or h.shape[-1:] != (m,):
            raise ValueError(
                f"`init` must have the shape of the shift, or that with {n_chains} chains in front; "
                f"got shape {h.shape} for {rows} rows of {m} variables."
            )
        h = jnp.broadcast_to(h.reshape(-1, rows, m), (n_chains, rows, m))
        _check_inside(tg, h)
    return h.reshape(n_chains * rows, m).T


def _check_inside(tg: TruncatedGaussian, h: Array) -> None:
    walls = tg.walls()
    if not is_concrete(h, *jax.tree.leaves(walls)):
        return
    if isinstance(walls, Limits):
        outside = float(jnp.maximum(walls.lower - h, h - walls.upper).max())
        if outside > 0:
            raise ValueError(
                f"`init` must be within the limits; it is outside by {outside:.3g}. Clip it, or omit it."
            )
        return
    inside = jnp.where(walls, h, 0)
    if not bool((inside >= 0).all()):
        raise ValueError(
            f"`init` must be nonnegative where truncated; smallest is {float(inside.min()):.3g}. "
            "Clip it at zero, or omit it."
        )


def agreement(draws: Array) -> Array:
    """Whether the chains of each row tell one story; draws of shape (per_chain, n_chains, rows, m).

    Cuts every chain in halves. The mean of each variable must be known to a tenth of its standard
    deviation, judging by the spread of the halves' means, and the first halves must agree with the second
    to a fifth: chains that creep fail the one, chains still on their way from the start fail the other.
    """
    per_chain, n_chains = draws.shape[:2]
    half = max(per_chain // 2, 1)
    pieces = jnp.stack([draws[:half].mean(0), draws[-half:].mean(0)])[: min(per_chain, 2)]
    n_pieces = pieces.shape[0] * n_chains
    if n_pieces == 1:
        return jnp.zeros(draws.shape[2], bool)
    std = jnp.sqrt(draws.var((0, 1)))
    error = pieces.std((0, 1), ddof=1) / math.sqrt(n_pieces)
    drift = jnp.abs(pieces[0].mean(0) - pieces[-1].mean(0))
    return ((error <= _PRECISE * std) & (drift <= 2 * _PRECISE * std)).all(-1)
