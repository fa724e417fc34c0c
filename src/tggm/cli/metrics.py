"""Figures of the user's choice: quantile losses, scorers of scikit-learn, and what a threshold is worth."""

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

from tggm.arrays import Floats
from tggm.cli.errors import CommandError
from tggm.report.scores import quantile_loss, threshold_scores

QUANTILE = "quantile_loss"
BY_THRESHOLD = ("precision", "recall", "f1")


@dataclass(frozen=True)
class Metrics:
    """What `tggm evaluate` was asked for besides the usual figures."""

    asked: tuple[str, ...]
    threshold: float | None
    is_class: bool
    n_outputs: int  # or classes

    def __post_init__(self) -> None:
        if self.threshold is not None:
            require_threshold(self.threshold, self.is_class, self.n_outputs)
        for name in self.asked:
            self._scorer(name)

    @property
    def names(self) -> tuple[str, ...]:
        """Keys of the figures that a table shows besides the usual ones."""
        return (*(BY_THRESHOLD if self.threshold is not None else ()), *self.asked)

    def __call__(self, prediction: Any, target: np.ndarray) -> dict[str, float]:
        """The figures of one prediction: distributions, or log-probabilities and labels as numbers."""
        found: dict[str, float] = {}
        if self.threshold is not None:
            second = np.exp(prediction[:, 1])
            found |= {s.key: s.value for s in threshold_scores(second, target, self.threshold)}
        for name in self.asked:
            found[name] = self._value(name, prediction, target)
        return found

    def _value(self, name: str, prediction: Any, target: np.ndarray) -> float:
        level, scorer = self._scorer(name)
        if level is not None:
            return quantile_loss(prediction, target, level)
        answers: Any = (
            KnownClasses(np.exp(prediction), self.threshold)
            if self.is_class
            else KnownNumbers(np.asarray(prediction.mean()))
        )
        try:
            return float(scorer(answers, np.zeros((len(target), 1)), target))
        except (ValueError, AttributeError, TypeError) as error:
            raise CommandError(f"--metric {name} cannot judge these predictions: {error}") from None

    def _scorer(self, name: str) -> tuple[float | None, Any]:
        """The level of a quantile loss, or a scorer."""
        kind, mark, word = name.partition("=")
        if kind == QUANTILE and not self.is_class:
            return _level(name, word if mark else "0.5"), None
        if name in get_scorer_names():
            return None, get_scorer(name)
        near = get_close_matches(name, [QUANTILE, *get_scorer_names()], n=1)
        hint = f"did you mean {near[0]}?" if near else "try r2, neg_mean_absolute_error, f1 or roc_auc."
        raise CommandError(
            f"--metric is a scorer of scikit-learn or, for numbers, {QUANTILE}=0.9; got {name!r}; {hint}"
        )


def require_threshold(threshold: float, is_class: bool, classes: int) -> None:
    """Raise unless it is a probability, for a model of two classes."""
    if not is_class or classes != 2:
        raise CommandError("--threshold is for two classes; leave it out.")
    if not 0 < threshold < 1:
        raise CommandError(f"--threshold is a probability, as 0.3; got {threshold:g}.")


def _level(name: str, word: str) -> float:
    try:
        level = float(word)
    except ValueError:
        level = -1.0
    if not 0 < level < 1:
        raise CommandError(f"--metric {QUANTILE} takes a probability, as {QUANTILE}=0.9; got {name!r}.")
    return level


class KnownNumbers(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Predictions that are known, as scorers want them."""

    def __init__(self, mean: Floats) -> None:
        self.mean = mean

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Floats:
        """The means."""
        return self.mean


class KnownClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The same of classes, which are numbered."""

    def __init__(self, p: Floats, threshold: float | None) -> None:
        self.p: Floats = p / p.sum(1, keepdims=True)
        self.threshold = threshold
        self.classes_ = np.arange(p.shape[1])

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> np.ndarray:
        """Numbers of the classes."""
        best: np.ndarray = self.p.argmax(1) if self.threshold is None else self.p[:, 1] >= self.threshold
        return best.astype(int)

    def predict_proba(self, X: Any) -> Floats:
        """Their probabilities."""
        return self.p
