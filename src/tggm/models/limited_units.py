r"""Hidden layers whose units lie between two limits (Su, Liao & Carin, 2017), for `Network(layers=…)`.

    p(h | x) = N(h | u, s0 I) given l σ0 ≤ h ≤ u σ0

Limits are in units of σ0, so that σ0 stays a gauge. With x and y the distances of the mean from the lower and
the upper limit, V the variance, and p, q the densities at the limits, all in units of σ0, the derivatives by
the location a are

.. math:: \partial_a g = V, \qquad \partial_a V = p (x^2 - V) - q (y^2 - V).
"""

from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from tggm.formulas import Triple, gauss_hermite, layer_above
from tggm.models.layers import N_NODES, Directed, Independent, Propagated, part
from tggm.special.boxes import edge_moments

Limits = tuple[float, float]


@part
class TanhLayers(Directed):
    """Units from −4σ0 to 4σ0, that is from −1 to 1 in the gauge σ0 = ¼."""

    LIMITS: ClassVar[Limits] = (-4.0, 4.0)

    def moments(self, psi: Any) -> Propagated:
        """Return the moments by propagation; those of the first layer are exact."""
        alpha = (psi @ self.W0.T + self.b0[None, :]) / jnp.sqrt(self.gauge)
        g, omega2 = moments(self.LIMITS, alpha)
        found = [Independent(jnp.sqrt(self.gauge) * g, self.gauge * omega2).as_first_layer()]
        for W, b in zip(self.W, self.b, strict=True):
            average = partial(averages, self.LIMITS, N_NODES)
            found.append(layer_above(jnp, W, b, self.gauge, found[-1], average))
        return Propagated(found, self.W)


@part
class SigmoidLayers(TanhLayers):
    """Units from −2σ0 to 2σ0: the width of 0 to 1 in the gauge σ0 = ¼, centred."""

    LIMITS: ClassVar[Limits] = (-2.0, 2.0)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def moments(limits: Limits, a: Array) -> tuple[Array, Array]:
    """Return mean g and variance ω² of N(a, 1) between limits."""
    return _moments_and_slope(limits, a)[:2]


@moments.defjvp
def _(limits: Limits, primals: tuple[Array], tangents: tuple[Array]) -> tuple[Any, Any]:
    g, V, slope = _moments_and_slope(limits, *primals)
    return (g, V), (V * tangents[0], slope * tangents[0])


def _moments_and_slope(limits: Limits, a: Array) -> Triple:
    """Return g, V and the derivative of V."""
    s = edge_moments(a, *(jnp.full_like(a, limit) for limit in limits))
    x, y, V = s.low, s.high, s.var
    return limits[0] + x, V, s.at_lower * (x * x - V) - s.at_upper * (y * y - V)


def averages(limits: Limits, n_nodes: int, alpha: Array, spread: Array) -> Triple:
    """Return E[g(u)], E[ω²(u)] and Var[g(u)] for u ~ N(alpha, spread²), by Gauss–Hermite quadrature."""
    start, _ = moments(limits, alpha)
    moved = slope = squares = jnp.zeros_like(alpha)
    for place, weight in zip(*gauss_hermite(n_nodes), strict=True):
        g, omega2 = moments(limits, alpha + spread * place)
        away = g - start  # so that the variance does not cancel
        moved, slope, squares = moved + weight * away, slope + weight * omega2, squares + weight * away * away
    return start + moved, slope, jnp.maximum(squares - moved * moved, 0.0)
