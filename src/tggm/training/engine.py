"""An engine as models ask for it: differences of log Z, moments of linear functions, exact densities.

Mean field bounds the posterior's log Z from below. Subtracting a lower bound of the prior's too makes no
bound: in an undirected deep model the difference grows without limit as the prior gets harder to approximate,
and training finds that out. `prior` says what is done about it:

    guarded      mean field as long as an upper bound is near, that one beyond (`guarded_log_z`)
    same         what treats the posterior treats the prior
    posterior    cycles start from the posterior's means, as the paper advises
    auto         "same" for EP and for cycles, else "guarded"

Engines are imported when they are first asked: a fit by moments needs none of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import TruncatedGaussian
from tggm.models.hidden.base import Hidden
from tggm.models.likelihoods.base import Output
from tggm.models.likelihoods.probit import training_nodes
from tggm.special.probit import Expansion, expand_factorised, expand_probit

PRIORS = ("auto", "guarded", "same", "posterior")
MAX_ITER = 30

SumTerms = tuple[Array, Array, Array]


@dataclass(frozen=True)
class Inference:
    """Mean field or EP, with everything that says how."""

    engine: str  # "mean_field" or "ep"
    solver: str = "newton"
    cycles: Array | int = 10  # of the cyclic solver
    prior: str = "auto"
    factorised: bool = False
    nodes: int = 7  # of the quadrature by which moments propagate through layers

    def gain(self, hidden: Hidden, psi: Any, posterior: TruncatedGaussian) -> Array:
        """Log Z of the posterior less log Z of the prior."""
        start = hidden.start(psi)
        above = self._log_z(posterior, start)
        cycled = None if self.solver == "newton" else lambda: self._cycled(posterior, start)
        return above - self._prior(hidden, psi, start, above, cycled)

    def class_gain(self, hidden: Hidden, psi: Any, output: Output, label: Array) -> Array:
        """Log Z of units and scores given the class, less log Z of the prior."""
        from tggm.inference import class_ep, class_mean_field

        W1, b1 = output.W1, output.b1
        start = hidden.start(psi)
        if self.engine == "ep":
            above = class_ep(hidden.gaussian(psi), W1, b1, label, jnp.int32(MAX_ITER))
            return above - self._prior(hidden, psi, start, above, None)
        begin = lax.stop_gradient(hidden.moments(psi, self).covariance(W1)[0]) if start is None else start
        steps = jnp.int32(MAX_ITER) if self.solver == "newton" else jnp.asarray(self.cycles, jnp.int32)
        above, mean = class_mean_field(
            hidden.gaussian(psi, W1), W1, b1, self._expansion(label), start=begin, steps=steps,
            solver=self.solver,
        )  # fmt: skip
        return above - self._prior(hidden, psi, start, above, lambda: mean)

    def log_density(self, terms: SumTerms, y: Array) -> Array:
        """Exact, by Fourier inversion."""
        from tggm.inference import Sum, log_density

        return log_density(Sum(*terms), y)

    def log_tail(self, terms: SumTerms, y: Array, side: Array) -> Array:
        """Exact, by Fourier inversion."""
        from tggm.inference import Sum, log_tail

        return log_tail(Sum(*terms), y, side)

    def linear_moments(self, tg: TruncatedGaussian, W: Array, start: Array | None) -> tuple[Array, Array]:
        """Means of the last units, and the covariance of W times them."""
        from tggm.inference import linear_moments

        return linear_moments(tg, W, engine=self.engine, start=start)

    def linear_mean(self, tg: TruncatedGaussian, W: Array, start: Array | None) -> Array:
        """W times the means of the last units, by mean field, differentiable."""
        from tggm.inference import linear_mean

        return linear_mean(tg, W, start)

    def _log_z(self, tg: TruncatedGaussian, start: Array | None) -> Array:
        from tggm.inference import log_partition

        return log_partition(
            tg, engine=self.engine, solver=self.solver, n_cycles=self.cycles, max_iter=MAX_ITER, start=start
        )

    def _cycled(self, tg: TruncatedGaussian, start: Array | None) -> Array:
        """Means that the cycles reach."""
        from tggm.inference import cyclic_moments

        reached: Array = cyclic_moments(lax.stop_gradient(tg), start, jnp.asarray(self.cycles)).mean
        return reached

    def _prior(
        self, hidden: Hidden, psi: Any, start: Array | None, above: Array, means: Callable[[], Array] | None
    ) -> Array:
        """Log Z of the prior, computed after `above`; `means` gives those of the posterior."""
        from tggm.blas_lock import sequenced

        if start is None:  # one layer: the prior is as easy as can be
            return self._log_z(hidden.gaussian(psi), None)
        tg = sequenced(hidden.gaussian(psi), above)
        # a prior is near its posterior: Newton's method, whose end does not depend on where it starts, takes
        # one to three steps from there
        if means is not None and (self.prior == "posterior" or self.solver == "newton"):
            start = lax.stop_gradient(means())
        return self._log_z(tg, start)

    def _expansion(self, label: Array) -> Any:
        """S_c and its derivatives: the class's log-probability, or its factorised bound."""

        def expand(eta: Array) -> Expansion:
            found: Expansion
            if self.factorised:
                found = expand_factorised(eta, label, n_steps=6)
            else:
                found = expand_probit(eta, label, n_nodes=training_nodes(eta.shape[1]), n_steps=3)
            return found

        return expand
