"""The activation function of a truncated Gaussian unit."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tggm.plotting.canvas import DATA, axes_or_new
from tggm.special import truncated_mean


def plot_activation(
    sigmas: Sequence[float] = (0.2, 0.5, 1.0, 2.0),
    *,
    limits: tuple[float, float] = (-4.0, 4.0),
    ax: Any = None,
) -> Any:
    """Draw g(μ, σ), the mean of N(μ, σ²) truncated to [0, ∞), beside max(0, μ): the paper's first figure.

    Parameters
    ----------
    sigmas : sequence of float
        One curve for each, positive; drawn the lighter the larger.
    limits : (float, float)
        Range of μ.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    if not sigmas or not all(sigma > 0 for sigma in sigmas):
        raise ValueError(f"`sigmas` must be positive; got {tuple(sigmas)}.")
    import matplotlib as mpl

    ax = axes_or_new(ax)
    mu = np.linspace(*limits, 401)
    shades = mpl.colormaps["viridis"](np.linspace(0.1, 0.85, len(sigmas)))
    for sigma, shade in zip(sorted(sigmas), shades, strict=True):
        ax.plot(mu, np.asarray(truncated_mean(mu, sigma)), color=shade, linewidth=1.8, label=f"σ = {sigma:g}")
    ax.plot(mu, np.maximum(mu, 0), color=DATA, linewidth=1.4, linestyle=(0, (4, 2)), label="max(0, μ)")
    ax.set(xlim=limits, xlabel="location μ before truncation", ylabel="mean g(μ, σ)")
    ax.set_ylim(bottom=-0.02 * ax.get_ylim()[1])  # keeps the flat half of max(0, μ) off the axis
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(
        handles[::-1][1:] + handles[-1:], labels[::-1][1:] + labels[-1:], frameon=False, loc="upper left"
    )
    return ax
