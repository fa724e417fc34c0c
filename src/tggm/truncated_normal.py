"""A multivariate normal truncated to a box: probability, moments, density and draws, with error estimates.

It takes and returns NumPy arrays of float64. `tggm.inference` does the computations; the engine is chosen by
the size of the problem and the requested accuracy.
"""

import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.special import ndtr

from tggm import settings as check
from tggm.arrays import Floats
from tggm.gaussian import Limits, TruncatedGaussian
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
    log_bound,
    log_probabilities,
    next_prime,
    pair_covariance,
    rounding_error,
    shift_bound,
    weighted_points,
)
from tggm.precision import Dense, Diagonal, Precision
from tggm.precision.protocol import as_float, is_concrete, require_positive_definite

ENGINES = ("auto", "exact", "separation", "ep")
_QUADRATURE = 2  # dimensions up to which "auto" uses quadrature
_LARGEST = 1000  # dimensions up to which "auto" uses separation of variables
_LEAST_ACCEPTED = 1e-3
SHIFTS = 8
_FIRST = 1000  # points for each shift
_MOST_POINTS = 2**17
_MOST_NUMBERS = 2**28  # in the points of all shifts
_SINGLE = 1e-4  # smallest `tol` for which float32 is accurate enough
_SINGLE_DIM = 10  # smallest dimension in which float32 is faster
_OF_SINGLE = 1e-5  # relative error of a probability in float32
_LEAST_CHAIN = 2000  # draws of chains, so that their agreement can be judged
_LEAST_EFFECTIVE = 100  # number of points, effectively, below which errors are unknown: infinite
_EXACT_INVERSE = 3  # dimensions up to which the covariance is inverted without rounding
_INDEPENDENT = 1e-9  # least share of a constraint that is independent of the others
_EPS = float(np.finfo(float).eps)
_UNKNOWN = np.inf, np.inf


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


def _probability(log_w: Floats) -> tuple[float, float]:
    """Return the log of the mean weight over several shifts, and the error from their spread."""
    top = log_w.max()
    if not np.isfinite(top):
        return -np.inf, np.inf
    p = np.exp(log_w - top).mean(1)
    error = shift_bound(len(p)) * p.std(ddof=1) / p.mean() / np.sqrt(len(p))
    return float(top + np.log(p.mean())), float(log_bound(error, np))


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
    factor = shift_bound(len(w)) * np.sqrt(len(w) / (len(w) - 1))
    return MomentEstimates(
        mean, factor * np.sqrt((first**2).sum(0)), cov, factor * np.sqrt((second**2).sum(0))
    )


def _with_rounding(found: MomentEstimates, relative: float) -> MomentEstimates:
    """Add errors, relative to the standard deviations, and rounding of the values themselves."""
    sd = np.sqrt(np.diag(found.cov))
    off = relative * sd + 8 * _EPS * np.abs(found.mean)
    pairs = np.outer(off, sd) + np.outer(sd, off) + np.outer(off, off)
    return found._replace(mean_error=found.mean_error + off, cov_error=found.cov_error + pairs)


def _relative_error(points: Points) -> float:
    """Return the largest error of a mean, in standard deviations."""
    found = _moments(*points)
    sd = np.sqrt(np.diag(found.cov))
    return float((found.mean_error / np.where(sd > 0, sd, 1)).max())


def _inverse(matrix: Floats) -> tuple[Floats, float]:
    """Return inverse and log-determinant, without rounding for up to three dimensions."""
    d = len(matrix)
    if d > _EXACT_INVERSE:
        inverse = np.linalg.inv(matrix)
        return (inverse + inverse.T) / 2, float(np.linalg.slogdet(matrix)[1])
    rows = [
        [Fraction(float(x)) for x in row] + [Fraction(i == j) for j in range(d)]
        for i, row in enumerate(matrix)
    ]
    determinant = Fraction(1)
    for k in range(d):
        pivot = rows[k][k]
        determinant *= pivot
        rows[k] = [x / pivot for x in rows[k]]
        for i in range(d):
            if i != k:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return np.array([[float(x) for x in row[d:]] for row in rows]), float(np.log(float(determinant)))


