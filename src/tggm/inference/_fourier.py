"""Density of a sum of truncated normals, by tilted Fourier inversion.

    Y = Σ_k c_k x_k + ε,    x_k ~ N(α_k, 1) truncated to x ≥ 0, independent,    ε ~ N(0, s1)

    K(λ)  = log E[e^{λY}] = Σ L(α_k + c_k λ) − L(α_k) + ½ s1 λ²,      L(z) = z²/2 + log Φ(z)
    K'(λ) = Σ c_k g(α_k + c_k λ) + s1 λ,      K''(λ) = Σ c_k² ω²(α_k + c_k λ) + s1 ∈ [s1, s1 + Σ c_k²]

Under the density tilted by λ, f(y) e^{λy − K(λ)}, the x_k are again independent truncated normals, with
locations α_k + c_k λ, and Y has mean K'(λ) and variance K''(λ). With s = λ + it on a vertical line,

    f(y) = e^{K(λ) − λy} (1/π) ∫₀^∞ Re F(t) dt,
    F(t) = e^{K(s) − K(λ) − ity} = Π_k ψ_k(t) · e^{−s1 t²/2 + it(s1 λ − y)},

for any λ. At the saddle point K'(λ) = y the factor in front has the size of the result, so the integral is of
order one and the result has relative accuracy for any y. The error of the trapezoidal rule with step 2π/T is
the tilted density at y ± T, ± 2T, …, which decreases geometrically; T follows from Chernoff's bound.

Derivatives are integrals of the same kind (z_k = α_k + c_k s):

    ∂log f/∂α_k = ⟨g(z_k)⟩ − g(α_k),   ∂/∂c_k = ⟨s g(z_k)⟩,   ∂/∂y = −⟨s⟩,   ∂/∂s1 = ½⟨s²⟩,

where ⟨·⟩ = ∫Re(F ·)/∫Re F; and ⟨g(z_k)⟩ = E[x_k | y] is the posterior mean. One sweep over the nodes
accumulates all of them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.inference._common import map_blocks
from tggm.special import standard_moments
from tggm.special.characteristic import log_mass, mass, multiply, numerator, numerator_moments

_MAX_ITER = 80
_BLOCK = 16  # nodes per pass of the loop
_LAST = 3  # last nodes of a block that must be negligible to stop: a single one may be at a zero
_MAX_NODES = 8192


class Sum(NamedTuple):
    """One sum Y per row, without constants."""

    alpha: Array  # (rows, m) location of x_k before truncation
    coef: Array  # (rows, m) c_k
    noise: Array  # (rows,) s1 > 0

    def tilted(self, lam: Array) -> "Sum":
        """Return the sum under the density tilted by λ, without the shift s1 λ of the noise."""
        return self._replace(alpha=self.alpha + self.coef * lam[:, None])

    def mean_var(self) -> tuple[Array, Array]:
        """Return K'(0) and K''(0)."""
        g, v = standard_moments(self.alpha)
        return (self.coef * g).sum(1), (self.coef**2 * v).sum(1) + self.noise

    def log_mgf(self, lam: Array, about: Array) -> Array:
        """Return log E[e^{λ(Y − about)}] = K(λ) − λ·about.

        Computed relative to Σ c max(α, 0), which is near Y when α is large: no large squares cancel.
        """
        tilt = self.coef * lam[:, None]
        tilted, q = self.alpha + tilt, jnp.maximum(self.alpha, 0)
        p = jnp.maximum(tilted, 0)
        square = jnp.where((p > 0) & (q > 0), 0.5 * tilt**2, 0.5 * (p - q) * (p + q) - tilt * q)
        parts = square + (log_mass(tilted) - log_mass(self.alpha))
        return parts.sum(1) + 0.5 * self.noise * lam**2 + lam * (self.anchor() - about)

    def anchor(self) -> Array:
        """Return Σ c max(α, 0)."""
        return (self.coef * jnp.maximum(self.alpha, 0)).sum(1)

    def characteristic(self, t: Array) -> Array:
        """Return Π E[e^{i t c (x − max(α, 0))}] over variables; t of shape (rows, nodes)."""
        psi = numerator(self.alpha[:, :, None], self.coef[:, :, None] * t[:, None, :])
        return jnp.prod(multiply((1 / mass(self.alpha))[:, :, None], psi), 1)


def digits(dtype: np.dtype[Any]) -> float:
    """Return the negative logarithm of a negligible number: 1e-15 in float64, 1e-7 in float32."""
    return 35.0 if dtype == np.float64 else 17.0


