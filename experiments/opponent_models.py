"""Models that people would use instead, each with its own defaults: those of `tggm compare`, and two more."""

import numpy as np
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tggm.cli.opponents import OPPONENTS as COMPARED
from tggm.cli.opponents import Opponent, Predict, constant_width, rms

__all__ = ["OPPONENTS", "Predict"]


def network(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    """The width is that of a first fit on four fifths of the rows; the second has them all."""
    inner = make_pipeline(StandardScaler(), MLPRegressor(random_state=seed))
    model = TransformedTargetRegressor(inner, transformer=StandardScaler())
    A, B, a, b = train_test_split(X, y, test_size=0.2, random_state=seed)
    width = rms(b - clone(model).fit(A, a).predict(B))
    return constant_width(model.fit(X, y), width)


def network_classes(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    return make_pipeline(StandardScaler(), MLPClassifier(random_state=seed)).fit(X, y).predict_proba


def gaussian_process(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    """A length for each column, and noise.

    Lengths start at the distance of rows, the root of the number of columns: from 1, with many columns, no
    two rows are neighbours, and all is taken for noise.
    """
    d = X.shape[1]
    kernel = ConstantKernel() * RBF(np.full(d, np.sqrt(d))) + WhiteKernel()
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    model = make_pipeline(StandardScaler(), process).fit(X, y)
    return lambda rows: model.predict(rows, return_std=True)


ORDER = ("mean", "ridge", "catboost", "hgb", "gp", "mlp", "ngboost")
_MORE = {
    "gp": Opponent(gaussian_process, None, most_rows=2000),
    "mlp": Opponent(network, network_classes),
}
OPPONENTS = {name: (COMPARED | _MORE)[name] for name in ORDER}
