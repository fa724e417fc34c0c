"""Cumulants of a sum of truncated normals, and the tilt that moves its mean to a given point.

    Y = Σ_k c_k x_k + ε,    x_k ~ N(α_k, 1) truncated to x ≥ 0, independent,    ε ~ N(0, s1)

    K(λ)  = log E[e^{λY}] = Σ L(α_k + c_k λ) − L(α_k) + ½ s1 λ²,      L(z) = z²/2 + log Φ(z)
    K'(λ) = Σ c_k g(α_k + c_k λ) + s1 λ,      K''(λ) = Σ c_k² ω²(α_k + c_k λ) + s1 ∈ [s1, s1 + Σ c_k²]

Under the density tilted by λ, f(y) e^{λy − K(λ)}, the x_k are again independent truncated normals, with
locations α_k + c_k λ, and Y has mean K'(λ) and variance K''(λ).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.inference.exact.box_sum import BoxSum
from tggm.special import standard_moments
from tggm.special.characteristic import log_mass, mass, numerator, times

_MAX_ITER = 80


class Sum(NamedTuple):
    """One sum Y per row, less any constant."""

    alpha: Array  # (rows, m) location of x_k before truncation
    coef: Array  # (rows, m) c_k
    noise: Array  # (rows,) s1 > 0

    def tilted(self, lam: Array) -> "Sum":
        """The sum under the density tilted by λ, less the constant s1 λ by which the noise moves."""
        return self._replace(alpha=self.alpha + self.coef * lam[:, None])

    def mean_var(self) -> tuple[Array, Array]:
        """K'(0) and K''(0)."""
        g, v = standard_moments(self.alpha)
        return (self.coef * g).sum(1), (self.coef**2 * v).sum(1) + self.noise

    def log_mgf(self, lam: Array, about: Array) -> Array:
        """Log E[e^{λ(Y − about)}] = K(λ) − λ·about.

        Written about Σ c max(α, 0), near which Y is when α is large: the squares that would cancel are not
        formed.
        """
        tilt = self.coef * lam[:, None]
        tilted, q = self.alpha + tilt, jnp.maximum(self.alpha, 0)
        p = jnp.maximum(tilted, 0)
        square = jnp.where((p > 0) & (q > 0), 0.5 * tilt**2, 0.5 * (p - q) * (p + q) - tilt * q)
        parts = square + (log_mass(tilted) - log_mass(self.alpha))
        return parts.sum(1) + 0.5 * self.noise * lam**2 + lam * (self.anchor() - about)

    def anchor(self) -> Array:
        """Σ c max(α, 0): Y were its latent variables their locations, rectified."""
        return (self.coef * jnp.maximum(self.alpha, 0)).sum(1)

    def characteristic(self, t: Array) -> Array:
        """Π E[e^{i t c (x − max(α, 0))}] over variables; t of shape (rows, nodes)."""
        psi = numerator(self.alpha[:, :, None], self.coef[:, :, None] * t[:, None, :])
        return jnp.prod(times((1 / mass(self.alpha))[:, :, None], psi), 1)


AnySum = Sum | BoxSum


def digits(dtype: np.dtype[Any]) -> float:
    """Negative logarithm of what may be neglected: some 1e-15 in float64, 1e-7 in float32."""
    return 35.0 if dtype == np.float64 else 17.0


def saddle(sums: AnySum, y: Array) -> Array:
    """λ with K'(λ) = y to a fiftieth of a standard deviation: contours need no more.

    K' has slope between s1 and s1 + Σc², which brackets λ; Newton steps that leave the bracket are replaced
    by its geometric mean, because its ends may be many orders of magnitude apart.
    """
    mean, _ = sums.mean_var()
    sign = jnp.where(y >= mean, 1.0, -1.0).astype(y.dtype)
    sums = sums._replace(coef=sums.coef * sign[:, None])  # −Y in place of Y, so that λ ≥ 0
    y, d = y * sign, jnp.abs(y - mean)
    top = (sums.coef**2).sum(1) + sums.noise
    low, high = d / top, d / jnp.maximum(sums.noise, top * float(np.finfo(y.dtype).eps) ** 2)

    def excess(lam: Array) -> tuple[Array, Array]:
        k1, k2 = sums.tilted(lam).mean_var()
        return k1 + sums.noise * lam - y, k2

    def unfinished(state: Any) -> Array:
        n, _, _, _, active = state
        more: Array = (n < _MAX_ITER) & active.any()
        return more

    def step(state: Any) -> Any:
        n, lam, low, high, active = state
        f, slope = excess(lam)
        high, low = jnp.where(f >= 0, lam, high), jnp.where(f < 0, lam, low)
        newton = lam - f / slope
        inside = (newton > low) & (newton < high)
        middle = jnp.sqrt(low) * jnp.sqrt(high)
        # where the curvature is that of a knee far off, steps that are inside may still crawl
        new = jnp.where(inside & (n % 4 != 3), newton, middle)
        active = active & (jnp.abs(f) > 0.02 * jnp.sqrt(slope))
        return n + 1, jnp.where(active, new, lam), low, high, active

    start = jnp.clip(d / excess(jnp.zeros_like(d))[1], low, high)
    state = (jnp.int32(0), start, low, high, d > 0)
    lam: Array = lax.while_loop(unfinished, step, state)[1]
    return sign * lam


def period(sums: AnySum, lam: Array, y: Array) -> Array:
    """A distance T with P_λ(|Y − y| > T) negligible on both sides: Chernoff's bound, three tilts each."""
    tilted = sums.tilted(lam)
    scale = jnp.sqrt(tilted.mean_var()[1])
    tilts = jnp.asarray([0.9, 2.5, 6.5, -0.9, -2.5, -6.5], y.dtype)

    def distance(tilt: Array) -> Array:
        delta = tilt / scale
        return (tilted.log_mgf(delta, y - sums.noise * lam) + digits(y.dtype)) / jnp.abs(delta)

    bounds = jax.vmap(distance)(tilts)
    ends = jnp.maximum(bounds[:3].min(0), bounds[3:].min(0))
    return jnp.maximum(ends, 4 * scale)  # rounding may bring a bound below what is possible
