"""Reference values by NumPy and SciPy, problems, and a comparison of gradients with differences."""

import jax
import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp
from scipy.stats import norm

from tggm.gaussian import TruncatedGaussian
from tggm.precision import Layered, LowRank


def shallow(rng, *, m, n=1, scale=1.0, noise=0.5, rows=50, dtype=np.float64):
    """Return the posterior of h given y, h ~ N_T(a, I) and y ~ N(W h, noise I) drawn from the model."""
    W, a = scale * rng.normal(size=(n, m)), scale * rng.normal(size=(rows, m))
    h = np.maximum(a + rng.normal(size=a.shape), 0)
    y = h @ W.T + np.sqrt(noise) * rng.normal(size=(rows, n))
    U, gamma = W / np.sqrt(noise), a + y @ W / noise
    return TruncatedGaussian(LowRank(np.ones(m, dtype), U.astype(dtype)), gamma.astype(dtype))


def deep(rng, *, m, scale=1.0, rows=5):
    """Return two layers of m units, P = [[I + WᵀW, −Wᵀ], [−W, I]], weights of deviation scale / √m."""
    W = scale * rng.normal(size=(m, m)) / np.sqrt(m)
    P = Layered([np.eye(m) + W.T @ W, np.eye(m)], [-W])
    return TruncatedGaussian(P, rng.normal(size=(rows, 2 * m)))


def random_precision(rng, m, strength=1.0):
    """Return a positive definite matrix with off-diagonals of either sign."""
    A = strength * rng.standard_normal((m, m))
    return A @ A.T / m + np.eye(m)


def grid_box(P, gamma, lower, upper, n_nodes=60, reach=11.0):
    """Return (log Z, mean, var) of p(h) ∝ exp(−½ hᵀPh + γᵀh) in a box, m ≤ 3, by a Gauss-Legendre grid."""
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


def grid_moments(P, gamma, truncated=None, n_nodes=80):
    """Return (log Z, mean, var) with h_k ≥ 0 for truncated k; accurate to about 1e-10."""
    truncated = np.ones(len(gamma), bool) if truncated is None else np.asarray(truncated)
    lower = np.where(truncated, 0.0, -np.inf)
    return grid_box(P, gamma, lower, np.full(len(lower), np.inf), n_nodes)


def equicorrelated(rho, lower, upper):
    """Return the probability of a box of normals with equal correlations ρ, by one integral."""

    def integrand(x):
        z = np.sqrt(rho) * x
        sides = norm.cdf((upper - z) / np.sqrt(1 - rho)) - norm.cdf((lower - z) / np.sqrt(1 - rho))
        return norm.pdf(x) * np.prod(sides)

    return quad(integrand, -9, 9, epsabs=0, epsrel=1e-11, limit=200)[0]


def log_volume(covariance, gamma):
    """Return log Z of the Gaussian without truncation."""
    m = len(covariance)
    quadratic = gamma @ covariance @ gamma
    return 0.5 * (m * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1] + quadratic)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(60)


def log_integral(log_f, lower, upper, panels=24, drop=60.0):
    """Return the log integral of exp(log_f) over the part of [lower, upper] where it is not negligible."""
    mode = minimize_scalar(
        lambda x: -log_f(x), bounds=(lower, upper), method="bounded", options={"xatol": 1e-12}
    ).x
    mode = max([lower, mode, upper], key=log_f)
    floor = log_f(mode) - drop
    ends = []
    for end in (lower, upper):
        above = end == mode or log_f(end) > floor
        ends.append(end if above else brentq(lambda x: log_f(x) - floor, mode, end, xtol=1e-14, rtol=1e-12))
    cuts = np.linspace(*ends, panels + 1)
    half = 0.5 * np.diff(cuts)[:, None]
    x = 0.5 * (cuts[1:] + cuts[:-1])[:, None] + half * _NODES[None, :]
    return float(logsumexp(log_f(x) + np.log(half * _WEIGHTS[None, :])))


def assert_gradient(value, parameters, rng, rtol=1e-6):
    """Compare reverse mode with central differences, along one direction for every leaf."""
    leaves, tree = jax.tree.flatten(parameters)
    both = jax.jit(jax.value_and_grad(value))
    gradient = jax.tree.leaves(both(parameters)[1])
    for i, (leaf, g) in enumerate(zip(leaves, gradient, strict=True)):
        direction = rng.standard_normal(leaf.shape)
        ends = [
            both(jax.tree.unflatten(tree, [*leaves[:i], leaf + t * direction, *leaves[i + 1 :]]))[0]
            for t in (1e-5, -1e-5)
        ]
        np.testing.assert_allclose((g * direction).sum(), (ends[0] - ends[1]) / 2e-5, rtol=rtol, atol=1e-6)
