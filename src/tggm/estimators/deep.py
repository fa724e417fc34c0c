"""What the estimators need for models with several hidden layers."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.estimators.columns import Columns, Floats
from tggm.inference.blas_lock import blas_lock
from tggm.models.deep import Deep, Directed
from tggm.models.deep_moments import directed_output_moments
from tggm.models.probit import contended_of_covariance
from tggm.predictive.moment import MomentPredictive
from tggm.predictive.multivariate_moment import MultivariateMomentPredictive
from tggm.training.rows import bucket


def output_moments_of(params: Deep, X: Array, s0: Array, engine: str) -> tuple[Array, Array]:
    """Mean (rows, n) and covariance (rows, n, n) of y for one member."""
    if isinstance(params, Directed):
        return directed_output_moments(params, X, s0)
    from tggm.models.undirected_moments import undirected_output_moments  # brings the engines

    return undirected_output_moments(params, X, s0, engine)


def class_moments_of(params: Deep, X: Any, s0: Array, engine: str) -> tuple[Array, Array]:
    """Means and deviations of z, (rows, n) each, for one member, as they are predicted with."""
    mean, cov = output_moments_of(params, X, s0, engine)
    return mean, contended_of_covariance(mean, cov)


@partial(jax.jit, static_argnames="engine")
def deep_moments(params: Deep, X: Array, s0: Array, engine: str = "mean_field") -> tuple[Array, Array]:
    """Mean and variance of each output for each member, (members, rows, n)."""
    mean, cov = _deep_covariances(params, X, s0, engine)
    return mean, jnp.diagonal(cov, axis1=2, axis2=3)


@partial(jax.jit, static_argnames="engine")
def _deep_covariances(params: Deep, X: Array, s0: Array, engine: str) -> tuple[Array, Array]:
    found: tuple[Array, Array] = jax.vmap(partial(output_moments_of, X=X, s0=s0, engine=engine))(params)
    return found


def deep_predictive(
    params: Deep, Z: Floats, s0: float, y: Columns, output: int | None, engine: str
) -> MomentPredictive | MultivariateMomentPredictive:
    """The mixture over members, for standardised inputs Z: of one output, or of all together."""
    double = jax.tree.map(lambda a: np.asarray(a, np.float64), params)
    padded = np.pad(Z, [(0, bucket(len(Z)) - len(Z)), (0, 0)])
    with jax.enable_x64(True), blas_lock():
        mean, cov = (np.asarray(a)[:, : len(Z)] for a in _deep_covariances(double, padded, s0, engine))
    if output is None:
        return MultivariateMomentPredictive(mean, cov, loc=y.shift, scale=y.scale)
    loc, scale = float(y.shift[output]), float(y.scale[output])
    return MomentPredictive(mean[:, :, output], cov[:, :, output, output], loc=loc, scale=scale)
