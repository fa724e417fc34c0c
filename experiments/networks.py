"""Single networks, taken out of an estimator or drawn for a grid of settings, and rows as they see them."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from tggm import TGGMRegressor
from tggm.models import Architecture, Model
from tggm.training import Rows


def member(estimator: Any, dtype: Any = np.float64) -> Model:
    """The first network of an ensemble."""
    model: Model = jax.tree.map(lambda a: np.asarray(a[0], dtype), estimator.fitted_.model)
    return model


def rows_of(regressor: TGGMRegressor, X: np.ndarray, y: np.ndarray) -> Rows:
    """Inputs and one output on the scale of its networks, in double precision."""
    x_scale, y_scale = regressor.fitted_.scales
    return Rows(x_scale.apply(X), y_scale.apply(y[:, None]))


@partial(jax.jit, static_argnames="method")
def log_densities(method: Any, model: Model, rows: Rows) -> Any:
    """What a method takes for the log-density of each row."""
    return method(model, rows, jnp.zeros(()))


def drawn(
    rng: np.random.Generator, architecture: Architecture, scale: float, **start: ArrayLike | str
) -> Model:
    """Where training may start, with W0 and W1 multiplied by a number; `start` is for `draw`."""
    model = architecture.draw(rng, **start)
    arrays = model.arrays()
    return model.replaced(
        arrays | {name: scale * arrays[name] for name in ("hidden.W0", "likelihood.output.W1")}
    )
