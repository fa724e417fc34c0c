"""Several outputs of a deep model: a mixture of Gaussians with the members' means and covariances."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from tggm.arrays import Floats
from tggm.predictive.base import mixture_weights
from tggm.predictive.joint import JointPredictive
from tggm.predictive.moment import MomentPredictive
from tggm.predictive.normal import factors, log_densities


class MultivariateMomentPredictive(JointPredictive[MomentPredictive]):
    """Y = loc + scale · Z with Z a mixture of N(mean_k, cov_k), row by row; log densities are finite.

    Parameters
    ----------
    mean : array_like, shape (K, N, n)
        Mean of each member at each row.
    cov : array_like, shape (K, N, n, n)
        Positive definite covariance of each member at each row.
    loc, scale : array_like, shape (n,)
        Affine map from what the model predicts to the outputs.
    """

    def __init__(
        self, mean: ArrayLike, cov: ArrayLike, *, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0
    ) -> None:
        m, C = np.asarray(mean, dtype=np.float64), np.asarray(cov, dtype=np.float64)
        if m.ndim != 3 or C.shape != (*m.shape, m.shape[-1]):
            raise ValueError(
                "`mean` must have shape (members, rows, outputs) and `cov` one axis of outputs more; "
                f"got {m.shape} and {C.shape}."
            )
        places, scales = (np.broadcast_to(np.asarray(x, float), m.shape[2:]) for x in (loc, scale))
        parts = [
            MomentPredictive(m[:, :, j], C[:, :, j, j], loc=float(places[j]), scale=float(scales[j]))
            for j in range(m.shape[2])
        ]
        super().__init__(parts, places, scales)
        self._mix = mixture_weights(None, len(m))
        self._mean, self._cov, self._root = m, C, factors(C)

    def cov(self) -> Floats:
        """Covariance of the outputs, (N, n, n): within members and between them."""
        away = self._mean - self._mean.mean(0, keepdims=True)
        return self._scaled(self._cov.mean(0) + np.einsum("kni,knj->nij", away, away) / len(away))

    def _log_density_of(self, z: Floats) -> Floats:
        members = log_densities(z[None] - self._mean, self._root)
        mixed: Floats = logsumexp(members, axis=0, b=self._mix[:, None])
        return mixed

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        rows = np.arange(len(self))
        k = rng.choice(len(self._mix), size=(size, len(rows)), p=self._mix)
        noise = rng.standard_normal((size, len(rows), self.n_outputs))
        white = np.einsum("snij,snj->sni", self._root[k, rows[None, :]], noise)
        draws: Floats = self._mean[k, rows[None, :]] + white
        return draws
