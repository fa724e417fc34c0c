"""Means and variances of the outputs under each member, in blocks of rows."""

from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.inference.blas_lock import blas_lock
from tggm.models import Model
from tggm.models.hidden.base import LinearEngine
from tggm.products import QUICKLY, full_precision
from tggm.training.rows import bucket

BLOCK = 2048  # rows predicted at once: what stays in a cache


def member_moments(members: Model, X: Floats, engine: LinearEngine, dtype: Any) -> tuple[Floats, Floats]:
    """Mean and variance of each output under each member, (members, rows, n), on the scale of the model."""
    means, variances = [], []
    with blas_lock(not members.knows_moments):
        for begin in range(0, len(X), BLOCK):
            block = X[begin : begin + BLOCK].astype(dtype)
            mean, var = _variances(members, padded(block), engine)
            means.append(np.asarray(mean)[:, : len(block)])
            variances.append(np.asarray(var)[:, : len(block)])
    mean64, var64 = (np.concatenate(a, axis=1).astype(np.float64) for a in (means, variances))
    return mean64, var64


def member_covariances(members: Model, X: Floats, engine: LinearEngine) -> tuple[Floats, Floats]:
    """Mean (members, rows, n) and covariance (members, rows, n, n), in double precision."""
    with jax.enable_x64(True), blas_lock():
        mean, cov = _covariances(doubled(members), padded(X), engine)
        return np.asarray(mean)[:, : len(X)], np.asarray(cov)[:, : len(X)]


def padded(a: NDArray[Any]) -> NDArray[Any]:
    """Rows of zeros added, so that few shapes are compiled."""
    return np.pad(a, [(0, bucket(len(a)) - len(a)), *[(0, 0)] * (a.ndim - 1)])


def doubled(members: Model) -> Model:
    """The same in double precision."""
    double: Model = jax.tree.map(lambda a: np.asarray(a, np.float64), members)
    return double


@partial(jax.jit, static_argnames="engine", compiler_options=QUICKLY)
@full_precision
def _variances(members: Model, X: Array, engine: LinearEngine) -> tuple[Array, Array]:
    found: tuple[Array, Array] = jax.vmap(lambda m: m.outputs(X).variances(m.latent(X, engine)))(members)
    return found


@partial(jax.jit, static_argnames="engine")
@full_precision
def _covariances(members: Model, X: Array, engine: LinearEngine) -> tuple[Array, Array]:
    found: tuple[Array, Array] = jax.vmap(lambda m: m.outputs(X).moments(m.latent(X, engine)))(members)
    return found
