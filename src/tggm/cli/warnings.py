"""What `tggm evaluate` warns of: rows that are unlike those of training."""

from typing import TYPE_CHECKING

import numpy as np

from tggm.tables import Preparation
from tggm.tables.preparation import Figures

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


def warnings_of(
    model: "BaseEstimator", preparation: Preparation, X: np.ndarray, figures: Figures
) -> list[str]:
    """Sentences on inputs that have moved and observations that have become less likely, with a remedy."""
    from tggm.report.drift import REMEDY, drift_warnings, score_warnings

    found = drift_warnings(model, X, preparation.feature_names)
    known = preparation.fitted.figures.get("model") if preparation.fitted is not None else None
    fresh = figures["model"]
    found += score_warnings(_score(fresh), None if known is None else _score(known), len(X))
    return [f"{words}; {REMEDY}" for words in found]


def _score(figures: dict[str, float]) -> float:
    """Mean log-density of numbers, or log-probability of classes."""
    return figures["log_density"] if "log_density" in figures else -figures["log_loss"]
