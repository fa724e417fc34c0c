"""Scores of a model and of its baselines on a table, as numbers and as text."""

import warnings
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

from tggm.arrays import Floats
from tggm.cli.files import CommandError
from tggm.report.scores import (
    REMEDY,
    class_scores,
    drift_warnings,
    quantile_loss,
    regression_scores,
    score_warnings,
    threshold_scores,
)
from tggm.tables import Table, TableWarning
from tggm.tables.baselines import Baselines
from tggm.tables.schema import Figures

Measure = Callable[[Any, np.ndarray], dict[str, float]]  # of a prediction and targets (labels as numbers)
TITLES = {"model": "this model", "linear": "linear model", "naive": "no inputs"}
REGRESSION = {
    "rmse": ("RMSE", ""), "r2": ("R²", ".3f"), "log_density": ("log-density", ".3f"), "crps": ("CRPS", ""),
    "cover50": ("in 50 % interval", ".1%"), "cover90": ("in 90 % interval", ".1%"),
}  # fmt: skip
CLASSES = {
    "accuracy": ("accuracy", ".2%"), "balanced": ("balanced", ".2%"), "auc": ("AUC", ".4f"),
    "average_precision": ("av. precision", ".4f"), "log_loss": ("NLL", ".4f"), "ece": ("ECE", ".4f"),
}  # fmt: skip
QUANTILE = "quantile_loss"


def evaluate_model(
    model: BaseEstimator,
    baselines: Baselines | None,
    table: Table,
    y: np.ndarray,
    more: Measure | None = None,
) -> Figures:
    """Return scores of the model and of its baselines on rows with known targets, and `more` of each."""
    is_class = isinstance(model, ClassifierMixin)
    scores: Any = class_scores if is_class else regression_scores
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)  # `encoding_notes` reports these
        X = model.table_.transform(table)
        found: dict[str, Any] = {
            "model": model.predict_log_proba(table) if is_class else model.predict_dist(table)
        }
    if baselines is not None:
        found |= baselines.classes(X) if is_class else baselines.regression(X)
    target = np.searchsorted(model.classes_, y) if is_class else y
    return {
        name: {score.key: score.value for score in scores(found[name], target)}
        | ({} if more is None else more(found[name], target))
        for name in TITLES
        if name in found
    }


def figures_table(figures: Figures, more: Sequence[str] = ()) -> str:
    """Return one line per model and one column per measure, with columns for `more` measures."""
    found = set.intersection(*(set(values) for values in figures.values()))
    known = (REGRESSION if "rmse" in found else CLASSES) | {key: (key, "") for key in more}
    columns = {key: shown for key, shown in known.items() if key in found}
    width = max(map(len, TITLES.values()))
    table = [[" " * width, *(title.rjust(8) for title, _ in columns.values())]]
    for name, values in figures.items():
        cells = [_shown(values[key], style) for key, (_, style) in columns.items()]
        table.append([f"{TITLES.get(name, name):<{width}}", *cells])
    sizes = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join("  ".join(map(str.rjust, line, sizes)) for line in table)


def _shown(value: float, style: str) -> str:
    """Return a number in its style or, without one, with four digits and if possible no exponent."""
    if style:
        return format(value, style)
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def hint(figures: Figures) -> str:
    """Return advice if a linear model is as good or better, else an empty string.

    It is as good if its log-likelihood is at least as high and its error at most 2 % larger; it is better if
    its error is 10 % smaller, or its log-loss 0.05 nats lower.
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
    if as_probable and linear[key] <= 1.02 * ours[key]:
        return "a linear model is as good on these rows; prefer it, or gather more rows"
    return ""


def warnings_of(model: BaseEstimator, known: Figures, table: Table, figures: Figures) -> list[str]:
    """Return warnings about shifted inputs and less likely observations, with a remedy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        X = model.table_.transform(table)
    found = drift_warnings(model, X, model.table_.get_feature_names_out().tolist())
    earlier = _log_score(known["model"]) if "model" in known else None
    found += score_warnings(_log_score(figures["model"]), earlier, len(table))
    return [f"{text}; {REMEDY}" for text in found]


