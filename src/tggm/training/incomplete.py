"""Objectives for targets that are not all there: missing (NaN) or known to lie beyond a limit.

A missing target leaves its variable out of the row's likelihood; a limit contributes the probability of the
side it tells of. Where the density is taken for a Gaussian with the exact moments (`moments`, `bp`) that is a
Gaussian tail. For the likelihood methods it is the tail of the model's own distribution by Fourier
inversion, exact also where EP or mean field treat the measured rows. Limits are for one output; several at
once, or limits on latent variables, are for `tggm.Graph`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from tggm.models import Shallow, gaussian_log_density, locations, output_mean, output_moments
from tggm.models.shallow import LOG_2PI
from tggm.special import log_ndtr
from tggm.training.objectives import (
    BackPropagation,
    Context,
    ExactDensity,
    Likelihood,
    MomentMatching,
    Objective,
)


class IncompleteRows(NamedTuple):
    """Rows of a regression table some of whose targets are missing or limits."""

    X: Array  # (rows, d)
    Y: Array  # (rows, n), NaN where missing
    side: Array  # (rows, n) 0 measured, 1 at least Y, −1 at most Y


def _split(rows: IncompleteRows) -> tuple[Array, Array, Array]:
    """Targets without NaN, 1 where there is one, and sides."""
    there = ~jnp.isnan(rows.Y)
    return jnp.where(there, rows.Y, 0.0), there.astype(rows.Y.dtype), rows.side


@dataclass(frozen=True)
class IncompleteMoments(MomentMatching):
    """`moments`: the Gaussian with the moments of y given x, restricted to what is known."""

    def __call__(self, params: Shallow, batch: IncompleteRows, context: Context) -> Array:  # type: ignore[override]  # other rows
        """Log-density of the measured targets, log-probability of a limit."""
        Y, there, side = _split(batch)
        mean, cov = output_moments(params, batch.X, context.s0)
        if Y.shape[1] == 1:
            deviation = jnp.sqrt(cov[:, :, 0])
            measured = gaussian_log_density(Y, mean, cov)
            limit = log_ndtr(side * (mean - Y) / deviation)[:, 0]
            return there[:, 0] * jnp.where(side[:, 0] == 0, measured, limit)
        # what is missing becomes standard normal and is measured at 0: it adds −½ log 2π, taken back
        pairs = there[:, :, None] * there[:, None, :]
        cov = cov * pairs + jnp.eye(Y.shape[1], dtype=Y.dtype)[None] * (1 - there)[:, :, None]
        value = gaussian_log_density(Y * there, mean * there, cov)
        return value + 0.5 * LOG_2PI * (1 - there).sum(1)


@dataclass(frozen=True)
class IncompleteSquares(BackPropagation):
    """`bp`: a Gaussian of constant variance for each output by itself."""

    def __call__(self, params: Shallow, batch: IncompleteRows, context: Context) -> Array:  # type: ignore[override]  # other rows
        """Log-density of the measured targets, log-probability of limits."""
        Y, there, side = _split(batch)
        log_v = params.log_noise[None, :]
        z = (output_mean(params, batch.X, context.s0) - Y) * jnp.exp(-0.5 * log_v)
        measured = -0.5 * (z**2 + log_v + LOG_2PI)
        return (there * jnp.where(side == 0, measured, log_ndtr(side * z))).sum(1)


def _log_tail(params: Shallow, batch: IncompleteRows, context: Context) -> Array:
    """Exact log-probability of each row's limit, for one output."""
    from tggm.inference.exact.saddle import Sum  # only when a method needs it
    from tggm.inference.exact.survival import log_tail

    sigma0 = jnp.sqrt(context.s0)
    alpha = locations(params, batch.X) / sigma0
    coef = jnp.broadcast_to(sigma0 * params.W1, alpha.shape)
    noise = jnp.broadcast_to(jnp.exp(params.log_noise), alpha.shape[:1])
    return log_tail(Sum(alpha, coef, noise), batch.Y[:, 0] - params.b1, batch.side[:, 0])


@dataclass(frozen=True)
class IncompleteLikelihood(Likelihood):
    """`meanfield`, `ep`: a row's posterior is that of its measured targets."""

    def __call__(self, params: Shallow, batch: IncompleteRows, context: Context) -> Array:  # type: ignore[override]  # other rows
        """Log-likelihood of each row."""
        Y, there, side = _split(batch)
        if Y.shape[1] == 1:
            known = batch._replace(Y=Y)
            measured = super().__call__(params, known, context)  # type: ignore[arg-type]  # has X and Y
            limit = _log_tail(params, known, context)
            return there[:, 0] * jnp.where(side[:, 0] == 0, measured, limit)
        like = super().__call__

        def row(x: Array, y: Array, o: Array) -> Array:
            # an output without weights or residual adds its normaliser only, which is taken back
            part = params._replace(W1=params.W1 * o[:, None])
            y = jnp.where(o > 0, y, params.b1)
            whole = IncompleteRows(x[None], y[None], y[None])
            one = like(part, whole, context)  # type: ignore[arg-type]  # has X and Y, as Rows have
            return one[0] + 0.5 * ((1 - o) * (params.log_noise + LOG_2PI)).sum()

        out: Array = jax.vmap(row)(batch.X, Y, there)
        return out


@dataclass(frozen=True)
class IncompleteExact(ExactDensity):
    """`exact`: density and tail of one output by Fourier inversion."""

    def __call__(self, params: Shallow, batch: IncompleteRows, context: Context) -> Array:  # type: ignore[override]  # other rows
        """Log-density of a measured target, log-probability of a limit."""
        measured = super().__call__(params, batch, context)  # type: ignore[arg-type]  # has X and Y
        return jnp.where(batch.side[:, 0] == 0, measured, _log_tail(params, batch, context))


INCOMPLETE: dict[str, Callable[..., Objective]] = {
    "bp": IncompleteSquares,
    "moments": IncompleteMoments,
    "meanfield": partial(IncompleteLikelihood, "mean_field"),
    "ep": partial(IncompleteLikelihood, "ep"),
    "exact": IncompleteExact,
}
