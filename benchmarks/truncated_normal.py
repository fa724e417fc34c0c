"""Measure errors and times of probabilities and moments of normals in boxes: ours, SciPy's and BoTorch's.

    python benchmarks/truncated_normal.py

Probabilities: d normals with correlation 1/2 in a box with two limits each, and one box with a probability
near e^-10000; the truth is a one-dimensional integral. Ours with tol=5e-3, a 99.9 % bound, which is 5.4
standard errors; SciPy's number of points is doubled from 100 d until the root of its mean squared error over
the repeats is at most 1e-3, or it takes 20 times our time. Seconds are CPU seconds of all threads, median of
calls after the first. BoTorch is included if it is installed. Moments: random covariances and boxes; EP
against separation of variables with an error of 1e-3 of a standard deviation. From 500 dimensions on, a fifth
of the repeats. Writes benchmarks/results/truncated_normal.json.

With --derivatives, only log Pr and its derivatives by mean and covariance: `box_log_prob`, and SciPy's
probabilities at the same number of points (8,072) with forward differences, steps of 1e-4 and equal seeds.
Errors of the derivatives by the mean are relative to the largest. Writes box_derivatives.json.
"""

import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import approx_fprime
from scipy.special import log_ndtr, logsumexp
from scipy.stats import multivariate_normal

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, keep

from tggm import MultivariateTruncatedNormal, box_log_prob

DIMS = [2, 10, 50, 100, 500]
REPEATS = 20
LARGE = 500
RHO = 0.5
TOL, TARGET = 5e-3, 1e-3  # our bound, SciPy's root mean squared error
FAR = 100.0  # distance of the improbable box from the mean


def box(d: int, far: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return covariance and limits; some sides cut off a tail, some leave a narrow interval."""
    cov = (1 - RHO) * np.eye(d) + RHO
    lower = np.linspace(-2.0, 0.0, d) + far
    return cov, lower, lower + np.linspace(1.5, 3.0, d)


def log_interval(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return log(Φ(b) − Φ(a)), accurate where b − a is of order one."""
    low, high = np.where(a > 0, -b, a), np.where(a > 0, -a, b)
    top = log_ndtr(high)
    return top + np.log1p(-np.exp(np.minimum(log_ndtr(low) - top, -1e-16)))


def truth(d: int, far: float = 0.0, shift: NDArray[np.float64] | float = 0.0) -> float:
    """Return the log-probability of a box by one integral over the common factor (trapezoidal rule)."""
    lower, upper = (limit - shift for limit in box(d, far)[1:])
    x = np.linspace(-15, 15 + 2 * far, 20001)
    z = np.sqrt(RHO) * x
    terms = -0.5 * x * x - 0.5 * np.log(2 * np.pi)
    for low, high in zip(lower, upper, strict=True):
        terms = terms + log_interval((low - z) / np.sqrt(1 - RHO), (high - z) / np.sqrt(1 - RHO))
    return float(logsumexp(terms) + np.log(x[1] - x[0]))


def measure_time(function):
    begin = time.process_time()
    value = function()
    return value, time.process_time() - begin


def size(errors) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))


def ours(d: int, repeats: int, far: float = 0.0) -> dict[str, float]:
    cov, lower, upper = box(d, far)

    def call(seed):
        law = MultivariateTruncatedNormal(np.zeros(d), cov, lower, upper, engine="separation", seed=seed)
        return law.log_prob_box(tol=TOL)

    first = measure_time(lambda: call(0))[1]
    runs = [measure_time(lambda seed=seed: call(seed)) for seed in range(1, repeats + 1)]
    errors = [abs(np.expm1(found.value - truth(d, far))) for found, _ in runs]
    return {
        "error": size(errors),
        "claimed": float(np.median([found.error for found, _ in runs])),
        "seconds": float(np.median([t for _, t in runs])),
        "first": first,
    }


def by_ep(d: int, far: float = 0.0) -> dict[str, float]:
    cov, lower, upper = box(d, far)
    law = MultivariateTruncatedNormal(np.zeros(d), cov, lower, upper, engine="ep")
    first = measure_time(law.log_prob_box)[1]
    found, seconds = measure_time(law.log_prob_box)
    return {"error": abs(np.expm1(found.value - truth(d, far))), "seconds": seconds, "first": first}


def scipys(d: int, repeats: int, most: float) -> dict[str, float]:
    cov, lower, upper = box(d)
    points = 100 * d

    def call(seed):
        return multivariate_normal.cdf(
            upper, np.zeros(d), cov, lower_limit=lower, maxpts=points, abseps=1e-15, releps=1e-15,
            rng=np.random.default_rng(seed),
        )  # fmt: skip

    while True:
        runs = [measure_time(lambda seed=seed: call(seed)) for seed in range(repeats)]
        error = size([p / np.exp(truth(d)) - 1 for p, _ in runs])
        seconds = float(np.median([t for _, t in runs]))
        if error <= TARGET or seconds > most:
            return {"error": error, "seconds": seconds, "points": points}
        points *= 2


