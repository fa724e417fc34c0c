"""Plots of explanations and importances."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tggm.plotting.canvas import DATA, GREY, MODEL, REFERENCE, axes_or_new
from tggm.settings import count

if TYPE_CHECKING:
    from tggm.explanation import Explanation, Importances


def plot_explanation(
    explanation: "Explanation", row: int = 0, *, output: int | None = None, most: int = 12, ax: Any = None
) -> Any:
    """Draw the parts of one row of `model.explain` from the base to its prediction, the largest first.

    `output` selects one of several outputs or classes; columns after the first `most` are added up.
    """
    base, parts = float(np.ravel(explanation.base)[output or 0]), explanation.parts[row]
    parts = parts if parts.ndim == 1 else parts[:, output or 0]
    order = np.argsort(-np.abs(parts), kind="stable")
    order, rest = order[: count("most", most)], order[most:]
    sizes, names = parts[order].tolist(), [explanation.names[k] for k in order]
    if len(rest):
        sizes, names = [*sizes, float(parts[rest].sum())], [*names, f"{len(rest)} others"]
    ends = base + np.cumsum(sizes)
    ax = axes_or_new(ax)
    place = np.arange(len(sizes))
    colours = [MODEL if size >= 0 else REFERENCE for size in sizes]
    ax.barh(place, sizes, left=ends - sizes, color=colours, height=0.6)
    for k, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        ax.annotate(_format(size, "+"), (end, k), (4 if size >= 0 else -4, 0), textcoords="offset points",
                    ha="left" if size >= 0 else "right", va="center", color=DATA)  # fmt: skip
    ax.axvline(base, color=GREY, linewidth=1, linestyle=":")
    ax.axvline(ends[-1], color=DATA, linewidth=1)
    ax.set_yticks(place, names)
    ax.invert_yaxis()
    ax.use_sticky_edges = False  # leave space for the numbers at the ends of the bars
    ax.margins(x=0.18)
    ax.set_xlabel(f"from {_format(base)} on average to {_format(ends[-1])}")
    return ax


def plot_importances(
    importances: "Importances", *, most: int = 12, xlabel: str = "importance", ax: Any = None
) -> Any:
    """Draw `model.permutation_importances`, the largest first, `most` at most, with two standard errors."""
    order = np.argsort(-importances.mean, kind="stable")[: count("most", most)]
    ax = axes_or_new(ax)
    place, error = np.arange(len(order)), 2 * np.nan_to_num(importances.error[order])
    ax.barh(place, importances.mean[order], xerr=error, color=MODEL, ecolor=DATA, height=0.6)
    ax.set_yticks(place, [importances.names[k] for k in order])
    ax.invert_yaxis()
    ax.set_xlabel(xlabel)
    return ax


def _format(value: float, sign: str = "") -> str:
    """Format a number with three digits, large ones without an exponent."""
    return f"{value:{sign},.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:{sign}.3g}"
