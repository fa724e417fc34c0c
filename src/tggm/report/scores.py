"""How good predictive distributions are: one number for each question, the same for every model and baseline.

Log-density and log-probability reward putting probability where the observation fell; CRPS and the Brier
score do too, and forgive more; coverage and the calibration error ask whether probabilities are frequencies.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tggm.arrays import Bools, Floats, Ints

LEVELS = (0.5, 0.8, 0.9, 0.95)
BINS = 15  # of the calibration error


class Score(NamedTuple):
    """One measure: what it is called, its value, and which way is better."""

    key: str
    name: str
    value: float
    better: str  # "low", "high", or a target such as "90 %"


def regression_scores(dist: Any, y: ArrayLike) -> list[Score]:
    """Scores of one predictive distribution a row, in the units of the target."""
    y = np.asarray(y, np.float64)
    error = y - np.asarray(dist.mean())
    inside = np.abs(2 * np.asarray(dist.cdf(y)) - 1)
    return [
        Score("rmse", "RMSE", float(np.sqrt(np.mean(error**2))), "low"),
        Score("mae", "mean absolute error", float(np.mean(np.abs(error))), "low"),
        *_explained(error, y),
        Score("log_density", "mean log-density", float(np.mean(dist.logpdf(y))), "high"),
        Score("crps", "CRPS", float(np.mean(dist.crps(y))), "low"),
        Score("cover50", "in the 50 % interval", float(np.mean(inside <= 0.5)), "50 %"),
        Score("cover90", "in the 90 % interval", float(np.mean(inside <= 0.9)), "90 %"),
    ]


def quantile_loss(dist: Any, y: ArrayLike, level: float) -> float:
    """Mean pinball loss of one predicted quantile: E max(q (y − z), (q − 1) (y − z)), z the quantile."""
    gap = np.asarray(y, np.float64) - np.asarray(dist.ppf(np.array([[level]])))[:, 0]
    return float(np.mean(np.maximum(level * gap, (level - 1) * gap)))


def threshold_scores(second: Floats, label: Ints, threshold: float) -> list[Score]:
    """How good the choice of the second of two classes is, where its probability is this or more."""
    chosen = second >= threshold
    hit = float((chosen & (label == 1)).sum())
    precision, recall = hit / max(chosen.sum(), 1), hit / max((label == 1).sum(), 1)
    f1 = 2 * hit / max(float(chosen.sum() + (label == 1).sum()), 1.0)
    right = chosen == (label == 1)
    recalls = [right[label == c].mean() for c in np.unique(label)]
    return [
        Score("accuracy", "accuracy", float(right.mean()), "high"),
        Score("balanced", "balanced accuracy", float(np.mean(recalls)), "high"),
        Score("precision", "precision of the second class", float(precision), "high"),
        Score("recall", "recall of the second class", float(recall), "high"),
        Score("f1", "F1 of the second class", f1, "high"),
    ]


def class_scores(log_probability: ArrayLike, label: Ints) -> list[Score]:
    """Scores of the probabilities of the classes, shape (rows, classes); `label` counts the classes."""
    log_p = np.asarray(log_probability, np.float64)
    p = np.exp(log_p)
    rows = np.arange(len(label))
    truth = np.zeros_like(p)
    truth[rows, label] = 1
    right = p.argmax(1) == label
    recall = [right[label == c].mean() for c in np.unique(label)]
    return [
        Score("accuracy", "accuracy", float(right.mean()), "high"),
        Score("balanced", "balanced accuracy", float(np.mean(recall)), "high"),
        Score("log_loss", "mean negative log-probability", float(-log_p[rows, label].mean()), "low"),
        Score("brier", "Brier score, sum over classes", float(((p - truth) ** 2).sum(1).mean()), "low"),
        Score("ece", "calibration error (ECE)", calibration_error(p.max(1), right), "low"),
        *_ranks(p, label),
    ]


def _explained(error: Floats, y: Floats) -> list[Score]:
    """The part of the variance that is explained, unless there is none."""
    variance = float(np.var(y))
    return [Score("r2", "R²", 1 - float(np.mean(error**2)) / variance, "high")] if variance > 0 else []


def _ranks(p: Floats, label: Ints) -> list[Score]:
    """How well probabilities put rows in order: of the second of two classes, or each class against all.

    Rows of one class only have no order.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    if len(np.unique(label)) < p.shape[1]:
        return []
    if p.shape[1] > 2:
        auc = roc_auc_score(label, p / p.sum(1, keepdims=True), multi_class="ovr")
        return [Score("auc", "AUC, mean of the classes", float(auc), "high")]
    precision = float(average_precision_score(label, p[:, 1]))
    return [
        Score("auc", "AUC", float(roc_auc_score(label, p[:, 1])), "high"),
        Score("average_precision", "average precision", precision, "high"),
    ]


def calibration_error(sure: Floats, right: Bools, bins: int = BINS) -> float:
    r"""Expected calibration error: Σ_b (n_b / N) |accuracy_b − mean probability_b|, bins of equal width."""
    which = np.minimum((sure * bins).astype(int), bins - 1)
    gap = np.bincount(which, right - sure, bins)
    return float(np.abs(gap).sum() / len(sure))


def coverage(dist: Any, y: ArrayLike, levels: tuple[float, ...] = LEVELS) -> list[tuple[float, float, float]]:
    """For each level: the level, the part of the observations inside, and the mean width of the interval."""
    y = np.asarray(y, np.float64)
    inside = np.abs(2 * np.asarray(dist.cdf(y)) - 1)
    tails = np.asarray(levels)
    ends = dist.ppf(np.concatenate([0.5 - 0.5 * tails, 0.5 + 0.5 * tails])[None, :])
    width = (ends[:, len(tails) :] - ends[:, : len(tails)]).mean(0)
    return [(p, float(np.mean(inside <= p)), float(w)) for p, w in zip(levels, width, strict=True)]
