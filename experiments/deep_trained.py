"""How far the moments of trained directed models can be trusted: propagation against draws.

    TGGM_DATA=... python experiments/deep_trained.py [--draws 40000] [--hidden 10-10,50-50]

Training moves weights away from where they started, and may move them to where propagation errs. One network
by `moments` for each size on the first split of Concrete and Energy, 25 test rows: error of the mean in
standard deviations of y, relative error of the standard deviation, median and largest; draws err by 0.005 and
0.4 %. Classes of the 8×8 digits: error of a probability, over classes and the 100 least sure rows. Stores
experiments/results/deep_trained.json.
"""

import argparse
from typing import Any

import numpy as np
from classify import many
from datasets import load_uci
from deep import layers
from networks import member
from runs import RESULTS, origin, write
from scipy.special import log_ndtr, ndtri_exp
from sklearn.datasets import load_digits

from tggm import TGGMClassifier, TGGMRegressor
from tggm.models import Model

TABLES = ("concrete", "energy")
ROWS, CLASS_ROWS = 25, 100


def latent(rng: np.random.Generator, model: Model, x: np.ndarray, draws: int) -> np.ndarray:
    """Draws of the last hidden layer given the features of one row, (draws, units)."""
    hidden = model.hidden
    sigma0 = hidden.s0**0.5
    u = np.broadcast_to(hidden.W0 @ x + hidden.b0, (draws, len(hidden.b0)))
    for level in range(len(hidden.W) + 1):
        # by logarithms: trained units may be off by tens of deviations
        h = u - sigma0 * ndtri_exp(np.log1p(-rng.random(u.shape)) + log_ndtr(u / sigma0))
        u = h @ hidden.W[level].T + hidden.b[level] if level < len(hidden.W) else u
    return h


def drawn(rng: np.random.Generator, model: Model, x: np.ndarray, draws: int) -> np.ndarray:
    """Draws of the outputs W1 h + b1 for one standardised row, (draws, n), in the model's own units."""
    output = model.likelihood.output
    return latent(rng, model, x, draws) @ output.W1.T + output.b1


def regression(name: str, hidden: str, draws: int, rng: np.random.Generator) -> dict[str, Any]:
    """Errors of mean and deviation for test rows of a table."""
    X, y, splits = load_uci(name)
    train, test = splits[0]
    model = TGGMRegressor.one_layer(hidden=layers(hidden), n_members=1, random_state=0).fit(
        X[train], y[train]
    )
    chosen = test[:ROWS]
    mean, std = model.predict(X[chosen], return_std=True)
    network, (x_scale, (shift, scale)) = member(model), model.fitted_.scales
    noise = np.exp(network.likelihood.log_noise)
    truth = []
    for x in x_scale.apply(X[chosen]):
        z = drawn(rng, network, x, draws)[:, 0]
        truth.append((z.mean() * scale[0] + shift[0], np.sqrt(z.var() + noise[0]) * scale[0]))
    m, s = np.array(truth).T
    errors = {"mean": _ends(np.abs(mean - m) / s), "std": _ends(np.abs(std / s - 1))}
    return {"data": name, "hidden": hidden, **errors}


def classes(hidden: str, draws: int, rng: np.random.Generator) -> dict[str, Any]:
    """Errors of the probabilities of the rows that a model of the digits is least sure of."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:1200], order[1200:]
    model = TGGMClassifier.one_layer(hidden=layers(hidden), random_state=0).fit(X[train], y[train])
    p = model.predict_proba(X[test])
    unsure = np.argsort(p.max(1))[:CLASS_ROWS]
    errors = []
    for row, x in zip(unsure, model.fitted_.scales.x.apply(X[test[unsure]]), strict=True):
        z = drawn(rng, member(model), x, draws)
        best = (z + rng.standard_normal(z.shape)).argmax(1)
        errors.append(np.abs(p[row] - np.bincount(best, minlength=p.shape[1]) / draws))
    return {"data": "digits", "hidden": hidden, "probability": _ends(np.array(errors))}


def _ends(errors: np.ndarray) -> list[float]:
    return [float(np.median(errors)), float(errors.max())]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--draws", type=int, default=40_000)
    p.add_argument("--hidden", type=many(str), default=["10-10", "50-50", "20-20-20"])
    args = p.parse_args()
    rng = np.random.default_rng(0)
    rows = []
    for hidden in args.hidden:
        for name in TABLES:
            rows.append(regression(name, hidden, args.draws, rng))
            print(rows[-1], flush=True)
        rows.append(classes(hidden, args.draws, rng))
        print(rows[-1], flush=True)
    write(RESULTS / "deep_trained.json", {**origin(), "draws": args.draws, "rows": rows})


if __name__ == "__main__":
    main()
