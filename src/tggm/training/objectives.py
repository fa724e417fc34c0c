"""What each training method maximises, one number per row.

An objective is a small frozen object: equal objects share one compiled training program. It is called with
the parameters, a batch of rows, and a context that belongs to the ensemble member (its gauge and scaling).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array

from tggm.models import (
    Shallow,
    gaussian_log_density,
    latent_moments,
    locations,
    log_likelihood,
    output_mean,
    output_moments,
)
from tggm.models.shallow import LOG_2PI


class Rows(NamedTuple):
    """Rows of a regression table."""

    X: Array  # (rows, d)
    Y: Array  # (rows, n)


class Scaling(NamedTuple):
    """An affine map of inputs and targets: (X − x_shift) / x_scale, (Y − y_shift) / y_scale."""

    x_shift: Array  # (d,)
    x_scale: Array  # (d,)
    y_shift: Array  # (n,)
    y_scale: Array  # (n,)

    def __call__(self, rows: Rows) -> Rows:
        """Apply the map."""
        X = (rows.X - self.x_shift[None, :]) / self.x_scale[None, :]
        return Rows(X, (rows.Y - self.y_shift[None, :]) / self.y_scale[None, :])


class Context(NamedTuple):
    """What belongs to an ensemble member besides its parameters."""

    s0: Array  # () the gauge σ0²
    scaling: Scaling | None = None  # for members that see one table through different standardisations

    def view(self, rows: Rows) -> Rows:
        """The rows as the member sees them."""
        return rows if self.scaling is None else self.scaling(rows)


class Objective(Protocol):
    """What the training loop needs of a method and a model; hashable, so that it can be a static argument."""

    def __call__(self, params: Any, batch: Any, context: Any) -> Array:
        """Objective of each row, to be maximised."""

    def score(self, params: Any, batch: Any, context: Any) -> Array:
        """Figure of merit of each held-out row; larger is better."""

    def penalty(self, params: Any) -> Array:
        """What weight decay multiplies."""


@dataclass(frozen=True)
class _Regression:
    """Shared by the methods for shallow regression: the score is the objective, the penalty ½‖W‖²."""

    def __call__(self, params: Shallow, batch: Rows, context: Context) -> Array:
        raise NotImplementedError

    def score(self, params: Shallow, batch: Rows, context: Context) -> Array:
        """The method's own view of the log-density of each row."""
        return self(params, batch, context)

    def penalty(self, params: Shallow) -> Array:
        """½‖W0‖² + ½‖W1‖²."""
        return params.weight_norm()

    def finish(self, params: Shallow, batch: Rows, context: Context) -> Shallow:
        """Parameters of the model, when those of training mean something else."""
        return params


@dataclass(frozen=True)
class MomentMatching(_Regression):
    """`moments`: log N(y | E[y|x], Cov[y|x]) with the model's exact mean and covariance."""

    def __call__(self, params: Shallow, batch: Rows, context: Context) -> Array:
        """Log-density of the Gaussian that has the first two moments of p(y | x)."""
        rows = context.view(batch)
        mean, cov = output_moments(params, rows.X, context.s0)
        return gaussian_log_density(rows.Y, mean, cov)


@dataclass(frozen=True)
class BackPropagation(_Regression):
    """`bp`: the squared error of E[y|x], the paper's TGGM-BP, as a Gaussian of constant variance."""

    def __call__(self, params: Shallow, batch: Rows, context: Context) -> Array:
        """Log N(y | E[y|x], diag(v)), v = exp(log_noise) the same for all rows."""
        rows = context.view(batch)
        error = rows.Y - output_mean(params, rows.X, context.s0)
        log_v = params.log_noise[None, :]
        return -0.5 * (error**2 * jnp.exp(-log_v) + log_v + LOG_2PI).sum(-1)

    def finish(self, params: Shallow, batch: Rows, context: Context) -> Shallow:
        """Take the latent variables' average share out of v: what is left is the model's noise.

        Training took v for the whole variance of y given x; the model has Var[W1 h] + s1. At least a
        hundredth of v is left.
        """
        rows = context.view(batch)
        _, variances = latent_moments(params, rows.X, context.s0)
        share = (variances @ (params.W1**2).T).mean(0)
        v = jnp.exp(params.log_noise)
        return params._replace(log_noise=jnp.log(jnp.maximum(v - share, 0.01 * v)))


@dataclass(frozen=True)
class Likelihood(_Regression):
    """`meanfield`, `ep`: log p(y | x) through the log Z of the posterior that an engine finds.

    The gradient of log Z being the engine's moments, following it is the paper's EM with a gradient M-step.
    """

    engine: str
    solver: str = "newton"
    n_cycles: int = 10

    def __call__(self, params: Shallow, batch: Rows, context: Context) -> Array:
        """Log-likelihood of each row: a lower bound for mean field, nearly exact for EP."""
        from tggm.inference.log_partition import log_partition  # the engines, only when a method needs them

        rows = context.view(batch)
        log_z = partial(log_partition, engine=self.engine, solver=self.solver, n_cycles=self.n_cycles)
        return log_likelihood(params, rows.X, rows.Y, context.s0, log_z)


@dataclass(frozen=True)
class ExactDensity(_Regression):
    """`exact`: log p(y | x) of one output by Fourier inversion.

    The density itself, not a difference of two log Z: in float32 nothing large cancels.
    """

    def __call__(self, params: Shallow, batch: Rows, context: Context) -> Array:
        """Log-density of y = b1 + Σ w h + ε, the h independent truncated normals."""
        from tggm.inference.exact.fourier import log_density  # only when the method needs it
        from tggm.inference.exact.saddle import Sum

        rows = context.view(batch)
        sigma0 = jnp.sqrt(context.s0)
        alpha = locations(params, rows.X) / sigma0
        coef = jnp.broadcast_to(sigma0 * params.W1, alpha.shape)
        noise = jnp.broadcast_to(jnp.exp(params.log_noise), alpha.shape[:1])
        return log_density(Sum(alpha, coef, noise), rows.Y[:, 0] - params.b1)


METHODS: dict[str, Callable[..., Objective]] = {
    "bp": BackPropagation,
    "moments": MomentMatching,
    "meanfield": partial(Likelihood, "mean_field"),
    "ep": partial(Likelihood, "ep"),
    "exact": ExactDensity,
}
