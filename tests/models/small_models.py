"""Random models of every kind for the tests."""

import jax
import jax.numpy as jnp
import numpy as np
from tggm.training.engine import Inference

from tggm.models import Architecture, Model

S0 = 0.7
EP, MEAN_FIELD = Inference("ep"), Inference("mean_field")


def random_model(rng, d=3, m=4, n=2, *, likelihood="gaussian", s0=S0, noise=None) -> Model:
    """One layer, every weight and bias N(0, 1); so is log s1 unless the noise is given."""
    empty = Architecture(d, (m,), n, likelihood).template(1)
    given = {"hidden.s0": np.asarray(s0)}
    if noise is not None:
        given["likelihood.log_noise"] = np.full(n, np.log(noise))
    shapes = {name: a.shape[1:] for name, a in empty.arrays().items() if name not in given}
    drawn = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    return empty.replaced({name: jnp.asarray(a) for name, a in (drawn | given).items()})


def drawn_model(
    rng, layers, n=2, *, likelihood="gaussian", form="shallow", lateral=0, d=3, units="relu"
) -> Model:
    """Where training starts, noise 0.3, but with biases between the layers and strong lateral weights."""
    model = Architecture(d, layers, n, likelihood, form, lateral, units=units).draw(rng, s0=S0, noise=0.3)
    arrays = model.arrays()
    for name in arrays:
        if name.startswith("hidden.b."):
            arrays[name] = 0.5 * rng.standard_normal(arrays[name].shape)
    if lateral:
        arrays["hidden.V"] = rng.standard_normal(arrays["hidden.V"].shape)
    return jax.tree.map(jnp.asarray, model.replaced(arrays))


def changed(model, arrays):
    """The model with some of its arrays replaced, by their names."""
    return model.replaced(model.arrays() | {name: jnp.asarray(a) for name, a in arrays.items()})


def with_members(model):
    """The model as an ensemble of one, in NumPy arrays."""
    return jax.tree.map(lambda a: np.asarray(a)[None], model)


def numbers(model, *names):
    """Some of the arrays by the last part of their names, as NumPy arrays."""
    arrays = {name.rpartition(".")[2]: np.asarray(a) for name, a in model.arrays().items()}
    return [arrays[name] for name in names]


def gaussian(model, *given):
    """The truncated Gaussian of the units, given rows and what outputs say."""
    return jax.jit(lambda hidden, *given: hidden.gaussian(*given))(model.hidden, *given)


def exponents(tg, H):
    """−½ hᵀPh + γᵀh of the first row at several h."""
    P, gamma = map(np.asarray, jax.jit(lambda tg: (tg.precision.dense(), tg.shift[0]))(tg))
    return -0.5 * np.einsum("bi,ij,bj->b", H, P, H) + H @ gamma
