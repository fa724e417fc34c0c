"""Inference engines: how accurate, how fast, beside their opponents.

    python benchmarks/inference.py                 # on the processor, one thread: about ten minutes
    python benchmarks/inference.py --only newton   # one section: newton, layers, ep, exact

Problems are posteriors of random shallow models: h ~ N_T(a, I), y ~ N(W h, noise I) drawn from the model, the
entries of W and a normal with the standard deviation called scale. Sections:

newton   mean field by Newton beside the paper's cycles: steps, stationarity residual, time; error and time of
         10, 30 and 100 cycles. Errors are the largest of any mean, in its standard deviations.
layers   the same for two layers of hidden units (`Layered`), where a system is solved by conjugate gradients.
ep       error of EP's and mean field's log Z against the exact one, rank one.
exact    the exact engine against brute-force quadrature, Monte Carlo and closed-form tails.

Times on the processor are the least of several repetitions, in seconds of processor time of one thread, so
that other work on the machine hardly matters; ``--threads 0`` takes all threads and the clock on the wall.
Results go to benchmarks/results/inference.json; what a GPU does is in inference_gpu.py.
"""

import argparse
import json
import os
import platform
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
SCALES = (0.3, 1.0, 3.0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--only", choices=["newton", "layers", "ep", "exact"])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=1, choices=[0, 1])
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


OPTIONS = arguments() if __name__ == "__main__" else None
if OPTIONS and OPTIONS.threads == 1:  # before JAX starts its threads
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from record import results  # noqa: E402
from scipy.special import log_ndtr, ndtri_exp  # noqa: E402

from tggm.gaussian import TruncatedGaussian  # noqa: E402
from tggm.inference import ep, exact, mean_field  # noqa: E402
from tggm.precision import Dense, Diagonal, Layered, LowRank  # noqa: E402


def shallow(rng, n, m, scale, noise, rows):
    W, a = scale * rng.normal(size=(n, m)), scale * rng.normal(size=(rows, m))
    h = np.maximum(a + rng.normal(size=a.shape), 0)
    y = h @ W.T + np.sqrt(noise) * rng.normal(size=(rows, n))
    return TruncatedGaussian(LowRank(np.ones(m), W / np.sqrt(noise)), a + y @ W / noise)


def deep(rng, m, scale, noise, rows):
    """The prior of two layers of m units given the input: blocks (I + WᵀW)/s, −W/s, I/s."""
    W = scale * rng.normal(size=(m, m))
    P = Layered([(np.eye(m) + W.T @ W) / noise, np.eye(m) / noise], [-W / noise])
    first = scale * rng.normal(size=(rows, m)) / noise
    return TruncatedGaussian(P, np.concatenate([first, np.zeros((rows, m))], axis=1))


def least_seconds(calls, repeats):
    """Result and least time of each call after a first one, the calls taking turns."""
    clock = time.process_time if OPTIONS.threads == 1 else time.perf_counter
    results = [jax.block_until_ready(call()) for call in calls]
    best = [np.inf] * len(calls)
    for _ in range(repeats):
        for k, call in enumerate(calls):
            begin = clock()
            jax.block_until_ready(call())
            best[k] = min(best[k], clock() - begin)
    return results, best


def standard_mean(alpha):
    """Mean of N_T(α, 1) in NumPy; left of −4 by the continued fraction 1/(t + 2/(t + 3/(t + …))), t = −α."""
    t = np.maximum(-alpha, 4.0)
    tail = np.zeros_like(t)
    for k in range(80, 0, -1):
        tail = k / (t + tail)
    hazard = np.exp(-0.5 * alpha**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(alpha))
    return np.where(alpha < -4, tail, alpha + hazard)


def residual(tg, moments):
    """Largest |θ + P̃m − γ|, from the means alone: m − E[h | θ = γ − P̃m], over the variance dm/dθ."""
    p, mean = np.asarray(tg.precision.diagonal()), np.asarray(moments.mean)
    theta = np.asarray(tg.shift - tg.precision.off_diagonal(moments.mean))
    off = mean - standard_mean(theta / np.sqrt(p)) / np.sqrt(p)
    return float(np.abs(off / np.asarray(moments.var)).max())


def largest_error(got, want):
    return float(jnp.abs((got.mean - want.mean) / jnp.sqrt(want.var)).max())


def compare(tg, some, repeats):
    """Newton and ten cycles on all rows; the error of 10, 30 and 100 cycles on some of them."""
    (found, _), (seconds, ten) = least_seconds(
        [lambda: mean_field(tg), lambda: mean_field(tg, solver="cyclic", n_cycles=10)], repeats
    )
    part = tg[:some]
    best = mean_field(part)
    cycles = {k: mean_field(part, solver="cyclic", n_cycles=k) for k in (10, 30, 100)}
    return {
        "steps_mean": float(found.n_iter.mean()),
        "steps_max": int(found.n_iter.max()),
        "converged": float(found.converged.mean()),
        "residual": residual(tg, found),
        "seconds": seconds,
        "seconds_10_cycles": ten,
        "ratio": seconds / ten,
        **{f"error_{k}_cycles": largest_error(c, best) for k, c in cycles.items()},
        **{f"gap_{k}_cycles": float((best.log_z - c.log_z).max()) for k, c in cycles.items()},
    }


NEWTON_HEAD = (
    "              | Newton: steps (most) residual  seconds | 10 cycles: s  Newton/10 |"
    " error after 10, 30, 100 cycles"
)


def newton_line(name, row):
    errors = " ".join(f"{row[f'error_{k}_cycles']:8.1e}" for k in (10, 30, 100))
    text = f"{name:13s} | {row['steps_mean']:13.1f} {row['steps_max']:6d} {row['residual']:8.1e} "
    return text + f"{row['seconds']:8.3f} | {row['seconds_10_cycles']:12.3f} {row['ratio']:10.2f} | {errors}"


def newton_section(rng):
    print(f"\nmean field, LowRank, {OPTIONS.rows} rows, noise 0.5, float64\nn   m  scale\n{NEWTON_HEAD}")
    rows = []
    for n in (1, 10, 20):
        for m in (50, 100, 200):
            for scale in SCALES:
                tg = shallow(rng, n, m, scale, 0.5, OPTIONS.rows)
                rows.append({"n": n, "m": m, "scale": scale, **compare(tg, 200, 4)})
                print(newton_line(f"{n:2d} {m:4d} {scale:4.1f}", rows[-1]), flush=True)
    worst = max(r["residual"] for r in rows)
    slower = sum(r["ratio"] >= 1 for r in rows)
    print(f"worst residual {worst:.1e}; slower than 10 cycles in {slower} of {len(rows)} cases")
    return rows


def layers_section(rng):
    print(f"\nmean field, Layered, 64 rows, noise 0.5, float64\nlayers  scale\n{NEWTON_HEAD}")
    rows = []
    for m in (100, 200):
        for scale in SCALES:
            tg = deep(rng, m, scale, 0.5, 64)
            rows.append({"layers": [m, m], "scale": scale, **compare(tg, 64, 3)})
            print(newton_line(f"{m}-{m} {scale:4.1f}", rows[-1]), flush=True)
    return rows


def ep_section(rng):
    print("\nlog Z against exact, LowRank n = 1, m = 50, 1000 rows: largest (median) error in nats")
    print("scale noise |                   ep   steps  ms |           mean field   steps  ms | exact ms")
    rows = []
    for scale in (0.3, 1.0):
        for noise in (0.5, 0.05):
            tg = shallow(rng, 1, 50, scale, noise, 1000)
            found, seconds = least_seconds([lambda e=e: e(tg) for e in (ep, mean_field, exact)], 3)  # noqa: B023
            row = {"scale": scale, "noise": noise, "exact_seconds": seconds[2]}
            for name, got, s in zip(("ep", "mean_field"), found, seconds, strict=False):
                error = np.abs(np.asarray(got.log_z - found[2].log_z))
                row[name] = {
                    "largest": float(error.max()),
                    "median": float(np.median(error)),
                    "largest_mean_error": largest_error(got, found[2]),
                    "steps": int(got.n_iter.max()),
                    "seconds": s,
                }
            rows.append(row)
            cells = " | ".join(
                f"{r['largest']:9.1e} ({r['median']:8.1e}) {r['steps']:5d} {1e3 * r['seconds']:5.1f}"
                for r in (row["ep"], row["mean_field"])
            )
            print(f"{scale:5.1f} {noise:5.2f} | {cells} | {1e3 * seconds[2]:7.1f}", flush=True)
    return rows


def grid_log_z(P, gamma, n_nodes=100, panels=3, reach=12.0):
    """Log Z and means by Gauss-Legendre panels in every variable."""
    cov = np.linalg.inv(P)
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes // panels)
    axes, axis_weights = [], []
    for centre, spread in zip(cov @ gamma, np.sqrt(np.diag(cov)), strict=True):
        cuts = np.linspace(max(centre - reach * spread, 0), max(centre, 0) + reach * spread, panels + 1)
        half = np.diff(cuts)[:, None] / 2
        axes.append((cuts[:-1, None] + half * (nodes + 1)[None]).ravel())
        axis_weights.append((half * weights[None]).ravel())
    h = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(gamma))
    energy = -0.5 * ((h @ P) * h).sum(-1) + h @ gamma
    w = np.prod(np.meshgrid(*axis_weights, indexing="ij"), axis=0).ravel() * np.exp(energy - energy.max())
    return energy.max() + np.log(w.sum()), w @ h / w.sum()


