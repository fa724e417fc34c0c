"""Weighted points, and exact draws, of one Gaussian in a box, from its covariance: no matrix is inverted.

Points of a randomly shifted lattice, carried through the separation of variables (`box`), with weights whose
mean is the probability of the box. Uniform random points instead, each kept with the probability of its
weight over the largest possible one, are independent draws from the truncated normal (Botev, 2017).
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tggm.gaussian import Limits
from tggm.inference.orthant.box import separate_box, walk_box
from tggm.inference.orthant.lattice import generator, next_prime, tent_points

_LEAST = 2.0**-53


class Points(NamedTuple):
    """Of `sets` random shifts, n points each."""

    log_w: Array  # (sets, n); the mean of w over a set estimates the probability
    h: Array  # (sets, n, m)


class Candidates(NamedTuple):
    """Proposals of a rejection sampler."""

    accepted: Array  # (n,) bool
    h: Array  # (n, m)
    bounded: Array  # () bool: whether weights have a known bound; if not, nothing is accepted


def weighted_points(
    covariance: Array, mean: Array, limits: Limits, *, n_points: int, n_shifts: int, seed: int
) -> Points:
    """Points of the box in float64; call inside ``jax.enable_x64(True)``."""
    n = next_prime(n_points)
    key = jax.random.key(seed)
    z = jnp.asarray(generator(n, len(mean)))
    found: Points = _points(covariance, mean, limits, z, key, n, n_shifts)
    return found


@partial(jax.jit, static_argnames=("n", "n_shifts"))
def _points(
    covariance: Array, mean: Array, limits: Limits, z: Array, key: Array, n: int, n_shifts: int
) -> Points:
    m = mean.shape[0]
    shifts, noise = jax.random.split(key)
    u = tent_points(z, n, jax.random.uniform(shifts, (1, n_shifts, m), dtype=mean.dtype))[0]
    box = separate_box(covariance, mean, limits)
    log_w, h = walk_box(box, jnp.log(u))
    h = _completed(box.U, box.truncated, h, noise)
    h = (h * box.scale[:, None])[jnp.argsort(box.order)]
    h = jnp.clip(h, limits.lower[:, None], limits.upper[:, None])
    return Points(log_w.reshape(n_shifts, n), h.reshape(m, n_shifts, n).transpose(1, 2, 0))


@partial(jax.jit, static_argnames="n")
def candidates(covariance: Array, mean: Array, limits: Limits, key: Array, n: int) -> Candidates:
    """So many proposals, and which of them are draws."""
    points, noise, coin = jax.random.split(key, 3)
    u = jax.random.uniform(points, (mean.shape[0], n), dtype=mean.dtype, minval=_LEAST)
    box = separate_box(covariance, mean, limits)
    log_w, h = walk_box(box, jnp.log(u))
    chance = jnp.log(jax.random.uniform(coin, (n,), dtype=mean.dtype, minval=_LEAST))
    h = _completed(box.U, box.truncated, h, noise)
    h = (h * box.scale[:, None])[jnp.argsort(box.order)]
    h = jnp.clip(h, limits.lower[:, None], limits.upper[:, None])
    return Candidates(chance <= log_w - box.peak, h.T, jnp.isfinite(box.peak))


def _completed(U: Array, truncated: Array, h: Array, key: Array) -> Array:
    """Free variables, of which `walk_box` gives the means, with their own noise."""
    z = jnp.where(truncated[:, None], 0, jax.random.normal(key, h.shape, h.dtype))
    return h + jnp.where(truncated[:, None], 0, U @ z)
