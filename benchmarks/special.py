"""Measure speed and accuracy of hazard, mean and variance of a truncated normal, in four implementations.

    python benchmarks/special.py

All functions are timed in turn on one array of alpha, uniform on [-20, 20]: ours in both dtypes; the plain
JAX expression exp(logpdf - log_ndtr) with the textbook mean and variance; `scipy.stats.truncnorm` (on part of
the array); and the look-up table with linear interpolation of Su et al. (2016). `box` is log mass, mean and
variance of the normal truncated to [0, 3]. Times are the best of several rounds; errors are the worst
relative errors against mpmath. Writes benchmarks/results/special.json.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
from scipy.stats import truncnorm

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, keep

from tggm.special import hazard, standard_moments
from tggm.special.box_kernels import box_moments

RANGE, SIZE = 20.0, 1_000_000
TABLE_STEP = 1e-3
WIDTH = 3.0  # of the box
SCIPY_SIZE = 1000
CHECKED = 2000
ROUNDS = 120


def ours(a):
    return hazard(a), *standard_moments(a)


def ours_box(a):
    _, found = box_moments(a, jnp.ones_like(a), jnp.zeros_like(a), jnp.full_like(a, WIDTH))
    inside = jnp.where(a < WIDTH, a + found.mean, WIDTH - found.high)
    return found.log_mass, jnp.where(a <= 0, found.low, inside), found.var


def plain(a):
    r = jnp.exp(jax.scipy.stats.norm.logpdf(a) - jax.scipy.special.log_ndtr(a))
    g = a + r
    return r, g, 1 - r * g


def scipy_truncnorm(a):
    a = np.asarray(a)
    mean, var = truncnorm.stats(-a, np.inf, loc=a, moments="mv")
    return truncnorm.pdf(-a, -a, np.inf), mean, var


def lookup_table(dtype):
    """Return linear interpolation in a table with 40,001 rows of exact values."""
    grid = np.arange(-RANGE, RANGE + TABLE_STEP, TABLE_STEP)
    with jax.enable_x64(True):
        rows = np.stack(ours(grid)).astype(dtype)
    table = jnp.asarray(rows)

    def interpolate(a):
        x = (a + RANGE) / TABLE_STEP
        i = jnp.clip(x.astype(jnp.int32), 0, grid.size - 2)
        w = x - i.astype(a.dtype)
        return tuple(row[i] * (1 - w) + row[i + 1] * w for row in table)

    return interpolate


def truth(a: float) -> tuple[float, float, float]:
    """Return hazard, mean and variance, computed with 80 digits."""
    with mp.workdps(80):
        a = mp.mpf(float(a))
        r = mp.npdf(a) / (mp.erfc(-a / mp.sqrt(2)) / 2)
        g = a + r
        return float(r), float(g), float(1 - r * g)


def box_truth(a: float) -> tuple[float, float, float]:
    """Return log mass, mean and variance in [0, WIDTH]."""
    with mp.workdps(80):
        a = mp.mpf(float(a))
        low, high = -a, WIDTH - a
        Z = (mp.erfc(low / mp.sqrt(2)) - mp.erfc(high / mp.sqrt(2))) / 2
        Z = Z if low > -5 else (mp.erfc(-high / mp.sqrt(2)) - mp.erfc(-low / mp.sqrt(2))) / 2
        m = (mp.npdf(low) - mp.npdf(high)) / Z
        return (
            float(mp.log(Z)),
            float(a + m),
            float(1 + (low * mp.npdf(low) - high * mp.npdf(high)) / Z - m * m),
        )


def worst_errors(function: Callable, a: np.ndarray, true: np.ndarray) -> list[float]:
    """Return the worst relative error of each of the three, where the true value is a normal number."""
    got = np.stack([np.asarray(y, dtype=float) for y in function(a)], axis=1)
    error = np.abs(got / true - 1)
    error = np.where(np.isfinite(error), error, np.inf)
    return np.where(np.abs(true) >= np.finfo(a.dtype).tiny, error, 0).max(0).tolist()


def seconds(jobs: dict[str, tuple[Callable, np.ndarray, int]]) -> dict[str, float]:
    """Return the best time per element of each job; the jobs alternate."""
    best = dict.fromkeys(jobs, np.inf)
    for function, a, _ in jobs.values():
        jax.block_until_ready(function(a))  # compile
    for turn in range(ROUNDS):
        for name, (function, a, rounds) in jobs.items():
            if turn < rounds:
                start = time.perf_counter()
                jax.block_until_ready(function(a))
                best[name] = min(best[name], (time.perf_counter() - start) / a.size)
    return best


def contenders(alpha: np.ndarray) -> dict[str, tuple[Callable, np.ndarray, int]]:
    """Return functions, their arguments and their numbers of rounds by name."""
    jobs = {"jnp.exp float32": (jax.jit(jnp.exp), jnp.asarray(alpha, np.float32), ROUNDS)}
    for dtype in ("float32", "float64"):
        a = jnp.asarray(alpha, dtype)
        jobs[f"ours {dtype}"] = (jax.jit(ours), a, ROUNDS)
        jobs[f"box {dtype}"] = (jax.jit(ours_box), a, ROUNDS // 2)
        jobs[f"plain JAX {dtype}"] = (jax.jit(plain), a, ROUNDS // 2)
        jobs[f"look-up table {dtype}"] = (jax.jit(lookup_table(dtype)), a, ROUNDS // 2)
    jobs["scipy truncnorm float64"] = (scipy_truncnorm, np.asarray(alpha[:SCIPY_SIZE]), 2)
    return jobs


def main() -> None:
    alpha = np.random.default_rng(0).uniform(-RANGE, RANGE, SIZE)
    with jax.enable_x64(True):
        jobs = contenders(alpha)
        times = seconds(jobs)
        rows = []
        for name, (function, a, _) in jobs.items():
            checked = np.asarray(a[:CHECKED])
            true = box_truth if "box" in name else truth
            worst = None
            if "exp" not in name:
                worst = max(worst_errors(function, checked, np.array([true(x) for x in checked])))
            rows.append({"name": name, "ns": times[name] * 1e9, "worst": worst})
    for row in rows:
        print(row)
    keep(BENCHMARKS / "special.json", rows, size=SIZE, seed=0)


if __name__ == "__main__":
    main()
