"""Draw the paper's Figure 1: the mean g(μ, σ) of a normal variable truncated to h ≥ 0, and max(0, μ).

    python experiments/figure1.py

Also measures the largest distance of g from max(0, μ) on a fine grid of μ/σ. Writes
experiments/results/figure1.json and docs/images/figure1.png.
"""

from typing import Any

import jax
import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from store import IMAGES, RESULTS, keep

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


def draw(ax: Any) -> None:
    """Draw one curve for each σ, and max(0, μ)."""
    mu, black = np.linspace(-4.0, 4.0, 401), "#222222"
    shades = mpl.colormaps["viridis"](np.linspace(0.1, 0.85, len(SIGMAS)))
    for sigma, colour in zip(SIGMAS, shades, strict=True):
        g = np.asarray(truncated_mean(mu, sigma))
        ax.plot(mu, g, color=colour, linewidth=1.8, label=f"σ = {sigma:g}")
    ax.plot(mu, np.maximum(mu, 0), color=black, linewidth=1.4, linestyle=(0, (4, 2)), label="max(0, μ)")
    ax.set(xlim=(-4.0, 4.0), xlabel="location μ before truncation", ylabel="mean g(μ, σ)")
    ax.set_ylim(bottom=-0.02 * ax.get_ylim()[1])  # max(0, μ) = 0 would coincide with the axis
    ax.legend(frameon=False, loc="upper left")


if __name__ == "__main__":
    keep(RESULTS / "figure1.json", [largest_gap(sigma) for sigma in SMALL], sigmas=SIGMAS)
    figure = Figure(figsize=(6.0, 4.2), layout="constrained")
    draw(figure.subplots())
    figure.savefig(IMAGES / "figure1.png", dpi=100)
