"""Draw the paper's Figure 2: test RMSE on Concrete against σ0².

    TGGM_DATA=... python experiments/figure2.py                                      # minutes on two cores
    TGGM_DATA=... python experiments/figure2.py --splits 20 --ml-splits 20 --jobs 16

TGGM-BP (σ1² = 0.01) and TGGM-ML (σ1² = 0.5) with the paper's settings on a grid of σ0², and a ReLU network
trained by the same loop (TGGM-BP with σ0 = 1e-6). Every network is trained twice: on the training part of a
split, for the RMSE of the test rows, and on nine tenths of it, for the RMSE of the other tenth, on which the
best σ0² is chosen. Writes experiments/results/figure2.json and docs/images/figure2.png.
"""

from typing import Any

import numpy as np
from datasets import load_uci
from matplotlib.figure import Figure
from scores import rms
from store import IMAGES, RESULTS, Run, complete, mean_error, options, read

from tggm import TGGMRegressor

RESULT = RESULTS / "figure2.json"
GRID = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
RELU = 1e-12
OWN = {"bp": 0.01, "ml": 0.5}  # the paper's σ0²
NAMES = {"bp": ("TGGM-BP, σ1² = 0.01", "#0072B2"), "ml": ("TGGM-ML, σ1² = 0.5", "#D55E00")}


def work(method: str, s0: float, split: int, part: str, epochs: int, seed: int) -> dict[str, float]:
    """Return the RMSE of one network on test rows ("test") or on held-out training rows ("inner")."""
    X, y, splits = load_uci("concrete")
    train, rows = splits[split]
    if part == "inner":
        order = np.random.default_rng(split).permutation(train)
        train, rows = order[len(order) // 10 :], order[: len(order) // 10]
    make = TGGMRegressor.paper_ml if method == "ml" else TGGMRegressor.paper_bp
    model = make(hidden=(50,), sigma0=float(np.sqrt(s0)), max_epochs=epochs, random_state=seed + split)
    return {"rmse": rms(model.fit(X[train], y[train]).predict(X[rows]) - y[rows])}


def curve(runs: list[Run], method: str, part: str = "test") -> dict[float, list[float]]:
    """Return the RMSE by σ0², one value per split in the order of the splits."""
    found: dict[float, list[float]] = {}
    for run in sorted(runs, key=lambda run: (run["s0"], run["split"])):
        if (run["method"], run["part"]) == (method, part):
            found.setdefault(run["s0"], []).append(run["rmse"])
    return found


def optimum(runs: list[Run], method: str) -> float:
    """Return the σ0² with the smallest mean RMSE on held-out training rows."""
    inner = curve(runs, method, "inner")
    return min(inner, key=lambda s0: float(np.mean(inner[s0])))


def picture(runs: list[Run]) -> None:
    figure = Figure(figsize=(9.0, 3.9), layout="constrained")
    relu = next(iter(curve(runs, "relu").values()))
    for ax, (method, (title, colour)) in zip(figure.subplots(1, 2, sharey=True), NAMES.items(), strict=True):
        shown = curve(runs, method)
        mean, error = np.array([mean_error(v) for v in shown.values()]).T
        label = f"mean ± s.e. of {len(next(iter(shown.values())))} splits"
        ax.errorbar(list(shown), mean, error, color=colour, marker="o", markersize=4, capsize=3, label=label)
        ax.axhline(np.mean(relu), color="#222222", linestyle=(0, (4, 2)), label="ReLU network, same loop")
        ax.axvline(OWN[method], color="0.8", linewidth=1, zorder=0)
        best = optimum(runs, method)
        ax.plot([best], [np.mean(shown[best])], marker="o", markersize=11, fillstyle="none", color=colour)
        ax.set(xscale="log", xlabel="σ0²", title=title)
        ax.grid(True, color="0.92")
        ax.legend(frameon=False, fontsize=8)
    figure.axes[0].set_ylabel("test RMSE on Concrete")
    figure.savefig(IMAGES / "figure2.png", dpi=90)


def main() -> None:
    p = options(__doc__)
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--splits", type=int, default=5, help="of TGGM-BP and ReLU")
    p.add_argument("--ml-splits", type=int, default=2)
    p.add_argument("--draw", action="store_true", help="only draw the stored runs")
    args = p.parse_args()
    if not args.draw:
        tasks: list[tuple[Any, ...]] = []
        for method, splits in (("relu", args.splits), ("bp", args.splits), ("ml", args.ml_splits)):
            grid = (RELU,) if method == "relu" else GRID
            cells = [(s, i, part) for part in ("test", "inner") for i in range(splits) for s in grid]
            tasks += [(method, *cell, args.epochs, 0) for cell in cells]
        fields = ("method", "s0", "split", "part", "epochs", "seed")
        complete(RESULT, fields, work, tasks, jobs=args.jobs, force=args.force, epochs=args.epochs)
    picture(read(RESULT)["runs"])


if __name__ == "__main__":
    main()