def _log_score(figures: dict[str, float]) -> float:
    """Return the mean log-density of numbers, or the mean log-probability of classes."""
    return figures["log_density"] if "log_density" in figures else -figures["log_loss"]


def require_threshold(threshold: float | None, model: BaseEstimator) -> None:
    """Raise unless it is a probability, for a model of two classes."""
    if threshold is None:
        return
    if not isinstance(model, ClassifierMixin) or len(model.classes_) != 2:
        raise CommandError("--threshold is for two classes; leave it out.")
    if not 0 < threshold < 1:
        raise CommandError(f"--threshold is a probability, as 0.3; got {threshold:g}.")


class Metrics:
    """The scores that --metric and --threshold add: quantile losses and scorers of scikit-learn."""

    def __init__(self, asked: Sequence[str], threshold: float | None, model: BaseEstimator) -> None:
        require_threshold(threshold, model)
        self._threshold, self._is_class = threshold, isinstance(model, ClassifierMixin)
        self._scorers = {name: self._scorer(name) for name in asked}
        by_threshold = ("precision", "recall", "f1") if threshold is not None else ()
        self.names = (*by_threshold, *asked)

    def __call__(self, prediction: Any, target: np.ndarray) -> dict[str, float]:
        """Return the scores of one prediction: distributions, or log-probabilities and labels as numbers."""
        found: dict[str, float] = {}
        if self._threshold is not None:
            second = np.exp(prediction[:, 1])
            found |= {s.key: s.value for s in threshold_scores(second, target, self._threshold)}
        for name, scorer in self._scorers.items():
            try:
                found[name] = float(scorer(prediction, target))
            except (ValueError, AttributeError, TypeError) as error:
                raise CommandError(f"--metric {name} cannot judge these predictions: {error}") from None
        return found

    def _scorer(self, name: str) -> Callable[[Any, np.ndarray], float]:
        kind, mark, word = name.partition("=")
        if kind == QUANTILE and not self._is_class:
            try:
                level = float(word if mark else "0.5")
            except ValueError:
                level = -1.0
            if not 0 < level < 1:
                raise CommandError(f"--metric {kind} takes a probability, as {kind}=0.9; got {name!r}.")
            return lambda prediction, y: quantile_loss(prediction, y, level)
        if name in get_scorer_names():
            known: Any = self._classes if self._is_class else lambda dist: KnownNumbers(dist.mean())
            return lambda prediction, y: get_scorer(name)(known(prediction), np.zeros((len(y), 1)), y)
        near = get_close_matches(name, [QUANTILE, *get_scorer_names()], n=1)
        advice = f"did you mean {near[0]}?" if near else "try r2, neg_mean_absolute_error, f1 or roc_auc."
        raise CommandError(
            f"--metric is a scorer of scikit-learn or, for numbers, {QUANTILE}=0.9; got {name!r}; {advice}"
        )

    def _classes(self, log_p: Floats) -> "KnownClasses":
        return KnownClasses(np.exp(log_p), self._threshold)


class KnownNumbers(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Hold predictions, so that scorers of scikit-learn can be called."""

    def __init__(self, mean: Floats) -> None:
        self.mean = np.asarray(mean)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Floats:
        """Return the means."""
        return self.mean


class KnownClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Hold class probabilities, so that scorers of scikit-learn can be called."""

    def __init__(self, p: Floats, threshold: float | None) -> None:
        self.p: Floats = p / p.sum(1, keepdims=True)
        self.threshold = threshold
        self.classes_ = np.arange(p.shape[1])

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> np.ndarray:
        """Return the numbers of the classes."""
        best: np.ndarray = self.p.argmax(1) if self.threshold is None else self.p[:, 1] >= self.threshold
        return best.astype(int)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities."""
        return self.p
