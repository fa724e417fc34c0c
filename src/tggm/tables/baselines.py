"""Two baselines that a model file stores: one without inputs, and a linear one.

*Naive* ignores the inputs: a normal distribution with the target's mean and variance, or the frequencies of
the classes. *Linear* is scikit-learn's `RidgeCV`, with the leave-one-out error as its variance, or
`LogisticRegression`, on standardised inputs; its coefficients are stored in the units of the inputs.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from tggm.arrays import Floats
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
        naive, variance = self.naive, 1.0 if self.variance is None else self.variance
        if naive.ndim != 1 or not (is_class or (len(naive) == 2 and naive[1] > 0 and variance > 0)):
            raise ValueError("the baselines of a regression must have a mean and positive variances")
        outputs = len(naive) if is_class else 1
        shapes = [None if a is None else a.shape for a in (self.coef, self.intercept)]
        if shapes not in ([None, None], [(outputs, width), (outputs,)]):
            raise ValueError(f"its linear baseline has shapes {shapes} for {width} inputs")

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


def _normal(mean: Floats, variance: float) -> GaussianMixture:
    return GaussianMixture(mean[None, :], np.full((1, len(mean)), variance))


def fit_baselines(X: Floats | None, y: NDArray[Any], n_classes: int | None = None) -> Baselines:
    """Fit both to numbers, or to classes numbered from 0; without `X` only the naive one.

    There is no linear one if it is too large, or overflows, as squares of huge inputs do.
    """
    if n_classes is None:
        naive = Baselines(np.array([y.mean(), max(y.var(ddof=min(1, len(y) - 1)), _TINY)]))
    else:
        count = np.bincount(y, minlength=n_classes) + 1.0  # one more, so that none is zero
        naive = Baselines(np.log(count / count.sum()))
    if X is None or X.shape[1] * (n_classes or 1) > MOST_NUMBERS:
        return naive
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a baseline may stop early
        shift, scale = X.mean(0), X.std(0)
        scale = np.where(scale > 0, scale, 1.0)
        if not np.isfinite(scale).all():
            return naive
        coef, intercept, variance = _linear((X - shift[None, :]) / scale[None, :], y, n_classes)
        coef = coef / scale[None, :]
        intercept = intercept - coef @ shift
    finite = all(np.isfinite(a).all() for a in (coef, intercept, variance or 0.0))
    return replace(naive, coef=coef, intercept=intercept, variance=variance) if finite else naive


def _linear(Z: Floats, y: NDArray[Any], n_classes: int | None) -> tuple[Floats, Floats, float | None]:
    """Return coefficients, intercepts and variance; the penalty of a ridge is the best of 13."""
    from sklearn.linear_model import LogisticRegression, RidgeCV

    if n_classes is None:
        ridge = RidgeCV(np.logspace(-3, 3, 13)).fit(Z, y)
        return ridge.coef_[None, :], np.array([ridge.intercept_]), max(float(-ridge.best_score_), _TINY)
    model = LogisticRegression(max_iter=300).fit(Z, y)
    if n_classes > 2:
        return model.coef_, model.intercept_, None
    # scikit-learn stores only the second class
    return np.vstack([np.zeros_like(model.coef_), model.coef_]), np.r_[0.0, model.intercept_], None
