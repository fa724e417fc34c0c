"""Cumulants and characteristic function of a sum of normals between two limits, as `saddle.Sum` has them.

    Y = Σ_k c_k x_k + ε,    x_k ~ N(α_k, 1) given l_k ≤ x_k ≤ u_k, independent,    ε ~ N(0, s1)

Tilting by λ moves α_k to α_k + c_k λ and leaves the limits as they are.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from tggm.special import box_log_z, box_moments
from tggm.special.box_characteristic import box_characteristic


class BoxSum(NamedTuple):
    """One sum Y per row, less any constant."""

    alpha: Array  # (rows, m) location of x_k before truncation
    coef: Array  # (rows, m) c_k
    noise: Array  # (rows,) s1 > 0
    lower: Array  # (rows, m) finite
    upper: Array  # (rows, m) finite

    def tilted(self, lam: Array) -> "BoxSum":
        """The sum under the density tilted by λ, less the constant s1 λ by which the noise moves."""
        return self._replace(alpha=self.alpha + self.coef * lam[:, None])

    def mean_var(self) -> tuple[Array, Array]:
        """K'(0) and K''(0)."""
        g, v = box_moments(self.alpha, self.lower, self.upper)
        return (self.coef * g).sum(1), (self.coef**2 * v).sum(1) + self.noise

    def log_mgf(self, lam: Array, about: Array) -> Array:
        """Log E[e^{λ(Y − about)}] = K(λ) − λ·about."""
        one, limits = jnp.ones_like(self.alpha), (self.lower, self.upper)
        tilted = self.alpha + self.coef * lam[:, None]
        parts = box_log_z(tilted, one, *limits) - box_log_z(self.alpha, one, *limits)
        return parts.sum(1) + 0.5 * self.noise * lam**2 - lam * about

    def anchor(self) -> Array:
        """Σ c clip(α, l, u): Y were its latent variables their locations, clipped."""
        return (self.coef * jnp.clip(self.alpha, self.lower, self.upper)).sum(1)

    def characteristic(self, t: Array) -> Array:
        """Π E[e^{i t c (x − clip(α))}] over variables; t of shape (rows, nodes)."""
        tau = self.coef[:, :, None] * t[:, None, :]
        return jnp.prod(box_characteristic(self.alpha, self.lower, self.upper, tau), 1)
