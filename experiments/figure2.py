"""The paper's Figure 2: test RMSE on Concrete against σ0², for TGGM-BP, and what else bears on it.

    TGGM_DATA=... python experiments/figure2.py                                      # minutes on two cores
    TGGM_DATA=... python experiments/figure2.py --epochs 1000 --splits 20 --ml-splits 20 --jobs 16

The paper's presets on a grid of σ0², everything else as it is: TGGM-BP (σ1² = 0.01) and TGGM-ML (σ1² = 0.5).
Beside them a ReLU network trained by the same loop from the same start; and both methods with initial weights
and steps carried along with σ0² (experiments/gauge.py), on fewer splits. Every network is trained twice: on
the training part of a split, for the RMSE of its test rows, and on nine tenths of that, for the RMSE of
the others, which choose an optimal σ0². Writes experiments/results/figure2.json, docs/images/figure2.png.
"""

import argparse
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import load_uci
from gauge import fit_in_gauge
from jax import Array
from jax import numpy as jnp
from matplotlib.figure import Figure
from runs import IMAGES, RESULTS, begin, complete, key, mean_error, options, origin, read

from tggm import TGGMRegressor
from tggm.estimators.recipe import Recipe
from tggm.models import Model
from tggm.training import Rows
from tggm.training.methods import Squares

RESULT, IMAGE = RESULTS / "figure2.json", IMAGES / "figure2.png"
GRID = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
OWN = {"bp": 0.1, "ml": 0.5**0.5}  # the preset's σ0
DATASET = "concrete"


@dataclass(frozen=True)
class ReluError(Squares):
    """The squared error of W1 max(0, W0 x + b0) + b1."""

    def __call__(self, model: Model, rows: Rows, progress: Array) -> Array:
        """What `Squares` has, but for constants that nothing depends on."""
        mean = model.likelihood.output.of(jnp.maximum(model.hidden.locations(rows.X), 0.0))
        return -0.5 * ((rows.y - mean) ** 2 * jnp.exp(-model.likelihood.log_noise)[None, :]).sum(-1)


class ReluRegressor(TGGMRegressor):
    """Trains the ReLU network."""

    def recipe(self) -> Recipe:
        """The settings of its parent, with the other error."""
        found = super().recipe()
        found.method = ReluError()
        return found


PRESET = {"bp": TGGMRegressor.paper_bp, "ml": TGGMRegressor.paper_ml, "relu": ReluRegressor.paper_bp}


def fitted(method: str, s0: float, X: np.ndarray, y: np.ndarray, **settings: Any) -> TGGMRegressor:
    name, _, gauged = method.partition("-")
    model = PRESET[name](hidden=(50,), sigma0=float(np.sqrt(s0)), **settings)
    return fit_in_gauge(model, X, y, OWN[name]) if gauged else model.fit(X, y)


