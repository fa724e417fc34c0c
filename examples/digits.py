"""Handwritten digits: pixels coupled to nonnegative hidden units (Su et al., AAAI 2017); missing halves."""

import numpy as np
from scipy.special import softmax
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits
from sklearn.decomposition import FactorAnalysis
from sklearn.mixture import GaussianMixture

from tggm import Graph, fit_graph


def completed(upper: np.ndarray, weights: np.ndarray, means: np.ndarray, covs: np.ndarray) -> np.ndarray:
    """Return the mean of pixels 32 to 63 given the others under a mixture of Gaussians."""
    near = [multivariate_normal(m[:32], C[:32, :32]).logpdf(upper) for m, C in zip(means, covs, strict=True)]
    slopes = [np.linalg.solve(C[:32, :32], C[:32, 32:]) for C in covs]
    parts = [m[32:] + (upper - m[:32]) @ B for m, B in zip(means, slopes, strict=True)]
    return np.einsum("nk,knp->np", softmax(np.transpose(near) + np.log(weights), 1), parts)


def main(rows: int = 1437, images: int = 360, hidden: int = 128, epochs: int = 60) -> np.ndarray:
    rng = np.random.default_rng(0)
    pixels = rng.permutation(load_digits().data + rng.uniform(size=(1797, 64))) / 17  # continuous grey values
    center, scale = pixels[:rows].mean(0), pixels[:rows].std(0)
    train, test = (pixels[:rows] - center) / scale, (pixels[-images:] - center) / scale
    graph = Graph().observed("v", 64).latent("h", hidden).couple("v", "h")
    graph = fit_graph(graph, {"v": train}, max_epochs=epochs, batch_size=128, learning_rate=0.05)
    found = graph.log_likelihood({"v": test}, engine="orthant", n_points=4000)
    lower = graph.moments({"v": np.where(np.arange(64) < 32, test, np.nan)}, engine="ep")["v"][0][:, 32:]
    fa, mix = FactorAnalysis(32).fit(train), GaussianMixture(10, reg_covar=0.1, random_state=0).fit(train)
    by_fa = completed(test[:, :32], np.ones(1), fa.mean_[None], fa.get_covariance()[None])
    by_mix = completed(test[:, :32], mix.weights_, mix.means_, mix.covariances_)
    ll = np.array([found.value.mean(), fa.score(test), mix.score(test)]) - np.log(scale).sum()
    rmse = np.sqrt(np.mean(((np.stack([lower, by_fa, by_mix]) - test[:, 32:]) * scale[32:]) ** 2, (1, 2)))
    print("graph, factor analysis, mixture: log-likelihood", ll.round(1), "error of pixels", rmse.round(3))
    return np.stack([ll, rmse])


if __name__ == "__main__":
    main()
