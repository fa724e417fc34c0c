"""How good a model and its baselines are on a table, as numbers and as lines of text, and what to warn of."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tggm.tables import Preparation
from tggm.tables.preparation import Figures

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


Measure = Callable[[Any, np.ndarray], dict[str, float]]  # of a prediction and targets (labels as numbers)
WHO = {"model": "this model", "linear": "linear model", "naive": "no inputs"}
REGRESSION = {
    "rmse": ("RMSE", ""), "r2": ("R²", ".3f"), "log_density": ("log-density", ".3f"), "crps": ("CRPS", ""),
    "cover50": ("in 50 % interval", ".1%"), "cover90": ("in 90 % interval", ".1%"),
}  # fmt: skip
CLASSES = {
    "accuracy": ("accuracy", ".2%"), "balanced": ("balanced", ".2%"), "auc": ("AUC", ".4f"),
    "average_precision": ("av. precision", ".4f"), "log_loss": ("NLL", ".4f"), "ece": ("ECE", ".4f"),
}  # fmt: skip
AS_WELL = "a linear model does as well on these rows; prefer it, or gather more of them"


def judge(
    model: "BaseEstimator",
    preparation: Preparation,
    X: np.ndarray,
    y: np.ndarray,
    more: Measure | None = None,
) -> Figures:
    """Scores of the model and of its baselines on rows with known targets, and `more` of each."""
    from tggm.report.scores import class_scores, regression_scores

    baselines = preparation.baselines
    is_class = preparation.target.is_class
    target = np.searchsorted(model.classes_, y) if is_class else y
    scores: Any = class_scores if is_class else regression_scores
    if is_class:
        found = {"model": model.predict_log_proba(X), **(baselines.classes(X) if baselines else {})}
    else:
        found = {"model": model.predict_dist(X), **(baselines.regression(X) if baselines else {})}
    figures = {who: {s.key: s.value for s in scores(found[who], target)} for who in WHO if who in found}
    return (
        figures if more is None else {who: each | more(found[who], target) for who, each in figures.items()}
    )


def figures_table(figures: Figures, more: Sequence[str] = ()) -> str:
    """One line for each of model and baselines, one column for each measure, and for `more` of them."""
    found = set.intersection(*(set(values) for values in figures.values()))
    known = (REGRESSION if "rmse" in found else CLASSES) | {key: (key, "") for key in more}
    columns = {key: shown for key, shown in known.items() if key in found}
    width = max(len(name) for name in WHO.values())
    table = [[" " * width, *(title.rjust(8) for title, _ in columns.values())]]
    for who, values in figures.items():
        cells = [_shown(values[key], style) for key, (_, style) in columns.items()]
        table.append([f"{WHO.get(who, who):<{width}}", *cells])
    sizes = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [[cell.rjust(size) for cell, size in zip(line, sizes, strict=True)] for line in table]
    return "\n".join("  ".join(line) for line in lines)


def hint(figures: Figures) -> str:
    """What to think of a linear model that is as good or better; nothing if it is neither.

    It is as good if it gave the observations as much probability, and errs no more than 2 % more; it is
    better if its error is a tenth smaller, or its log-loss 0.05 nats.
    """
    if not {"model", "linear"} <= set(figures):
        return ""
    ours, linear = figures["model"], figures["linear"]
    key, name = ("rmse", "RMSE") if "rmse" in ours else ("log_loss", "NLL")
    better = linear[key] < 0.9 * ours[key] if key == "rmse" else linear[key] < ours[key] - 0.05
    if better:
        shown = f"{name} {_shown(linear[key], '')} against {_shown(ours[key], '')}"
        return f"a linear model is better on these rows ({shown}); prefer it, or look at the worst rows"
    as_probable = linear["log_density"] >= ours["log_density"] if key == "rmse" else linear[key] <= ours[key]
    return AS_WELL if as_probable and linear[key] <= 1.02 * ours[key] else ""


def _shown(value: float, style: str) -> str:
    """A number in its style; without one, four digits, and no exponent where it can be helped."""
    if style:
        return format(value, style)
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def warnings_of(
    model: "BaseEstimator", preparation: Preparation, X: np.ndarray, figures: Figures
) -> list[str]:
    """Sentences on inputs that have moved and observations that have become less likely, with a remedy."""
    from tggm.report.scores import REMEDY, drift_warnings, score_warnings

    found = drift_warnings(model, X, preparation.feature_names)
    known = preparation.fitted.figures.get("model") if preparation.fitted is not None else None
    fresh = figures["model"]
    found += score_warnings(_score(fresh), None if known is None else _score(known), len(X))
    return [f"{words}; {REMEDY}" for words in found]


def _score(figures: dict[str, float]) -> float:
    """Mean log-density of numbers, or log-probability of classes."""
    return figures["log_density"] if "log_density" in figures else -figures["log_loss"]
