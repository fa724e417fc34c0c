"""What each method maximises for regression by a model with several hidden layers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.models import gaussian_log_density
from tggm.models.deep import Deep, Directed, Undirected
from tggm.models.deep_moments import directed_mean, directed_output_moments
from tggm.models.shallow import LOG_2PI
from tggm.training.objectives import Context, Objective, Rows

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


@dataclass(frozen=True)
class DirectedMeanField(DeepObjective):
    """`meanfield`: the mean-field bound on log p(y | x), a true lower bound; following it is EM."""

    def __call__(self, params: Directed, batch: Rows, context: Context) -> Array:  # type: ignore[override]  # this form only
        """The bound of each row."""
        from tggm.models.directed_bound import directed_bound  # the engines, only when a method needs them

        rows = context.view(batch)
        return directed_bound(params, rows.X, rows.Y, context.s0, jnp.int32(20))

    def score(self, params: Directed, batch: Rows, context: Context) -> Array:  # type: ignore[override]  # this form only
        """Log-density of each row as it is predicted."""
        return DirectedMoments()(params, batch, context)


@dataclass(frozen=True)
class UndirectedLikelihood(DeepObjective):
    """`meanfield`, `ep`: log p(y | x) through log Z of the posterior and of the prior."""

    engine: str
    solver: str = "newton"
    n_cycles: int = 10
    prior: str = "guarded"

    def __call__(self, params: Undirected, batch: Rows, context: Context) -> Array:  # type: ignore[override]  # this form only
        """Log-likelihood of each row; a lower bound for mean field with the prior's upper bound."""
        from tggm.inference.ep.layered import layered_ep
        from tggm.inference.factor_bound import mean_field_log_z
        from tggm.inference.log_partition import log_partition
        from tggm.inference.mean_field.engine import cyclic_moments
        from tggm.models.deep_energy import deep_posterior, output_constant
        from tggm.models.directed_bound import forward_means
        from tggm.training.deep_prior import MAX_ITER, prior_log_z

        rows, s0 = context.view(batch), context.s0
        tg = deep_posterior(params, rows.X, rows.Y, s0)
        start = forward_means(lax.stop_gradient(params), rows.X, s0)
        cycles = jnp.int32(self.n_cycles)
        begin = None
        if self.prior == "posterior" and self.solver == "cyclic":
            fixed = jax.tree.map(lax.stop_gradient, tg)
            begin = lax.stop_gradient(cyclic_moments(fixed, start, cycles).mean)
        if self.engine == "ep":
            above = layered_ep(tg, jnp.int32(MAX_ITER))
        elif self.solver == "newton":
            above = mean_field_log_z(tg, start, jnp.int32(MAX_ITER))
        else:
            above = log_partition(tg, engine="mean_field", solver="cyclic", n_cycles=cycles, start=start)
        below = prior_log_z(
            params, rows.X, s0, prior=self.prior, engine=self.engine, solver=self.solver, n_cycles=cycles,
            posterior_mean=begin, after=above,
        )  # fmt: skip
        return above - below - output_constant(params, rows.Y)

    def score(self, params: Undirected, batch: Rows, context: Context) -> Array:  # type: ignore[override]  # this form only
        """Log-density of each row as it is predicted."""
        from tggm.models.undirected_moments import undirected_output_moments

        rows = context.view(batch)
        mean, cov = undirected_output_moments(params, rows.X, context.s0, self.engine)
        return gaussian_log_density(rows.Y, mean, cov)


@dataclass(frozen=True)
class UndirectedBackPropagation(DeepObjective):
    """`bp`: the squared error of E[y|x] by mean field on the prior, as a Gaussian of constant variance."""

    def __call__(self, params: Undirected, batch: Rows, context: Context) -> Array:  # type: ignore[override]  # this form only
        """Log-density of each row."""
        from tggm.models.undirected_moments import undirected_mean

        rows = context.view(batch)
        return constant_variance(params, rows.Y, undirected_mean(params, rows.X, context.s0))

    def finish(self, params: Undirected, batch: Rows, context: Context) -> Undirected:  # type: ignore[override]  # this form only
        """What is left of v without the latent variables' share is the model's noise."""
        from tggm.models.undirected_moments import undirected_output_moments

        rows = context.view(batch)
        _, cov = undirected_output_moments(params, rows.X, context.s0)
        noise = jnp.exp(params.log_noise)
        return without_share(params, jnp.diagonal(cov, axis1=1, axis2=2).mean(0) - noise)


DEEP_METHODS: dict[str, dict[str, Callable[..., Objective]]] = {
    "directed": {
        "moments": DirectedMoments,
        "bp": DirectedBackPropagation,
        "meanfield": DirectedMeanField,
    },
    "undirected": {
        "meanfield": partial(UndirectedLikelihood, "mean_field"),
        "ep": partial(UndirectedLikelihood, "ep"),
        "bp": UndirectedBackPropagation,
    },
}
