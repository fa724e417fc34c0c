"""Score a model and its two baselines: one without inputs, and a linear one.

*Naive* ignores the inputs: a normal distribution with the target's mean and variance, or the frequencies of
the classes. *Linear* is scikit-learn's `RidgeCV`, with the leave-one-out error as its variance, or
`LogisticRegression`, on standardised inputs; its coefficients are stored in the units of the inputs.

A prediction is a predictive distribution, or an array of log-probabilities of classes. The log-density, the
log-probability and the CRPS score whole predictive distributions; coverage and the calibration error (ECE)
compare probabilities with frequencies.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_softmax

from tggm.arrays import Bools, Floats, Ints
from tggm.censored import censored_scores
from tggm.predictive.gaussian_mixture import GaussianMixture
from tggm.tables.table import TableError

TITLES = {"model": "this model", "linear": "linear model", "naive": "no inputs"}
BINS = 15  # of the calibration error
Figures = dict[str, dict[str, float]]  # scores by model ("model", "linear", "naive") and measure
MOST_NUMBERS = 200_000  # coefficients that a model file can store
_TINY = float(np.finfo(np.float64).tiny)
_LEAST = np.log(1e-12)  # smallest log-probability of a class


@dataclass(frozen=True)
class Baselines:
    """The numbers of both baselines; a classification has one output per class."""

    naive: Floats  # (mean, variance), or log-frequencies of the classes
    coef: Floats  # (outputs, features)
    intercept: Floats  # (outputs,)
    variance: float = 1.0  # of the linear regression

    def check(self, width: int, is_class: bool) -> None:
        """Raise ValueError unless these are baselines for this number of features."""
        naive = self.naive
        if naive.ndim != 1 or not (is_class or (len(naive) == 2 and naive[1] > 0 and self.variance > 0)):
            raise ValueError("the baselines of a regression must have a mean and positive variances")
        outputs = len(naive) if is_class else 1
        shapes = self.coef.shape, self.intercept.shape
        if shapes != ((outputs, width), (outputs,)):
            raise ValueError(f"its linear baseline has shapes {shapes} for {width} inputs")

    def predictions(self, X: Floats, is_class: bool) -> dict[str, Any]:
        """Return predictive distributions, or log-probabilities of the classes, (rows, classes)."""
        score = X @ self.coef.T + self.intercept
        if is_class:
            linear = np.maximum(log_softmax(score, axis=1), _LEAST)
            return {"linear": linear, "naive": np.tile(self.naive, (len(X), 1))}
        mean = np.full_like(score[:, 0], self.naive[0])
        return {
            "naive": GaussianMixture(mean[None, :], np.full_like(mean, self.naive[1])[None, :]),
            "linear": GaussianMixture(score.T, np.full_like(score.T, self.variance)),
        }


def fit_baselines(X: Floats, y: NDArray[Any], is_class: bool) -> Baselines | None:
    """Fit both baselines; return None if numbers overflow, or if there are too many to be stored."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression, RidgeCV

    variance = 1.0
    # a baseline may stop early
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        shift, scale = X.mean(0), X.std(0)
        scale = np.where(scale > 0, scale, 1.0)
        Z = (X - shift[None, :]) / scale[None, :]
        if is_class:
            label, count = np.unique(y, return_inverse=True, return_counts=True)[1:]
            naive = np.log((count + 1.0) / (count + 1.0).sum())
            model: Any = LogisticRegression(max_iter=300).fit(Z, label)
            coef, intercept = model.coef_, model.intercept_
            if len(count) == 2:  # scikit-learn stores only the second class
                coef, intercept = np.vstack([np.zeros_like(coef), coef]), np.r_[0.0, intercept]
        else:
            naive = np.array([y.mean(), max(y.var(ddof=min(1, len(y) - 1)), _TINY)])
            model = RidgeCV(np.logspace(-3, 3, 13)).fit(Z, y)  # the best penalty by leave-one-out errors
            coef, intercept = model.coef_[None, :], np.array([model.intercept_])
            variance = max(float(-model.best_score_), _TINY)
        coef = coef / scale[None, :]
        intercept = intercept - coef @ shift
    finite = all(np.isfinite(a).all() for a in (naive, coef, intercept, variance))
    return Baselines(naive, coef, intercept, variance) if finite and coef.size <= MOST_NUMBERS else None


def predictions(model: Any, rows: Any, baselines: Baselines | None, X: Floats) -> dict[str, Any]:
    """Return the predictions of a model and of its baselines, by name; `X` are the encoded rows."""
    is_class = model.task == "classification"
    found = {} if baselines is None else baselines.predictions(X, is_class)
    found["model"] = model.predict_log_proba(rows) if is_class else model.predict_dist(rows)
    return {name: found[name] for name in TITLES if name in found}


