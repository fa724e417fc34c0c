"""Small random models, their parameters as NumPy arrays, and references by NumPy and SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from tests.models.sampling import truncated_draws
from tests.models.small_models import S0, truncated
from tggm.models import Gaussian, Identity, Model, Output, Probit
from tggm.paper._model import Objective, OneLayer, UndirectedLayers

S1 = 0.3
BEGIN = jnp.zeros(())  # progress at the first step
OBJECTIVES = {method: Objective(method) for method in ("bp", "moments", "meanfield", "ep", "exact")}


def model_of(hidden, W1, b1, log_noise=None):
    output = Output(jnp.asarray(W1), jnp.asarray(b1))
    likelihood = Probit(output) if log_noise is None else Gaussian(output, jnp.asarray(log_noise))
    return Model(Identity(), hidden, likelihood)


def drawn(rng, hidden, m, n, classes, noise=S1):
    W1, b1 = rng.standard_normal((n, m)), rng.standard_normal(n)
    return model_of(hidden, W1, b1, None if classes else np.full(n, np.log(noise)))


def one_layer(rng, m=4, n=2, *, classes=False, s0=S0, noise=S1):
    """Return one layer over three inputs, every weight and bias N(0, 1)."""
    W0, b0 = jnp.asarray(rng.standard_normal((m, 3))), jnp.asarray(rng.standard_normal(m))
    return drawn(rng, OneLayer(W0, b0, jnp.asarray(s0)), m, n, classes, noise)


def layered(rng, layers, n=2, *, kind=UndirectedLayers, classes=False):
    """Return several layers over three inputs."""
    sizes = (3, *layers)
    pairs = zip(sizes, layers, strict=False)
    W = [jnp.asarray(rng.standard_normal((m, below)) / np.sqrt(below)) for below, m in pairs]
    b = [jnp.asarray(0.5 * rng.standard_normal(m)) for m in layers]
    hidden = kind(W[0], b[0], tuple(W[1:]), tuple(b[1:]), jnp.asarray(S0))
    return drawn(rng, hidden, layers[-1], n, classes)


def weights(model):
    """Return W0, b0, W1 and b1."""
    hidden, output = model.hidden, model.likelihood.output
    return [np.asarray(a) for a in (hidden.W0, hidden.b0, output.W1, output.b1)]


def algorithm_1(P, gamma, free=()):
    """Run Algorithm 1, lines 3-8, to convergence: means and variances of a row; `free` are not truncated."""
    mean, sigma = np.ones(len(gamma)), 1 / np.sqrt(np.diag(P))
    for _ in range(5000):
        before = mean.copy()
        for k in range(len(gamma)):
            xi = (gamma[k] - P[k] @ mean + P[k, k] * mean[k]) / P[k, k]
            mean[k] = xi if k in free else truncated(xi, sigma[k])[0]
        if np.abs(mean - before).max() < 1e-14:
            break
    xi = (gamma - P @ mean + np.diag(P) * mean) / np.diag(P)
    var = np.where([k in free for k in range(len(mean))], sigma**2, truncated(xi, sigma)[1])
    return mean, var


def gradient(objective, model, rows):
    """Return the gradient of the summed objective, as a model."""
    return jax.jit(jax.grad(lambda m: objective(m, rows, BEGIN).sum()))(model)


def last_layer_draws(rng, layers, x, size):
    """Draw the last layer of the directed model, with the importance weights of the undirected one."""
    mu = np.broadcast_to(np.asarray(layers.W0) @ x + np.asarray(layers.b0), (size, len(layers.b0)))
    h = truncated_draws(rng, mu, S0)
    weight = np.ones(size)
    for W, b in zip(layers.W, layers.b, strict=True):
        u = h @ np.asarray(W).T + np.asarray(b)
        weight *= special.ndtr(u / np.sqrt(S0)).prod(1)
        h = truncated_draws(rng, u, S0)
    return h, weight
