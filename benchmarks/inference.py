"""Compare Newton's method for mean field with the paper's cycles, and EP with the exact engine.

    python benchmarks/inference.py

Problems are posteriors of random shallow models: h ~ N_T(a, I), y ~ N(W h, noise I) drawn from the model; the
entries of W and a are normal with the standard deviation `scale`. Section "newton": steps, stationarity
residual and seconds of Newton's method, seconds and error of ten cycles; errors are the largest of any mean,
in its standard deviations. Section "log_z": median error of log Z of EP and mean field against the exact one,
50 units, one output. Times are the best of several, in CPU seconds of one thread. Writes
benchmarks/results/inference.json.
"""

import os
import sys
import time
from pathlib import Path

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import log_ndtr

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, keep

from tggm.gaussian import TruncatedGaussian
from tggm.inference import ep, exact, mean_field
from tggm.precision import LowRank

ROWS = 10_000


def posterior(rng, n, m, scale, noise, rows):
    """Return the posterior of a random shallow model for random rows."""
    W, a = scale * rng.normal(size=(n, m)), scale * rng.normal(size=(rows, m))
    h = np.maximum(a + rng.normal(size=a.shape), 0)
    y = h @ W.T + np.sqrt(noise) * rng.normal(size=(rows, n))
    return TruncatedGaussian(LowRank(np.ones(m), W / np.sqrt(noise)), a + y @ W / noise)


def measure_time(calls, repeats):
    """Return the result and the best time of each call after a first one; calls alternate."""
    results = [jax.block_until_ready(call()) for call in calls]
    best = [np.inf] * len(calls)
    for _ in range(repeats):
        for k, call in enumerate(calls):
            begin = time.process_time()
            jax.block_until_ready(call())
            best[k] = min(best[k], time.process_time() - begin)
    return results, best


def standard_mean(alpha):
    """Return the mean of N_T(α, 1); below −4 by the continued fraction 1/(t + 2/(t + 3/(t + …))), t = −α."""
    t = np.maximum(-alpha, 4.0)
    tail = np.zeros_like(t)
    for k in range(80, 0, -1):
        tail = k / (t + tail)
    hazard = np.exp(-0.5 * alpha**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(alpha))
    return np.where(alpha < -4, tail, alpha + hazard)


def residual(tg, moments):
    """Return the largest |θ + P̃m − γ|, computed from the means: m − E[h | θ = γ − P̃m] over dm/dθ."""
    p, mean = np.asarray(tg.precision.diagonal()), np.asarray(moments.mean)
    theta = np.asarray(tg.shift - tg.precision.off_diagonal(moments.mean))
    off = mean - standard_mean(theta / np.sqrt(p)) / np.sqrt(p)
    return float(np.abs(off / np.asarray(moments.var)).max())


def newton(rng, rows):
    """Compare Newton's method with ten cycles; the error of the cycles is measured on 200 rows."""
    runs = []
    for n in (1, 10, 20):
        for m in (50, 100, 200):
            for scale in (0.3, 1.0, 3.0):
                tg = posterior(rng, n, m, scale, 0.5, rows)

                def cycles(part=tg):
                    return mean_field(part, solver="cyclic", n_cycles=10)

                (found, _), (seconds, ten) = measure_time([lambda tg=tg: mean_field(tg), cycles], 4)
                best, off = mean_field(tg[:200]), cycles(tg[:200])
                error = float(jnp.abs((off.mean - best.mean) / jnp.sqrt(best.var)).max())
                case = {"section": "newton", "n": n, "m": m, "scale": scale}
                figures = {"steps_max": int(found.n_iter.max()), "residual": residual(tg, found)}
                times = {"seconds": seconds, "seconds_10_cycles": ten, "error_10_cycles": error}
                runs.append({**case, **figures, **times})
                print(runs[-1], flush=True)
    return runs


def log_z(rng):
    """Compare EP and mean field with the exact engine."""
    runs = []
    for scale in (0.3, 1.0):
        for noise in (0.5, 0.05):
            tg = posterior(rng, 1, 50, scale, noise, 1000)
            found, seconds = measure_time([lambda e=e, tg=tg: e(tg) for e in (ep, mean_field, exact)], 3)
            for k, engine in enumerate(("ep", "mean_field")):
                error = float(np.median(np.abs(np.asarray(found[k].log_z - found[2].log_z))))
                case = {"section": "log_z", "engine": engine, "scale": scale, "noise": noise}
                runs.append({**case, "median": error, "seconds": seconds[k], "exact_seconds": seconds[2]})
                print(runs[-1], flush=True)
    return runs


if __name__ == "__main__":
    with jax.enable_x64(True):
        found = newton(np.random.default_rng(0), ROWS) + log_z(np.random.default_rng(0))
    keep(BENCHMARKS / "inference.json", found, rows=ROWS)
