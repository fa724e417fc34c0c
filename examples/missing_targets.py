"""Two correlated outputs with half of the targets missing (NaN)."""

import numpy as np

from tggm import Graph, fit_graph


def main(rows: int = 300, epochs: int = 480) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, (rows, 1))
    shared = 0.4 * rng.standard_normal(rows)  # noise that both outputs share
    y = np.stack([np.abs(x[:, 0]) + shared, 1 - np.abs(x[:, 0]) + shared], 1)
    y += 0.1 * rng.standard_normal(y.shape)
    seen = np.where(rng.uniform(size=y.shape) < 0.5, np.nan, y)

    graph = (
        Graph().input("x", 1).latent("h", 6).free("common").observed("y", 2)
        .connect("x", "h").connect("h", "y").connect("common", "y")
    )  # fmt: skip
    graph = fit_graph(graph, {"x": x, "y": seen}, max_epochs=epochs)
    # the first output given the second
    row = {"x": [[1.0]], "y": [[np.nan, np.nan]]}
    high = {"x": [[1.0]], "y": [[np.nan, 0.8]]}
    (before, v0), (after, v1) = (graph.moments(given, engine="ep")["y"] for given in (row, high))
    print(f"y1 at x = 1: {before[0, 0]:.2f} ± {v0[0, 0] ** 0.5:.2f}")
    print(f"y1 at x = 1 if y2 = 0.8, which is high: {after[0, 0]:.2f} ± {v1[0, 0] ** 0.5:.2f}")
    return float(after[0, 0] - before[0, 0]), float(np.sqrt(v1[0, 0] / v0[0, 0]))


if __name__ == "__main__":
    main()
