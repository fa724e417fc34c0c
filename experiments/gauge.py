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
from numpy.typing import ArrayLike

from tggm import TGGMRegressor
from tggm.models import Shallow
from tggm.training import METHODS, Context, Rows


def rescaled(params: Shallow, c: float) -> Shallow:
    """Parameters whose densities with c·σ0 are those of `params` with σ0."""
    return params._replace(W0=params.W0 * c, b0=params.b0 * c, W1=params.W1 / c)


@cache  # one object, one compiled program
def _rmsprop(learning_rate: float) -> optax.GradientTransformation:
    return optax.rmsprop(learning_rate, decay=0.95, eps=1e-30, eps_in_sqrt=True)


def fit_in_gauge(model: TGGMRegressor, X: ArrayLike, y: ArrayLike, reference: float) -> TGGMRegressor:
    """Fit as `model` would be fitted with σ0 = `reference`, carried into its own σ0.

    Initial weights are multiplied, and steps too: RMSProp, whose direction does not depend on the scale of a
    gradient, moves W0 and b0 by c and W1 by 1/c times as much. Its ε and the clipping of gradients, which
    would tell one gauge from another, are taken away in every gauge, and double precision is used.
    """
    c = float(model.sigma0) / reference
    model.set_params(optimizer=_rmsprop(model.learning_rate), clip=1e30, dtype="float64")
    inner = model._work

    def work(*arguments: Any) -> Any:
        found = inner(*arguments)
        rates = rescaled(found.rates, c)
        return found._replace(params=rescaled(found.params, c), rates=rates)

    model._work = work  # type: ignore[method-assign]  # on this object only
    return model.fit(X, y)


def log_densities(params: Shallow, X: ArrayLike, y: ArrayLike, s0: float) -> np.ndarray:
    """Exact log p(y | x) of each row, in double precision."""
    with jax.enable_x64(True):
        rows = Rows(np.asarray(X, float), np.asarray(y, float)[:, None])
        params = jax.tree.map(lambda a: np.asarray(a, float), params)
        return np.asarray(METHODS["exact"]()(params, rows, Context(np.float64(s0))))


def change_of_density(params: Shallow, X: ArrayLike, y: ArrayLike, s0: float, others: list[float]) -> float:
    """The largest change of a log-density when σ0² is changed and the parameters are carried along."""
    here = log_densities(params, X, y, s0)
    there = [log_densities(rescaled(params, (s / s0) ** 0.5), X, y, s) for s in others]
    return float(max(np.abs(t - here).max() for t in there))
