"""Deep models by sampling, in NumPy: the witness of their moments, densities and probabilities."""

import numpy as np
from scipy.special import ndtr, ndtri


def truncated_draws(rng, mu, s0):
    sigma = np.sqrt(s0)
    return mu - sigma * ndtri((1 - rng.random(mu.shape)) * ndtr(mu / sigma))


def hidden_draws(rng, params, x, s0, size):
    """Draws of the last hidden layer of the directed model, and the undirected model's weights of them."""
    W0, b0 = np.asarray(params.W0), np.asarray(params.b0)
    h = truncated_draws(rng, np.broadcast_to(W0 @ x + b0, (size, len(b0))), s0)
    weight = np.ones(size)
    for W, b in zip(params.W, params.b, strict=True):
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
