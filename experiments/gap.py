"""How far each method's view of the likelihood is from the exact one while it trains.

    TGGM_DATA=... python experiments/gap.py [--dataset boston] [--epochs 300]

One network of 50 units a method, on the first training part, one pass after the other (Adam at a constant
rate, noise learned). Every so many passes, at the parameters reached: the exact log-density of every training
row (Fourier inversion), and what mean field (converged), mean field by the paper's ten cycles, EP and the
Gaussian with the exact moments take it for, all in double precision. A network is trained by each of these
but the ten cycles. Writes experiments/results/gap.json and docs/images/gap.png.
"""

from typing import Any

import jax
import numpy as np
from datasets import load_uci
from matplotlib.figure import Figure
from networks import log_densities, member, rows_of
from runs import IMAGES, RESULTS, begin, complete, options, origin, read

from tggm import TGGMRegressor
from tggm.training import METHODS, Options

RESULT, IMAGE = RESULTS / "gap.json", IMAGES / "gap.png"
TRAINED = ("meanfield", "ep", "moments")
VIEWS = {
    "meanfield": METHODS["meanfield"](Options()),
    "cycles": METHODS["meanfield"](Options("cyclic", (10, 10))),
    "ep": METHODS["ep"](Options()),
    "moments": METHODS["moments"](Options()),
}
NAMES = {"meanfield": "mean field", "ep": "EP", "moments": "moments"}
COLOURS = {"meanfield": "#D55E00", "ep": "#009E73", "moments": "#0072B2"}


def judged(model: TGGMRegressor, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """The exact mean log-density, and each view's mean and mean absolute distance from it, in nats a row."""
    with jax.enable_x64(True):
        seen = member(model), rows_of(model, X, y)
        exact = np.asarray(log_densities(METHODS["exact"](Options()), *seen))
        found: dict[str, Any] = {"exact": float(exact.mean())}
        for name, method in VIEWS.items():
            gap = np.asarray(log_densities(method, *seen)) - exact
            found[name] = {"mean": float(gap.mean()), "absolute": float(np.abs(gap).mean())}
            found[name]["worst"] = float(np.abs(gap).max())
    return found


def run(method: str, dataset: str, epochs: int, every: int, seed: int) -> dict[str, Any]:
    """Train one network by passes over the data, judging it on the way."""
    X, y, splits = load_uci(dataset)
    X, y = X[splits[0][0]], y[splits[0][0]]
    model = TGGMRegressor.one_layer(
        (50,), method=method, n_members=1, learning_rate=5e-3, average=0.0, batch_size=50, random_state=seed
    )
    course = []
    for epoch in range(1, epochs + 1):
        model.partial_fit(X, y)
        if epoch == 1 or epoch % every == 0:
            course.append({"epoch": epoch, **judged(model, X, y)})
    return {"course": course, "noise": float(model.noise_[0, 0] / model.fitted_.scales.y.scale[0] ** 2)}


def picture(record: dict[str, Any]) -> None:
    figure = Figure(figsize=(9.0, 3.7), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, found in record["runs"].items():
        method = name.split()[0]
        course = found["course"]
        epochs = [c["epoch"] for c in course]
        left.plot(epochs, [c[method]["absolute"] for c in course], color=COLOURS[method], label=NAMES[method])
        right.plot(epochs, [c["exact"] for c in course], color=COLOURS[method], label=NAMES[method])
        if method == "moments":
            away = [c["meanfield"]["absolute"] for c in course]
            words = "mean field, on moments' network"
            left.plot(epochs, away, color=COLOURS["meanfield"], linestyle="--", label=words)
        if method == "meanfield":
            bound = [c["exact"] + c["meanfield"]["mean"] for c in course]
            right.plot(epochs, bound, color=COLOURS[method], linestyle=":", label="its bound")
    left.set(yscale="log", xlabel="passes over the data", ylabel="mean distance from exact, nats a row")
    left.set_title("objective against exact log-density")
    right.set(xlabel="passes over the data", ylabel="exact mean log-density, standardised")
    right.set_title("training rows, by training method")
    for ax in (left, right):
        ax.grid(True, color="0.92")
        ax.legend(frameon=False, fontsize=8)
    figure.savefig(IMAGE, dpi=90)


def main() -> None:
    p = options(__doc__)
    p.add_argument("--dataset", default="boston")
    p.add_argument("--epochs", type=int, default=300)
    p.add_argument("--every", type=int, default=10)
    args = p.parse_args()
    begin()
    if not args.render:
        settings = {"dataset": args.dataset, "epochs": args.epochs, "every": args.every, "seed": args.seed}
        tasks = [(method, *settings.values()) for method in TRAINED]
        complete(RESULT, origin(settings=settings), run, tasks, args.jobs, force=args.force)
    record = read(RESULT)
    for name, found in record["runs"].items():
        last = found["course"][-1]
        print(f"{name}: exact {last['exact']:.4f}", {k: last[k]["mean"] for k in VIEWS})
    picture(record)


if __name__ == "__main__":
    main()
