"""Samples of hidden units in NumPy, to compare moments and probabilities with."""

import numpy as np
from scipy.special import ndtr, ndtri


def truncated_draws(rng, mu, s0):
    """Draw N(mu, s0) given positive values."""
    sigma = np.sqrt(s0)
    return mu - sigma * ndtri((1 - rng.random(mu.shape)) * ndtr(mu / sigma))


def last_layer_draws(rng, layers, x, size):
    """Draw the last hidden layer of directed layers."""
    W0, b0, s0 = map(np.asarray, (layers.W0, layers.b0, layers.s0))
    h = truncated_draws(rng, np.broadcast_to(W0 @ x + b0, (size, len(b0))), s0)
    for W, b in zip(layers.W, layers.b, strict=True):
        h = truncated_draws(rng, h @ np.asarray(W).T + np.asarray(b), s0)
    return h
