"""A density on [0, 1] that is linear between knots: how probabilities of a law are bent.

With u the probability that a law gives to at most y, density(u) multiplies its density at y, and cdf(u) is
the probability of the bent law. Everything is in closed form, and tails keep their relative accuracy.
"""

import numpy as np
from scipy.optimize import minimize

from tggm.arrays import Floats, Ints

_HALF = [0.0, 0.01, 0.03, 0.06, 0.1, 0.175, 0.27, 0.38]
# denser at the ends: tails may be cut off
PLACES = np.array([*_HALF, 0.5, *(1 - x for x in reversed(_HALF))])
KNOTS = len(PLACES)
STEEP = 1.0  # deviation of the logarithm's change from end to end that is expected before any row is seen
HIGHEST = 5.0  # of the logarithms' sizes


class Shape:
    """The density with these logarithms at its knots, but for a constant."""

    def __init__(self, logs: Floats) -> None:
        h = np.exp(logs - np.max(logs))
        h /= 0.5 * (h[:-1] + h[1:]) @ np.diff(PLACES)
        self._below, self._above = _Side(PLACES, h), _Side(1 - PLACES[::-1], h[::-1])

    @property
    def ends(self) -> tuple[float, float]:
        """The density at 0 and at 1."""
        return float(self._below.h[0]), float(self._above.h[0])

    def density(self, u: Floats) -> Floats:
        """At probabilities."""
        h, (k, t) = self._below.h, _cell(PLACES, u)
        found: Floats = h[k] * (1 - t) + h[k + 1] * t
        return found

    def cdf(self, u: Floats) -> Floats:
        """Probability below u."""
        return self._below.cdf(u)

    def log_tails(self, log_u: Floats, log_v: Floats) -> tuple[Floats, Floats]:
        """Logs of both bent tails, from those of u and of v = 1 − u."""
        return self._below.log_cdf(log_u), self._above.log_cdf(log_v)

    def lower(self, p: Floats) -> Floats:
        """The u with cdf(u) = p; as exact as p where it is small."""
        return self._below.inverse(p)

    def upper(self, p: Floats) -> Floats:
        """The v with 1 − cdf(1 − v) = p."""
        return self._above.inverse(p)


class _Side:
    """The density seen from one of its ends."""

    def __init__(self, x: Floats, h: Floats) -> None:
        self.x, self.h, self.width = x, h, np.diff(x)
        mass = np.concatenate([[0.0], np.cumsum(0.5 * (h[:-1] + h[1:]) * self.width)])
        self.mass: Floats = mass / mass[-1]

    def cdf(self, u: Floats) -> Floats:
        k, t = _cell(self.x, u)
        h = self.h
        found: Floats = self.mass[k] + self.width[k] * t * (h[k] + 0.5 * t * (h[k + 1] - h[k]))
        return found

    def log_cdf(self, log_u: Floats) -> Floats:
        """In the first cell by the logarithm of u, which may be too small for a number."""
        u, (low, high), end = np.exp(log_u), self.h[:2], self.x[1]
        first = log_u + np.log(low + 0.5 * (high - low) * np.minimum(u / end, 1.0))
        found: Floats = np.where(u < end, first, np.log(np.maximum(self.cdf(u), self.mass[1])))
        return found

    def inverse(self, p: Floats) -> Floats:
        h, k = self.h, np.clip(np.searchsorted(self.mass, p, side="right") - 1, 0, len(self.width) - 1)
        rest, rise = np.maximum(p - self.mass[k], 0.0) / self.width[k], h[k + 1] - h[k]
        t = 2 * rest / (h[k] + np.sqrt(np.maximum(h[k] ** 2 + 2 * rise * rest, 0.0)))
        found: Floats = self.x[k] + self.width[k] * np.minimum(t, 1.0)
        return found


def _cell(x: Floats, u: Floats) -> tuple[Ints, Floats]:
    """In which cell, and where in it from 0 to 1."""
    u = np.clip(u, 0.0, 1.0)
    k = np.clip(np.searchsorted(x, u, side="right") - 1, 0, len(x) - 2)
    return k, (u - x[k]) / (x[k + 1] - x[k])


def most_likely(u: Floats, weight: Floats) -> Floats:
    """Logarithms at the knots of the density that probabilities were drawn from, smooth where they are few.

    Differences of neighbours are normal a priori, as of a random walk.
    """
    k, t = _cell(PLACES, u)
    width = np.diff(PLACES)
    area = 0.5 * (np.append(width, 0.0) + np.append(0.0, width))
    stiff, total = (KNOTS - 1) / STEEP**2, weight.sum()

    def loss(logs: Floats) -> tuple[float, Floats]:
        h, rise = np.exp(logs), np.diff(logs)
        low, high = h[k] * (1 - t), h[k + 1] * t
        mass = area @ h
        value = total * np.log(mass) - weight @ np.log(low + high)
        value += 0.5 * stiff * rise @ rise + 0.5 * logs.mean() ** 2
        share = weight / (low + high)
        slope = total * area * h / mass + logs.mean() / KNOTS
        slope -= np.bincount(k, share * low, KNOTS) + np.bincount(k + 1, share * high, KNOTS)
        slope -= stiff * np.diff(rise, prepend=0.0, append=0.0)
        return float(value), slope

    bounds = [(-HIGHEST, HIGHEST)] * KNOTS
    found: Floats = minimize(loss, np.zeros(KNOTS), jac=True, method="L-BFGS-B", bounds=bounds).x
    return found
