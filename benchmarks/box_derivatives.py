"""Measure derivatives of box probabilities: ours, and finite differences of SciPy's.

    python benchmarks/box_derivatives.py

d normals with correlation 1/2 in a box with two limits each; the truth is 1-dimensional integrals. Errors of
derivatives of log Pr by the upper limits, means and covariances are relative to the largest derivative of
their kind. Ours: `box_log_prob` with 1,000 points for each shift, and its largest relative
difference to finite differences of itself (fourth order, in one random direction for each argument). SciPy:
central differences with step 1e-3, 1,000 d points and one seed for all calls, which cancels a part of the
random errors. CPU seconds of all threads for a value and all derivatives, second call. Writes
benchmarks/results/box_derivatives.json.
"""

import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from scipy.stats import multivariate_normal, norm

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, keep

from tggm import box_log_prob

DIMS, POINTS, RHO = [2, 5, 10, 20], [1000], 0.5
jax.config.update("jax_enable_x64", True)


def box(d: int) -> list[np.ndarray]:
    lower = np.linspace(-2.0, 0.0, d)
    return [lower, lower + np.linspace(1.5, 3.0, d), np.zeros(d), (1 - RHO) * np.eye(d) + RHO]


def truth(d: int) -> tuple[np.ndarray, ...]:
    """Return derivatives of log Pr by upper limits, means and covariances, by the trapezoidal rule.

    Those by covariances are second derivatives by means, halved.
    """
    lower, upper, *_ = box(d)
    f, sd = np.linspace(-9, 9, 4001)[:, None], np.sqrt(1 - RHO)
    a, b = ((limit - np.sqrt(RHO) * f) / sd for limit in (lower, upper))
    mass, high = np.maximum(norm.cdf(b) - norm.cdf(a), 1e-300), norm.pdf(b) / sd
    first = (norm.pdf(a) - norm.pdf(b)) / sd / mass
    second = (a * norm.pdf(a) - b * norm.pdf(b)) / sd**2 / mass
    w = norm.pdf(f[:, 0]) * mass.prod(1)
    w /= w.sum()
    pairs = np.einsum("n,ni,nj->ij", w, first, first)
    pairs[np.diag_indices(d)] = w @ second
    by_mean = w @ first
    return w @ (high / mass), by_mean, pairs / 2


def worst(found: Any, d: int) -> float:
    return max(float(np.abs(x - y).max() / np.abs(y).max()) for x, y in zip(found, truth(d), strict=True))


def measure_time(function: Any) -> tuple[Any, float]:
    begin = time.process_time()
    value = jax.block_until_ready(function())
    return value, time.process_time() - begin


def ours(d: int, n: int) -> dict[str, float]:
    given = box(d)
    call = jax.jit(jax.value_and_grad(lambda *a: box_log_prob(*a, n_points=n), argnums=(1, 2, 3)))
    first = measure_time(lambda: call(*given))[1]
    (_, slopes), seconds = measure_time(lambda: call(*given))
    rng, off = np.random.default_rng(d), []
    for k, slope in enumerate(slopes, start=1):
        direction = rng.normal(size=slope.shape)
        direction = direction + direction.T
        ends = [
            float(call(*given[:k], given[k] + step * direction, *given[k + 1 :])[0])
            for step in (1e-4, -1e-4, 2e-4, -2e-4)
        ]
        numeric = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / 12e-4
        off.append(abs(float((np.asarray(slope) * direction).sum()) / numeric - 1))
    return {"error": worst(slopes, d), "own": max(off), "seconds": seconds, "first": first}


def scipys(d: int) -> dict[str, float]:
    step = 1e-3

    def log_p(lower, upper, mean, cov):
        return np.log(
            multivariate_normal.cdf(
                upper, mean, cov, lower_limit=lower, maxpts=1000 * d, abseps=1e-15, releps=1e-15,
                rng=np.random.default_rng(0),
            )
        )  # fmt: skip

    def difference(k: int, change: np.ndarray) -> float:
        ends = [
            log_p(*[a + sign * change if i == k else a for i, a in enumerate(box(d))]) for sign in (1, -1)
        ]
        return float(ends[0] - ends[1]) / (2 * step)

    def derivatives() -> list[np.ndarray]:
        unit = step * np.eye(d)
        by_cov = np.empty((d, d))
        for i in range(d):
            for j in range(i + 1):
                pair = np.outer(unit[i], np.eye(d)[j])
                # a change of both entries, of which each has half
                by_cov[i, j] = by_cov[j, i] = difference(3, np.maximum(pair, pair.T)) / (1 + (i != j))
        return [np.array([difference(k, e) for e in unit]) for k in (1, 2)] + [by_cov]

    found, seconds = measure_time(derivatives)
    return {"error": worst(found, d), "seconds": seconds}


def main() -> None:
    runs: list[dict[str, Any]] = []
    for d in DIMS:
        for name, figures in [*((f"tggm, {n:,} points", ours(d, n)) for n in POINTS), ("scipy", scipys(d))]:
            runs.append({"d": d, "method": name, **figures})
            print(runs[-1], flush=True)
    keep(BENCHMARKS / "box_derivatives.json", runs)


if __name__ == "__main__":
    main()