def relative(got, want):
    return float(np.max(np.abs(np.asarray(got) - want) / np.abs(want)))


def small_problems(rng):
    """Largest relative error of Z and of a mean over problems of one to three variables."""
    errors = []
    for m in (1, 2, 3):
        for _ in range(5):
            A = rng.normal(size=(m, m))
            P, gamma = A @ A.T / m + np.eye(m), 1.5 * rng.normal(size=m)
            log_z, mean = grid_log_z(P, gamma)
            got = exact(TruncatedGaussian(Dense(P), gamma))
            errors.append((abs(float(got.log_z) - log_z), relative(got.mean, mean)))
    d, u, gamma = np.array([0.5, 2.0, 1.0]), np.array([[1.0, -1.5, 0.6]]), np.array([1.0, -0.5, 2.0])
    log_z, mean = grid_log_z(np.diag(d) + u.T @ u, gamma)
    got = exact(TruncatedGaussian(LowRank(d, u), gamma))
    errors.append((abs(float(got.log_z) - log_z), relative(got.mean, mean)))
    return [float(e) for e in np.max(errors, axis=0)]


def monte_carlo(rng, draws=1_000_000, m=50):
    """Difference of log Z from importance sampling, and its standard error."""
    d, u, gamma = rng.uniform(0.5, 2, m), 0.3 * rng.normal(size=m), rng.normal(size=m)
    alpha, total, square = gamma / np.sqrt(d), 0.0, 0.0
    for _ in range(10):
        log_v = np.log(rng.uniform(size=(draws // 10, m)))
        h = (alpha - ndtri_exp(log_v + log_ndtr(alpha))) / np.sqrt(d)
        w = np.exp(-0.5 * (h @ u) ** 2)
        total, square = total + w.sum(), square + (w * w).sum()
    log_z = (0.5 * np.log(2 * np.pi / d) + 0.5 * alpha**2 + log_ndtr(alpha)).sum() + np.log(total / draws)
    got = exact(TruncatedGaussian(LowRank(d, u[None]), gamma))
    return float(got.log_z) - float(log_z), float(np.sqrt(square - total**2 / draws) / total)


def tails():
    """Largest relative error of log Z with the mean 30 and more standard deviations from the wall."""
    p, gamma = 9.7, np.array([-300.0, -95.0, 95.0, 300.0])
    a = gamma / np.sqrt(p)
    want = 0.5 * np.log(2 * np.pi / p) + 0.5 * a**2 + log_ndtr(a)
    fourier = exact(TruncatedGaussian(LowRank([0.7], [[3.0]]), gamma[:, None]))
    closed = exact(TruncatedGaussian(Diagonal([p]), gamma[:, None]))
    return max(relative(fourier.log_z, want), relative(closed.log_z, want))


def exact_section(rng):
    z, mean = small_problems(rng)
    difference, error = monte_carlo(rng)
    tail = tails()
    print("\nexact engine")
    print(f"  m <= 3 against quadrature: relative error of Z {z:.1e}, of a mean {mean:.1e}")
    print(f"  m = 50 against 1e6 draws: log Z differs by {difference:.1e}, standard error {error:.1e}")
    print(f"  30 to 96 standard deviations out: relative error of log Z {tail:.1e}")
    return {"z": z, "mean": mean, "monte_carlo": difference, "standard_error": error, "tails": tail}


def commit():
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def write(name, sections):
    """Sections of this run over those of earlier ones."""
    target = results() / f"{name}.json"
    report = json.loads(target.read_text()) if target.exists() else {}
    device = jax.devices()[0]
    stamp = {
        "commit": commit(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores; {device.device_kind} ({device.platform})",
        "jax": jax.__version__,
        "seed": OPTIONS.seed,
        "threads": OPTIONS.threads or "all",
    }
    report |= {section: {**stamp, "results": rows} for section, rows in sections.items()}
    target.write_text(json.dumps(report, indent=1) + "\n")


def main():
    sections = {"newton": newton_section, "layers": layers_section, "ep": ep_section, "exact": exact_section}
    with jax.enable_x64(True):
        for name, section in sections.items():
            if OPTIONS.only in (None, name):
                write("inference", {name: section(np.random.default_rng(OPTIONS.seed))})


if __name__ == "__main__":
    main()
