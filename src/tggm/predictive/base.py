"""The face of a scalar predictive distribution: one distribution a row, NumPy in, NumPy float64 out.

A distribution is a mixture over ensemble members. A subclass says what it knows in standardised units z, at
pairs (row, z); the affine map y = loc + scale · z, shapes, quantiles and scores are here.
"""

import math
from abc import ABC, abstractmethod
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tggm.arrays import Floats, Ints
from tggm.predictive.quantile import Bracket, cantelli, solve_quantiles

_WILD = 1e120  # beyond this, squares and quotients of squares overflow
Seed = int | np.random.Generator | np.random.RandomState | None


class ScalarPredictive(ABC):
    """Distributions of one output, one for each of N rows.

    Arguments `y` and `q` are broadcast against the rows: a scalar or shape (N,) gives one value a row, shape
    (N, k) gives k values a row, shape (1, k) the same k for every row; the result has shape (N,) or (N, k).

    Parameters
    ----------
    rows : int
        Number of rows N.
    mix : array, shape (K,)
        Weights of the ensemble members, as `mixture_weights` makes them.
    loc, scale : float
        The output is y = loc + scale · z, z being what the model predicts.
    """

    def __init__(self, rows: int, mix: Floats, loc: float, scale: float) -> None:
        self._rows, self._mix = rows, mix
        if not (np.isfinite(loc) and np.isfinite(scale) and scale > 0):
            raise ValueError(f"`loc` must be finite and `scale` positive; got loc={loc!r}, scale={scale!r}.")
        self._loc, self._scale = float(loc), float(scale)

    def __len__(self) -> int:
        return self._rows

    @abstractmethod
    def __getitem__(self, rows: slice | Ints) -> "ScalarPredictive":
        """The distributions of some rows."""

    @property
    def units(self) -> tuple[float, float]:
        """The output is y = loc + scale · z, z being what the model predicts: loc and scale."""
        return self._loc, self._scale

    @property
    def member_weights(self) -> Floats:
        """Weights of the ensemble members, (K,)."""
        return self._mix

    def member_moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of z under each member, (K, N) each."""
        return self._member_moments()

    def log_mean_exp(self, order: float) -> Floats | None:
        """Log of E exp(order · Y), (N,), where it is known in closed form."""
        return None

    @abstractmethod
    def _member_moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of each member, (K, N) each."""

    @abstractmethod
    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        """Log density at pairs, with relative accuracy in the tails."""

    @abstractmethod
    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        """Log of P(Z ≤ z) and of P(Z > z) at pairs, with relative accuracy in the tails."""

    @abstractmethod
    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        """P(Z ≤ z) and density at pairs to absolute accuracy; cheap when asked often."""

    def _density(self, rows: Ints, z: Floats) -> Floats:
        """Density at pairs to absolute accuracy."""
        return self._bulk(rows, z)[1]

    @abstractmethod
    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        """E|Z − z| and E|Z − Z'| at pairs, Z' an independent copy of Z."""

    @abstractmethod
    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Independent draws, (size, N)."""

    def mean(self) -> Floats:
        """Expected value, (N,)."""
        return self._loc + self._scale * self._moments[0]

    def var(self) -> Floats:
        """Variance, (N,): within members and between them."""
        return self._scale**2 * self._moments[1]

    def std(self) -> Floats:
        """Standard deviation, (N,)."""
        std: Floats = self._scale * np.sqrt(self._moments[1])  # the square of a small scale may vanish
        return std

    def logpdf(self, y: ArrayLike) -> Floats:
        """Log density, finite for every finite y: where it would overflow it is the most negative float."""
        rows, z, shape = self._pairs("y", y)
        log = np.maximum(self._log_density(rows, _tame(z)), -np.finfo(float).max)
        log[np.abs(z) > _WILD] = -np.finfo(float).max
        return (log - math.log(self._scale)).reshape(shape)

    def pdf(self, y: ArrayLike) -> Floats:
        """Density; with several values a row, to an absolute accuracy of 1e-12 of its peak."""
        rows, z, shape = self._pairs("y", y)
        if len(shape) == 1:
            return exponential(self.logpdf(y))
        return (self._density(rows, z) / self._scale).reshape(shape)

    def logcdf(self, y: ArrayLike) -> Floats:
        """Log of the probability of at most y."""
        rows, z, shape = self._pairs("y", y)
        return self._log_tails(rows, _tame(z))[0].reshape(shape)

    def logsf(self, y: ArrayLike) -> Floats:
        """Log of the probability of more than y."""
        rows, z, shape = self._pairs("y", y)
        return self._log_tails(rows, _tame(z))[1].reshape(shape)

    def cdf(self, y: ArrayLike) -> Floats:
        """Probability of at most y; relative accuracy where it is small."""
        rows, z, shape = self._pairs("y", y)
        p = np.clip(self._bulk(rows, z)[0], 0.0, 1.0)
        small = p < 1e-5
        if small.any():
            p[small] = np.exp(self._log_tails(rows[small], _tame(z[small]))[0])
        return p.reshape(shape)

    def ppf(self, q: ArrayLike) -> Floats:
        """Quantile: the y with cdf(y) = q; −inf and inf at 0 and 1."""
        values = np.asarray(q, dtype=np.float64)
        if not np.all((values >= 0) & (values <= 1)):
            raise ValueError(f"`q` must be probabilities between 0 and 1; got {_first_bad(values)}.")
        rows, p, shape = self._pairs("q", q, standardise=False)
        return (self._loc + self._scale * self._quantiles(rows, p)).reshape(shape)

    def _quantiles(self, rows: Ints, p: Floats) -> Floats:
        """The z with P(Z ≤ z) = p at pairs."""
        bracket = self._bracket(rows, p)
        return solve_quantiles(self._bulk, self._log_tails, self._log_density, rows, p, bracket)

    def _bracket(self, rows: Ints, q: Floats) -> Bracket:
        """Where the quantiles of pairs are looked for."""
        mean, var = self._moments
        return cantelli(mean[rows], np.sqrt(var[rows]), q, 1 - q)

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Lower and upper end, (N,) each, of the central interval that holds y with probability `level`."""
        require_level(level)
        ends = self.ppf(np.array([[0.5 - 0.5 * level, 0.5 + 0.5 * level]]))
        return ends[:, 0], ends[:, 1]

    def rvs(self, size: int | None = None, random_state: Seed = None) -> Floats:
        """Independent draws: (N,) if `size` is None, otherwise (size, N)."""
        rng = generator(random_state)
        draws = self._loc + self._scale * self._draw(checked_size(size), rng)
        return draws[0] if size is None else draws

    def crps(self, y: ArrayLike) -> Floats:
        """Continuous ranked probability score E|Y − y| − ½ E|Y − Y'|, in the units of y; small is good."""
        rows, z, shape = self._pairs("y", y)
        to_y, between = self._distances(rows, z)
        return (self._scale * (to_y - 0.5 * between)).reshape(shape)

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of the mixture, (N,) each."""
        mean, var = self._member_moments()
        centre = self._mix @ mean
        return centre, self._mix @ (var + (mean - centre) ** 2)

    def _pairs(
        self, name: str, y: ArrayLike, *, standardise: bool = True
    ) -> tuple[Ints, Floats, tuple[int, ...]]:
        """Flat rows and values, and the shape to give back."""
        values = np.asarray(y, dtype=np.float64)
        N = self._rows
        if (
            values.ndim > 2
            or (values.ndim == 1 and len(values) != N)
            or (values.ndim == 2 and len(values) not in (1, N))
        ):
            raise ValueError(
                f"`{name}` must be a scalar or have shape ({N},), ({N}, k) or (1, k), a row a distribution; "
                f"got shape {values.shape}. To ask the same k values of every row pass shape (1, k)."
            )
        if not np.all(np.isfinite(values)):
            raise ValueError(f"`{name}` must be finite; got {_first_bad(values)}.")
        shape = (N,) if values.ndim < 2 else (N, values.shape[1])
        full = np.broadcast_to(values, shape)
        rows = np.broadcast_to(np.arange(N).reshape(N, *(1,) * (len(shape) - 1)), shape)
        z = (full - self._loc) / self._scale if standardise else full
        return rows.ravel(), z.ravel().copy(), shape


def _tame(z: Floats) -> Floats:
    tame: Floats = np.clip(z, -_WILD, _WILD)
    return tame


def exponential(log: Floats) -> Floats:
    """The exponential, with its type known."""
    value: Floats = np.exp(log)
    return value


def mixture_weights(weights: ArrayLike | None, members: int) -> Floats:
    """Nonnegative weights that sum to one; equal if None."""
    w = np.ones(members) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != (members,) or not np.all(w >= 0) or not 0 < w.sum() < np.inf:
        raise ValueError(
            f"`member_weights` must be {members} nonnegative numbers, not all zero; got {w.tolist()}."
        )
    normalised: Floats = w / w.sum()
    return normalised


def generator(random_state: Seed) -> np.random.Generator:
    """Randomness from a seed, a generator, or scikit-learn's legacy state."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)


def require_level(level: Any) -> None:
    """Raise unless it is one probability."""
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ValueError(f"`level` must be between 0 and 1; got {level!r}. For 90 % pass 0.9.")


def checked_size(size: Any) -> int:
    """How many draws: one if None."""
    if size is not None and (isinstance(size, bool) or not isinstance(size, Integral) or size < 0):
        raise ValueError(
            f"`size` must be the number of draws of each row, or None for one without an axis; got {size!r}."
        )
    return 1 if size is None else int(size)


def _first_bad(values: Floats) -> str:
    """The first entry that is not finite, else the first that is not a probability."""
    flat = values.ravel()
    bad = ~np.isfinite(flat)
    k = int(np.argmax(bad if bad.any() else (flat < 0) | (flat > 1)))
    return f"{flat[k]} at flat index {k}"
