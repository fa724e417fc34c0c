"""What each method maximises for classification by a model with several hidden layers."""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from tggm.models.deep import Deep, Directed, Undirected
from tggm.models.deep_moments import directed_class_moments, directed_mean
from tggm.special.probit import log_probit
from tggm.special.probit_bound import Expansion, exact, factorised
from tggm.training.classification import ClassContext, Labelled, training_nodes
from tggm.training.objectives import Objective


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


def _expansion(label: Array, factorised_: bool) -> Callable[[Array], Expansion]:
    """S_c and its derivatives: the class's log-probability, or its factorised bound."""

    def expand(eta: Array) -> Expansion:
        found: Expansion
        if factorised_:
            found = factorised(eta, label, n_steps=6)
        else:
            found = exact(eta, label, n_nodes=training_nodes(eta.shape[1]), n_steps=3)
        return found

    return expand


@dataclass(frozen=True)
class DirectedProbitMeanField(DeepClassification):
    """`meanfield`: the joint bound of q(h) q(z) on log p(class | x), a true lower bound."""

    factorised: bool = False

    def __call__(self, params: Directed, batch: Labelled, context: ClassContext) -> Array:  # type: ignore[override]  # this form only
        """The bound of each row."""
        from tggm.models.directed_bound import directed_class_bound

        expand = _expansion(batch.label, self.factorised)
        return directed_class_bound(params, batch.X, context.s0, expand, jnp.int32(20))

    def score(self, params: Directed, batch: Labelled, context: ClassContext) -> Array:  # type: ignore[override]  # this form only
        """Log-probability of each row's class as it is predicted."""
        return DirectedProbitMoments()(params, batch, context)


@dataclass(frozen=True)
class _UndirectedProbit(DeepClassification):
    """Methods for undirected models: held-out rows are judged by what is predicted."""

    engine: str = "mean_field"

    def score(self, params: Undirected, batch: Labelled, context: ClassContext) -> Array:  # type: ignore[override]  # this form only
        """Log-probability of each row's class as it is predicted."""
        from tggm.models.undirected_moments import undirected_class_moments

        mean, std = undirected_class_moments(params, batch.X, context.s0, self.engine)
        return log_probit(mean, std, batch.label, n_nodes=training_nodes(mean.shape[1]), n_steps=3)


@dataclass(frozen=True)
class UndirectedProbitMeanField(_UndirectedProbit):
    """`meanfield`: the bound on log Z of h and z given the class, less the prior's log Z."""

    solver: str = "newton"
    factorised: bool = False
    prior: str = "guarded"

    def __call__(self, params: Undirected, batch: Labelled, context: ClassContext) -> Array:  # type: ignore[override]  # this form only
        """The objective of each row; a lower bound on log p(class | x) with the prior's upper bound."""
        from tggm.models.undirected_class import undirected_class_bound
        from tggm.training.deep_prior import MAX_ITER, prior_log_z

        expand = _expansion(batch.label, self.factorised)
        cycles = jnp.round(context.n_cycles).astype(jnp.int32)
        steps = jnp.int32(MAX_ITER) if self.solver == "newton" else cycles
        above, mean = undirected_class_bound(params, batch.X, context.s0, expand, steps, self.solver)
        below = prior_log_z(
            params, batch.X, context.s0, prior=self.prior, engine="mean_field", solver=self.solver,
            n_cycles=cycles, posterior_mean=mean, after=above,
        )  # fmt: skip
        return above - below


@dataclass(frozen=True)
class UndirectedProbitEP(_UndirectedProbit):
    """`ep`: log p(class | x) by expectation propagation over all layers and z, and over the prior."""

    engine: str = "ep"
    prior: str = "same"

    def __call__(self, params: Undirected, batch: Labelled, context: ClassContext) -> Array:  # type: ignore[override]  # this form only
        """EP's estimate for each row."""
        from tggm.models.undirected_ep import undirected_class_ep
        from tggm.training.deep_prior import MAX_ITER, prior_log_z

        above = undirected_class_ep(params, batch.X, batch.label, context.s0, jnp.int32(MAX_ITER))
        below = prior_log_z(
            params, batch.X, context.s0, prior=self.prior, engine="ep", solver="newton",
            n_cycles=jnp.int32(0), after=above,
        )  # fmt: skip
        return above - below


@dataclass(frozen=True)
class UndirectedProbitBackPropagation(_UndirectedProbit):
    """`bp`: the cross-entropy of E[z | x] by mean field on the prior, with its unit noise only."""

    def __call__(self, params: Undirected, batch: Labelled, context: ClassContext) -> Array:  # type: ignore[override]  # this form only
        """Log-probability of each row's class under unit noise around E[z | x]."""
        from tggm.models.undirected_moments import undirected_mean

        mean = undirected_mean(params, batch.X, context.s0)
        n_nodes = training_nodes(mean.shape[1])
        return log_probit(mean, jnp.ones_like(mean), batch.label, n_nodes=n_nodes, n_steps=3)


DEEP_CLASS_METHODS: dict[str, dict[str, Callable[..., Objective]]] = {
    "directed": {
        "moments": DirectedProbitMoments,
        "bp": DirectedProbitBackPropagation,
        "meanfield": DirectedProbitMeanField,
    },
    "undirected": {
        "meanfield": UndirectedProbitMeanField,
        "ep": UndirectedProbitEP,
        "bp": UndirectedProbitBackPropagation,
    },
}
