"""The exact density and distribution function of a sum of truncated normals, by tilted Fourier inversion.

For Y of `tggm.inference.exact.saddle`, with s = λ + it on a vertical line,

    f(y) = e^{K(λ) − λy} (1/π) ∫₀^∞ Re F(t) dt,    P(Y > y) = e^{K(λ) − λy} (1/π) ∫₀^∞ Re F(t)/s dt   (λ > 0),
    F(t) = e^{K(s) − K(λ) − ity} = Π_k ψ_k(t) · e^{−s1 t²/2 + it(s1 λ − y)},

whatever λ is. At the saddle point K'(λ) = y the factor in front is the size of the answer, so the integral is
of order one and the answer has relative accuracy however far out y is. The trapezoidal rule with step 2π/T
errs by the tilted density at y ± T, ± 2T, …: geometric convergence; T comes from Chernoff's bound.

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

from tggm.inference.exact.saddle import AnySum, Sum, digits, period, saddle
from tggm.special import standard_moments
from tggm.special.characteristic import mass, numerator_moments, times

_BLOCK = 16  # nodes per pass of the loop
_LAST = 3  # of them that must be negligible to stop: one alone may lie at a zero
_MAX_NODES = 8192


class Contour(NamedTuple):
    """A vertical line through λ and the trapezoidal rule on it."""

    tilted: AnySum  # locations α + cλ
    lam: Array  # (rows,)
    step: Array  # (rows,) 2π/T
    offset: Array  # (rows,) what is left of the phase, per unit of t
    log_scale: Array  # (rows,) K(λ) − λy


def vertical(sums: AnySum, y: Array, lam: Array, at_least: Array | None = None) -> Contour:
    """The line through λ, with a period of at least `at_least`."""
    tilted = sums.tilted(lam)
    T = period(sums, lam, y)
    T = T if at_least is None else jnp.maximum(T, at_least)
    step = 2 * jnp.pi / T
    offset = tilted.anchor() + sums.noise * lam - y
    # where even the last node allowed is not negligible, noise too small to be resolved is widened
    end = step * _MAX_NODES
    size = jnp.abs(tilted.characteristic(end[:, None]))[:, 0]
    left = jnp.log(size) - 0.5 * sums.noise * end**2 > -digits(y.dtype)
    noise = jnp.where(left, jnp.maximum(sums.noise, 2 * digits(y.dtype) / end**2), sums.noise)
    return Contour(tilted._replace(noise=noise), lam, step, offset, sums.log_mgf(lam, y))


def sweep(contour: Contour, factors: Callable[[Array], tuple[Array, ...]], total: Any, gather: Any) -> Any:
    """Sum over the nodes of every row, in blocks, until the integrand has vanished everywhere.

    `factors(t)` gives the product Π ψ_k at nodes t of shape (rows, block) and whatever else
    `gather(s, F, *rest)` needs to form the terms of the sums; `total` is their zero.
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


def _integral(contour: Contour, weight: Callable[[Array], Array] | None = None) -> Array:
    """(1/π) ∫ Re(F weight(s)) dt, at least tiny."""

    def gather(s: Array, F: Array) -> Array:
        return (F if weight is None else F * weight(s)).real.sum(1)

    tilted = contour.tilted
    total = sweep(contour, lambda t: (tilted.characteristic(t),), jnp.zeros_like(contour.lam), gather)
    return jnp.maximum(total * contour.step / jnp.pi, float(np.finfo(total.dtype).tiny))


class Averages(NamedTuple):
    """log f(y), and what ⟨·⟩ says of each row and variable."""

    log_density: Array  # (rows,)
    s: Array  # (rows,) ⟨s⟩
    s2: Array  # (rows,) ⟨s²⟩
    mean: Array  # (rows, m) ⟨g(z_k)⟩ = E[x_k | y]
    s_mean: Array  # (rows, m) ⟨s g(z_k)⟩
    var: Array  # (rows, m) Var[x_k | y]


def _averages(sums: Sum, y: Array) -> Averages:
    contour = vertical(sums, y, saddle(sums, y))
    alpha, coef = contour.tilted.alpha, contour.tilted.coef
    scale = 1 / mass(alpha)
    centre = standard_moments(alpha)[0]

    def factors(t: Array) -> tuple[Array, ...]:
        # barrier: else computed again for every sum
        N, g, second = lax.optimization_barrier(
            numerator_moments(alpha[:, :, None], coef[:, :, None] * t[:, None, :], centre[:, :, None])
        )
        return jnp.prod(times(scale[:, :, None], N), 1), g, second

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


