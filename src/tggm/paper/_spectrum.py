"""The characteristic function of each row's mixture on a grid, for quantities that are needed often.

If |Y − y| < 2R almost surely, Y and a point y both lying within R of the centre, functions of Y − y may be
replaced by their periodic versions of period 4R, whose Fourier series run over odd frequencies
t_j = (2j + 1) π / 2R: a square wave for sign(Y − y), a triangular wave for |Y − y|. With φ the
characteristic function of Y minus the centre and x = y minus the centre,

    f(y)      = (1/R) Σ Re[φ(t_j) e^{−i t_j x}],
    P(Y ≤ y)  = ½ − (2/π) Σ Im[φ(t_j) e^{−i t_j x}] / (2j + 1),
    E|Y − y|  = R − (8R/π²) Σ Re[φ(t_j) e^{−i t_j x}] / (2j + 1)²,      E|Y − Y'| the same with |φ|² at x = 0.

Blocks of nodes are added until φ is negligible in every row.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from tggm.arrays import Floats, Ints
from tggm.inference import Sum, by_chunks, period

Complexes = np.ndarray[Any, np.dtype[np.complex128]]

FEW, MANY = 16, 256  # nodes of a block, and of those after the first FEW_BLOCKS
FEW_BLOCKS = 16
MAX_NODES = 4096
NEGLIGIBLE = 1e-15
_CHUNK = 2**21  # complex numbers formed at a time when a series is summed


@jax.jit
def radius(sums: Sum, centre: Array) -> Array:
    """Return R for each row of sums: P(|Y − centre| > R) is negligible."""
    return period(sums, jnp.zeros_like(centre), centre)


def block_size(begin: int) -> int:
    """Return the number of nodes of the block that begins with node `begin`."""
    return FEW if begin < FEW * FEW_BLOCKS else MANY


@partial(jax.jit, static_argnums=0)
def characteristic_block(size: int, sums: Sum, shift: Array, R: Array, first: Array) -> Array:
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

    centre: Floats  # (N,)
    R: Floats  # (N,)
    phi: Complexes  # (N, J)

    def bulk(self, rows: Ints, z: Floats) -> tuple[Floats, Floats]:
        """Return distribution function and density at pairs; 0 or 1 and 0 outside the series' interval."""
        R, x = self.R[rows], z - self.centre[rows]
        inside = np.abs(x) < R
        f, F, _ = self._series(rows, np.where(inside, z, self.centre[rows]))
        cdf = np.where(inside, 0.5 - (2 / np.pi) * F, (x > 0).astype(float))
        return cdf, np.where(inside, np.maximum(f, 0) / R, 0.0)

    def distances(self, rows: Ints, z: Floats, mean: Floats) -> tuple[Floats, Floats]:
        """Return E|Y − z| and E|Y − Y'| at pairs."""
        R, x = self.R[rows], z - self.centre[rows]
        inside = np.abs(x) < R
        _, _, A = self._series(rows, np.where(inside, z, self.centre[rows]))
        to_z = np.where(inside, R - (8 / np.pi**2) * R * A, np.abs(z - mean[rows]))
        odd = 2 * np.arange(self.phi.shape[1]) + 1.0
        between = self.R * (1 - (8 / np.pi**2) * (np.abs(self.phi) ** 2 @ (1 / odd**2)))
        return to_z, between[rows]

    def _series(self, rows: Ints, z: Floats) -> tuple[Floats, Floats, Floats]:
        """Return Σ Re E, Σ Im E/(2j+1), Σ Re E/(2j+1)² with E = φ(t_j) e^{−i t_j x}, at pairs."""
        J = self.phi.shape[1]
        odd = 2 * np.arange(J) + 1.0
        out = np.empty((3, len(z)))
        for start in range(0, len(z), max(1, _CHUNK // J)):
            at = slice(start, start + max(1, _CHUNK // J))
            r = rows[at]
            unit = 0.5 * np.pi * (z[at] - self.centre[r]) / self.R[r]
            E = self.phi[r] * _odd_powers(np.exp(-1j * unit), J)
            out[0, at], out[1, at], out[2, at] = E.real.sum(1), E.imag @ (1 / odd), E.real @ (1 / odd**2)
        return out[0], out[1], out[2]


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
