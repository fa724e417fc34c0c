"""The objective of a shallow model with lateral connections."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jax import Array

from tggm.models.lateral import Lateral, lateral_log_likelihood
from tggm.training.objectives import Context, Objective, Rows


@dataclass(frozen=True)
class LateralLikelihood:
    """`meanfield`, `ep`: log p(y | x) with an engine on both sides.

    For mean field a difference of two bounds and no bound itself: it can be raised by a prior that is hard to
    approximate. EP errs too little for that to pay.
    """

    engine: str
    solver: str = "newton"
    n_cycles: int = 10

    def __call__(self, params: Lateral, batch: Rows, context: Context) -> Array:
        """Log-likelihood of each row."""
        from tggm.inference.log_partition import log_partition  # the engines, only when a method needs them

        rows = context.view(batch)
        log_z = partial(log_partition, engine=self.engine, solver=self.solver, n_cycles=self.n_cycles)
        return lateral_log_likelihood(params, rows.X, rows.Y, context.s0, log_z)

    def score(self, params: Lateral, batch: Rows, context: Context) -> Array:
        """The same."""
        return self(params, batch, context)

    def penalty(self, params: Lateral) -> Array:
        """½‖W0‖² + ½‖W1‖² + ½‖V‖²."""
        return params.weight_norm()


LATERAL: dict[str, Callable[..., Objective]] = {
    "meanfield": partial(LateralLikelihood, "mean_field"),
    "ep": partial(LateralLikelihood, "ep"),
}
