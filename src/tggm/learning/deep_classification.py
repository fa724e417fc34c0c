"""What each method maximises for classification by a model with several hidden layers."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from tggm.learning.classification import ClassContext, Labelled, training_nodes
from tggm.learning.objectives import Objective
from tggm.models.deep import Deep, Directed
from tggm.models.deep_moments import directed_class_moments, directed_mean
from tggm.special.probit import log_probit


@dataclass(frozen=True)
class DeepClassification:
    """Shared by all methods: the score is the objective, the penalty ½ Σ‖W‖²."""

    def __call__(self, params: Deep, batch: Labelled, context: ClassContext) -> Array:
        """Objective of each row."""
        raise NotImplementedError

    def score(self, params: Deep, batch: Labelled, context: ClassContext) -> Array:
        """The method's own view of the log-probability of each row's class."""
        return self(params, batch, context)

    def penalty(self, params: Deep) -> Array:
        """½ Σ‖W‖² over all weights."""
        return params.weight_norm()


@dataclass(frozen=True)
class DirectedProbitMoments(DeepClassification):
    """`moments`: log P(class | x) with the moments of z that propagation gives."""

    def __call__(self, params: Directed, batch: Labelled, context: ClassContext) -> Array:  # type: ignore[override]  # this form only
        """Log-probability of each row's class."""
        mean, std = directed_class_moments(params, batch.X, context.s0)
        return log_probit(mean, std, batch.label, n_nodes=training_nodes(mean.shape[1]), n_steps=3)


@dataclass(frozen=True)
class DirectedProbitBackPropagation(DeepClassification):
    """`bp`: the cross-entropy of E[z | x], as though z had no variance but its unit noise."""

    def __call__(self, params: Directed, batch: Labelled, context: ClassContext) -> Array:  # type: ignore[override]  # this form only
        """Log-probability of each row's class under unit noise around E[z | x]."""
        mean = directed_mean(params, batch.X, context.s0)
        n_nodes = training_nodes(mean.shape[1])
        return log_probit(mean, jnp.ones_like(mean), batch.label, n_nodes=n_nodes, n_steps=3)


DEEP_CLASS_METHODS: dict[str, dict[str, Callable[..., Objective]]] = {
    "directed": {"moments": DirectedProbitMoments, "bp": DirectedProbitBackPropagation},
    "undirected": {},
}