def by_chunks(compute: Callable[[Any, Any], Any], sums: AnySum, y: Any) -> Any:
    """Compute with a bounded working set: so many rows at a time; y is any tree of row-wise arrays."""
    rows, m = sums.alpha.shape
    elements = 2**24 if jax.default_backend() == "gpu" else 2**18
    chunk = max(1, elements // (m * _BLOCK))
    if rows <= chunk:
        return compute(sums, y)
    n = -(-rows // chunk)
    chunk = -(-rows // n)

    def cut(a: Array) -> Array:
        return jnp.pad(a, ((0, n * chunk - rows), *((0, 0),) * (a.ndim - 1)), "edge").reshape(
            n, chunk, *a.shape[1:]
        )

    out = lax.map(lambda block: compute(*block), jax.tree.map(cut, (sums, y)))
    return jax.tree.map(lambda a: a.reshape(n * chunk, *a.shape[2:])[:rows], out)


def averages(sums: Sum, y: Array) -> Averages:
    """`Averages` for every row; not differentiable."""
    out: Averages = by_chunks(_averages, sums, y)
    return out


@jax.custom_jvp
def log_density(sums: AnySum, y: Array) -> Array:
    """Log f(y) for each row, relative accuracy in both tails.

    Differentiable (first order) with respect to every argument at about four times the price of the value;
    that of a `BoxSum` is not.
    """

    def compute(sums: AnySum, y: Array) -> Array:
        contour = vertical(sums, y, saddle(sums, y))
        return contour.log_scale + jnp.log(_integral(contour))

    out: Array = by_chunks(compute, sums, y)
    return out


@log_density.defjvp
def _log_density_jvp(primals: tuple[Sum, Array], tangents: tuple[Sum, Array]) -> tuple[Array, Array]:
    sums, y = primals
    d_sums, d_y = tangents
    a = averages(sums, y)
    prior, _ = standard_moments(sums.alpha)
    by_variable = (a.mean - prior) * d_sums.alpha + a.s_mean * d_sums.coef
    return a.log_density, by_variable.sum(1) - a.s * d_y + 0.5 * a.s2 * d_sums.noise


def clear_of_zero(sums: AnySum, y: Array) -> Array:
    """A tilt that makes y the middle but stays away from the pole at s = 0, of the sign of y − E[Y].

    1.7 over the standard deviation is far enough, unless the tail is nearly exponential and E[e^{λY}] huge
    there; 0.7 suits every log-concave density.
    """
    mean, var = sums.mean_var()
    side = jnp.where(y >= mean, 1.0, -1.0).astype(y.dtype)
    wide = 1.7 * side / jnp.sqrt(var)
    least = jnp.where(sums.log_mgf(wide, mean) < 3, 1.7, 0.7) / jnp.sqrt(var)
    return side * jnp.maximum(jnp.abs(saddle(sums, y)), least)


def log_tails(sums: AnySum, y: Array) -> tuple[Array, Array]:
    """Logarithms of P(Y ≤ y) and P(Y > y); the smaller of the two has relative accuracy.

    The integrand has a pole at s = 0, which adds e^{−|λ|T} to the error of the trapezoidal rule.
    """

    def compute(sums: AnySum, y: Array) -> tuple[Array, Array]:
        lam = clear_of_zero(sums, y)
        contour = vertical(sums, y, lam, (digits(y.dtype) + 2) / jnp.abs(lam))
        sign = lax.complex(jnp.sign(lam), jnp.zeros_like(lam))[:, None]
        tail = contour.log_scale + jnp.log(_integral(contour, lambda s: sign / s))
        tail = jnp.minimum(tail, -float(np.finfo(tail.dtype).tiny))
        other = jnp.where(tail > -0.7, jnp.log(-jnp.expm1(tail)), jnp.log1p(-jnp.exp(tail)))
        return jnp.where(lam > 0, other, tail), jnp.where(lam > 0, tail, other)

    out: tuple[Array, Array] = by_chunks(compute, sums, y)
    return out
