"""How far the probabilities of TGGMClassifier are from those of its own model.

    python experiments/probabilities.py        # about a minute on two cores

Networks of several sizes on the 8×8 digits (10 classes) and the wines (3 classes) that ship with
scikit-learn. On the 40 test rows that are least sure, `predict_proba` is compared with the mean over 20,000
draws of the latent variables of the exact probability given them. Beside it the same with the simpler
variances that training uses, and the error that the draws themselves have.
Writes experiments/results/probabilities.json.
"""

from typing import Any

import jax
import numpy as np
from networks import member
from runs import RESULTS, begin, complete, origin
from scipy.special import ndtr, ndtri
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split

from tggm import TGGMClassifier
from tggm.special.probit import probit_all
from tggm.training.engine import Inference

RESULT = RESULTS / "probabilities.json"
DATA = {"digits": load_digits, "wines": load_wine}
DRAWS = 20_000


def drawn(model: TGGMClassifier, X: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities by simulation, and their standard errors."""
    W0, b0, W1, b1 = (a[0] for a in (model.W0_, model.b0_, model.W1_, model.b1_))
    sigma0, found = model.sigma0, []
    for a in X @ W0.T + b0:
        h = a - sigma0 * ndtri(rng.uniform(size=(DRAWS, len(a))) * ndtr(a / sigma0))  # N_T by inversion
        eta = h @ W1.T + b1
        with jax.enable_x64(True):
            found.append(np.asarray(probit_all(eta, np.ones_like(eta), n_nodes=96)))
    p = np.stack(found)
    return p.mean(1), p.std(1) / np.sqrt(DRAWS)


def simple(model: TGGMClassifier, X: np.ndarray) -> np.ndarray:
    """With the variances of training."""
    network = member(model, np.float32)
    rows = model.fitted_.scales.x.apply(X).astype(np.float32)
    mean, std = network.likelihood.scores(network.latent(rows, Inference("ep")))
    return np.asarray(probit_all(mean, std, n_nodes=192))


def run(data: str, hidden: int, seed: int) -> dict[str, Any]:
    """Errors of one network."""
    X, y = DATA[data](return_X_y=True)
    X, X_test, y, _ = train_test_split(X, y, test_size=0.4, random_state=seed)
    model = TGGMClassifier.one_layer(hidden=(hidden,), max_epochs=100, n_members=1, random_state=seed).fit(
        X, y
    )
    rows = X_test[np.argsort(model.predict_proba(X_test).max(1))[:40]]
    want, error = drawn(model, rows, np.random.default_rng(seed))
    off, off_simple = np.abs(model.predict_proba(rows) - want), np.abs(simple(model, rows) - want)
    return {
        "worst": float(off.max()),
        "mean": float(off.max(1).mean()),
        "worst_simple": float(off_simple.max()),
        "mean_simple": float(off_simple.max(1).mean()),
        "draws": float(error.max()),
    }


def main() -> None:
    begin()
    tasks = [(data, hidden, seed) for data in DATA for hidden in (4, 20, 100) for seed in range(3)]
    complete(RESULT, origin(settings={"draws": DRAWS}), run, tasks, jobs=1)


if __name__ == "__main__":
    main()
