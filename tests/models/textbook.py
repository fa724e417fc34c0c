"""Moments of a truncated normal by the textbook, with scipy."""

import numpy as np
from scipy import special, stats


def truncated(mu, sigma):
    """Mean and variance of N_T(mu, sigma²)."""
    alpha = mu / sigma
    r = np.exp(stats.norm.logpdf(alpha) - special.log_ndtr(alpha))
    return mu + sigma * r, sigma**2 * (1 - alpha * r - r**2)
