"""Error of the E-step against the work spent on it: the paper's cycles and Newton's method.

    python experiments/estep.py [--rows 200]

Posteriors of a shallow model with one output and 50 units (`LowRank`), weights of scale 1, σ0² = σ1² = 0.5 as
in the paper, targets drawn from the model. For every number of cycles and of Newton steps: the largest error
of a mean E_q[h] over units and rows against the optimum, in units of 1/√P_kk, the standard deviation of q
before truncation, and how much of the bound is missing.
Writes experiments/results/estep.json and docs/images/estep.png.
"""

import argparse
import time
import warnings
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure
from runs import IMAGES, RESULTS, begin, origin, read, spare, write

from tggm import TruncatedGaussian
from tggm.inference import mean_field
from tggm.precision import Dense, LowRank

RESULT, IMAGE = RESULTS / "estep.json", IMAGES / "estep.png"
CYCLES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000)
STEPS = tuple(range(1, 15))


def posteriors(rows: int, units: int, seed: int) -> TruncatedGaussian:
    """p(h | x, y) of a random model: P = I/s0 + wwᵀ/s1, γ = a/s0 + w(y − b1)/s1."""
    rng = np.random.default_rng(seed)
    s0 = s1 = 0.5
    w, a = rng.standard_normal(units), rng.standard_normal((rows, units))
    h = np.abs(a + s0**0.5 * rng.standard_normal(a.shape))  # any nonnegative draw gives plausible targets
    y = h @ w + s1**0.5 * rng.standard_normal(rows)
    shift = a / s0 + y[:, None] * w[None, :] / s1
    return TruncatedGaussian(LowRank(np.full(units, 1 / s0), w[None, :] / s1**0.5), shift)


def errors(tg: TruncatedGaussian, best: Any, **solver: Any) -> dict[str, float]:
    """Distance of a solver's answer from the optimum."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # not converged: that is what is measured
        found = mean_field(tg, **solver)
    off = np.abs(np.asarray((found.mean - best.mean) * np.sqrt(tg.precision.diagonal())[None, :]))
    missing = np.asarray(best.log_z - found.log_z)
    return {
        "worst": float(off.max()),
        "median": float(np.median(off.max(1))),
        "missing": float(missing.max()),
        "steps": int(np.max(np.asarray(found.n_iter))),
    }


def measure(rows: int, units: int, seed: int) -> dict[str, Any]:
    with jax.enable_x64(True):
        tg = posteriors(rows, units, seed)
        best = mean_field(tg)
        slow = mean_field(tg, solver="cyclic", n_cycles=20_000)
        dense = TruncatedGaussian(Dense(tg.precision.dense()), tg.shift)
        cyclic = [{"n": n, **errors(tg, best, solver="cyclic", n_cycles=n)} for n in CYCLES]
        newton = [{"n": n, **errors(dense, best, max_iter=n)} for n in STEPS]
        refined = [{"n": n, **errors(tg, best, max_iter=n)} for n in STEPS]
        agreement = float(np.abs(np.asarray(slow.mean - best.mean)).max())
    return {"cyclic": cyclic, "newton": newton, "low_rank": refined, "optima_agree_to": agreement}


def picture(record: dict[str, Any]) -> None:
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    ax = figure.subplots()
    for name, label, colour in (
        ("cyclic", "cycles", "#D55E00"),
        ("newton", "Newton, dense", "#009E73"),
        ("low_rank", "Newton, low rank", "#0072B2"),
    ):
        for kind, style in (("worst", "-"), ("median", ":")):
            reached = {r["steps"]: max(r[kind], 1e-16) for r in reversed(record[name])}
            steps = sorted(reached)
            words = f"{label}: {'worst row' if kind == 'worst' else 'median row'}"
            ax.plot(
                steps, [reached[n] for n in steps], color=colour, linestyle=style, marker=".", label=words
            )
    ax.axvline(10, color="0.8", linewidth=1, zorder=0)
    ax.annotate("the paper's 10", (10.5, 2e-14), fontsize=8, color="0.4")
    ax.set(xscale="log", yscale="log", xlabel="cycles or steps")
    ax.set_ylabel("largest error of a mean, in units of 1/√P_kk")
    ax.grid(True, color="0.92")
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=7.5)
    figure.savefig(IMAGE, dpi=90)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", type=int, default=200)
    p.add_argument("--units", type=int, default=50)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--render", action="store_true", help="only draw what is stored")
    p.add_argument("--force", action="store_true", help="replace what is stored with other settings")
    args = p.parse_args()
    begin()
    if not args.render:
        settings = {"rows": args.rows, "units": args.units, "seed": args.seed}
        spare(RESULT, settings, args.force)
        clock = time.perf_counter()
        found = measure(args.rows, args.units, args.seed)
        write(RESULT, origin(settings=settings, **found, seconds=round(time.perf_counter() - clock, 1)))
    record = read(RESULT)
    for name in ("cyclic", "newton", "low_rank"):
        print(name, [(r["steps"], float(f"{r['worst']:.2g}")) for r in record[name]])
    print("optima agree to", record["optima_agree_to"])
    picture(record)


if __name__ == "__main__":
    main()
