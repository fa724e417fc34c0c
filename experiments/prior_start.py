"""Claim of §4.2 of the paper: starting the prior's mean field from the posterior's helps deep models.

    python experiments/prior_start.py                                  # minutes on two cores
    python experiments/prior_start.py --cycles 2,5,10,30 --seeds 8 --epochs 100 --jobs 16

The paper's undirected classifier with two hidden layers of 50 units and its settings, on the 8×8 digits that
ship with scikit-learn (1,237 to train, 200 held out, 360 to test). Mean field on both sides by few cycles,
those of the prior begun at the means of a forward pass ("same") or at the posterior's means ("posterior");
beside them the optimum by Newton's method with a guard ("guarded"), for which a start makes no difference.
After every so many passes over the data: the objective, held-out and test accuracy; and how far the prior's
means are from the optimum after some cycles from either start, at the parameters reached.
Writes experiments/results/prior_start.json and docs/images/prior_start.png.
"""

import warnings
from functools import partial
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure
from networks import member
from runs import IMAGES, RESULTS, begin, complete, mean_error, options, origin, read
from sklearn.datasets import load_digits

from tggm import TGGMClassifier
from tggm.estimators.sources import prepared
from tggm.inference import class_mean_field, mean_field
from tggm.models import Model
from tggm.special.probit import expand_factorised

RESULT, IMAGE = RESULTS / "prior_start.json", IMAGES / "prior_start.png"
WATCHED = (1, 2, 5, 10, 30)  # cycles of the prior after which its error is noted
ROWS = 200  # training rows on which it is
COLOURS = {"posterior": "#0072B2", "same": "#D55E00", "guarded": "#009E73"}
WORDS = {
    "posterior": "cycles from the posterior",
    "same": "cycles from a forward pass",
    "guarded": "Newton, guarded",
}


def digits(seed: int) -> tuple[np.ndarray, ...]:
    """Images and classes to train on (1,237), to hold out (200) and to test on (360), in this order."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = X[order] / 16, y[order]
    parts = (slice(0, 1237), slice(1237, 1437), slice(1437, None))
    return tuple(array[part] for part in parts for array in (X, y))


def classifier(prior: str, cycles: int, seed: int) -> TGGMClassifier:
    """The paper's settings; "guarded" solves both sides by Newton's method instead."""
    settings = {} if prior != "guarded" else {"solver": "newton"}
    return TGGMClassifier.paper_ml(
        hidden=(50, 50), deep="undirected", prior=prior, n_cycles=(cycles, cycles), batch_size=100,
        standardize="whole", random_state=seed, **settings,
    )  # fmt: skip


def class_posterior(model: Model, X: Any, expand: Any, steps: Any, solver: str) -> tuple[Any, Any]:
    """Mean field given each row's class: its bound on log Z, and means of all hidden units."""
    hidden, output = model.hidden, model.likelihood.output
    tg, start = hidden.gaussian(X, output.W1), hidden.start(X)
    return class_mean_field(tg, output.W1, output.b1, expand, start=start, steps=steps, solver=solver)


@partial(jax.jit, static_argnames="n")
def _starts(model: Model, X: Any, label: Any, n: int) -> tuple[Any, Any, Any]:
    """The prior, and the means of a forward pass and of the posterior after `n` cycles."""
    expand = partial(expand_factorised, label=label, n_steps=6)
    _, posterior = class_posterior(model, X, expand, np.int32(n), "cyclic")
    return model.hidden.gaussian(X), model.hidden.start(X), posterior


def prior_errors(model: TGGMClassifier, X: np.ndarray, y: np.ndarray, cycles: int) -> dict[str, list[float]]:
    """Root mean square error of the prior's means, in units of σ0, after `WATCHED` cycles from each start."""
    with jax.enable_x64(True):
        rows = np.asarray(prepared(X, model.fitted_.scales.x, np.float64))
        tg, forward, posterior = _starts(member(model), rows, y.astype(np.int32), cycles)
        best = mean_field(tg).mean

        def error(start: Any, n: int) -> float:
            found = mean_field(tg, solver="cyclic", n_cycles=n, start=start).mean
            return float(np.sqrt(np.mean(np.asarray(found - best) ** 2)) / model.sigma0)

        return {
            name: [error(start, n) for n in WATCHED]
            for name, start in (("same", forward), ("posterior", posterior))
        }


