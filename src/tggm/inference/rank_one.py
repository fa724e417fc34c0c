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
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from tggm.gaussian import Moments, TruncatedGaussian
from tggm.inference.factors import gaussian_log_z, standardised
from tggm.inference.newton import bounded_step, step_tolerance
from tggm.precision import LowRank
from tggm.precision.protocol import rounding
from tggm.special import standard_moments

EPS = rounding(jnp.float32)
WIDEST = 1024  # units a block can hold in registers
ELEMENTS = 1024  # rows times units of a thread block
WARPS = 4


class Block(NamedTuple):
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
    return isinstance(P, LowRank) and P.rank == 1 and P.size <= WIDEST and P.dtype == jnp.float32


def mean_field_block(block: Block, max_iter: Array) -> Answer:
    """Newton's method for the mean-field problem of each row; see `newton`."""
    gamma, d, u, truncated, present = block
    p = d + u**2
    root = jnp.sqrt(p)

    def visit(theta: Array) -> tuple[Array, Array, Array, Array]:
        g, omega2 = standardised(theta / root, truncated)
        mean = g / root
        return theta, mean, omega2, theta - gamma - u**2 * mean + u * _sum(u * mean)

    def keep_going(carry: Any) -> Array:
        return jnp.asarray((carry[0] < max_iter) & (jnp.min(carry[-2]) < 1))

    def body(carry: Any) -> Any:
        i, theta, mean, omega2, r, length, done, count = carry
        weight = 1 / (d + p * (1 / omega2 - 1))
        t = _sum(u * r * weight) / (1 + _sum(u**2 * weight))
        delta = (u * t - r) * weight
        decrement = -_sum(r * delta)
        new = visit(theta + length * bounded_step(delta, omega2 / p, mean, root))
        path = new[1] - mean
        noise = 4 * EPS * (jnp.abs(gamma) + jnp.abs(theta))
        floor = jnp.maximum(step_tolerance(jnp.float32), _sum(noise**2 * omega2 / p))
        last = jnp.abs(decrement) <= floor
        good = last | (_sum(new[3] * path) <= -0.5 * _sum(r * path))
        move = good & (done < 1)
        point = (jnp.where(move, a, b) for a, b in zip(new, (theta, mean, omega2, r), strict=True))
        length = jnp.where(good, 1.0, length / 2)
        return (i + 1, *point, length, jnp.where(move & last, 1, done), count + (done < 1).astype(jnp.int32))

    none = jnp.zeros((gamma.shape[0], 1), jnp.int32)
    start = visit(p * _woodbury(gamma, d, u))
    first = (jnp.int32(0), *start, jnp.ones((gamma.shape[0], 1), gamma.dtype), none, none)
    _, theta, mean, omega2, _, _, done, count = lax.while_loop(keep_going, body, first)
    coupling = u * _sum(u * mean) - u**2 * mean
    terms = _log_z(theta, p, truncated) + (gamma - theta - coupling / 2) * mean
    return Answer(mean, omega2 / p, _sum(jnp.where(present, terms, 0.0)), done, count)


