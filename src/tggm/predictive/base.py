"""Base class of the predictive distributions of one output: NumPy arrays in, float64 arrays out.

A distribution is a mixture over ensemble members. Subclasses implement density, distribution function and
draws in standardised units z, at pairs (row, z). The base class adds the affine map y = loc + scale · z,
broadcasting, quantiles (Newton's method inside a bracket) and scores.
"""

import math
from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from tggm.arrays import Floats, Ints

Seed = int | np.random.Generator | np.random.RandomState | None

_LARGEST = 1e120  # larger |z| are clipped: their squares and quotients of squares overflow
_SMALLEST = 1e-200  # probability of a bracket: its square root and reciprocal are finite
_TAIL = 1e-6  # closer to 0 or 1 than this, equations are solved for the logarithm of the tail
_MAX_ITER = 100
MENTIONED = 3  # outputs in a short description


class ScalarPredictive(ABC):
    """Distributions of one output, one for each of N rows.

    Arguments `y` and `q` are broadcast against the rows: a scalar or shape (N,) gives one value per row,
    (N, k) gives k values per row, (1, k) the same k for every row. The result has shape (N,) or (N, k).
    y = loc + scale · z maps standardised values z to the output.
    """

    def __init__(self, rows: int, loc: float, scale: float) -> None:
        self._rows = rows
        if not (np.isfinite(loc) and np.isfinite(scale) and scale > 0):
            raise ValueError(f"`loc` must be finite and `scale` positive; got loc={loc!r}, scale={scale!r}.")
        self._loc, self._scale = float(loc), float(scale)

    def __len__(self) -> int:
        return self._rows

    def __repr__(self) -> str:
        return described(self)

    @abstractmethod
    def __getitem__(self, rows: slice | Ints) -> "ScalarPredictive": ...

    @property
    def units(self) -> tuple[float, float]:
        """Return loc and scale of the map y = loc + scale · z."""
        return self._loc, self._scale

    @property
    @abstractmethod
    def _moments(self) -> tuple[Floats, Floats]:
        """Return mean and variance of z, (N,) each."""

    @abstractmethod
    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        """Compute the log-density at pairs, with relative accuracy in the tails."""

    @abstractmethod
    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        """Compute log P(Z ≤ z) and log P(Z > z) at pairs, with relative accuracy in the tails."""

    @abstractmethod
    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        """Compute P(Z ≤ z) and density at pairs to absolute accuracy; faster than `_log_tails`."""

    @abstractmethod
    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        """Compute E|Z − z| and E|Z − Z'| at pairs; Z' is an independent copy of Z."""

    @abstractmethod
    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw independent samples, (size, N)."""

    def mean(self) -> Floats:
        """Return the expected value, (N,)."""
        return self._loc + self._scale * self._moments[0]

    def var(self) -> Floats:
        """Return the variance, (N,): within members and between them."""
        return self._scale**2 * self._moments[1]

    def std(self) -> Floats:
        """Return the standard deviation, (N,)."""
        return self._scale * np.sqrt(self._moments[1])  # the square of a small scale may underflow

    def logpdf(self, y: ArrayLike) -> Floats:
        """Compute the log-density; where it would overflow it is the most negative float."""
        rows, z, shape = self._pairs("y", y)
        log = np.maximum(self._log_density(rows, np.clip(z, -_LARGEST, _LARGEST)), -np.finfo(float).max)
        log[np.abs(z) > _LARGEST] = -np.finfo(float).max
        return (log - math.log(self._scale)).reshape(shape)

    def pdf(self, y: ArrayLike) -> Floats:
        """Compute the density."""
        return np.exp(self.logpdf(y))

    def logcdf(self, y: ArrayLike) -> Floats:
        """Compute log P(Y ≤ y)."""
        return self._tail(y, 0)

    def logsf(self, y: ArrayLike) -> Floats:
        """Compute log P(Y > y)."""
        return self._tail(y, 1)

    def tails_at(self, rows: Ints, y: Floats) -> tuple[Floats, Floats]:
        """Compute log P(Y ≤ y) and log P(Y > y) at pairs (row, y); y may be infinite."""
        z = np.clip((y - self._loc) / self._scale, -_LARGEST, _LARGEST)
        low, high = self._log_tails(rows, z)
        low, high = np.where(y == -np.inf, -np.inf, low), np.where(y == np.inf, -np.inf, high)
        return np.where(y == np.inf, 0.0, low), np.where(y == -np.inf, 0.0, high)

    def _tail(self, y: ArrayLike, side: int) -> Floats:
        rows, z, shape = self._pairs("y", y)
        return self._log_tails(rows, np.clip(z, -_LARGEST, _LARGEST))[side].reshape(shape)

    def cdf(self, y: ArrayLike) -> Floats:
        """Compute P(Y ≤ y), with relative accuracy where it is small."""
        return np.minimum(np.exp(self.logcdf(y)), 1.0)

    def pit(self, y: ArrayLike) -> Floats:
        """Compute the probability integral transform, uniform on [0, 1] if y follows the distribution.

        It is cdf(y). Where single values have a probability it is drawn, always with the same seed, between
        P(Y < y) and P(Y ≤ y).
        """
        return self.cdf(y)

    def ppf(self, q: ArrayLike) -> Floats:
        """Compute quantiles: the y with cdf(y) = q; −inf and inf at 0 and 1."""
        values = np.asarray(q, dtype=np.float64)
        if not np.all((values >= 0) & (values <= 1)):
            raise ValueError(f"`q` must be probabilities between 0 and 1; got {_first_bad(values)}.")
        rows, p, shape = self._pairs("q", q, standardise=False)
        return (self._loc + self._scale * self._quantiles(rows, p)).reshape(shape)

    def _quantiles(self, rows: Ints, q: Floats) -> Floats:
        """Solve P(Z ≤ z) = q at pairs; near 0 and 1, for the logarithm of the lower (0) or upper (1) tail."""
        z = np.where(q <= 0, -np.inf, np.inf)
        left, right = (q > 0) & (q < _TAIL), (q < 1) & (q > 1 - _TAIL)
        for tail, where in ((None, (q >= _TAIL) & (q <= 1 - _TAIL)), (0, left), (1, right)):
            if where.any():
                z[where] = self._solve(rows[where], q[where], tail)
        return z

    def _excess(self, rows: Ints, z: Floats, p: Floats, tail: int | None) -> tuple[Any, Any, Any]:
        """Return an increasing function that is 0 at the quantile, its slope, and whether it is about 0."""
        if tail is None:
            cdf, density = self._bulk(rows, z)
            return cdf - p, density, np.abs(cdf - p) < 1e-13
        log_p = np.log(p) if tail == 0 else np.log1p(-p)
        log = self._log_tails(rows, z)[tail]
        f = log - log_p if tail == 0 else log_p - log
        return f, np.exp(self._log_density(rows, z) - log), np.abs(f) < 1e-12 * np.abs(log_p)

    def _solve(self, rows: Ints, p: Floats, tail: int | None) -> Floats:
        """Find quantiles by Newton's method; evaluate only pairs that have not converged.

        The first guess is the quantile of a Gaussian. Every third step halves the bracket: Newton's method
        is slow where the density has several narrow peaks.
        """
        mean, std = self._moments[0][rows], np.sqrt(self._moments[1][rows])
        low, high = self._bracket(rows, p)
        guess = np.where(p < 0.5, ndtri(p), -ndtri(1 - p))
        z: Floats = np.clip(mean + std * guess, low, high)
        active = np.arange(len(z))
        for step_number in range(_MAX_ITER):
            x = z[active]
            f, slope, done = self._excess(rows[active], x, p[active], tail)
            high[active] = np.where(f >= 0, x, high[active])
            low[active] = np.where(f >= 0, low[active], x)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                step = x - f / slope
            lo, hi = low[active], high[active]
            inside = (step > lo) & (step < hi) & (step_number % 3 < 2)
            z[active] = np.where(done, x, np.where(inside, step, 0.5 * (lo + hi)))
            active = active[~(done | (hi - lo <= 4e-16 * np.maximum(np.abs(lo), np.abs(hi))))]
            if active.size == 0:
                break
        return z

    def _bracket(self, rows: Ints, p: Floats) -> tuple[Floats, Floats]:
        """Return bounds of quantiles: Cantelli's mean − std √(above/below) and mean + std √(below/above)."""
        mean, std = self._moments[0][rows], np.sqrt(self._moments[1][rows])
        below, above = np.maximum(p, _SMALLEST), np.maximum(1 - p, _SMALLEST)
        return mean - std * np.sqrt(above / below), mean + std * np.sqrt(below / above)

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Compute the ends, (N,) each, of the central interval that contains y with probability `level`."""
        require_level(level)
        ends = self.ppf(np.array([[0.5 - 0.5 * level, 0.5 + 0.5 * level]]))
        return ends[:, 0], ends[:, 1]

    def rvs(self, size: int | None = None, random_state: Seed = None) -> Floats:
        """Draw independent samples: (N,) if `size` is None, otherwise (size, N)."""
        rng = generator(random_state)
        draws = self._loc + self._scale * self._draw(checked_size(size), rng)
        return draws[0] if size is None else draws

    def crps(self, y: ArrayLike) -> Floats:
        """Compute the continuous ranked probability score E|Y − y| − ½ E|Y − Y'| (lower is better)."""
        rows, z, shape = self._pairs("y", y)
        to_y, between = self._distances(rows, z)
        return (self._scale * (to_y - 0.5 * between)).reshape(shape)

    def _pairs(
        self, name: str, y: ArrayLike, *, standardise: bool = True
    ) -> tuple[Ints, Floats, tuple[int, ...]]:
        """Flatten rows and values; return them with the shape of the result."""
        values = np.asarray(y, dtype=np.float64)
        N = self._rows
        if values.ndim > 2 or (values.ndim > 0 and len(values) not in ((N,), (1, N))[values.ndim - 1]):
            raise ValueError(
                f"`{name}` must be a scalar or have shape ({N},), ({N}, k) or (1, k), one row per "
                f"distribution; got shape {values.shape}. For the same k values in every row pass (1, k)."
            )
        if not np.all(np.isfinite(values)):
            raise ValueError(f"`{name}` must be finite; got {_first_bad(values)}.")
        shape = (N,) if values.ndim < 2 else (N, values.shape[1])
        full = np.broadcast_to(values, shape)
        rows = np.broadcast_to(np.arange(N).reshape(N, *(1,) * (len(shape) - 1)), shape)
        z = (full - self._loc) / self._scale if standardise else full
        return rows.ravel(), z.ravel().copy(), shape


