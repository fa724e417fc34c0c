"""Claim of §3.2 of the paper: back-propagation follows an approximation of the likelihood's gradient.

    TGGM_DATA=... python experiments/gradients.py [--epochs 200]

Networks of 50 units are trained on the first split of Concrete (RMSProp, initial weights N(0, 0.01)): by the
paper's two settings, and by the exact likelihood with learned noise. During training the gradient of the
exact log-likelihood over all training rows is compared with those of back-propagation's squared error, of the
mean-field bound (converged, and by the paper's ten cycles), and of the Gaussian with the exact moments: the
cosine of the angle between them, for W0 and W1. Writes experiments/results/gradients.json and
docs/images/gradients.png.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from datasets import load_uci
from matplotlib.figure import Figure
from store import IMAGES, RESULTS, Run, keep, options, read

from tggm.gaussian import TruncatedGaussian
from tggm.inference import Sum, exact, log_density, mean_field
from tggm.precision import Diagonal, LowRank
from tggm.special import truncated_mean, truncated_var

RESULT = RESULTS / "gradients.json"
Parameters = dict[str, jax.Array]  # W0, b0, W1, b1, log of the noise variance
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


def posterior(p: Parameters, s0: float, u: jax.Array, y: jax.Array) -> TruncatedGaussian:
    """Return the posterior of the hidden units given y."""
    s1 = jnp.exp(p["log_noise"])
    precision = LowRank(jnp.full(u.shape[1], 1 / s0), p["W1"][None] / jnp.sqrt(s1))
    return TruncatedGaussian(precision, u / s0 + (y - p["b1"])[:, None] * p["W1"] / s1)


def likelihood(p: Parameters, s0: float, X: jax.Array, y: jax.Array) -> jax.Array:
    """Return log p(y | x): the density of a sum of truncated normals and noise, by Fourier inversion."""
    u, ones = X @ p["W0"].T + p["b0"], jnp.ones_like(X[:, :1])
    coefficients, noise = ones * (s0**0.5 * p["W1"]), ones[:, 0] * jnp.exp(p["log_noise"])
    return log_density(Sum(u / s0**0.5, coefficients, noise), y - p["b1"])


def bound(engine: Callable[..., Any], p: Parameters, s0: float, X: jax.Array, y: jax.Array) -> jax.Array:
    """Return a function with the gradient of the mean-field bound for fixed factors q(h)."""
    u, s1 = X @ p["W0"].T + p["b0"], jnp.exp(p["log_noise"])
    q = engine(posterior(*jax.lax.stop_gradient((p, s0, u, y))))
    shift = posterior(p, s0, u, y).shift
    squares = ((q.mean @ p["W1"]) ** 2 + q.var @ p["W1"] ** 2) / s1 + (q.mean**2 + q.var).sum(1) / s0
    return (shift * q.mean).sum(1) - 0.5 * squares + _rest(p, s0, u, y)


def _rest(p: Parameters, s0: float, u: jax.Array, y: jax.Array) -> jax.Array:
    """Return the terms of log p(y | x) besides log Z of the posterior."""
    prior = exact(TruncatedGaussian(Diagonal(jnp.full(u.shape[1], 1 / s0)), u / s0)).log_z
    return -prior - 0.5 * (y - p["b1"]) ** 2 / jnp.exp(p["log_noise"]) - 0.5 * p["log_noise"]


def gaussian(exact_variance: bool, p: Parameters, s0: float, X: jax.Array, y: jax.Array) -> jax.Array:
    """Return the log-density of a Gaussian with the model's mean, and its variance or only the noise."""
    u, var = X @ p["W0"].T + p["b0"], jnp.exp(p["log_noise"])
    mean = truncated_mean(u, s0**0.5) @ p["W1"] + p["b1"]
    if exact_variance:
        var = var + truncated_var(u, s0**0.5) @ p["W1"] ** 2
    return -0.5 * (y - mean) ** 2 / var - 0.5 * jnp.log(2 * jnp.pi * var)


OBJECTIVES: dict[str, Callable[..., jax.Array]] = {
    "bp": partial(gaussian, False),
    "meanfield": partial(bound, mean_field),
    "cycles": partial(bound, partial(mean_field, solver="cyclic", n_cycles=10)),
    "moments": partial(gaussian, True),
    "exact": likelihood,
}


@partial(jax.jit, static_argnames=("method", "s0"))
def gradient(method: str, p: Parameters, s0: float, X: jax.Array, y: jax.Array) -> Parameters:
    """Return the gradient of the mean objective."""
    return jax.grad(lambda q: OBJECTIVES[method](q, s0, X, y).mean())(p)


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
    sizes = {"W0": (50, X.shape[1]), "b0": (50,), "W1": (50,)}
    p: Parameters = {name: jnp.asarray(0.1 * rng.normal(size=shape)) for name, shape in sizes.items()}
    p |= {"b1": jnp.asarray(0.0), "log_noise": jnp.log(jnp.asarray(s1))}
    square = jax.tree.map(jnp.zeros_like, p)  # RMSProp's mean of squared gradients
    found: list[Run] = []
    for epoch in range(1, epochs + 1):
        for rows in np.array_split(rng.permutation(len(y)), -(-len(y) // 50)):
            g = gradient(method, p, s0, X[rows], y[rows])
            g["log_noise"] *= learned
            square = jax.tree.map(lambda s, d: 0.95 * s + 0.05 * d * d, square, g)
            p = jax.tree.map(lambda a, d, s: a + rate * d / jnp.sqrt(s + 1e-8), p, g, square)
        if epoch == 1 or epoch % every == 0:
            truth = gradient("exact", p, s0, X, y)
            cosines = {}
            for name in COLOURS:
                other = gradient(name, p, s0, X, y)
                cosines[name] = {part: cosine(other[part], truth[part]) for part in ("W0", "W1")}
            mean = truncated_mean(X @ p["W0"].T + p["b0"], s0**0.5) @ p["W1"] + p["b1"]
            rmse = float(np.sqrt(np.mean((y - mean) ** 2)))
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
