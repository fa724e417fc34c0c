"""Two baselines that a model file stores: one without inputs, and a linear one.

*Naive* ignores the inputs: a normal distribution with the target's mean and variance, or the frequencies of
the classes. *Linear* is scikit-learn's `RidgeCV`, with the leave-one-out error as its variance, or
`LogisticRegression`, on standardised inputs; its coefficients are stored in the units of the inputs.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from tggm.arrays import Floats, Ints
from tggm.predictive.gaussian_mixture import GaussianMixture

MOST_NUMBERS = 200_000  # coefficients; a larger linear baseline is not stored
_TINY = float(np.finfo(np.float64).tiny)
_LEAST = np.log(1e-12)  # smallest log-probability of a class


@dataclass(frozen=True)
class Baselines:
    """The numbers of both baselines; a classification has one output per class."""

    naive: Floats  # (mean, variance), or log-frequencies of the classes
    coef: Floats | None = None  # (outputs, features)
    intercept: Floats | None = None  # (outputs,)
    variance: float | None = None  # of the linear regression

    def check(self, width: int, is_class: bool) -> None:
        """Raise ValueError unless these are baselines for this number of features."""
        naive, outputs = self.naive, len(self.naive) if is_class else 1
        positive = is_class or (
            len(naive) == 2 and min(naive[1], 1.0 if self.variance is None else self.variance) > 0
        )
        if naive.ndim != 1 or not positive:
            raise ValueError("the baselines of a regression must have a mean and positive variances")
        shapes = [None if a is None else a.shape for a in (self.coef, self.intercept)]
        if shapes != [None, None] and shapes != [(outputs, width), (outputs,)]:
            raise ValueError(
                f"its linear baseline has shapes {shapes}, not {(outputs, width)} and {(outputs,)}"
            )

    def regression(self, X: Floats) -> dict[str, GaussianMixture]:
        """Return the predictive distributions."""
        found = {"naive": _normal(np.full(len(X), self.naive[0]), self.naive[1])}
        if self.coef is not None and self.intercept is not None and self.variance is not None:
            found["linear"] = _normal(X @ self.coef[0] + self.intercept[0], self.variance)
        return found

    def classes(self, X: Floats) -> dict[str, Floats]:
        """Return the log-probabilities of the classes, (rows, classes)."""
        found = {"naive": np.tile(self.naive, (len(X), 1))}
        if self.coef is not None and self.intercept is not None:
            score = X @ self.coef.T + self.intercept[None, :]
            found["linear"] = np.maximum(log_softmax(score, axis=1), _LEAST)
        return found


def fit_baselines(X: Floats, y: NDArray[Any], is_class: bool) -> Baselines | None:
    """Fit both baselines, or return None if their numbers overflow, as squares of huge inputs do."""
    with np.errstate(all="ignore"):
        if is_class:
            classes, label = np.unique(y, return_inverse=True)
            found = fit_classes(X, label, len(classes))
        else:
            found = fit_regression(X, y)
    numbers = (found.naive, found.coef, found.intercept, found.variance)
    return found if all(np.isfinite(a).all() for a in numbers if a is not None) else None


def fit_regression(X: Floats, y: Floats) -> Baselines:
    """Fit both to a regression; the ridge penalty is the best of 13 by leave-one-out errors."""
    from sklearn.linear_model import RidgeCV

    Z, shift, scale = _standardised(X)
    model = RidgeCV(np.logspace(-3, 3, 13)).fit(Z, y)
    coef = (model.coef_ / scale)[None, :]
    variance = max(float(-model.best_score_), _TINY)
    return _kept(naive_regression(y), coef, np.array([model.intercept_]) - coef @ shift, variance)


def fit_classes(X: Floats, label: Ints, n_classes: int) -> Baselines:
    """Fit both to classes, numbered from 0."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    Z, shift, scale = _standardised(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline may stop early
        model = LogisticRegression(max_iter=300).fit(Z, label)
    coef, intercept = model.coef_, model.intercept_
    if n_classes == 2:  # scikit-learn stores only the second class
        coef, intercept = np.vstack([np.zeros_like(coef), coef]), np.r_[0.0, intercept]
    coef = coef / scale[None, :]
    return _kept(naive_classes(label, n_classes), coef, intercept - coef @ shift)


def naive_regression(y: Floats) -> Baselines:
    """Return mean and variance, without a linear baseline."""
    return Baselines(np.array([y.mean(), max(y.var(ddof=min(1, len(y) - 1)), _TINY)]))


def naive_classes(label: Ints, n_classes: int) -> Baselines:
    """Return the frequencies of the classes; one row is added to each, so that none is zero."""
    count = np.bincount(label, minlength=n_classes) + 1.0
    return Baselines(np.log(count / count.sum()))


def _kept(naive: Baselines, coef: Floats, intercept: Floats, variance: float | None = None) -> Baselines:
    """Return both baselines, or only the naive one if the linear one is too large."""
    return naive if coef.size > MOST_NUMBERS else Baselines(naive.naive, coef, intercept, variance)


def _standardised(X: Floats) -> tuple[Floats, Floats, Floats]:
    shift, scale = X.mean(0), X.std(0)
    scale = np.where(scale > 0, scale, 1.0)
    return (X - shift[None, :]) / scale[None, :], shift, scale


def _normal(mean: Floats, variance: float) -> GaussianMixture:
    return GaussianMixture(mean[None, :], np.full((1, len(mean)), variance))
