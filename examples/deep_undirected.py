"""The paper's deep model: two truncated layers with one joint truncated Gaussian."""

import numpy as np

from tggm import Graph, fit_graph


def main(rows: int = 300, epochs: int = 100) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (rows, 2))
    truth = np.maximum(x[:, 0], x[:, 1]) - np.abs(x[:, 0] - x[:, 1] / 2)
    y = truth + 0.1 * rng.standard_normal(rows)

    graph = (
        Graph()
        .input("x", 2)
        .latent("first", 6)
        .latent("second", 4)
        .observed("y")
        .connect("x", "first")
        .connect("first", "second")
        .connect("second", "y")
    )
    graph = fit_graph(graph, {"x": x, "y": y}, max_epochs=epochs)
    print(graph)
    print("posterior:", type(graph.posterior({"x": x[:1], "y": y[:1]}).precision).__name__, "precision")
    mean = graph.moments({"x": x}, engine="ep")["y"][0][:, 0]
    error = float(np.sqrt(np.mean((mean - truth) ** 2)))
    print(f"error of the mean {error:.3f}, spread of the truth {truth.std():.3f}")
    return error, float(truth.std())


if __name__ == "__main__":
    main()
