"""Posteriors of random models for the tests of the engines: weights of a scale, noise of a variance."""

import numpy as np

from tggm.gaussian import TruncatedGaussian
from tggm.precision import Layered, LowRank


def shallow(rng, *, m, n=1, scale=1.0, noise=0.5, rows=50, dtype=np.float64):
    """h ~ N_T(a, I), y ~ N(W h, noise I) drawn from the model; the posterior of h given y."""
    W, a = scale * rng.normal(size=(n, m)), scale * rng.normal(size=(rows, m))
    h = np.maximum(a + rng.normal(size=a.shape), 0)
    y = h @ W.T + np.sqrt(noise) * rng.normal(size=(rows, n))
    U, gamma = W / np.sqrt(noise), a + y @ W / noise
    return TruncatedGaussian(LowRank(np.ones(m, dtype), U.astype(dtype)), gamma.astype(dtype))


def deep(rng, *, m, scale=1.0, rows=5):
    """Two layers of m units, P = [[I + WᵀW, −Wᵀ], [−W, I]], weights of standard deviation scale / √m."""
    W = scale * rng.normal(size=(m, m)) / np.sqrt(m)
    P = Layered([np.eye(m) + W.T @ W, np.eye(m)], [-W])
    return TruncatedGaussian(P, rng.normal(size=(rows, 2 * m)))
