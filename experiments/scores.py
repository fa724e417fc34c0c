"""Score predictions, in the same way in all experiments."""

from typing import Any

import numpy as np
from scipy.stats import norm

LEVELS = (20, 50, 80, 90, 95)  # of central intervals, in per cent
SMALLEST = 1e-15  # smallest probability of a label, so that one row cannot make a log-likelihood infinite
Figures = dict[str, float]


def rms(error: Any) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(error**2)))


def distribution(dist: Any, y: np.ndarray) -> Figures:
    """Score a predictive distribution: RMSE, log-likelihood, CRPS, and coverage of central intervals.

    "cover" is the share of rows inside the interval. If single values have a probability it may exceed the
    level; "pit" is the same share by a randomised transform, which does not.
    """
    high = dist.cdf(y)
    low = high - np.exp(dist.logpmf(y)) if hasattr(dist, "logpmf") else high
    pit = dist.pit(y) if hasattr(dist, "pit") else high
    found = {
        "rmse": rms(y - dist.mean()),
        "ll": float(dist.logpdf(y).mean()),
        "crps": float(dist.crps(y).mean()),
    }
    for p in LEVELS:
        inside = (high >= 0.5 - p / 200) & (low < 0.5 + p / 200)
        found[f"cover{p}"] = float(np.mean(inside))
        found[f"pit{p}"] = float(np.mean(np.abs(pit - 0.5) < p / 200))
    return found


class Gaussian:
    """Gaussian predictions, with the CRPS of Gneiting and Raftery (2007), section 4.2."""

    def __init__(self, mean: np.ndarray, std: np.ndarray) -> None:
        self._mean, self._std = mean, std

    def mean(self) -> np.ndarray:
        """Return the means."""
        return self._mean

    def cdf(self, y: np.ndarray) -> Any:
        """Return the distribution function."""
        return norm.cdf(y, self._mean, self._std)

    def logpdf(self, y: np.ndarray) -> Any:
        """Return the log-density."""
        return norm.logpdf(y, self._mean, self._std)

    def crps(self, y: np.ndarray) -> Any:
        """Return the continuous ranked probability score."""
        z = (y - self._mean) / self._std
        return self._std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))


class Quantiles:
    """Predicted quantiles at levels (k − ½) / K, scored as K values of equal probability.

    The CRPS of such a distribution is exactly twice the mean pinball loss. There is no density.
    """

    def __init__(self, values: np.ndarray) -> None:
        self._values = np.sort(values, axis=1)
        self._levels = levels_of(values.shape[1])

    def mean(self) -> np.ndarray:
        """Return the means."""
        return np.asarray(self._values.mean(1))

    def cdf(self, y: np.ndarray) -> Any:
        """Interpolate the distribution function; 0 and 1 outside of all quantiles."""
        pairs = zip(y, self._values, strict=True)
        return np.array([np.interp(x, q, self._levels, 0.0, 1.0) for x, q in pairs])

    def logpdf(self, y: np.ndarray) -> Any:
        """Return NaN."""
        return np.full(len(y), np.nan)

    def crps(self, y: np.ndarray) -> Any:
        """Return twice the mean pinball loss."""
        error = y[:, None] - self._values
        return 2 * np.maximum(self._levels * error, (self._levels - 1) * error).mean(1)


class Samples(Quantiles):
    """K draws of each row, one row per line; the CRPS is unbiased, as if there were infinitely many draws."""

    def crps(self, y: np.ndarray) -> Any:
        """Return mean |x − y| minus half the mean distance of two different draws."""
        count = self._values.shape[1]
        spacing = (4 * self._levels - 2) * self._values  # its mean is that of |x − x'|, equal draws included
        return super().crps(y) - spacing.mean(1) / (2 * (count - 1))


def new_rows(X: np.ndarray, X_test: np.ndarray) -> np.ndarray:
    """Say which test rows have inputs that no training row has."""
    known = set(map(bytes, np.ascontiguousarray(X)))
    return np.array([bytes(x) not in known for x in np.ascontiguousarray(X_test)])


def climatology(train: np.ndarray, y: np.ndarray) -> float:
    """Return the mean CRPS, on the rows y, of the empirical distribution of the training targets."""
    known = np.sort(train)
    n, below = len(known), np.searchsorted(known, y)
    sums = np.concatenate([[0.0], np.cumsum(known)])
    distance = (2 * below - n) * y - 2 * sums[below] + sums[n]  # Σ |x − y|
    spread = ((2 * np.arange(n) - n + 1) * known).sum() / n**2  # half the mean distance of two targets
    return float((distance / n).mean() - spread)


def frequencies(train: np.ndarray, y: np.ndarray) -> float:
    """Return the mean log-probability of the labels y by the frequencies of the training labels."""
    known, count = np.unique(train, return_counts=True)
    share = np.append(count / len(train), SMALLEST)  # of labels that no training row has
    place = np.minimum(np.searchsorted(known, y), len(known) - 1)
    return float(np.log(share[np.where(known[place] == y, place, len(known))]).mean())


def levels_of(count: int) -> np.ndarray:
    """Return the levels (k − ½) / K of K quantiles."""
    return (np.arange(count) + 0.5) / count


def labels(y: np.ndarray, classes: np.ndarray, probability: np.ndarray) -> Figures:
    """Score class probabilities: share of wrong labels and mean log-probability of the label."""
    own = probability[np.arange(len(y)), np.searchsorted(classes, y)]
    wrong = classes[probability.argmax(axis=1)] != y
    return {"error": float(wrong.mean()), "ll": float(np.log(np.maximum(own, SMALLEST)).mean())}


def calibration(probability: np.ndarray, label: np.ndarray, bins: int = 15) -> Figures:
    """Return accuracy and balanced accuracy (per cent), NLL and expected calibration error.

    The calibration error is the mean over rows of |confidence − accuracy| of the row's bin of confidence; the
    bins have equal width on [0, 1].
    """
    correct, confidence = probability.argmax(1) == label, probability.max(1)
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    gap = [abs((confidence - correct)[which == b].sum()) for b in range(bins)]
    recall = [correct[label == c].mean() for c in np.unique(label)]
    return {
        "accuracy": 100 * float(correct.mean()),
        "balanced": 100 * float(np.mean(recall)),
        "nll": float(-np.log(np.maximum(probability[np.arange(len(label)), label], 1e-300)).mean()),
        "ece": float(sum(gap) / len(label)),
    }
