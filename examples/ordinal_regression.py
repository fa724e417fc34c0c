"""Ordinal regression: grades 0 < 1 < 2 < 3, reached in successive steps (sequential probit).

Step j is passed if f + b_j + noise > 0. A grade k means that steps before k were passed and step k was not;
later steps are missing.
"""

import numpy as np

from tggm import Graph, fit_graph


def signs(grade: np.ndarray) -> np.ndarray:
    """Return a column for each of the three steps: 1 passed, −1 not passed, NaN missing."""
    step = np.arange(3)
    return np.where(step < grade[:, None], 1.0, np.where(step == grade[:, None], -1.0, np.nan))


def main(rows: int = 300, epochs: int = 60) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, (rows, 1))
    grade = np.digitize(3 * np.abs(x[:, 0]) + rng.standard_normal(rows), [1.5, 4.0, 6.5])
    graph = (
        Graph().input("x", 1).latent("h", 4).free("f").inequality("step", 3)
        .connect("x", "h").connect("h", "f").connect("f", "step", np.ones((3, 1)), fixed=True)
    )  # fmt: skip
    graph = fit_graph(graph, {"x": x, "step": signs(grade)}, max_epochs=epochs)
    log_p = [
        graph.log_likelihood({"x": x, "step": signs(np.full(rows, k))}, engine="ep").value for k in range(4)
    ]
    p = np.exp(np.stack(log_p, 1))
    print("probabilities of the grades sum to", p.sum(1).min().round(3), "to", p.sum(1).max().round(3))
    accuracy = float((p.argmax(1) == grade).mean())
    print(f"accuracy {accuracy:.2f}; most frequent grade alone {np.bincount(grade).max() / rows:.2f}")
    return float(np.abs(p.sum(1) - 1).max()), accuracy


if __name__ == "__main__":
    main()
