"""Pictures of a classifier: are its probabilities frequencies, what does it confuse, where does it decide."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from tggm import settings
from tggm.plotting.canvas import (
    DATA,
    MODEL,
    QUIET,
    REFERENCE,
    SECOND,
    axes_or_new,
    percent,
    shade,
    unit_square,
)

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

CLASS_COLOURS = (MODEL, REFERENCE, SECOND, "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", QUIET)


def plot_reliability(
    probability: ArrayLike,
    y: ArrayLike,
    *,
    classes: ArrayLike | None = None,
    bins: int = 15,
    confidence: float = 0.95,
    ax: Any = None,
) -> Any:
    """Draw how often the predicted class was right against how sure the model was of it.

    Rows are sorted into bins of equal width by the probability of their predicted class. Below the diagonal
    the model is too sure of itself, above it too modest. Bars show where the accuracy of a calibrated model
    lies with probability `confidence`, bin by bin; the expected calibration error (ECE) is the mean over rows
    of the distance between a bin's accuracy and its mean probability.

    Parameters
    ----------
    probability : array_like, shape (rows, n_classes)
        As `predict_proba` gives them.
    y : array_like, shape (rows,)
        True labels.
    classes : array_like, shape (n_classes,), optional
        Labels of the columns (`model.classes_`); 0, 1, … by default.
    bins : int
        Number of bins on [0, 1].
    confidence : float
        Probability of the bars.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    p, label = _checked(probability, y, classes)
    settings.count("bins", bins)
    sure, right = p.max(1), p.argmax(1) == label
    which = np.minimum((sure * bins).astype(int), bins - 1)
    count = np.bincount(which, minlength=bins)
    used = count > 0
    mean_sure = np.bincount(which, sure, bins)[used] / count[used]
    accuracy = np.bincount(which, right, bins)[used] / count[used]
    ece = float((count[used] * np.abs(accuracy - mean_sure)).sum() / len(label))
    lower, upper = (q / count[used] for q in stats.binom.interval(confidence, count[used], mean_sure))
    ax = axes_or_new(ax)
    ax.plot([0, 1], [0, 1], color=QUIET, linewidth=1)
    text = f"{percent(confidence)} if calibrated"
    ax.vlines(mean_sure, lower, upper, color=QUIET, linewidth=5, alpha=0.35, label=text)
    ax.plot(mean_sure, accuracy, "o-", color=MODEL, linewidth=1.5, markersize=4, label=f"ECE {ece:.4f}")
    unit_square(ax, "probability of the predicted class", "fraction that was right")
    inside = ax.inset_axes([0.62, 0.1, 0.34, 0.2])
    inside.bar((np.arange(bins) + 0.5) / bins, count / len(label), width=0.9 / bins, color=shade(0.5))
    inside.set(xlim=(0, 1), xticks=[], yticks=[])
    inside.set_title("share of rows", fontsize=7, pad=2)
    inside.spines[["top", "right", "left"]].set_visible(False)
    ax.legend(frameon=False, loc="upper left")
    return ax


