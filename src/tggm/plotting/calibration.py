"""Whether predicted probabilities are frequencies.

If y is drawn from the predicted distribution F, then F(y) is uniform on [0, 1] (the probability integral
transform, PIT), and a central interval of probability p holds a fraction p of the observations.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from tggm.plotting.canvas import MODEL, QUIET, Predictive, axes_or_new, one_output, percent, shade


def plot_calibration(dist: Predictive, y: ArrayLike, *, confidence: float = 0.95, ax: Any = None) -> Any:
    """Draw the observed coverage of central intervals against their nominal probability.

    Below the diagonal the model is too sure of itself, above it too modest. The grey band is where the
    curve of a calibrated model lies with probability `confidence`, point by point, for this number of rows.

    Parameters
    ----------
    dist : predictive distribution of one output
    y : array_like, shape (rows,)
        What was observed.
    confidence : float
        Probability of the band.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    pit = _pit(dist, y)
    level = np.linspace(0, 1, 101)
    # y lies in the central interval of probability p exactly if |2 F(y) − 1| ≤ p.
    coverage = np.searchsorted(np.sort(np.abs(2 * pit - 1)), level, side="right") / len(pit)
    lower, upper = (q / len(pit) for q in stats.binom.interval(confidence, len(pit), level))
    ax = axes_or_new(ax)
    ax.fill_between(
        level,
        lower,
        upper,
        color=QUIET,
        alpha=0.25,
        linewidth=0,
        label=f"{percent(confidence)} band if calibrated",
    )
    ax.plot(level, level, color=QUIET, linewidth=1)
    ax.plot(level, coverage, color=MODEL, linewidth=1.8, label=f"observed, {len(pit)} rows")
    ax.set(
        xlim=(0, 1),
        ylim=(0, 1),
        xlabel="probability of the interval",
        ylabel="fraction of observations inside",
    )
    ax.set_aspect("equal")
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_pit(
    dist: Predictive, y: ArrayLike, *, bins: int | None = None, confidence: float = 0.95, ax: Any = None
) -> Any:
    """Draw the histogram of F(y), flat for a calibrated model.

    A valley says that the model is too sure, a hill too modest, a slope that it is biased.

    Parameters
    ----------
    dist : predictive distribution of one output
    y : array_like, shape (rows,)
        What was observed.
    bins : int, optional
        Number of bars; by default about 20 rows a bar, 5 to 20 bars.
    confidence : float
        Probability of the grey band for a single bar.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    pit = _pit(dist, y)
    bins = int(np.clip(len(pit) // 20, 5, 20)) if bins is None else bins
    height = bins / len(pit)
    lower, upper = (q * height for q in stats.binom.interval(confidence, len(pit), 1 / bins))
    ax = axes_or_new(ax)
    ax.axhspan(
        lower,
        upper,
        color=QUIET,
        alpha=0.25,
        linewidth=0,
        zorder=3,
        label=f"{percent(confidence)} band if calibrated",
    )
    ax.axhline(1, color=QUIET, linewidth=1, zorder=3)
    ax.hist(
        pit,
        bins=np.linspace(0, 1, bins + 1),
        density=True,
        color=shade(0.6),
        edgecolor="white",
        label=f"observed, {len(pit)} rows",
    )
    ax.set(xlim=(0, 1), xlabel="predicted probability of a smaller y, F(y)", ylabel="density")
    ax.set_ylim(top=1.35 * ax.get_ylim()[1])
    ax.legend(frameon=False, loc="upper left", ncols=2)
    return ax


def _pit(dist: Predictive, y: ArrayLike) -> np.ndarray:
    y = one_output("y", y)
    if not len(y):
        raise ValueError("`y` is empty; calibration needs observations.")
    return one_output("dist", np.clip(dist.cdf(y), 0, 1), len(y))
