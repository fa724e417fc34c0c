r"""Several outputs whose marginals are calibrated: a Gaussian copula joins them.

With F_j and f_j the marginals' distribution functions and densities, and R a row's correlation matrix,

.. math::
    p(y) = \frac{N(z \mid 0, R)}{\prod_j N(z_j \mid 0, 1)} \prod_j f_j(y_j), \qquad
    z_j = \Phi^{-1}(F_j(y_j)).

R is that of the pool: with C the mean of the members' covariances, B the covariance between their means, and
width_j² = f_j² v_j + g_j² D_j of each marginal, R is the correlation of f_i f_j C_ij + g_i g_j B_ij. Where
all marginals are Gaussian the joint distribution is, too.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermevander
from scipy.special import gammaln, ndtr, ndtri_exp

from tggm.arrays import Floats
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.calibration import Calibration, factors_of, pooled
from tggm.predictive.joint import JointPredictive
from tggm.predictive.normal import factors, log_densities

_NODES = np.linspace(-7, 7, 141)  # of a standard normal variable, where quantiles are taken for covariances
_TERMS = 20  # of the series in powers of a correlation
_LEAST = -1e300  # log-density of an output


class CopulaPredictive(JointPredictive[ScalarPredictive]):
    """Marginals joined by a Gaussian copula, row by row.

    Parameters
    ----------
    marginals : sequence of ScalarPredictive
        The distribution of each output, in its own units.
    correlation : array, shape (N, n, n)
        R of each row.
    """

    def __init__(self, marginals: Sequence[ScalarPredictive], correlation: Floats) -> None:
        n = len(marginals)
        if correlation.shape != (len(marginals[0]), n, n):
            raise ValueError(
                f"`correlation` must have shape {(len(marginals[0]), n, n)}; got {correlation.shape}."
            )
        super().__init__(marginals, np.zeros(n), np.ones(n))
        self._correlation, self._root = correlation, factors(correlation)

    def cov(self) -> Floats:
        r"""Covariance of the outputs, (N, n, n).

        By Mehler's formula Σ_m R_ij^m a_im a_jm, a_jm = E F_j⁻¹(Φ(Z)) He_m(Z) / √m!, Z standard normal: exact
        for Gaussian marginals, else by quadrature, to a hundredth of the product of the deviations for
        marginals with 2.5 degrees of freedom and far better for lighter tails.
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
        pairs = [(p, z[:, j]) for j, p in enumerate(self._parts)]
        normal = np.stack([_normal(p, y) for p, y in pairs], 1)
        own = sum(np.maximum(p.logpdf(y), _LEAST) for p, y in pairs)
        apart = log_densities(normal, np.broadcast_to(np.eye(self.n_outputs), self._root.shape))
        found: Floats = log_densities(normal, self._root) - apart + own
        return found

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        noise = rng.standard_normal((size, len(self), self.n_outputs))
        normal = np.clip(np.einsum("nij,snj->sni", self._root, noise), -8, 8)  # beyond, Φ is 0 or 1
        each = [p.ppf(ndtr(normal[:, :, j]).T).T for j, p in enumerate(self._parts)]
        return np.stack(each, 2)


def joined(calibrations: Sequence[Calibration], members: JointPredictive[Any]) -> JointPredictive[Any]:
    """Outputs together, calibrated; `members` as they are where no marginal is changed."""
    if all(each.kind == "linear" for each in calibrations):
        return members
    mixtures = [members.marginal(j) for j in range(members.n_outputs)]
    laws = [pooled(*pair) for pair in zip(calibrations, mixtures, strict=True)]
    mix, scale = mixtures[0].member_weights, np.array([p.units[1] for p in mixtures])
    mean = np.stack([p.member_moments()[0] for p in mixtures], 2)
    away = mean - np.einsum("k,kni->ni", mix, mean)[None]
    between = np.einsum("k,kni,knj->nij", mix, away, away)
    within = members.cov() / (scale[:, None] * scale[None, :]) - between
    f, g = np.array([factors_of(each) for each in calibrations]).T
    more = 1 / max(1 - mix @ mix, 1e-9) if len(mix) > 1 else 0.0  # as D has it
    S = np.outer(f, f) * within + more * np.outer(g, g) * between
    deviation = np.sqrt(np.diagonal(S, axis1=1, axis2=2))
    return CopulaPredictive(laws, S / deviation[:, :, None] / deviation[:, None, :])


def _normal(law: ScalarPredictive, y: Floats) -> Floats:
    """Φ⁻¹(F(y)), by the smaller tail."""
    low, high = law.logcdf(y), law.logsf(y)
    smaller = ndtri_exp(np.minimum(low, high))
    normal: Floats = np.where(low < high, smaller, -smaller)
    return normal
