"""What each training method for classes maximises, one number per row; see `tggm.training.objectives`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from tggm.models import Shallow
from tggm.models.probit import class_mean, class_moments
from tggm.models.probit_ep import class_log_likelihood_ep
from tggm.models.probit_posterior import class_bound
from tggm.special.probit import log_probit
from tggm.special.probit_bound import Expansion, exact, factorised
from tggm.training.objectives import Objective


class Labelled(NamedTuple):
    """Rows of a classification table."""

    X: Any  # (rows, d), or SparseRows
    label: Array  # (rows,) int32


class ClassContext(NamedTuple):
    """What belongs to an ensemble member besides its parameters."""

    s0: Array  # () the gauge σ0²
    n_cycles: Array  # () cycles of the cyclic solver
    last_cycles: Array  # () what they fall to in the course of training

    def at(self, progress: Array) -> "ClassContext":
        """The context when a part `progress` of training, 0 to 1, is done: cycles fall evenly."""
        return self._replace(n_cycles=self.n_cycles + progress * (self.last_cycles - self.n_cycles))


def training_nodes(n_classes: int) -> int:
    """Nodes of the probit integral in training: errors far below the noise of a mini-batch (1e-4 nats)."""
    return int(-(-(8 + 2.5 * n_classes**0.5) // 4)) * 4


@dataclass(frozen=True)
class _Classification:
    """Shared by the methods: the score is the objective, the penalty ½‖W‖²."""

    def __call__(self, params: Shallow, batch: Labelled, context: ClassContext) -> Array:
        raise NotImplementedError

    def score(self, params: Shallow, batch: Labelled, context: ClassContext) -> Array:
        """The method's own view of the log-probability of each row's class."""
        return self(params, batch, context)

    def penalty(self, params: Shallow) -> Array:
        """½‖W0‖² + ½‖W1‖²."""
        return params.weight_norm()


@dataclass(frozen=True)
class ProbitMoments(_Classification):
    """`moments`: log P(class | x) with h integrated out through the exact moments of z given x."""

    def __call__(self, params: Shallow, batch: Labelled, context: ClassContext) -> Array:
        """Log-probability of each row's class."""
        mean, std = class_moments(params, batch.X, context.s0)
        return log_probit(mean, std, batch.label, n_nodes=training_nodes(mean.shape[1]), n_steps=3)


@dataclass(frozen=True)
class _Likelihood(_Classification):
    """Methods whose objective is an approximate likelihood: held-out rows are judged by what is predicted."""

    def score(self, params: Shallow, batch: Labelled, context: ClassContext) -> Array:
        """Log-probability of each row's class as `predict_proba` gives it."""
        return ProbitMoments()(params, batch, context)


@dataclass(frozen=True)
class ProbitBackPropagation(_Classification):
    """`bp`: the cross-entropy of E[z | x], as though h had no variance: the paper's TGGM-BP."""

    def __call__(self, params: Shallow, batch: Labelled, context: ClassContext) -> Array:
        """Log-probability of each row's class under unit noise around E[z | x]."""
        mean = class_mean(params, batch.X, context.s0)
        n_nodes = training_nodes(mean.shape[1])
        return log_probit(mean, jnp.ones_like(mean), batch.label, n_nodes=n_nodes, n_steps=3)


@dataclass(frozen=True)
class ProbitMeanField(_Likelihood):
    """`meanfield`: the joint bound of q(h) q(z) on log p(class | x), the paper's TGGM-ML.

    Following its gradient is EM with a gradient M-step. `factorised` splits q(z) further, as the paper's
    supplement does; the cyclic solver visits one latent variable after the other, as often as the context
    says.
    """

    factorised: bool = False
    solver: str = "newton"

    def __call__(self, params: Shallow, batch: Labelled, context: ClassContext) -> Array:
        """The bound of each row at the best q (or the q that the cycles reach)."""

        def expand(eta: Array) -> Expansion:
            found: Expansion
            if self.factorised:
                found = factorised(eta, batch.label, n_steps=6)
            else:
                found = exact(eta, batch.label, n_nodes=training_nodes(eta.shape[1]), n_steps=3)
            return found

        steps = jnp.int32(30) if self.solver == "newton" else jnp.round(context.n_cycles).astype(jnp.int32)
        return class_bound(params, batch.X, context.s0, expand, steps, cyclic=self.solver == "cyclic")


@dataclass(frozen=True)
class ProbitEP(_Likelihood):
    """`ep`: log p(class | x) by expectation propagation over h and z together."""

    def __call__(self, params: Shallow, batch: Labelled, context: ClassContext) -> Array:
        """EP's estimate for each row."""
        return class_log_likelihood_ep(params, batch.X, batch.label, context.s0, jnp.int32(30))


CLASS_METHODS: dict[str, Callable[..., Objective]] = {
    "bp": ProbitBackPropagation,
    "moments": ProbitMoments,
    "meanfield": ProbitMeanField,
    "ep": ProbitEP,
}
