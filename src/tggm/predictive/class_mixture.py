"""Probabilities of classes from normal scores: the mixture over ensemble members."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import logsumexp
from numpy.typing import NDArray

from tggm.special.probit import grid_length, log_probit, log_probit_all

NODES = (24, 64, 192)  # grid sizes; each row uses the smallest that suffices
CHUNKS = (64, 256, 1024)  # rows with longer grids computed at once: few sizes, because each is compiled
# standard deviations between nodes: probabilities above e^-50 have a relative error below 1e-6
SPACING = {"float32": 0.6, "float64": 0.4}


def class_mixture(mean: NDArray[Any], std: NDArray[Any]) -> NDArray[Any]:
    """Return log-probabilities of classes, (rows, n).

    `mean` and `std`, (members, rows, n), are moments of the scores; the class is that of the largest of
    independent normal scores.
    """
    result = np.asarray(_mixture(mean, std, NODES[0])).copy()
    kind = np.searchsorted(NODES, np.asarray(_lengths(mean, std)) / SPACING[str(mean.dtype)])
    for k in range(1, kind.max(initial=0) + 1):
        (chosen,) = np.nonzero(kind == k)
        size = next((size for size in CHUNKS if size >= len(chosen)), CHUNKS[-1])
        for begin in range(0, len(chosen), size):
            part = np.resize(chosen[begin : begin + size], size)  # the last part repeats its rows
            result[part] = np.asarray(_mixture(mean[:, part], std[:, part], (*NODES, None)[k]))
    return result


@jax.jit
def _lengths(mean: Array, std: Array) -> Array:
    return jax.vmap(grid_length)(mean, std).max(0)


@partial(jax.jit, static_argnames="n_nodes")
def _mixture(mean: Array, std: Array, n_nodes: int | None) -> Array:
    """Compute the mixture on one grid per row or, without `n_nodes`, on one for each class."""
    if n_nodes is None:
        log_p = jax.vmap(_class_by_class)(mean, std)
    else:
        log_p = jax.vmap(partial(log_probit_all, n_nodes=n_nodes))(mean, std)
    return logsumexp(log_p, axis=0) - math.log(len(mean))


def _class_by_class(mean: Array, std: Array) -> Array:
    """Compute log-probabilities for scores too far apart for one grid."""
    classes = jnp.arange(mean.shape[1], dtype=jnp.int32)
    rows = jnp.zeros(mean.shape[0], jnp.int32)
    log_p: Array = lax.map(lambda c: log_probit(mean, std, rows + c), classes)
    return log_p.T
