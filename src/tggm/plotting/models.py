"""A plot of importances."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tggm.plotting.canvas import DATA, MODEL, axes_or_new
from tggm.settings import count

if TYPE_CHECKING:
    from tggm.explanation import Importances


def plot_importances(importances: "Importances", *, most: int = 12, ax: Any = None) -> Any:
    """Draw `model.permutation_importances`, the largest first, `most` at most, with two standard errors."""
    order = np.argsort(-importances.mean, kind="stable")[: count("most", most)]
    ax = axes_or_new(ax)
    place, error = np.arange(len(order)), 2 * np.nan_to_num(importances.error[order])
    ax.barh(place, importances.mean[order], xerr=error, color=MODEL, ecolor=DATA, height=0.6)
    ax.set_yticks(place, [importances.names[k] for k in order])
    ax.invert_yaxis()
    ax.set_xlabel("importance")
    return ax
