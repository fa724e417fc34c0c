"""The predictive distribution along one feature."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tggm.plotting.canvas import (
    DATA,
    MODEL,
    Predictive,
    axes_or_new,
    checked_levels,
    one_output,
    percent,
    shade,
)


def plot_fan(
    source: Any,
    x: ArrayLike,
    *,
    feature: int = 0,
    at: ArrayLike | None = None,
    levels: ArrayLike = (0.5, 0.8, 0.95),
    data: tuple[ArrayLike, ArrayLike] | None = None,
    ax: Any = None,
) -> Any:
    """Draw nested central intervals, the median and the mean against one feature.

    Parameters
    ----------
    source : fitted regressor or predictive distribution
        A regressor is asked for `predict_dist` along `x`; a distribution must have one row for each `x`.
    x : array_like, shape (rows,)
        Values of the feature, in any order.
    feature : int
        Its column, for a regressor.
    at : array_like, shape (features,), optional
        Values at which the regressor's other features are held; needed if it has any.
    levels : array_like of float
        Probabilities of the intervals.
    data : (x, y), optional
        Observations to draw as points.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    x = one_output("x", x)
    order = np.argsort(x, kind="stable")
    dist: Predictive = _along(source, x, feature, at) if hasattr(source, "predict_dist") else source
    ax = axes_or_new(ax)
    widest_first = checked_levels(levels)
    for level, strength in zip(widest_first, np.linspace(0.2, 0.5, len(widest_first)), strict=True):
        lower, upper = (one_output("source", end, len(x))[order] for end in dist.interval(level))
        label = f"{percent(level)} interval"
        ax.fill_between(x[order], lower, upper, color=shade(strength), linewidth=0, label=label)
    median = one_output("source", dist.ppf(0.5), len(x))
    mean = one_output("source", dist.mean(), len(x))
    ax.plot(x[order], median[order], color=MODEL, linewidth=1.8, label="median")
    ax.plot(x[order], mean[order], color=MODEL, linewidth=1.2, linestyle=(0, (4, 2)), label="mean")
    if data is not None:
        observed = one_output("data[0]", data[0])
        ax.plot(
            observed,
            one_output("data[1]", data[1], len(observed)),
            ".",
            color=DATA,
            markersize=4,
            label="data",
        )
    ax.set(xlabel=_feature_name(source, feature), ylabel="y", xlim=(x.min(), x.max()))
    ax.legend(frameon=False)
    return ax


def _along(model: Any, x: np.ndarray, feature: int, at: ArrayLike | None) -> Predictive:
    """The model's predictions with one feature running through `x` and the others held."""
    count = int(getattr(model, "n_features_in_", 1))
    if not 0 <= feature < count:
        raise ValueError(f"`feature` must be a column number below {count}; got {feature}.")
    if at is None and count > 1:
        raise ValueError(
            f"the model has {count} features: pass `at`, a row to hold the others at, such as X.mean(axis=0)."
        )
    held = np.zeros(1) if at is None else one_output("at", at, count)
    X = np.tile(held, (len(x), 1))
    X[:, feature] = x
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        import pandas

        return model.predict_dist(pandas.DataFrame(X, columns=names))  # type: ignore[no-any-return]  # duck-typed
    return model.predict_dist(X)  # type: ignore[no-any-return]  # duck-typed


def _feature_name(source: Any, feature: int) -> str:
    names = getattr(source, "feature_names_in_", None)
    return "x" if names is None else str(names[feature])
