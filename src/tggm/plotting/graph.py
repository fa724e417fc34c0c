"""A graph as a picture: a box for each block, layers from left to right, lines as strong as the weights."""

from typing import Any

import numpy as np

from tggm.graph import Graph
from tggm.graph._structure import Block, Structure
from tggm.plotting.canvas import DATA, MODEL, QUIET, REFERENCE, SECOND, shade

_COLOUR = {"input": QUIET, "latent": MODEL, "free": SECOND, "observed": DATA, "inequality": REFERENCE}
_SIGN = {"input": "given", "latent": "≥ 0", "free": "free", "observed": "observed", "inequality": "sign"}


def plot_graph(graph: Graph, *, ax: Any = None) -> Any:
    """Draw blocks and ties.

    Arrows are directed edges, from parent to child; double lines are couplings. A line is the wider the
    larger the root mean square of its weights, in comparison with the others; dotted if it has none yet.

    Parameters
    ----------
    graph : Graph
        What to draw.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    """
    from matplotlib.patches import FancyArrowPatch

    ax = _canvas(ax)
    structure = graph.structure
    place = positions(structure)
    widths = strengths(graph)
    boxes = {block.name: _box(ax, block, place[block.name]) for block in structure.blocks}
    for tie in structure.ties:
        edge, (a, b), width = tie.kind == "weights", tie.ends, widths[tie.name]
        if a == b:  # lateral: a loop above the box
            x, y = place[a]
            start, end, bend = (x - 0.12, y + 0.13), (x + 0.12, y + 0.13), -1.6
        else:
            start, end = place[a], place[b]
            bend = 0.0 if abs(end[0] - start[0]) <= 1 and start[1] == end[1] else 0.25
        patch = FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>" if edge else "<->",
            connectionstyle=f"arc3,rad={bend}",
            patchA=None if a == b else boxes[a],  # from the edge of one box to that of the other
            patchB=None if a == b else boxes[b],
            shrinkA=0 if a == b else 2,
            shrinkB=0 if a == b else 2,
            mutation_scale=12,
            linewidth=1.0 if width is None else 0.6 + 3.4 * width,
            linestyle=":" if width is None else "-",
            color=DATA if edge else REFERENCE,
            zorder=4,  # after the boxes, whose sizes are known then
            label=tie.name,
        )
        ax.add_patch(patch)
    x, y = np.array(list(place.values())).T
    ax.set(xlim=(x.min() - 0.6, x.max() + 0.6), ylim=(y.min() - 0.5, y.max() + 0.6))
    return ax


def positions(structure: Structure) -> dict[str, tuple[float, float]]:
    """Column by the longest way from a block without parents, row by order within the column."""
    depth: dict[str, int] = {}

    def deep(name: str) -> int:
        if name not in depth:
            depth[name] = max((deep(parent) + 1 for parent in structure.parents(name)), default=0)
        return depth[name]

    columns: dict[int, list[str]] = {}
    for block in structure.blocks:
        columns.setdefault(deep(block.name), []).append(block.name)
    return {
        name: (float(column), 0.5 * (len(names) - 1) - i)
        for column, names in columns.items()
        for i, name in enumerate(names)
    }


def strengths(graph: Graph) -> dict[str, float | None]:
    """Root mean square of each tie's weights as a part of the largest; None where there are none."""
    found: dict[str, float | None] = {}
    for tie in graph.structure.ties:
        values = graph.given[tie.kind].get(tie.name)
        found[tie.name] = None if values is None else float(np.sqrt(np.mean(np.square(values))))
    largest = max((v for v in found.values() if v), default=1.0)
    return {name: None if v is None else v / largest for name, v in found.items()}


def _canvas(ax: Any) -> Any:
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(figsize=(6.0, 3.0), layout="constrained")
    ax.set_axis_off()
    return ax


def _box(ax: Any, block: Block, at: tuple[float, float]) -> Any:
    """The box of a block; its outline is what arrows end at."""
    colour = _COLOUR[block.role]
    text = ax.annotate(
        f"{block.name}\n{block.size} {_SIGN[block.role]}",
        at,
        ha="center",
        va="center",
        fontsize=10,
        color=DATA,
        zorder=3,
        bbox={
            "boxstyle": "round,pad=0.5",
            "facecolor": shade(0.15) if block.role == "latent" else "white",
            "edgecolor": colour,
            "linewidth": 1.6,
        },
    )
    return text.get_bbox_patch()
