"""Mix a predictive distribution with Gaussian kernels around the targets of similar training rows."""

import numpy as np

from tggm.arrays import Floats, Ints
from tggm.predictive.base import ScalarPredictive
from tggm.predictive.gaussian_mixture import GaussianMixture

_PLACES, _MASSES = np.polynomial.hermite_e.hermegauss(12)
_MASSES = _MASSES / _MASSES.sum()


class KernelMixture(ScalarPredictive):
    """Y has the distribution `law` with probability 1 − share, and `kernels` with probability `share`.

    Both are in the same units, and `share` has one number per row. Every method is exact, but for the
    distance between `law` and `kernels` in the CRPS. Its quadrature has a relative error below 1e-9 if
    kernels are at most half as wide as `law`.
    """

    def __init__(self, law: ScalarPredictive, kernels: GaussianMixture, share: Floats) -> None:
        super().__init__(len(law), 1, *law.units)
        self._law, self._kernels, self._share = law, kernels, share

    def __getitem__(self, rows: slice | Ints) -> "KernelMixture":
        return KernelMixture(self._law[rows], self._kernels[rows], self._share[rows])

    def member_moments(self) -> tuple[Floats, Floats]:
        """Return mean and variance, as of one member."""
        (m, v), (mk, vk) = self._law._moments, self._kernels._moments
        mean = self._mixed(m, mk)
        var = self._mixed(v + (m - mean) ** 2, vk + (mk - mean) ** 2)
        return mean[None], var[None]

    def _mixed(self, law: Floats, kernels: Floats, rows: Ints | slice = slice(None)) -> Floats:
        share = self._share[rows]
        mixed: Floats = (1 - share) * law + share * kernels
        return mixed

    def _log_mixed(self, law: Floats, kernels: Floats, rows: Ints) -> Floats:
        with np.errstate(divide="ignore"):
            mixed: Floats = np.logaddexp(
                np.log1p(-self._share[rows]) + law, np.log(self._share[rows]) + kernels
            )
        return mixed

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        return self._log_mixed(self._law._log_density(rows, z), self._kernels._log_density(rows, z), rows)

    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        pairs = zip(self._law._log_tails(rows, z), self._kernels._log_tails(rows, z), strict=True)
        low, high = (np.minimum(self._log_mixed(*pair, rows), 0.0) for pair in pairs)
        return low, high

    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        pairs = zip(self._law._bulk(rows, z), self._kernels._bulk(rows, z), strict=True)
        cdf, density = (self._mixed(*pair, rows) for pair in pairs)
        return cdf, density

    def _bracket(self, rows: Ints, p: Floats) -> tuple[Floats, Floats]:
        low, high = self._kernels._bracket(rows, p)
        own = self._law._quantiles(rows, p)
        return np.minimum(low, own), np.maximum(high, own)

    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        to_law, law_apart = self._law._distances(rows, z)
        to_kernels, kernels_apart = self._kernels._distances(rows, z)
        share = self._share[rows]
        across = cross_distances(self._law, *self._kernels.components)[rows]
        apart = (1 - share) ** 2 * law_apart + share**2 * kernels_apart + 2 * share * (1 - share) * across
        return self._mixed(to_law, to_kernels, rows), apart

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        chosen = rng.random((size, len(self))) < self._share
        return np.where(chosen, self._kernels._draw(size, rng), self._law._draw(size, rng))


def cross_distances(law: ScalarPredictive, mean: Floats, std: Floats, weight: Floats) -> Floats:
    """Compute E|Z − K| of each row, (N,), K a mixture of Gaussians with parts (k, N), by quadrature."""
    points = mean[..., None] + std[..., None] * _PLACES
    rows = np.broadcast_to(np.arange(len(law))[:, None], points.shape)
    to_law = law._distances(rows.ravel(), points.ravel())[0].reshape(points.shape) @ _MASSES
    found: Floats = (weight * to_law).sum(0)
    return found


def add_kernels(law: ScalarPredictive, kernels: GaussianMixture, share: Floats) -> ScalarPredictive:
    """Return the mixture; one of Gaussians is a `GaussianMixture`, whose exponential has a closed form."""
    if not isinstance(law, GaussianMixture):
        return KernelMixture(law, kernels, share)
    pairs = zip(law.components, kernels.components, strict=True)
    mean, std, weight = (np.concatenate(pair) for pair in pairs)
    first = np.arange(len(mean))[:, None] < len(law.components[0])
    weight = weight * np.where(first, 1 - share, share)
    return GaussianMixture(mean, std**2, weight=weight, loc=law.units[0], scale=law.units[1])
