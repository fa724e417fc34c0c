"""Unsupervised learning of handwritten digits: truncated hidden units coupled to Gaussian pixels.

    python experiments/digits.py

The 8×8 digits of scikit-learn with uniform noise of one grey level added (discrete data have no density),
scaled to [0, 1]; 1,437 images for training, 360 for the test. A graph of two blocks, visible and hidden,
joined by a coupling is trained by EM with EP. Its log-likelihood is computed by `orthant` with a standard
error: only one partition function, the same for all images, has no closed form. Opponents are a Gaussian,
factor analysis and Gaussian mixtures with as many parameters. Epochs and regularisation are chosen on a
tenth of the training images. Writes experiments/results/digits.json and docs/images/digits.png.
"""

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits
from sklearn.decomposition import FactorAnalysis
from sklearn.mixture import GaussianMixture
from store import IMAGES, RESULTS, keep

from tggm import Graph, fit_graph


def images(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    grey = load_digits().data
    order = rng.permutation(len(grey))
    X = ((grey + rng.uniform(size=grey.shape)) / 17)[order]
    return X[:1437], X[1437:]


def mixture(kind: str, n_parameters: int, train: np.ndarray, test: np.ndarray) -> tuple[int, float]:
    """Fit a mixture of about this many parameters; the ridge is chosen on held-out training images."""
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
    filters = (np.exp(0.5 * params["log_noise"]["v"]) * rescale[1])[:, None] * V  # slope of v in h
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
    figure.savefig(path, dpi=120)


def main() -> None:
    train, test = images(0)
    mean, scale = train.mean(0), train.std(0)
    Z, T, jacobian = (train - mean) / scale, (test - mean) / scale, -np.log(scale).sum()
    m, settings = 128, {"max_epochs": 150, "batch_size": 128, "weight_decay": 1.0}
    graph = fit_graph(
        Graph().observed("v", 64).latent("h", m).couple("v", "h"), {"v": Z}, validation_fraction=0.1,
        **settings,
    )  # fmt: skip
    runs: list[dict[str, Any]] = []
    for engine, points in (("ep", {}), ("orthant", {"n_points": 8000})):
        found = graph.log_likelihood({"v": T}, engine=engine, **points)
        ll, error = float(found.value.mean() + jacobian), float(found.error.max())
        runs.append({"model": f"tggm, {engine}", "ll": ll, "error": error})
    normal = multivariate_normal(np.zeros(64), np.cov(Z.T) + 1e-3 * np.eye(64))
    runs.append({"model": "gaussian", "ll": float(normal.logpdf(T).mean() + jacobian)})
    factors = FactorAnalysis(min(m, 32)).fit(Z)
    runs.append({"model": f"factor analysis, {min(m, 32)}", "ll": float(factors.score(T) + jacobian)})
    for kind in ("diag", "full"):
        k, score = mixture(kind, 64 * m + m + 2 * 64, Z, T)
        runs.append({"model": f"mixture of {k}, {kind}", "ll": score + jacobian})
    for run in runs:
        print(run)
    keep(RESULTS / "digits.json", runs, hidden=m, **settings)
    picture(graph, (mean, scale), IMAGES / "digits.png", 0)


if __name__ == "__main__":
    main()