def box_log_prob(
    lower: Array | ArrayLike, upper: Array | ArrayLike, mean: Array | ArrayLike, cov: Array | ArrayLike, *,
    n_points: int = 1000, seed: int = 0, with_error: bool = False,
) -> Any:  # fmt: skip
    r"""Return log Pr(lower <= x <= upper) for x ~ N(mean, cov), differentiable in all four arguments.

    .. math::
        \partial_\mu \log Z = \Sigma^{-1} (E[x] - \mu), \qquad
        \partial_\Sigma \log Z = \tfrac12 \Sigma^{-1} (E[(x - \mu)(x - \mu)^T] - \Sigma) \Sigma^{-1},

    with expectations inside the box; the derivative by a limit is the density of x_k there. All of these are
    the exact derivatives of the estimate, which is the separation of variables at fixed quasi-random points,
    so optimisers see a smooth function. It works in `jax.jit`, `jax.grad` and `jax.vmap`, which need
    ``jax.config.update("jax_enable_x64", True)``.

    Parameters
    ----------
    lower, upper, mean : array_like, shape (..., d)
        Limits, which may be infinite or numbers, and means; leading axes are batches and are broadcast.
    cov : array_like, shape (..., d, d)
        Covariances, positive definite; they may differ within a batch.
    n_points : int
        Points for each of eight random shifts, rounded up to a prime.
    seed : int
        Seed of the shifts.
    with_error : bool
        Return a pair of values and 99.9 % bounds of their errors, which are not differentiable.

    Examples
    --------
    >>> round(float(box_log_prob(0, np.inf, [0, 0], [[1, 0.5], [0.5, 1]])), 4)  # log(1/3)
    -1.0986
    """
    check.count("n_points", n_points)
    given: list[Any] = [
        a if isinstance(a, Array) else np.asarray(a, float) for a in (lower, upper, mean, cov)
    ]
    concrete = is_concrete(*given)
    if not concrete and jnp.result_type(float) != jnp.float64:
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
        found = log_probabilities(
            sigma, mu, Limits(low, high), jnp.asarray(generator(n, d)), jax.random.key(seed), n, SHIFTS
        )
        value, error = (a.reshape(lead) for a in found)
    return (value, error) if with_error else value


