"""A multivariate normal truncated to a box: probability, moments, density and draws, with error estimates.

NumPy in, NumPy out, float64. The computations are those of `tggm.inference`; the size of the problem and the
requested accuracy choose the engine.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from tggm.arrays import Floats
from tggm.gaussian import Limits, TruncatedGaussian
from tggm.inference import Points, candidates, ep, estimate_log_z, hmc, linear_moments, weighted_points
from tggm.precision import Dense
from tggm.special import log_ndtr_interval, truncated_mean, truncated_var

ENGINES = ("auto", "exact", "separation", "ep")
_QUADRATURE = 2  # dimensions up to which `auto` integrates
_LARGEST = 1000  # dimensions up to which it separates variables
_LEAST_ACCEPTED = 1e-3
_ROUNDING = 1e-12
SHIFTS = 8
_FIRST = 1000  # points for each shift
_MOST_POINTS = 2**17
_MOST_NUMBERS = 2**28  # in the points of all shifts
_SINGLE = 1e-4  # float32 is accurate enough for larger errors,
_SINGLE_DIM = 10  # and faster from this dimension on


class BoxEstimate(NamedTuple):
    """A number, and its standard error or the size of its error."""

    value: float
    error: float


class MomentEstimates(NamedTuple):
    """Mean and covariance, and one standard error of each entry; 0 if exact, NaN if unknown."""

    mean: Floats
    mean_error: Floats
    cov: Floats
    cov_error: Floats


class MarginalSummary(NamedTuple):
    """Summary of each variable."""

    mean: Floats  # (d,)
    std: Floats  # (d,)
    quantiles: Floats  # (d, number of probabilities)


def _probability(log_w: Floats) -> BoxEstimate:
    """Return the mean weight over several shifts, and its standard error from their spread."""
    top = log_w.max()
    p = np.exp(log_w - top).mean(1)
    return BoxEstimate(float(top + np.log(p.mean())), float(p.std(ddof=1) / p.mean() / np.sqrt(len(p))))


def _moments(log_w: Floats, h: Floats) -> MomentEstimates:
    """Return weighted moments of all points, and errors from the spread over shifts."""
    w = np.exp(log_w - log_w.max())
    share = w.sum(1) / w.sum()
    w = w / w.sum()
    mean = np.einsum("sn,snd->d", w, h)
    off = h - mean
    cov = np.einsum("sn,sni,snj->ij", w, off, off, optimize=True)
    # the weighted sums of residuals of each shift average to zero, so their spread is the error
    first = np.einsum("sn,snd->sd", w, off)
    second = np.einsum("sn,sni,snj->sij", w, off, off, optimize=True) - share[:, None, None] * cov
    factor = np.sqrt(len(w) / (len(w) - 1))
    return MomentEstimates(
        mean, factor * np.sqrt((first**2).sum(0)), cov, factor * np.sqrt((second**2).sum(0))
    )


def _relative_error(points: Points) -> float:
    """Return the largest standard error of a mean, in standard deviations."""
    found = _moments(*points)
    return float((found.mean_error / np.sqrt(np.diag(found.cov))).max())


def _weighted_quantiles(x: Floats, w: Floats, levels: Floats) -> Floats:
    """Return quantiles of points x with weights w, interpolated."""
    order = np.argsort(x)
    cumulated = np.cumsum(w[order])
    found: Floats = np.interp(levels * cumulated[-1], cumulated - 0.5 * w[order], x[order])
    return found


class _AdaptivePoints:
    """Weighted points of N(mean, cov) in a box, doubled until their spread over shifts is small enough."""

    def __init__(self, cov: Floats, mean: Floats, lower: Floats, upper: Floats, seed: int) -> None:
        self._box, self._seed = (cov, mean, lower, upper), seed
        self._n, self._single = _FIRST, True
        self._points: Points | None = None

    def __call__(self, tol: float, error_of: Callable[[Points], float]) -> Points:
        """Return points, (shifts, n, d), of which a function of them, the error, is at most `tol`."""
        dim = len(self._box[1])
        single = dim >= _SINGLE_DIM and tol >= _SINGLE
        most = min(_MOST_POINTS, _MOST_NUMBERS // (SHIFTS * dim))
        if self._points is None or self._single > single:
            self._draw(single)
        while self._points is not None and (error := error_of(self._points)) > tol:
            if 2 * self._n > most:
                warnings.warn(
                    f"the standard error is {error:.2g}, above `tol` = {tol:g}, with the largest number "
                    f"of points ({self._n} for each of {SHIFTS} shifts); use a larger `tol`.",
                    RuntimeWarning,
                    stacklevel=3,
                )
                break
            # errors fall about as 1/n
            self._n = min(most, self._n * 2 ** int(np.ceil(np.log2(np.clip(error / tol, 1.5, 16)))))
            self._draw(single)
        assert self._points is not None
        return self._points

    def _draw(self, single: bool) -> None:
        self._single = single
        with jax.enable_x64(True):
            cov, mean, *limits = map(jnp.asarray, self._box)
            numbers = {"n_points": self._n, "n_shifts": SHIFTS, "seed": self._seed}
            self._points = weighted_points(cov, mean, Limits(*limits), **numbers, single=single)


class MultivariateTruncatedNormal:
    r"""N(mean, cov) given lower <= x <= upper.

    Parameters
    ----------
    mean : array_like, shape (d,)
        Mean before truncation.
    cov : array_like, shape (d, d)
        Covariance before truncation, positive definite.
    lower, upper : array_like, broadcast to (d,)
        Limits, −∞ and ∞ by default.
    engine : {"auto", "exact", "separation", "ep"}
        "exact" is for independent variables and for up to three; "separation" integrates one variable after
        the other at quasi-random points, with minimax tilting, and estimates its error; "ep" approximates
        without random points, in milliseconds. "auto" is exact for independent variables and two dimensions,
        separation up to a thousand, EP beyond.
    seed : int
        Seed of the random shifts of the points.

    Examples
    --------
    >>> law = MultivariateTruncatedNormal([0, 0], [[1, 0.5], [0.5, 1]], lower=0)
    >>> round(law.log_prob_box().value, 4)  # log(1/3)
    -1.0986
    """

    def __init__(
        self, mean: ArrayLike, cov: ArrayLike, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf, *,
        engine: str = "auto", seed: int = 0,
    ) -> None:  # fmt: skip
        if engine not in ENGINES:
            raise ValueError(f"`engine` must be one of {ENGINES}; got {engine!r}.")
        self.location = np.atleast_1d(np.asarray(mean, float))
        self.scale = np.atleast_2d(np.asarray(cov, float))
        self.dim = len(self.location)
        if self.scale.shape != (self.dim, self.dim):
            raise ValueError(
                f"`cov` must have shape ({self.dim}, {self.dim}), as `mean` has {self.dim} numbers; "
                f"got {self.scale.shape}."
            )
        for name, given in (("mean", self.location), ("cov", self.scale)):
            if not np.isfinite(given).all():
                raise ValueError(f"`{name}` must be finite; got {given[~np.isfinite(given)][0]}.")
        self.lower, self.upper = _limits(lower, upper, self.dim)
        self._root = _cholesky(self.scale)
        self._engine = self._choose(engine)
        self._points = _AdaptivePoints(self.scale, self.location, self.lower, self.upper, seed)

    def _choose(self, engine: str) -> str:
        independent = not np.any(self.scale - np.diag(np.diag(self.scale)))
        if engine == "exact" and not independent and self.dim > 3:
            raise ValueError(
                f"`engine='exact'` is for independent variables and up to 3; got {self.dim}. "
                "Use 'separation'."
            )
        if engine in ("auto", "exact") and independent:
            return "independent"
        if engine != "auto":
            return engine
        if self.dim <= _QUADRATURE:
            return "exact"
        return "separation" if self.dim <= _LARGEST else "ep"

    def log_prob_box(self, *, tol: float = 1e-3) -> BoxEstimate:
        """Return the log probability of the box under N(mean, cov), and its error.

        "separation" doubles its points until the relative standard error of the probability is below `tol`.
        """
        _check_tol(tol)
        if self._engine == "independent":
            with jax.enable_x64(True):
                value = float(log_ndtr_interval(*self._standardised()).sum())
            return BoxEstimate(value, _ROUNDING * max(abs(value), 1))
        if self._engine == "separation":
            return _probability(self._points(tol, lambda points: _probability(points.log_w).error).log_w)
        with jax.enable_x64(True):
            found = estimate_log_z(self.gaussian(), self._engine)
        rounding = np.finfo(float).eps * np.linalg.cond(self.scale)  # of the inverse
        # log Z without truncation is minus the log density at zero
        value = float(found.value) + float(self._log_normal(np.zeros(self.dim)))
        return BoxEstimate(value, float(found.error + rounding))

    def moments(self, *, tol: float = 1e-2) -> MomentEstimates:
        """Return mean and covariance inside the box, with their errors.

        "separation" reaches standard errors of the means below `tol` standard deviations.
        """
        _check_tol(tol)
        if self._engine == "independent":
            return self._independent_moments()
        if self._engine == "ep":
            return self._ep_moments()
        return _moments(*self._points(tol, _relative_error))

    def mean(self, *, tol: float = 1e-2) -> Floats:
        """Return the mean inside the box, shape (d,); `moments` has its error."""
        return self.moments(tol=tol).mean

    def cov(self, *, tol: float = 1e-2) -> Floats:
        """Return the covariance inside the box, shape (d, d); `moments` has its error."""
        return self.moments(tol=tol).cov

    def marginals(self, q: ArrayLike = (0.05, 0.5, 0.95), *, tol: float = 1e-2) -> MarginalSummary:
        """Return mean, standard deviation and quantiles of each variable, from weighted points."""
        _check_tol(tol)
        log_w, h = self._points(tol, _relative_error)
        found = _moments(log_w, h)
        w = np.exp(log_w - log_w.max()).ravel()
        levels = np.atleast_1d(np.asarray(q, float))
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"`q` must be probabilities between 0 and 1; got {q!r}.")
        columns = h.reshape(-1, self.dim).T
        quantiles = np.stack([_weighted_quantiles(x, w, levels) for x in columns])
        return MarginalSummary(found.mean, np.sqrt(np.diag(found.cov)), quantiles)

    def logpdf(self, x: ArrayLike, *, tol: float = 1e-3) -> Floats:
        """Return the log density at rows of x, −∞ outside of the box; shape of x without its last axis."""
        x = np.asarray(x, float)
        if x.shape[-1:] != (self.dim,):
            raise ValueError(f"`x` must have {self.dim} columns; got shape {x.shape}.")
        inside = ((x >= self.lower) & (x <= self.upper)).all(-1)
        return np.where(inside, self._log_normal(x) - self.log_prob_box(tol=tol).value, -np.inf)

    def _log_normal(self, x: Floats) -> Floats:
        """Return the log density without truncation."""
        z = solve_triangular(self._root, (x - self.location).reshape(-1, self.dim).T, lower=True)
        value = -0.5 * (z**2).sum(0) - np.log(np.diag(self._root)).sum() - 0.5 * self.dim * np.log(2 * np.pi)
        log: Floats = value.reshape(x.shape[:-1])
        return log

    def rvs(self, size: int = 1, *, random_state: int = 0) -> Floats:
        """Return independent draws, shape (size, d).

        Uses rejection from the tilted normal of the separation of variables. If fewer than one proposal in a
        thousand is accepted, uses Hamiltonian Monte Carlo with a warning: its draws are not quite
        independent.
        """
        if size < 1:
            raise ValueError(f"`size` must be at least 1; got {size}.")
        with jax.enable_x64(True):
            key, kept, tried = jax.random.key(random_state), np.empty((0, self.dim)), 0
            batch = max(256, min(2 * size, 2**22 // self.dim))
            while len(kept) < size:
                key, now = jax.random.split(key)
                h, accepted = map(np.asarray, candidates(*self._box(), now, batch))
                kept = np.concatenate([kept, h[accepted]])
                tried += batch
                if len(kept) < _LEAST_ACCEPTED * tried:
                    return self._chain(size, now)
        return kept[:size]

    def gaussian(self) -> TruncatedGaussian:
        """Return the same distribution in natural parameters, as engines take it."""
        P = np.linalg.inv(self.scale)
        return TruncatedGaussian.from_mean(
            Dense(jnp.asarray((P + P.T) / 2)), self.location, self.lower, self.upper
        )

    def _chain(self, size: int, key: Any) -> Floats:
        warnings.warn(
            "rvs: fewer than one proposal in a thousand is accepted in this box; these draws come from "
            "Hamiltonian Monte Carlo and are not quite independent.",
            RuntimeWarning,
            stacklevel=3,
        )
        return np.asarray(hmc(self.gaussian(), key, size, thin=5).draws)

    def _standardised(self) -> tuple[Floats, Floats]:
        std = np.sqrt(np.diag(self.scale))
        return (self.lower - self.location) / std, (self.upper - self.location) / std

    def _box(self) -> tuple[Array, Array, Limits]:
        limits = Limits(jnp.asarray(self.lower), jnp.asarray(self.upper))
        return jnp.asarray(self.scale), jnp.asarray(self.location), limits

    def _independent_moments(self) -> MomentEstimates:
        std = np.sqrt(np.diag(self.scale))
        with jax.enable_x64(True):
            mean = np.asarray(truncated_mean(self.location, std, self.lower, self.upper))
            cov = np.diag(np.asarray(truncated_var(self.location, std, self.lower, self.upper)))
        return MomentEstimates(mean, 0 * mean, cov, 0 * cov)

    def _ep_moments(self) -> MomentEstimates:
        with jax.enable_x64(True):
            tg = self.gaussian().rows()
            found = ep(tg)
            cov = np.array(_ep_covariance(tg))
        mean, var = np.asarray(found.mean[0]), np.asarray(found.var[0])
        cov[np.diag_indices(self.dim)] = var
        return MomentEstimates(mean, np.full_like(mean, np.nan), cov, np.full_like(cov, np.nan))


@jax.jit
def _ep_covariance(tg: TruncatedGaussian) -> Array:
    """Return the covariance of one row."""
    return linear_moments(tg, jnp.eye(tg.size, dtype=tg.shift.dtype), engine="ep")[1][0]


def _limits(lower: ArrayLike, upper: ArrayLike, dim: int) -> tuple[Floats, Floats]:
    given = {"lower": np.asarray(lower, float), "upper": np.asarray(upper, float)}
    for name, x in given.items():
        if x.shape not in ((), (1,), (dim,)):
            raise ValueError(f"`{name}` must be a number, or {dim} of them; got shape {x.shape}.")
    low, high = (np.broadcast_to(x, (dim,)).copy() for x in given.values())
    wrong = ~(low < high)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ValueError(
            f"`lower` must be below `upper`; variable {k} has {low[k]:g} and {high[k]:g}. For a "
            "variable of known value, condition the others on it."
        )
    return low, high


def _cholesky(cov: Floats) -> Floats:
    if not np.allclose(cov, cov.T, rtol=1e-8, atol=0):
        raise ValueError("`cov` must be symmetric; pass (cov + cov.T) / 2.")
    try:
        root: Floats = np.asarray(np.linalg.cholesky(cov), np.float64)
    except np.linalg.LinAlgError:
        least = float(np.linalg.eigvalsh(cov)[0])
        raise ValueError(
            f"`cov` must be positive definite; its smallest eigenvalue is {least:.3g}. "
            "Add a small multiple of the identity."
        ) from None
    return root


def _check_tol(tol: float) -> None:
    if not tol > 0:
        raise ValueError(f"`tol` must be positive; got {tol}.")
