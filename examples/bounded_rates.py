"""Rates censored at 0 and 1 (Tobit regression), compared with SciPy."""

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm

from tggm import Censored, Graph, fit_graph


def tobit(x: np.ndarray, y: np.ndarray, side: np.ndarray) -> np.ndarray:
    """Maximise the likelihood over slope, intercept and log deviation."""

    def loss(p: np.ndarray) -> float:
        mean, std = p[0] * x + p[1], np.exp(p[2])
        at_end = norm.logcdf(side * (mean - y) / std)
        return -np.where(side == 0, norm.logpdf(y, mean, std), at_end).sum()

    return minimize(loss, [0.1, 0.5, 0.0], method="Nelder-Mead").x


def main(rows: int = 400, epochs: int = 100) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (rows, 1))
    y = np.clip(0.5 + 0.6 * x[:, 0] + 0.2 * rng.standard_normal(rows), 0, 1)
    side = (y == 1).astype(int) - (y == 0)  # 1: at least 1, −1: at most 0
    graph = Graph().input("x", 1).observed("y").connect("x", "y")
    graph = fit_graph(graph, {"x": x, "y": Censored(y, side)}, max_epochs=epochs, weight_decay=0.0)
    slope, noise = graph.parameters["weights"]["x -> y"].item(), graph.parameters["log_noise"]["y"].item() / 2
    best, _, log_std = tobit(x[:, 0], y, side)
    naive = np.polyfit(x[:, 0], y, 1)[0]
    print(f"{100 * np.mean(side != 0):.0f} % of the rates are 0 or 1")
    print(f"slope, 0.6 in truth: graph {slope:.3f}, SciPy {best:.3f}, limits as values {naive:.3f}")
    print(f"noise, 0.2 in truth: graph {np.exp(noise):.3f}, SciPy {np.exp(log_std):.3f}")
    return abs(slope - best), abs(np.expm1(noise - log_std))


if __name__ == "__main__":
    main()
