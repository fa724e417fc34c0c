"""Claim of §3.2 of the paper: back-propagation follows an approximation of the likelihood's gradient.

    TGGM_DATA=... python experiments/gradients.py [--dataset concrete] [--epochs 200]

One network of 50 units is trained by passes over the first training part (RMSProp, weights from N(0, 0.01));
on the way, over all training rows and in double precision, the gradient of the exact log-likelihood is
compared with those of back-propagation's squared error, of the mean-field bound (converged, and by the
paper's ten cycles), of EP and of the Gaussian with the exact moments: the cosine of the angle between
them, for each block of parameters (a cosine within a block does not depend on the gauge) and for all. Runs:
the paper's two settings, each trained by its own method, and learned noise trained by the exact likelihood.
Writes experiments/results/gradients.json and docs/images/gradients.png.
"""

from functools import partial
from typing import Any

import jax
import numpy as np
from datasets import load_uci
from matplotlib.figure import Figure
from networks import log_densities, member, rows_of
from runs import IMAGES, RESULTS, begin, complete, options, origin, read

from tggm import TGGMRegressor
from tggm.models import Model
from tggm.training import METHODS, Options, Rows

RESULT, IMAGE = RESULTS / "gradients.json", IMAGES / "gradients.png"
RUNS: dict[str, Any] = {
    "paper-ml": TGGMRegressor.paper_ml,
    "paper-bp": TGGMRegressor.paper_bp,
    "exact": lambda **s: TGGMRegressor.paper_ml(**{**s, "method": "exact", "noise": None}),
}
TITLES = {
    "paper-ml": "trained by TGGM-ML\nσ0² = σ1² = 0.5",
    "paper-bp": "trained by TGGM-BP\nσ0² = σ1² = 0.01",
    "exact": "trained by exact likelihood\nσ0² = 0.5, σ1² learned",
}
OBJECTIVES = {
    "bp": METHODS["bp"](Options()),
    "meanfield": METHODS["meanfield"](Options()),
    "cycles": METHODS["meanfield"](Options("cyclic", (10, 10))),
    "ep": METHODS["ep"](Options()),
    "moments": METHODS["moments"](Options()),
}
NAMES = {
    "bp": "back-propagation",
    "meanfield": "mean field",
    "cycles": "mean field, 10 cycles",
    "ep": "EP",
    "moments": "moments",
}
COLOURS = {
    "bp": "#222222",
    "meanfield": "#D55E00",
    "cycles": "#CC79A7",
    "ep": "#009E73",
    "moments": "#0072B2",
}
BLOCKS = {"W0": "hidden.W0", "b0": "hidden.b0", "W1": "likelihood.output.W1", "b1": "likelihood.output.b1"}


@partial(jax.jit, static_argnames="method")
def gradient(method: Any, model: Model, rows: Rows) -> Model:
    """Of the mean objective with respect to all parameters."""
    return jax.grad(lambda m: log_densities(method, m, rows).mean())(model)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Of the angle between two arrays; 0 if one of them vanishes."""
    norm = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float((a * b).sum()) / norm if norm > 0 else 0.0


def compared(model: TGGMRegressor, X: np.ndarray, y: np.ndarray) -> dict[str, dict[str, Any]]:
    """Cosines of every method's gradient with the exact one at the parameters of `model`, and its norms."""

    def blocks(objective: Any) -> dict[str, np.ndarray]:
        found = gradient(objective, *seen).arrays()
        each = {block: np.asarray(found[name]).ravel() for block, name in BLOCKS.items()}
        return {**each, "all": np.concatenate(list(each.values()))}

    with jax.enable_x64(True):
        seen = member(model), rows_of(model, X, y)
        exact = blocks(METHODS["exact"](Options()))
        others = {name: blocks(objective) for name, objective in OBJECTIVES.items()}
    angles = {
        name: {part: cosine(found[part], exact[part]) for part in exact} for name, found in others.items()
    }
    return {"cosines": angles, "norms": {part: float(np.linalg.norm(g)) for part, g in exact.items()}}


def run(name: str, dataset: str, epochs: int, every: int, seed: int) -> dict[str, Any]:
    """Train by passes over the data; cosines at the start and every so many of them."""
    X, y, splits = load_uci(dataset)
    X, y = X[splits[0][0]], y[splits[0][0]]
    model = RUNS[name](hidden=(50,), random_state=seed)
    course = []
    for epoch in range(1, epochs + 1):
        model.partial_fit(X, y)
        if epoch == 1 or epoch % every == 0:
            fit = float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))
            course.append({"epoch": epoch, "rmse": fit, **compared(model, X, y)})
    return {"course": course}


def picture(record: dict[str, Any]) -> None:
    figure = Figure(figsize=(9.6, 5.0), layout="constrained")
    runs = {name.split()[0]: found["course"] for name, found in record["runs"].items()}
    axes = figure.subplots(2, len(runs), sharex=True, sharey=True, squeeze=False)
    for column, (name, course) in enumerate(runs.items()):
        for ax, part in zip(axes[:, column], ("W0", "W1"), strict=True):
            for method in OBJECTIVES:
                ax.plot(
                    [c["epoch"] for c in course], [c["cosines"][method][part] for c in course],
                    color=COLOURS[method], label=NAMES[method], linewidth=1.5,
                )  # fmt: skip
            ax.grid(True, color="0.92")
        axes[0, column].set_title(TITLES[name], fontsize=9)
        axes[1, column].set_xlabel("passes over the data")
    for ax, part in zip(axes[:, 0], ("W0", "W1"), strict=True):
        ax.set_ylabel(f"cosine with exact, {part}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8)
    figure.savefig(IMAGE, dpi=85)


def main() -> None:
    p = options(__doc__)
    p.add_argument("--dataset", default="concrete")
    p.add_argument("--epochs", type=int, default=200)
    p.add_argument("--every", type=int, default=10)
    args = p.parse_args()
    begin()
    if not args.render:
        settings = {"dataset": args.dataset, "epochs": args.epochs, "every": args.every, "seed": args.seed}
        tasks = [(name, *settings.values()) for name in RUNS]
        complete(RESULT, origin(settings=settings), run, tasks, args.jobs, force=args.force)
    record = read(RESULT)
    for name, found in record["runs"].items():
        for c in (found["course"][0], found["course"][-1]):
            shown = {k: {b: round(v, 3) for b, v in parts.items()} for k, parts in c["cosines"].items()}
            print(name, c["epoch"], round(c["rmse"], 3), shown)
    picture(record)


if __name__ == "__main__":
    main()
