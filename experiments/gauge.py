"""The gauge of the hidden units: what σ0 can and cannot change.

h → c·h, W0 → c·W0, b0 → c·b0, σ0 → c·σ0, W1 → W1/c leaves p(y | x) as it is, whether the output noise is
learned or fixed. So no σ0 is better than another as a model; training is what may differ, because initial
weights, step sizes, weight decay and the clipping of gradients act on W, not on densities. Where those are
carried along, so is the whole course of training.
"""

from functools import cache
from typing import Any

import jax
import numpy as np
import optax
from networks import log_densities
from numpy.typing import ArrayLike

from tggm import TGGMRegressor
from tggm.estimators.recipe import Recipe
from tggm.models import Architecture, Model
from tggm.training import METHODS, Options, Rows
from tggm.training.rows import Blocks
from tggm.training.state import Hyper, Plan

POWERS = {"hidden.W0": 1, "hidden.b0": 1, "hidden.s0": 2, "likelihood.output.W1": -1}  # of c


def rescaled(model: Model, c: float) -> Model:
    """The same densities with c·σ0 in the place of σ0."""
    return model.replaced({name: a * c ** POWERS.get(name, 0) for name, a in model.arrays().items()})


class CarriedRecipe(Recipe):
    """Trains as with σ0 = `reference`, all that starts and moves carried into the σ0 that is given."""

    def __init__(self, found: Recipe, reference: float) -> None:
        super().__init__(found.given, found.rules, found.likelihood)
        self.s0, self._c = reference**2, found.s0**0.5 / reference

    def draw(self, architecture: Architecture, rng: np.random.Generator) -> Model:
        """The start of the reference, in this gauge."""
        return rescaled(super().draw(architecture, rng), self._c)

    def program(self, model: Model, blocks: Blocks, **options: Any) -> tuple[Plan, Hyper, int]:
        """Steps as much larger as the weights are."""
        plan, hyper, epochs = super().program(model, blocks, **options)
        ones = model.replaced(dict.fromkeys(model.arrays(), 1.0))
        steps = np.repeat(jax.tree.leaves(rescaled(ones, self._c)), plan.layout.sizes)
        return plan, hyper._replace(rates=hyper.rates * steps[None, :].astype(self.dtype)), epochs


class CarriedRegressor(TGGMRegressor):
    """A regressor whose training does not depend on its σ0."""

    reference = 1.0  # the σ0 in which it is what its settings say

    def recipe(self) -> Recipe:
        """The settings, and how they are carried."""
        return CarriedRecipe(super().recipe(), self.reference)


@cache  # one object, one compiled program
def _rmsprop(learning_rate: float) -> optax.GradientTransformation:
    return optax.rmsprop(learning_rate, decay=0.95, eps=1e-30, eps_in_sqrt=True)


def fit_in_gauge(model: TGGMRegressor, X: ArrayLike, y: ArrayLike, reference: float) -> TGGMRegressor:
    """Fit as `model` would be fitted with σ0 = `reference`, carried into its own σ0.

    Initial weights are multiplied, and steps too: RMSProp, whose direction does not depend on the scale of a
    gradient, moves W0 and b0 by c and W1 by 1/c times as much. Its ε and the clipping of gradients, which
    would tell one gauge from another, are taken away in every gauge, and double precision is used.
    """
    carried = CarriedRegressor(**model.get_params(deep=False))
    carried.set_params(optimizer=_rmsprop(model.learning_rate), clip=1e30, dtype="float64")
    carried.reference = reference
    return carried.fit(X, y)


def exact_log_densities(model: Model, rows: Rows) -> np.ndarray:
    """Exact log p(y | x) of each row, in double precision."""
    with jax.enable_x64(True):
        double = jax.tree.map(lambda a: np.asarray(a, np.float64), model)
        return np.asarray(log_densities(METHODS["exact"](Options()), double, rows))


def change_of_density(model: Model, rows: Rows, others: list[float]) -> float:
    """The largest change of a log-density when σ0² is changed and the parameters are carried along."""
    here = exact_log_densities(model, rows)
    there = [exact_log_densities(rescaled(model, (s / model.hidden.s0) ** 0.5), rows) for s in others]
    return float(max(np.abs(t - here).max() for t in there))
