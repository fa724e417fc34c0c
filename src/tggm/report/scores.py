"""Scores of predictive distributions and class probabilities, and warnings about unusual rows.

The log-density, the log-probability, the CRPS and the Brier score rate whole predictive distributions;
coverage and the calibration error compare probabilities with frequencies.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn import metrics

from tggm.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

LEVELS = (0.5, 0.8, 0.9, 0.95)
BINS = 15  # of the calibration error
SHIFT = 0.5  # shift of a column's mean, in standard deviations, that is reported
ERRORS = 5.0  # standard errors that it must exceed
FAR = 10.0  # standard deviations beyond which training clips a value
SHARE = 0.01  # fraction of rows with such a value that is reported
LOSS = 0.5  # decrease of the mean log-score, in nats, that is reported
LEAST_ROWS = 20  # for which it is reported
MENTIONED = 3  # columns
REMEDY = "use `recalibrate` if means are still right; otherwise fit again with rows like these"


class Score(NamedTuple):
    """A measure: its name, its value, and which direction is better."""

    key: str
    name: str
    value: float
    better: str  # "low", "high", or a target such as "90 %"


def regression_scores(dist: Any, y: ArrayLike) -> list[Score]:
    """Score one predictive distribution per row, in the units of the target."""
    y, mean = np.asarray(y, np.float64), np.asarray(dist.mean())
    inside = np.abs(2 * np.asarray(dist.cdf(y)) - 1)
    r2 = [Score("r2", "R²", float(metrics.r2_score(y, mean)), "high")] if np.var(y) > 0 else []
    return [
        Score("rmse", "RMSE", float(metrics.root_mean_squared_error(y, mean)), "low"),
        Score("mae", "mean absolute error", float(metrics.mean_absolute_error(y, mean)), "low"),
        *r2,
        Score("log_density", "mean log-density", float(np.mean(dist.logpdf(y))), "high"),
        Score("crps", "CRPS", float(np.mean(dist.crps(y))), "low"),
        Score("cover50", "in the 50 % interval", float(np.mean(inside <= 0.5)), "50 %"),
        Score("cover90", "in the 90 % interval", float(np.mean(inside <= 0.9)), "90 %"),
    ]


def quantile_loss(dist: Any, y: ArrayLike, level: float) -> float:
    """Return the mean pinball loss of one predicted quantile."""
    quantile = np.asarray(dist.ppf(np.array([[level]])))[:, 0]
    return float(metrics.mean_pinball_loss(np.asarray(y, np.float64), quantile, alpha=level))


def threshold_scores(second: Floats, label: Ints, threshold: float) -> list[Score]:
    """Score the choice of the second of two classes where its probability reaches the threshold."""
    chosen = (second >= threshold).astype(int)
    counted = {"zero_division": 0.0}
    return [
        *_accuracies(chosen, label),
        Score("precision", "precision of the second class",
              float(metrics.precision_score(label, chosen, **counted)), "high"),
        Score("recall", "recall of the second class",
              float(metrics.recall_score(label, chosen, **counted)), "high"),
        Score("f1", "F1 of the second class", float(metrics.f1_score(label, chosen, **counted)), "high"),
    ]  # fmt: skip


def class_scores(log_probability: ArrayLike, label: Ints) -> list[Score]:
    """Score log-probabilities of the classes, shape (rows, classes); `label` has class numbers."""
    log_p = np.asarray(log_probability, np.float64)
    p, chosen = np.exp(log_p), log_p.argmax(1)
    brier = float(((p - np.eye(p.shape[1])[label]) ** 2).sum(1).mean())
    loss = float(-log_p[np.arange(len(label)), label].mean())
    return [
        *_accuracies(chosen, label),
        Score("log_loss", "mean negative log-probability", loss, "low"),
        Score("brier", "Brier score, sum over classes", brier, "low"),
        Score("ece", "calibration error (ECE)", calibration_error(p.max(1), chosen == label), "low"),
        *_ranking_scores(p, label),
    ]


def _accuracies(chosen: Ints, label: Ints) -> list[Score]:
    balanced = metrics.recall_score(label, chosen, labels=np.unique(label), average="macro")
    return [
        Score("accuracy", "accuracy", float(metrics.accuracy_score(label, chosen)), "high"),
        Score("balanced", "balanced accuracy", float(balanced), "high"),
    ]


def _ranking_scores(p: Floats, label: Ints) -> list[Score]:
    """Return the AUC of the second of two classes, or the mean over classes; none if a class is missing."""
    if len(np.unique(label)) < p.shape[1]:
        return []
    if p.shape[1] > 2:
        auc = metrics.roc_auc_score(label, p / p.sum(1, keepdims=True), multi_class="ovr")
        return [Score("auc", "AUC, mean of the classes", float(auc), "high")]
    precision = float(metrics.average_precision_score(label, p[:, 1]))
    return [
        Score("auc", "AUC", float(metrics.roc_auc_score(label, p[:, 1])), "high"),
        Score("average_precision", "average precision", precision, "high"),
    ]


def calibration_error(confidence: Floats, right: Bools, bins: int = BINS) -> float:
    """Return Σ_b (n_b / N) |accuracy_b − mean probability_b| over bins b of equal width."""
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    gap = np.bincount(which, right - confidence, bins)
    return float(np.abs(gap).sum() / len(confidence))


def coverage(dist: Any, y: ArrayLike, levels: tuple[float, ...] = LEVELS) -> list[tuple[float, float, float]]:
    """Return for each level: the level, the fraction of observations inside, and the mean width."""
    y = np.asarray(y, np.float64)
    inside = np.abs(2 * np.asarray(dist.cdf(y)) - 1)
    tails = np.asarray(levels)
    ends = dist.ppf(np.concatenate([0.5 - 0.5 * tails, 0.5 + 0.5 * tails])[None, :])
    width = (ends[:, len(tails) :] - ends[:, : len(tails)]).mean(0)
    return [(p, float(np.mean(inside <= p)), float(w)) for p, w in zip(levels, width, strict=True)]


def drift_warnings(model: "BaseEstimator", X: Any, names: Sequence[str]) -> list[str]:
    """Return sentences on inputs that differ from the training rows.

    In N rows like the training rows the mean of a standardised column is normal with deviation 1/√N. A shift
    is reported if it exceeds `ERRORS` of these and `SHIFT` deviations; extreme values if they are frequent.
    """
    scale, found = model.fitted_.scales.x, []
    if sparse.issparse(X) or not len(X) or not scale.shift.any():  # the model has no means
        return []
    Z = scale.apply(np.asarray(X, np.float64))
    mean = np.clip(Z, -FAR, FAR).mean(0)
    moved = np.flatnonzero(np.abs(mean) > max(SHIFT, ERRORS / np.sqrt(len(Z))))
    weighted = model.get_params(deep=False).get("class_weight") is not None  # means are of weighted rows
    if len(moved) and not weighted:
        first = moved[np.argsort(-np.abs(mean[moved]))][:MENTIONED]
        listed = ", ".join(f"{names[j]} by {mean[j]:+.1f}" for j in first)
        more = ", ..." if len(moved) > len(first) else ""
        found.append(
            f"{len(moved)} of {len(mean)} inputs have other means than in training, in standard deviations: "
            f"{listed}{more}"
        )
    far = (np.abs(Z) > FAR).any(1)
    if far.mean() > SHARE:
        found.append(
            f"{int(far.sum())} of {len(Z)} rows have a value more than ten standard deviations from the mean"
        )
    return found


def score_warnings(new: float, known: float | None, rows: int) -> list[str]:
    """Compare the mean log-score of new rows with that of the rows held out in the fit."""
    if known is None or new > known - LOSS or rows < LEAST_ROWS:
        return []
    text = "observations are less likely than those held out in the fit"
    return [f"{text}: {new:.2f} and {known:.2f} nats per row"]