def plot_confusion(
    predicted: ArrayLike, y: ArrayLike, *, classes: ArrayLike | None = None, ax: Any = None
) -> Any:
    """Draw which classes are taken for which: one row for each true class, shares in percent.

    Parameters
    ----------
    predicted, y : array_like, shape (rows,)
        Predicted and true labels.
    classes : array_like, optional
        Labels in the order wanted; all that occur, sorted, by default.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    predicted, y = np.asarray(predicted), np.asarray(y)
    if predicted.shape != y.shape or y.ndim != 1 or not len(y):
        raise ValueError(
            f"`predicted` and `y` must be vectors alike; got shapes {predicted.shape}, {y.shape}."
        )
    kinds = {"text" if a.dtype.kind in "US" else "numbers" for a in (predicted, y) if a.dtype.kind != "O"}
    if len(kinds) > 1:
        raise ValueError(f"`predicted` holds {predicted.dtype} and `y` {y.dtype}: they are different labels.")
    found = np.unique(np.r_[predicted, y])
    names = found if classes is None else np.asarray(classes)
    missing = np.setdiff1d(found, names)
    if len(missing):
        raise ValueError(f"`classes` must hold every label that occurs; {missing[:5].tolist()} are missing.")
    from matplotlib.colors import LinearSegmentedColormap
    from sklearn.metrics import confusion_matrix  # both slow to load

    share = confusion_matrix(y, predicted, labels=names)
    share = share / np.maximum(share.sum(1, keepdims=True), 1)
    ax = axes_or_new(ax)
    ax.grid(False)
    colours = LinearSegmentedColormap.from_list("model", ["white", MODEL])
    ax.imshow(np.sqrt(share), cmap=colours, vmin=0, vmax=1)  # the root shows rare confusions too
    small = 9 if len(names) <= 10 else 6
    for i, j in zip(*np.nonzero(share >= 0.0005), strict=True):
        colour = "white" if share[i, j] > 0.3 else DATA
        ax.text(j, i, f"{100 * share[i, j]:.1f}", ha="center", va="center", color=colour, fontsize=small)
    positions = np.arange(len(names))
    rotation = 90 if max(len(str(name)) for name in names) > 3 else 0
    ax.set_xticks(positions, [str(name) for name in names], rotation=rotation)
    ax.set_yticks(positions, [str(name) for name in names])
    ax.set(xlabel="predicted", ylabel="true", title="percent of each true class")
    return ax


def plot_decision_regions(
    model: "BaseEstimator", X: ArrayLike, y: ArrayLike, *, resolution: int = 200, ax: Any = None
) -> Any:
    """Draw the regions in which a classifier of two features chooses each class, paler where it is less sure.

    Parameters
    ----------
    model : fitted classifier
        With `predict_proba` and `classes_`, fitted to two features.
    X : array_like, shape (rows, 2)
        Points to show; the picture reaches a little beyond them.
    y : array_like, shape (rows,)
        Their labels.
    resolution : int
        Points on a side of the grid.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    X = np.asarray(X, float)
    if X.ndim != 2 or X.shape[1] != 2:
        raise ValueError(f"`X` must have two features to be drawn; got shape {X.shape}.")
    classes = np.asarray(model.classes_)
    pad = 0.08 * np.ptp(X, axis=0)
    sides = [np.linspace(*ends, resolution) for ends in zip(X.min(0) - pad, X.max(0) + pad, strict=True)]
    grid = np.stack([side.ravel() for side in np.meshgrid(*sides)], axis=1)
    p = np.asarray(model.predict_proba(grid)).reshape(resolution, resolution, -1)
    ax = axes_or_new(ax)
    ax.grid(False)
    from matplotlib.colors import to_rgb

    colours = np.array([to_rgb(CLASS_COLOURS[k % len(CLASS_COLOURS)]) for k in range(len(classes))])
    # each class's colour, as far from white as the model is from knowing nothing
    n = len(classes)
    sure = (p.max(-1, keepdims=True) - 1 / n) / (1 - 1 / n)
    picture = 1 - 0.75 * sure * (1 - colours[p.argmax(-1)])
    extent = (sides[0][0], sides[0][-1], sides[1][0], sides[1][-1])
    ax.imshow(picture, extent=extent, origin="lower", aspect="auto", interpolation="bilinear")
    for k in range(n if n > 2 else 1):  # where class k and the best of the others are equally probable
        lead = p[..., k] - np.delete(p, k, axis=-1).max(-1)
        if lead.min() < 0 < lead.max():
            ax.contour(*sides, lead, levels=[0.0], colors=DATA, linewidths=0.8)
    for k, name in enumerate(classes):
        rows = np.asarray(y) == name
        style = {"color": colours[k], "edgecolor": "white", "linewidth": 0.5, "s": 22}
        ax.scatter(X[rows, 0], X[rows, 1], label=str(name), **style)
    ax.set(xlabel="feature 1", ylabel="feature 2")
    ax.legend(frameon=True, framealpha=0.9, loc="best", title="class; pale: unsure")
    return ax


def _checked(
    probability: ArrayLike, y: ArrayLike, classes: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and the column of each row's true class."""
    p, y = np.asarray(probability, float), np.asarray(y)
    if p.ndim != 2 or y.shape != p.shape[:1]:
        raise ValueError(
            f"`probability` must have a row for each of the {len(y)} labels and a column for each class; "
            f"got shape {p.shape}."
        )
    if not ((p >= 0) & (p <= 1 + 1e-6)).all():  # NaN is neither
        raise ValueError("`probability` must lie between 0 and 1, as `predict_proba` gives it.")
    names = np.arange(p.shape[1]) if classes is None else np.asarray(classes)
    found = y[:, None] == names[None, :]
    if len(names) != p.shape[1] or not found.any(1).all():
        raise ValueError(
            f"`classes` must name the {p.shape[1]} columns and hold every label in `y`; got {names.tolist()}."
        )
    return p, found.argmax(1)
