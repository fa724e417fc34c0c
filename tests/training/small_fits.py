"""Small fits of 50 steps whose parameters processes compare: ``python -m tests.training.small_fits OUT NAME``

Run by the tests in processes of their own, with several devices or several processes of one fit.
"""

import sys

import jax
import numpy as np
from tggm.training.parallel.processes import use_devices

from tggm import TGGMClassifier, TGGMRegressor

ALL = ("regressor float64", "classifier float32")


def fitted(name):
    """All parameters of one of the fits as one vector; eight devices cannot cut its batches of 50 evenly."""
    kind, dtype = name.split()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(277, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=277)
    settings = {"hidden": 5, "max_epochs": 10, "batch_size": 50, "random_state": 0, "dtype": dtype}
    if kind == "regressor":
        model = TGGMRegressor.one_layer(n_members=2, weight_decay=0.1, patience=None, **settings).fit(X, y)
    else:
        model = TGGMClassifier.one_layer(dropout=0.2, **settings).fit(X, (y > 0).astype(int))
    assert model.n_iter_ == 10
    leaves = jax.tree.leaves(model.fitted_.model)
    return np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(np.float64)


def main(out, names, devices=None):
    if devices is None:
        np.savez(out, **{name: fitted(name) for name in names})
        return
    with use_devices(devices):
        main(out, names)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:], jax.devices())
