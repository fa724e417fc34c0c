"""Predictions of a model with lateral connections, by EP: its hidden units are not independent."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.estimators.columns import Columns, Floats
from tggm.inference import ep
from tggm.inference.blas_lock import blas_lock
from tggm.inference.covariance import covariance
from tggm.models.lateral import Lateral, lateral_prior
from tggm.predictive.lateral import LateralPredictive
from tggm.training import Context, Rows
from tggm.training.lateral import LateralLikelihood
from tggm.training.rows import bucket


@jax.jit
def lateral_moments(params: Lateral, X: Array, s0: Array) -> tuple[Array, Array]:
    """Mean and variance of the output for each member, shape (members, rows, 1)."""

    def one(p: Lateral) -> tuple[Array, Array]:
        tg = lateral_prior(p, X, s0)
        var = covariance(tg, p.W1, engine="ep") + jnp.diag(jnp.exp(p.log_noise))[None]
        return ep(tg).mean @ p.W1.T + p.b1[None, :], jnp.diagonal(var, axis1=1, axis2=2)

    found: tuple[Array, Array] = jax.vmap(one)(params)
    return found


@jax.jit
def _log_density(params: Lateral, X: Array, Y: Array, s0: Array) -> Array:
    objective = LateralLikelihood("ep")
    found: Array = jax.vmap(lambda p: objective(p, Rows(X, Y), Context(s0)))(params)
    return found


def lateral_predictive(params: Lateral, Z: Floats, s0: float, y: Columns) -> Any:
    """The mixture over members, for standardised inputs Z, in the units of the target."""
    double = jax.tree.map(lambda a: np.asarray(a, np.float64), params)

    def padded(a: Floats) -> Floats:
        return np.pad(a, [(0, bucket(len(a)) - len(a)), (0, 0)])

    def log_density(rows: Any, z: Floats) -> Floats:
        with jax.enable_x64(True), blas_lock():
            found = _log_density(double, padded(Z[rows]), padded(z[:, None]), s0)
            return np.asarray(found)[:, : len(z)]

    with jax.enable_x64(True), blas_lock():
        mean, var = (np.asarray(a)[:, : len(Z), 0] for a in lateral_moments(double, padded(Z), s0))
    return LateralPredictive(mean, var, log_density, loc=float(y.shift[0]), scale=float(y.scale[0]))
