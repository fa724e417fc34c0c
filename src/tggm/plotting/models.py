"""Plots of models: activation function, graph, explanations and importances."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tggm.graph import Graph
from tggm.plotting.canvas import DATA, GREY, MODEL, REFERENCE, SECOND, axes_or_new, new_axes, shade
from tggm.settings import count
from tggm.special import truncated_mean

if TYPE_CHECKING:
    from tggm.explanation import Explanation, Importances

_COLOUR = {"input": GREY, "latent": MODEL, "free": SECOND, "observed": DATA, "inequality": REFERENCE}
_SIGN = {"input": "given", "latent": "≥ 0", "free": "free", "observed": "observed", "inequality": "sign"}


def plot_activation(
    sigmas: Sequence[float] = (0.2, 0.5, 1.0, 2.0),
    *,
    limits: tuple[float, float] = (-4.0, 4.0),
    ax: Any = None,
) -> Any:
    """Draw g(μ, σ), the mean of N(μ, σ²) truncated to [0, ∞), and max(0, μ): the paper's first figure.

    There is one curve for each of `sigmas`; `limits` is the range of μ.
    """
    if not sigmas or not all(sigma > 0 for sigma in sigmas):
        raise ValueError(f"`sigmas` must be positive; got {tuple(sigmas)}.")
    import matplotlib as mpl

    ax = axes_or_new(ax)
    mu = np.linspace(*limits, 401)
    shades = mpl.colormaps["viridis"](np.linspace(0.1, 0.85, len(sigmas)))
    for sigma, colour in zip(sorted(sigmas), shades, strict=True):
        g = np.asarray(truncated_mean(mu, sigma))
        ax.plot(mu, g, color=colour, linewidth=1.8, label=f"σ = {sigma:g}")
    ax.plot(mu, np.maximum(mu, 0), color=DATA, linewidth=1.4, linestyle=(0, (4, 2)), label="max(0, μ)")
    ax.set(xlim=limits, xlabel="location μ before truncation", ylabel="mean g(μ, σ)")
    ax.set_ylim(bottom=-0.02 * ax.get_ylim()[1])  # max(0, μ) = 0 would coincide with the axis
    ax.legend(frameon=False, loc="upper left")
    return ax


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


def plot_graph(graph: Graph, *, ax: Any = None) -> Any:
    """Draw blocks and ties.

    Arrows are edges, from parent to child; double arrows are couplings. The width of a line shows the root
    mean square of its weights relative to the largest; it is dotted if it has no weights yet.
    """
    from matplotlib.patches import FancyArrowPatch

    ax = new_axes(6.0, 3.0) if ax is None else ax
    ax.set_axis_off()
    place, widths = _positions(graph), _strengths(graph)
    boxes = {block.name: _box(ax, block, place[block.name]) for block in graph.structure.blocks}
    for tie in graph.structure.ties:
        edge, (a, b), width = tie.kind == "weights", tie.ends, widths[tie.name]
        if a == b:  # lateral: a loop above the box
            x, y = place[a]
            start, end, bend = (x - 0.12, y + 0.13), (x + 0.12, y + 0.13), -1.6
            bounds: dict[str, Any] = {"shrinkA": 0, "shrinkB": 0}
        else:
            start, end = place[a], place[b]
            bend = 0.0 if abs(end[0] - start[0]) <= 1 and start[1] == end[1] else 0.25
            bounds = {"patchA": boxes[a], "patchB": boxes[b]}  # from the border of one box to the other's
        patch = FancyArrowPatch(
            start, end, arrowstyle="-|>" if edge else "<->", connectionstyle=f"arc3,rad={bend}", **bounds,
            mutation_scale=12, linewidth=1.0 if width is None else 0.6 + 3.4 * width,
            linestyle=":" if width is None else "-", color=DATA if edge else REFERENCE,
            zorder=4, label=tie.name,  # after the boxes, whose sizes are known then
        )  # fmt: skip
        ax.add_patch(patch)
    x, y = np.array(list(place.values())).T
    ax.set(xlim=(x.min() - 0.6, x.max() + 0.6), ylim=(y.min() - 0.5, y.max() + 0.6))
    return ax


def _positions(graph: Graph) -> dict[str, tuple[float, float]]:
    """Place blocks: columns by the longest path from a block without parents, rows by order."""
    columns: dict[int, list[str]] = {}

    def depth(name: str) -> int:
        return max((depth(parent) + 1 for parent in graph.structure.parents(name)), default=0)

    for block in graph.structure.blocks:
        columns.setdefault(depth(block.name), []).append(block.name)
    return {
        name: (float(column), 0.5 * (len(names) - 1) - i)
        for column, names in columns.items()
        for i, name in enumerate(names)
    }


def _strengths(graph: Graph) -> dict[str, float | None]:
    """Return the root mean square of each tie's weights relative to the largest; None without weights."""
    found: dict[str, float | None] = {}
    for tie in graph.structure.ties:
        values = graph.given[tie.kind].get(tie.name)
        found[tie.name] = None if values is None else float(np.sqrt(np.mean(np.square(values))))
    largest = max((v for v in found.values() if v), default=1.0)
    return {name: None if v is None else v / largest for name, v in found.items()}


def _box(ax: Any, block: Any, at: tuple[float, float]) -> Any:
    """Draw the box of a block and return its outline, where arrows end."""
    face, label = shade(0.15) if block.role == "latent" else "white", f"{block.size} {_SIGN[block.role]}"
    style = {"boxstyle": "round,pad=0.5", "edgecolor": _COLOUR[block.role], "linewidth": 1.6}
    text = ax.annotate(
        f"{block.name}\n{label}", at, ha="center", va="center", fontsize=10, color=DATA, zorder=3,
        bbox={**style, "facecolor": face},
    )  # fmt: skip
    return text.get_bbox_patch()
