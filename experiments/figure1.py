"""Draw the paper's Figure 1: the mean g(μ, σ) of a normal variable truncated to h ≥ 0, and max(0, μ).

    python experiments/figure1.py

Also measures the largest distance of g from max(0, μ) on a fine grid of μ/σ. Writes
experiments/results/figure1.json and docs/images/figure1.png.
"""

import jax
import numpy as np
from matplotlib.figure import Figure
from store import IMAGES, RESULTS, keep

from tggm.plotting import plot_activation
from tggm.special import truncated_mean

SIGMAS = (0.2, 0.5, 1.0, 2.0)
SMALL = (1e-6, 1e-4, 1e-2, 1.0, 10.0)


def largest_gap(sigma: float) -> dict[str, float]:
    """Return the largest g(μ, σ) − max(0, μ) over 20,001 values of μ/σ in [−50, 50], and its place."""
    with jax.enable_x64(True):
        mu = sigma * np.linspace(-50, 50, 20_001)
        gap = np.asarray(truncated_mean(mu, sigma)) - np.maximum(mu, 0)
    at = int(np.argmax(gap))
    return {"sigma": sigma, "gap": float(gap[at]), "at_mu": float(mu[at])}


if __name__ == "__main__":
    keep(RESULTS / "figure1.json", [largest_gap(sigma) for sigma in SMALL], sigmas=SIGMAS)
    figure = Figure(figsize=(6.0, 4.2), layout="constrained")
    plot_activation(SIGMAS, limits=(-4.0, 4.0), ax=figure.subplots())
    figure.savefig(IMAGES / "figure1.png", dpi=100)
