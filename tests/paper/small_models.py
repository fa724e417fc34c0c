"""Small random models, their parameters as NumPy arrays, and witnesses written in NumPy and scipy."""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose
from scipy import special, stats

from tggm.paper._inference import Inference
from tggm.paper._model import GaussianOutput, OneLayer, PaperModel, ProbitOutput, UndirectedLayers
from tggm.paper._objectives import BackPropagation, EvidenceObjective, ExactDensity, MomentObjective

S0, S1 = 0.7, 0.3
EP, MEAN_FIELD = Inference("ep"), Inference("mean_field")
BEGIN = jnp.zeros(())  # progress at the first step
OBJECTIVES = {
    "bp": BackPropagation(),
    "moments": MomentObjective(),
    "meanfield": EvidenceObjective(MEAN_FIELD),
    "ep": EvidenceObjective(EP),
    "exact": ExactDensity(),
}


def output(rng, m, n, classes, noise=S1):
    W1, b1 = jnp.asarray(rng.standard_normal((n, m))), jnp.asarray(rng.standard_normal(n))
    return ProbitOutput(W1, b1) if classes else GaussianOutput(W1, b1, jnp.full(n, np.log(noise)))


def one_layer(rng, m=4, n=2, *, classes=False, s0=S0, noise=S1):
    """One layer over three inputs, every weight and bias N(0, 1)."""
    W0, b0 = jnp.asarray(rng.standard_normal((m, 3))), jnp.asarray(rng.standard_normal(m))
    return PaperModel(OneLayer(W0, b0, jnp.asarray(s0)), output(rng, m, n, classes, noise))


def layered(rng, layers, n=2, *, kind=UndirectedLayers, classes=False):
    """Several layers over three inputs."""
    sizes = (3, *layers)
    W = [
        jnp.asarray(rng.standard_normal((m, below)) / np.sqrt(below))
        for below, m in zip(sizes, layers, strict=False)
    ]
    b = [jnp.asarray(0.5 * rng.standard_normal(m)) for m in layers]
    hidden = kind(W[0], b[0], tuple(W[1:]), tuple(b[1:]), jnp.asarray(S0))
    return PaperModel(hidden, output(rng, layers[-1], n, classes))


def weights(model):
    """W0, b0, W1 and b1."""
    return [np.asarray(a) for a in (model.hidden.W0, model.hidden.b0, model.output.W1, model.output.b1)]


def truncated(mu, sigma):
    """Mean and variance of N_T(mu, sigma²) by the textbook."""
    alpha = mu / sigma
    r = np.exp(stats.norm.logpdf(alpha) - special.log_ndtr(alpha))
    return mu + sigma * r, sigma**2 * (1 - alpha * r - r**2)


def algorithm_1(P, gamma, free=()):
    """Algorithm 1, lines 3-8, to convergence for one row: means and variances; `free` are not truncated."""
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
    """The gradient of the summed objective, as a model."""
    return jax.jit(jax.grad(lambda m: objective(m, rows, BEGIN).sum()))(model)


def assert_gradient(value, model, rng, *, eps=1e-4, rtol=1e-5, atol=1e-6):
    """Compare the derivative along a random direction with a central difference; s0 is held fixed."""
    both = jax.jit(jax.value_and_grad(value))
    leaves, tree = jax.tree.flatten(model)
    steps = [jnp.asarray(rng.standard_normal(a.shape) * float(a.ndim > 0)) for a in leaves]
    along = jax.tree.unflatten(tree, steps)
    pairs = zip(jax.tree.leaves(both(model)[1]), jax.tree.leaves(along), strict=True)
    slope = sum(float(jnp.vdot(g, u)) for g, u in pairs)
    ends = [both(jax.tree.map(lambda p, u, e=e: p + e * u, model, along))[0] for e in (eps, -eps)]
    assert_allclose(slope, float(ends[0] - ends[1]) / (2 * eps), rtol=rtol, atol=atol)


def last_layer_draws(rng, layers, x, size):
    """Draw the last layer of the directed model, with the importance weights of the undirected one."""

    def draws(mu):
        return mu - np.sqrt(S0) * special.ndtri((1 - rng.random(mu.shape)) * special.ndtr(mu / np.sqrt(S0)))

    h = draws(np.broadcast_to(np.asarray(layers.W0) @ x + np.asarray(layers.b0), (size, len(layers.b0))))
    weight = np.ones(size)
    for W, b in zip(layers.W, layers.b, strict=True):
        u = h @ np.asarray(W).T + np.asarray(b)
        weight *= special.ndtr(u / np.sqrt(S0)).prod(1)
        h = draws(u)
    return h, weight