def botorchs(d: int) -> dict[str, float] | None:
    try:
        import torch
        from botorch.utils.probability.mvnxpb import MVNXPB
    except ImportError:
        return None
    cov, lower, upper = box(d)
    bounds = torch.as_tensor(np.stack([lower, upper], -1))
    (log_p, _), (_, seconds) = (
        measure_time(lambda: float(MVNXPB(torch.as_tensor(cov), bounds).solve())) for _ in range(2)
    )
    return {"error": abs(np.expm1(log_p - truth(d))), "seconds": seconds}


def random_problem(rng: np.random.Generator, d: int) -> tuple[np.ndarray, ...]:
    A = rng.normal(size=(d, d))
    cov = A @ A.T / d + 0.3 * np.eye(d)
    lower = rng.normal(size=d) - 1
    return rng.normal(size=d), cov, lower, lower + rng.uniform(0.5, 3, d)


def moments(d: int, problems: int) -> dict[str, float]:
    """Return errors of EP's means in standard deviations over random boxes, and those of the reference."""
    rng = np.random.default_rng(d)
    errors, floors, spread, seconds = [], [], [], []
    for _ in range(problems):
        problem = random_problem(rng, d)
        want = MultivariateTruncatedNormal(*problem, engine="separation").moments(tol=1e-3)
        law = MultivariateTruncatedNormal(*problem, engine="ep")
        got, took = measure_time(law.moments)
        std = np.sqrt(np.diag(want.cov))
        errors.append((np.abs(got.mean - want.mean) / std).max())
        spread.append(np.abs(np.sqrt(np.diag(got.cov)) / std - 1).max())
        floors.append((want.mean_error / std).max())
        seconds.append(took)
    return {
        "d": d,
        "problems": problems,
        "largest": float(max(errors)),
        "median": float(np.median(errors)),
        "std": float(max(spread)),
        "referee": float(max(floors)),
        "seconds": float(np.median(seconds)),
    }


def derivatives(d: int) -> Iterator[dict[str, Any]]:
    """Yield seconds, and errors of derivatives by the mean, of ours and of SciPy."""
    cov, lower, upper = box(d)
    h, rows = 1e-4, np.tril_indices(d)
    exact = np.array([truth(d, shift=e) - truth(d, shift=-e) for e in h * np.eye(d)]) / (2 * h)
    gradient = jax.jit(jax.value_and_grad(box_log_prob, argnums=(2, 3)))

    def by_scipy(given: NDArray[np.float64]) -> float:
        sigma = np.zeros((d, d))
        sigma[rows] = given[d:]
        sigma += np.tril(sigma, -1).T
        settings = {"maxpts": 8 * 1009, "abseps": 0, "releps": 0, "rng": np.random.default_rng(0)}
        return float(np.log(multivariate_normal.cdf(upper, given[:d], sigma, lower_limit=lower, **settings)))

    start = np.concatenate([np.zeros(d), cov[rows]])
    methods = {
        "box_log_prob": lambda: jax.block_until_ready(gradient(lower, upper, np.zeros(d), cov))[1][0],
        "scipy, finite differences": lambda: approx_fprime(start, by_scipy, h)[:d],
    }
    for method, call in methods.items():
        first = measure_time(call)[1]
        runs = [measure_time(call) for _ in range(3)]
        off = float(np.abs(np.asarray(runs[0][0]) - exact).max() / np.abs(exact).max())
        seconds = float(np.median([t for _, t in runs]))
        yield {"d": d, "method": method, "error": off, "seconds": seconds, "first": first}


def main() -> None:
    warnings.simplefilter("ignore", RuntimeWarning)  # a tolerance that was not reached is shown as the error
    runs: list[dict[str, Any]] = []

    def add(d: int, log_p: float, found: dict[str, dict[str, float] | None]) -> None:
        for method, figures in found.items():
            if figures:
                runs.append({"kind": "probability", "d": d, "log_p": log_p, "method": method, **figures})
                print(runs[-1], flush=True)

    for d in DIMS:
        repeats = REPEATS if d < LARGE else REPEATS // 5
        found = ours(d, repeats)
        others = {"scipy": scipys(d, repeats, 20 * found["seconds"]), "botorch": botorchs(d)}
        add(d, truth(d), {"tggm": found, "ep": by_ep(d), **others})
    add(50, truth(50, FAR), {"tggm": ours(50, REPEATS, FAR), "ep": by_ep(50, FAR)})
    runs += [{"kind": "moments", **moments(d, 10)} for d in (3, 20)]
    keep(BENCHMARKS / "truncated_normal.json", runs)


if __name__ == "__main__":
    if "--derivatives" in sys.argv:
        jax.config.update("jax_enable_x64", True)
        keep(BENCHMARKS / "box_derivatives.json", [run for d in (2, 5, 10, 20) for run in derivatives(d)])
    else:
        main()
