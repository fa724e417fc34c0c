"""A multivariate normal truncated to a box: probability, moments, density and draws, with error estimates.

It takes and returns NumPy arrays of float64. `tggm.inference` does the computations; the engine is chosen by
the size of the problem and the requested accuracy.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import qr, solve_triangular
from scipy.special import ndtr

from tggm import settings as check
from tggm.arrays import Floats
from tggm.gaussian import Limits, Moments, TruncatedGaussian
from tggm.inference import (
    Points,
    candidates,
    ep,
    estimate_log_z,
    exact,
    full_limits,
    generator,
    hmc,
    linear_moments,
    log_probabilities,
    next_prime,
    pair_covariance,
    rounding_error,
    student_bound,
    weight_bound,
    weighted_points,
)
from tggm.precision import Dense, Diagonal, Precision, as_float, is_concrete, require_positive_definite

ENGINES = ("auto", "exact", "separation", "ep")
_QUADRATURE = 2  # dimensions up to which "auto" uses quadrature
_LARGEST = 1000  # dimensions up to which "auto" uses separation of variables
_LEAST_ACCEPTED = 1e-3
SHIFTS = 8
_FIRST = 1000  # points for each shift
_MOST_POINTS = 2**17
_MOST_NUMBERS = 2**28  # in the points of all shifts
_JUDGED = 4096  # points from which the effect of rounding is estimated
_EPS = float(np.finfo(float).eps)
_SINGLE = 1e-4  # smallest `tol` for which float32 is accurate enough
_OF_SINGLE = 1e-5  # relative error of a probability in float32
_SINGLE_DIM = 10  # smallest dimension in which float32 is faster


class BoxEstimate(NamedTuple):
    """A number, and the largest error: a 99.9 % bound if it is random, infinite if it is unknown."""

    value: float
    error: float


class MomentEstimates(NamedTuple):
    """Mean and covariance, and the largest error of each entry: a 99.9 % bound if random, NaN if unknown."""

    mean: Floats
    mean_error: Floats
    cov: Floats
    cov_error: Floats


class MarginalSummary(NamedTuple):
    """Mean and standard deviation, (d,), and quantiles, (d, probabilities), of each variable."""

    mean: Floats
    std: Floats
    quantiles: Floats


@np.errstate(invalid="ignore", divide="ignore")  # no point fulfils all constraints
def _probability(log_w: Floats) -> BoxEstimate:
    """Return the log of the mean weight over several shifts, and the error from their spread."""
    top = log_w.max()
    return BoxEstimate(float(top + np.log(np.exp(log_w - top).mean())), float(weight_bound(log_w, np)))


@np.errstate(invalid="ignore", divide="ignore")
def _moments(log_w: Floats, h: Floats) -> MomentEstimates:
    """Return weighted moments of all points, and errors from the spread over shifts."""
    w = np.exp(log_w - log_w.max())
    share = w.sum(1) / w.sum()
    w = w / w.sum()
    off = h - h[0, 0]  # a sum of a million numbers would round the mean of a narrow box
    mean = np.einsum("sn,snd->d", w, off)
    off, mean = off - mean, h[0, 0] + mean
    cov = np.einsum("sn,sni,snj->ij", w, off, off, optimize=True)
    # the weighted sums of residuals of each shift average to zero, so their spread is the error
    first = np.einsum("sn,snd->sd", w, off)
    second = np.einsum("sn,sni,snj->sij", w, off, off, optimize=True) - share[:, None, None] * cov
    known = np.isfinite(weight_bound(log_w, np)) and (np.diag(cov) > 0).all()  # else points are rounded
    factor = student_bound(len(w)) * np.sqrt(len(w) / (len(w) - 1)) if known else np.nan
    return MomentEstimates(
        mean, factor * np.sqrt((first**2).sum(0)), cov, factor * np.sqrt((second**2).sum(0))
    )


def _with_rounding(found: MomentEstimates, relative: float, size: Floats | float) -> MomentEstimates:
    """Add errors relative to the standard deviations, and the rounding of numbers of the given size."""
    sd = np.sqrt(np.diag(found.cov))
    off = relative * sd + 16 * _EPS * (np.abs(found.mean) + size)  # quantiles have 20 units of rounding
    pairs = 2 * (np.outer(off, sd) + np.outer(sd, off) + np.outer(off, off))
    return found._replace(mean_error=found.mean_error + off, cov_error=found.cov_error + pairs)


def _relative_error(points: Points) -> float:
    """Return the largest error of a mean, in standard deviations."""
    found = _moments(*points)
    sd = np.sqrt(np.diag(found.cov))
    return float((found.mean_error / np.where(sd > 0, sd, 1)).max())


def box_log_prob(
    lower: Array | ArrayLike, upper: Array | ArrayLike, mean: Array | ArrayLike, cov: Array | ArrayLike, *,
    n_points: int = 1000, seed: int = 0, with_error: bool = False,
) -> Any:  # fmt: skip
    r"""Return log Pr(lower <= x <= upper) for x ~ N(mean, cov), differentiable in all four arguments.

    .. math::
        \partial_\mu \log Z = \Sigma^{-1} (E[x] - \mu), \qquad
        \partial_\Sigma \log Z = \tfrac12 \Sigma^{-1} (E[(x - \mu)(x - \mu)^T] - \Sigma) \Sigma^{-1},

    with expectations inside the box; the derivative by a limit is the density of x_k there. Derivatives are
    those of the estimate, the separation of variables at fixed quasi-random points, so optimisers see a
    smooth function. It works in `jax.jit`, `jax.grad` and `jax.vmap`, which need
    ``jax.config.update("jax_enable_x64", True)``.

    Parameters
    ----------
    lower, upper, mean : array_like, shape (..., d), or numbers
        Limits, which may be infinite, and means; leading axes are batches and are broadcast.
    cov : array_like, shape (..., d, d)
        Covariances, positive definite; they may differ within a batch.
    n_points : int
        Points for each of eight random shifts, rounded up to a prime.
    seed : int
        Seed of the shifts.
    with_error : bool
        Return a pair of values and 99.9 % bounds of their errors, without derivatives; infinite if unknown.

    Examples
    --------
    >>> round(float(box_log_prob(0, np.inf, 0, [[1, 0.5], [0.5, 1]])), 4)  # log(1/3)
    -1.0986
    """
    check.count("n_points", n_points)
    given: list[Any] = [
        a if isinstance(a, Array) else np.asarray(a, float) for a in (lower, upper, mean, cov)
    ]
    if not (concrete := is_concrete(*given)) and jnp.result_type(float) != jnp.float64:
        raise ValueError(
            "box_log_prob needs float64 in transformations of JAX; "
            'call jax.config.update("jax_enable_x64", True) first.'
        )
    with jax.enable_x64(True):
        low, high, mu, sigma = (jnp.asarray(a, jnp.float64) for a in given)
        if sigma.ndim < 2 or sigma.shape[-1] != sigma.shape[-2]:
            raise ValueError(f"`cov` must have shape (..., d, d); got {sigma.shape}.")
        d = sigma.shape[-1]
        lead = jnp.broadcast_shapes(*(a.shape[:-1] for a in (low, high, mu)), sigma.shape[:-2])
        low, high, mu = (jnp.broadcast_to(a, (*lead, d)).reshape(-1, d) for a in (low, high, mu))
        if concrete:
            for matrix in as_float("cov", sigma.reshape(-1, d, d), ndim=3):
                require_positive_definite("cov", matrix)
            TruncatedGaussian(Diagonal(jnp.ones(d)), as_float("mean", mu, ndim=2), low, high)  # checks limits
        sigma = jnp.broadcast_to((sigma + sigma.mT) / 2, (*lead, d, d)).reshape(-1, d, d)
        n = next_prime(n_points)
        z, key = jnp.asarray(generator(n, d)), jax.random.key(seed)
        found = log_probabilities(sigma, mu, Limits(low, high), z, key, n, SHIFTS)
        value, error = (a.reshape(lead) for a in found)
    return (value, error) if with_error else value


def _weighted_quantiles(x: Floats, w: Floats, levels: Floats) -> Floats:
    """Return quantiles of points x with weights w, interpolated."""
    order = np.argsort(x)
    cumulated = np.cumsum(w[order])
    return np.interp(levels * cumulated[-1], cumulated - 0.5 * w[order], x[order])


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
    constraints : array_like, shape (k, d), optional
        A: the limits, (k,), are those of A x, for any number of rows. By default A is the identity.
    engine : {"auto", "exact", "separation", "ep"}
        "exact" is for independent variables and for up to three; "separation" integrates one variable after
        the other at quasi-random points, with minimax tilting, and estimates its error; "ep" is a fast
        approximation without random points. "auto" is "exact" for independent variables and up to two
        dimensions, "separation" up to a thousand, and "ep" beyond.
    seed : int
        Seed of the random shifts of the points.

    Examples
    --------
    >>> normal = MultivariateTruncatedNormal([0, 0], [[1, 0.5], [0.5, 1]], lower=0)
    >>> round(normal.log_prob_box().value, 4)  # log(1/3)
    -1.0986
    """

    def __init__(
        self, mean: ArrayLike, cov: ArrayLike, lower: ArrayLike = -np.inf, upper: ArrayLike = np.inf, *,
        constraints: ArrayLike | None = None, engine: str = "auto", seed: int = 0,
    ) -> None:  # fmt: skip
        check.one_of("engine", engine, ENGINES)
        with jax.enable_x64(True):
            self.location = np.asarray(as_float("mean", np.atleast_1d(mean), ndim=1), float)
            self.scale = np.asarray(as_float("cov", np.atleast_2d(cov), ndim=2), float)
        self.dim = len(self.location)
        if self.scale.shape != (self.dim, self.dim):
            raise ValueError(
                f"`cov` must have shape ({self.dim}, {self.dim}), as `mean` has {self.dim} numbers; "
                f"got {self.scale.shape}."
            )
        self.constraints: Floats = np.eye(self.dim) if constraints is None else np.array(constraints, float)
        if self.constraints.shape[1:] != (self.dim,) or not self.constraints.any(1).all():
            raise ValueError(
                f"`constraints` must have {self.dim} columns and no row of zeros; "
                f"got shape {self.constraints.shape}."
            )
        low, high, count = np.asarray(lower, float), np.asarray(upper, float), len(self.constraints)
        with jax.enable_x64(True):
            require_positive_definite("cov", jnp.asarray(self.scale))
            TruncatedGaussian(Diagonal(jnp.ones(count)), np.zeros(count), low, high)  # checks limits
        self.lower, self.upper = np.broadcast_to(low, count), np.broadcast_to(high, count)
        self._root = np.linalg.cholesky(self.scale)
        self._is_box = constraints is None
        self._used, self._A, *self._sides = self._box_rows()
        self._independent = not np.any(self.scale - np.diag(np.diag(self.scale)))
        self._engine = self._choose(engine)
        self._points: Points | None = None
        self._n, self._single, self._seed = _FIRST, True, seed

    def conditional(self, index: ArrayLike, values: ArrayLike) -> "MultivariateTruncatedNormal":
        """Return the distribution of the other variables given the values of those with these numbers."""
        law = self._condition(np.atleast_1d(np.asarray(index, int)), np.atleast_1d(np.asarray(values, float)))
        if law is None:
            raise ValueError(f"`values` must be within the limits; got {values!r}.")
        return law

    def marginal_logpdf(self, index: ArrayLike, x: ArrayLike, *, tol: float = 5e-3) -> Floats:
        """Return the log-density, (n,), of the variables with these numbers at points x, (n, numbers)."""
        known, x = np.atleast_1d(np.asarray(index, int)), np.atleast_2d(np.asarray(x, float))
        root = np.linalg.cholesky(self.scale[np.ix_(known, known)])
        z = solve_triangular(root, (x - self.location[known]).T, lower=True)
        log = -0.5 * (z**2 + np.log(2 * np.pi)).sum(0) - np.log(np.diag(root)).sum()
        laws = [self._condition(known, values) for values in x]
        inside = [-np.inf if law is None else law.log_prob_box(tol=tol).value for law in laws]
        return np.asarray(log + inside - self.log_prob_box(tol=tol).value)

    def _condition(self, known: NDArray[np.int64], values: Floats) -> "MultivariateTruncatedNormal | None":
        """Return the distribution given values; None if they are outside of the limits."""
        other = np.setdiff1d(np.arange(self.dim), known)
        gain = np.linalg.solve(self.scale[np.ix_(known, known)], self.scale[np.ix_(known, other)]).T
        mean = self.location[other] + gain @ (values - self.location[known])
        cov = self.scale[np.ix_(other, other)] - gain @ self.scale[np.ix_(known, other)]
        fixed, rest = self.constraints[:, known] @ values, self.constraints[:, other]
        open_, low, high = rest.any(1), self.lower - fixed, self.upper - fixed
        if not ((low <= 0) & (high >= 0))[~open_].all():
            return None
        A, box = None if self._is_box else rest[open_], (low[open_], high[open_])
        return MultivariateTruncatedNormal(mean, (cov + cov.T) / 2, *box, constraints=A, seed=self._seed)

    def _box_rows(self) -> tuple[NDArray[np.int64], Floats, Floats, Floats]:
        """Return d independent constraints, the variables of the points' box: numbers, rows and limits.

        They are the pivots of a QR factorisation of constraints weighted by the probability of their
        violation; variables without limits complete them. Other constraints set weights to zero.
        """
        if self._is_box:
            return np.arange(self.dim), self.constraints, self.lower, self.upper
        rows, free = np.concatenate([self.constraints, np.eye(self.dim)]), np.full(self.dim, np.inf)
        low, high = np.append(self.lower, -free), np.append(self.upper, free)
        size, centre = np.linalg.norm(rows @ self._root, axis=1), rows @ self.location
        outside = ndtr((low - centre) / size) + ndtr((centre - high) / size)
        weighted = (rows @ self._root) * ((outside + 1e-6) / size)[:, None]
        used = qr(weighted.T, pivoting=True, mode="r")[1][: self.dim]
        return used, rows[used], low[used], high[used]

    def _inside(self, x: Floats, but: ArrayLike = ()) -> NDArray[np.bool_]:
        """Return which points, (..., d), fulfil the constraints, except for those with the given numbers."""
        which = np.setdiff1d(np.arange(len(self.lower)), but)
        y = x @ self.constraints[which].T
        return np.asarray(((y >= self.lower[which]) & (y <= self.upper[which])).all(-1))

    def _variables(self, y: Floats) -> Floats:
        """Return x for values of the variables of the points' box."""
        return y if self._is_box else y @ np.linalg.inv(self._A).T

    def _choose(self, engine: str) -> str:
        if not self._is_box and engine in ("exact", "ep"):
            raise ValueError(f"`engine` must be 'separation' with `constraints`; got {engine!r}.")
        if engine == "exact" and not self._independent and self.dim > 3:
            raise ValueError(
                f"`engine='exact'` is for independent variables and up to 3; got {self.dim}. "
                "Use 'separation'."
            )
        if engine != "auto":
            return engine
        if self._is_box and (self._independent or self.dim <= _QUADRATURE):
            return "exact"
        return "ep" if self._is_box and self.dim > _LARGEST else "separation"

    def log_prob_box(self, *, tol: float = 5e-3) -> BoxEstimate:
        """Return the log probability of the box under N(mean, cov), and its error.

        "separation" doubles its points until the error is below `tol`, apart from rounding errors.
        """
        check.number("tol", tol, above=0)
        if self._engine == "separation":
            points = self._refine(tol, lambda points: _probability(points.log_w).error)
            value, error = _probability(points.log_w)
            extra = _OF_SINGLE if self._single else 0.0
            return BoxEstimate(value, error + self._rounding(*points)[0] + extra + 16 * _EPS * abs(value))
        with jax.enable_x64(True):
            tg, constant = self._centre()
            found = estimate_log_z(tg, self._engine)
        error = float(found.error) + 8 * _EPS * abs(constant) + self._solve()[3][0]
        return BoxEstimate(float(found.value) + constant, error)

    def moments(self, *, tol: float = 5e-2) -> MomentEstimates:
        """Return mean and covariance inside the box, with their errors.

        "separation" reaches errors of the means below `tol` standard deviations, apart from rounding errors.
        """
        check.number("tol", tol, above=0)
        if self._engine == "ep" or (self._engine == "exact" and (self._independent or self.dim == 2)):
            return self._engine_moments()
        points, extra = self._refine(tol, _relative_error), _OF_SINGLE if self._single else 0.0
        size = np.abs(self.location) + np.sqrt(np.diag(self.scale))
        return _with_rounding(_moments(*points), self._rounding(*points)[1] + extra, size)

    def marginals(self, q: ArrayLike = (0.05, 0.5, 0.95), *, tol: float = 5e-2) -> MarginalSummary:
        """Return mean, standard deviation and quantiles of each variable, from weighted points."""
        check.number("tol", tol, above=0)
        log_w, h = self._refine(tol, _relative_error)
        found = _moments(log_w, h)
        w = np.exp(log_w - log_w.max()).ravel()
        levels = np.atleast_1d(np.asarray(q, float))
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"`q` must be probabilities between 0 and 1; got {q!r}.")
        columns = h.reshape(-1, self.dim).T
        quantiles = np.stack([_weighted_quantiles(x, w, levels) for x in columns])
        return MarginalSummary(found.mean, np.sqrt(np.diag(found.cov)), quantiles)

    def logpdf(self, x: ArrayLike, *, tol: float = 5e-3) -> Floats:
        """Return the log-density at x, (..., d): shape (...), −∞ outside of the box."""
        x = np.asarray(x, float)
        if x.shape[-1:] != (self.dim,):
            raise ValueError(f"`x` must have {self.dim} columns; got shape {x.shape}.")
        z = solve_triangular(self._root, (x - self.location).reshape(-1, self.dim).T, lower=True)
        log = self._log_peak() - 0.5 * (z**2).sum(0).reshape(x.shape[:-1])
        return np.where(self._inside(x), log - self.log_prob_box(tol=tol).value, -np.inf)

    def rvs(self, size: int = 1, *, random_state: int = 0) -> Floats:
        """Return independent draws, shape (size, d).

        Uses rejection sampling from the tilted normal of the separation of variables. If fewer than one
        proposal in a thousand is accepted, uses Hamiltonian Monte Carlo, whose draws are slightly dependent,
        and warns.
        """
        check.count("size", size)
        with jax.enable_x64(True):
            key, kept, tried = jax.random.key(random_state), np.empty((0, self.dim)), 0
            batch = max(256, min(2 * size, 2**22 // self.dim))
            while len(kept) < size:
                key, now = jax.random.split(key)
                y, accepted = map(np.asarray, candidates(*self._box(), now, batch))
                h = self._variables(y[accepted])
                kept = np.concatenate([kept, h[self._inside(h, self._used)]])
                tried += batch
                if len(kept) < _LEAST_ACCEPTED * tried:
                    return self._chain(size, now)
        return kept[:size]

    def _refine(self, tol: float, error_of: Callable[[Points], float]) -> Points:
        """Return weighted points, (shifts, n, d); double their number until `error_of` is at most `tol`."""
        single = self.dim >= _SINGLE_DIM and tol >= _SINGLE
        most = min(_MOST_POINTS, _MOST_NUMBERS // (SHIFTS * self.dim))
        if self._points is None or self._single > single:
            self._draw(single)
        while self._points is not None and not (error := error_of(self._points)) <= tol:
            if 2 * self._n > most:
                warnings.warn(
                    f"the error is {error:.2g}, above `tol` = {tol:g}, with the largest number "
                    f"of points ({self._n} for each of {SHIFTS} shifts); use a larger `tol`.",
                    RuntimeWarning,
                    stacklevel=3,
                )
                break
            factor = np.clip(error / tol, 1.5, 16) if np.isfinite(error) else 16  # errors decrease as 1/n
            self._n = min(most, self._n * 2 ** int(np.ceil(np.log2(factor))))
            self._draw(single)
        assert self._points is not None
        return self._points

    def _draw(self, single: bool) -> None:
        self._single = single
        with jax.enable_x64(True):
            log_w, y = weighted_points(
                *self._box(), n_points=self._n, n_shifts=SHIFTS, seed=self._seed, single=single
            )
        h = self._variables(y)
        self._points = Points(np.where(self._inside(h, self._used), log_w, -np.inf), h)

    def _log_peak(self) -> float:
        """Return the log density of N(mean, cov) at its mean."""
        return float(-np.log(np.diag(self._root)).sum() - 0.5 * self.dim * np.log(2 * np.pi))

    def _rounding(self, log_w: Floats, h: Floats) -> tuple[float, float]:
        """Return the effect of rounding on log Pr and, in standard deviations, on means of points."""
        few, sd = slice(None, None, -(-log_w.size // _JUDGED)), np.sqrt(np.diag(self.scale))
        off = (h.reshape(-1, self.dim)[few] - self.location).T
        of_log, of_mean = rounding_error(self._precision(), sd, log_w.ravel()[few], off, np)
        return float(of_log), float(of_mean)

    def _precision(self) -> Floats:
        inverse = np.linalg.inv(self.scale)
        return np.asarray((inverse + inverse.T) / 2)

    def _origin(self) -> Floats:
        """Return a finite limit of each variable, or its mean: the widths of narrow boxes are not rounded."""
        finite = np.where(np.isfinite(self.lower), self.lower, self.upper)
        return np.where(np.isfinite(finite), finite, self.location)

    def _centre(self) -> tuple[TruncatedGaussian, float]:
        """Return the distribution relative to the origin, for engines, and log Pr minus its log Z."""
        inverse, origin = self._precision(), self._origin()
        P: Precision = (
            Diagonal(1 / jnp.diag(self.scale)) if self._independent else Dense(jnp.asarray(inverse))
        )
        off = self.location - origin
        shift = off / np.diag(self.scale) if self._independent else inverse @ off
        tg = TruncatedGaussian(P, shift, self.lower - origin, self.upper - origin)
        return tg, self._log_peak() - 0.5 * float(off @ shift)

    def _chain(self, size: int, key: Any) -> Floats:
        warnings.warn(
            "rvs: fewer than one proposal in a thousand is accepted in this box; these draws come from "
            "Hamiltonian Monte Carlo and are slightly dependent.",
            RuntimeWarning,
            stacklevel=3,
        )
        if not self._is_box:
            raise RuntimeError("rvs: too few proposals fulfil the constraints; use moments().")
        found = hmc(self._centre()[0], key, max(size, 2000), thin=5)
        draws: Floats = self._origin() + np.asarray(found.draws)
        if not bool(found.converged) or len(np.unique(draws, axis=0)) < len(draws) // 2:
            raise RuntimeError("rvs: the chains do not mix in this box; use moments() and marginals().")
        return draws[:size]

    def _box(self) -> tuple[Array, Array, Limits]:
        A, limits = self._A, Limits(*map(jnp.asarray, self._sides))
        return jnp.asarray(A @ self.scale @ A.T), jnp.asarray(A @ self.location), limits

    def _solve(self) -> tuple[Moments, Floats, Floats, tuple[float, float]]:
        """Return an engine's result, mean and covariance, and the effect of rounding."""
        with jax.enable_x64(True):
            tg = self._centre()[0].rows()
            found = exact(tg) if self._independent or self._engine == "exact" else ep(tg)
            cov = np.zeros_like(self.scale)
            if found.kind != "exact":
                cov = np.array(_ep_covariance(tg))
            elif not self._independent and self.dim == 2:
                cov[0, 1] = cov[1, 0] = pair_covariance(tg.precision.dense(), tg.shift, full_limits(tg))[0]
        mean, cov[np.diag_indices(self.dim)] = self._origin() + np.asarray(found.mean[0]), found.var[0]
        values, vectors = np.linalg.eigh(cov)  # points with this mean and covariance
        spread = (vectors * np.sqrt(self.dim * np.maximum(values, 0))).T
        points = mean + np.concatenate([spread, -spread])
        return found, mean, cov, self._rounding(np.zeros(len(points)), points)

    def _engine_moments(self) -> MomentEstimates:
        found, mean, cov, rounding = self._solve()
        if found.mean_error is None:
            return MomentEstimates(mean, np.full_like(mean, np.nan), cov, np.full_like(cov, np.nan))
        relative = float((found.mean_error[0] / np.sqrt(found.var[0])).max()) + rounding[1]
        exactly = MomentEstimates(mean, np.zeros_like(mean), cov, np.zeros_like(cov))
        return _with_rounding(exactly, relative, np.abs(self.location))


_ep_covariance = jax.jit(
    lambda tg: linear_moments(tg, jnp.eye(tg.size, dtype=tg.shift.dtype), engine="ep")[1][0]
)
