"""How good a model and its baselines are on a table, as numbers and as lines of text."""

from typing import TYPE_CHECKING

import numpy as np

from tggm.tables import Preparation
from tggm.tables.preparation import Figures

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

WHO = {"model": "this model", "linear": "linear model", "naive": "no inputs"}
REGRESSION = {
    "rmse": ("RMSE", ""), "log_density": ("log-density", ".3f"), "crps": ("CRPS", ""),
    "cover50": ("in 50 % interval", ".1%"), "cover90": ("in 90 % interval", ".1%"),
}  # fmt: skip
HINT = "a linear model does as well on these rows; prefer it, or gather more of them"
CLASSES = {"accuracy": ("accuracy", ".2%"), "log_loss": ("NLL", ".4f"), "ece": ("ECE", ".4f")}


def judge(model: "BaseEstimator", preparation: Preparation, X: np.ndarray, y: np.ndarray) -> Figures:
    """Scores of the model and of its baselines on rows with known targets."""
    from tggm.report.scores import class_scores, regression_scores

    baselines = preparation.baselines
    if preparation.target.is_class:
        label = np.searchsorted(model.classes_, y)
        log_p = {"model": model.predict_log_proba(X), **(baselines.classes(X) if baselines else {})}
        return {who: {s.key: s.value for s in class_scores(log_p[who], label)} for who in WHO if who in log_p}
    dist = {"model": model.predict_dist(X), **(baselines.regression(X) if baselines else {})}
    return {who: {s.key: s.value for s in regression_scores(dist[who], y)} for who in WHO if who in dist}


def figures_table(figures: Figures) -> str:
    """One line for each of model and baselines, one column for each measure."""
    columns = REGRESSION if "rmse" in next(iter(figures.values())) else CLASSES
    width = max(len(name) for name in WHO.values())
    lines = [" " * width + "".join(f"  {title:>{max(len(title), 8)}}" for title, _ in columns.values())]
    for who, values in figures.items():
        cells = [(_shown(values[key], style), max(len(title), 8)) for key, (title, style) in columns.items()]
        lines.append(f"{WHO.get(who, who):<{width}}" + "".join(f"  {text:>{size}}" for text, size in cells))
    return "\n".join(lines)


def linear_wins(figures: Figures) -> bool:
    """Whether the linear model gave the observations more probability."""
    if not {"model", "linear"} <= set(figures):
        return False
    ours, linear = figures["model"], figures["linear"]
    return (
        linear["log_density"] >= ours["log_density"]
        if "rmse" in ours
        else linear["log_loss"] <= ours["log_loss"]
    )


def _shown(value: float, style: str) -> str:
    """A number in its style; without one, four digits, and no exponent where it can be helped."""
    if style:
        return format(value, style)
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"
