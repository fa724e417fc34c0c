"""How an objective moved during training."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tggm.plotting.canvas import DATA, MODEL, QUIET, REFERENCE, SECOND, axes_or_new, one_output


def plot_learning_curve(
    history: Mapping[str, ArrayLike] | ArrayLike,
    *,
    best: ArrayLike | None = None,
    ylabel: str = "objective per row",
    ax: Any = None,
) -> Any:
    """Draw training curves against the epoch.

    Parameters
    ----------
    history : mapping of str to array_like, or array_like
        One curve for each name, one value for each epoch; a regressor's `history_` is such a mapping. An
        entry "epoch" gives the epochs, otherwise they count from 1. A two-dimensional entry has a row for
        each ensemble member: thin lines, with their median drawn over them.
    best : int or array_like of int, optional
        Epochs to mark: those whose parameters were kept, one for each member.
    ylabel : str
        What the curves are.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    curves = dict(history) if isinstance(history, Mapping) else {"training": history}
    epochs = curves.pop("epoch", None)
    if not curves:
        raise ValueError("`history` has no curve; pass a mapping such as {'training': values}.")
    ax = axes_or_new(ax)
    styles = zip((MODEL, REFERENCE, SECOND, QUIET), ("-", "--", "-.", ":"), strict=True)
    for (name, values), (colour, line) in zip(curves.items(), styles, strict=False):
        table = np.asarray(values, dtype=float)
        table = table[:, None] if table.ndim == 1 else table.T
        x = np.arange(1, len(table) + 1) if epochs is None else one_output("epoch", epochs, len(table))
        if table.shape[1] > 1:
            ax.plot(x, table, color=colour, linewidth=0.6, alpha=0.3)
        ax.plot(
            x, np.nanmedian(table, axis=1), line, color=colour, linewidth=1.8, label=name.replace("_", " ")
        )
    for k, epoch in enumerate(np.atleast_1d([] if best is None else best)):
        label = "kept" if k == 0 else None
        ax.axvline(epoch, ymax=0.05, color=DATA, linewidth=1.2, label=label)
    ax.set(xlabel="epoch", ylabel=ylabel)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.margins(x=0.01)
    ax.legend(frameon=False)
    return ax
