"""Why undirected deep models collapse when the paper's objective is followed far enough.

    python experiments/collapse.py                        # minutes on two cores
    python experiments/collapse.py --seeds 5 --epochs 200 --jobs 16
    TGGM_DATA=... python experiments/collapse.py --data mnist --epochs 20 --every 2 --seeds 1    # an hour

Two hidden layers of 50 units on the 8×8 digits that ship with scikit-learn (1,237 to train, 200 held out), or
of 200 on MNIST (5,000 and 10,000), mean field on both sides, no weight decay, constant steps. The objective
is the posterior's bound less the prior's, so it exceeds the log-likelihood by the prior's gap and falls short
of it by the posterior's. After every so many passes over the data: the objective, both gaps and the
log-likelihood by EP, whose log Z is nearly exact, on 100 training rows; and accuracy. "same" subtracts mean
field's log Z of the prior, "guarded" (the default) does so only as far as an upper bound is near; both solve
mean field by Newton's method. "cycles" makes two cycles on both sides, the prior's begun at the posterior's
means. Writes experiments/results/collapse.json and docs/images/collapse.png, or collapse_mnist.*.
"""

import warnings
from functools import cache, partial
from typing import Any

import jax
import numpy as np
from classify import some
from datasets import load_mnist
from matplotlib.figure import Figure
from networks import member
from prior_start import class_posterior, digits
from runs import IMAGES, RESULTS, begin, complete, options, origin, read

from tggm import TGGMClassifier
from tggm.estimators.sources import prepared
from tggm.inference import class_ep, log_partition
from tggm.models import Model
from tggm.models.likelihoods.probit import training_nodes
from tggm.special.probit import expand_probit

NAMES = {"digits": "collapse", "mnist": "collapse_mnist"}
SIZES: dict[str, dict[str, Any]] = {
    "digits": {"hidden": (50, 50), "batch_size": 100},
    "mnist": {"hidden": (200, 200), "batch_size": 500},
}
WAYS: dict[str, dict[str, Any]] = {
    "same": {"prior": "same"},
    "guarded": {"prior": "guarded"},
    "cycles": {"prior": "posterior", "solver": "cyclic", "n_cycles": (2, 2)},
}
ROWS = 100  # training rows on which gaps are measured
STEPS = np.int32(60)
COLOURS = {"same": "#D55E00", "guarded": "#009E73", "cycles": "#0072B2"}


@jax.jit
def _posterior_bound(model: Model, X: Any, label: Any) -> Any:
    expand = partial(expand_probit, label=label, n_nodes=training_nodes(len(model.likelihood.output.b1)), n_steps=3)
    return class_posterior(model, X, expand, STEPS, "newton")[0]


@jax.jit
def _posterior_ep(model: Model, X: Any, label: Any) -> Any:
    output = model.likelihood.output
    return class_ep(model.hidden.gaussian(X), output.W1, output.b1, label, STEPS)


@jax.jit
def _prior_bound(model: Model, X: Any, label: Any) -> Any:
    hidden = model.hidden
    return log_partition(hidden.gaussian(X), engine="mean_field", start=hidden.start(X), max_iter=STEPS)


@jax.jit
def _prior_ep(model: Model, X: Any, label: Any) -> Any:
    return log_partition(model.hidden.gaussian(X), engine="ep", max_iter=STEPS)