def saddle(sums: Sum, y: Array) -> Array:
    """Return λ with K'(λ) = y to a fiftieth of a standard deviation.

    K' has slope between s1 and s1 + Σc², which brackets λ. A Newton step out of the bracket is replaced by
    the geometric mean of its ends, because they may be many orders of magnitude apart.
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
        return (n < _MAX_ITER) & active.any()

    def step(state: Any) -> Any:
        n, lam, low, high, active = state
        f, slope = excess(lam)
        high, low = jnp.where(f >= 0, lam, high), jnp.where(f < 0, lam, low)
        newton = lam - f / slope
        inside = (newton > low) & (newton < high)
        middle = jnp.sqrt(low) * jnp.sqrt(high)
        # every fourth step bisects: where K' is strongly curved, Newton steps inside the bracket may be tiny
        new = jnp.where(inside & (n % 4 != 3), newton, middle)
        active = active & (jnp.abs(f) > 0.02 * jnp.sqrt(slope))
        return n + 1, jnp.where(active, new, lam), low, high, active

    start = jnp.clip(d / excess(jnp.zeros_like(d))[1], low, high)
    state = (jnp.int32(0), start, low, high, d > 0)
    lam: Array = lax.while_loop(unfinished, step, state)[1]
    return sign * lam


def period(sums: Sum, lam: Array, y: Array) -> Array:
    """Return T with P_λ(|Y − y| > T) negligible on both sides, by Chernoff's bound with three tilts each."""
    tilted = sums.tilted(lam)
    scale = jnp.sqrt(tilted.mean_var()[1])
    tilts = jnp.asarray([0.9, 2.5, 6.5, -0.9, -2.5, -6.5], y.dtype)

    def distance(tilt: Array) -> Array:
        delta = tilt / scale
        return (tilted.log_mgf(delta, y - sums.noise * lam) + digits(y.dtype)) / jnp.abs(delta)

    bounds = jax.vmap(distance)(tilts)
    ends = jnp.maximum(bounds[:3].min(0), bounds[3:].min(0))
    return jnp.maximum(ends, 4 * scale)  # rounding may make a bound too small


class Contour(NamedTuple):
    """A vertical line through λ and the trapezoidal rule on it."""

    tilted: Sum  # locations α + cλ
    lam: Array  # (rows,)
    step: Array  # (rows,) 2π/T
    offset: Array  # (rows,) remaining phase per unit of t
    log_scale: Array  # (rows,) K(λ) − λy


def vertical_contour(sums: Sum, y: Array) -> Contour:
    """Return the line through the saddle point."""
    lam = saddle(sums, y)
    tilted = sums.tilted(lam)
    step = 2 * jnp.pi / period(sums, lam, y)
    offset = tilted.anchor() + sums.noise * lam - y
    # where the last possible node is not negligible, the noise is too small to be resolved: increase it
    end = step * _MAX_NODES
    size = jnp.abs(tilted.characteristic(end[:, None]))[:, 0]
    left = jnp.log(size) - 0.5 * sums.noise * end**2 > -digits(y.dtype)
    noise = jnp.where(left, jnp.maximum(sums.noise, 2 * digits(y.dtype) / end**2), sums.noise)
    return Contour(tilted._replace(noise=noise), lam, step, offset, sums.log_mgf(lam, y))


def sweep(contour: Contour, factors: Callable[[Array], tuple[Array, ...]], total: Any, gather: Any) -> Any:
    """Sum over the nodes of every row, in blocks, until the integrand is negligible in all rows.

    `factors(t)` returns the product Π ψ_k at nodes t of shape (rows, block) and further arguments of
    `gather(s, F, *rest)`, which forms the terms of the sums; `total` is their zero.
    """
    tilted, step = contour.tilted, contour.step
    negligible = jnp.exp(jnp.asarray(-digits(step.dtype) - 4, step.dtype))

    def unfinished(state: tuple[Array, Array, Any]) -> Array:
        j, size, _ = state
        return (j < _MAX_NODES) & (size > negligible)

    def block(state: tuple[Array, Array, Any]) -> tuple[Array, Array, Any]:
        j, _, total = state
        index = (j + jnp.arange(_BLOCK, dtype=jnp.int32)).astype(step.dtype)
        t = step[:, None] * index[None, :]
        product, *rest = factors(t)
        window = jnp.exp(-0.5 * tilted.noise[:, None] * t**2)
        size = (jnp.abs(product) * window)[:, -_LAST:].max()
        window = jnp.where(index == 0, 0.5, 1.0).astype(step.dtype)[None, :] * window
        phase = contour.offset[:, None] * t
        F = product * lax.complex(window * jnp.cos(phase), window * jnp.sin(phase))
        s = lax.complex(jnp.broadcast_to(contour.lam[:, None], t.shape), t)
        return j + _BLOCK, size, jax.tree.map(jnp.add, total, gather(s, F, *rest))

    start = (jnp.int32(0), jnp.asarray(jnp.inf, step.dtype), total)
    return lax.while_loop(unfinished, block, start)[2]


