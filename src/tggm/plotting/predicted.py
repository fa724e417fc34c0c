"""Predictions against observations."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tggm.plotting.canvas import (
    MODEL,
    QUIET,
    REFERENCE,
    Predictive,
    axes_or_new,
    checked_levels,
    one_output,
    percent,
)


def plot_predicted(dist: Predictive, y: ArrayLike, *, level: float = 0.9, ax: Any = None) -> Any:
    """Draw each row's predictive mean and central interval against what was observed.

    Rows whose interval misses the observation are marked; about 1 − `level` of them should be.

    Parameters
    ----------
    dist : predictive distribution of one output
    y : array_like, shape (rows,)
        What was observed.
    level : float
        Probability of the intervals.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    y = one_output("y", y)
    mean = one_output("dist", dist.mean(), len(y))
    lower, upper = (one_output("dist", end, len(y)) for end in dist.interval(checked_levels(level)[0]))
    missed = (y < lower) | (y > upper)
    ax = axes_or_new(ax)
    for rows, colour, marker, text in (
        (~missed, MODEL, "o", f"{percent(level)} interval holds y ({percent(1 - missed.mean())} of rows)"),
        (missed, REFERENCE, "D", f"misses y ({percent(missed.mean())})"),
    ):
        ax.vlines(y[rows], lower[rows], upper[rows], color=colour, alpha=0.3, linewidth=1)
        ax.plot(y[rows], mean[rows], marker, color=colour, markersize=3.2, alpha=0.9, label=text)
    ends = [float(min(y.min(), lower.min())), float(max(y.max(), upper.max()))]
    ax.plot(ends, ends, color=QUIET, linewidth=1, zorder=0)
    pad = 0.03 * float(np.ptp(y)) or 0.5  # of one value there is no range
    ax.set(xlabel="observed y", ylabel="predicted y, mean and interval", xlim=(y.min() - pad, y.max() + pad))
    ax.set_ylim(*ends)
    ax.legend(frameon=False, loc="upper left")
    return ax
