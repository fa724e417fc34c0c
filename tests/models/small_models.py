"""Small random models, and textbook moments of truncated normals."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from tggm.models import Gaussian, Identity, Model, Network
from tggm.models.network import LogDensity
from tggm.training import Rows

S0 = 0.7


def random_model(rng, d=3, m=4, n=2, *, likelihood=Gaussian) -> Model:
    """Return a model of one layer: weights, biases and log s1 are N(0, 1)."""
    empty = Network((m,), features=Identity, likelihood=likelihood, linear=False).draw(rng, d, n)
    drawn = {name: rng.standard_normal(a.shape[1:]) for name, a in empty.arrays().items()}
    drawn["hidden.s0"] = np.asarray(S0)
    return empty.replaced({name: jnp.asarray(a) for name, a in drawn.items()})


def drawn_model(rng, units, n=2, *, d=3, features=Identity, linear=False, **parts) -> Model:
    """Return a model at the start of training, with noise 0.3 and random biases between the layers."""
    model = Network(units, features, linear=linear, **parts).draw(rng, d, n, s0=S0)
    arrays = {name: a[0] for name, a in model.arrays().items()}
    for name, a in arrays.items():
        if name.startswith("hidden.b."):
            arrays[name] = 0.5 * rng.standard_normal(a.shape)
        if name == "likelihood.log_noise":
            arrays[name] = np.full(n, np.log(0.3))
    return jax.tree.map(jnp.asarray, model.replaced(arrays))


def log_density(model, X, y):
    """Return the log-density of each row."""
    return LogDensity()(model, Rows(X, y))


def changed(model, arrays):
    """Replace some arrays, by name."""
    return model.replaced(model.arrays() | {name: jnp.asarray(a) for name, a in arrays.items()})


def with_members(model):
    """Return the model as an ensemble of one, in NumPy arrays."""
    return jax.tree.map(lambda a: np.asarray(a)[None], model)


def numbers(model, *names):
    """Return arrays by the last part of their names, as NumPy arrays."""
    arrays = {name.rpartition(".")[2]: np.asarray(a) for name, a in model.arrays().items()}
    return [arrays[name] for name in names]


def truncated(mu, sigma):
    """Return mean and variance of N(mu, sigma²) truncated to positive values."""
    alpha = mu / sigma
    r = np.exp(stats.norm.logpdf(alpha) - special.log_ndtr(alpha))
    return mu + sigma * r, sigma**2 * (1 - alpha * r - r**2)


def assert_gradient(value, model, rng, *, eps=1e-5, rtol=1e-5, atol=0.0):
    """Compare the derivative along a random direction with a central difference; numbers (s0) stay fixed."""
    both = jax.jit(jax.value_and_grad(value))
    along = jax.tree.map(lambda a: jnp.asarray(rng.standard_normal(a.shape) * float(a.ndim > 0)), model)
    pairs = zip(jax.tree.leaves(both(model)[1]), jax.tree.leaves(along), strict=True)
    slope = sum(float(jnp.vdot(g, u)) for g, u in pairs)
    ends = [both(jax.tree.map(lambda p, u, e=e: p + e * u, model, along))[0] for e in (eps, -eps)]
    np.testing.assert_allclose(slope, float(ends[0] - ends[1]) / (2 * eps), rtol=rtol, atol=atol)
