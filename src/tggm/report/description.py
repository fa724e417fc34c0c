"""What the model is: its size and settings, its graph, and how its training went."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tggm.graph import Graph
from tggm.plotting import plot_graph, plot_learning_curve
from tggm.report import html
from tggm.report.case import Case, dense
from tggm.report.svg import picture

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

POINTS = 250  # of a learning curve

MAXIMISED = {
    "moments": "the likelihood, through the exact mean and variance given the inputs",
    "ep": "the likelihood, by expectation propagation",
    "exact": "the exact likelihood",
    "meanfield": "the mean-field lower bound of the likelihood",
    "bp": "the fit of the mean alone",
}


def layers(model: "BaseEstimator") -> tuple[int, ...]:
    """Sizes of the hidden layers."""
    sizes: tuple[int, ...] = model.layers_
    return sizes


def model_section(case: Case) -> html.Section:
    """Facts and graph."""
    model = case.model
    units = "-".join(map(str, layers(model)))
    text = (
        f"A truncated Gaussian graphical model that predicts {case.target} ({case.wording.predicted}) from "
        f"{len(case.names)} features through {units} hidden variables that are kept nonnegative. "
        + (
            f"The prediction is pooled from {model.n_members} networks, each trained from another start."
            if model.n_members > 1
            else "It is one network."
        )
        + f" Training maximised {MAXIMISED.get(model.method, model.method)}."
    )
    pairs: list[tuple[str, Any]] = [
        ("class", type(model).__name__),
        ("method", model.method),
        ("hidden variables", units),
        ("networks", str(model.n_members)),
        ("features", str(len(case.names))),
        ("epochs run", str(model.n_iter_)),
        *case.wording.facts,
    ]
    alt = (
        f"Graph of the model: {len(case.names)} inputs x lead to hidden variables h of sizes {units}, "
        f"which lead to {case.wording.end}."
    )
    caption = "Boxes are groups of variables, arrows say what depends on what."
    if len(layers(model)) == 1:
        caption += " A line is the wider the larger its weights, for standardised variables."
    drawing = picture(lambda ax: plot_graph(model_graph(case), ax=ax), name="graph", alt=alt, size=(4.7, 1.7))
    return html.section(
        "model",
        "What the model is",
        html.paragraph(text),
        html.side_by_side(html.facts(pairs), html.figure(drawing, caption)),
    )


def model_graph(case: Case) -> Graph:
    """The model as a graph; a shallow one with the weights of its first network, in standard units."""
    model = case.model
    sizes = layers(model)
    blocks = [f"h{k + 1}" if len(sizes) > 1 else "h" for k in range(len(sizes))]
    graph = Graph().input("x", len(case.names))
    for name, size in zip(blocks, sizes, strict=True):
        graph = graph.latent(name, size)
    graph, W1 = case.with_end(graph, np.asarray(model.W1_)[0] if len(sizes) == 1 else None)
    weights: list[Any] = [None] * (len(sizes) + 1)
    if W1 is not None and model.fitted_.model.features.linear:
        rows = dense(case.X[case.some_rows(500)])
        weights = [np.asarray(model.W0_)[0] * rows.std(0)[None, :], W1]
    chain = ["x", *blocks, graph.structure.blocks[-1].name]
    for parent, child, W in zip(chain[:-1], chain[1:], weights, strict=True):
        graph = graph.connect(parent, child, W)
    return graph


def learning_sections(case: Case) -> list[html.Section]:
    """The learning curve, if the model kept one."""
    model = case.model
    history = {name: curve for name, curve in _curves(model).items() if np.isfinite(curve).any()}
    if not history:
        return []
    points = next(iter(history.values())).shape[1]
    epoch = np.asarray(model.history_.get("epoch", np.arange(1, points + 1)))
    kept, epochs = np.unique(np.linspace(0, points - 1, POINTS).astype(int)), int(epoch[-1])
    thinned: dict[str, Any] = {"epoch": epoch[kept]}
    thinned |= {name: curve[:, kept] for name, curve in history.items()}
    last = {name: float(np.nanmedian(curve[:, -1])) for name, curve in history.items()}
    alt = f"Learning curve over {epochs} epochs; at the end " + ", ".join(
        f"{name.replace('_', ' ')} {value:.3g}" for name, value in last.items()
    )
    best = vars(model).get("best_epoch_")
    drawing = picture(_drawn(thinned, best), name="learning", alt=alt + ".", size=(4.7, 3.4))
    caption = (
        "Mean objective per row of the training rows and score of the rows that each network held out, in "
        "the model's own units; higher is better. Ticks on the axis mark the epochs whose parameters stayed."
    )
    return [html.section("learning", "Learning curve", html.figure(drawing, caption))]


def _curves(model: "BaseEstimator") -> dict[str, Any]:
    history = vars(model).get("history_", {})  # others keep none
    return {
        name: np.atleast_2d(np.asarray(curve, np.float64))
        for name, curve in history.items()
        if name != "epoch" and np.size(curve)
    }


def _drawn(curves: dict[str, Any], best: Any) -> Callable[[Any], None]:
    def draw(ax: Any) -> None:
        plot_learning_curve(curves, best=best, ax=ax)
        values = np.concatenate([c[np.isfinite(c)] for name, c in curves.items() if name != "epoch"])
        low, high = np.quantile(values, 0.05), values.max()
        # the first epochs are far below; what matters is the end
        ax.set_ylim(low - 0.05 * (high - low + 1e-12), high + 0.05 * (high - low + 1e-12))

    return draw
