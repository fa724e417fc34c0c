"""Unsupervised learning: visible Gaussian variables coupled to truncated hidden ones, without inputs.

The hidden variables are independent given the visible ones; only one partition function, common to all rows,
needs an engine. Training uses EP, and evaluation uses `orthant`.
"""

import numpy as np
from scipy.stats import multivariate_normal

from tggm import Graph, fit_graph


def crescent(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Draw mixtures of two positive variables with noise: skewed, not Gaussian."""
    parts = rng.exponential(1.0, (rows, 2))
    return parts @ np.array([[1.0, 0.3], [-0.4, 1.0]]) + 0.2 * rng.standard_normal((rows, 2))


def main(rows: int = 600, epochs: int = 100) -> tuple[float, float, float]:
    rng = np.random.default_rng(0)
    train, test = crescent(rows, rng), crescent(300, rng)
    graph = Graph().observed("v", 2).latent("h", 4).couple("v", "h")
    graph = fit_graph(graph, {"v": train}, max_epochs=epochs, learning_rate=0.05, weight_decay=0.0)
    found = graph.log_likelihood({"v": test}, engine="orthant")
    gaussian = multivariate_normal(train.mean(0), np.cov(train.T)).logpdf(test).mean()
    print(f"held-out log-likelihood {found.value.mean():.3f} ± {found.error.max():.0e}")
    print(f"of a Gaussian           {gaussian:.3f}")
    draws = graph.sample(n=4000, key=1)["v"][:, 0]
    skew, truth = (((z - z.mean(0)) / z.std(0)) ** 3 for z in (draws, test))
    print("skewness of samples", skew.mean(0).round(2), "of the data", truth.mean(0).round(2))
    return float(found.value.mean()), float(gaussian), float(skew.mean(0)[1])


if __name__ == "__main__":
    main()
