"""Censored regression: for targets above a limit, only the limit is known."""

import numpy as np

from tggm import Censored, Graph, fit_graph


def main(rows: int = 300, epochs: int = 120, limit: float = 1.5) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (rows, 1))
    truth = np.abs(x[:, 0]) + 0.2 * rng.standard_normal(rows)
    side = (truth > limit).astype(int)  # 1: at least the value, 0: the value
    y = np.minimum(truth, limit)
    print(f"{100 * side.mean():.0f} % of the targets are censored at {limit}")

    graph = Graph().input("x", 1).latent("h", 6).observed("y").connect("x", "h").connect("h", "y")
    censored = fit_graph(graph, {"x": x, "y": Censored(y, side)}, max_epochs=epochs)
    seen = side == 0
    dropped = fit_graph(graph, {"x": x[seen], "y": y[seen]}, max_epochs=epochs)

    grid = np.linspace(-2.5, 2.5, 21)[:, None]
    errors = []
    for name, model in (("censored rows used", censored), ("censored rows dropped", dropped)):
        mean = model.moments({"x": grid}, engine="ep")["y"][0]
        errors.append(float(np.sqrt(np.mean((mean - np.abs(grid)) ** 2))))
        print(f"{name}: error of the mean {errors[-1]:.3f}")
    return errors[0], errors[1]


if __name__ == "__main__":
    main()
