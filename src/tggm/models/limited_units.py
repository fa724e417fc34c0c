r"""Hidden layers whose units lie between two limits (Su, Liao & Carin, 2017), for `Network(layers=…)`.

    p(h | x) = N(h | u, s0 I) given l σ0 ≤ h ≤ u σ0

Limits are in units of σ0, so that σ0 stays a gauge. Shifting both limits of a layer, with the biases into and
out of it, changes nothing: only the width matters. With x and y the distances of the mean from the lower and
the upper limit, V the variance, and p, q the densities at the limits, all in units of σ0, the derivatives are

.. math::
    \partial_a g = V, \qquad \partial_l g = p x, \qquad \partial_u g = q y, \\
    \partial_a V = p (x^2 - V) - q (y^2 - V), \quad \partial_l V = p (V - x^2), \quad
    \partial_u V = q (y^2 - V).
"""

from functools import partial
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.formulas import Triple, gauss_hermite, layer_above
from tggm.models.layers import N_NODES, Directed, Independent, Propagated, part
from tggm.special.box_kernels import box_moments

LEAST_LOG_WIDTH, MOST_LOG_WIDTH = -4.0, 8.0  # range of learned widths in computations
FARTHEST = 1e4  # largest learned limit in computations
START = (0.0, 12.0)  # learned limits at the start of training: nearly a ReLU
MeanVariance = tuple[Array, Array]


@part
class TanhLayers(Directed):
    """Units from −4σ0 to 4σ0, that is from −1 to 1 in the gauge σ0 = ¼."""

    LIMITS: ClassVar[tuple[float, float]] = (-4.0, 4.0)

    def limits(self, level: int) -> tuple[Any, Any]:
        """Return both limits of a layer, counted from 0, in units of σ0."""
        return self.LIMITS

    def moments(self, psi: Any) -> Propagated:
        """Return the moments by propagation; those of the first layer are exact."""
        alpha = (psi @ self.W0.T + self.b0[None, :]) / jnp.sqrt(self.gauge)
        g, omega2 = moments(alpha, *self.limits(0))
        found = [Independent(jnp.sqrt(self.gauge) * g, self.gauge * omega2).as_first_layer()]
        for level, (W, b) in enumerate(zip(self.W, self.b, strict=True), start=1):
            lower, upper = self.limits(level)
            average = partial(averages, N_NODES, lower=lower, upper=upper)
            found.append(layer_above(jnp, W, b, self.gauge, found[-1], average))
        return Propagated(found, self.W)


@part
class SigmoidLayers(TanhLayers):
    """Units from −2σ0 to 2σ0: the width of 0 to 1 in the gauge σ0 = ¼, centred."""

    LIMITS: ClassVar[tuple[float, float]] = (-2.0, 2.0)


@part
class LearnedLimits(TanhLayers):
    """Units between two limits that each layer learns."""

    lower: Array  # (layers,)
    log_width: Array  # (layers,)

    def limits(self, level: int) -> tuple[Any, Any]:
        """Return both limits of the layer, clipped to a finite range."""
        lower = jnp.clip(self.lower[level], -FARTHEST, FARTHEST)
        return lower, lower + jnp.exp(jnp.clip(self.log_width[level], LEAST_LOG_WIDTH, MOST_LOG_WIDTH))

    @classmethod
    def draw(cls, rng: np.random.Generator, W0: Any, b0: Any, s0: float, units: tuple[int, ...]) -> Self:
        """Draw weights like those of `Directed`; limits start at `START`."""
        plain: Any = TanhLayers.draw(rng, W0, b0, s0, units)
        lower, log_width = (np.full(len(units), a) for a in (START[0], np.log(START[1] - START[0])))
        return cls(W0, b0, plain.W, plain.b, plain.s0, lower, log_width)  # type: ignore[arg-type]  # NumPy


def moments(a: Array, lower: Array | float, upper: Array | float) -> MeanVariance:
    """Return mean g and variance ω² of N(a, 1) between limits, which are broadcast to the shape of a."""
    low, high = (jnp.broadcast_to(jnp.asarray(limit, a.dtype), a.shape) for limit in (lower, upper))
    return _moments(a, low, high)


@jax.custom_jvp
def _moments(a: Array, lower: Array, upper: Array) -> MeanVariance:
    _, s = box_moments(a, jnp.ones_like(a), lower, upper)
    return lower + s.low, s.var


@_moments.defjvp
def _(primals: Triple, tangents: Triple) -> tuple[MeanVariance, MeanVariance]:
    (a, lower, upper), (da, dl, du) = primals, tangents
    _, s = box_moments(a, jnp.ones_like(a), lower, upper)
    x, y, V, p, q = s.low, s.high, s.var, s.at_lower, s.at_upper
    by_lower, by_upper = p * (x * x - V), q * (y * y - V)
    d_mean = V * da + p * x * dl + q * y * du
    d_var = (by_lower - by_upper) * da - by_lower * dl + by_upper * du
    return (lower + x, V), (d_mean, d_var)


def averages(n_nodes: int, alpha: Array, spread: Array, lower: Array | float, upper: Array | float) -> Triple:
    """Return E[g(u)], E[ω²(u)] and Var[g(u)] for u ~ N(alpha, spread²), by Gauss–Hermite quadrature."""
    start, _ = moments(alpha, lower, upper)
    shift = slope = squares = jnp.zeros_like(alpha)
    for node, weight in zip(*gauss_hermite(n_nodes), strict=True):
        g, omega2 = moments(alpha + spread * node, lower, upper)
        step = g - start  # so that the variance does not cancel
        shift, slope, squares = shift + weight * step, slope + weight * omega2, squares + weight * step * step
    return start + shift, slope, jnp.maximum(squares - shift * shift, 0.0)
