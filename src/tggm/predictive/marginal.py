"""Marginalise unknown inputs: the prediction is the mixture of the predictions for their possible values.

An unknown input is NaN. The unknown inputs of a row are drawn jointly from the stored training rows that are
nearest in the known inputs, at most 32. The predictions for all draws are rows of one distribution; row i of
the marginal is the mixture, with equal weights, of its rows starts[i] to starts[i + 1].
"""

from functools import cached_property
from typing import Any

import numpy as np

from tggm.arrays import Floats, Ints
from tggm.formulas import bounded
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.joint import JointPredictive
from tggm.predictive.novelty import Neighbourhood
from tggm.predictive.observed import Observed

DRAWS = 32
_REACH, _NODES, _BLOCK = 10.0, 801, 64  # grid of E|Z − Z'| in arcsinh of deviations; rows at once


def fill_unknown(Z: Floats, around: Neighbourhood | None) -> tuple[Floats, Ints | None]:
    """Replace each row with unknown inputs by its draws; return all rows, and `starts` if there are draws.

    Without stored rows, unknown inputs are 0, the mean.
    """
    gaps = np.isnan(Z)
    affected = np.flatnonzero(gaps.any(1))
    if not len(affected):
        return Z, None
    if around is None or not len(rows := around.train.rows):
        return np.where(gaps, 0.0, Z), None
    counts = np.ones(len(Z), np.int64)
    counts[affected] = min(DRAWS, len(rows))
    starts = np.concatenate([[0], np.cumsum(counts)])
    full, near = np.repeat(Z, counts, axis=0), bounded(np, rows)
    for i in affected.tolist():
        unknown = gaps[i]
        distance = ((near[:, ~unknown] - bounded(np, Z[i, ~unknown])[None]) ** 2).sum(1)
        chosen = np.sort(np.argsort(distance, kind="stable")[: counts[i]])
        full[starts[i] : starts[i + 1], unknown] = rows[chosen][:, unknown]
    return full, starts


def averages(values: Floats, starts: Ints | None, *, log: bool = False) -> Floats:
    """Return the mean over the draws of each row, along the first axis; or log E exp of `values`."""
    if starts is None:
        return values
    count = np.diff(starts).reshape(-1, *(1,) * (values.ndim - 1))
    if log:
        return np.logaddexp.reduceat(values, starts[:-1], axis=0) - np.log(count)
    return np.add.reduceat(values, starts[:-1], axis=0) / count


def _components(starts: Ints, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the components of these rows, the place of each in `rows`, and where each row starts."""
    count = np.diff(starts)[rows]
    offsets = np.concatenate([[0], np.cumsum(count)])
    place = np.repeat(np.arange(len(rows)), count)
    return starts[rows][place] + np.arange(offsets[-1]) - offsets[place], place, offsets


class Marginal(ScalarPredictive):
    """Mixtures of consecutive rows of `inner`; E|Z − Z'| has an error of 1e-4 deviations."""

    def __init__(self, inner: ScalarPredictive, starts: Ints) -> None:
        super().__init__(len(starts) - 1, *inner.units)
        self._inner, self._starts = inner, starts

    def __getitem__(self, rows: slice | Ints) -> "Marginal":
        component, _, offsets = _components(self._starts, np.arange(len(self))[rows])
        return Marginal(self._inner[component], offsets)

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        mean, var = self._inner._moments
        centre = averages(mean, self._starts)
        away = mean - np.repeat(centre, np.diff(self._starts))
        return centre, averages(var + away**2, self._starts)

    def _at(self, rows: Ints, z: Floats) -> tuple[Ints, Floats, Ints]:
        component, place, offsets = _components(self._starts, rows)
        return component, z[place], offsets

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        component, each, offsets = self._at(rows, z)
        return averages(self._inner._log_density(component, each), offsets, log=True)

    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        component, each, offsets = self._at(rows, z)
        tails = self._inner._log_tails(component, each)
        low, high = (np.minimum(averages(a, offsets, log=True), 0.0) for a in tails)
        return low, high

    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        component, each, offsets = self._at(rows, z)
        cdf, density = (averages(a, offsets) for a in self._inner._bulk(component, each))
        return cdf, density

    def _quantiles(self, rows: Ints, q: Floats) -> Floats:
        single = (np.diff(self._starts)[rows] == 1) | (q <= 0) | (q >= 1)
        found = np.empty(len(q))
        if single.any():
            loc, scale = self.units
            found[single] = (self._inner[self._starts[rows[single]]].ppf(q[single]) - loc) / scale
        if not single.all():
            found[~single] = super()._quantiles(rows[~single], q[~single])
            if isinstance(self._inner, Observed):  # the root is only near a point of the lattice
                found[~single] = self._inner.support.observe(found[~single])
        return found

    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        component, each, offsets = self._at(rows, z)
        to_z, apart = self._inner._distances(component, each)
        different, place = np.unique(rows, return_inverse=True)
        mixed = np.zeros(len(different))
        several = np.flatnonzero(np.diff(self._starts)[different] > 1)
        for at in range(0, len(several), _BLOCK):
            some = several[at : at + _BLOCK]
            mixed[some] = self._apart(different[some])
        apart = np.where(np.diff(offsets) > 1, mixed[place], apart[offsets[:-1]])
        return averages(to_z, offsets), apart

    def _apart(self, rows: Ints) -> Floats:
        """Compute E|Z − Z'| = 2 ∫ F (1 − F) by the trapezoidal rule."""
        x = np.linspace(-_REACH, _REACH, _NODES)
        mean, std = self._moments[0][rows], np.sqrt(self._moments[1][rows])
        z = mean[:, None] + std[:, None] * np.sinh(x)
        F = np.clip(self._bulk(np.repeat(rows, _NODES), z.ravel())[0].reshape(z.shape), 0.0, 1.0)
        return 2 * std * (F * (1 - F) * np.cosh(x)).sum(1) * (x[1] - x[0])

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        count = np.diff(self._starts)
        chosen = self._starts[:-1] + (rng.random((size, len(self))) * count).astype(np.int64)
        return self._inner[chosen.ravel()]._draw(1, rng).reshape(size, len(self))


class MarginalJoint(JointPredictive[Any]):
    """Mixtures of consecutive rows of a joint distribution."""

    def __init__(self, inner: JointPredictive[Any], starts: Ints) -> None:
        parts = [Marginal(inner.marginal(j), starts) for j in range(inner.n_outputs)]
        super().__init__(parts, inner._loc, inner._scale)
        self._inner, self._starts = inner, starts

    def cov(self) -> Floats:
        mean = self._inner.mean()
        away = mean - np.repeat(averages(mean, self._starts), np.diff(self._starts), axis=0)
        return averages(self._inner.cov() + away[:, :, None] * away[:, None, :], self._starts)

    def _log_density_of(self, z: Floats) -> Floats:
        each = np.repeat(z, np.diff(self._starts), axis=0)
        return averages(self._inner._log_density_of(each), self._starts, log=True)

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        rows = np.arange(len(self))
        chosen = self._starts[:-1] + (rng.random((size, len(rows))) * np.diff(self._starts)).astype(np.int64)
        drawn = [self._inner._draw(1, rng)[0, at] for at in chosen]
        return np.stack(drawn) if drawn else np.empty((0, len(rows), self.n_outputs))
