"""Hidden units of several layers by sampling, in NumPy: the witness of their moments and probabilities."""

import numpy as np
from scipy.special import ndtr, ndtri


def truncated_draws(rng, mu, s0):
    sigma = np.sqrt(s0)
    return mu - sigma * ndtri((1 - rng.random(mu.shape)) * ndtr(mu / sigma))


def last_layer_draws(rng, layers, x, size):
    """Draws of the last hidden layer of the directed model, and the undirected model's weights of them."""
    W0, b0, s0 = map(np.asarray, (layers.W0, layers.b0, layers.s0))
    h = truncated_draws(rng, np.broadcast_to(W0 @ x + b0, (size, len(b0))), s0)
    weight = np.ones(size)
    for W, b in zip(layers.W, layers.b, strict=True):
        u = h @ np.asarray(W).T + np.asarray(b)
        weight *= ndtr(u / np.sqrt(s0)).prod(1)
        h = truncated_draws(rng, u, s0)
    return h, weight


def log_mean(values, weight):
    """Log of a weighted mean, and its standard error."""
    w = weight / weight.mean()
    mean = np.mean(w * values)
    error = np.std(w * (values - mean)) / np.sqrt(len(values))
    return np.log(mean), error / mean
