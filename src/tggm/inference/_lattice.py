"""Shifted lattices: the points of quasi-Monte Carlo.

Points are those of rank-1 lattices { i z / n mod 1 : i = 0 … n − 1 }, z an integer vector. A random shift
makes every average over a lattice unbiased, and a few independent shifts estimate its error; the tent map
u → 1 − |2u − 1| makes any smooth integrand periodic, so that averages converge nearly as n⁻².

D. Nuyens and R. Cools, Fast algorithms for component-by-component construction of rank-1 lattice rules, Math.
Comp. 75 (2006); F. Hickernell, Obtaining O(N^{−2+ε}) convergence for lattice quadrature rules, MCQMC (2002).
"""

from functools import lru_cache

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

EPS = 2.0**-53


@lru_cache(maxsize=64)
def generator(n: int, dim: int) -> NDArray[np.float64]:
    r"""Return the generating vector z / n of a lattice of n points, n prime.

    Each component minimises, given the earlier ones, the squared worst-case error

    .. math::
        e^2(z) = -1 + \frac1n \sum_{i<n} \prod_j (1 + \gamma_j\, 2\pi^2 B_2(\{i z_j / n\})),
        \qquad \gamma_j = j^{-2},\quad B_2(x) = x^2 - x + \tfrac16.

    In powers of a primitive root the sums over i for all candidates z are one cyclic correlation: a Fourier
    transform of length n − 1 per component, O(dim n log n) in all.
    """
    powers = _powers_of_primitive_root(n)
    x = powers / n
    kernel = 2 * np.pi**2 * (x * x - x + 1 / 6)
    spectrum = np.fft.rfft(kernel)
    product = np.ones(n - 1)  # over components so far, at point i = powers[a]
    z = np.empty(dim, dtype=np.int64)
    for j in range(dim):
        weight = 1 / (j + 1) ** 2
        score = np.fft.irfft(np.conj(np.fft.rfft(product)) * spectrum, n - 1)
        best = 0 if j == 0 else int(np.argmin(score[: max(1, (n - 1) // 2)]))  # z and n − z are equally good
        z[j] = powers[best]
        product *= 1 + weight * np.roll(kernel, -best)
        product /= product.mean()
    return z / n


def _powers_of_primitive_root(n: int) -> NDArray[np.int64]:
    """Return g⁰, g¹, …, gⁿ⁻² mod n for the least primitive root g of the prime n."""
    for g in range(1, n):
        powers = np.empty(n - 1, dtype=np.int64)
        value = 1
        for a in range(n - 1):
            powers[a] = value
            value = value * g % n
            if value == 1:
                break
        if a == n - 2 and value == 1:
            return powers
    raise ValueError(f"`n` must be prime; got {n}.")


def next_prime(n: int) -> int:
    """Return the least prime not below n, at least 3."""
    n = max(n, 3)
    while any(n % k == 0 for k in range(2, int(n**0.5) + 1)):
        n += 1
    return n


def tent_points(z: Array, n: int, shifts: Array, first: Array | float = 0.0) -> Array:
    """Return n points of the lattice `z` from index `first` on, under each shift, after the tent map.

    Shifts, (s, dim), are uniform on the unit cube. The points, (dim, s * n), are in the open interval (0, 1)
    and sorted by shift.
    """
    steps = z[:, None] * (first + jnp.arange(n, dtype=z.dtype))[None, :]
    u = steps[:, None, :] + shifts.T[:, :, None]
    u = 1 - jnp.abs(2 * (u - jnp.floor(u)) - 1)
    return jnp.clip(u, EPS, 1 - EPS).reshape(len(z), -1)
