"""Test a claim of §3.2 of the paper: back-propagation approximates the likelihood's gradient.

    TGGM_DATA=... python experiments/gradients.py [--epochs 200]

Networks of 50 units are trained on the first split of Concrete (RMSProp, initial weights N(0, 0.01)): by the
paper's two settings, and by the exact likelihood with learned noise. During training the gradient of the
exact log-likelihood over all training rows is compared with those of back-propagation's squared error, of the
mean-field bound (converged, and by the paper's ten cycles), and of the Gaussian with the exact moments: the
cosine of the angle between them, for W0 and W1. Writes experiments/results/gradients.json and
docs/images/gradients.png.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from datasets import load_uci
from matplotlib.figure import Figure
from scores import rms
from store import IMAGES, RESULTS, Run, keep, options, read

from tggm.models import Gaussian, Identity, Model, Output
from tggm.paper._model import Objective, OneLayer, mean
from tggm.training import Rows

RESULT = RESULTS / "gradients.json"
TRAINED = {  # method, σ0², σ1², whether σ1² is learned, step size
    "paper-ml": ("cycles", 0.5, 0.5, False, 1e-2),
    "paper-bp": ("bp", 0.01, 0.01, False, 1e-3),
    "exact": ("exact", 0.5, 0.5, True, 1e-2),
}
COLOURS = {
    "bp": "#222222", "meanfield": "#D55E00", "cycles": "#CC79A7", "moments": "#0072B2",
}  # fmt: skip
TITLES = {
    "paper-ml": "trained by TGGM-ML\nσ0² = σ1² = 0.5",
    "paper-bp": "trained by TGGM-BP\nσ0² = σ1² = 0.01",
    "exact": "trained by exact likelihood\nσ0² = 0.5, σ1² learned",
}


OBJECTIVES = {
    **{method: Objective(method) for method in ("bp", "meanfield", "moments", "exact")},
    "cycles": Objective("meanfield", "cyclic"),
}


@partial(jax.jit, static_argnames="method")
def gradient(method: str, model: Model, rows: Rows) -> Model:
    """Return the gradient of the mean objective."""
    return jax.grad(lambda m: OBJECTIVES[method](m, rows, jnp.zeros(())).mean())(model)


def weights(model: Model) -> dict[str, Any]:
    return {"W0": model.hidden.W0, "W1": model.likelihood.output.W1}


def cosine(a: jax.Array, b: jax.Array) -> float:
    """Return the cosine of the angle between two arrays, 0 if one of them vanishes."""
    norm = float(jnp.linalg.norm(a) * jnp.linalg.norm(b))
    return float((a * b).sum()) / norm if norm > 0 else 0.0


def run(trained: str, epochs: int, every: int) -> list[Run]:
    """Train one network; return the cosines at the first epoch and at every `every`th."""
    method, s0, s1, learned, rate = TRAINED[trained]
    X, y, splits = load_uci("concrete")
    X, y = X[splits[0][0]], y[splits[0][0]]
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    rng = np.random.default_rng(0)
    W0, b0, W1 = (jnp.asarray(0.1 * rng.normal(size=n)) for n in ((50, X.shape[1]), 50, 50))
    output = Output(W1[None], jnp.zeros(1))
    model = Model(Identity(), OneLayer(W0, b0, jnp.asarray(s0)), Gaussian(output, jnp.log(jnp.full(1, s1))))
    square = jax.tree.map(jnp.zeros_like, model)  # RMSProp's mean of squared gradients
    every_row, found = Rows(X, y[:, None]), []
    for epoch in range(1, epochs + 1):
        for rows in np.array_split(rng.permutation(len(y)), -(-len(y) // 50)):
            g: Any = gradient(method, model, Rows(X[rows], y[rows, None]))
            g = replace(g, likelihood=replace(g.likelihood, log_noise=learned * g.likelihood.log_noise))
            square = jax.tree.map(lambda s, d: 0.95 * s + 0.05 * d * d, square, g)
            model = jax.tree.map(lambda a, d, s: a + rate * d / jnp.sqrt(s + 1e-8), model, g, square)
        if epoch == 1 or epoch % every == 0:
            truth, cosines = weights(gradient("exact", model, every_row)), {}
            for name in COLOURS:
                other = weights(gradient(name, model, every_row))
                cosines[name] = {part: cosine(other[part], truth[part]) for part in ("W0", "W1")}
            rmse = rms(y - np.asarray(mean(model, X))[:, 0])
            found.append({"trained": trained, "epoch": epoch, "rmse": rmse, "cosines": cosines})
            print(trained, epoch, rmse, {name: round(c["W1"], 3) for name, c in cosines.items()}, flush=True)
    return found


def picture(runs: list[Run]) -> None:
    figure = Figure(figsize=(9.6, 5.0), layout="constrained")
    axes = figure.subplots(2, len(TITLES), sharex=True, sharey=True)
    for column, (trained, title) in enumerate(TITLES.items()):
        course = [run for run in runs if run["trained"] == trained]
        for ax, part in zip(axes[:, column], ("W0", "W1"), strict=True):
            for name, colour in COLOURS.items():
                values = [run["cosines"][name][part] for run in course]
                ax.plot([run["epoch"] for run in course], values, color=colour, label=name, linewidth=1.5)
            ax.grid(True, color="0.92")
        axes[0, column].set_title(title, fontsize=9)
        axes[1, column].set_xlabel("epochs")
    for ax, part in zip(axes[:, 0], ("W0", "W1"), strict=True):
        ax.set_ylabel(f"cosine with exact, {part}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8)
    figure.savefig(IMAGES / "gradients.png", dpi=85)


def main() -> None:
    p = options(__doc__)
    p.add_argument("--epochs", type=int, default=200)
    p.add_argument("--every", type=int, default=10)
    p.add_argument("--draw", action="store_true", help="only draw the stored runs")
    args = p.parse_args()
    if not args.draw:
        with jax.enable_x64(True):
            runs = [found for trained in TRAINED for found in run(trained, args.epochs, args.every)]
        keep(args.out or RESULT, runs, epochs=args.epochs, every=args.every, seed=0)
    picture(read(args.out or RESULT)["runs"])


if __name__ == "__main__":
    main()
