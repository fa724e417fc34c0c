"""Pictures of explanations: how a prediction comes about, and what each column is worth."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tggm.plotting.canvas import DATA, MODEL, QUIET, REFERENCE, axes_or_new
from tggm.settings import count

if TYPE_CHECKING:
    from tggm.explanation import Explanation, Importances

MOST = 12  # bars


def plot_explanation(
    explanation: "Explanation", row: int = 0, *, output: int | None = None, most: int = MOST, ax: Any = None
) -> Any:
    """Draw how the parts of one row lead from the base to its prediction, the largest first.

    Parameters
    ----------
    explanation : Explanation
        What `model.explain` gave.
    row : int
        Which row of it.
    output : int, optional
        Which output or class, where there are several; the first by default.
    most : int
        Columns drawn; the others are one bar together.
    ax : matplotlib Axes, optional
    """
    base, parts = float(np.ravel(explanation.base)[output or 0]), explanation.parts[row]
    parts = parts if parts.ndim == 1 else parts[:, output or 0]
    order, rest = _largest(np.abs(parts), count("most", most))
    sizes, names = parts[order].tolist(), [explanation.names[k] for k in order]
    if rest:
        sizes, names = [*sizes, float(parts[rest].sum())], [*names, f"{len(rest)} others"]
    ends = base + np.cumsum(sizes)
    ax = axes_or_new(ax)
    place = np.arange(len(sizes))
    colours = [MODEL if size >= 0 else REFERENCE for size in sizes]
    ax.barh(place, sizes, left=ends - sizes, color=colours, height=0.6)
    for k, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        ax.annotate(_shown(size, "+"), (end, k), (4 if size >= 0 else -4, 0), textcoords="offset points",
                    ha="left" if size >= 0 else "right", va="center", color=DATA)  # fmt: skip
    ax.axvline(base, color=QUIET, linewidth=1, linestyle=":")
    ax.axvline(ends[-1], color=DATA, linewidth=1)
    ax.set_yticks(place, names)
    ax.invert_yaxis()
    ax.use_sticky_edges = False  # bars would end at the frame, and their numbers outside
    ax.margins(x=0.18)
    ax.set_xlabel(f"from {_shown(base)} on average to {_shown(ends[-1])}")
    return ax


def plot_importances(
    importances: "Importances", *, most: int = MOST, xlabel: str = "importance", ax: Any = None
) -> Any:
    """Draw what columns are worth, the largest first, with two standard errors to either side.

    Parameters
    ----------
    importances : Importances
        What `model.permutation_importances` gave.
    most : int
        Columns drawn.
    xlabel : str
        What is measured.
    ax : matplotlib Axes, optional
    """
    order, _ = _largest(importances.mean, count("most", most))
    ax = axes_or_new(ax)
    place, error = np.arange(len(order)), 2 * np.nan_to_num(importances.error[order])
    ax.barh(place, importances.mean[order], xerr=error, color=MODEL, ecolor=DATA, height=0.6)
    ax.set_yticks(place, [importances.names[k] for k in order])
    ax.invert_yaxis()
    ax.set_xlabel(xlabel)
    return ax


def _shown(value: float, sign: str = "") -> str:
    """A number with three digits or so, large ones without an exponent."""
    return f"{value:{sign},.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:{sign}.3g}"


def _largest(sizes: Any, most: int) -> tuple[list[int], list[int]]:
    """Places of the largest, and of the others."""
    order = np.argsort(-sizes, kind="stable").tolist()
    return order[:most], order[most:]