def gaps(model: TGGMClassifier, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """What the objective consists of, in nats a row."""
    with jax.enable_x64(True):
        network, rows = member(model), np.asarray(prepared(X, model.fitted_.scales.x, np.float64))
        # one after the other: factorisations that run at the same time may wait for each other for ever
        posterior_bound, posterior_ep, prior_bound, prior_ep = (
            float(np.mean(np.asarray(f(network, rows, y.astype(np.int32)))))
            for f in (_posterior_bound, _posterior_ep, _prior_bound, _prior_ep)
        )
    return {
        "objective": posterior_bound - prior_bound,
        "log_likelihood": posterior_ep - prior_ep,
        "prior_gap": prior_ep - prior_bound,
        "posterior_gap": posterior_ep - posterior_bound,
    }


@cache
def images(data: str, seed: int) -> tuple[np.ndarray, ...]:
    """Images and classes to train on, and held-out ones."""
    if data == "digits":
        return digits(seed)[:4]
    X, y, *_ = load_mnist()
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = X[order].astype(np.float32) / 255, y[order]
    return X[:5000], y[:5000], X[-10_000:], y[-10_000:]


def run(way: str, seed: int, epochs: int, every: int, rate: float, data: str) -> dict[str, Any]:
    """Train by passes over the data and note what the objective consists of on the way."""
    X, y, X_held, y_held = images(data, seed)
    model = TGGMClassifier.one_layer(
        deep="undirected", method="meanfield", learning_rate=rate, weight_decay=0.0, average=0.0,
        standardize="whole", random_state=seed, n_members=1, **SIZES[data], **WAYS[way],
    )  # fmt: skip
    course = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of undone steps: their figures tell
        for epoch in range(1, epochs + 1):
            model.partial_fit(X, y, **({"classes": np.arange(10)} if epoch == 1 else {}))
            if epoch == 1 or epoch % every == 0:
                held = float(100 * np.mean(model.predict(X_held) == y_held))
                course.append({"epoch": epoch, "held": held, **gaps(model, X[:ROWS], y[:ROWS])})
                print(way, *(f"{k} {v:.4g}" for k, v in course[-1].items()), flush=True)
    best = max(point["held"] for point in course)
    return {"best": best, "last": course[-1]["held"], "course": course}


def picture(record: dict[str, Any], name: str) -> None:
    figure = Figure(figsize=(9.6, 3.2), layout="constrained")
    accuracy, parts, likelihood = figure.subplots(1, 3)
    for key, found in record["runs"].items():
        way, seed = key.split()[:2]
        course = found["course"]
        epochs = [point["epoch"] for point in course]
        told = {"label": way} if seed == "0" else {}
        accuracy.plot(epochs, [p["held"] for p in course], color=COLOURS[way], **told)
        for part, style in (("prior_gap", "-"), ("posterior_gap", "--")):
            told = {"label": f"{way}: {part.replace('_', ' ')}"} if seed == "0" else {}
            parts.plot(epochs, [p[part] for p in course], style, color=COLOURS[way], **told)
        for part, style in (("objective", "-"), ("log_likelihood", "--")):
            told = {"label": f"{way}: {part.replace('_', '-')}"} if seed == "0" else {}
            likelihood.plot(epochs, [p[part] for p in course], style, color=COLOURS[way], **told)
    accuracy.set(title="held-out accuracy %")
    parts.set(title="gaps of mean field, nats a row", yscale="log")
    likelihood.set(title="objective, log-likelihood", yscale="symlog")
    for ax in (accuracy, parts, likelihood):
        ax.set_xlabel("passes over the data")
        ax.grid(True, color="0.92")
        ax.legend(frameon=False, fontsize=7)
    figure.savefig(IMAGES / f"{name}.png", dpi=80)


def main() -> None:
    p = options(__doc__)
    p.add_argument("--data", choices=list(NAMES), default="digits")
    p.add_argument("--ways", type=some(list(WAYS)), default=list(WAYS), metavar="NAME,...")
    p.add_argument("--epochs", type=int, default=60)
    p.add_argument("--every", type=int, default=10)
    p.add_argument("--rate", type=float, default=5e-3)
    p.add_argument("--seeds", type=int, default=3)
    args = p.parse_args()
    begin()
    result = RESULTS / f"{NAMES[args.data]}.json"
    if not args.render:
        tasks = [
            (way, seed, args.epochs, args.every, args.rate, args.data)
            for seed in range(args.seed, args.seed + args.seeds)
            for way in args.ways
        ]
        settings = {name: getattr(args, name) for name in ("data", "epochs", "every", "rate", "seed")}
        complete(result, origin(settings=settings), run, tasks, args.jobs, force=args.force)
    record = read(result)
    for name, found in record["runs"].items():
        print(name, f"best {found['best']:.1f} %, last {found['last']:.1f} %")
        for point in found["course"]:
            print("  ", *(f"{k} {v:.4g}" for k, v in point.items()))
    picture(record, NAMES[args.data])


if __name__ == "__main__":
    main()
