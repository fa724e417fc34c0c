"""The exact predictive distribution of a scalar output of one layer, by Fourier inversion."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from tggm.arrays import Floats, Ints
from tggm.inference import BoxSum, Sum, log_density, log_tails
from tggm.predictive.base import ScalarPredictive, mixture_weights
from tggm.predictive.spectrum import (
    MAX_NODES,
    NEGLIGIBLE,
    Complexes,
    Spectrum,
    block_size,
    characteristic_block,
    radius,
)
from tggm.special import box_moments, box_quantile, standard_moments

_CHUNK = 2048  # sums per compiled call; fewer are padded to a power of two, so that few programs are compiled
_SLAB = 4096  # rows whose spectra are computed together
_density = jax.jit(log_density)
_tails = jax.jit(log_tails)
_log_mgf = jax.jit(lambda sums, order: sums.log_mgf(order, jnp.zeros_like(order)))


class Predictive(ScalarPredictive):
    """Y = loc + scale · (bias + weights · h + ε), h_i ~ N_T(locations_i, s0) independent, ε ~ N(0, s1).

    Truncated to h_i ≥ 0, or to a box. A mixture over K ensemble members; every method is exact to rounding
    error, tails included.

    Parameters
    ----------
    locations : array_like, shape (K, N, m)
        W0 x + b0 of each member at each row.
    weights : array_like, shape (K, m)
        Output weights W1.
    bias : array_like, shape (K,) or (K, N)
        Output bias b1, with the linear part of each row where there is one.
    s0, s1 : float or array_like, shape (K,)
        Variance of the latent variables before truncation, and of the output noise.
    member_weights : array_like, shape (K,), optional
        Equal by default.
    loc, scale : float
        Affine map from what the model predicts to the output.
    limits : array_like, shape (2, K), optional
        Lower and upper limit of the latent variables of each member, in units of √s0; 0 and ∞ if not given.
    """

    def __init__(
        self,
        locations: ArrayLike,
        weights: ArrayLike,
        bias: ArrayLike,
        s0: ArrayLike,
        s1: ArrayLike,
        *,
        member_weights: ArrayLike | None = None,
        loc: float = 0.0,
        scale: float = 1.0,
        limits: ArrayLike | None = None,
    ) -> None:
        a, w = np.asarray(locations, dtype=np.float64), np.asarray(weights, dtype=np.float64)
        if a.ndim != 3 or w.shape != (a.shape[0], a.shape[2]):
            raise ValueError(
                "`locations` must have shape (members, rows, units) and `weights` (members, units); "
                f"got {a.shape} and {w.shape}."
            )
        K = len(a)
        s0_, self._noise = (_per_member(n, v, K) for n, v in (("s0", s0), ("s1", s1)))
        rowwise = np.ndim(bias) == 2 and np.shape(bias) == a.shape[:2]
        b = np.asarray(bias, np.float64) if rowwise else _per_member("bias", bias, K)[:, None]
        self._bias = np.broadcast_to(b, a.shape[:2])
        for name, v in (("s0", s0_), ("s1", self._noise)):
            if not np.all(v > 0):
                raise ValueError(f"`{name}` is a variance and must be positive; got {v.tolist()}.")
        super().__init__(a.shape[1], mixture_weights(member_weights, K), loc, scale)
        self._alpha = a / np.sqrt(s0_)[:, None, None]
        self._coef = w * np.sqrt(s0_)[:, None]
        self._limits = None if limits is None else np.asarray(limits, np.float64)

    def __getitem__(self, rows: slice | Ints) -> "Predictive":
        """The distributions of some rows."""
        return Predictive(
            self._alpha[:, rows],
            self._coef,
            self._bias[:, rows],
            1.0,
            self._noise,
            member_weights=self._mix,
            loc=self._loc,
            scale=self._scale,
            limits=self._limits,
        )

    def latent_moments(self) -> tuple[Floats, Floats]:
        """Mean and variance of each latent variable in units of √s0, (K, N, m) each."""
        with jax.enable_x64(True):
            if self._limits is None:
                g, v = standard_moments(self._alpha)
            else:
                g, v = box_moments(self._alpha, *self._limits[:, :, None, None])
            return np.asarray(g), np.asarray(v)

    def log_mean_exp(self, order: float) -> Floats | None:
        """Log of E exp(order · Y), (N,): units and noise are independent."""
        K, N = len(self._mix), len(self)
        s = order * self._scale
        member, row = np.repeat(np.arange(K), N), np.tile(np.arange(N), K)
        signal = self._each(_log_mgf, member, row, np.full(K * N, s)).reshape(K, N)
        return order * self._loc + self._mixed(signal + s * self._bias)

    def _member_moments(self) -> tuple[Floats, Floats]:
        g, v = self.latent_moments()
        mean = self._bias + np.einsum("knm,km->kn", g, self._coef)
        return mean, np.einsum("knm,km->kn", v, self._coef**2) + self._noise[:, None]

    def _each(
        self, function: Callable[..., Any], member: Ints, row: Ints, *values: Floats, least: int = 64
    ) -> Any:
        """Apply a compiled function of (sums, values) to pairs of member and row, padded to `least`."""
        parts = []
        for start in range(0, len(row), _CHUNK):
            at = slice(start, start + _CHUNK)
            k, n = member[at], row[at]
            size = _CHUNK if start else max(least, 1 << (len(k) - 1).bit_length())
            args = (*self._sums(k, n), *(v[at] for v in values))
            padded = [np.pad(v, [(0, size - len(k))] + [(0, 0)] * (v.ndim - 1), "edge") for v in args]
            with jax.enable_x64(True):
                arrays = [jnp.asarray(v) for v in padded]
                terms, rest = arrays[: -len(values)], arrays[-len(values) :]
                out = function(Sum(*terms) if self._limits is None else BoxSum(*terms), *rest)
            parts.append(jax.tree.map(lambda v, k=k: np.asarray(v)[: len(k)], out))
        return jax.tree.map(lambda *v: np.concatenate(v), *parts)

    def _sums(self, k: Ints, n: Ints) -> tuple[Floats, ...]:
        """What a sum is made of, for pairs of member and row."""
        alpha = self._alpha[k, n]
        shared = alpha, self._coef[k], self._noise[k]
        if self._limits is None:
            return shared
        lower, upper = (np.broadcast_to(limit[k, None], alpha.shape) for limit in self._limits)
        return *shared, lower, upper

    def _members(self, function: Callable[..., Any], rows: Ints, z: Floats) -> Any:
        """Apply a compiled function of (sums, y) to every member at pairs (row, z); results (K, pairs)."""
        K = len(self._mix)
        y = z[None, :] - self._bias[:, rows]
        found = self._each(function, np.repeat(np.arange(K), len(rows)), np.tile(rows, K), y.ravel())
        return jax.tree.map(lambda v: v.reshape(K, len(rows)), found)

    def _mixed(self, log: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            mixed: Floats = logsumexp(log + np.log(self._mix)[:, None], axis=0)
        return mixed

    def _log_density(self, rows: Ints, z: Floats) -> Floats:
        if len(rows) == len(self):  # one point a row
            return self._tilted_density(rows, z)
        log = np.full(len(z), -np.inf)
        density = self._bulk(rows, z)[1]
        sure = density * np.sqrt(self._moments[1])[rows] > 1e-4  # ten digits: absolute errors are near 1e-15
        log[sure] = np.log(density[sure])
        if not sure.all():
            log[~sure] = self._tilted_density(rows[~sure], z[~sure])
        return log

    def _tilted_density(self, rows: Ints, z: Floats) -> Floats:
        return self._mixed(self._members(_density, rows, z))

    def _log_tails(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        low, high = self._members(_tails, rows, z)
        return self._mixed(low), self._mixed(high)

    def _bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        return self._spectrum.bulk(rows, z)

    def _distances(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        return self._spectrum.distances(rows, z, self._moments[0])

    @cached_property
    def _spectrum(self) -> Spectrum:
        every = np.arange(len(self))
        parts = [self._part_of_spectrum(every[i : i + _SLAB]) for i in range(0, len(self), _SLAB)]
        nodes = max((p.phi.shape[1] for p in parts), default=1)
        phi = [np.pad(p.phi, ((0, 0), (0, nodes - p.phi.shape[1]))) for p in parts]
        return Spectrum(
            np.concatenate([p.centre for p in parts]),
            np.concatenate([p.R for p in parts]),
            np.concatenate(phi),
        )

    def _part_of_spectrum(self, rows: Ints) -> Spectrum:
        """Add blocks of nodes; members whose characteristic function has vanished are done."""
        K, N = len(self._mix), len(rows)
        centre = self._moments[0][rows]
        member, place = np.repeat(np.arange(K), N), np.tile(np.arange(N), K)
        shift = self._bias[member, rows[place]] - centre[place]
        R = self._each(radius, member, rows[place], -shift).reshape(K, N).max(0)
        blocks: list[Complexes] = []
        active, begin = np.arange(K * N), 0
        while active.size and begin < MAX_NODES:
            k, n = member[active], place[active]
            size = block_size(begin)
            compute = partial(characteristic_block, size)
            first = np.full(len(active), float(begin))
            block = self._each(compute, k, rows[n], shift[active], R[n], first, least=1024 // size)
            begin += size
            blocks.append(np.zeros((N, size), dtype=np.complex128))
            np.add.at(blocks[-1], n, self._mix[k][:, None] * block)
            active = active[np.abs(block[:, -3:]).max(1) >= NEGLIGIBLE]
        phi = np.concatenate(blocks, 1)
        # noise too small to be resolved: smooth at the scale of the last node rather than cut the series off
        cut = np.zeros(N)
        cut[place[active]] = -np.log(NEGLIGIBLE)
        window = np.exp(-cut[:, None] * (np.arange(phi.shape[1]) / phi.shape[1])[None, :] ** 2)
        return Spectrum(centre, R, phi * window)

    def _draw(self, size: int, rng: np.random.Generator) -> Floats:
        N = len(self)
        out = np.empty((size, N))
        for draw in out:
            k = rng.choice(len(self._mix), size=N, p=self._mix)
            signal = (self._latent_draws(k, rng) * self._coef[k]).sum(1)
            draw[:] = self._bias[k, np.arange(N)] + signal + np.sqrt(self._noise[k]) * rng.standard_normal(N)
        return out

    def _latent_draws(self, k: Ints, rng: np.random.Generator) -> Floats:
        """One draw of each latent variable, (N, m), of the member that each row has."""
        alpha = self._alpha[k, np.arange(len(self))]
        if self._limits is None:
            return truncated_draws(alpha, rng)
        lower, upper = (limit[k, None] for limit in self._limits)
        with jax.enable_x64(True):
            return np.asarray(box_quantile(rng.random(alpha.shape), alpha, 1.0, lower, upper))


def truncated_draws(alpha: Floats, rng: np.random.Generator) -> Floats:
    """Draws of N(α, 1) truncated to x ≥ 0, by inverting the upper tail in logs: sound for very negative α."""
    upper = np.log1p(-rng.random(alpha.shape)) + log_ndtr(alpha)
    draws: Floats = np.maximum(alpha - ndtri_exp(upper), 0.0)
    return draws


def _per_member(name: str, value: ArrayLike, K: int) -> Floats:
    v = np.asarray(value, dtype=np.float64)
    if v.shape not in ((), (1,), (K,)) or not np.all(np.isfinite(v)):
        raise ValueError(f"`{name}` must be finite, a number or one per member ({K}); got {v.tolist()}.")
    return np.broadcast_to(v, (K,)).copy()
