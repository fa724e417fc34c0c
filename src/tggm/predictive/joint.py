r"""Joint predictive distributions of several outputs.

Uncalibrated members are a mixture of multivariate Gaussians. Calibrated marginals are joined by a Gaussian
copula. With F_j and f_j the marginals' distribution functions and densities, and R the correlation of a row,

.. math::
    p(y) = \frac{N(z \mid 0, R)}{\prod_j N(z_j \mid 0, 1)} \prod_j f_j(y_j), \qquad
    z_j = \Phi^{-1}(F_j(y_j)).

With C the mean of the members' covariances, B the covariance between their means and f, g the factors of each
marginal's calibration, R is the correlation of f_i f_j C_ij + g_i g_j B_ij. If all marginals are Gaussian, so
is the joint distribution. With limits or steps, draws are in the support of each output; there is no joint
density then.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from operator import index
from typing import Generic, TypeVar

import numpy as np
from numpy.polynomial.hermite_e import hermevander
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.special import gammaln, logsumexp, ndtr, ndtri_exp

from tggm.arrays import Floats
from tggm.predictive.base import ScalarPredictive, Seed, checked_size, described, generator
from tggm.predictive.calibration import Calibration
from tggm.predictive.gaussian_mixture import GaussianMixture, mixtures
from tggm.predictive.observed import Observed

Marginal = TypeVar("Marginal", bound=ScalarPredictive)
_LOG_2PI = float(np.log(2 * np.pi))
_SHRINKAGE = (1e-12, 1e-9, 1e-6, 1e-3, 1.0)  # of correlations; the last sets them to 0
_LARGEST = 1e120  # errors with a finite square
_LEAST_DEVIATION = 1e-150  # with a square above 0
_LEAST_LOG_DENSITY = -1e300  # of an output
_NODES = np.linspace(-7, 7, 141)  # of a standard normal variable, in the quadrature of covariances
_TERMS = 20  # of the series in powers of a correlation


class JointPredictive(ABC, Generic[Marginal]):
    """Joint distributions of n outputs, one for each of N rows: y = loc + scale · z, loc and scale (n,)."""

    def __init__(self, marginals: Sequence[Marginal], loc: Floats, scale: Floats) -> None:
        self._parts, self._loc, self._scale = list(marginals), loc, scale

    @abstractmethod
    def cov(self) -> Floats:
        """Return the covariance of the outputs, (N, n, n): within members and between them."""

    @abstractmethod
    def _log_density_of(self, z: Floats) -> Floats:
        """Compute the joint log-density of z, (N, n), in standardised units."""

    @abstractmethod
    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw independent samples of z, (size, N, n)."""

    def __len__(self) -> int:
        return len(self._parts[0])

    def __repr__(self) -> str:
        return described(self)

    @property
    def n_outputs(self) -> int:
        """Return the number of outputs n."""
        return len(self._parts)

    def marginal(self, output: int) -> Marginal:
        """Return the distribution of one output."""
        try:
            return self._parts[index(output)]
        except (TypeError, IndexError):
            raise ValueError(
                f"`output` must be the number of an output, 0 to {self.n_outputs - 1}; got {output!r}."
            ) from None

    def mean(self) -> Floats:
        """Return the expected value, (N, n)."""
        return np.stack([p.mean() for p in self._parts], 1)

    def var(self) -> Floats:
        """Return the variance of each output, (N, n)."""
        return np.stack([p.var() for p in self._parts], 1)

    def std(self) -> Floats:
        """Return the standard deviation of each output, (N, n)."""
        return np.sqrt(self.var())

    def logpdf(self, y: ArrayLike) -> Floats:
        """Compute the joint log-density at one point per row, y of shape (N, n)."""
        z = (self._points(y) - self._loc[None, :]) / self._scale[None, :]
        return self._log_density_of(z) - float(np.log(self._scale).sum())

    def pdf(self, y: ArrayLike) -> Floats:
        """Compute the joint density at one point per row."""
        return np.exp(self.logpdf(y))

    def cdf(self, y: ArrayLike) -> Floats:
        """Compute the marginal probabilities P(Y_j ≤ y_j), (N, n) for y of shape (N, n)."""
        return np.stack([p.cdf(values) for p, values in self._pairs(self._points(y))], 1)

    def ppf(self, q: ArrayLike) -> Floats:
        """Compute marginal quantiles at one probability, (N, n)."""
        return np.stack([p.ppf(q) for p in self._parts], 1)

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Compute the central interval of each output, (N, n) each."""
        low, high = np.stack([p.interval(level) for p in self._parts], 2)
        return low, high

    def crps(self, y: ArrayLike) -> Floats:
        """Compute the continuous ranked probability score of each output, (N, n)."""
        return np.stack([p.crps(values) for p, values in self._pairs(self._points(y))], 1)

    def rvs(self, size: int | None = None, random_state: Seed = None) -> Floats:
        """Draw joint samples: (N, n) if `size` is None, otherwise (size, N, n)."""
        draws: Floats = self._loc + self._scale * self._draw(checked_size(size), generator(random_state))
        return draws[0] if size is None else draws

    def _points(self, y: ArrayLike) -> Floats:
        """Check one finite point per row."""
        values = np.asarray(y, dtype=np.float64)
        if values.shape != (len(self), self.n_outputs) or not np.all(np.isfinite(values)):
            raise ValueError(
                f"`y` must be finite, of shape ({len(self)}, {self.n_outputs}), one row per distribution; "
                f"got shape {values.shape}. For one output use marginal(j)."
            )
        return values

    def _pairs(self, values: Floats) -> list[tuple[Marginal, Floats]]:
        return list(zip(self._parts, values.T, strict=True))


class MultivariateGaussianMixture(JointPredictive[GaussianMixture]):
    """Y = loc + scale · Z, where Z is a mixture of N(mean_k, cov_k), row by row.

    `mean` has shape (K, N, n), `cov` (K, N, n, n), and `loc` and `scale` (n,).
    """

    def __init__(
        self, mean: ArrayLike, cov: ArrayLike, *, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0
    ) -> None:
        m, C = np.asarray(mean, dtype=np.float64), np.asarray(cov, dtype=np.float64)
        if m.ndim != 3 or C.shape != (*m.shape, m.shape[-1]):
            raise ValueError(
                "`mean` must have shape (members, rows, outputs) and `cov` a second axis of outputs; "
                f"got {m.shape} and {C.shape}."
            )
        places, scales = (np.broadcast_to(np.asarray(x, float), m.shape[2:]) for x in (loc, scale))
        super().__init__(mixtures(m, np.diagonal(C, axis1=2, axis2=3), places, scales), places, scales)
        self._mean, self._cov, self._root = m, C, factors(C)

    def cov(self) -> Floats:
        away = self._mean - self._mean.mean(0, keepdims=True)
        found = self._cov.mean(0) + np.einsum("kni,knj->nij", away, away) / len(away)
        return found * self._scale[None, :, None] * self._scale[None, None, :]

    def _log_density_of(self, z: Floats) -> Floats:
        members = log_densities(z[None] - self._mean, self._root)
        return logsumexp(members, axis=0, b=np.full((len(members), 1), 1 / len(members)))

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        rows = np.arange(len(self))
        k = rng.integers(len(self._mean), size=(size, len(rows)))
        noise = rng.standard_normal((size, len(rows), self.n_outputs))
        white = np.einsum("snij,snj->sni", self._root[k, rows[None, :]], noise)
        return self._mean[k, rows[None, :]] + white


class CopulaPredictive(JointPredictive[ScalarPredictive]):
    """Marginals in their own units, joined by a Gaussian copula with the correlation R, (N, n, n)."""

    def __init__(self, marginals: Sequence[ScalarPredictive], correlation: Floats) -> None:
        n = len(marginals)
        if correlation.shape != (len(marginals[0]), n, n):
            raise ValueError(
                f"`correlation` must have shape {(len(marginals[0]), n, n)}; got {correlation.shape}."
            )
        super().__init__(marginals, np.zeros(n), np.ones(n))
        self._correlation, self._root = correlation, factors(correlation)

    def cov(self) -> Floats:
        r"""Return the covariance of the outputs, (N, n, n).

        Mehler's formula: Σ_m R_ij^m a_im a_jm, a_jm = E F_j⁻¹(Φ(Z)) He_m(Z) / √m!, Z standard normal. It is
        exact for Gaussian marginals. The quadrature has an error of a hundredth of the product of the
        deviations for marginals with 2.5 degrees of freedom or with limits or steps, otherwise less.
        """
        orders, weight = np.arange(1, _TERMS + 1), np.exp(-0.5 * _NODES**2)
        basis = hermevander(_NODES, _TERMS)[:, 1:] / np.exp(0.5 * gammaln(orders + 1))
        weighted = (weight / weight.sum())[:, None] * basis
        centred = [p.ppf(ndtr(_NODES)[None, :]) - p.mean()[:, None] for p in self._parts]
        a = np.stack([each @ weighted for each in centred], 1)  # (N, n, terms)
        powers = self._correlation[..., None] ** orders
        found: Floats = np.einsum("nijm,nim,njm->nij", powers, a, a)
        places = np.arange(self.n_outputs)
        found[:, places, places] = self.var()
        return found

    def _log_density_of(self, z: Floats) -> Floats:
        if any(isinstance(part, Observed) for part in self._parts):
            raise ValueError(
                "outputs with limits or steps have no joint density; use marginal(j).logpdf(y[:, j]), or fit "
                "with support=None."
            )
        pairs = self._pairs(z)
        normal = np.stack([_normal(p, y) for p, y in pairs], 1)
        own = sum(np.maximum(p.logpdf(y), _LEAST_LOG_DENSITY) for p, y in pairs)
        apart = log_densities(normal, np.broadcast_to(np.eye(self.n_outputs), self._root.shape))
        return log_densities(normal, self._root) - apart + own

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        noise = rng.standard_normal((size, len(self), self.n_outputs))
        normal = np.clip(np.einsum("nij,snj->sni", self._root, noise), -8, 8)  # beyond, Φ is 0 or 1
        each = [p.ppf(ndtr(normal[:, :, j]).T).T for j, p in enumerate(self._parts)]
        return np.stack(each, 2)


def pooled_joint(
    calibrations: Sequence[Calibration], members: MultivariateGaussianMixture,
    marginals: Sequence[ScalarPredictive],
) -> MultivariateGaussianMixture | CopulaPredictive:  # fmt: skip
    """Join the marginals of several outputs; return `members` if the marginals are its own."""
    if all(law is members.marginal(j) for j, law in enumerate(marginals)):
        return members
    scale, mean = members._scale, members._mean
    K, mix = len(mean), np.full(len(mean), 1 / len(mean))
    away = mean - np.einsum("k,kni->ni", mix, mean)[None]
    between = np.einsum("k,kni,knj->nij", mix, away, away)
    within = members.cov() / (scale[:, None] * scale[None, :]) - between
    f, g = np.array([each.factors for each in calibrations or len(marginals) * (Calibration(),)]).T
    more = 1 / (1 - float(mix @ mix)) if K > 1 else 0.0  # as in D
    S = np.outer(f, f) * within + more * np.outer(g, g) * between
    deviation = np.sqrt(np.diagonal(S, axis1=1, axis2=2))
    return CopulaPredictive(marginals, S / deviation[:, :, None] / deviation[:, None, :])


def _normal(marginal: ScalarPredictive, y: Floats) -> Floats:
    """Compute Φ⁻¹(F(y)) from the smaller tail."""
    low, high = marginal.logcdf(y), marginal.logsf(y)
    smaller = ndtri_exp(np.minimum(low, high))
    return np.where(low < high, smaller, -smaller)


def factors(covariance: Floats) -> Floats:
    """Compute lower Cholesky factors, (..., n, n); shrink correlations where a matrix is singular."""
    with suppress(np.linalg.LinAlgError):
        found: Floats = np.linalg.cholesky(covariance).astype(np.float64, copy=False)
        if np.isfinite(found).all():
            return found
    deviation = np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1)).clip(_LEAST_DEVIATION)
    correlation = covariance / deviation[..., None, :] / deviation[..., :, None]
    unit = np.eye(covariance.shape[-1])
    for part in _SHRINKAGE:
        with suppress(np.linalg.LinAlgError):
            return deviation[..., :, None] * np.linalg.cholesky((1 - part) * correlation + part * unit)
    raise ValueError("the covariance of the outputs is not finite")


def log_densities(errors: Floats, roots: Floats) -> Floats:
    """Compute log N(error | 0, root rootᵀ), finite; errors (..., n) and roots (..., n, n)."""
    white = solve_triangular(roots, np.clip(errors, -_LARGEST, _LARGEST)[..., None], lower=True)[..., 0]
    log_det = np.log(np.diagonal(roots, axis1=-2, axis2=-1)).sum(-1)
    return -0.5 * ((white**2).sum(-1) + errors.shape[-1] * _LOG_2PI) - log_det
