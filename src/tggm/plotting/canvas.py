"""Axes, colours and argument checks that all plots share.

Blue is the model, black the data, vermilion a reference. Colour-blind readers can distinguish them (Okabe and
Ito, 2008), and they differ in grey.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tggm.arrays import Floats

MODEL, REFERENCE, SECOND = "#0072B2", "#D55E00", "#009E73"
DATA, GREY = "#222222", "#8C8C8C"
CLASS_COLOURS = (MODEL, REFERENCE, SECOND, "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", GREY)


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
