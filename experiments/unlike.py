"""Draw predictions for rows unlike the training rows (docs/images/unlike.png).

    python experiments/unlike.py

Beyond the range of the training rows (3x, x², sin x), in a gap, for a word that no training row has, and for
rows of new groups, with and without `groups=`. Truths are black, 95 % intervals shaded.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from store import IMAGES

from tggm import TGGMRegressor

BLUE, ORANGE = "#3b6fb6", "#d9822b"
SETTINGS = {"n_members": 6, "max_epochs": 150, "random_state": 0}
CURVES: dict[str, Callable[[Any], Any]] = {"3x": lambda x: 3 * x, "x²": np.square, "sin x": np.sin}


def curve(ax: Any, title: str, truth: Callable[[Any], Any], x: np.ndarray, ends: float) -> None:
    """Draw training rows, truth, mean and interval."""
    rng = np.random.default_rng(0)
    y, grid = truth(x) + 0.1 * rng.standard_normal(len(x)), np.linspace(-ends, ends, 201)
    model = TGGMRegressor(**SETTINGS).fit(x[:, None], y)
    low, high = model.predict_interval(grid[:, None], 0.95)
    ax.fill_between(grid, low, high, color=BLUE, alpha=0.25, linewidth=0)
    ax.plot(grid, model.predict(grid[:, None]), color=BLUE)
    ax.plot(grid, truth(grid), color="black", linewidth=1, linestyle="--")
    ax.plot(x[:200], y[:200], ".", color="#777777", markersize=2)
    ax.set(title=title, xlabel="x")


def word(ax: Any) -> None:
    """Draw intervals for known stores and a new one, and the levels of the stores."""
    rng = np.random.default_rng(1)
    level, store = rng.standard_normal(30), rng.integers(0, 30, 1500)
    X = pd.DataFrame({"store": [f"s{k}" for k in store], "x": rng.uniform(-1, 1, 1500)})
    model = TGGMRegressor(**SETTINGS).fit(X, level[store] + 0.2 * rng.standard_normal(1500))
    names = [*(f"s{k}" for k in range(10)), "new"]
    rows = pd.DataFrame({"store": names, "x": 0.0})
    low, high = model.predict_interval(rows, 0.95)
    ax.vlines(range(11), low, high, color=[BLUE] * 10 + [ORANGE], linewidth=5, alpha=0.5)
    ax.plot(range(10), level[:10], "k.")
    ax.plot(np.full(20, 10), level[10:], "k.", markersize=3)
    ax.set(title="a new store", xticks=range(11), xticklabels=names)


def group(ax: Any) -> None:
    """Draw intervals for rows of new groups from fits with and without `groups=`."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(80), 10)
    X = rng.standard_normal((80, 2))[groups] + 0.1 * rng.standard_normal((800, 2))
    y = X[:, 0] + rng.standard_normal(80)[groups] + 0.2 * rng.standard_normal(800)
    known, new = groups < 60, np.arange(600, 800, 10)
    for shift, colour, given in ((-0.2, BLUE, None), (0.2, ORANGE, groups[known])):
        low, high = TGGMRegressor(**SETTINGS).fit(X[known], y[known], groups=given).predict_interval(X[new])
        label = "single rows" if given is None else "groups="
        ax.vlines(np.arange(20) + shift, low, high, color=colour, linewidth=3, alpha=0.5, label=label)
    ax.plot(range(20), y[new], "k.", markersize=4)
    ax.legend(frameon=False, fontsize=8)
    ax.set(title="new groups (90 %)", xlabel="row", xticks=range(0, 20, 5))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    figure = Figure(figsize=(9.0, 5.6), layout="constrained")
    axes, rng = figure.subplots(2, 3).ravel(), np.random.default_rng(0)
    for ax, (title, truth) in zip(axes, CURVES.items(), strict=False):
        curve(ax, f"{title}, known from −1 to 1", truth, rng.uniform(-1, 1, 300), 4.0)
    outer = rng.uniform(1, 3, 300) * rng.choice([-1, 1], 300)
    curve(axes[3], "a gap: sin 2x", lambda x: np.sin(2 * x), outer, 3.0)
    word(axes[4])
    group(axes[5])
    figure.savefig(IMAGES / "unlike.png", dpi=90)
