r"""Measure the distance of rows from the training rows, and widen predictions there.

Two distances are used. The first is measured in the last hidden layer, with z(x) = E[h | x] · |W1| of all
members: the mean distance d to the five nearest of at most 500 training rows. It is compared with d₁, which
90 % of these rows do not exceed. Values outside of the range of their column are clipped for it. The
deviation is multiplied by √(1 + 2.25 t²), t = max(d/d₁ − 1, 0) and at most 2; at most d is added to it, which
has the units of the target.

The second is the distance e_j of a value from the range of column j in the training rows. With s the slope of
the mean along the column at the edge of the range (over a step h, a quarter of the range), s' that of the
step before, and s_k the slope under member k, the variance

.. math::
    \sum_j \rho_j^2 \big[(0.7\, s e)^2 + ((s - s') (1 + 0.5\, e/h)\, e)^2
    + 1.5^2\,\mathrm{Var}_k(s_k)\, e^2\big]

is added: the slope may end, change as it does within the range, or differ from its estimate. The relevance
ρ_j = V/(V + 0.03) is small for columns with little effect; V is the share of the target's variance that
column j changes. Beyond two ranges e grows logarithmically.

Inside of all ranges, and nearer to the training rows than d₁, nothing changes. The numbers were chosen on gap
and tail splits of development tables (experiments/gaps.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tggm.arrays import Floats, Ints
from tggm.predictive.calibration import Calibration

MOST_ROWS = 500
MOST_NUMBERS = 2**20  # stored
FEWEST_ROWS = 20  # from which distances between rows are measured
BLOCK = 4096  # rows, or pairs of row and column, computed at once
NEIGHBOURS = 5
EDGE = 0.9  # share of the training rows that are nearer to the others
REACH = 1.0  # largest added deviation, in distances in the last layer, whose units are those of the target
WIDER, MOST = 1.5, 2.0  # factor of the relative distance in the last layer, and its largest value
STEP = 0.25  # of a range, over which slopes are computed
SLOPE, CHANGE, CURVATURE, DOUBT = 0.7, 1.0, 0.5, 1.5  # factors of the terms above
MOST_LOG_VARIANCE = 0.25  # of a logarithm: the mean of its exponential grows with the variance
WEAK = 0.03  # share of the target's variance of a column with half of the relevance
SAMPLE = 64  # rows of which the relevance is estimated
FAR, GROWTH = 2.0, 0.1  # ranges beyond which distances grow logarithmically, and the factor of the logarithm


class TrainingRows(NamedTuple):
    """Ranges of the standardised inputs, (d,), and some of the training rows, (R, d)."""

    low: Floats
    high: Floats
    rows: Floats


def checked_rows(low: Floats, high: Floats, rows: Floats) -> TrainingRows:
    """Check the training rows of a model file."""
    found = TrainingRows(*(np.asarray(a, np.float64) for a in (low, high, rows)))
    if not all(np.isfinite(a).all() for a in found) or not (found.low <= found.high).all():
        raise ValueError("ranges and training rows must be finite, and ranges must not be empty")
    if len(rows) > MOST_ROWS:
        raise ValueError(f"{len(rows)} training rows are stored; at most {MOST_ROWS} are possible")
    return found


class Beyond(NamedTuple):
    """Values beyond the range of their column."""

    row: Ints
    column: Ints
    distance: Floats  # in ranges of the column


@dataclass(frozen=True)
class Neighbourhood:
    """The training rows under a model; `at` returns its means, (K, N, n), and z, (K, N, m), at rows."""

    train: TrainingRows
    at: Callable[[Floats], tuple[Floats, Floats]]
    _relevance: dict[int, Floats] = field(default_factory=dict, repr=False, compare=False)

    def novelty(self, Z: Floats) -> Floats:
        """Return 0 for rows inside, 1 at the edge of the training rows and more beyond, (N,)."""
        middle, edge = self._radii
        d = self._distance(Z)
        found = np.where(d < edge, np.clip((d - middle) / max(edge - middle, 1e-12 * edge), 0, 1), d / edge)
        pairs = self.beyond(Z)
        effect = self.relevance(pairs.column).max(1, initial=0.0) * pairs.distance
        far = np.zeros(len(Z))
        np.maximum.at(far, pairs.row, effect)
        return np.where(far > 0, np.maximum(found, 1 + far), found)

    def variance(self, Z: Floats, base: Floats) -> Floats:
        """Return the variance to add to `base`, (N, n) each."""
        distance = self._distance(Z)[:, None]
        ratio = np.clip(distance / self._radii[1] - 1, 0.0, MOST)
        found = np.minimum(base * (WIDER * ratio) ** 2, (REACH * distance) ** 2)
        pairs = self.beyond(Z)
        for at in range(0, len(pairs.row), BLOCK):
            some = slice(at, at + BLOCK)
            row = pairs.row[some]
            np.add.at(found, row, self._extrapolation(Z, row, pairs.column[some], pairs.distance[some]))
        return found

    def beyond(self, Z: Floats) -> Beyond:
        """Return the values beyond the range of their column."""
        low, high, _ = self.train
        outside = np.maximum(low - Z, Z - high)
        row, column = np.nonzero((outside > 0) & (high > low))
        return Beyond(row, column, outside[row, column] / (high - low)[column])

    def relevance(self, columns: Ints) -> Floats:
        """Return ρ of these columns for each output, (columns, n)."""
        rows = self.train.rows
        for j in set(columns.tolist()) - set(self._relevance):
            some, order = rows[:SAMPLE], np.random.default_rng(0).permutation(len(rows))[:SAMPLE]
            moved = some.copy()
            moved[:, j] = rows[order, j]
            both = self.at(np.concatenate([some, moved]))[0].mean(0)
            V = 0.5 * ((both[: len(some)] - both[len(some) :]) ** 2).mean(0)
            self._relevance[j] = V / (V + WEAK)
        return np.stack([self._relevance[j] for j in columns.tolist()]) if len(columns) else np.zeros((0, 1))

    def _extrapolation(self, Z: Floats, row: Ints, column: Ints, distance: Floats) -> Floats:
        """Return the variance of each pair and output, (pairs, n)."""
        low, high, _ = self.train
        each, edge = np.arange(len(row)), np.clip(Z[row], low, high)
        h = STEP * (high - low)[column]
        inward = np.where(Z[row, column] > edge[each, column], -h, h)
        places = np.repeat(edge[None], 3, axis=0)
        places[1:, each, column] += np.array([[1.0], [2.0]]) * inward
        found = self.at(places.reshape(-1, Z.shape[1]))[0]
        edge_mean, before, first = np.moveaxis(found.reshape(len(found), 3, len(each), -1), 1, 0)
        last = edge_mean - before  # (K, pairs, n), slopes times h
        doubt = last.std(0, ddof=1) if len(last) > 1 else 0.0
        mean, change = last.mean(0), (last - before + first).mean(0)
        t = distance[:, None]
        steps = np.where(t <= FAR, t, FAR + GROWTH * np.log1p(np.maximum(t - FAR, 0))) / STEP
        parts = (SLOPE * mean) ** 2 + (CHANGE * change * (1 + CURVATURE * steps)) ** 2 + (DOUBT * doubt) ** 2
        variance: Floats = parts * (steps * self.relevance(column)) ** 2
        return variance

    def _distance(self, Z: Floats) -> Floats:
        """Return the mean distance to the nearest training rows in the last layer; 0 for too few rows."""
        if len(self.train.rows) < FEWEST_ROWS:
            return np.zeros(len(Z))
        Z = np.clip(Z, self.train.low, self.train.high)
        parts = [Z[at : at + BLOCK] for at in range(0, len(Z), BLOCK)]
        return np.concatenate([nearest(_joined(self.at(part)[1]), self._latent_rows, 0) for part in parts])

    @cached_property
    def _latent_rows(self) -> Floats:
        return _joined(self.at(self.train.rows)[1])

    @cached_property
    def _radii(self) -> tuple[float, float]:
        """Return the median distance of the training rows to the others, and that of the row at the edge."""
        if len(self.train.rows) < FEWEST_ROWS:
            return 0.0, 1.0
        own = nearest(self._latent_rows, self._latent_rows, 1)
        size = float(np.sqrt((self._latent_rows**2).sum(1).mean()))
        return float(np.median(own)), max(
            float(np.quantile(own, EDGE)), float(own.mean()), 1e-6 * size, 1e-300
        )


def nearest(A: Floats, B: Floats, skipped: int) -> Floats:
    """Return the mean distance of rows of A to the nearest rows of B, without the `skipped` nearest."""
    square = (A**2).sum(1)[:, None] + (B**2).sum(1)[None] - 2 * (A @ B.T)
    ends = max(skipped - 1, 0), NEIGHBOURS + skipped - 1
    chosen = np.partition(square, ends, axis=1)[:, skipped : NEIGHBOURS + skipped]
    distance: Floats = np.sqrt(np.maximum(chosen, 0.0)).mean(1)
    return distance


def added_variance(
    around: Neighbourhood | None, Z: Floats, mean: Floats, var: Floats, pools: Sequence[Calibration],
    most: float,
) -> Floats:  # fmt: skip
    """Return the variance, (N, n) and below `most`, to add to that of each member for the widths above.

    `mean` and `var` are the members' moments, (K, N, n) each. It is 0 for the plain mixture of members.
    """
    if around is None or not pools:
        return np.zeros(mean.shape[1:])
    f, g = np.array([pool.factors for pool in pools]).T
    between = mean.var(0, ddof=1) if len(mean) > 1 else np.zeros(mean.shape[1:])
    added = around.variance(Z, f**2 * var.mean(0) + g**2 * between)
    found: Floats = added / (1 + added / most) / f**2
    return found


def _joined(latent: Floats) -> Floats:
    """Join the units of all members, (N, K m), so that squared distances are means over members."""
    joined: Floats = np.moveaxis(latent, 0, 1).reshape(latent.shape[1], -1) / np.sqrt(len(latent))
    return joined
