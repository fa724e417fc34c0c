"""Mean field and EP for `LowRank` precisions of rank one as a single GPU kernel.

With one output, P = diag(d) + uuᵀ, a row's whole iteration needs only sums over its units. A block of rows is read
once, iterated to convergence in registers, and its moments written once; plain XLA would carry every intermediate
through memory at each step. The mathematics is that of `newton` and `ep`, with Woodbury's matrix a scalar.
float32 on NVIDIA GPUs; everything else takes the general path.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from tggm.gaussian import Moments, TruncatedGaussian
from tggm.inference.factors import gaussian_log_z, log_normaliser, standardised
from tggm.inference.newton import bounded_step, step_tolerance
from tggm.precision import LowRank

WIDEST = 1024  # units a block can hold in registers


class Block(NamedTuple):
    """Some rows with their shared parameters; columns beyond the last unit are harmless (u = γ = 0, d = 1)."""

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
    tol = step_tolerance(jnp.float32)

    def visit(theta: Array) -> tuple[Array, ...]:
        g, omega2 = standardised(theta / root, truncated)
        mean = g / root
        r = theta - gamma - u**2 * mean + u * _sum(u * mean)
        E = d + p * (1 / omega2 - 1)
        t = _sum(u * r / E) / (1 + _sum(u**2 / E))
        delta = (u * t - r) / E
        return mean, r, bounded_step(delta, omega2 / p, mean, root), -_sum(r * delta)

    def keep_going(carry: tuple[Array, ...]) -> Array:
        return (carry[0] < max_iter) & (jnp.min(carry[-2]) < 1)

    def body(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        i, theta, mean, r, step, decrement, length, done, count = carry
        new_theta = theta + length * step
        new_mean, new_r, new_step, new_decrement = visit(new_theta)
        path = new_mean - mean
        last = decrement <= tol
        good = last | ((new_decrement < jnp.inf) & (_sum(new_r * path) <= -0.5 * _sum(r * path)))
        move = good & (done < 1)
        finished = move & (last | (new_decrement <= 1e-6 * tol))
        return (
            i + 1,
            jnp.where(move, new_theta, theta),
            jnp.where(move, new_mean, mean),
            jnp.where(move, new_r, r),
            jnp.where(move, new_step, step),
            jnp.where(move, new_decrement, decrement),
            jnp.where(good, 1.0, length / 2),
            jnp.where(finished, 1, done),
            count + jnp.where(done < 1, 1, 0),
        )

    start = p * _woodbury(gamma, d, u)
    none = jnp.zeros((gamma.shape[0], 1), jnp.int32)
    first = (jnp.int32(0), start, *visit(start), jnp.ones((gamma.shape[0], 1), gamma.dtype), none, none)
    _, theta, mean, _, _, _, _, done, count = lax.while_loop(keep_going, body, first)
    g, omega2 = standardised(theta / root, truncated)
    coupling = u * _sum(u * mean) - u**2 * mean
    terms = log_normaliser(theta, p, truncated) + (gamma - theta - coupling / 2) * mean
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
        var = jnp.maximum(1 - u**2 / (E * K), jnp.finfo(jnp.float32).eps) / E
        tau = jnp.maximum(1 / var - lam, jnp.finfo(jnp.float32).eps / var)
        return mean, var, tau, mean / var - nu

    def keep_going(carry: tuple[Array, ...]) -> Array:
        return (carry[0] < max_iter) & (jnp.max(carry[3]) > tol)

    def body(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        i, lam, nu, mismatch, damping, count = carry
        mean, var, tau, eta = marginals(lam, nu)
        hat_mean, hat_var, new_lam, new_nu = tilted(tau, eta)
        off = jnp.maximum(jnp.abs(hat_mean - mean) / jnp.sqrt(var), jnp.abs(hat_var / var - 1))
        new_mismatch = jnp.max(jnp.where(present, off, 0.0), axis=1, keepdims=True)
        worse = ~(new_mismatch < mismatch) & (i > 2)
        damping = jnp.where(worse, jnp.maximum(damping / 2, 0.1), jnp.minimum(1.5 * damping, 1.0))
        share = jnp.where(new_mismatch > tol, damping, 0.0)
        count = count + jnp.where(new_mismatch > tol, 1, 0)
        return i + 1, lam + share * (new_lam - lam), nu + share * (new_nu - nu), new_mismatch, damping, count

    p = d + u**2 + jnp.zeros_like(gamma)
    _, _, lam, nu = tilted(p, jnp.zeros_like(p))
    one = jnp.ones((gamma.shape[0], 1), gamma.dtype)
    first = (jnp.int32(0), lam, nu, jnp.inf * one, one, jnp.zeros((gamma.shape[0], 1), jnp.int32))
    _, lam, nu, mismatch, _, count = lax.while_loop(keep_going, body, first)
    mean, _, tau, eta = marginals(lam, nu)
    hat_mean, hat_var, _, _ = tilted(tau, eta)
    E = d + lam
    terms = 0.5 * ((gamma + nu) * mean - jnp.log(E)) + log_normaliser(eta, tau, truncated)
    terms = terms + 0.9189385332046727 - gaussian_log_z(eta + nu, tau + lam)  # ½ log 2π
    log_z = _sum(jnp.where(present, terms, 0.0)) - 0.5 * jnp.log(1 + _sum(u**2 / E))
    return Answer(hat_mean, hat_var, log_z, jnp.where(mismatch <= tol, 1, 0), count)


def run(
    solve: Callable[..., Answer], tg: TruncatedGaussian, kind: str, *numbers: Array, interpret: bool = False
) -> Moments:
    """Apply a block solver to all rows, several rows to a GPU thread block."""
    P = tg.precision
    assert isinstance(P, LowRank)
    n, m = tg.shift.shape
    width = pl.next_power_of_2(m)
    height = max(1, 1024 // width)
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
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=1),
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


def _kernel(solve: Callable[..., Answer], shape: tuple[int, int], gamma: Array, d: Array, u: Array, *refs: Array) -> None:
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


def _woodbury(r: Array, d: Array, u: Array) -> Array:
    """(diag(d) + uuᵀ)⁻¹ r for each row."""
    x = r / d
    return x - u / d * (_sum(u * x) / (1 + _sum(u**2 / d)))