def positive_class(classes: Any, y: Any, given: Any = None, baselines: Baselines | None = None) -> int | None:
    """Return the position of the positive one of two classes: the given one, or the rarer one.

    Frequencies are those of the baselines' training rows, or of `y`.
    """
    names = [str(label) for label in classes]
    if given is None:
        rows = [np.sum(y == label) for label in classes] if baselines is None else baselines.naive
        return int(rows[1] <= rows[0]) if len(names) == 2 else None
    if len(names) != 2:
        raise TableError("a positive class is for targets of two classes; leave it out.")
    if str(given) not in names:
        raise TableError(f"the positive class must be {' or '.join(names)}; got {str(given)!r}.")
    return names.index(str(given))


def score_all(
    model: Any, rows: Any, baselines: Baselines | None, X: Floats, y: NDArray[Any],
    threshold: float | None = None, positive: int | None = None, side: Floats | None = None,
) -> Figures:  # fmt: skip
    """Return the scores of a model and of its baselines on rows with the targets `y`; `side` are limits."""
    outcome = np.searchsorted(model.classes_, y) if model.task == "classification" else y
    found = predictions(model, rows, baselines, X)
    if side is not None:
        return {name: censored_scores(prediction, y, side) for name, prediction in found.items()}
    return {name: scores(prediction, outcome, threshold, positive) for name, prediction in found.items()}


def scores(
    prediction: Any, y: ArrayLike, threshold: float | None = None, positive: int | None = None
) -> dict[str, float]:
    """Return the scores of one prediction by key; classes are numbered from 0.

    With a threshold, the class `positive` of two is chosen if its probability is at least the threshold.
    """
    rows, outcome = row_scores(prediction, y), np.asarray(y)
    log_score = float(rows["log_score"].mean())
    if isinstance(prediction, np.ndarray):
        return _class_scores(prediction, outcome, -log_score, threshold, 1 if positive is None else positive)
    inside = np.abs(2 * np.asarray(prediction.pit(outcome)) - 1)
    found = {"rmse": float(np.sqrt(rows["rmse"].mean()))}
    if np.var(outcome) > 0:
        found["r2"] = 1 - float(rows["rmse"].mean() / np.var(outcome))
    found |= {"log_density": log_score, "crps": float(rows["crps"].mean())}
    return found | {"cover50": float(np.mean(inside <= 0.5)), "cover90": float(np.mean(inside <= 0.9))}


def row_scores(prediction: Any, y: ArrayLike) -> dict[str, Floats]:
    """Return the scores of each row: squared error, log-score and CRPS, or error and log-score."""
    if isinstance(prediction, np.ndarray):
        label = np.asarray(y)
        wrong = np.asarray(prediction.argmax(1) != label, np.float64)
        return {"error": wrong, "log_score": prediction[np.arange(len(label)), label]}
    y = np.asarray(y, np.float64)
    squares = (y - prediction.mean()) ** 2
    return {"rmse": squares, "log_score": prediction.logpdf(y), "crps": prediction.crps(y)}


def choose_class(p: Floats, threshold: float | None, positive: int | None) -> Ints:
    """Return the most probable class or, with a threshold, the positive class from that probability on."""
    best: Ints = p.argmax(1)
    if threshold is None or positive is None:
        return best
    return np.where(p[:, positive] >= threshold, positive, 1 - positive)


def _class_scores(
    log_p: Floats, label: Ints, loss: float, threshold: float | None, positive: int
) -> dict[str, float]:
    from sklearn import metrics

    p, best = np.exp(log_p), log_p.argmax(1)
    chosen = choose_class(p, threshold, positive)
    found = {
        "accuracy": metrics.accuracy_score(label, chosen),
        "balanced": metrics.recall_score(label, chosen, labels=np.unique(label), average="macro"),
        "log_loss": loss,
        "ece": calibration_error(p.max(1), best == label),
    }
    if len(np.unique(label)) == p.shape[1] == 2:
        found["auc"] = metrics.roc_auc_score(label, p[:, 1])
        found["average_precision"] = metrics.average_precision_score(label == positive, p[:, positive])
    elif len(np.unique(label)) == p.shape[1]:  # the mean over classes
        found["auc"] = metrics.roc_auc_score(label, p / p.sum(1, keepdims=True), multi_class="ovr")
    if threshold is not None:
        for name in ("precision", "recall", "f1"):
            score = getattr(metrics, f"{name}_score")
            found[name] = score(label, chosen, pos_label=positive, zero_division=0.0)
    return {key: float(value) for key, value in found.items()}


def calibration_error(confidence: Floats, correct: Bools, bins: int = BINS) -> float:
    """Return Σ_b (n_b / N) |accuracy_b − mean probability_b| over bins b of equal width."""
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    return float(np.abs(np.bincount(which, correct - confidence, bins)).sum() / len(confidence))
