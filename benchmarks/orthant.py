"""Orthant probabilities: accuracy next to time, against SciPy and (where installed) BoTorch.

    python benchmarks/orthant.py [--dims 10 20 50 100] [--rhos 0.2 0.9] [--seeds 11]

The probability that d equicorrelated normals are all positive: 1 / (d + 1) at correlation 1/2, otherwise a
one-dimensional integral. For `orthant` and for `scipy.stats.multivariate_normal.cdf` the number of points
is doubled until the median relative error over the seeds is at most 1e-3; the table shows that error and
the median time of a call. For us that is a call after compilation; the first call, which compiles, is
beside it. BoTorch's MVNXPB is a deterministic approximation: its error is what it is. Results go to
benchmarks/results/orthant.json.
"""

import argparse
import json
import os
import platform
import subprocess
import time
from pathlib import Path

import jax
import numpy as np
from record import results
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal

from tggm.gaussian import TruncatedGaussian
from tggm.inference import orthant
from tggm.precision import Dense

TARGET = 1e-3
LARGEST = 2**21


def covariance(d, rho):
    return (1 - rho) * np.eye(d) + rho


def true_log_probability(d, rho):
    def integrand(f):
        return np.exp(-f * f / 2 + d * log_ndtr(f * np.sqrt(rho / (1 - rho)))) / np.sqrt(2 * np.pi)

    return np.log(quad(integrand, -12, 12, points=(0, 1, 2, 3), epsabs=0, epsrel=1e-12, limit=500)[0])


def timed(function):
    begin = time.perf_counter()
    value = function()
    return value, time.perf_counter() - begin


def ours(d, rho, n_points, n_shifts, seeds):
    """Errors, claimed errors, seconds per call after the first, seconds of the first."""
    P = np.linalg.inv(covariance(d, rho))
    normaliser = 0.5 * (d * np.log(2 * np.pi) - np.linalg.slogdet(P)[1])
    with jax.enable_x64(True):
        tg = TruncatedGaussian(Dense((P + P.T) / 2), np.zeros(d))
        keys = [jax.random.key(seed) for seed in range(seeds)]

    def call(key):
        return jax.block_until_ready(orthant(tg, n_points=n_points, n_shifts=n_shifts, key=key, tol=None))

    _, first = timed(lambda: call(keys[0]))
    runs = [timed(lambda key=key: call(key)) for key in keys]
    errors = [abs(np.expm1(float(r.log_z) - normaliser - true_log_probability(d, rho))) for r, _ in runs]
    return errors, [float(r.log_z_error) for r, _ in runs], [t for _, t in runs], first


def scipys(d, rho, max_points, seeds):
    C, zero = covariance(d, rho), np.zeros(d)
    truth = np.exp(true_log_probability(d, rho))

    def call(seed):
        return multivariate_normal.cdf(
            zero, zero, C, maxpts=max_points, abseps=1e-15, releps=1e-15, rng=np.random.default_rng(seed)
        )

    runs = [timed(lambda seed=seed: call(seed)) for seed in range(seeds)]
    return [abs(p / truth - 1) for p, _ in runs], [t for _, t in runs]


def botorchs(d, rho):
    try:
        import torch
        from botorch.utils.probability.mvnxpb import MVNXPB
    except ImportError:
        return None
    C = torch.as_tensor(covariance(d, rho))
    bounds = torch.stack([torch.zeros(d), torch.full((d,), torch.inf)], -1).double()
    (log_p, _), (_, seconds) = (timed(lambda: float(MVNXPB(C, bounds).solve())) for _ in range(2))
    return {"error": abs(np.expm1(log_p - true_log_probability(d, rho))), "seconds": seconds}


def until_accurate(measure, n):
    """Double n until the median error reaches the target; whatever was measured last."""
    while True:
        result = measure(n)
        if np.median(result[0]) <= TARGET or n >= LARGEST:
            return n, result
        n *= 2


def case(d, rho, seeds, n_shifts):
    n, (errors, claimed, seconds, first) = until_accurate(lambda n: ours(d, rho, n, n_shifts, seeds), 32)
    max_points, (their_errors, their_seconds) = until_accurate(lambda n: scipys(d, rho, n, seeds), 500)
    return {
        "d": d,
        "rho": rho,
        "tggm": {
            "points": n * n_shifts,
            "error": float(np.median(errors)),
            "largest_error": max(errors),
            "claimed_error": float(np.median(claimed)),
            "seconds": float(np.median(seconds)),
            "first_call_seconds": first,
        },
        "scipy": {
            "points": max_points,
            "error": float(np.median(their_errors)),
            "largest_error": max(their_errors),
            "seconds": float(np.median(their_seconds)),
        },
        "botorch_mvnxpb": botorchs(d, rho),
    }


def line(row):
    us, them, xpb = row["tggm"], row["scipy"], row["botorch_mvnxpb"]
    text = f"{row['d']:4d} {row['rho']:5.2f} | {us['error']:8.1e} {1e3 * us['seconds']:9.2f} "
    text += f"{us['first_call_seconds']:8.2f} | {them['error']:8.1e} {1e3 * them['seconds']:9.2f} | "
    text += f"{them['seconds'] / us['seconds']:8.1f} | "
    return text + ("not installed" if xpb is None else f"{xpb['error']:8.1e} {1e3 * xpb['seconds']:9.2f}")


def commit():
    here = Path(__file__).parent
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--dims", type=int, nargs="+", default=[10, 20, 50, 100])
    parser.add_argument(
        "--rhos", type=float, nargs="*", default=[0.2, 0.9], help="others than 1/2, at d = 50"
    )
    parser.add_argument("--seeds", type=int, default=11)
    parser.add_argument("--shifts", type=int, default=8)
    parser.add_argument("--output", type=Path, default=results() / "orthant.json")
    arguments = parser.parse_args()
    print("            |  tggm: error, ms, first s   |  scipy: error, ms  | scipy/us | botorch: error, ms")
    rows = []
    for d, rho in [(d, 0.5) for d in arguments.dims] + [(50, rho) for rho in arguments.rhos]:
        rows.append(case(d, rho, arguments.seeds, arguments.shifts))
        print(line(rows[-1]), flush=True)
    report = {
        "target_error": TARGET,
        "commit": commit(),
        "seeds": arguments.seeds,
        "shifts": arguments.shifts,
        "machine": f"{platform.machine()}, {os.cpu_count()} CPU cores",
        "jax": jax.__version__,
        "cases": rows,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
