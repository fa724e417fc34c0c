"""Claim of §4.2 of the paper: starting the prior's mean field from the posterior's helps deep models.

    python experiments/prior_start.py                                  # minutes on two cores
    python experiments/prior_start.py --seeds 10 --epochs 100 --jobs 16

The paper's undirected classifier with two hidden layers of 50 units and its settings, on the 8×8 digits that
ship with scikit-learn (1,437 to train, 360 to test). Mean field on both sides by few cycles, those of the
prior begun at the means of a forward pass ("same") or at the posterior's means ("posterior"); beside them
the optimum by Newton's method with a guard ("guarded"), for which a start makes no difference. After every so
many passes over the data: the objective, test accuracy and negative log-probability; and how far the prior's
means are from the optimum after some cycles from either start, at the parameters reached.
Writes experiments/results/prior_start.json and docs/images/prior_start.png.
"""

import argparse
import warnings
from functools import partial
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure
from runs import IMAGES, RESULTS, complete, mean_error, on_cpu, origin, read
from sklearn.datasets import load_digits

from tggm import TGGMClassifier
from tggm.estimators.inputs import prepared
from tggm.inference import mean_field
from tggm.learning.deep_classification import _expansion
from tggm.models.deep_energy import deep_prior
from tggm.models.directed_bound import forward_means
from tggm.models.undirected_class import class_factors

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
    """Training images, their classes, test images, their classes."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = X[order] / 16, y[order]
    return X[:1437], y[:1437], X[1437:], y[1437:]


def classifier(prior: str, cycles: int, seed: int) -> TGGMClassifier:
    """The paper's settings; "guarded" solves both sides by Newton's method instead."""
    settings = {} if prior != "guarded" else {"solver": "newton"}
    return TGGMClassifier.paper_ml(
        hidden=(50, 50), deep="undirected", prior=prior, n_cycles=(cycles, cycles), batch_size=100,
        standardize="whole", random_state=seed, **settings,
    )  # fmt: skip


@partial(jax.jit, static_argnames="n")
def _starts(params: Any, X: Any, label: Any, s0: Any, n: int) -> tuple[Any, Any, Any]:
    """The prior, and the means of a forward pass and of the posterior after `n` cycles."""
    expand = _expansion(label, True)
    posterior = class_factors(params, X, s0, expand, np.int32(n), "cyclic").mean
    return deep_prior(params, X, s0), forward_means(params, X, s0), posterior


def prior_errors(model: TGGMClassifier, X: np.ndarray, y: np.ndarray, cycles: int) -> dict[str, list[float]]:
    """Root mean square error of the prior's means, in units of σ0, after `WATCHED` cycles from each start."""
    with jax.enable_x64(True):
        params = jax.tree.map(lambda a: np.asarray(a[0], np.float64), model._params)
        rows = np.asarray(prepared(X, model._x, np.float64))
        s0 = np.float64(model.sigma0**2)
        tg, forward, posterior = _starts(params, rows, y.astype(np.int32), s0, cycles)
        best = mean_field(tg).mean

        def error(start: Any, n: int) -> float:
            found = mean_field(tg, solver="cyclic", n_cycles=n, start=start).mean
            return float(np.sqrt(np.mean(np.asarray(found - best) ** 2) / s0))

        return {
            name: [error(start, n) for n in WATCHED]
            for name, start in (("same", forward), ("posterior", posterior))
        }