def run(method: str, s0: float, split: int, part: str, epochs: int, seed: int) -> dict[str, float]:
    """RMSE of one network: "test" on the split's test rows, "inner" on a tenth of its training rows."""
    X, y, splits = load_uci(DATASET)
    train, judged = splits[split]
    if part == "inner":
        order = np.random.default_rng(split).permutation(train)
        train, judged = order[len(order) // 10 :], order[: len(order) // 10]
    clock = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = fitted(method, s0, X[train], y[train], max_epochs=epochs, random_state=seed + split)
    error = model.predict(X[judged]) - y[judged]
    return {
        "rmse": float(np.sqrt(np.mean(error**2))),
        "best_epoch": int(model.best_epoch_[0]),
        "warnings": len(said),
        "fit_s": round(time.perf_counter() - clock, 2),
    }


def wanted(args: argparse.Namespace) -> list[tuple[Any, ...]]:
    """All runs of the figure, the quick ones first."""
    runs: list[tuple[Any, ...]] = []
    for method, splits in (("relu", args.splits), ("bp", args.splits), ("ml", args.ml_splits)):
        grid = [1e-12] if method == "relu" else list(GRID)
        runs += [(method, s, i, part) for part in ("test", "inner") for i in range(splits) for s in grid]
    for method in ("bp", "ml"):
        runs += [(f"{method}-gauged", s, i, "test") for i in range(args.gauged_splits) for s in GRID]
    return [(*task, args.epochs, args.seed) for task in runs]


def curve(record: dict[str, Any], method: str, part: str = "test") -> dict[float, list[float]]:
    """RMSE by σ0², one value for each split, in the order of the splits."""
    found: dict[float, dict[int, float]] = {}
    for name, figures in record["runs"].items():
        kind, s0, split, where = name.split()[:4]
        if (kind, where) == (method, part):
            found.setdefault(float(s0), {})[int(split)] = figures["rmse"]
    return {s0: [by_split[i] for i in sorted(by_split)] for s0, by_split in sorted(found.items())}


def optimum(record: dict[str, Any], method: str) -> float:
    """The σ0² with the least mean RMSE on rows held out of the training parts."""
    inner = curve(record, method, "inner")
    return min(inner, key=lambda s0: float(np.mean(inner[s0])))


def picture(record: dict[str, Any]) -> None:
    figure = Figure(figsize=(9.0, 3.9), layout="constrained")
    relu = next(iter(curve(record, "relu").values()))
    names = {"bp": ("TGGM-BP, σ1² = 0.01", "#0072B2"), "ml": ("TGGM-ML, σ1² = 0.5", "#D55E00")}
    for ax, (method, (title, colour)) in zip(figure.subplots(1, 2, sharey=True), names.items(), strict=True):
        shown = curve(record, method)
        mean, error = np.array([mean_error(v) for v in shown.values()]).T
        n = len(next(iter(shown.values())))
        ax.errorbar(
            list(shown), mean, error, color=colour, marker="o", markersize=4, capsize=3,
            label=f"mean ± s.e. of {n} splits",
        )  # fmt: skip
        ax.plot(
            list(shown), [v[0] for v in shown.values()], color=colour, linestyle=":", label="split 0 alone"
        )
        gauged = curve(record, f"{method}-gauged")
        ax.plot(
            list(gauged), [np.mean(v) for v in gauged.values()], color="#009E73", marker="s", markersize=3,
            label=f"start and steps carried along (the first {len(next(iter(gauged.values())))})",
        )  # fmt: skip
        ax.axhline(np.mean(relu), color="#222222", linestyle=(0, (4, 2)), label="ReLU network, same loop")
        ax.axvline(OWN[method] ** 2, color="0.8", linewidth=1, zorder=0)
        best = optimum(record, method)
        ax.plot([best], [np.mean(shown[best])], marker="o", markersize=11, fillstyle="none", color=colour)
        ax.set(xscale="log", xlabel="σ0²", title=title)
        ax.grid(True, color="0.92")
        ax.legend(frameon=False, fontsize=8)
    figure.axes[0].set_ylabel("test RMSE on Concrete")
    figure.savefig(IMAGE, dpi=90)


def main() -> None:
    p = options(__doc__)
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--splits", type=int, default=5, help="of TGGM-BP and ReLU, the first so many")
    p.add_argument("--ml-splits", type=int, default=2)
    p.add_argument("--gauged-splits", type=int, default=1)
    args = p.parse_args()
    begin()
    if not args.render:
        settings = {"dataset": DATASET, "epochs": args.epochs, "seed": args.seed}
        complete(RESULT, origin(settings=settings), run, wanted(args), args.jobs, force=args.force)
    record = read(RESULT)
    for method in ("relu", "bp", "bp-gauged", "ml", "ml-gauged"):
        print(
            method,
            {key([s]): "{:.3f} ± {:.3f}".format(*mean_error(v)) for s, v in curve(record, method).items()},
        )
    picture(record)


if __name__ == "__main__":
    main()
