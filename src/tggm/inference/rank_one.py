"""Mean field and EP for `LowRank` precisions of rank one as a single GPU kernel.

With one output, P = diag(d) + uuᵀ, a row's whole iteration needs only sums over its units. A block of rows
is read once, iterated to convergence in registers, and its moments written once; plain XLA would carry every
intermediate through memory at each step. The mathematics is that of `newton` and `ep`, with Woodbury's matrix
a scalar. float32 on NVIDIA GPUs; everything else takes the general path.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from tggm.gaussian import Moments, TruncatedGaussian
from tggm.inference.factors import standardised
from tggm.inference.mean_field.newton import step_tolerance
from tggm.precision import LowRank
from tggm.precision.protocol import rounding
from tggm.special import standard_moments

EPS = rounding(jnp.float32)
WIDEST = 1024  # units a block can hold in registers
ROWS = 1  # to a thread block; with more, all wait for the slowest
UNITS = 128  # to a warp


class KernelRows(NamedTuple):
    """Some rows with their shared parameters; padded columns are harmless (u = γ = 0, d = 1)."""

    gamma: Array  # (rows, m)
    d: Array  # (1, m)
    u: Array  # (1, m)
    truncated: Array  # (1, m) bool
    present: Array  # (1, m) bool


class Answer(NamedTuple):
    """Moments of a block, the per-row results as columns (rows, 1)."""

    mean: Array
    var: Array
    log_z: Array
    converged: Array
    n_iter: Array


def suits(tg: TruncatedGaussian) -> bool:
    """Whether the kernel can take this problem (on a GPU)."""
    P = tg.precision
    fits = isinstance(P, LowRank) and P.rank == 1 and P.size <= WIDEST and P.dtype == jnp.float32
    return fits and tg.limits is None


def mean_field_block(block: KernelRows, max_iter: Array) -> Answer:
    """Newton's method for the mean-field problem of each row; see `newton`.

    In units of 1/√P_kk only the coupling is left: with α = θ/√p, x = m√p, c = u/√p and e = d/p = 1 − c², the
    residual is α − γ/√p − c²x + c Σ cx and the Hessian diag(1/ω² − c²) + ccᵀ.
    """
    gamma, d, u, truncated, present = block
    p = d + u**2
    root = jnp.sqrt(p)
    target, c, e = gamma / root, u / root, d / p
    # rounding of the residual's terms, below which the decrement cannot fall
    tol = jnp.maximum(step_tolerance(jnp.float32), _sum((8 * EPS * target) ** 2))

    def visit(alpha: Array) -> tuple[Array, Array, Array, Array]:
        x, omega2 = standardised(alpha, truncated)
        return alpha, x, omega2, alpha - target - c**2 * x + c * _sum(c * x)

    def keep_going(carry: Any) -> Array:
        return jnp.asarray((carry[0] < max_iter) & (jnp.min(carry[-2]) < 1))

    def body(carry: Any) -> Any:
        i, alpha, x, omega2, r, length, done, count = carry
        inverse = 1 / (e * omega2 + (1 - omega2))
        weight = omega2 * inverse
        t = _sum(c * r * weight) / (1 + _sum(c**2 * weight))
        push = c * t - r
        dx = push * weight
        decrement = -_sum(r * dx)
        secant = dx * (1 + 1 / (x * (x + jnp.maximum(dx, 0.0))))
        step = jnp.where(truncated & (dx > 0), jnp.minimum(push * inverse, 2 * secant), push * inverse)
        new = visit(alpha + length * step)
        last = jnp.abs(decrement) <= tol
        good = last | (_sum(new[3] * (new[1] - x)) <= 0.5 * length * decrement)
        move = good & (done < 1)
        point = (jnp.where(move, a, b) for a, b in zip(new, (alpha, x, omega2, r), strict=True))
        length = jnp.where(good, 1.0, length / 2)
        return (i + 1, *point, length, jnp.where(move & last, 1, done), count + (done < 1).astype(jnp.int32))

    none = jnp.zeros((gamma.shape[0], 1), jnp.int32)
    # the answer were nothing truncated; units that would be negative start as if they stood alone
    alone = root * _woodbury(gamma, d, u)
    start = visit(jnp.where(truncated & (alone < 0), e * alone, alone))
    first = (jnp.int32(0), *start, jnp.ones((gamma.shape[0], 1), gamma.dtype), none, none)
    _, alpha, x, omega2, _, _, done, count = lax.while_loop(keep_going, body, first)
    coupling = c * _sum(c * x) - c**2 * x
    terms = _log_z(alpha, truncated) - jnp.log(root) + (target - alpha - coupling / 2) * x
    return Answer(x / root, omega2 / p, _sum(jnp.where(present, terms, 0.0)), done, count)


def ep_block(block: KernelRows, max_iter: Array, tol: Array) -> Answer:
    """Expectation propagation for each row; see `ep`.

    With E = d + λ, K = 1 + Σ u²/E and q = u²/(EK), the marginal variance is (1 − q)/E and the precision of
    the cavity (d + λq)/(1 − q): sums of positive terms.
    """
    gamma, d, u, truncated, present = block

    def marginals(lam: Array, nu: Array) -> tuple[Array, ...]:
        E = d + lam
        inverse = 1 / E
        K = 1 + _sum(u**2 * inverse)
        x = (gamma + nu) * inverse
        mean = x - u * inverse * (_sum(u * x) / K)
        q = u**2 * inverse / K
        rest = 1 / (1 - q)
        return mean, q, rest, (d + lam * q) * rest, mean * E * rest - nu, K

    def tilted(tau: Array, eta: Array) -> tuple[Array, ...]:
        scale = lax.rsqrt(tau)
        g, omega2 = standardised(eta * scale, truncated)
        inverse = 1 / omega2
        return g * scale, omega2 * scale**2, tau * (inverse - 1), tau * scale * g * inverse - eta

    def keep_going(carry: Any) -> Array:
        return jnp.asarray((carry[0] < max_iter) & (jnp.max(carry[3]) > tol**2))

    def body(carry: Any) -> Any:
        i, lam, nu, mismatch, damping, count = carry
        mean, _, rest, tau, eta, _ = marginals(lam, nu)
        hat_mean, hat_var, new_lam, new_nu = tilted(tau, eta)
        marginal = (d + lam) * rest  # precision
        off = jnp.maximum((hat_mean - mean) ** 2 * marginal, (hat_var * marginal - 1) ** 2)
        real = present & (off * marginal > (8 * EPS * (gamma + nu)) ** 2)
        new_mismatch = jnp.max(jnp.where(real, off, 0.0), axis=1, keepdims=True)
        worse = ~(new_mismatch < mismatch) & (i > 2)
        damping = jnp.where(worse, jnp.maximum(damping / 2, 0.1), jnp.minimum(1.5 * damping, 1.0))
        going = new_mismatch > tol**2
        share = jnp.where(going, damping, 0.0)
        count = count + going.astype(jnp.int32)
        return i + 1, lam + share * (new_lam - lam), nu + share * (new_nu - nu), new_mismatch, damping, count

    p = d + u**2 + jnp.zeros_like(gamma)
    _, _, lam, nu = tilted(p, jnp.zeros_like(p))
    one = jnp.ones((gamma.shape[0], 1), gamma.dtype)
    first = (jnp.int32(0), lam, nu, jnp.inf * one, one, jnp.zeros((gamma.shape[0], 1), jnp.int32))
    _, lam, nu, mismatch, _, count = lax.while_loop(keep_going, body, first)
    mean, q, rest, tau, eta, K = marginals(lam, nu)
    hat_mean, hat_var, _, _ = tilted(tau, eta)
    # (γ + ν)ᵀμ − Σ μ²/s, s the marginal variances, with the large parts cancelled by hand
    E, s = d + lam, _sum(u * mean)
    residual = gamma + nu - E * mean - u * s  # of the solve: an error of the mean then counts squared only
    terms = _log_z(eta * lax.rsqrt(tau), truncated) - 0.5 * (jnp.log(tau * (1 - q)) + E * q * rest * mean**2)
    log_z = _sum(jnp.where(present, terms + residual * mean, 0.0)) + 0.5 * (s**2 - jnp.log(K))
    return Answer(hat_mean, hat_var, log_z, (mismatch <= tol**2).astype(jnp.int32), count)


def run(
    solve: Callable[..., Answer], kind: str, tg: TruncatedGaussian, *numbers: Array, interpret: bool = False
) -> Moments:
    """Apply a block solver to all rows; the language of kernels is imported for the first of them."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    P = tg.precision
    assert isinstance(P, LowRank)
    n, m = tg.shift.shape
    width = pl.next_power_of_2(m)
    height = ROWS
    per_row = pl.BlockSpec((height, 1), lambda i: (i, 0))
    wide = pl.BlockSpec((height, width), lambda i: (i, 0))
    shared = pl.BlockSpec((1, width), lambda i: (0, 0))
    scalar = pl.BlockSpec((1, 1), lambda i: (0, 0))
    f32, i32 = jnp.float32, jnp.int32
    out = pl.pallas_call(
        functools.partial(_kernel, solve, (n, m)),
        grid=(pl.cdiv(n, height),),
        in_specs=[wide, shared, shared, shared, *(scalar for _ in numbers)],
        out_specs=[wide, wide, per_row, per_row, per_row],
        out_shape=[
            jax.ShapeDtypeStruct((n, m), f32),
            jax.ShapeDtypeStruct((n, m), f32),
            jax.ShapeDtypeStruct((n, 1), f32),
            jax.ShapeDtypeStruct((n, 1), i32),
            jax.ShapeDtypeStruct((n, 1), i32),
        ],
        compiler_params=triton.CompilerParams(num_warps=max(1, height * width // UNITS), num_stages=1),
        interpret=interpret,
    )(
        tg.shift,
        P.base[None, :],
        P.weights,
        tg.truncated.astype(i32)[None, :],
        *(jnp.reshape(x, (1, 1)) for x in numbers),
    )
    mean, var, log_z, done, count = out
    return Moments(mean, var, log_z[:, 0], done[:, 0] > 0, count[:, 0], kind)


def _kernel(
    solve: Callable[..., Answer], shape: tuple[int, int], gamma: Any, d: Any, u: Any, *refs: Any
) -> None:
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    truncated, *numbers = refs[:-5]
    outputs = refs[-5:]
    height, width = gamma.shape
    row = pl.program_id(0) * height + lax.broadcasted_iota(jnp.int32, (height, width), 0)
    column = lax.broadcasted_iota(jnp.int32, (height, width), 1)
    there = (row < shape[0]) & (column < shape[1])
    present = lax.broadcasted_iota(jnp.int32, (1, width), 1) < shape[1]
    block = KernelRows(
        triton.load(gamma, mask=there, other=0.0),
        triton.load(d, mask=present, other=1.0),
        triton.load(u, mask=present, other=0.0),
        triton.load(truncated, mask=present, other=1) > 0,
        present,
    )
    answer = solve(block, *(x[0, 0] for x in numbers))
    triton.store(outputs[0], answer.mean, mask=there)
    triton.store(outputs[1], answer.var, mask=there)
    real = pl.program_id(0) * height + lax.broadcasted_iota(jnp.int32, (height, 1), 0) < shape[0]
    for ref, value in zip(outputs[2:], answer[2:], strict=True):
        triton.store(ref, value, mask=real)


def _sum(x: Array) -> Array:
    return jnp.sum(x, axis=1, keepdims=True)


def _log_z(alpha: Array, truncated: Array) -> Array:
    """Log-normaliser of a coordinate of precision one, in operations that the kernel language has.

    With t = |α| and R = r(−t): −log R left of zero, t²/2 + log Φ(t) + ½ log 2π right of it.
    """
    t = jnp.abs(alpha)
    R = t + standard_moments(-t)[0]
    free = 0.5 * t * t + 0.9189385
    right = free + jnp.log(1 - jnp.exp(-0.5 * t * t) / (2.5066283 * R))
    return jnp.where(truncated, jnp.where(alpha < 0, -jnp.log(R), right), free)


def _woodbury(r: Array, d: Array, u: Array) -> Array:
    """(diag(d) + uuᵀ)⁻¹ r for each row."""
    x = r / d
    return x - u / d * (_sum(u * x) / (1 + _sum(u**2 / d)))
