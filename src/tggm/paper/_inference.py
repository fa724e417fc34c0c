"""Inference of the hidden units: differences of log Z, moments, exact densities.

Mean field bounds the posterior's log Z from below. In an undirected deep model log Z of the prior is
approximated, too, and their difference is not a bound. `prior` says where the prior's mean field starts:

    same         from the same means as the posterior's
    posterior    from the posterior's means, as the paper advises; it matters for a few cycles only
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array, lax

from tggm.blas_lock import sequenced
from tggm.gaussian import TruncatedGaussian
from tggm.inference import (
    class_ep,
    class_mean_field,
    cyclic_moments,
    log_partition,
)
from tggm.models.layers import training_nodes
from tggm.special.probit import Expansion, expand_factorised, expand_probit

MAX_ITER = 30  # Newton steps or EP sweeps of a training step


@dataclass(frozen=True)
class Inference:
    """Mean field or EP with its options; hashable as long as `cycles` is a number."""

    engine: str  # "mean_field" or "ep"
    solver: str = "newton"  # of mean field; "cyclic" is the paper's Algorithm 1
    cycles: Array | int = 10  # of the cyclic solver
    prior: str = "same"
    factorised: bool = False  # whether q(z) of a class is a product over classes, as in the supplement

    def evidence(self, prior: TruncatedGaussian, posterior: TruncatedGaussian, start: Array | None) -> Array:
        """Return log Z of the posterior minus log Z of the prior; `start` is None for one layer."""
        value = self._log_z(posterior, start)
        means = None
        if start is not None and self.solver == "cyclic" and self.prior == "posterior":
            means = cyclic_moments(lax.stop_gradient(posterior), start, jnp.asarray(self.cycles)).mean
        return value - self._prior_log_z(prior, value, start, means)

    def class_evidence(
        self, prior: TruncatedGaussian, joint: TruncatedGaussian, W1: Array, b1: Array, label: Array,
        start: Array | None, begin: Array,
    ) -> Array:  # fmt: skip
        """Return log Z of units and scores given the class, minus log Z of the prior.

        `joint` is the prior with W1ᵀW1 added to the precision of its last units; `begin` holds means from
        which mean field starts.
        """
        if self.engine == "ep":
            value = class_ep(prior, W1, b1, label, jnp.int32(MAX_ITER))
            return value - self._prior_log_z(prior, value, start, None)
        steps = jnp.int32(MAX_ITER) if self.solver == "newton" else jnp.asarray(self.cycles, jnp.int32)
        expand = self._expansion(label)
        value, mean = class_mean_field(joint, W1, b1, expand, start=begin, steps=steps, solver=self.solver)
        near = self.solver == "newton" or self.prior == "posterior"  # Newton's answer depends on no start
        return value - self._prior_log_z(prior, value, start, mean if near else None)

    def _log_z(self, tg: TruncatedGaussian, start: Array | None) -> Array:
        return log_partition(
            tg, engine=self.engine, solver=self.solver, n_cycles=self.cycles, max_iter=MAX_ITER, start=start
        )

    def _prior_log_z(
        self, prior: TruncatedGaussian, after: Array, start: Array | None, means: Array | None
    ) -> Array:
        """Return log Z of the prior, computed after `after`, from `means` where they are given."""
        if start is None:  # one layer: independent units, in closed form
            return self._log_z(prior, None)
        return self._log_z(sequenced(prior, after), start if means is None else lax.stop_gradient(means))

    def _expansion(self, label: Array) -> Callable[[Array], Expansion]:
        """Return the function η → S_c and its derivatives: log-probability of the class, or its bound."""
        if self.factorised:
            return lambda eta: expand_factorised(eta, label, n_steps=6)
        return lambda eta: expand_probit(eta, label, n_nodes=training_nodes(eta.shape[1]), n_steps=3)
