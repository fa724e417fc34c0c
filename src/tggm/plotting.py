"""Plots of predictions and models on matplotlib Axes.

Every function draws on `ax`, or on a new figure if none is given, and returns the Axes. Global settings are
not changed, and matplotlib is imported by the first plot. Predictions are passed as a predictive
distribution `dist` of one output (`model.predict_dist(X)`), with observations `y` of shape (rows,). For
classifiers use scikit-learn's `sklearn.metrics.ConfusionMatrixDisplay`,
`sklearn.calibration.CalibrationDisplay` and `sklearn.inspection.DecisionBoundaryDisplay`.

If y is drawn from the predicted distribution F, then F(y) is uniform on [0, 1] (the probability integral
transform, PIT), and a central interval of probability p contains a fraction p of the observations. Where
single values have a probability, the transform is drawn between P(Y < y) and P(Y ≤ y).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from tggm.arrays import Floats
from tggm.explanation import Importances
from tggm.predictive.base import ScalarPredictive
from tggm.settings import count

__all__ = ["plot_calibration", "plot_fan", "plot_importances", "plot_predicted"]

# blue is the model, black the data, vermilion a reference: colours that colour-blind readers can distinguish
# (Okabe and Ito, 2008), and that differ in grey
MODEL, REFERENCE, SECOND = "#0072B2", "#D55E00", "#009E73"
DATA, GREY = "#222222", "#8C8C8C"
CLASS_COLOURS = (MODEL, REFERENCE, SECOND, "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", GREY)


def plot_calibration(
    dist: ScalarPredictive, y: ArrayLike, *, confidence: float = 0.95, ax: Any = None
) -> Any:
    """Draw the observed coverage of central intervals against their probability.

    Below the diagonal the model is overconfident, above it underconfident. The grey band contains the curve
    of a calibrated model with probability `confidence`, at each point, for this number of rows.
    """
    y = one_output("y", y)
    if not len(y):
        raise ValueError("`y` is empty; calibration needs observations.")
    pit = one_output("dist", np.clip(dist.pit(y), 0, 1), len(y))
    level = np.linspace(0, 1, 101)
    # y is in the central interval of probability p if and only if |2 F(y) − 1| ≤ p
    coverage = np.searchsorted(np.sort(np.abs(2 * pit - 1)), level, side="right") / len(pit)
    lower, upper = (q / len(pit) for q in stats.binom.interval(confidence, len(pit), level))
    ax = axes_or_new(ax)
    label = f"{percent(confidence)} band if calibrated"
    ax.fill_between(level, lower, upper, color=GREY, alpha=0.25, linewidth=0, label=label)
    ax.plot(level, level, color=GREY, linewidth=1)
    ax.plot(level, coverage, color=MODEL, linewidth=1.8, label=f"observed, {len(pit)} rows")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="probability of the interval", ylabel="fraction of observations inside")
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_predicted(dist: ScalarPredictive, y: ArrayLike, *, level: float = 0.9, ax: Any = None) -> Any:
    """Draw the predictive mean and central interval of each row against the observation.

    Rows whose interval does not contain the observation are marked: about 1 − `level` of all if calibrated.
    """
    y = one_output("y", y)
    mean = one_output("dist", dist.mean(), len(y))
    lower, upper = (one_output("dist", end, len(y)) for end in dist.interval(level))
    missed = (y < lower) | (y > upper)
    ax = axes_or_new(ax)
    for rows, colour, marker, text in (
        (~missed, MODEL, "o", f"{percent(level)} interval contains y ({percent(1 - missed.mean())} of rows)"),
        (missed, REFERENCE, "D", f"interval misses y ({percent(missed.mean())})"),
    ):
        ax.vlines(y[rows], lower[rows], upper[rows], color=colour, alpha=0.3, linewidth=1)
        ax.plot(y[rows], mean[rows], marker, color=colour, markersize=3.2, alpha=0.9, label=text)
    ends = [float(min(y.min(), lower.min())), float(max(y.max(), upper.max()))]
    ax.plot(ends, ends, color=GREY, linewidth=1, zorder=0)
    pad = 0.03 * float(np.ptp(y)) or 0.5  # a single value has no range
    ax.set(xlabel="observed y", ylabel="predicted y, mean and interval", xlim=(y.min() - pad, y.max() + pad))
    ax.set_ylim(*ends)
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_fan(
    dist: ScalarPredictive, x: ArrayLike, *, levels: Sequence[float] = (0.5, 0.8, 0.95),
    data: tuple[ArrayLike, ArrayLike] | None = None, ax: Any = None,
) -> Any:  # fmt: skip
    """Draw nested central intervals, the median and the mean against one feature.

    `dist` has a row for each value `x` of the feature; `levels` are the probabilities of the intervals, and
    `data` are observations (x, y) that are drawn as points.
    """
    x = one_output("x", x)
    order = np.argsort(x, kind="stable")
    ax = axes_or_new(ax)
    widest_first = sorted(levels, reverse=True)
    for level, strength in zip(widest_first, np.linspace(0.2, 0.5, len(widest_first)), strict=True):
        lower, upper = (one_output("dist", end, len(x))[order] for end in dist.interval(level))
        label = f"{percent(level)} interval"
        ax.fill_between(x[order], lower, upper, color=shade(strength), linewidth=0, label=label)
    median = one_output("dist", dist.ppf(0.5), len(x))
    mean = one_output("dist", dist.mean(), len(x))
    ax.plot(x[order], median[order], color=MODEL, linewidth=1.8, label="median")
    ax.plot(x[order], mean[order], color=MODEL, linewidth=1.2, linestyle=(0, (4, 2)), label="mean")
    if data is not None:
        observed = one_output("data[0]", data[0])
        values = one_output("data[1]", data[1], len(observed))
        ax.plot(observed, values, ".", color=DATA, markersize=4, label="data")
    ax.set(xlabel="x", ylabel="y", xlim=(x.min(), x.max()))
    ax.legend(frameon=False)
    return ax


def plot_importances(importances: Importances, *, most: int = 12, ax: Any = None) -> Any:
    """Draw `model.permutation_importances`, the largest first, `most` at most, with two standard errors."""
    order = np.argsort(-importances.mean, kind="stable")[: count("most", most)]
    ax = axes_or_new(ax)
    place, error = np.arange(len(order)), 2 * np.nan_to_num(importances.error[order])
    ax.barh(place, importances.mean[order], xerr=error, color=MODEL, ecolor=DATA, height=0.6)
    ax.set_yticks(place, [importances.names[k] for k in order])
    ax.invert_yaxis()
    ax.set_xlabel("importance")
    return ax


def percent(probability: float) -> str:
    """Format a probability: 0.9 is "90 %"."""
    return f"{100 * probability:.3g} %"


def shade(strength: float) -> tuple[float, ...]:
    """Return the model's colour mixed with white: 0 is white, 1 the colour itself."""
    from matplotlib.colors import to_rgb

    return tuple(1 - strength * (1 - channel) for channel in to_rgb(MODEL))


def axes_or_new(ax: Any) -> Any:
    """Return the given Axes, or those of a new figure, with a light grid."""
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(figsize=(6.0, 4.2), layout="constrained")[1]
    ax.grid(True, color="0.9", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def one_output(name: str, value: ArrayLike, rows: int | None = None) -> Floats:
    """Return a vector with one number per row; errors call the argument `name`."""
    vector = np.asarray(value, dtype=float)
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1:
        raise ValueError(f"`{name}` must have one value per row; got shape {vector.shape}; draw one output.")
    if rows is not None and len(vector) != rows:
        raise ValueError(f"`{name}` must have {rows} values, one for each row; got {len(vector)}.")
    return vector
