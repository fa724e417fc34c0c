"""Do hidden units with two limits raise the held-out likelihood? Development tables, the default otherwise.

    TGGM_DATA=... python experiments/units.py [--tables servo,mpg,mnist] [--units tanh,learned] [--jobs 2]
    python experiments/units.py --render

For every table (`experiments.tables`), kind of unit and split: the figures of `experiments.defaults`, and the
limits that were learned, in units of σ0. `mnist` is one layer of 100 units for 20 epochs, trained on 50,000
images and judged on the other 10,000 training images, which the split chooses. Figures go to
experiments/results/units.json as they come, and what is stored is not made again. `--render` draws what the
units do with their location, docs/images/units.png; `experiments/render.py` fills the table of docs/units.md.
"""

import time
import warnings
from typing import Any

import numpy as np
from classify import some
from datasets import load_mnist
from defaults import judged
from opponents import class_figures
from runs import IMAGES, RESULTS, begin, complete, options, origin

from tables import SMALL, SPLITS, TABLES, Split
from tggm import TGGMClassifier, TGGMRegressor
from tggm.special import box_moments, standard_moments

UNITS = ("relu", "tanh", "sigmoid", "learned")
WIDTHS = {"2 σ0": 2.0, "sigmoid: 4 σ0": 4.0, "tanh: 8 σ0": 8.0}
MNIST = "mnist"
ONE_LAYER = {"hidden": (100,), "batch_size": 500, "max_epochs": 20, "standardize": "whole"}
RESULT = RESULTS / "units.json"


def work(table: str, units: str, k: int) -> dict[str, Any]:
    """One kind of unit on one split, whose number is also the seed."""
    warnings.simplefilter("ignore")
    split = digits(k) if table == MNIST else TABLES[table].split(k)
    is_class = table == MNIST or TABLES[table].task == "classification"
    kind: Any = TGGMClassifier if is_class else TGGMRegressor
    model = kind.one_layer(**ONE_LAYER) if table == MNIST else kind()
    clock = time.perf_counter()
    model.set_params(units=units, random_state=k).fit(split.X_train, split.y_train)
    seconds = time.perf_counter() - clock
    if is_class:
        figures = class_figures(split.y_test, model.classes_, model.predict_proba(split.X_test))
    else:
        figures = judged(model.predict_dist(split.X_test), split.y_test)
    figures |= {"fit_s": seconds, "epochs": model.n_iter_, "n_test": len(split.y_test)}
    return figures | ({"widths": widths(model)} if units == "learned" else {})


def digits(k: int) -> Split:
    """Training images of MNIST, 10,000 of them set aside."""
    X, y, _, _ = load_mnist()
    order = np.random.default_rng(k).permutation(len(X))
    X, y = X[order].astype(np.float32) / 255, y[order]
    return Split(X[:-10_000], y[:-10_000], X[-10_000:], y[-10_000:])


def widths(model: Any) -> list[float]:
    """Mean over members of the learned width of each layer."""
    return np.exp(model.fitted_.model.arrays()["hidden.limits.log_width"]).mean(0).round(3).tolist()


def draw() -> None:
    """Mean and standard deviation of units by their location, both in units of σ0."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    a = np.linspace(-8, 14, 441)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for name, width in WIDTHS.items():
        mean, var = (np.asarray(x) for x in box_moments(a, 0.0, width))
        for ax, y in zip(axes, (mean, np.sqrt(var)), strict=True):
            ax.plot(a, y, label=name)
    for ax, y in zip(axes, standard_moments(a), strict=True):
        y = np.asarray(y) if ax is axes[0] else np.sqrt(np.asarray(y))
        ax.plot(a, y, "k--", linewidth=1, label="relu: no upper limit")
    axes[0].set(xlabel="location, in units of σ0", ylabel="mean above the lower limit", ylim=(-0.3, 13))
    axes[1].set(xlabel="location, in units of σ0", ylabel="standard deviation")
    axes[0].legend(frameon=False)
    figure.savefig(IMAGES / "units.png", dpi=130)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--tables", type=some((*TABLES, MNIST)), default=list(SMALL), metavar="NAME,...")
    parser.add_argument("--units", type=some(UNITS), default=list(UNITS), metavar="NAME,...")
    parser.add_argument("--splits", type=int, default=SPLITS, help="the first so many")
    args = parser.parse_args()
    begin()
    if args.render:
        draw()
        return
    tasks = [(t, u, k) for k in range(args.splits) for t in args.tables for u in args.units]
    made_by = origin(settings={"seed": "number of the split"})
    complete(RESULT, made_by, work, tasks, jobs=args.jobs, force=args.force)


if __name__ == "__main__":
    main()
