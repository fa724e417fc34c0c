"""What each method maximises for regression by a model with several hidden layers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import jax.numpy as jnp
from jax import Array

from tggm.learning.objectives import Context, Objective, Rows
from tggm.models import gaussian_log_density
from tggm.models.deep import Deep, Directed, Undirected
from tggm.models.deep_moments import directed_mean, directed_output_moments
from tggm.models.shallow import LOG_2PI

D = TypeVar("D", Directed, Undirected)


@dataclass(frozen=True)
class DeepObjective:
    """Shared by all methods: the score is the objective, the penalty ½ Σ‖W‖²."""

    def __call__(self, params: Deep, batch: Rows, context: Context) -> Array:
        """Objective of each row."""
        raise NotImplementedError

    def score(self, params: Deep, batch: Rows, context: Context) -> Array:
        """The method's own view of each row."""
        return self(params, batch, context)

    def penalty(self, params: Deep) -> Array:
        """½ Σ‖W‖² over all weights."""
        return params.weight_norm()

    def finish(self, params: Deep, batch: Rows, context: Context) -> Deep:
        """Parameters of the model, when those of training mean something else."""
        return params


@dataclass(frozen=True)
class DirectedMoments(DeepObjective):
    """`moments`: log N(y | E[y|x], Cov[y|x]) with the moments that propagation gives."""

    def __call__(self, params: Directed, batch: Rows, context: Context) -> Array:  # type: ignore[override]  # this form only
        """Log-density of each row."""
        rows = context.view(batch)
        mean, cov = directed_output_moments(params, rows.X, context.s0)
        return gaussian_log_density(rows.Y, mean, cov)


def constant_variance(params: Deep, Y: Array, mean: Array) -> Array:
    """Log N(y | mean, diag(v)), v = exp(log_noise) the same for all rows."""
    log_v = params.log_noise[None, :]
    return -0.5 * ((Y - mean) ** 2 * jnp.exp(-log_v) + log_v + LOG_2PI).sum(-1)


def without_share(params: D, share: Array) -> D:
    """Take the latent variables' mean share of the variance out of v; at least a hundredth of v is left."""
    v = jnp.exp(params.log_noise)
    left: D = params._replace(log_noise=jnp.log(jnp.maximum(v - share, 0.01 * v)))
    return left


@dataclass(frozen=True)
class DirectedBackPropagation(DeepObjective):
    """`bp`: the squared error of E[y|x], as a Gaussian of constant variance."""

    def __call__(self, params: Directed, batch: Rows, context: Context) -> Array:  # type: ignore[override]  # this form only
        """Log-density of each row."""
        rows = context.view(batch)
        return constant_variance(params, rows.Y, directed_mean(params, rows.X, context.s0))

    def finish(self, params: Directed, batch: Rows, context: Context) -> Directed:  # type: ignore[override]  # this form only
        """What is left of v without the latent variables' share is the model's noise."""
        rows = context.view(batch)
        _, cov = directed_output_moments(params, rows.X, context.s0)
        noise = jnp.exp(params.log_noise)
        return without_share(params, jnp.diagonal(cov, axis1=1, axis2=2).mean(0) - noise)


DEEP_METHODS: dict[str, dict[str, Callable[..., Objective]]] = {
    "directed": {"moments": DirectedMoments, "bp": DirectedBackPropagation},
    "undirected": {},
}
