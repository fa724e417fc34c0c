"""Handwritten digits: accuracy, log-probability, calibration and seconds of TGGMClassifier.

    TGGM_DATA=... python experiments/mnist.py --methods moments,bp --hidden 100,200
    TGGM_DATA=... python experiments/mnist.py --validate --methods meanfield --set sigma0=0.5
    TGGM_DATA=... python experiments/mnist.py --grid --learning-rate 1e-3,3e-3 --weight-decay 1,3

60,000 images to train on, 10,000 to test on, pixels / 255, no augmentation, 60 epochs of batches of 500. The
first form uses the public interface, prints test figures and writes experiments/results/mnist.json. The
others never look at a test image, but train on 50,000 images and compare on the other 10,000 training images:
`--validate` adds one choice of settings to experiments/results/mnist_validation.json, `--grid` trains the
product of the alternatives at once. A method "moments>meanfield" trains by the one and goes on by the other.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from classify import HEADER, LINE, add, add_grid_options, judge, many, run_grid, write
from datasets import load_mnist

from tggm import TGGMClassifier

MEAN, DEVIATION = 0.1307, 0.3081  # of the pixels of the training images, for the grid


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--methods", type=many(str), default=["moments", "bp"])
    p.add_argument("--hidden", type=many(int), default=[100, 200])
    p.add_argument("--members", type=int, default=1)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--seeds", type=int, default=1, help="repetitions with other seeds")
    p.add_argument("--rows", type=int, default=60_000, help="training images to use, for a quick look")
    p.add_argument(
        "--set", action="append", default=[], metavar="NAME=JSON", help="a setting of the estimator"
    )
    p.add_argument(
        "--opponents", action="store_true", help="scikit-learn's MLPClassifier of the same size too"
    )
    p.add_argument("--once", action="store_true", help="do not fit again to time it without compilation")
    p.add_argument("--validate", action="store_true", help="figures on 10,000 held-out training images")
    p.add_argument("--raw", action="store_true", help="grid on pixels / 255 without subtracting their mean")
    p.add_argument("--out", type=Path, help="experiments/results/mnist.json, or mnist_validation.json")
    add_grid_options(p)
    args = p.parse_args()
    name = "mnist_grid" if args.grid else "mnist_validation" if args.validate else "mnist"
    out = args.out or Path(f"experiments/results/{name}.json")
    X, y, X_test, y_test = load_mnist()
    order = np.random.default_rng(0).permutation(len(X))[: args.rows]  # the same validation part in every run
    X, y = X[order].astype(np.float32) / 255, y[order]
    if args.grid:
        args.columns = X.shape[1]
        X = X if args.raw else (X - MEAN) / DEVIATION
        run_grid(X.astype(np.float32), y, len(X) // 6, args, out)
        return
    X_test = X_test.astype(np.float32) / 255
    if args.validate:
        X, y, X_test, y_test = X[:-10_000], y[:-10_000], X[-10_000:], y[-10_000:]
    settings = {name: json.loads(value) for name, value in (item.split("=", 1) for item in args.set)}
    settings = {"batch_size": args.batch, "max_epochs": args.epochs, "standardize": "whole", **settings}
    runs = []
    print(HEADER)

    def report(name: str, hidden: int, model: object, *, again: bool) -> None:
        runs.append(judge(name, hidden, model, (X, y), (X_test, y_test), again=again))
        print(LINE.format(**runs[-1]), flush=True)
        keep = add if args.validate else write  # now: a long run may be cut short
        keep(out, {"settings": settings, "seed": args.seed, "runs": runs})

    for hidden in args.hidden:
        for method in args.methods:
            for seed in range(args.seed, args.seed + args.seeds):
                first, *then = method.split(">")
                model = TGGMClassifier.one_layer(
                    hidden=(hidden,), method=first, n_members=args.members, random_state=seed,
                    **({} if then else settings),
                )  # fmt: skip
                for later in then:
                    model.set_params(batch_size=args.batch, max_epochs=args.epochs, standardize="whole")
                    model.fit(X, y).set_params(**settings, method=later, warm_start=True)
                name = method if args.members == 1 else f"{method} x{args.members}"
                report(name, hidden, model, again=seed == args.seed and not then and not args.once)
        if args.opponents:
            from sklearn.neural_network import MLPClassifier

            relu = MLPClassifier(
                (hidden,), batch_size=500, max_iter=args.epochs, tol=0, random_state=args.seed
            )
            report("scikit-learn MLP", hidden, relu, again=False)


if __name__ == "__main__":
    main()
