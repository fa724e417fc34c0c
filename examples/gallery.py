"""Plots of a regression: the functions of `tggm.plotting` for one fitted model.

    python examples/gallery.py [FOLDER]

The data are simulated: one feature, a curve, and noise whose deviation grows with the feature.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from tggm import TGGMRegressor, plotting


def draw_data(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw x uniform on [0, 4]; y = sin 2x + x/2 plus noise of standard deviation 0.1 to 0.7."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 4, rows)
    return x[:, None], np.sin(2 * x) + x / 2 + (0.1 + 0.15 * x) * rng.standard_normal(rows)


def pictures(model: TGGMRegressor) -> dict:
    """Return a drawing function for each file name."""
    X, y = draw_data(400, seed=1)
    dist = model.predict_dist(X)
    grid = np.linspace(0, 4, 200)
    fan = model.predict_dist(grid[:, None])
    return {
        "activation": lambda ax: plotting.plot_activation(ax=ax),
        "fan": lambda ax: plotting.plot_fan(fan, grid, data=(X[:, 0], y), ax=ax),
        "calibration": lambda ax: plotting.plot_calibration(dist, y, ax=ax),
        "pit": lambda ax: plotting.plot_pit(dist, y, ax=ax),
        "predicted": lambda ax: plotting.plot_predicted(dist, y, ax=ax),
    }


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model = TGGMRegressor(random_state=0).fit(*draw_data(800, seed=0))
    for name, draw in pictures(model).items():
        figure = Figure(figsize=(6.0, 4.2), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(folder / f"{name}.png", dpi=150)
        print(folder / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("demo") / "gallery")
