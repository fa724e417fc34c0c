"""Mean field and EP for `LowRank` precisions of rank one as a single GPU kernel.

P = diag(d) + uuᵀ: the iteration of a row needs only sums over its units. A row is read once, iterated to
convergence in registers, and its moments are written once; XLA would write intermediate results to memory at
each step. The mathematics is that of `mean_field` and `ep`. It needs float32 and an NVIDIA GPU, and uses only
operations of the kernel language.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import Moments, TruncatedGaussian
from tggm.inference._common import STEP_TOLERANCE
from tggm.precision import LowRank, rounding
from tggm.special.coefficients import FITS

SQRT_2PI, LOG_ROOT_2PI = 2.5066283, 0.9189385
EPS = rounding(jnp.float32)
WIDEST = 1024  # units that a block can hold in registers
UNITS = 128  # per warp


class KernelRow(NamedTuple):
    """A row with its shared parameters, (1, m) each; padded columns have u = γ = 0 and d = 1."""

    gamma: Array
    d: Array
    u: Array
    truncated: Array  # bool
    present: Array  # bool


class Answer(NamedTuple):
    """Moments (1, m), and the rest as (1, 1)."""

    mean: Array
    var: Array
    log_z: Array
    converged: Array
    n_iter: Array


def is_supported(tg: TruncatedGaussian) -> bool:
    """Return whether the kernel can solve this problem on a GPU."""
    P = tg.precision
    fits = isinstance(P, LowRank) and P.rank == 1 and P.size <= WIDEST and P.dtype == jnp.float32
    return fits and tg.limits is None


def unit_moments(alpha: Array, truncated: Array) -> tuple[Array, Array, Array]:
    """Return mean, variance and log ∫ exp(−½h² + αh) dh of N(α, 1), given h ≥ 0 where it is truncated.

    Computed from one fit and one exponential at t = |α|, to about 1e-6. With R the hazard at −t, the mean is
    R − t left of zero and α + r right of it, r = ER / (√(2π) R − E), E = exp(−t²/2). The logarithm is −log R
    on the left and t²/2 + log √(2π) Φ(t) on the right.
    """
    _, c, of_mean = FITS["kernel"]["mean"]
    t, left = jnp.abs(alpha), alpha < 0
    shrunk = 1 / (t + c)
    u = 1 - 2 * c * shrunk
    low = _horner(of_mean, u) * shrunk
    R, half = t + low, 0.5 * t * t
    E = jnp.exp(-half)
    r = E * R / (SQRT_2PI * R - E)
    mean = jnp.where(left, low, alpha + r)
    var = jnp.where(left, low * low * _horner(FITS["kernel"]["ratio"][2], u), 1 - r * mean)
    log = jnp.log(jnp.where(left, R, 1 - E / (SQRT_2PI * R)))
    free = half + LOG_ROOT_2PI
    log_z = jnp.where(truncated, jnp.where(left, -log, free + log), free)
    return jnp.where(truncated, mean, alpha), jnp.where(truncated, var, 1.0), log_z


def _horner(coefficients: tuple[float, ...], u: Array) -> Array:
    value = coefficients[-1] * u + coefficients[-2]
    for c in coefficients[-3::-1]:
        value = value * u + c
    return value


def _sum(x: Array) -> Array:
    return jnp.sum(x, axis=1, keepdims=True)


def _inverse(u: Array, weight: Array) -> Array:
    """Return 1 / (1 + Σ u² weight), at most 1."""
    return 1 / jnp.maximum(1 + _sum(u * weight * u), 1.0)


def mean_field_row(row: KernelRow, max_iter: Array) -> Answer:
    """Run Newton's method for the mean-field problem of a row; see `mean_field`.

    In units of 1/√P_kk only the coupling remains: with α = θ/√p, x = m√p, c = u/√p, e = d/p and w = 1 − e,
    the residual is α − γ/√p − wx + c cᵀx and the Hessian diag(1/ω² − w) + ccᵀ. A step is accepted if the
    slope at its end is small enough; otherwise half of it is tried.
    """
    gamma, d, u, truncated, present = row
    p = d + u * u
    root = jnp.sqrt(p)
    target, e = gamma / root, d / p
    C = u / root
    w = C * C
    # rounding of the residual's terms, below which the decrement cannot fall
    tol = jnp.maximum(STEP_TOLERANCE[4], _sum((8 * EPS * target) ** 2))

    def unfinished(carry: Any) -> Array:
        return jnp.asarray((carry[0] < max_iter) & (carry[-1][0, 0] > 0))

    def step_(carry: Any) -> Any:
        i, trial, base, base_x, step, length, most, _ = carry
        x, omega2 = unit_moments(trial, truncated)[:2]
        r = trial - target - w * x + C * _sum(C * x)
        good = _sum(r * (x - base_x)) <= most
        inverse = 1 / (e * omega2 + (1 - omega2))
        weight = omega2 * inverse
        push = C * (_sum(C * (r * weight)) * _inverse(C, weight)) - r
        dx = push * weight
        decrement = -_sum(r * dx)
        last = jnp.abs(decrement) <= tol
        secant = dx * (1 + 1 / (x * (x + jnp.maximum(dx, 0.0))))
        move = jnp.where(truncated & (dx > 0), jnp.minimum(push * inverse, 2 * secant), push * inverse)
        base, base_x, step = (jnp.where(good, a, b) for a, b in ((trial, base), (x, base_x), (move, step)))
        length = jnp.where(good, 1.0, length / 2)
        most = jnp.where(good, 0.5 * decrement, most / 2)
        going = (~(good & last)).astype(jnp.int32)
        return i + 1, base + length * step, base, base_x, step, length, most, going

    # `c` is `target` − C Cᵀx at the solution without truncation. A unit whose mean is negative there starts
    # from `c`. One Newton step of each unit alone, with `c` fixed, then saves two thirds of a joint step.
    x = gamma / d
    whole = root * (x - u * (_sum(u * x) * _inverse(u, 1 / d)) / d)
    c = e * whole
    start = jnp.where(truncated & (whole < 0), c, whole)
    x, omega2 = unit_moments(start, truncated)[:2]
    start = start - (start - w * x - c) / (e * omega2 + (1 - omega2))
    start = jnp.where(truncated, jnp.maximum(start, c), start)  # x ≥ 0, so α ≥ c
    one = jnp.ones((1, 1), gamma.dtype)
    first = (jnp.int32(0), start, start, start, start, one, jnp.inf * one, jnp.ones((1, 1), jnp.int32))
    count, alpha, base, *_, going = lax.while_loop(unfinished, step_, first)
    alpha = jnp.where(going > 0, base, alpha)  # the last accepted point
    x, omega2, log_z = unit_moments(alpha, truncated)
    coupling = C * _sum(C * x) - w * x
    terms = log_z - jnp.log(root) + (target - alpha - coupling / 2) * x
    n_iter = count + jnp.zeros_like(going)
    return Answer(x / root, omega2 / p, _sum(jnp.where(present, terms, 0.0)), 1 - going, n_iter)


def ep_row(row: KernelRow, max_iter: Array, tol: Array) -> Answer:
    """Run expectation propagation for a row; see `ep`.

    With E = d + λ, K = 1 + uᵀE⁻¹u and q = u_k² / (K E), the marginal variance is (1 − q)/E and the precision
    of the cavity (d + λq)/(1 − q): sums of positive terms.
    """
    gamma, d, u, truncated, present = row

    def marginals(lam: Array, nu: Array) -> tuple[Any, ...]:
        E = d + lam
        inverse = 1 / E
        K = _inverse(u, inverse)
        x = (gamma + nu) * inverse
        mean = x - inverse * (u * (_sum(u * x) * K))
        q = u * K * u * inverse
        left = jnp.maximum(1 - q, EPS)
        rest = 1 / left
        return mean, q, left, rest, (d + lam * q) * rest, mean * E * rest - nu, K

    def tilted(tau: Array, eta: Array) -> tuple[Array, Array, Array, Array, Array]:
        scale = lax.rsqrt(tau)
        g, omega2, log_z = unit_moments(eta * scale, truncated)
        inverse = 1 / omega2
        return g * scale, omega2 * scale**2, tau * (inverse - 1), tau * scale * g * inverse - eta, log_z

    def unfinished(carry: Any) -> Array:
        return jnp.asarray((carry[0] < max_iter) & (carry[3][0, 0] > tol**2))

    def sweep(carry: Any) -> Any:
        i, lam, nu, mismatch, damping, count = carry
        mean, _, _, rest, tau, eta, _ = marginals(lam, nu)
        hat_mean, hat_var, new_lam, new_nu, _ = tilted(tau, eta)
        marginal = (d + lam) * rest  # precision
        off = jnp.maximum((hat_mean - mean) ** 2 * marginal, (hat_var * marginal - 1) ** 2)
        off = jnp.where(jnp.isnan(off), jnp.inf, off)  # a NaN has not converged
        real = present & ~(off * marginal <= (8 * EPS * (gamma + nu)) ** 2)
        new_mismatch = jnp.max(jnp.where(real, off, 0.0), axis=1, keepdims=True)
        worse = ~(new_mismatch < mismatch) & (i > 2)
        damping = jnp.where(worse, jnp.maximum(damping / 2, 0.1), jnp.minimum(1.5 * damping, 1.0))
        going = new_mismatch > tol**2
        share = jnp.where(going, damping, 0.0)
        count = count + going.astype(jnp.int32)
        return i + 1, lam + share * (new_lam - lam), nu + share * (new_nu - nu), new_mismatch, damping, count

    none = jnp.zeros_like(gamma)
    # Starting from the sites of single walls on the untruncated Gaussian needs two fifths fewer steps than
    # starting from the sites of uncoupled units.
    lam, nu = tilted(*marginals(none, none)[4:6])[2:4]
    one = jnp.ones((1, 1), gamma.dtype)
    first = (jnp.int32(0), lam, nu, jnp.inf * one, one, jnp.zeros((1, 1), jnp.int32))
    _, lam, nu, mismatch, _, count = lax.while_loop(unfinished, sweep, first)
    mean, q, left, rest, tau, eta, K = marginals(lam, nu)
    hat_mean, hat_var, _, _, wall = tilted(tau, eta)
    # (γ + ν)ᵀμ − Σ μ²/s, s the marginal variances, with the large parts cancelled analytically
    E, s = d + lam, _sum(u * mean)
    residual = gamma + nu - E * mean - u * s  # an error of the mean then enters squared
    terms = wall - 0.5 * (jnp.log(tau * left) + E * q * rest * mean**2) + residual * mean
    log_z = _sum(jnp.where(present, terms, 0.0)) + 0.5 * (s * s + jnp.log(K))
    return Answer(hat_mean, hat_var, log_z, (mismatch <= tol**2).astype(jnp.int32), count)


def run(
    solve_row: Callable[..., Answer], kind: str, tg: TruncatedGaussian, *numbers: Array,
    interpret: bool = False,
) -> Moments:  # fmt: skip
    """Apply a solver to all rows, one row per program."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    P = tg.precision
    assert isinstance(P, LowRank)
    rows, m = tg.shift.shape
    width = pl.next_power_of_2(m)
    per_row = pl.BlockSpec((1, 1), lambda i: (i, 0))
    wide = pl.BlockSpec((1, width), lambda i: (i, 0))
    shared = pl.BlockSpec((1, width), lambda i: (0, 0))
    scalar = pl.BlockSpec((1, 1), lambda i: (0, 0))
    f32, i32 = jnp.float32, jnp.int32
    scalars = [jnp.reshape(x, (1, 1)) for x in numbers]
    mean, var, log_z, done, count = pl.pallas_call(
        partial(_kernel, solve_row, m),
        grid=(rows,),
        in_specs=[wide, shared, shared, shared, *(scalar for _ in numbers)],
        out_specs=[wide, wide, per_row, per_row, per_row],
        out_shape=[
            *(jax.ShapeDtypeStruct((rows, m), f32) for _ in range(2)),
            *(jax.ShapeDtypeStruct((rows, 1), dtype) for dtype in (f32, i32, i32)),
        ],
        compiler_params=triton.CompilerParams(num_warps=max(1, width // UNITS), num_stages=1),
        interpret=interpret,
    )(tg.shift, P.base[None, :], tg.truncated.astype(i32)[None, :], P.weights, *scalars)
    return Moments(mean, var, log_z[:, 0], done[:, 0] > 0, count[:, 0], kind)


def _kernel(
    solve_row: Callable[..., Answer], m: int, gamma: Any, d: Any, truncated: Any, u: Any, *refs: Any
) -> None:
    from jax.experimental.pallas import triton

    numbers, outputs = refs[:-5], refs[-5:]
    present = lax.broadcasted_iota(jnp.int32, (1, gamma.shape[1]), 1) < m
    row = KernelRow(
        triton.load(gamma, mask=present, other=0.0),
        triton.load(d, mask=present, other=1.0),
        triton.load(u, mask=present, other=0.0),
        triton.load(truncated, mask=present, other=1) > 0,
        present,
    )
    answer = solve_row(row, *(x[0, 0] for x in numbers))
    real = jnp.ones((1, 1), bool)
    for ref, value, mask in zip(outputs, answer, (present, present, real, real, real), strict=True):
        triton.store(ref, value, mask=mask)