def run(prior: str, cycles: int, seed: int, epochs: int, every: int) -> dict[str, Any]:
    """Train by passes over the data and note how the model does on the way."""
    X, y, X_held, y_held, X_test, y_test = digits(seed)
    model, course = classifier(prior, cycles, seed), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of undone steps: their figures tell
        for epoch in range(1, epochs + 1):
            model.partial_fit(X, y, **({"classes": np.arange(10)} if epoch == 1 else {}))
            if epoch == 1 or epoch % every == 0:
                course.append(
                    {
                        "epoch": epoch,
                        "objective": float(model.history_["train"][0, -1]),
                        "held": float(100 * np.mean(model.predict(X_held) == y_held)),
                        "accuracy": float(100 * np.mean(model.predict(X_test) == y_test)),
                        "prior_errors": prior_errors(model, X[:ROWS], y[:ROWS], cycles),
                    }
                )
    chosen = max(course, key=lambda c: c["held"])
    return {"accuracy": course[-1]["accuracy"], "stopped": chosen["accuracy"], "course": course}


def cycles_of(record: dict[str, Any]) -> list[int]:
    """Numbers of cycles that networks were trained with."""
    return sorted({int(name.split()[1]) for name in record["runs"] if not name.startswith("guarded")})


def by_prior(record: dict[str, Any], cycles: int) -> dict[str, list[dict[str, Any]]]:
    """Runs of each kind of prior with so many cycles, in the order of their seeds."""
    found: dict[str, dict[int, Any]] = {}
    for name, figures in record["runs"].items():
        prior, n, seed = name.split()[:3]
        if int(n) == cycles or prior == "guarded":
            found.setdefault(prior, {})[int(seed)] = figures
    return {prior: [runs[s] for s in sorted(runs)] for prior, runs in found.items()}


def ratios(record: dict[str, Any], cycles: int) -> np.ndarray:
    """The prior's error from the posterior over that from a forward pass, geometric mean over networks."""
    last = [r["course"][-1]["prior_errors"] for runs in by_prior(record, cycles).values() for r in runs]
    logs = [np.log(np.array(e["posterior"]) / np.array(e["same"])) for e in last]
    found: np.ndarray = np.exp(np.mean(logs, axis=0))
    return found


def picture(record: dict[str, Any]) -> None:
    cycles = cycles_of(record)
    figure = Figure(figsize=(2.7 * (len(cycles) + 1) + 0.6, 3.6), layout="constrained")
    axes = figure.subplots(1, len(cycles) + 1)
    for ax, n in zip(axes, cycles, strict=False):
        for prior, runs in by_prior(record, n).items():
            epochs = [c["epoch"] for c in runs[0]["course"]]
            wrong = np.array([[100 - c["accuracy"] for c in r["course"]] for r in runs])
            ax.plot(epochs, wrong.T, color=COLOURS[prior], linewidth=0.6, alpha=0.5)
            ax.plot(epochs, np.median(wrong, 0), color=COLOURS[prior], linewidth=2, label=WORDS[prior])
        ax.set(yscale="log", ylim=(1.5, 100), xlabel="passes over the data", title=f"{n} cycles")
        ax.set_yticks([2, 5, 10, 20, 50, 100], ["2", "5", "10", "20", "50", "100"])
        ax.sharey(axes[0])
    axes[0].set_ylabel("test error %, each seed and median")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    for n, line in zip(cycles, ("-", "--", ":", "-."), strict=False):
        axes[-1].plot(WATCHED, ratios(record, n), color="#222222", linestyle=line, label=f"trained by {n}")
    axes[-1].axhline(1, color="0.7", linewidth=1)
    axes[-1].set(xscale="log", yscale="log", xlabel="cycles of the prior", title="start from posterior")
    axes[-1].set_ylabel("prior's error / that from a forward pass")
    axes[-1].legend(frameon=False, fontsize=7)
    for ax in axes:
        ax.grid(True, color="0.92")
    figure.savefig(IMAGE, dpi=85 if len(axes) < 4 else 65)


def main() -> None:
    p = options(__doc__)
    p.add_argument("--epochs", type=int, default=40)
    p.add_argument("--every", type=int, default=4)
    p.add_argument("--cycles", default="2,5", help=f"numbers among {WATCHED}, at most four")
    p.add_argument("--seeds", type=int, default=3)
    args = p.parse_args()
    begin()
    if not args.render:
        cycles = [int(n) for n in args.cycles.split(",")]
        settings = {"epochs": args.epochs, "every": args.every, "seed": args.seed}
        seeds = range(args.seed, args.seed + args.seeds)
        kinds = [("guarded", 5)] + [(prior, n) for n in cycles for prior in ("posterior", "same")]
        tasks = [(prior, n, s, args.epochs, args.every) for s in seeds for prior, n in kinds]
        complete(RESULT, origin(settings=settings), run, tasks, args.jobs, force=args.force)
    record = read(RESULT)
    for n in cycles_of(record):
        for prior, runs in by_prior(record, n).items():
            ends = [
                "{:.2f} ± {:.2f}".format(*mean_error([r[k] for r in runs])) for k in ("accuracy", "stopped")
            ]
            print(f"{n} cycles, {prior}: accuracy at the end {ends[0]}, where held-out rows stop {ends[1]}")
    picture(record)


if __name__ == "__main__":
    main()
