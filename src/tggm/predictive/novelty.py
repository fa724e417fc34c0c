r"""Measure the distance of rows from the training rows, and widen predictions there.

Two variances are added. The first is the variance of a Gaussian process (`gaussian_process`) at a row, given
at most 500 training rows, minus the largest variance of one of these rows given the others. It is positive in
gaps between the rows, also of columns with few values. The process is calibrated by leaving out whole ranges
of values of each column (`fit_kernel`).

The second is due to the distance e_j of a value from the range of column j in the training rows. The section
of the mean along the column has slopes s, s', ... over steps h, a quarter of the range, of which s is that at
the edge; r² is the mean of the squared slopes, and c² that of the squared changes between neighbouring steps.
With s_k the slope at the edge under member k, the variance

.. math::
    \sum_j \rho_j^2 \Big[\min\big(1, \tfrac{c}{0.28\, r}\big)^2 s^2 e^2 + 0.6^2 (q(e) - m(e))^2
    + 1.25^2\,\mathrm{Var}_k(s_k)\, e^2\Big]

is added. The first term is for a change of the slope at the edge; it is small if the section is a line. The
second is for the difference of the mean m(e) from the extrapolation q(e): a line with the slope s, or a
parabola if the section is steepest at the edge. The third is for the error of the slope. The relevance
ρ_j = V/(V + 0.03) is small for columns with little effect; V is the share of the target's variance that
column j changes. Beyond two ranges e grows logarithmically. For the first variance, values outside of a range
are moved towards it if the relevance is small. If it is below 0.3, all predictions use values that are moved
(`moved_inside`).

`novelty` is measured in the last hidden layer, with z(x) = E[h | x] · |W1| of all members: the mean distance
d to the five nearest of the stored rows, relative to d₁, which 90 % of these rows do not exceed. Values
outside of the range of their column are clipped for it, and their distance from the range is added.

The numbers were chosen on gap and tail splits of development and generated tables (experiments/gaps.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from tggm.arrays import Floats, Ints
from tggm.formulas import bounded
from tggm.predictive.calibration import Calibration

MOST_ROWS = 500
MOST_NUMBERS = 2**20  # stored
FEWEST_ROWS = 20  # from which distances between rows are measured
BLOCK = 4096  # rows, or pairs of row and column, computed at once
NEIGHBOURS = 5
EDGE = 0.9  # share of the training rows that are nearer to the others
STEP, STEPS = 0.25, 4  # of a range, over which slopes are computed, and their number
LINE, MISSED, DOUBT = 0.28, 0.6, 1.25  # numbers of the terms above
WEAK = 0.03  # share of the target's variance of a column with half of the relevance
USELESS = 0.3  # relevance below which predictions use only a part of the distance beyond the range
SAMPLE = 64  # rows of which the relevance is estimated
FAR, GROWTH = 2.0, 0.05  # ranges beyond which deviations grow logarithmically, and the factor
MOST_LOG = 15.0  # size of logarithms in a model file
BEYOND = 2.0  # novelty of rows that are reported as unlike the training rows


class TrainingRows(NamedTuple):
    """Ranges of the standardised inputs, (d,), some training rows, (R, d), gaps, and Gaussian processes."""

    low: Floats
    high: Floats
    rows: Floats
    gaps: Floats  # (G, 3) column and both ends, sorted
    kernels: Floats  # (n, d + 3) logarithms of the numbers of a Gaussian process of each output; n may be 0


def checked_rows(*arrays: Floats) -> TrainingRows:
    """Check the training rows of a model file."""
    found = TrainingRows(*(np.asarray(a, np.float64) for a in arrays))
    if not all(np.isfinite(a).all() for a in found) or not (found.low <= found.high).all():
        raise ValueError("ranges and training rows must be finite, and ranges must not be empty")
    size = float(np.abs(found.kernels).max(initial=0))
    if len(found.rows) > MOST_ROWS or size > MOST_LOG:
        raise ValueError(
            f"{len(found.rows)} training rows are stored, and kernels of size {size:g}; at most {MOST_ROWS} "
            f"and {MOST_LOG:g} are possible"
        )
    column, low, high = found.gaps.T
    if not (np.isin(column, np.arange(len(found.low))).all() and (low < high).all()):
        raise ValueError("gaps must have a column and two ends in order")
    return found


class Doubt:
    """The variance of a Gaussian process given some rows, with numbers as in `gaussian_process.Evidence`."""

    def __init__(self, u: Floats, rows: Floats) -> None:
        self._u, self._rows = u, bounded(np, rows)
        K, noise = self._covariance(self._rows), np.exp(2 * u[-1])
        K.flat[:: len(K) + 1] += noise + 1e-6 * np.diagonal(K).mean()
        self._root = lapack.dtrtri(np.linalg.cholesky(K).T)[0]  # R Rᵀ = K⁻¹; inv(K) takes twice as long
        self.own = 1 / (self._root**2).sum(1) - noise  # at each row, given the others

    def variance(self, Z: Floats) -> Floats:
        """Return the variance of noiseless targets at standardised inputs, (N,)."""
        X = bounded(np, Z)
        smooth, linear, _ = np.exp(2 * self._u[X.shape[1] :])
        prior: Floats = smooth + linear * (X**2).mean(1) + 1
        return prior - ((self._covariance(X) @ self._root) ** 2).sum(1)

    def _covariance(self, X: Floats) -> Floats:
        """Return the covariances of noiseless targets with those of the rows, (N, R)."""
        d = X.shape[1]
        smooth, linear, _ = np.exp(2 * self._u[d:])
        A, B = (a * (5**0.5 * np.exp(-self._u[:d])) for a in (X, self._rows))
        r = np.sqrt(np.maximum((A**2).sum(1)[:, None] + (B**2).sum(1) - 2 * (A @ B.T), 0.0))
        return smooth * (1 + r + r * r / 3) * np.exp(-r) + linear / d * (X @ self._rows.T) + 1


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

    def variance(self, Z: Floats, outputs: int = 1) -> Floats:
        """Return the variance to add to that of the rows, (N, n)."""
        found, apart, pairs = np.zeros((len(Z), outputs)), self._apart(Z), self.beyond(Z)
        near = self.moved(Z, pairs, self.relevance(pairs.column).max(1, initial=0.0))
        for at in range(0, len(apart), BLOCK):
            rows = apart[at : at + BLOCK]
            for j, (doubt, edge) in enumerate(self._doubts):
                found[rows, j] = np.maximum(doubt.variance(near[rows]) - edge, 0.0)
        for at in range(0, len(pairs.row), BLOCK):
            some = Beyond(*(part[at : at + BLOCK] for part in pairs))  # type: ignore[arg-type]  # of a union
            np.add.at(found, some.row, self._extrapolation(Z, some, outputs))
        return found

    def moved(self, Z: Floats, pairs: Beyond, share: Floats) -> Floats:
        """Return the rows with only a share, at most 1, of the distances beyond the ranges."""
        place = pairs.row, pairs.column
        found, edges = Z.copy(), np.clip(Z, self.train.low, self.train.high)[place]
        found[place] = edges + np.minimum(share, 1.0) * (Z[place] - edges)
        return found

    def beyond(self, Z: Floats) -> Beyond:
        """Return the values beyond the range of their column."""
        low, high = self.train[:2]
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

    def _extrapolation(self, Z: Floats, pairs: Beyond, outputs: int) -> Floats:
        """Return the variance of each pair and output, (pairs, n)."""
        row, column, distance = pairs
        low, high = self.train[:2]
        each, edge = np.arange(len(row)), np.clip(Z[row], low, high)
        h = STEP * (high - low)[column]
        outward = np.where(Z[row, column] > edge[each, column], h, -h)
        e = np.minimum(distance, FAR)[:, None] / STEP
        places = np.repeat(edge[None], STEPS + 2, axis=0)
        places[1:, each, column] -= np.arange(STEPS + 1)[:, None] * outward
        places[0, each, column] += e[:, 0] * outward
        found = self.at(places.reshape(-1, Z.shape[1]))[0].reshape(-1, STEPS + 2, len(each), outputs)
        slopes = -np.diff(found[:, 1:], axis=1)  # times h
        doubt = slopes[:, 0].std(0, ddof=1) if len(slopes) > 1 else 0.0
        s = slopes.mean(0)  # (steps, pairs, n)
        size, changes = np.sqrt((s**2).mean(0)), np.sqrt((np.diff(s, axis=0) ** 2).mean(0))
        bent = np.minimum(1.0, changes / np.maximum(LINE * size, np.finfo(np.float64).tiny))
        growing = (s[0] - s[1]) * e * (e + 1) / 2 * (s[0] * (s[0] - s[1]) > 0)
        mean, at_edge = found[:, :2].mean(0)
        missed = at_edge + s[0] * e + growing - mean
        parts = (bent * s[0] * e) ** 2 + (MISSED * missed) ** 2 + (DOUBT * doubt * e) ** 2
        beyond = 1 + GROWTH * np.log1p(np.maximum(distance - FAR, 0))[:, None]
        return parts * (self.relevance(column) * beyond) ** 2

    def _distance(self, Z: Floats) -> Floats:
        """Return the mean distance to the nearest training rows in the last layer; 0 for too few rows."""
        if len(self.train.rows) < FEWEST_ROWS:
            return np.zeros(len(Z))
        Z = np.clip(Z, self.train.low, self.train.high)
        parts = [Z[at : at + BLOCK] for at in range(0, len(Z), BLOCK)]
        return np.concatenate([nearest(_joined(self.at(part)[1]), self._latent_rows, 0) for part in parts])

    def _apart(self, Z: Floats) -> Ints:
        """Return the rows with a value in a gap of its column."""
        found = np.zeros(len(Z), np.bool_)
        for column in np.unique(self.train.gaps[:, 0]).astype(int):
            low, high = self.train.gaps[self.train.gaps[:, 0] == column, 1:].T
            k = np.searchsorted(low, Z[:, column]) - 1  # gaps are sorted
            found |= (k >= 0) & (Z[:, column] < high[k])
        return np.flatnonzero(found)

    @cached_property
    def _doubts(self) -> list[tuple[Doubt, float]]:
        """Return the variance of each output, and the largest of a training row given the others."""
        doubts = [Doubt(u, self.train.rows) for u in self.train.kernels]
        return [(doubt, float(doubt.own.max())) for doubt in doubts]

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
        return float(np.median(own)), float(max(np.quantile(own, EDGE), own.mean(), 1e-6 * size, 1e-300))


def nearest(A: Floats, B: Floats, skipped: int) -> Floats:
    """Return the mean distance of rows of A to the nearest rows of B, without the `skipped` nearest."""
    square = (A**2).sum(1)[:, None] + (B**2).sum(1)[None] - 2 * (A @ B.T)
    ends = max(skipped - 1, 0), NEIGHBOURS + skipped - 1
    chosen = np.partition(square, ends, axis=1)[:, skipped : NEIGHBOURS + skipped]
    return np.sqrt(np.maximum(chosen, 0.0)).mean(1)


def moved_inside(around: Neighbourhood | None, Z: Floats, pools: Sequence[Calibration]) -> Floats:
    """Move values far outside of columns with little effect towards the range: members disagree there."""
    if around is None or not pools or not len((pairs := around.beyond(Z)).row):
        return Z
    return around.moved(Z, pairs, (around.relevance(pairs.column).max(1) / USELESS) ** 2)


def added_variance(
    around: Neighbourhood | None, Z: Floats, outputs: int, pools: Sequence[Calibration]
) -> Floats:
    """Return the variance, (N, n), to add to that of each member for the widths above.

    It is 0 for the plain mixture of members, and below the bound c of "scales".
    """
    if around is None or not pools:
        return np.zeros((len(Z), outputs))
    f = np.array([pool.factors[0] for pool in pools])
    most = np.array([np.inf if pool.most is None else pool.most for pool in pools])
    added = around.variance(Z, outputs)
    return added / (1 + added / most) / f**2


def _joined(latent: Floats) -> Floats:
    """Join the units of all members, (N, K m), so that squared distances are means over members."""
    return np.moveaxis(latent, 0, 1).reshape(latent.shape[1], -1) / np.sqrt(len(latent))
