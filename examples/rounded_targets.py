"""Rounded targets: each is between two limits (two inequalities on y), compared with SciPy."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr

from tggm import Graph, fit_graph


def interval_regression(x: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Maximise the probability of the intervals over slope, intercept and log deviation."""

    def loss(p: np.ndarray) -> float:
        low, high = ndtr((ends - (p[0] * x + p[1])[:, None]) / np.exp(p[2])).T
        return -np.log(np.maximum(high - low, 1e-300)).sum()

    return minimize(loss, [0.5, 0.0, 0.0], method="Nelder-Mead").x


def main(rows: int = 400, epochs: int = 100) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (rows, 1))
    y = np.round(0.6 * x[:, 0] + 0.35 * rng.standard_normal(rows))  # whole numbers
    ends = np.stack([y - 0.5, y + 0.5], 1)
    graph = (
        Graph().input("x", 1).input("ends", 2).observed("y").connect("x", "y")
        .inequality("inside", 2, noise=1e-3).hold("inside")  # y − lower end, upper end − y
        .connect("y", "inside", [[1.0], [-1.0]], fixed=True)
        .connect("ends", "inside", [[-1.0, 0.0], [0.0, 1.0]], fixed=True)
    )  # fmt: skip
    graph = fit_graph(graph, {"x": x, "ends": ends, "inside": np.ones((rows, 2))}, max_epochs=epochs)
    slope, noise = graph.parameters["weights"]["x -> y"].item(), graph.parameters["log_noise"]["y"].item() / 2
    best, _, log_std = interval_regression(x[:, 0], ends)
    print(f"slope, 0.6 in truth: graph {slope:.3f}, SciPy {best:.3f}")
    print(f"noise, 0.35 in truth: graph {np.exp(noise):.3f}, SciPy {np.exp(log_std):.3f}")
    return abs(slope - best), abs(np.expm1(noise - log_std))


if __name__ == "__main__":
    main()
