"""Unsupervised learning of handwritten digits: truncated hidden units coupled to Gaussian pixels.

    python experiments/digits.py [--hidden 128] [--epochs 150]

The 8×8 digits that ship with scikit-learn, with uniform noise of one grey level added (the density of
discrete data has no meaning) and 16 grey levels scaled to 1. 1,437 images train the models, 360 judge them. A
graph of two blocks, visible and hidden, joined by a coupling (no direction, no inputs) is trained by EM with
EP. Its log-likelihood is then computed by `orthant`, with a standard error: only one partition function is
not known in closed form, the same for all images. Beside it a Gaussian, factor analysis and Gaussian mixtures
with as many parameters. A tenth of the training images chooses epochs and regularisation.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from ledger import origin
from matplotlib.figure import Figure
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits
from sklearn.decomposition import FactorAnalysis
from sklearn.mixture import GaussianMixture

from tggm import Graph, fit_graph


def images(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    grey = load_digits().data
    order = rng.permutation(len(grey))
    X = ((grey + rng.uniform(size=grey.shape)) / 17)[order]
    return X[:1437], X[1437:]


def mixture(kind: str, n_parameters: int, train: np.ndarray, test: np.ndarray) -> tuple[int, float]:
    """A mixture of about so many parameters; the ridge comes from held-out training images."""
    each = {"diag": 2 * 64 + 1, "full": 64 + 64 * 65 // 2 + 1}[kind]
    k = max(1, round(n_parameters / each))

    def fitted(ridge: float, X: np.ndarray) -> GaussianMixture:
        return GaussianMixture(k, covariance_type=kind, reg_covar=ridge, random_state=0).fit(X)

    ridges = (1e-3, 1e-2, 3e-2, 1e-1)
    best = max(ridges, key=lambda ridge: fitted(ridge, train[:1293]).score(train[1293:]))
    return k, float(fitted(best, train).score(test))


def picture(graph: Graph, rescale: Any, path: Path, seed: int) -> None:
    params = graph.parameters
    U = params["coupling"]["v -- h"]
    V = np.linalg.solve(np.linalg.cholesky(np.eye(64) + U @ U.T), U)  # see tggm.graph._structure
    filters = (np.exp(0.5 * params["log_noise"]["v"]) * rescale[1])[:, None] * V  # how h moves the mean of v
    strongest = np.argsort(-(filters**2).sum(0))[:32]
    draws = graph.sample(n=32, key=seed, n_chains=32, burn_in=300)["v"][:, 0] * rescale[1] + rescale[0]
    figure = Figure(figsize=(9, 2.7), layout="constrained")
    left, right = figure.subfigures(1, 2)
    for part, title, tiles in ((left, "filters", filters.T[strongest]), (right, "samples", draws)):
        part.suptitle(title)
        limit = np.abs(tiles).max() if title == "filters" else 1.0
        for ax, tile in zip(part.subplots(4, 8).ravel(), tiles, strict=False):
            low = -limit if title == "filters" else 0.0
            ax.imshow(
                tile.reshape(8, 8), cmap="RdBu_r" if title == "filters" else "gray_r", vmin=low, vmax=limit
            )
            ax.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hidden", type=int, default=128)
    p.add_argument("--epochs", type=int, default=150)
    p.add_argument("--decay", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--out", type=Path, default=Path("experiments/results/digits.json"))
    args = p.parse_args()
    train, test = images(args.seed)
    mean, scale = train.mean(0), train.std(0)
    Z, T, jacobian = (train - mean) / scale, (test - mean) / scale, -np.log(scale).sum()
    m = args.hidden
    graph = Graph().observed("v", 64).latent("h", m).couple("v", "h")
    clock = time.perf_counter()
    graph = fit_graph(
        graph, {"v": Z}, max_epochs=args.epochs, batch_size=128, weight_decay=args.decay, max_iter=30,
        validation_fraction=0.1, random_state=args.seed,
    )  # fmt: skip
    seconds = time.perf_counter() - clock
    n_parameters = 64 * m + m + 2 * 64
    results: dict[str, Any] = {}
    for engine in ("ep", "orthant"):
        found = graph.log_likelihood(
            {"v": T}, engine=engine, **({"n_points": 8000} if engine == "orthant" else {})
        )
        results[f"tggm, {engine}"] = {
            "ll": float(found.value.mean() + jacobian), "error": float(found.error.max()),
            "se": float(found.value.std() / np.sqrt(len(T))),
        }  # fmt: skip
    covariance = np.cov(Z.T) + 1e-3 * np.eye(64)
    results["gaussian"] = {
        "ll": float(multivariate_normal(np.zeros(64), covariance).logpdf(T).mean() + jacobian)
    }
    factors = min(m, 32)
    results[f"factor analysis, {factors}"] = {"ll": float(FactorAnalysis(factors).fit(Z).score(T) + jacobian)}
    for kind in ("diag", "full"):
        k, score = mixture(kind, n_parameters, Z, T)
        results[f"mixture of {k}, {kind}"] = {"ll": score + jacobian}
    for name, found in results.items():
        extra = f" ± {found['error']:.3f} (of the method)" if "error" in found else ""
        print(f"{name:24s} log-likelihood an image {found['ll']:.2f}{extra}")
    held = (graph.history["held_out"] + jacobian).tolist()[:: max(1, args.epochs // 20)]
    record = {**origin(), "hidden": m, "epochs": args.epochs, "decay": args.decay, "seed": args.seed,
              "parameters": n_parameters, "fit_seconds": seconds, "results": results,
              "held_out_by_epoch": held}  # fmt: skip
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=1))
    picture(graph, (mean, scale), args.out.with_suffix(".png"), args.seed)


if __name__ == "__main__":
    main()
