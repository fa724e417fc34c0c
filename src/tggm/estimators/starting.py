"""Where an estimator starts: parameters of the right kind and shape, and the options of its objective."""

from itertools import pairwise
from typing import Any

import jax
import numpy as np

from tggm.estimators import settings
from tggm.models import Shallow, initial_parameters
from tggm.models.deep import FORMS, initial_deep
from tggm.models.lateral import connected, lateral_rank


def sizes_of(model: Any, n_inputs: int, n_outputs: int) -> tuple[int, ...]:
    """Numbers of inputs, of units in each hidden layer, and of outputs."""
    return (n_inputs, *settings.layers(model.hidden), n_outputs)


def drawn(model: Any, sizes: tuple[int, ...], noise: Any, rng: np.random.Generator) -> Any:
    """Parameters of all members, stacked, in the dtype of the model."""
    options: dict[str, Any] = {"s0": float(model.sigma0) ** 2, "noise": noise, "init": model.init}
    rank = getattr(model, "lateral", 0)

    def one() -> Any:
        if len(sizes) > 3:
            return initial_deep(rng, sizes, form=model.deep, **options)
        return connected(initial_parameters(rng, (sizes[0], sizes[1], sizes[2]), **options), rank, rng)

    return model._stack([one() for _ in range(model.n_members)])


def fits(model: Any, params: Any, sizes: tuple[int, ...]) -> bool:
    """Whether stored parameters are those of a model of this form and these sizes."""
    K, between = model.n_members, getattr(params, "W", ())
    if params is None or lateral_rank(params) != getattr(model, "lateral", 0):
        return False
    if isinstance(params, tuple(FORMS.values())) != (len(sizes) > 3):
        return False
    if len(sizes) > 3 and not isinstance(params, FORMS[model.deep]):
        return False
    found = [tuple(w.shape) for w in (params.W0, *between, params.W1)]
    return found == [(K, above, below) for below, above in pairwise(sizes)]


def require_fitting(model: Any, sizes: tuple[int, ...]) -> None:
    """Raise where `partial_fit` should go on with parameters of another form, size or precision."""
    same = model._params.W0.dtype == np.dtype(model.dtype) and model._sigma0 == model.sigma0
    if not same or not fits(model, model._params, sizes):
        raise ValueError(
            "`hidden`, `deep`, `n_members`, `sigma0` and `dtype` must stay what they were when the model was "
            f"first fitted (weights of shape {model._params.W0.shape}, {model._params.W0.dtype}, σ0 = "
            f"{model._sigma0:g}); use `fit`, or a clone."
        )


def rates_of(params: Any, noise: float) -> Any:
    """Multipliers of the steps: 1 for everything but the noise."""
    if isinstance(params, Shallow):
        return Shallow(1.0, 1.0, 1.0, 1.0, noise)  # type: ignore[arg-type]  # one number for each leaf
    ones: Any = jax.tree.map(lambda _: 1.0, params)
    return ones._replace(log_noise=noise)


def method_options(model: Any, **own: Any) -> dict[str, Any]:
    """Arguments of the objective: its solver, and how the prior of an undirected model is treated."""
    if len(settings.layers(model.hidden)) == 1:
        return {"solver": model.solver, **own} if model.method == "meanfield" else {}
    if model.deep == "directed":
        factorised = own.get("factorised")
        return {"factorised": factorised} if model.method == "meanfield" and factorised is not None else {}
    prior = model.prior
    if prior == "auto":
        prior = "same" if model.method == "ep" or model.solver == "cyclic" else "guarded"
    if model.method == "meanfield":
        return {"solver": model.solver, "prior": prior, **own}
    return {"prior": prior} if model.method == "ep" else {}