def run(prior: str, cycles: int, seed: int, epochs: int, every: int) -> dict[str, Any]:
    """Train by passes over the data and note how the model does on the way."""
    X, y, X_test, y_test = digits(seed)
    model, course = classifier(prior, cycles, seed), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of undone steps: their figures tell
        for epoch in range(1, epochs + 1):
            model.partial_fit(X, y, **({"classes": np.arange(10)} if epoch == 1 else {}))
            if epoch == 1 or epoch % every == 0:
                chance = np.asarray(model.predict_proba(X_test))
                course.append(
                    {
                        "epoch": epoch,
                        "objective": float(model.history_["train"][0, -1]),
                        "accuracy": float(100 * np.mean(model.predict(X_test) == y_test)),
                        "nll": float(-np.mean(np.log(chance[np.arange(len(y_test)), y_test] + 1e-30))),
                        "prior_errors": prior_errors(model, X[:ROWS], y[:ROWS], cycles),
                    }
                )
    last = course[-1]
    best = max(c["accuracy"] for c in course)
    return {"accuracy": last["accuracy"], "best": best, "nll": last["nll"], "course": course}


def by_prior(record: dict[str, Any], cycles: int) -> dict[str, list[dict[str, Any]]]:
    """Runs of each kind of prior with so many cycles, in the order of their seeds."""
    found: dict[str, dict[int, Any]] = {}
    for name, figures in record["runs"].items():
        prior, n, seed = name.split()[:3]
        if int(n) == cycles or prior == "guarded":
            found.setdefault(prior, {})[int(seed)] = figures
    return {prior: [runs[s] for s in sorted(runs)] for prior, runs in found.items()}


def picture(record: dict[str, Any]) -> None:
    cycles = record["settings"]["cycles"]
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    axes = figure.subplots(1, len(cycles) + 1)
    for ax, n in zip(axes, cycles, strict=False):
        for prior, runs in by_prior(record, n).items():
            epochs = [c["epoch"] for c in runs[0]["course"]]
            values = np.array([[c["accuracy"] for c in r["course"]] for r in runs])
            mean, error = np.array([mean_error(v) for v in values.T]).T
            ax.plot(epochs, mean, color=COLOURS[prior], label=WORDS[prior])
            ax.fill_between(epochs, mean - error, mean + error, color=COLOURS[prior], alpha=0.2, linewidth=0)
        ax.set(xlabel="passes over the data", ylabel="test accuracy %", title=f"{n} cycles")
        ax.set_ylim(bottom=80)
    for kind, style in (("same", "#D55E00"), ("posterior", "#0072B2")):
        for n, line in zip(cycles, ("-", ":"), strict=False):
            found = [r["course"][-1]["prior_errors"][kind] for r in by_prior(record, n)[kind]]
            words = f"{WORDS[kind].removeprefix('cycles ')}, trained by {n} cycles"
            axes[-1].plot(WATCHED, np.mean(found, 0), color=style, linestyle=line, marker=".", label=words)
    axes[-1].set(
        xscale="log", yscale="log", xlabel="cycles of the prior", ylabel="rms error of its means, / σ0"
    )
    axes[-1].set_title("prior after training")
    for ax in axes:
        ax.grid(True, color="0.92")
        ax.legend(frameon=False, fontsize=7)
    figure.savefig(IMAGE, dpi=85)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--epochs", type=int, default=40)
    p.add_argument("--every", type=int, default=4)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", type=int, default=1, help="processes")
    p.add_argument("--render", action="store_true", help="only draw what is stored")
    args = p.parse_args()
    on_cpu()
    if not args.render:
        cycles = [2, 5]
        settings = {"epochs": args.epochs, "every": args.every, "cycles": cycles, "seed": args.seed}
        seeds = range(args.seed, args.seed + args.seeds)
        kinds = [("guarded", 5)] + [(prior, n) for n in cycles for prior in ("posterior", "same")]
        tasks = [(prior, n, s, args.epochs, args.every) for s in seeds for prior, n in kinds]
        complete(RESULT, origin(settings=settings), run, tasks, args.jobs)
    record = read(RESULT)
    for n in record["settings"]["cycles"]:
        for prior, runs in by_prior(record, n).items():
            shown = "{:.2f} ± {:.2f}".format(*mean_error([r["accuracy"] for r in runs]))
            print(f"{n} cycles, {prior}: accuracy {shown}, best {np.mean([r['best'] for r in runs]):.2f}")
    picture(record)


if __name__ == "__main__":
    main()
