"""A density on [0, 1] that is linear between equidistant knots: how probabilities of a law are bent.

With u the probability that a law gives to at most y, density(u) multiplies its density at y, and cdf(u) is
the probability of the bent law. Everything is in closed form, and tails keep their relative accuracy.
"""

import numpy as np
from scipy.optimize import minimize

from tggm.arrays import Floats

KNOTS = 17
STEEP = 1.0  # deviation of the logarithm's change from 0 to 1 that is expected before any row is seen
HIGHEST = 5.0  # of the logarithms' sizes


class Shape:
    """The density with these logarithms at its knots, but for a constant."""

    def __init__(self, logs: Floats) -> None:
        h = np.exp(logs - np.max(logs))
        self.cells = len(h) - 1
        self._h: Floats = h / (0.5 * (h[:-1] + h[1:]).mean())
        self._below = _masses(self._h)
        self._above = _masses(self._h[::-1])

    @property
    def ends(self) -> tuple[float, float]:
        """The density at 0 and at 1."""
        return float(self._h[0]), float(self._h[-1])

    def density(self, u: Floats) -> Floats:
        """At probabilities."""
        k, t = _cell(u, self.cells)
        found: Floats = self._h[k] * (1 - t) + self._h[k + 1] * t
        return found

    def cdf(self, u: Floats) -> Floats:
        """Probability below u."""
        return _cdf(self._h, self._below, u)

    def log_tails(self, log_u: Floats, log_v: Floats) -> tuple[Floats, Floats]:
        """Logs of both bent tails, from those of u and of v = 1 − u."""
        return _log_cdf(self._h, self._below, log_u), _log_cdf(self._h[::-1], self._above, log_v)

    def lower(self, p: Floats) -> Floats:
        """The u with cdf(u) = p; as exact as p where it is small."""
        return _inverse(self._h, self._below, p)

    def upper(self, p: Floats) -> Floats:
        """The v with 1 − cdf(1 − v) = p."""
        return _inverse(self._h[::-1], self._above, p)


def _cell(u: Floats, cells: int) -> tuple[Floats, Floats]:
    """In which cell, and where in it from 0 to 1."""
    place = np.clip(u, 0.0, 1.0) * cells
    k = np.minimum(place.astype(np.intp), cells - 1)
    return k, place - k


def _masses(h: Floats) -> Floats:
    """Probability below each knot."""
    below = np.concatenate([[0.0], np.cumsum(0.5 * (h[:-1] + h[1:]))]) / (len(h) - 1)
    masses: Floats = below / below[-1]
    return masses


def _cdf(h: Floats, below: Floats, u: Floats) -> Floats:
    k, t = _cell(u, len(h) - 1)
    found: Floats = below[k] + t * (h[k] + 0.5 * t * (h[k + 1] - h[k])) / (len(h) - 1)
    return found


def _log_cdf(h: Floats, below: Floats, log_u: Floats) -> Floats:
    """In the first cell by the logarithm of u, which may be too small for a number."""
    u, cells = np.exp(log_u), len(h) - 1
    first = log_u + np.log(h[0] + 0.5 * cells * np.minimum(u, 1 / cells) * (h[1] - h[0]))
    found: Floats = np.where(u * cells < 1, first, np.log(np.maximum(_cdf(h, below, u), below[1])))
    return found


def _inverse(h: Floats, below: Floats, p: Floats) -> Floats:
    cells = len(h) - 1
    k = np.clip(np.searchsorted(below, p, side="right") - 1, 0, cells - 1)
    mass, rise = np.maximum(p - below[k], 0.0) * cells, h[k + 1] - h[k]
    t = 2 * mass / (h[k] + np.sqrt(np.maximum(h[k] ** 2 + 2 * rise * mass, 0.0)))
    found: Floats = (k + np.minimum(t, 1.0)) / cells
    return found


def most_likely(u: Floats, weight: Floats) -> Floats:
    """Logarithms at the knots of the density that probabilities were drawn from, smooth where they are few.

    Differences of neighbours are normal a priori, as of a random walk.
    """
    cells = KNOTS - 1
    k, t = _cell(u, cells)
    area = np.full(KNOTS, 1.0 / cells)
    area[[0, -1]] /= 2
    stiff, total = cells / STEEP**2, weight.sum()

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
