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
from tggm.products import full_precision

_LEAST = 2.0**-53
_LEAST_SHORT = 2.0**-24
PORTION = 512  # points of each shift that are computed together
# What float32 is good enough for: these keep the error of a probability below 1e-5.
_FAR, _STEEP, _NARROW = 32.0, 8.0, 0.1


class Points(NamedTuple):
    """Of `sets` random shifts, n points each."""

    log_w: Floats  # (sets, n); the mean of w over a set estimates the probability
    h: Floats  # (sets, n, m), or (sets, n, 0) if places were not asked for


class Candidates(NamedTuple):
    """Proposals of a rejection sampler."""

    accepted: Array  # (n,) bool
    h: Array  # (n, m)
    bounded: Array  # () bool: whether weights have a known bound; if not, nothing is accepted


def weighted_points(
    covariance: Array,
    mean: Array,
    limits: Limits,
    *,
    n_points: int,
    n_shifts: int,
    seed: int,
    short: bool = False,
    places: bool = True,
) -> Points:
    """Points of the box in float64; call inside ``jax.enable_x64(True)``.

    They are computed in portions: one program serves any number of points, and what it works on stays in a
    processor's cache. `short` allows to carry them in float32, three times as fast, where limits and tilt are
    of moderate size. Without `places` only weights are returned.
    """
    n, m = next_prime(n_points), len(mean)
    shifts, noise = jax.random.split(jax.random.key(seed))
    z, shift = jnp.asarray(generator(n, m)), jax.random.uniform(shifts, (1, n_shifts, m), dtype=mean.dtype)
    box = _separated(covariance, mean, limits)
    if short and bool(_moderate(box)):
        box = jax.tree.map(lambda a: a.astype(jnp.float32) if a.dtype == jnp.float64 else a, box)
    portions = [
        _portion(box, limits, z, shift, jax.random.fold_in(noise, first), float(first), places)
        for first in range(0, n, PORTION)
    ]
    log_w, h = (np.concatenate(parts, axis=1)[:, :n] for parts in zip(*portions, strict=True))
    return Points(log_w, h)


_separated = jax.jit(separate_box)


@jax.jit
def _moderate(box: SeparatedBox) -> Array:
    """Whether rounding to float32 does not matter: no far limits, narrow boxes or near singularities."""
    ends = jnp.concatenate([jnp.where(jnp.isfinite(a), jnp.abs(a), 0) for a in (*box.limits, box.mean)])
    steep = jnp.maximum(jnp.abs(box.U).max(), jnp.abs(box.tilt).max())
    width = (box.limits.upper - box.limits.lower).min()
    return (ends.max() <= _FAR) & (steep <= _STEEP) & (width >= _NARROW)


@partial(jax.jit, static_argnames="places")
@full_precision
def _portion(
    box: SeparatedBox, limits: Limits, z: Array, shift: Array, noise: Array, first: float, places: bool
) -> tuple[Array, Array]:
    """Some points of every shift of the lattice: weights (shifts, n) and places (shifts, n, m)."""
    n_shifts, m = shift.shape[1:]
    u = tent_points(z, PORTION, shift, first)[0].astype(box.U.dtype)
    least = _LEAST_SHORT if u.dtype == jnp.float32 else _LEAST
    log_w, h = walk_box(box, jnp.log(jnp.clip(u, least, 1 - least)), z.dtype)
    log_w = log_w.reshape(n_shifts, PORTION)
    if not places:
        return log_w, jnp.zeros((n_shifts, PORTION, 0), z.dtype)
    h = _placed(box, limits, h.astype(z.dtype), noise)
    return log_w, h.reshape(m, n_shifts, PORTION).transpose(1, 2, 0)


def _placed(box: SeparatedBox, limits: Limits, h: Array, noise: Array) -> Array:
    """Places in the order of the variables, in their units, and inside the box."""
    none_free = box.truncated.all()
    h = lax.cond(none_free, lambda h: h, lambda h: _completed(box.U, box.truncated, h, noise), h)
    h = (h * box.scale[:, None].astype(h.dtype))[jnp.argsort(box.order)]
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
    return h + jnp.where(truncated[:, None], 0, U.astype(z.dtype) @ z)
