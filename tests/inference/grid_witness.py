"""Moments of truncated Gaussians of up to three variables by brute force: a grid of Gauss-Legendre nodes.

NumPy only; shares no code with the package. Good to about 1e-10 for the moderate problems it is used on.
"""

import numpy as np


def grid_moments(P, gamma, truncated=None, n_nodes=80, reach=11.0):
    """(log Z, mean, var) of p(h) ∝ exp(−½ hᵀPh + γᵀh), h_k ≥ 0 for truncated k."""
    P, gamma = np.asarray(P, float), np.asarray(gamma, float)
    truncated = np.ones(len(gamma), bool) if truncated is None else np.asarray(truncated)
    covariance = np.linalg.inv(P)
    centre, spread = covariance @ gamma, np.sqrt(np.diag(covariance))
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    axes, axis_weights = [], []
    for c, s, wall in zip(centre, spread, truncated, strict=True):
        low = max(c - reach * s, 0.0) if wall else c - reach * s
        high = max(c, 0.0) + reach * s
        axes.append(low + (nodes + 1) * (high - low) / 2)
        axis_weights.append(weights * (high - low) / 2)
    h = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(gamma))
    w = np.prod(np.meshgrid(*axis_weights, indexing="ij"), axis=0).ravel()
    energy = -0.5 * ((h @ P) * h).sum(-1) + h @ gamma
    top = energy.max()
    w = w * np.exp(energy - top)
    total = w.sum()
    mean = w @ h / total
    return top + np.log(total), mean, w @ (h - mean) ** 2 / total


def random_precision(rng, m, strength=1.0):
    """A positive definite matrix with off-diagonals of either sign."""
    A = strength * rng.standard_normal((m, m))
    return A @ A.T / m + np.eye(m)
