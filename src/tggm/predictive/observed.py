r"""Distributions of targets with limits and steps: a latent variable that is clipped and rounded.

The target is Y = round(clip(Z, a, b)), Z with the latent distribution function F. It has the values of a
lattice (with a step s), or probabilities at the limits and a density between them (without). With
U(t) = E max(Z − t, 0), which follows from E|Z − t|, and t over the interval from a to b,

.. math::
    E\,Y = a + U(a) - U(b), \qquad
    E|Y - y| = E\,Y - y + 2 \int_a^y F, \qquad
    E|Y - Y'| = 2 \int F (1 - F), \qquad
    E (Y - c)^2 = 2 \int_a^c (c - t) F + 2 \int_c^b (t - c) (1 - F).

On a lattice each integral is the sum over the middles t = k + s/2 between its points, times s. Near the
median of a row, 2 × 64 terms are summed; farther out, sums are replaced by integrals, whose terms differ by
less than the error of the quadrature unless the latent distribution is narrower than a step there.
"""

import math
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import roots_legendre

from tggm.arrays import Floats, Ints
from tggm.predictive.base import ScalarPredictive, log_between
from tggm.predictive.support import ON_LATTICE, Support

TERMS = 64  # of lattice sums on each side of the median
_NARROW = 1e-6  # relative probability of a cell below which it is the density times the step
_ROWS, _MANY = 512, 16_384  # rows of a block of a quadrature, and of a mean
_PLACES, _WEIGHTS = roots_legendre(6)
# probabilities between which the quadrature has panels, and panels beyond, in logarithms of the distance
_LOW = [1e-4, 1e-3, 5e-3, 0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1, 0.14, 0.18, 0.22, 0.27, 0.32, 0.38, 0.44]
_LEVELS = np.array([*_LOW, 0.5, *(1 - p for p in reversed(_LOW))])
_BEYOND = np.array([0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 75.0])
_LEAST = -1e300  # log-probability of impossible values, whose mean over rows does not overflow


