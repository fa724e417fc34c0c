"""Samples of hidden units in NumPy, to compare moments and probabilities with."""

import numpy as np
from scipy.special import ndtr, ndtri


def truncated_draws(rng, mu, s0, lower=0.0, upper=np.inf):
    """Draw N(mu, s0) between two limits."""
    sigma = np.sqrt(s0)
    above, left = ndtr((mu - lower) / sigma), ndtr((mu - upper) / sigma)  # tails as probabilities of −h
    return mu - sigma * ndtri(left + (1 - rng.random(mu.shape)) * (above - left))


def last_layer_draws(rng, layers, x, size, limits=(0.0, np.inf)):
    """Draw the last hidden layer of directed layers; limits are in units of σ0."""
    W0, b0, s0 = map(np.asarray, (layers.W0, layers.b0, layers.s0))
    ends = [limit * np.sqrt(s0) for limit in limits]
    h = truncated_draws(rng, np.broadcast_to(W0 @ x + b0, (size, len(b0))), s0, *ends)
    for W, b in zip(layers.W, layers.b, strict=True):
        h = truncated_draws(rng, h @ np.asarray(W).T + np.asarray(b), s0, *ends)
    return h