def ep_block(block: Block, max_iter: Array, tol: Array) -> Answer:
    """Expectation propagation for each row; see `ep`."""
    gamma, d, u, truncated, present = block

    def tilted(tau: Array, eta: Array) -> tuple[Array, Array, Array, Array]:
        root = jnp.sqrt(tau)
        g, omega2 = standardised(eta / root, truncated)
        return g / root, omega2 / tau, tau * (1 / omega2 - 1), root * (g / omega2) - eta

    def marginals(lam: Array, nu: Array) -> tuple[Array, Array, Array, Array]:
        E = d + lam
        x = (gamma + nu) / E
        K = 1 + _sum(u**2 / E)
        mean = x - u / E * (_sum(u * x) / K)
        var = jnp.maximum(1 - u**2 / (E * K), EPS) / E
        tau = jnp.maximum(1 / var - lam, EPS / var)
        return mean, var, tau, mean / var - nu

    def keep_going(carry: Any) -> Array:
        return jnp.asarray((carry[0] < max_iter) & (jnp.max(carry[3]) > tol))

    def body(carry: Any) -> Any:
        i, lam, nu, mismatch, damping, count = carry
        mean, var, tau, eta = marginals(lam, nu)
        hat_mean, hat_var, new_lam, new_nu = tilted(tau, eta)
        off = jnp.maximum(jnp.abs(hat_mean - mean) / jnp.sqrt(var), jnp.abs(hat_var / var - 1))
        noise = 8 * EPS * jnp.abs(gamma + nu) * jnp.sqrt(var)
        new_mismatch = jnp.max(jnp.where(present & (off > noise), off, 0.0), axis=1, keepdims=True)
        worse = ~(new_mismatch < mismatch) & (i > 2)
        damping = jnp.where(worse, jnp.maximum(damping / 2, 0.1), jnp.minimum(1.5 * damping, 1.0))
        share = jnp.where(new_mismatch > tol, damping, 0.0)
        count = count + (new_mismatch > tol).astype(jnp.int32)
        return i + 1, lam + share * (new_lam - lam), nu + share * (new_nu - nu), new_mismatch, damping, count

    p = d + u**2 + jnp.zeros_like(gamma)
    _, _, lam, nu = tilted(p, jnp.zeros_like(p))
    one = jnp.ones((gamma.shape[0], 1), gamma.dtype)
    first = (jnp.int32(0), lam, nu, jnp.inf * one, one, jnp.zeros((gamma.shape[0], 1), jnp.int32))
    _, lam, nu, mismatch, _, count = lax.while_loop(keep_going, body, first)
    mean, _, tau, eta = marginals(lam, nu)
    hat_mean, hat_var, _, _ = tilted(tau, eta)
    # (γ + ν)ᵀμ − Σ μ²/s, s the marginal variances, with the large parts cancelled by hand
    E = d + lam
    K = 1 + _sum(u**2 / E)
    q = u**2 / (E * K)
    s = _sum(u * mean)
    residual = gamma + nu - E * mean - u * s  # of the solve: an error of the mean then counts squared only
    terms = _log_z(eta, tau, truncated) - 0.5 * (jnp.log(1 - q) + E * q / (1 - q) * mean**2) + residual * mean
    log_z = _sum(jnp.where(present, terms, 0.0)) + 0.5 * (s**2 - jnp.log(K))
    return Answer(hat_mean, hat_var, log_z, (mismatch <= tol).astype(jnp.int32), count)


def run(
    solve: Callable[..., Answer], kind: str, tg: TruncatedGaussian, *numbers: Array, interpret: bool = False
) -> Moments:
    """Apply a block solver to all rows, several rows to a GPU thread block."""
    P = tg.precision
    assert isinstance(P, LowRank)
    n, m = tg.shift.shape
    width = pl.next_power_of_2(m)
    height = max(1, ELEMENTS // width)
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
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
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
    truncated, *numbers = refs[:-5]
    outputs = refs[-5:]
    height, width = gamma.shape
    row = pl.program_id(0) * height + lax.broadcasted_iota(jnp.int32, (height, width), 0)
    column = lax.broadcasted_iota(jnp.int32, (height, width), 1)
    there = (row < shape[0]) & (column < shape[1])
    present = lax.broadcasted_iota(jnp.int32, (1, width), 1) < shape[1]
    block = Block(
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


def _log_z(theta: Array, p: Array, truncated: Array) -> Array:
    """Log-normaliser of a coordinate in operations that the kernel language has, to float32's rounding.

    With t = |α| and R = r(−t): −log(R √p) left of zero, t²/2 + log Φ(t) + ½ log(2π/p) right of it.
    """
    t = jnp.abs(theta / jnp.sqrt(p))
    R = t + standard_moments(-t)[0]
    right = 0.5 * t * t + 0.9189385 + jnp.log(1 - jnp.exp(-0.5 * t * t) / (2.5066283 * R))
    wall = jnp.where(theta < 0, -jnp.log(R), right) - 0.5 * jnp.log(p)
    return jnp.where(truncated, wall, gaussian_log_z(theta, p))


def _woodbury(r: Array, d: Array, u: Array) -> Array:
    """(diag(d) + uuᵀ)⁻¹ r for each row."""
    x = r / d
    return x - u / d * (_sum(u * x) / (1 + _sum(u**2 / d)))