def _weighted_quantiles(x: Floats, w: Floats, levels: Floats) -> Floats:
    """Return quantiles of points x with weights w, interpolated."""
    order = np.argsort(x)
    cumulated = np.cumsum(w[order])
    found: Floats = np.interp(levels * cumulated[-1], cumulated - 0.5 * w[order], x[order])
    return found


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
        A: the limits are those of A x, for any number of rows. By default A is the identity.
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
        low, high = np.asarray(lower, float), np.asarray(upper, float)
        self.constraints: Floats | None = None
        if constraints is not None:
            self.constraints = np.atleast_2d(np.asarray(constraints, float))
            if self.constraints.shape[1] != self.dim or not np.isfinite(self.constraints).all():
                raise ValueError(
                    f"`constraints` must be finite and have {self.dim} columns; "
                    f"got shape {self.constraints.shape}."
                )
        count = self.dim if self.constraints is None else len(self.constraints)
        with jax.enable_x64(True):
            require_positive_definite("cov", jnp.asarray(self.scale))
            TruncatedGaussian(Diagonal(jnp.ones(count)), np.zeros(count), low, high)  # checks limits
        self.lower, self.upper = np.broadcast_to(low, count), np.broadcast_to(high, count)
        self._root = np.linalg.cholesky(self.scale)
        self._precision, self._log_det = _inverse(self.scale)
        self._chosen = np.arange(self.dim) if self.constraints is None else self._independent_rows()
        self._independent = not np.any(self.scale - np.diag(np.diag(self.scale)))
        self._engine = self._choose(engine)
        self._points: Points | None = None
        self._n, self._single, self._seed = _FIRST, True, seed

    def _independent_rows(self) -> NDArray[np.int64]:
        """Return d independent constraints, the least probable first; free variables count as constraints.

        The points are drawn in the box of these; the other constraints set weights to zero.
        """
        rows = self._all_constraints() @ self._root
        low, high, centre = *self._all_limits(), self._all_constraints() @ self.location
        size = np.sqrt((rows**2).sum(1))
        mass = ndtr((high - centre) / size) - ndtr((low - centre) / size)
        mass[len(self.lower) :] = 2  # free variables come last
        chosen: list[int] = []
        left = rows / size[:, None]
        for k in np.argsort(mass, kind="stable"):
            length = np.linalg.norm(left[k])
            if length > _INDEPENDENT and len(chosen) < self.dim:
                chosen.append(int(k))
                left = left - np.outer(left @ left[k], left[k]) / length**2
        return np.array(chosen)

    def _all_constraints(self) -> Floats:
        """Return the constraints, and the variables themselves, which are free."""
        A = np.eye(self.dim)
        return A if self.constraints is None else np.concatenate([self.constraints, A])

    def _all_limits(self) -> tuple[Floats, Floats]:
        free = np.full(0 if self.constraints is None else self.dim, np.inf)
        return np.append(self.lower, -free), np.append(self.upper, free)

    def _inside(self, x: Floats, rest: bool = False) -> NDArray[np.bool_]:
        """Return which points, (..., d), fulfil the constraints, or those not chosen as variables."""
        which = np.arange(len(self.lower))
        which = np.setdiff1d(which, self._chosen) if rest else which
        y = x @ self._all_constraints()[which].T
        return np.asarray(((y >= self.lower[which]) & (y <= self.upper[which])).all(-1))

    def _from_chosen(self, y: Floats) -> Floats:
        """Return the variables for values of the chosen constraints, (..., d)."""
        if self.constraints is None:
            return y
        return y @ np.linalg.inv(self._all_constraints()[self._chosen]).T

    def conditional(self, index: ArrayLike, values: ArrayLike) -> "MultivariateTruncatedNormal":
        """Return the law of the other variables given values of some: again a normal in a box."""
        known, values = np.atleast_1d(np.asarray(index, int)), np.atleast_1d(np.asarray(values, float))
        self._require_box("conditional")
        if not ((values >= self.lower[known]) & (values <= self.upper[known])).all():
            raise ValueError(f"`values` must be within the limits; got {values}.")
        other = np.setdiff1d(np.arange(self.dim), known)
        gain = np.linalg.solve(self.scale[np.ix_(known, known)], self.scale[np.ix_(known, other)]).T
        mean = self.location[other] + gain @ (values - self.location[known])
        cov = self.scale[np.ix_(other, other)] - gain @ self.scale[np.ix_(known, other)]
        box = self.lower[other], self.upper[other]
        return MultivariateTruncatedNormal(mean, (cov + cov.T) / 2, *box, seed=self._seed)

    def marginal_logpdf(self, index: int, x: ArrayLike) -> Floats:
        """Return the log-density of one variable at x, of the shape of x; −∞ outside of its limits."""
        self._require_box("marginal_logpdf")
        x = np.asarray(x, float)
        z = (x - self.location[index]) / np.sqrt(self.scale[index, index])
        log = -0.5 * (z**2 + np.log(2 * np.pi * self.scale[index, index])) - self.log_prob_box().value
        if self.dim > 1:
            middle = np.clip(self.location[index], self.lower[index], self.upper[index])
            rest, other = self.conditional(index, middle), np.delete(np.arange(self.dim), index)
            slope = self.scale[other, index] / self.scale[index, index]
            mean = rest.location + (x[..., None] - middle) * slope
            log = log + np.asarray(box_log_prob(rest.lower, rest.upper, mean, rest.scale, seed=self._seed))
        return np.where((x >= self.lower[index]) & (x <= self.upper[index]), log, -np.inf)

    def _require_box(self, name: str) -> None:
        if self.constraints is not None:
            raise ValueError(f"`{name}` needs a box; this law has `constraints`.")

    def _choose(self, engine: str) -> str:
        if self.constraints is not None:
            if engine not in ("auto", "separation"):
                raise ValueError(f"`engine` must be 'separation' with `constraints`; got {engine!r}.")
            return "separation"
        if engine == "exact" and not self._independent and self.dim > 3:
            raise ValueError(
                f"`engine='exact'` is for independent variables and up to 3; got {self.dim}. "
                "Use 'separation'."
            )
        if engine != "auto":
            return engine
        if self._independent or self.dim <= _QUADRATURE:
            return "exact"
        return "separation" if self.dim <= _LARGEST else "ep"

    def log_prob_box(self, *, tol: float = 5e-3) -> BoxEstimate:
        """Return the log probability of the box under N(mean, cov), and its error.

        "separation" doubles its points until the error is below `tol`, apart from rounding errors.
        """
        check.number("tol", tol, above=0)
        if self._engine == "separation":
            points = self._refine(tol, lambda points: _probability(points.log_w)[1])
            value, error = _probability(points.log_w)
            return BoxEstimate(value, error + self._rounding(points)[0])
        with jax.enable_x64(True):
            tg, constant = self._centre()
            found = estimate_log_z(tg, self._engine)
            error = float(found.error)
            if self._engine == "ep":
                error += self._rounding_of_ep(tg)
        size = np.abs(self._origin() - self.location)
        error += 8 * _EPS * (abs(constant) + float(size @ np.abs(self._precision) @ size))
        return BoxEstimate(float(found.value) + constant, error)

    def moments(self, *, tol: float = 5e-2) -> MomentEstimates:
        """Return mean and covariance inside the box, with their errors.

        "separation" reaches errors of the means below `tol` standard deviations, apart from rounding errors.
        """
        check.number("tol", tol, above=0)
        if self._engine == "ep" or (self._engine == "exact" and (self._independent or self.dim == 2)):
            return self._engine_moments()
        points = self._refine(tol, _relative_error)
        return _with_rounding(_moments(*points), self._rounding(points)[1])

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
                h = self._from_chosen(y[accepted])
                kept = np.concatenate([kept, h[self._inside(h, rest=True)]])
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
        while self._points is not None and (error := error_of(self._points)) > tol:
            if 2 * self._n > most:
                warnings.warn(
                    f"the error is {error:.2g}, above `tol` = {tol:g}, with the largest number "
                    f"of points ({self._n} for each of {SHIFTS} shifts); use a larger `tol`.",
                    RuntimeWarning,
                    stacklevel=3,
                )
                break
            # errors decrease about as 1/n
            self._n = min(most, self._n * 2 ** int(np.ceil(np.log2(np.clip(error / tol, 1.5, 16)))))
            self._draw(single)
        assert self._points is not None
        return self._points

    def _draw(self, single: bool) -> None:
        self._single = single
        with jax.enable_x64(True):
            log_w, h = weighted_points(
                *self._box(), n_points=self._n, n_shifts=SHIFTS, seed=self._seed, single=single
            )
        h = self._from_chosen(h)
        self._points = Points(np.where(self._inside(h, rest=True), log_w, -np.inf), h)

    def _rounding(self, points: Points) -> tuple[float, float]:
        """Return the effect of rounding on log Pr and, in standard deviations, on means of points."""
        if not np.isfinite(points.log_w.max()):
            return _UNKNOWN
        w = np.exp(points.log_w - points.log_w.max()).ravel()
        if w.sum() ** 2 / (w**2).sum() < _LEAST_EFFECTIVE:
            return _UNKNOWN
        off = (points.h - self.location).reshape(-1, self.dim).T
        sd = np.sqrt(np.diag(self.scale)) + np.abs(self.location)
        extra = _OF_SINGLE if self._single else 0.0
        of_log, of_mean = rounding_error(self._precision, sd, w / w.sum(), off)
        return float(of_log) + extra, float(of_mean) + extra

    def _rounding_of_ep(self, tg: TruncatedGaussian) -> float:
        """Return the effect of rounding on log Pr, from points with the mean and covariance of EP."""
        found = self._engine_moments()
        values, vectors = np.linalg.eigh(found.cov)
        spread = vectors * np.sqrt(self.dim * np.maximum(values, 0))
        off = (found.mean - self.location)[:, None] + np.concatenate([spread, -spread], axis=1)
        w = np.full(2 * self.dim, 0.5 / self.dim)
        return float(rounding_error(self._precision, np.sqrt(np.diag(self.scale)), w, off)[0])

    def _log_peak(self) -> float:
        """Return the log density of N(mean, cov) at its mean."""
        return float(-0.5 * (self._log_det + self.dim * np.log(2 * np.pi)))

    def _origin(self) -> Floats:
        """Return a finite limit of each variable, or its mean: the widths of narrow boxes are not rounded."""
        finite = np.where(np.isfinite(self.lower), self.lower, self.upper)
        return np.where(np.isfinite(finite), finite, self.location)

    def _centre(self) -> tuple[TruncatedGaussian, float]:
        """Return the law relative to the origin, for engines, and log Pr less its log Z."""
        P: Precision = Diagonal(jnp.asarray(1 / np.diag(self.scale)))
        if not self._independent:
            P = Dense(jnp.asarray(self._precision))
        origin = self._origin()
        off = self.location - origin
        shift = self._precision @ off
        tg = TruncatedGaussian(P, shift, self.lower - origin, self.upper - origin)
        return tg, self._log_peak() - 0.5 * float(off @ shift)

    def _chain(self, size: int, key: Any) -> Floats:
        warnings.warn(
            "rvs: fewer than one proposal in a thousand is accepted in this box; these draws come from "
            "Hamiltonian Monte Carlo and are slightly dependent.",
            RuntimeWarning,
            stacklevel=3,
        )
        self._require_box("rvs with so few accepted proposals")
        found = hmc(self._centre()[0], key, max(size, _LEAST_CHAIN), thin=5)
        if not bool(found.converged):
            raise RuntimeError(
                "rvs: the chains of Hamiltonian Monte Carlo do not agree in this box, so there are no draws; "
                "widen the box, or use moments() and marginals()."
            )
        draws: Floats = self._origin() + np.asarray(found.draws)
        return draws[:size]

    def _box(self) -> tuple[Array, Array, Limits]:
        """Return covariance, mean and limits of the variables that are drawn."""
        limits = Limits(*(jnp.asarray(a[self._chosen]) for a in self._all_limits()))
        if self.constraints is None:
            return jnp.asarray(self.scale), jnp.asarray(self.location), limits
        A = self._all_constraints()[self._chosen]
        return jnp.asarray(A @ self.scale @ A.T), jnp.asarray(A @ self.location), limits

    def _engine_moments(self) -> MomentEstimates:
        with jax.enable_x64(True):
            tg = self._centre()[0].rows()
            found = exact(tg) if self._engine == "exact" else ep(tg)
            cov = np.zeros_like(self.scale)
            if self._engine == "ep":
                cov = np.array(_ep_covariance(tg))
            elif not self._independent:
                pair = pair_covariance(tg.precision.dense(), tg.shift, full_limits(tg))
                cov[0, 1] = cov[1, 0] = float(pair[0])
            cov[np.diag_indices(self.dim)] = found.var[0]
            mean, sd = self._origin() + np.asarray(found.mean[0]), np.sqrt(np.diag(cov))
            if found.mean_error is None or not bool(found.converged[0]):
                return MomentEstimates(mean, np.full_like(mean, np.nan), cov, np.full_like(cov, np.nan))
            relative = np.asarray(found.mean_error[0]) / sd
        errors = relative * sd, np.outer(relative * sd, sd) + np.outer(sd, relative * sd)
        return _with_rounding(MomentEstimates(mean, errors[0], cov, errors[1]), 0.0)


@jax.jit
def _ep_covariance(tg: TruncatedGaussian) -> Array:
    """Return the covariance of one row."""
    return linear_moments(tg, jnp.eye(tg.size, dtype=tg.shift.dtype), engine="ep")[1][0]