class Averages(NamedTuple):
    """log f(y), and averages ⟨·⟩ for each row and variable."""

    log_density: Array  # (rows,)
    s: Array  # (rows,) ⟨s⟩
    s2: Array  # (rows,) ⟨s²⟩
    mean: Array  # (rows, m) ⟨g(z_k)⟩ = E[x_k | y]
    s_mean: Array  # (rows, m) ⟨s g(z_k)⟩
    var: Array  # (rows, m) Var[x_k | y]


def averages(sums: Sum, y: Array) -> Averages:
    """Return averages of a block of rows; not differentiable."""
    contour = vertical_contour(sums, y)
    alpha, coef = contour.tilted.alpha, contour.tilted.coef
    scale = 1 / mass(alpha)
    centre = standard_moments(alpha)[0]

    def factors(t: Array) -> tuple[Array, ...]:
        # without the barrier XLA computes them again for every sum
        N, g, second = lax.optimization_barrier(
            numerator_moments(alpha[:, :, None], coef[:, :, None] * t[:, None, :], centre[:, :, None])
        )
        return jnp.prod(multiply(scale[:, :, None], N), 1), g, second

    def gather(s: Array, F: Array, g: Array, second: Array) -> tuple[Array, ...]:
        Fs, Fk = F * s, F[:, None, :]
        rows = (F.real.sum(1), Fs.real.sum(1), (Fs * s).real.sum(1))
        return (*rows, (Fk * g).real.sum(2), (Fs[:, None, :] * g).real.sum(2), (Fk * second).real.sum(2))

    row, variable = jnp.zeros_like(y), jnp.zeros_like(alpha)
    total, *sums_ = sweep(contour, factors, (row, row, row, variable, variable, variable), gather)
    total = jnp.maximum(total, float(np.finfo(total.dtype).tiny))
    s, s2, mean, s_mean, second = (v / (total if v.ndim == 1 else total[:, None]) for v in sums_)
    log_f = contour.log_scale + jnp.log(total * contour.step / jnp.pi)
    var = jnp.maximum(second - (mean - centre) ** 2, float(np.finfo(y.dtype).tiny))
    return Averages(log_f, s, s2, mean, s_mean, var)


def by_chunks(compute: Callable[[Any, Any], Any], sums: Sum, y: Any) -> Any:
    """Compute in blocks of rows with a bounded working set; y is any tree of row-wise arrays."""
    elements = 2**24 if jax.default_backend() == "gpu" else 2**18
    size = max(1, elements // (sums.alpha.shape[1] * _BLOCK))
    return map_blocks(lambda block: compute(*block), (sums, y), size)


@jax.custom_jvp
def log_density(sums: Sum, y: Array) -> Array:
    """Return log f(y) for each row, with relative accuracy in both tails.

    Differentiable (first order) in every argument at about four times the cost of the value.
    """

    def compute(sums: Sum, y: Array) -> Array:
        contour = vertical_contour(sums, y)
        total = sweep(
            contour, lambda t: (contour.tilted.characteristic(t),), jnp.zeros_like(y),
            lambda _, F: F.real.sum(1),
        )  # fmt: skip
        integral = total * contour.step / jnp.pi
        return contour.log_scale + jnp.log(jnp.maximum(integral, float(np.finfo(total.dtype).tiny)))

    return by_chunks(compute, sums, y)


@log_density.defjvp
def _log_density_jvp(primals: tuple[Sum, Array], tangents: tuple[Sum, Array]) -> tuple[Array, Array]:
    sums, y = primals
    d_sums, d_y = tangents
    a: Averages = by_chunks(averages, sums, y)
    prior, _ = standard_moments(sums.alpha)
    by_variable = (a.mean - prior) * d_sums.alpha + a.s_mean * d_sums.coef
    return a.log_density, by_variable.sum(1) - a.s * d_y + 0.5 * a.s2 * d_sums.noise
