"""Weighted points, and exact draws, of one Gaussian in a box, from its covariance: no matrix is inverted.

Points of a randomly shifted lattice, carried through the separation of variables (`box`), with weights whose
mean is the probability of the box. Uniform random points instead, each kept with the probability of its
weight over the largest possible one, are independent draws from the truncated normal (Botev, 2017).
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.arrays import Floats
from tggm.gaussian import Limits
from tggm.inference.orthant.box import SeparatedBox, separate_box, walk_box
from tggm.inference.orthant.lattice import generator, next_prime, tent_points

_LEAST = 2.0**-53
PORTION = 512  # points of each shift that are computed together


class Points(NamedTuple):
    """Of `sets` random shifts, n points each."""

    log_w: Floats  # (sets, n); the mean of w over a set estimates the probability
    h: Floats  # (sets, n, m)


class Candidates(NamedTuple):
    """Proposals of a rejection sampler."""

    accepted: Array  # (n,) bool
    h: Array  # (n, m)
    bounded: Array  # () bool: whether weights have a known bound; if not, nothing is accepted


def weighted_points(
    covariance: Array, mean: Array, limits: Limits, *, n_points: int, n_shifts: int, seed: int
) -> Points:
    """Points of the box in float64; call inside ``jax.enable_x64(True)``.

    They are computed in portions: one program serves any number of points, and what it works on stays in a
    processor's cache.
    """
    n, m = next_prime(n_points), len(mean)
    shifts, noise = jax.random.split(jax.random.key(seed))
    z, shift = jnp.asarray(generator(n, m)), jax.random.uniform(shifts, (1, n_shifts, m), dtype=mean.dtype)
    box = _separated(covariance, mean, limits)
    portions = [
        _portion(box, limits, z, shift, jax.random.fold_in(noise, first), jnp.asarray(first, mean.dtype))
        for first in range(0, n, PORTION)
    ]
    log_w, h = (np.concatenate(parts, axis=1)[:, :n] for parts in zip(*portions, strict=True))
    return Points(log_w, h)


_separated = jax.jit(separate_box)


@jax.jit
def _portion(
    box: SeparatedBox, limits: Limits, z: Array, shift: Array, noise: Array, first: Array
) -> tuple[Array, Array]:
    """Some points of every shift of the lattice: weights (shifts, n) and places (shifts, n, m)."""
    n_shifts, m = shift.shape[1:]
    u = tent_points(z, PORTION, shift, first)[0]
    log_w, h = walk_box(box, jnp.log(u))
    h = _placed(box, limits, h, noise)
    return log_w.reshape(n_shifts, PORTION), h.reshape(m, n_shifts, PORTION).transpose(1, 2, 0)


def _placed(box: SeparatedBox, limits: Limits, h: Array, noise: Array) -> Array:
    """Places in the order of the variables, in their units, and inside the box."""
    none_free = box.truncated.all()
    h = lax.cond(none_free, lambda h: h, lambda h: _completed(box.U, box.truncated, h, noise), h)
    h = (h * box.scale[:, None])[jnp.argsort(box.order)]
    return jnp.clip(h, limits.lower[:, None], limits.upper[:, None])


@partial(jax.jit, static_argnames="n")
def candidates(covariance: Array, mean: Array, limits: Limits, key: Array, n: int) -> Candidates:
    """So many proposals, and which of them are draws."""
    points, noise, coin = jax.random.split(key, 3)
    u = jax.random.uniform(points, (mean.shape[0], n), dtype=mean.dtype, minval=_LEAST)
    box = separate_box(covariance, mean, limits)
    log_w, h = walk_box(box, jnp.log(u))
    chance = jnp.log(jax.random.uniform(coin, (n,), dtype=mean.dtype, minval=_LEAST))
    h = _placed(box, limits, h, noise)
    return Candidates(chance <= log_w - box.peak, h.T, jnp.isfinite(box.peak))


def _completed(U: Array, truncated: Array, h: Array, key: Array) -> Array:
    """Free variables, of which `walk_box` gives the means, with their own noise."""
    z = jnp.where(truncated[:, None], 0, jax.random.normal(key, h.shape, h.dtype))
    return h + jnp.where(truncated[:, None], 0, U @ z)
