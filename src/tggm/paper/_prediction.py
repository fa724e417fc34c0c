"""Predictions of fitted models for new rows, on the scale of the model, in blocks of rows."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from tggm.arrays import Floats
from tggm.blas_lock import blas_lock
from tggm.data.standardise import Columns
from tggm.matmul_precision import full_precision
from tggm.paper._data import pad
from tggm.paper._density import ExactJointPredictive, ExactPredictive
from tggm.paper._inference import Inference
from tggm.paper._model import PaperModel
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.gaussian_mixture import GaussianMixture
from tggm.predictive.joint import JointPredictive, MultivariateGaussianMixture
from tggm.training import precision
from tggm.training.rows import bucket

BLOCK = 512  # rows predicted at once
FAR = 1e7  # standard deviations; single precision cannot square larger differences


def member_moments(model: PaperModel, X: Any, inference: Inference, dtype: Any) -> tuple[Floats, Floats]:
    """Return mean and variance of each output under each member, (members, rows, n)."""
    with precision(dtype):
        mean, var = _over_blocks(partial(_variances, model, inference), X)
    return mean, np.maximum(var, np.finfo(dtype).tiny)


def member_scores(
    model: PaperModel, X: Any, inference: Inference, dtype: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return means and standard deviations of the scores of classes, (members, rows, n)."""
    with precision(dtype):
        mean, std = _over_blocks(partial(_scores, model, inference), X)
    return mean.astype(dtype), std.astype(dtype)


def distribution(
    model: PaperModel, X: Floats, inference: Inference, y: Columns
) -> ScalarPredictive | JointPredictive[Any]:
    """Return the predictive distribution, of one output or of several jointly, in the units of the target."""
    double: Any = jax.tree.map(lambda a: np.asarray(a, np.float64), model)
    one = len(y.shift) == 1
    if double.has_exact_density:
        hidden, output = double.hidden, double.output
        located = np.einsum("nd,kmd->knm", X, hidden.W0) + hidden.b0[:, None, :]
        W1, b1, s0, s1 = output.W1, output.b1, hidden.s0, np.exp(output.log_noise)
        if one:
            units = {"loc": float(y.shift[0]), "scale": float(y.scale[0])}
            return ExactPredictive(located, W1[:, 0], b1[:, 0], s0, s1[:, 0], **units)
        density = partial(_joint_log_density, double, X, inference)
        return ExactJointPredictive(
            located, W1, b1, s0, s1, joint_log_density=density, loc=y.shift, scale=y.scale
        )
    with precision("float64"):
        mean, cov = _over_blocks(partial(_covariances, double, inference), X)
    if one:
        units = {"loc": float(y.shift[0]), "scale": float(y.scale[0])}
        return GaussianMixture(mean[:, :, 0], cov[:, :, 0, 0], **units)
    return MultivariateGaussianMixture(mean, cov, loc=y.shift, scale=y.scale)


def _joint_log_density(model: PaperModel, X: Floats, inference: Inference, Y: Floats) -> Floats:
    with precision("float64"):
        (found,) = _over_blocks(partial(_log_densities, model, inference), (X, Y))
    return found


def _over_blocks(function: Callable[[Any], tuple[Array, ...]], X: Any) -> list[Floats]:
    """Apply a compiled function to blocks of rows; every result has the rows as its second axis."""
    count = len(jax.tree.leaves(X)[0])
    size = BLOCK if count > BLOCK else bucket(count)
    parts = []
    with blas_lock():  # inference factorises matrices
        for begin in range(0, count, BLOCK):
            block = jax.tree.map(lambda a, at=slice(begin, begin + BLOCK): a[at], X)
            kept = min(BLOCK, count - begin)
            parts.append([np.asarray(a)[:, :kept] for a in function(pad(block, size))])
    return [np.concatenate(each, axis=1).astype(np.float64) for each in zip(*parts, strict=True)]


@partial(jax.jit, static_argnums=1)
@full_precision
def _variances(model: PaperModel, inference: Inference, X: Any) -> tuple[Array, ...]:
    found: tuple[Array, ...] = jax.vmap(lambda m: m.output.variances(m.latent(X, inference)))(model)
    return found


@partial(jax.jit, static_argnums=1)
@full_precision
def _covariances(model: PaperModel, inference: Inference, X: Any) -> tuple[Array, ...]:
    found: tuple[Array, ...] = jax.vmap(lambda m: m.output.moments(m.latent(X, inference)))(model)
    return found


@partial(jax.jit, static_argnums=1)
@full_precision
def _scores(model: PaperModel, inference: Inference, X: Any) -> tuple[Array, ...]:
    mean, std = jax.vmap(lambda m: m.output.scores(m.latent(X, inference)))(model)
    # only differences matter
    return jnp.maximum(mean - mean.max(-1, keepdims=True), -FAR * std.max(-1, keepdims=True)), std


@partial(jax.jit, static_argnums=1)
@full_precision
def _log_densities(model: PaperModel, inference: Inference, rows: tuple[Array, Array]) -> tuple[Array, ...]:
    X, Y = rows
    found: Array = jax.vmap(lambda m: m.output.by_inference(Y, m.hidden, X, inference))(model)
    return (found,)
