"""The predictive distribution that a model offers.

Independent units, with one limit or two, make an exact one; units that an engine knows, its density; all
others a Gaussian with the moments of y.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.arrays import Floats, Ints
from tggm.blas_lock import blas_lock
from tggm.models import Model
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.exact import Predictive
from tggm.predictive.joint import JointPredictive
from tggm.predictive.moment import EnginePredictive, MomentPredictive
from tggm.predictive.moments import doubled, member_covariances, member_moments, padded
from tggm.predictive.multivariate import MultivariatePredictive
from tggm.predictive.multivariate_moment import MultivariateMomentPredictive
from tggm.products import full_precision


def marginal(
    members: Model, X: Floats, j: int, engine: Any, shift: Floats, scale: Floats
) -> ScalarPredictive:
    """Distribution of output j, y = shift + scale · z, for standardised inputs; a mixture over members."""
    loc, width = float(shift[j]), float(scale[j])
    if "sum" in members.hidden.offers:
        alpha, W, b, noise = _sums(members, X)
        return Predictive(alpha, W[:, j], b[:, :, j], 1.0, noise[:, j], loc=loc, scale=width)
    if members.hidden.bounded:
        alpha, W, b, noise = _sums(members, X)
        limits = np.asarray(jax.vmap(lambda m: jnp.stack(m.hidden.bounds))(members), np.float64).T
        return Predictive(alpha, W[:, j], b[:, :, j], 1.0, noise[:, j], loc=loc, scale=width, limits=limits)
    if members.knows_moments:  # of a sum over many units: single precision is far finer than the Gaussian
        mean, var = member_moments(members, X, engine, members.likelihood.output.b1.dtype)
        return MomentPredictive(mean[:, :, j], var[:, :, j], loc=loc, scale=width)
    mean, cov = member_covariances(members, X, engine)
    moments = mean[:, :, j], cov[:, :, j, j]
    if members.hidden.by_moments:
        return MomentPredictive(*moments, loc=loc, scale=width)

    def log_density(rows: Ints, z: Floats) -> Floats:
        return member_log_densities(members, X[rows], z[:, None], engine)

    return EnginePredictive(*moments, log_density, loc=loc, scale=width)


def joint(members: Model, X: Floats, engine: Any, shift: Floats, scale: Floats) -> JointPredictive[Any]:
    """Distribution of all outputs together."""
    if "sum" in members.hidden.offers:
        density = partial(member_log_densities, members, X, engine=engine)
        alpha, W, b, noise = _sums(members, X)
        return MultivariatePredictive(alpha, W, b, 1.0, noise, log_density=density, loc=shift, scale=scale)
    return MultivariateMomentPredictive(*member_covariances(members, X, engine), loc=shift, scale=scale)


def member_log_densities(members: Model, X: Floats, Y: Floats, engine: Any) -> Floats:
    """Log-density of the outputs under each member, (members, rows), by an engine; standard units."""
    with jax.enable_x64(True), blas_lock():
        return np.asarray(_log_densities(doubled(members), padded(X), padded(Y), engine))[:, : len(X)]


@partial(jax.jit, static_argnames="engine")
@full_precision
def _log_densities(members: Model, X: Array, Y: Array, engine: Any) -> Array:
    def one(m: Model) -> Array:
        return m.outputs(X).by_engine(Y, m.hidden, m.features(X), engine)

    found: Array = jax.vmap(one)(members)
    return found


def _sums(members: Model, X: Floats) -> tuple[Floats, ...]:
    """Independent units in units of their deviation, and what the output makes of them, float64."""
    double = doubled(members)
    with jax.enable_x64(True):
        alpha, b = (np.asarray(a)[:, : len(X)] for a in _standard(double, padded(X)))
    arrays = double.arrays()
    W = arrays["likelihood.output.W1"] * np.sqrt(arrays["hidden.s0"])[:, None, None]
    return alpha, W, b, np.exp(arrays["likelihood.log_noise"])


@jax.jit
@full_precision
def _standard(members: Model, X: Array) -> tuple[Array, Array]:
    def one(m: Model) -> tuple[Array, Array]:
        intercept = m.outputs(X).output.intercept
        return m.hidden.standard(m.features(X)), jnp.broadcast_to(intercept, (len(X), intercept.shape[1]))

    found: tuple[Array, Array] = jax.vmap(one)(members)
    return found
