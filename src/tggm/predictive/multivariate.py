"""The predictive distribution of several outputs: exact marginals, mean, covariance and draws."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from tggm.arrays import Floats
from tggm.predictive.base import mixture_weights
from tggm.predictive.exact import Predictive, truncated_draws
from tggm.predictive.joint import JointPredictive
from tggm.predictive.normal import factors, log_densities

JointLogDensity = Callable[[Floats], ArrayLike]


class MultivariatePredictive(JointPredictive[Predictive]):
    """Y = loc + scale · (bias + weights h + ε), h_i ~ N_T(locations_i, s0) and ε_j ~ N(0, s1_j) independent.

    A mixture over K ensemble members. Given the member the outputs depend on each other through h.

    Parameters
    ----------
    locations : array_like, shape (K, N, m)
        W0 x + b0 of each member at each row.
    weights : array_like, shape (K, n, m)
        Output weights W1.
    bias : array_like, shape (K, n) or (K, N, n)
        Output biases b1, with the linear part of each row where there is one.
    s0 : float or array_like, shape (K,)
        Variance of the latent variables before truncation.
    s1 : array_like, shape (K, n)
        Variances of the output noise.
    log_density : callable, optional
        Joint log density of every member in standardised units: takes z of shape (N, n), returns (K, N). The
        marginals need none; `logpdf` does, because no exact formula is known for n > 1.
    member_weights : array_like, shape (K,), optional
        Equal by default.
    loc, scale : array_like, shape (n,)
        Affine map from what the model predicts to the outputs.
    """

    def __init__(
        self,
        locations: ArrayLike,
        weights: ArrayLike,
        bias: ArrayLike,
        s0: ArrayLike,
        s1: ArrayLike,
        *,
        log_density: JointLogDensity | None = None,
        member_weights: ArrayLike | None = None,
        loc: ArrayLike = 0.0,
        scale: ArrayLike = 1.0,
    ) -> None:
        a, W = np.asarray(locations, dtype=np.float64), np.asarray(weights, dtype=np.float64)
        if a.ndim != 3 or W.ndim != 3 or (W.shape[0], W.shape[2]) != (a.shape[0], a.shape[2]):
            raise ValueError(
                "`locations` must have shape (members, rows, units) and `weights` (members, outputs, units); "
                f"got {a.shape} and {W.shape}."
            )
        K, n = W.shape[:2]
        v = _per_output("s1", s1, W.shape[:2])
        rowwise = np.ndim(bias) == 3
        b = np.asarray(bias, np.float64) if rowwise else _per_output("bias", bias, W.shape[:2])[:, None]
        b = np.broadcast_to(b, (*a.shape[:2], n))
        places, scales = (np.broadcast_to(np.asarray(x, float), (n,)) for x in (loc, scale))
        self._mix = mixture_weights(member_weights, K)
        self._log_density = log_density
        parts = [
            Predictive(
                a,
                W[:, j],
                b[:, :, j],
                s0,
                v[:, j],
                member_weights=self._mix,
                loc=float(places[j]),
                scale=float(scales[j]),
            )
            for j in range(n)
        ]
        super().__init__(parts, places, scales)
        root = np.sqrt(np.broadcast_to(np.asarray(s0, np.float64), (K,)))[:, None, None]
        self._arrays = a / root, W * root, b, v  # units of deviation 1, and what the outputs make of them

    def cov(self) -> Floats:
        """Covariance of the outputs, (N, n, n): within members and between them."""
        _, coef, bias, noise = self._arrays
        g, v = self._parts[0].latent_moments()
        mean = np.einsum("knm,kjm->knj", g, coef) + bias
        away = mean - np.einsum("k,knj->nj", self._mix, mean)[None]
        within = np.einsum("k,kim,knm,kjm->nij", self._mix, coef, v, coef, optimize=True)
        between = np.einsum("k,kni,knj->nij", self._mix, away, away)
        return self._scaled(within + between + np.diag(self._mix @ noise)[None])

    def _log_density_of(self, z: Floats) -> Floats:
        if self._log_density is None:
            raise ValueError(
                "The joint density of several outputs needs an engine: pass `log_density`, "
                "or use `marginal(j).logpdf` for one output."
            )
        members = np.array(self._log_density(z), dtype=np.float64)
        if (lost := np.isnan(members)).any():  # noise too small for the engine: take their moments
            members[lost] = self._by_moments(z)[lost]
        mixed: Floats = logsumexp(members, axis=0, b=self._mix[:, None])
        return mixed

    def _by_moments(self, z: Floats) -> Floats:
        """Log densities of normal distributions with the members' moments, (K, N)."""
        _, coef, bias, noise = self._arrays
        g, v = self._parts[0].latent_moments()
        mean = np.einsum("knm,kjm->knj", g, coef) + bias
        within = np.einsum("kim,knm,kjm->knij", coef, v, coef, optimize=True)
        return log_densities(
            z[None] - mean, factors(within + noise[:, None, :, None] * np.eye(self.n_outputs))
        )

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        alpha, coef, bias, noise = self._arrays
        N, n = len(self), self.n_outputs
        out = np.empty((size, N, n))
        for draw in out:
            k = rng.choice(len(self._mix), size=N, p=self._mix)
            h = truncated_draws(alpha[k, np.arange(N)], rng)
            draw[:] = np.einsum("nm,njm->nj", h, coef[k]) + bias[k, np.arange(N)]
            draw += np.sqrt(noise[k]) * rng.standard_normal((N, n))
        return out


def _per_output(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Floats:
    v = np.asarray(value, dtype=np.float64)
    if v.ndim > 2 or (v.ndim and np.broadcast_shapes(v.shape, shape) != shape):
        raise ValueError(f"`{name}` must have shape {shape} (members, outputs); got {v.shape}.")
    return np.broadcast_to(v, shape).copy()
