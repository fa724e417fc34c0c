"""Exact predictive distributions of one hidden layer, by Fourier inversion.

Given x the output is y = b1 + Σ w_k h_k + ε with independent truncated normals h_k. Its density and its
distribution function are Fourier integrals along a line through the saddle point, exact to rounding error in
the tails, too.

Quantities at many points are computed from the characteristic function of each row's mixture on a grid.
If |Y − y| < 2R almost surely, Y and a point y both lying within R of the centre, functions of Y − y may be
replaced by their periodic versions of period 4R, whose Fourier series run over odd frequencies
t_j = (2j + 1) π / 2R: a square wave for sign(Y − y), a triangular wave for |Y − y|. With φ the
characteristic function of Y minus the centre and x = y minus the centre,

    f(y)      = (1/R) Σ Re[φ(t_j) e^{−i t_j x}],
    P(Y ≤ y)  = ½ − (2/π) Σ Im[φ(t_j) e^{−i t_j x}] / (2j + 1),
    E|Y − y|  = R − (8R/π²) Σ Re[φ(t_j) e^{−i t_j x}] / (2j + 1)²,      E|Y − Y'| the same with |φ|² at x = 0.

Blocks of nodes are added until φ is negligible in every row.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from tggm.arrays import Floats, Ints
from tggm.inference import Sum, by_chunks, log_density, log_tails, period
from tggm.predictive.base import ScalarPredictive
from tggm.special import standard_moments

Complexes = np.ndarray[Any, np.dtype[np.complex128]]

_CHUNK = 2048  # sums per compiled call; fewer are padded to a power of two, so that few programs are compiled
_FEW, _MANY = 16, 256  # nodes of each of the first _FEW_BLOCKS blocks, and of each later one
_FEW_BLOCKS = 16
_MAX_NODES = 4096
_NEGLIGIBLE = 1e-15
_SERIES_SIZE = 2**21  # complex numbers of a series that are computed at once
_density = jax.jit(log_density)
_tails = jax.jit(log_tails)


@jax.jit
def _radius(sums: Sum, centre: Array) -> Array:
    """Return R for each row of sums: P(|Y − centre| > R) is negligible."""
    return period(sums, jnp.zeros_like(centre), centre)


@partial(jax.jit, static_argnums=0)
def _characteristic(size: int, sums: Sum, shift: Array, R: Array, first: Array) -> Array:
    """Return E[e^{it(Y + shift)}] at nodes first, …, first + size − 1 of each row, shape (rows, size)."""

    def compute(sums: Sum, rest: tuple[Array, Array, Array]) -> Array:
        shift, R, first = rest
        odd = 2 * (first[:, None] + jnp.arange(size, dtype=R.dtype)[None, :]) + 1
        t = (0.5 * jnp.pi / R)[:, None] * odd
        product = sums.characteristic(t)
        phase, window = (sums.anchor() + shift)[:, None] * t, jnp.exp(-0.5 * sums.noise[:, None] * t**2)
        return product * jax.lax.complex(window * jnp.cos(phase), window * jnp.sin(phase))

    out: Array = by_chunks(compute, sums, (shift, R, first))
    return out


class Spectrum(NamedTuple):
    """Series of every row."""

    R: Floats  # (N,)
    phi: Complexes  # (N, J)


class ExactPredictive(ScalarPredictive):
    """Y = loc + scale · (bias + weights · h + ε), h_i ~ N_T(locations_i, s0) independent, ε ~ N(0, s1).

    A mixture over K ensemble members: `locations` W0 x + b0 have shape (K, N, m), `weights` W1 (K, m), and
    the bias b1 and the variances s0 and s1 (K,) or ().
    """

    def __init__(
        self, locations: ArrayLike, weights: ArrayLike, bias: ArrayLike, s0: ArrayLike, s1: ArrayLike, *,
        loc: float = 0.0, scale: float = 1.0,
    ) -> None:  # fmt: skip
        a, w = np.asarray(locations, dtype=np.float64), np.asarray(weights, dtype=np.float64)
        if a.ndim != 3 or w.shape != (a.shape[0], a.shape[2]):
            raise ValueError(
                "`locations` must have shape (members, rows, units) and `weights` (members, units); "
                f"got {a.shape} and {w.shape}."
            )
        K = len(a)
        numbers = (np.broadcast_to(np.asarray(v, np.float64), (K,)) for v in (bias, s0, s1))
        self._bias, s0_, self._noise = numbers
        for name, v in (("s0", s0_), ("s1", self._noise)):
            if not np.all(v > 0):
                raise ValueError(f"`{name}` is a variance and must be positive; got {v.tolist()}.")
        super().__init__(a.shape[1], K, loc, scale)
        self._alpha = a / np.sqrt(s0_)[:, None, None]
        self._coef = w * np.sqrt(s0_)[:, None]

    def __getitem__(self, rows: slice | Ints) -> "ExactPredictive":
        units = {"loc": self._loc, "scale": self._scale}
        return ExactPredictive(self._alpha[:, rows], self._coef, self._bias, 1.0, self._noise, **units)

    def member_moments(self) -> tuple[Floats, Floats]:
        with jax.enable_x64(True):
            g, v = map(np.asarray, standard_moments(self._alpha))
        mean = self._bias[:, None] + np.einsum("knm,km->kn", g, self._coef)
        return mean, np.einsum("knm,km->kn", v, self._coef**2) + self._noise[:, None]

    def _apply(
        self, function: Callable[..., Any], member: Ints, row: Ints, *values: Floats, least: int = 64
    ) -> Any:
        """Apply a compiled function of (sums, values) to pairs (member, row), at least `least` by padding."""
        parts = []
        for start in range(0, len(row), _CHUNK):
            at = slice(start, start + _CHUNK)
            k, n = member[at], row[at]
            size = _CHUNK if start else max(least, 1 << (len(k) - 1).bit_length())
            args = (self._alpha[k, n], self._coef[k], self._noise[k], *(v[at] for v in values))
            padded = [np.pad(v, [(0, size - len(k))] + [(0, 0)] * (v.ndim - 1), "edge") for v in args]
            with jax.enable_x64(True):
                alpha, coef, noise, *rest = (jnp.asarray(v) for v in padded)
                out = function(Sum(alpha, coef, noise), *rest)
            parts.append(jax.tree.map(lambda v, k=k: np.asarray(v)[: len(k)], out))
        return jax.tree.map(lambda *v: np.concatenate(v), *parts)

    def _members(self, function: Callable[..., Any], rows: Ints, z: Floats) -> Any:
        """Apply a compiled function of (sums, y) to every member at pairs (row, z); results (K, pairs)."""
        K = len(self._mix)
        y = z[None, :] - self._bias[:, None]
        found = self._apply(function, np.repeat(np.arange(K), len(rows)), np.tile(rows, K), y.ravel())
        return jax.tree.map(lambda v: v.reshape(K, len(rows)), found)

    def _mix_logs(self, log: Floats) -> Floats:
        mixed: Floats = logsumexp(log + np.log(self._mix)[:, None], axis=0)
        return mixed

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        if len(rows) == len(self):  # one point per row
            return self._tilted_density(rows, z)
        log = np.full(len(z), -np.inf)
        density = self._bulk(rows, z)[1]
        sure = density * np.sqrt(self._moments[1])[rows] > 1e-4  # ten digits: absolute errors are near 1e-15
        log[sure] = np.log(density[sure])
        if not sure.all():
            log[~sure] = self._tilted_density(rows[~sure], z[~sure])
        return log

    def _tilted_density(self, rows: Ints, z: Floats) -> Floats:
        return self._mix_logs(self._members(_density, rows, z))

    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        low, high = self._members(_tails, rows, z)
        return self._mix_logs(low), self._mix_logs(high)

    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        R, x = self._spectrum.R[rows], z - self._moments[0][rows]
        inside = np.abs(x) < R
        f, F, _ = self._series(rows, np.where(inside, x, 0.0))
        cdf = np.where(inside, 0.5 - (2 / np.pi) * F, (x > 0).astype(float))
        return cdf, np.where(inside, np.maximum(f, 0) / R, 0.0)

    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        R, phi = self._spectrum
        x, odd = z - self._moments[0][rows], 2 * np.arange(phi.shape[1]) + 1.0
        inside = np.abs(x) < R[rows]
        _, _, A = self._series(rows, np.where(inside, x, 0.0))
        to_z = np.where(inside, R[rows] - (8 / np.pi**2) * R[rows] * A, np.abs(x))
        between = R * (1 - (8 / np.pi**2) * (np.abs(phi) ** 2 @ (1 / odd**2)))
        return to_z, between[rows]

    def _series(self, rows: Ints, x: Floats) -> tuple[Floats, Floats, Floats]:
        """Return Σ Re E, Σ Im E/(2j+1), Σ Re E/(2j+1)² with E = φ(t_j) e^{−i t_j x}, at pairs."""
        R, phi = self._spectrum
        odd = 2 * np.arange(phi.shape[1]) + 1.0
        out, step = np.empty((3, len(x))), max(1, _SERIES_SIZE // len(odd))
        for start in range(0, len(x), step):
            at = slice(start, start + step)
            E = phi[rows[at]] * _odd_powers(np.exp(-0.5j * np.pi * x[at] / R[rows[at]]), len(odd))
            out[0, at], out[1, at], out[2, at] = E.real.sum(1), E.imag @ (1 / odd), E.real @ (1 / odd**2)
        return out[0], out[1], out[2]

    @cached_property
    def _spectrum(self) -> Spectrum:
        """Add blocks of nodes until the characteristic function of every member is negligible."""
        K, N = len(self._mix), len(self)
        centre = self._moments[0]
        member, place = np.repeat(np.arange(K), N), np.tile(np.arange(N), K)
        shift = self._bias[member] - centre[place]
        R = self._apply(_radius, member, place, -shift).reshape(K, N).max(0)
        blocks = [np.zeros((N, 0), np.complex128)]
        active, begin = np.arange(K * N), 0
        while active.size and begin < _MAX_NODES:
            k, n = member[active], place[active]
            size = _FEW if begin < _FEW * _FEW_BLOCKS else _MANY
            first = np.full(len(active), float(begin))
            compute = partial(_characteristic, size)
            block = self._apply(compute, k, n, shift[active], R[n], first, least=1024 // size)
            begin += size
            blocks.append(np.zeros((N, size), np.complex128))
            np.add.at(blocks[-1], n, self._mix[k][:, None] * block)
            active = active[np.abs(block[:, -3:]).max(1) >= _NEGLIGIBLE]
        phi = np.concatenate(blocks, 1)
        # noise too small to be resolved: smooth at the scale of the last node instead of cutting the series
        cut = np.zeros(N)
        cut[place[active]] = -np.log(_NEGLIGIBLE)
        window = np.exp(-cut[:, None] * (np.arange(phi.shape[1]) / phi.shape[1])[None, :] ** 2)
        return Spectrum(R, phi * window)

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        N = len(self)
        out = np.empty((size, N))
        for draw in out:
            k = rng.choice(len(self._mix), size=N, p=self._mix)
            signal = (_truncated_draws(self._alpha[k, np.arange(N)], rng) * self._coef[k]).sum(1)
            draw[:] = self._bias[k] + signal + np.sqrt(self._noise[k]) * rng.standard_normal(N)
        return out


def _truncated_draws(alpha: Floats, rng: np.random.Generator) -> Floats:
    """Draw from N(α, 1) truncated to x ≥ 0 by inverting the upper tail in logs, also for very negative α."""
    upper = np.log1p(-rng.random(alpha.shape)) + log_ndtr(alpha)
    draws: Floats = np.maximum(alpha - ndtri_exp(upper), 0.0)
    return draws


def _odd_powers(u: Complexes, n: int) -> Complexes:
    """Return u, u³, u⁵, … by repeated doubling; |u| = 1, so errors only add up."""
    out = np.empty((len(u), n), dtype=np.complex128)
    out[:, 0] = u
    filled, step = 1, u * u
    while filled < n:
        take = min(filled, n - filled)
        np.multiply(out[:, :take], step[:, None], out=out[:, filled : filled + take])
        filled, step = filled + take, step * step
    return out
