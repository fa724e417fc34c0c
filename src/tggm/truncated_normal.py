"""A multivariate normal truncated to a box: probability, moments, density and draws, with error estimates.

NumPy in, NumPy out, float64. The parts are those of `tggm.inference`; this is their plain face for people who
only want the distribution. Which engine answers is chosen by the size of the problem and the accuracy asked
for.
"""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from tggm.arrays import Floats
from tggm.gaussian import Limits, TruncatedGaussian
from tggm.inference import ep, hmc
from tggm.inference.linear import linear_moments
from tggm.inference.orthant.adaptive import AdaptivePoints
from tggm.inference.orthant.points import candidates
from tggm.inference.orthant.probability import log_orthant
from tggm.inference.orthant.weights import (
    BoxEstimate,
    MarginalSummary,
    MomentEstimates,
    moments,
    probability,
    weighted_quantiles,
)
from tggm.precision import Dense
from tggm.special import box_mean, box_var, log_ndtr_interval

ENGINES = ("auto", "exact", "separation", "ep")
_QUADRATURE = 2  # dimensions up to which `auto` integrates
_LARGEST = 1000  # dimensions up to which it separates variables
_LEAST_ACCEPTED = 1e-3
_ROUNDING = 1e-12


class MultivariateTruncatedNormal:
    r"""N(mean, cov) given lower <= x <= upper.

    Parameters
    ----------
    mean : array_like, shape (d,)
        Mean before truncation.
    cov : array_like, shape (d, d)
        Covariance before truncation, positive definite.
    lower, upper : array_like, broadcast to (d,)
        Limits; −∞ and ∞, the default, are none.
    engine : {"auto", "exact", "separation", "ep"}
        Who computes. "exact" is for independent variables and for up to three; "separation" integrates one
        variable after the other at quasi-random points, with minimax tilting, and tells its error; "ep"
        approximates without random points, in milliseconds. "auto" takes the first that suits: exact for
        independent variables and two dimensions, separation up to a thousand, EP beyond.
    seed : int
        Of the random shifts of the points.

    Examples
    --------
    >>> law = MultivariateTruncatedNormal([0, 0], [[1, 0.5], [0.5, 1]], lower=0)
    >>> round(law.log_prob_box().value, 4)  # log(1/3)
    -1.0986
    """

    def __init__(
        self,
        mean: ArrayLike,
        cov: ArrayLike,
        lower: ArrayLike = -np.inf,
        upper: ArrayLike = np.inf,
        *,
        engine: str = "auto",
        seed: int = 0,
    ) -> None:
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
        self._engine = self._chosen(engine)
        self._points = AdaptivePoints(self.scale, self.location, self.lower, self.upper, seed)

    def _chosen(self, engine: str) -> str:
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
        """Logarithm of the probability of the box under N(mean, cov), and its error.

        Parameters
        ----------
        tol : float
            Relative standard error of the probability to reach by "separation"; points are doubled until it
            is.
        """
        _check_tol(tol)
        if self._engine == "independent":
            with jax.enable_x64(True):
                value = float(log_ndtr_interval(*self._standardised()).sum())
            return BoxEstimate(value, _ROUNDING * max(abs(value), 1))
        if self._engine == "separation":
            return probability(self._points.log_weights(tol))
        with jax.enable_x64(True):
            found = log_orthant(self.gaussian(), self._engine)
            rounding = np.finfo(float).eps * np.linalg.cond(self.scale)  # of the inverse that engines take
            return BoxEstimate(float(found.value), float(found.error + rounding))

    def moments(self, *, tol: float = 1e-2) -> MomentEstimates:
        """Mean and covariance inside the box, with their errors.

        Parameters
        ----------
        tol : float
            Largest standard error of a mean, in standard deviations, to reach by "separation".
        """
        _check_tol(tol)
        if self._engine == "independent":
            return self._independent_moments()
        if self._engine == "ep":
            return self._ep_moments()
        return moments(*self._points.points(tol))

    def mean(self, *, tol: float = 1e-2) -> Floats:
        """Mean inside the box, shape (d,); `moments` has its error."""
        return self.moments(tol=tol).mean

    def cov(self, *, tol: float = 1e-2) -> Floats:
        """Covariance inside the box, shape (d, d); `moments` has its error."""
        return self.moments(tol=tol).cov

    def marginals(self, q: ArrayLike = (0.05, 0.5, 0.95), *, tol: float = 1e-2) -> MarginalSummary:
        """Mean, standard deviation and quantiles of each variable by itself, from weighted points."""
        _check_tol(tol)
        log_w, h = self._points.points(tol)
        found = moments(log_w, h)
        w = np.exp(log_w - log_w.max()).ravel()
        levels = np.atleast_1d(np.asarray(q, float))
        if not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"`q` must be probabilities between 0 and 1; got {q!r}.")
        columns = h.reshape(-1, self.dim).T
        quantiles = np.stack([weighted_quantiles(x, w, levels) for x in columns])
        return MarginalSummary(found.mean, np.sqrt(np.diag(found.cov)), quantiles)

    def logpdf(self, x: ArrayLike, *, tol: float = 1e-3) -> Floats:
        """Logarithm of the density at rows of x, −∞ outside of the box; shape of x without its last axis."""
        x = np.asarray(x, float)
        if x.shape[-1:] != (self.dim,):
            raise ValueError(f"`x` must have {self.dim} columns; got shape {x.shape}.")
        z = solve_triangular(self._root, (x - self.location).reshape(-1, self.dim).T, lower=True)
        value = -0.5 * (z**2).sum(0) - np.log(np.diag(self._root)).sum() - 0.5 * self.dim * np.log(2 * np.pi)
        inside = ((x >= self.lower) & (x <= self.upper)).all(-1)
        result: Floats = np.where(
            inside, value.reshape(x.shape[:-1]) - self.log_prob_box(tol=tol).value, -np.inf
        )
        return result

    def rvs(self, size: int = 1, *, random_state: int = 0) -> Floats:
        """Independent draws, shape (size, d).

        By rejection from the tilted normal that separation of variables proposes. Where fewer than one
        proposal in a thousand is accepted, by Hamiltonian Monte Carlo, whose draws are not quite independent:
        a warning says so.
        """
        if size < 1:
            raise ValueError(f"`size` must be at least 1; got {size}.")
        with jax.enable_x64(True):
            key, kept, tried = jax.random.key(random_state), np.empty((0, self.dim)), 0
            batch = max(256, min(2 * size, 2**22 // self.dim))
            while len(kept) < size:
                key, now = jax.random.split(key)
                found = candidates(*self._box(), now, batch)
                kept = np.concatenate([kept, np.asarray(found.h)[np.asarray(found.accepted)]])
                tried += batch
                if len(kept) < _LEAST_ACCEPTED * tried:
                    return self._chain(size, now)
        return kept[:size]

    def gaussian(self) -> TruncatedGaussian:
        """The same distribution as engines take it, in natural parameters."""
        P = np.linalg.inv(self.scale)
        return TruncatedGaussian.from_mean(
            Dense(jnp.asarray((P + P.T) / 2)), self.location, self.lower, self.upper
        )

    def _chain(self, size: int, key: Any) -> Floats:
        warnings.warn(
            "rvs: fewer than one proposal in a thousand is accepted in this box; these draws are the ends of "
            "Hamiltonian trajectories, which are not quite independent.",
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
            mean = np.asarray(box_mean(self.location, std, self.lower, self.upper))
            cov = np.diag(np.asarray(box_var(self.location, std, self.lower, self.upper)))
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
    """Of one row."""
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
            f"`lower` must be below `upper`; variable {k} has {low[k]:g} and {high[k]:g}. Leave a "
            "variable of known value out: condition the others on it."
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
