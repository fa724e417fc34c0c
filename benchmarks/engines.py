"""Measure error and time of every engine on three problems, for docs/choosing-an-engine.md.

    python benchmarks/engines.py

Rank one, 50 units (truth: `exact`); rank ten, 50 units, and two layers of ten (truth: `orthant` with many
points). Times are those of a second call, per row. Writes benchmarks/results/engines.json and
docs/images/engines.png.
"""

import sys
import time
from pathlib import Path

import jax
import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
from store import BENCHMARKS, IMAGES, keep

from tggm.gaussian import TruncatedGaussian
from tggm.inference import ep, exact, gibbs, hmc, mean_field, orthant
from tggm.precision import Layered, LowRank

DRAWS, ROWS = 200, 4


def posterior(rng, m, n, rows):
    """Return the posterior of a shallow model with weights of scale one and noise variance one half."""
    W, a = rng.normal(size=(n, m)), rng.normal(size=(rows, m))
    h = np.maximum(a + rng.normal(size=a.shape), 0)
    y = h @ W.T + np.sqrt(0.5) * rng.normal(size=(rows, n))
    return TruncatedGaussian(LowRank(np.ones(m), W / np.sqrt(0.5)), a + 2 * y @ W)


def layers(rng, m, rows):
    """Return the prior of two hidden layers of m units."""
    W = rng.normal(size=(m, m)) / np.sqrt(m)
    return TruncatedGaussian(Layered([np.eye(m) + W.T @ W, np.eye(m)], [-W]), rng.normal(size=(rows, 2 * m)))


def engines(with_exact):
    calls = {
        "mean_field": mean_field,
        "mean_field, 10 cycles": lambda tg: mean_field(tg, solver="cyclic", n_cycles=10),
        "ep": ep,
        "orthant": orthant,
        "gibbs": lambda tg: gibbs(tg, jax.random.key(1), DRAWS),
        "hmc": lambda tg: hmc(tg, jax.random.key(2), DRAWS),
    }
    return {"exact": exact, **calls} if with_exact else calls


def measure(name, tg, truth, with_exact):
    rows = []
    for engine, call in engines(with_exact).items():
        jax.block_until_ready(call(tg))
        clock = time.perf_counter()
        got = jax.block_until_ready(call(tg))
        seconds = (time.perf_counter() - clock) / len(tg)
        off = np.abs(np.asarray(got.mean) - np.asarray(truth.mean)) / np.sqrt(np.asarray(truth.var))
        log_z = None if got.log_z is None else float(np.abs(got.log_z - truth.log_z).mean())
        figures = {"log_z": log_z, "mean": float(off.mean()), "ms": 1e3 * seconds}
        rows.append({"problem": name, "engine": engine, **figures})
        print(rows[-1], flush=True)
    return rows


def picture(rows, path):
    problems = list(dict.fromkeys(r["problem"] for r in rows))
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    axes = figure.subplots(1, len(problems), sharey=True)
    names = list(dict.fromkeys(r["engine"] for r in rows))
    colours = dict(zip(names, colormaps["tab10"].colors, strict=False))
    for ax, problem in zip(axes, problems, strict=True):
        for r in (r for r in rows if r["problem"] == problem and r["mean"] > 0):
            ax.loglog(r["ms"], r["mean"], "o", ms=8, color=colours[r["engine"]], label=r["engine"])
        ax.set(title=problem, xlabel="milliseconds a row")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("mean error of E[h], in standard deviations")
    handles = {label: h for ax in axes for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=110)


def main() -> None:
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        one, ten = posterior(rng, 50, 1, ROWS), posterior(rng, 50, 10, ROWS)
        deep = layers(rng, 10, ROWS)
        rows = measure("rank 1, 50 units", one, exact(one), True)
        for name, tg in (("rank 10, 50 units", ten), ("layers 10-10", deep)):
            rows += measure(name, tg, orthant(tg, n_points=16384), False)
    keep(BENCHMARKS / "engines.json", rows, seed=0, rows=ROWS, draws=DRAWS)
    picture(rows, IMAGES / "engines.png")


if __name__ == "__main__":
    main()
