"""Means and variances of the outputs under each member, in blocks of rows."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.blas_lock import blas_lock
from tggm.models import Model
from tggm.models.hidden.base import LinearEngine
from tggm.predictive.row_blocks import block_size, over_blocks
from tggm.products import QUICKLY, full_precision
from tggm.training.compilation_cache import FOLDERS
from tggm.training.rows import bucket

Program = Callable[[LinearEngine, Model, Array], tuple[Array, ...]]


def member_moments(members: Model, X: Floats, engine: LinearEngine, dtype: Any) -> tuple[Floats, Floats]:
    """Mean and variance of each output under each member, (members, rows, n), on the scale of the model."""
    mean, var = _by_blocks(_variances, members, X.astype(dtype, copy=False), engine)
    return mean, var


def member_means(members: Model, X: Floats, engine: LinearEngine, dtype: Any) -> Floats:
    """The means alone, for little more than half the work.

    Few rows take the program that gives both, which has been compiled for the variances that others ask for.
    """
    function = _means if len(X) > block_size(members) else _variances
    return _by_blocks(function, members, X.astype(dtype, copy=False), engine)[0]


def _by_blocks(function: Program, members: Model, X: NDArray[Any], engine: LinearEngine) -> list[Floats]:
    """What a program gives for rows, (members, rows, n) each; engines that factorise run one at a time."""
    size = block_size(members)
    rows = size if len(X) > size else bucket(len(X))
    program = _program(function, engine, jax.device_put(members), padded(X[:size], rows))

    def one(at: slice) -> list[NDArray[Any]]:
        return [np.asarray(a) for a in program(padded(X[at], rows))]

    alone = not members.knows_moments
    with blas_lock(alone):
        blocks = over_blocks(one, len(X), size, alone=alone)
    joined = [np.concatenate(parts, axis=1)[:, : len(X)] for parts in zip(*blocks, strict=True)]
    return [a.astype(np.float64) for a in joined]


def _program(function: Program, engine: LinearEngine, members: Model, X: NDArray[Any]) -> Any:
    """A compiled function of rows like X, read from a file where it was traced before."""
    if members.knows_moments and FOLDERS:
        from tggm.training.traced_programs import kept

        if (found := kept(function, (engine,), _LIKE[function], (members, X))) is not None:
            return partial(found.call, members)
    return partial(_COMPILED[function], engine, members)


def member_covariances(members: Model, X: Floats, engine: LinearEngine) -> tuple[Floats, Floats]:
    """Mean (members, rows, n) and covariance (members, rows, n, n), in double precision."""
    with jax.enable_x64(True), blas_lock():
        mean, cov = _covariances(doubled(members), padded(X), engine)
        return np.asarray(mean)[:, : len(X)], np.asarray(cov)[:, : len(X)]


def padded(a: NDArray[Any], rows: int | None = None) -> NDArray[Any]:
    """Rows of zeros added, up to `rows` or so that few shapes are compiled."""
    missing = (bucket(len(a)) if rows is None else rows) - len(a)
    return np.pad(a, [(0, missing), *[(0, 0)] * (a.ndim - 1)])


def doubled(members: Model) -> Model:
    """The same in double precision."""
    double: Model = jax.tree.map(lambda a: np.asarray(a, np.float64), members)
    return double


@full_precision
def _variances(engine: LinearEngine, members: Model, X: Array) -> tuple[Array, ...]:
    found: tuple[Array, Array] = jax.vmap(lambda m: m.outputs(X).variances(m.latent(X, engine)))(members)
    return found


@full_precision
def _means(engine: LinearEngine, members: Model, X: Array) -> tuple[Array, ...]:
    """The compiler leaves out what only the variances need."""
    return _variances(engine, members, X)[:1]


_LIKE: dict[Program, Any] = {_variances: (0, 0), _means: (0,)}
_COMPILED = {each: jax.jit(each, static_argnums=0, compiler_options=QUICKLY) for each in _LIKE}


@partial(jax.jit, static_argnames="engine")
@full_precision
def _covariances(members: Model, X: Array, engine: LinearEngine) -> tuple[Array, Array]:
    found: tuple[Array, Array] = jax.vmap(lambda m: m.outputs(X).moments(m.latent(X, engine)))(members)
    return found
