"""Mean field and EP for `LowRank` precisions of few outputs as a single GPU kernel.

P = diag(d) + UᵀU with n rows in U: a row's iteration needs only sums over its units and an n × n system. A
row is read once, iterated to convergence in registers, and its moments written once; plain XLA would carry
every intermediate through memory at each step. The mathematics is that of `newton` and `ep`, with Woodbury's
matrix unrolled into n(n + 1)/2 numbers. float32 on NVIDIA GPUs; everything else takes the general path.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from tggm.gaussian import Moments, TruncatedGaussian
from tggm.inference.fused_pieces import inner, outer, quadratic, solve, standard, triangular
from tggm.inference.mean_field.newton import step_tolerance
from tggm.precision import LowRank
from tggm.precision.protocol import rounding

EPS = rounding(jnp.float32)
WIDEST = 1024  # units a block can hold in registers
MOST = 10  # rows of U: elimination is unrolled over them
SECOND_LOOK = True  # at the start of mean field
ROWS = 1  # that a program treats one after another
UNITS = 128  # to a warp


class KernelRow(NamedTuple):
    """A row with its shared parameters, (1, m) each; padded columns are harmless (u = γ = 0, d = 1)."""

    gamma: Array
    d: Array
    U: tuple[Array, ...]  # n of them
    truncated: Array  # bool
    present: Array  # bool


class Answer(NamedTuple):
    """Moments (1, m), and the rest as (1, 1)."""

    mean: Array
    var: Array
    log_z: Array
    converged: Array
    n_iter: Array


def suits(tg: TruncatedGaussian) -> bool:
    """Whether the kernel can take this problem (on a GPU)."""
    P = tg.precision
    fits = isinstance(P, LowRank) and 0 < P.rank <= MOST and P.size <= WIDEST and P.dtype == jnp.float32
    return fits and tg.limits is None


def mean_field_row(row: KernelRow, max_iter: Array) -> Answer:
    """Newton's method for the mean-field problem of a row; see `newton`.

    In units of 1/√P_kk only the coupling is left: with α = θ/√p, x = m√p, C = U/√p, e = d/p and w = 1 − e,
    the residual is α − γ/√p − wx + CᵀCx and the Hessian diag(1/ω² − w) + CᵀC. A point is judged by the slope
    along the step that led to it; where that was too long, half of it is tried instead.
    """
    gamma, d, U, truncated, present = row
    p = d + outer(U, U)
    root = jnp.sqrt(p)
    target, e = gamma / root, d / p
    C = tuple(u / root for u in U)
    w = outer(C, C)
    # rounding of the residual's terms, below which the decrement cannot fall
    tol = jnp.maximum(step_tolerance(jnp.float32), _sum((8 * EPS * target) ** 2))

    def keep_going(carry: Any) -> Array:
        return jnp.asarray((carry[0] < max_iter) & (carry[-1][0, 0] > 0))

    def body(carry: Any) -> Any:
        i, trial, base, base_x, step, length, most, _ = carry
        x, omega2 = standard(trial, truncated)[:2]
        r = trial - target - w * x + outer(C, inner(C, x))
        good = _sum(r * (x - base_x)) <= most
        inverse = 1 / (e * omega2 + (1 - omega2))
        weight = omega2 * inverse
        push = outer(C, solve(triangular(C, weight), inner(C, r * weight))) - r
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

    # The answer were nothing truncated leaves c to every unit; where that answer is negative the unit starts
    # from c itself. One step of each unit towards its own solution given c saves two thirds of a common one.
    x = gamma / d
    whole = root * (x - outer(U, solve(triangular(U, 1 / d), inner(U, x))) / d)
    c = e * whole
    start = jnp.where(truncated & (whole < 0), c, whole)
    if SECOND_LOOK:
        x, omega2 = standard(start, truncated)[:2]
        start = start - (start - w * x - c) / (e * omega2 + (1 - omega2))
        start = jnp.where(truncated, jnp.maximum(start, c), start)  # x ≥ 0, so α ≥ c
    one = jnp.ones((1, 1), gamma.dtype)
    first = (jnp.int32(0), start, start, start, start, one, jnp.inf * one, jnp.ones((1, 1), jnp.int32))
    count, alpha, base, *_, going = lax.while_loop(keep_going, body, first)
    alpha = jnp.where(going > 0, base, alpha)  # the last point that was judged
    x, omega2, log_z = standard(alpha, truncated)
    coupling = outer(C, inner(C, x)) - w * x
    terms = log_z - jnp.log(root) + (target - alpha - coupling / 2) * x
    n_iter = count + jnp.zeros_like(going)
    return Answer(x / root, omega2 / p, _sum(jnp.where(present, terms, 0.0)), 1 - going, n_iter)


def ep_row(row: KernelRow, max_iter: Array, tol: Array) -> Answer:
    """Expectation propagation for a row; see `ep`.

    With E = d + λ, K = I + U E⁻¹ Uᵀ and q = u_kᵀ K⁻¹ u_k / E, the marginal variance is (1 − q)/E and the
    precision of the cavity (d + λq)/(1 − q): sums of positive terms.
    """
    gamma, d, U, truncated, present = row

    def marginals(lam: Array, nu: Array) -> tuple[Any, ...]:
        E = d + lam
        inverse = 1 / E
        K = triangular(U, inverse)
        x = (gamma + nu) * inverse
        mean = x - inverse * outer(U, solve(K, inner(U, x)))
        q = quadratic(K, U) * inverse
        left = jnp.maximum(1 - q, EPS)
        rest = 1 / left
        return mean, q, left, rest, (d + lam * q) * rest, mean * E * rest - nu, K

    def tilted(tau: Array, eta: Array) -> tuple[Array, Array, Array, Array, Array]:
        scale = lax.rsqrt(tau)
        g, omega2, log_z = standard(eta * scale, truncated)
        inverse = 1 / omega2
        return g * scale, omega2 * scale**2, tau * (inverse - 1), tau * scale * g * inverse - eta, log_z

    def keep_going(carry: Any) -> Array:
        return jnp.asarray((carry[0] < max_iter) & (carry[3][0, 0] > tol**2))

    def body(carry: Any) -> Any:
        i, lam, nu, mismatch, damping, count = carry
        mean, _, _, rest, tau, eta, _ = marginals(lam, nu)
        hat_mean, hat_var, new_lam, new_nu, _ = tilted(tau, eta)
        marginal = (d + lam) * rest  # precision
        off = jnp.maximum((hat_mean - mean) ** 2 * marginal, (hat_var * marginal - 1) ** 2)
        off = jnp.where(jnp.isnan(off), jnp.inf, off)  # what is no number has not converged
        real = present & ~(off * marginal <= (8 * EPS * (gamma + nu)) ** 2)
        new_mismatch = jnp.max(jnp.where(real, off, 0.0), axis=1, keepdims=True)
        worse = ~(new_mismatch < mismatch) & (i > 2)
        damping = jnp.where(worse, jnp.maximum(damping / 2, 0.1), jnp.minimum(1.5 * damping, 1.0))
        going = new_mismatch > tol**2
        share = jnp.where(going, damping, 0.0)
        count = count + going.astype(jnp.int32)
        return i + 1, lam + share * (new_lam - lam), nu + share * (new_nu - nu), new_mismatch, damping, count

    none = jnp.zeros_like(gamma)
    # walls one by one on the Gaussian without any: two fifths fewer steps than from units by themselves
    lam, nu = tilted(*marginals(none, none)[4:6])[2:4]
    one = jnp.ones((1, 1), gamma.dtype)
    first = (jnp.int32(0), lam, nu, jnp.inf * one, one, jnp.zeros((1, 1), jnp.int32))
    _, lam, nu, mismatch, _, count = lax.while_loop(keep_going, body, first)
    mean, q, left, rest, tau, eta, K = marginals(lam, nu)
    hat_mean, hat_var, _, _, wall = tilted(tau, eta)
    # (γ + ν)ᵀμ − Σ μ²/s, s the marginal variances, with the large parts cancelled by hand
    E, s = d + lam, inner(U, mean)
    residual = gamma + nu - E * mean - outer(U, s)  # of the solve: an error of the mean then counts squared
    terms = wall - 0.5 * (jnp.log(tau * left) + E * q * rest * mean**2) + residual * mean
    log_z = _sum(jnp.where(present, terms, 0.0)) + 0.5 * (outer(s, s) - K.log_det())
    return Answer(hat_mean, hat_var, log_z, (mismatch <= tol**2).astype(jnp.int32), count)


def run(
    solve_row: Callable[..., Answer],
    kind: str,
    tg: TruncatedGaussian,
    *numbers: Array,
    interpret: bool = False,
) -> Moments:
    """Apply a solver to all rows; the language of kernels is imported for the first of them."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    P = tg.precision
    assert isinstance(P, LowRank)
    rows, m = tg.shift.shape
    width = pl.next_power_of_2(m)
    per_row = pl.BlockSpec((ROWS, 1), lambda i: (i, 0))
    wide = pl.BlockSpec((ROWS, width), lambda i: (i, 0))
    shared = [pl.BlockSpec((1, width), partial(_place, k)) for k in range(P.rank)]
    scalar = pl.BlockSpec((1, 1), lambda i: (0, 0))
    f32, i32 = jnp.float32, jnp.int32
    out = pl.pallas_call(
        partial(_kernel, solve_row, (rows, m), P.rank),
        grid=(pl.cdiv(rows, ROWS),),
        in_specs=[wide, shared[0], shared[0], *shared, *(scalar for _ in numbers)],
        out_specs=[wide, wide, per_row, per_row, per_row],
        out_shape=[
            *(jax.ShapeDtypeStruct((rows, m), f32) for _ in range(2)),
            *(jax.ShapeDtypeStruct((rows, 1), dtype) for dtype in (f32, i32, i32)),
        ],
        compiler_params=triton.CompilerParams(num_warps=max(1, width // UNITS), num_stages=1),
        interpret=interpret,
    )(
        tg.shift,
        P.base[None, :],
        tg.truncated.astype(i32)[None, :],
        *(P.weights for _ in shared),
        *(jnp.reshape(x, (1, 1)) for x in numbers),
    )
    mean, var, log_z, done, count = out
    return Moments(mean, var, log_z[:, 0], done[:, 0] > 0, count[:, 0], kind)


def _place(k: int, i: Array) -> tuple[int, int]:
    """Where every program finds row k of U."""
    return k, 0


def _kernel(
    solve_row: Callable[..., Answer], shape: tuple[int, int], rank: int, gamma: Any, d: Any, *refs: Any
) -> None:
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    truncated, U, numbers, outputs = refs[0], refs[1 : rank + 1], refs[rank + 1 : -5], refs[-5:]
    present = lax.broadcasted_iota(jnp.int32, (1, gamma.shape[1]), 1) < shape[1]
    shared = (
        triton.load(d, mask=present, other=1.0),
        tuple(triton.load(u, mask=present, other=0.0) for u in U),
        triton.load(truncated, mask=present, other=1) > 0,
        present,
    )

    before = pl.program_id(0) * gamma.shape[0]

    def one(k: Any, _: None) -> None:
        real = jnp.full((1, 1), before + k < shape[0])
        there = present & real
        row = KernelRow(triton.load(gamma.at[pl.ds(k, 1), :], mask=there, other=0.0), *shared)
        answer = solve_row(row, *(x[0, 0] for x in numbers))
        for ref, value, mask in zip(outputs, answer, (there, there, real, real, real), strict=True):
            triton.store(ref.at[pl.ds(k, 1), :], value, mask=mask)

    if gamma.shape[0] == 1:
        one(0, None)
    else:
        lax.fori_loop(np.int32(0), np.int32(gamma.shape[0]), one, None)


def _sum(x: Array) -> Array:
    return jnp.sum(x, axis=1, keepdims=True)
