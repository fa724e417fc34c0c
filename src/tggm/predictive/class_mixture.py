"""Probabilities of classes from normal scores: the mixture over ensemble members, compiled."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy.special import logsumexp
from numpy.typing import NDArray

from tggm.predictive.numpy_network import class_log_mixture, nodes_needed
from tggm.special.probit import log_probit

NODES = (24, 64, 192)  # grid sizes; each row uses the smallest that suffices
CHUNKS = (64, 256, 1024)  # rows with longer grids computed at once: few sizes, because each is compiled


def class_mixture(mean: NDArray[Any], std: NDArray[Any]) -> NDArray[Any]:
    """Return log-probabilities of classes, (rows, n).

    `mean` and `std`, (members, rows, n), are moments of the scores; the class is that of the largest of
    independent normal scores.
    """
    result = np.asarray(_mixture(mean, std, NODES[0])).copy()
    kind = np.searchsorted(NODES, nodes_needed(mean, std).max(0))
    for k in range(1, kind.max(initial=0) + 1):
        (chosen,) = np.nonzero(kind == k)
        size = next((size for size in CHUNKS if size >= len(chosen)), CHUNKS[-1])
        for begin in range(0, len(chosen), size):
            part = np.resize(chosen[begin : begin + size], size)  # the last part repeats its rows
            result[part] = np.asarray(_mixture(mean[:, part], std[:, part], (*NODES, None)[k]))
    return result


@partial(jax.jit, static_argnames="n_nodes")
def _mixture(mean: Array, std: Array, n_nodes: int | None) -> Array:
    """Compute the mixture on one grid per row or, for scores far apart, on one grid for each class."""
    if n_nodes is not None:
        return class_log_mixture(jnp, mean, std, n_nodes)
    label = jnp.zeros(mean.shape[1], jnp.int32)
    one = jax.vmap(log_probit, (0, 0, None))
    log_p = lax.map(lambda c: one(mean, std, label + c), jnp.arange(mean.shape[2], dtype=jnp.int32))
    return jnp.moveaxis(logsumexp(log_p, axis=1), 0, 1) - math.log(len(mean))