def described(dist: Any) -> str:
    """Return one line: family, number of rows, and mean and standard deviation, averaged over the rows."""
    text = f"{type(dist).__name__}, rows: {len(dist)}"
    if not len(dist):
        return text
    mean, std = (np.atleast_1d(a.mean(0)).tolist() for a in (dist.mean(), dist.std()))
    pairs = [f"{m:.4g} ± {s:.2g}" for m, s in zip(mean, std, strict=True)]
    shown = ", ".join(pairs[:MENTIONED]) + ", ..." * (len(pairs) > MENTIONED)
    return f"{text}, average mean ± standard deviation: {shown}"


def log_between(low: tuple[Floats, Floats], high: tuple[Floats, Floats]) -> Floats:
    """Compute log P(a < Z ≤ b) from (log P(Z ≤ a), log P(Z > a)) and the same of b, in the smaller tail."""
    right = low[0] > low[1]
    most, rest = np.where(right, low[1], high[0]), np.where(right, high[1], low[0])
    with np.errstate(divide="ignore", invalid="ignore"):
        log: Floats = most + np.log(-np.expm1(rest - most))
    return np.where(np.isneginf(most), -np.inf, log)


def generator(random_state: Seed) -> np.random.Generator:
    """Make a generator from a seed, a generator or scikit-learn's legacy state."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)


def require_level(level: Any) -> None:
    """Raise unless `level` is a probability strictly between 0 and 1."""
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ValueError(f"`level` must be between 0 and 1; got {level!r}. For 90 % pass 0.9.")


def checked_size(size: Any) -> int:
    """Return the number of draws; None means one."""
    if size is not None and (isinstance(size, bool) or not isinstance(size, Integral) or size < 0):
        raise ValueError(
            f"`size` must be the number of draws per row, or None for a single draw; got {size!r}."
        )
    return 1 if size is None else int(size)


def _first_bad(values: Floats) -> str:
    """Describe the first entry that is not finite, or else the first that is not a probability."""
    flat = values.ravel()
    bad = ~np.isfinite(flat)
    k = int(np.argmax(bad if bad.any() else (flat < 0) | (flat > 1)))
    return f"{flat[k]} at flat index {k}"
