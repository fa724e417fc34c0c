"""What all pictures share: where they are drawn, their colours, and how their arguments are checked.

Blue is the model, near-black the data, vermilion a reference: distinct to colour-blind readers (Okabe and
Ito, 2008) and in grey.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tggm.arrays import Floats

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

MODEL = "#0072B2"
DATA = "#222222"
REFERENCE = "#D55E00"
SECOND = "#009E73"
QUIET = "#8C8C8C"


def percent(probability: float) -> str:
    """A probability as read in a legend: 0.9 is "90 %"."""
    return f"{100 * probability:.3g} %"


def shade(strength: float) -> tuple[float, ...]:
    """The model's colour on white paper: 0 is white, 1 the colour itself."""
    from matplotlib.colors import to_rgb

    return tuple(1 - strength * (1 - channel) for channel in to_rgb(MODEL))


def axes_or_new(ax: Any) -> Any:
    """The given Axes with a light grid, or those of a new figure."""
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(figsize=(6.0, 4.2), layout="constrained")
    ax.grid(True, color="0.9", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def unit_square(ax: Any, xlabel: str, ylabel: str) -> None:
    """A square of two probabilities, for a curve that should be its diagonal."""
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=xlabel, ylabel=ylabel)
    ax.set_aspect("equal")


def named_rows(model: "BaseEstimator", X: Any) -> Any:
    """Rows as the model wants them: with column names if it was fitted with them."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return X
    import pandas

    return pandas.DataFrame(X, columns=names)


def one_output(name: str, value: ArrayLike, rows: int | None = None) -> Floats:
    """A float vector with one entry a row; errors name what was passed."""
    vector = np.asarray(value, dtype=float)
    if vector.ndim == 2 and vector.shape[1] == 1:
        vector = vector[:, 0]
    if vector.ndim != 1:
        raise ValueError(
            f"`{name}` must have one value a row; got shape {vector.shape}. Draw one output at a time."
        )
    if rows is not None and len(vector) != rows:
        raise ValueError(f"`{name}` must have {rows} values, one for each row; got {len(vector)}.")
    return vector


def checked_levels(levels: ArrayLike) -> list[float]:
    """Probabilities of nested intervals, widest first."""
    values = sorted(np.atleast_1d(np.asarray(levels, dtype=float)).tolist(), reverse=True)
    if not values or not all(0 < level < 1 for level in values):
        raise ValueError(f"`levels` must be probabilities between 0 and 1; got {levels!r}.")
    return values
