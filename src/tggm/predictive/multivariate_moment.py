"""Several outputs of a deep model: a mixture of Gaussians with the members' means and covariances."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from tggm.predictive.base import Floats, Seed, exponential, generator, mixture_weights
from tggm.predictive.moment import MomentPredictive

_LOG_2PI = float(np.log(2 * np.pi))


class MultivariateMomentPredictive:
    """Y = loc + scale · Z with Z a mixture of N(mean_k, cov_k), row by row.

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
        self._mix = mixture_weights(None, len(m))
        self._loc, self._scale = (np.broadcast_to(np.asarray(x, float), m.shape[2:]) for x in (loc, scale))
        self._mean, self._cov, self._root = m, C, np.linalg.cholesky(C)
        self._parts = [
            MomentPredictive(m[:, :, j], C[:, :, j, j], loc=float(self._loc[j]), scale=float(self._scale[j]))
            for j in range(m.shape[2])
        ]

    def __len__(self) -> int:
        return int(self._mean.shape[1])

    @property
    def n_outputs(self) -> int:
        """Number of outputs n."""
        return len(self._parts)

    def marginal(self, output: int) -> MomentPredictive:
        """The distribution of one output."""
        return self._parts[output]

    def mean(self) -> Floats:
        """Expected value, (N, n)."""
        return np.stack([p.mean() for p in self._parts], 1)

    def var(self) -> Floats:
        """Variance of each output, (N, n)."""
        return np.stack([p.var() for p in self._parts], 1)

    def std(self) -> Floats:
        """Standard deviation of each output, (N, n)."""
        return np.sqrt(self.var())

    def cov(self) -> Floats:
        """Covariance of the outputs, (N, n, n): within members and between them."""
        away = self._mean - self._mean.mean(0, keepdims=True)
        total = self._cov.mean(0) + np.einsum("kni,knj->nij", away, away) / len(away)
        scaled: Floats = total * self._scale[None, :, None] * self._scale[None, None, :]
        return scaled

    def logpdf(self, y: ArrayLike) -> Floats:
        """Joint log density at one point a row, y of shape (N, n); finite for finite y."""
        values = np.asarray(y, dtype=np.float64)
        if values.shape != (len(self), self.n_outputs) or not np.all(np.isfinite(values)):
            raise ValueError(
                f"`y` must be finite, of shape ({len(self)}, {self.n_outputs}); got shape {values.shape}."
            )
        z = (values - self._loc[None, :]) / self._scale[None, :]
        error = np.clip(z[None] - self._mean, -1e120, 1e120)
        white = solve_triangular(self._root, error[..., None], lower=True)[..., 0]
        log_det = np.log(np.diagonal(self._root, axis1=2, axis2=3)).sum(-1)
        members = -0.5 * ((white**2).sum(-1) + self.n_outputs * _LOG_2PI) - log_det
        mixed: Floats = logsumexp(members, axis=0, b=self._mix[:, None])
        return mixed - float(np.log(self._scale).sum())

    def pdf(self, y: ArrayLike) -> Floats:
        """Joint density at one point a row."""
        return exponential(self.logpdf(y))

    def cdf(self, y: ArrayLike) -> Floats:
        """Marginal probabilities of at most y, (N, n) for y of shape (N, n)."""
        values = np.asarray(y, dtype=np.float64)
        return np.stack([p.cdf(values[:, j]) for j, p in enumerate(self._parts)], 1)

    def ppf(self, q: ArrayLike) -> Floats:
        """Marginal quantiles at a probability, (N, n)."""
        return np.stack([p.ppf(q) for p in self._parts], 1)

    def interval(self, level: float = 0.9) -> tuple[Floats, Floats]:
        """Central interval of each output, (N, n) each."""
        ends = [p.interval(level) for p in self._parts]
        return np.stack([low for low, _ in ends], 1), np.stack([high for _, high in ends], 1)

    def crps(self, y: ArrayLike) -> Floats:
        """Continuous ranked probability score of each output, (N, n)."""
        values = np.asarray(y, dtype=np.float64)
        return np.stack([p.crps(values[:, j]) for j, p in enumerate(self._parts)], 1)

    def rvs(self, size: int | None = None, random_state: Seed = None) -> Floats:
        """Joint draws: (N, n) if `size` is None, otherwise (size, N, n)."""
        rng = generator(random_state)
        rows = np.arange(len(self))
        count = 1 if size is None else int(size)
        k = rng.choice(len(self._mix), size=(count, len(rows)), p=self._mix)
        noise = rng.standard_normal((count, len(rows), self.n_outputs))
        draws = self._mean[k, rows[None, :]] + np.einsum("snij,snj->sni", self._root[k, rows[None, :]], noise)
        out: Floats = self._loc + self._scale * draws
        if size is not None:
            return out
        single: Floats = out[0]
        return single