class Observed(ScalarPredictive):
    """Y = round(clip(Z)), row by row, for any latent distribution Z of one output.

    With a step, `logpdf` is the log-probability of the cell of y minus log(step), which is comparable with
    densities; `y` is rounded to the lattice. Without a step it is the log-probability at a limit, and the
    log-density between limits. `logpmf` gives log-probabilities; values without probability have −1e300.
    Quantiles are the smallest y with cdf(y) ≥ q. Means are exact without a step; other
    moments and CRPS have relative errors of up to 5e-5.
    """

    def __init__(
        self, latent: ScalarPredictive, lower: float | None = None, upper: float | None = None,
        step: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(len(latent), 0.0, 1.0)
        self._latent, self.support = latent, Support(lower, upper, step)
        self._a, self._b = self.support.ends

    def __getitem__(self, rows: slice | Ints) -> "Observed":
        return Observed(self._latent[rows], *self.support)

    def mean(self) -> Floats:
        return self._mean

    def ppf(self, q: ArrayLike) -> Floats:
        """Compute quantiles: the smallest y with cdf(y) ≥ q."""
        return self.support.observe(self._latent.ppf(q))

    def pit(self, y: ArrayLike) -> Floats:
        """Draw from between P(Y < y) and P(Y ≤ y), always with the same seed."""
        cdf = self.cdf(y)
        part = np.random.default_rng(0).random(cdf.shape) * np.exp(self.logpmf(y))
        return np.clip(cdf - part, 0.0, 1.0)

    def logpmf(self, y: ArrayLike) -> Floats:
        """Compute log P(Y = y); −1e300 between the limits if there is no step."""
        rows, values, shape = self._pairs("y", y)
        return np.maximum(self._log_cell(rows, values, 0.0), _LEAST).reshape(shape)

    # ---- latent functions at pairs, in units of the target ----

    def _standard(self, t: Floats) -> Floats:
        loc, scale = self._latent.units
        return np.clip((t - loc) / scale, -1e120, 1e120)

    def _latent_cdf(self, rows: Ints, t: Floats) -> Floats:
        return np.clip(self._latent._bulk(rows, self._standard(t))[0], 0.0, 1.0)

    def _shortfall(self, rows: Ints, t: Floats) -> Floats:
        """Compute E max(t − Z, 0); 0 for t = −∞."""
        loc, scale = self._latent.units
        z = np.where(np.isfinite(t), (t - loc) / scale, 0.0)
        found = 0.5 * scale * (self._latent._distances(rows, z)[0] + z - self._latent._moments[0][rows])
        return np.where(np.isfinite(t), np.maximum(found, 0.0), 0.0)

    # ---- probabilities ----

    def _edge(self, y: Floats) -> Floats:
        """Return t with P(Y ≤ y) = P(Z ≤ t)."""
        step = self.support.step or 0.0
        point, low = np.clip(y, self._a, self._b), y < self._a - ON_LATTICE * step
        if step:
            point = self.support.point(self.support.place(point, lambda k: np.floor(k + ON_LATTICE)))
        return np.where(low, -np.inf, np.where(point >= self._b, np.inf, point + 0.5 * step))

    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        return self._latent.tails_at(rows, self._edge(z))

    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        edge = self._edge(z)
        finite = np.where(np.isfinite(edge), edge, 0.0)
        cdf = np.where(np.isfinite(edge), self._latent_cdf(rows, finite), (edge > 0).astype(float))
        return cdf, np.exp(self._log_density(rows, z))

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        return np.maximum(self._log_cell(rows, z, 1.0), _LEAST)

    def _log_cell(self, rows: Ints, y: Floats, density: float) -> Floats:
        """Compute log-probabilities of the cells of y; densities if `density` is 1."""
        half, scale = 0.5 * (self.support.step or 0.0), self._latent.units[1]
        low, high = self.support.cell(y)
        below, above = self._latent.tails_at(rows, low), self._latent.tails_at(rows, high)
        log = log_between(below, above)
        with np.errstate(divide="ignore"):
            centre = self._latent._log_density(rows, self._standard(y)) - math.log(scale)
            each = centre + np.log(2 * half)
        narrow = log < math.log(_NARROW) + np.minimum(above[0], below[1])
        log = np.where(narrow & np.isfinite(low) & np.isfinite(high), each, log)
        if half:
            log = log - density * math.log(2 * half)
        elif density:
            log = np.where(low == high, centre, log)
        return np.where((y >= self._a - half) & (y <= self._b + half), log, -np.inf)

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        loc, scale = self._latent.units
        return self.support.observe(loc + scale * self._latent._draw(size, rng))

    # ---- moments and scores ----

    @cached_property
    def _middle(self) -> Floats:
        """Return a point near the median of each row, and the ends of its lattice sum, (3, N)."""
        median = np.clip(self._latent.ppf(0.5), self._a, self._b)
        if self.support.step is None:
            return np.stack(3 * [median])
        place = np.clip(self.support.place(median), -1e15, 1e15)
        return np.clip([self.support.point(place + k) for k in (0, -TERMS, TERMS)], self._a, self._b)

    def _cells(self, rows: Ints) -> tuple[Floats, Floats]:
        """Return the middles between lattice points around the median, and their weights, (rows, 128)."""
        step, (centre, first, last) = self.support.step or 0.0, self._middle[:, rows, None]
        t = centre + step * (np.arange(-TERMS, TERMS) + 0.5)[None, :]
        return t, np.where((t > first) & (t < last), step, 0.0)

    @cached_property
    def _sums(self) -> Floats:
        """Integrate P(Y ≤ t) from the limit `lower` to each point around the median, (N, 129)."""
        rows = np.arange(len(self))
        t, weight = self._cells(rows)
        parts, used = np.zeros_like(t), np.nonzero(weight)
        parts[used] = weight[used] * self._latent_cdf(used[0], t[used])
        begin = self._shortfall(rows, self._middle[1]) - self._shortfall(rows, np.full(len(rows), self._a))
        return begin[:, None] + np.insert(np.cumsum(parts, axis=1), 0, 0.0, axis=1)

    @cached_property
    def _mean(self) -> Floats:
        """Compute c − ∫ F below c + ∫ (1 − F) above; the latter is E max(Z − t, 0) beyond the lattice sum."""
        if len(self) > _MANY:  # a lattice sum has 128 terms for each row
            return np.concatenate([self[i : i + _MANY]._mean for i in range(0, len(self), _MANY)])
        rows, (_, _, last) = np.arange(len(self)), self._middle
        beyond: Floats = self._latent.mean() - last + self._shortfall(rows, last)
        if self._b < np.inf:
            beyond -= self._latent.mean() - self._b + self._shortfall(rows, np.full(len(rows), self._b))
        return last - self._sums[:, -1] + beyond

    @cached_property
    def _second(self) -> tuple[Floats, Floats]:
        """Compute E (Y − c)² around the middle c, and E|Y − Y'|, (N,) each, by quadrature."""
        blocks = [np.arange(i, min(i + _ROWS, len(self))) for i in range(0, max(len(self), 1), _ROWS)]
        parts = [self._integrals(rows) for rows in blocks]
        square, apart = (np.concatenate(part) for part in zip(*parts, strict=True))
        return square, apart

    def _integrals(self, rows: Ints) -> tuple[Floats, Floats]:
        centre, first, last = self._middle[:, rows]
        levels = self._latent[rows].ppf(_LEVELS[None, :])
        lower, upper = np.full(len(rows), self._a), np.full(len(rows), self._b)
        pieces = [_panels(levels, lower, first), _panels(levels, last, upper)]
        if self.support.step is not None:
            pieces.append(self._cells(rows))
        t, weight = (np.concatenate(part, axis=1) for part in zip(*pieces, strict=True))
        low, high, used = np.zeros_like(t), np.zeros_like(t), np.nonzero(weight)
        low[used], high[used] = np.exp(self._latent.tails_at(rows[used[0]], t[used]))
        away = t - centre[:, None]
        square = 2 * (weight * np.abs(away) * np.where(away < 0, low, high)).sum(1)
        return square, 2 * (weight * low * high).sum(1)

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        square, away = self._second[0], self._mean - self._middle[0]
        return self._mean, np.maximum(square - away**2, 0.0)

    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        """Use E|Y − y| = E Y − y + 2 ∫ P(Y ≤ t) from the limit `lower` to y."""
        inside, (_, first, last) = np.clip(z, self._a, self._b), self._middle[:, rows]
        begin = self._shortfall(rows, np.full(len(z), self._a))
        below = self._shortfall(rows, inside) - begin
        if self.support.step is not None:
            past = self._sums[rows, -1] + below - (self._shortfall(rows, last) - begin)
            place = self.support.place(inside, np.asarray) - self.support.place(self._middle[0][rows])
            k = np.clip(place + TERMS, 0.0, 2 * TERMS)
            left = np.minimum(np.floor(k), 2 * TERMS - 1).astype(int)
            rise = self._sums[rows, left + 1] - self._sums[rows, left]
            near = self._sums[rows, left] + (k - left) * rise
            below = np.where(inside <= first, below, np.where(inside >= last, past, near))
        below = below + np.maximum(z - self._b, 0.0)
        return self._mean[rows] - z + 2 * below, self._second[1][rows]


def _panels(levels: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return nodes and weights between two limits per row, (rows, nodes) each.

    Panels end at quantiles of the latent distribution; beyond them, at exponential distances.
    """
    lo, hi, parts = lower[:, None], upper[:, None], []
    edges = np.clip(levels, lo, hi)
    parts.append(_nodes(edges))
    middle = levels[:, len(_LEVELS) // 2, None]
    for end, sign, near, far in ((levels[:, :1], -1.0, hi, lo), (levels[:, -1:], 1.0, lo, hi)):
        width = np.maximum(np.abs(end - middle), np.finfo(np.float64).tiny)
        with np.errstate(over="ignore"):
            ends = [np.log1p(np.maximum(sign * (x - end), 0.0) / width) for x in (near, far)]
        x, weight = _nodes(np.clip(_BEYOND[None, :], np.minimum(ends[0], _BEYOND[-1]), ends[1]))
        parts.append((end + sign * width * np.expm1(x), weight * width * np.exp(x)))
    t, w = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    return t, w


def _nodes(edges: Floats) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights of the panels between edges, (rows, edges)."""
    half = 0.5 * np.diff(edges, axis=1)[:, :, None]
    t = edges[:, :-1, None] + half * (1 + _PLACES)
    return t.reshape(len(edges), -1), (half * _WEIGHTS).reshape(len(edges), -1)
