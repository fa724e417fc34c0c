"""Witnesses for boxes: NumPy and SciPy only, no code of the package."""

import numpy as np
from scipy.integrate import quad
from scipy.stats import norm


def grid_box(P, gamma, lower, upper, n_nodes=60, reach=11.0):
    """(log Z, mean, var) of p(h) ∝ exp(−½ hᵀPh + γᵀh) in a box: a grid of Gauss-Legendre nodes, m ≤ 3."""
    P, gamma = np.asarray(P, float), np.asarray(gamma, float)
    covariance = np.linalg.inv(P)
    centre, spread = covariance @ gamma, np.sqrt(np.diag(covariance))
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    axes, axis_weights = [], []
    for c, s, low, high in zip(centre, spread, lower, upper, strict=True):
        a = max(low, min(c, high) - reach * s)
        b = min(high, max(c, low) + reach * s)
        axes.append(a + (nodes + 1) * (b - a) / 2)
        axis_weights.append(weights * (b - a) / 2)
    h = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(gamma))
    w = np.prod(np.meshgrid(*axis_weights, indexing="ij"), axis=0).ravel()
    energy = -0.5 * ((h @ P) * h).sum(-1) + h @ gamma
    top = energy.max()
    w = w * np.exp(energy - top)
    mean = w @ h / w.sum()
    return top + np.log(w.sum()), mean, w @ (h - mean) ** 2 / w.sum()


def equicorrelated(rho, lower, upper):
    """Probability of a box of normals with equal correlations ρ: one integral over what they share."""

    def integrand(x):
        z = np.sqrt(rho) * x
        sides = norm.cdf((upper - z) / np.sqrt(1 - rho)) - norm.cdf((lower - z) / np.sqrt(1 - rho))
        return norm.pdf(x) * np.prod(sides)

    return quad(integrand, -9, 9, epsabs=0, epsrel=1e-11, limit=200)[0]


def log_volume(covariance, gamma):
    """Log Z of the Gaussian were nothing truncated."""
    m = len(covariance)
    quadratic = gamma @ covariance @ gamma
    return 0.5 * (m * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1] + quadratic)
