"""Shallow regression as a graph: inputs, truncated latent variables, an observed target."""

import numpy as np

from tggm import Graph, fit_graph


def main(rows: int = 300, epochs: int = 120) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (rows, 1))
    y = np.abs(x[:, 0]) + 0.1 * rng.standard_normal(rows)

    graph = Graph().input("x", 1).latent("h", 8).observed("y").connect("x", "h").connect("h", "y")
    graph = fit_graph(graph, {"x": x, "y": y}, max_epochs=epochs)
    print(graph)

    grid = np.linspace(-2.5, 2.5, 6)
    mean, var = (m[:, 0] for m in graph.moments({"x": grid[:, None]}, engine="ep")["y"])
    for row in zip(grid, mean, np.sqrt(var), np.abs(grid), strict=True):
        print("x {:5.1f}   predicted {:.2f} ± {:.2f}   truth {:.2f}".format(*row))
    log_density = graph.log_likelihood({"x": x, "y": y}, engine="ep")
    print(f"log-likelihood per row {log_density.value.mean():.3f} (EP error {log_density.error.max():.0e})")
    return float(np.abs(mean - np.abs(grid)).max()), float(log_density.value.mean())


if __name__ == "__main__":
    main()
