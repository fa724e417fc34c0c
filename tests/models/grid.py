"""Models of up to three hidden units by brute force: all that is said of y, summed over a grid of units.

NumPy and scipy only. Of each kind of hidden units it knows the energy, of each likelihood p(y | h).
"""

import numpy as np
from scipy.special import log_ndtr, ndtr
from scipy.stats import multivariate_normal, norm

from tests.models.small_models import S0

_t, _w = np.polynomial.hermite_e.hermegauss(40)
NOISE, NOISE_WEIGHTS = _t, _w / _w.sum()


def units(kind, arrays, x, nodes=44, limits=(0.0, 9.0)):
    """Points h of the last layer, and their probabilities given x; the default limits stand for (0, ∞)."""
    W0, b0 = arrays["hidden.W0"], arrays["hidden.b0"]
    sizes = [len(b0)] + ([len(arrays["hidden.b.0"])] if "hidden.b.0" in arrays else [])
    t, w = np.polynomial.legendre.leggauss(nodes)
    low, high = limits
    axes = np.meshgrid(*[low + (t + 1) * (high - low) / 2] * sum(sizes), indexing="ij")
    h = np.stack([axis.ravel() for axis in axes], 1)
    weight = np.prod([axis.ravel() for axis in np.meshgrid(*[w] * sum(sizes), indexing="ij")], 0)
    away = h[:, : sizes[0]] - (W0 @ x + b0)
    log_p = -(away**2).sum(1) / (2 * S0)
    if kind == "lateral":
        log_p -= ((away @ arrays["hidden.V"].T) ** 2).sum(1) / (2 * S0)
    if len(sizes) > 1:
        u = h[:, : sizes[0]] @ arrays["hidden.W.0"].T + arrays["hidden.b.0"]
        log_p -= ((h[:, sizes[0] :] - u) ** 2).sum(1) / (2 * S0)
        if kind == "directed":
            inside = ndtr((high - u) / np.sqrt(S0)) - ndtr((low - u) / np.sqrt(S0))
            log_p -= np.log(inside).sum(1)
    p = weight * np.exp(log_p - log_p.max())
    return h[:, -sizes[-1] :], p / p.sum()


def log_class(label, mean, std):
    """Log-probability that the score of this class is the largest, for independent normal scores."""
    t = mean[..., [label], None] + std[..., [label], None] * NOISE
    below = ndtr((t - mean[..., :, None]) / std[..., :, None])
    below[..., label, :] = 1.0
    return np.log(below.prod(-2) @ NOISE_WEIGHTS)


def log_given_units(likelihood, arrays, y, z):
    """Log p(y | h) of one row at outputs z, (points, n)."""
    if likelihood == "probit":
        return log_class(int(y), z, np.ones_like(z))
    sd = np.exp(arrays["likelihood.log_noise"] / 2)
    value, side = (y, np.zeros_like(y)) if likelihood == "gaussian" else y
    parts = [
        np.zeros(len(z)) if np.isnan(v) else norm.logpdf(v, m, s) if k == 0 else log_ndtr(k * (m - v) / s)
        for v, k, m, s in zip(value, side, z.T, sd, strict=True)
    ]
    return np.sum(parts, 0)


def log_given_moments(likelihood, y, mean, cov):
    """Log p(y) of one row for outputs with these moments, noise included."""
    if likelihood == "probit":
        n = len(mean)
        contrast = np.eye(n) - 1 / n
        units = contrast @ (cov - np.eye(n)) @ contrast.T
        return float(log_class(int(y), mean, np.sqrt(1 + np.diag(units) * n / (n - 1))))
    value, side = (y, np.zeros_like(y)) if likelihood == "gaussian" else y
    if np.any(side):
        return float(log_ndtr(side[0] * (mean[0] - value[0]) / np.sqrt(cov[0, 0])))
    there = ~np.isnan(value)
    return float(multivariate_normal.logpdf(value[there], mean[there], cov[np.ix_(there, there)]))


def answers(kind, likelihood, model, x, y, **options):
    """Log p(y | x) of one row: the truth, by the moments of the outputs, and by their means alone."""
    arrays = {name: np.asarray(a) for name, a in model.arrays().items()}
    h, p = units(kind, arrays, x, **options)
    z = h @ arrays["likelihood.output.W1"].T + arrays["likelihood.output.b1"]
    mean = p @ z
    noise = np.diag(np.exp(arrays.get("likelihood.log_noise", np.zeros(z.shape[1]))))
    truth = np.log(p @ np.exp(log_given_units(likelihood, arrays, y, z)))
    spread = (z - mean).T @ ((z - mean) * p[:, None])
    return {
        "gaussian": truth,
        "sum": truth,
        "moments": log_given_moments(likelihood, y, mean, spread + noise),
        "mean": log_given_units(likelihood, arrays, y, mean[None])[0],
    }
