"""Models that people would use instead, each with its own defaults.

A fit takes inputs, targets and a seed. For regression it returns a function from inputs to the mean and the
standard deviation of a Gaussian; for classes, to the probabilities of the sorted labels. Models that give
numbers alone get one deviation for all rows, from errors on rows that they were not fitted to. Packages are
imported when they are needed: catboost and ngboost are optional.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict, train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Predict = Callable[[Any], Any]
Fit = Callable[[Any, np.ndarray, int], Predict]
GAP = "(missing)"
_ALONE: dict[str, Any] = {"thread_count": 1, "verbose": False, "allow_writing_files": False}


def _constant_width(model: Any, width: float) -> Predict:
    """A Gaussian of the same width around every prediction."""
    return lambda rows: (model.predict(rows), np.full(len(rows), width))


def _rms(error: np.ndarray) -> float:
    return float(np.sqrt(np.mean(error**2)))


def mean(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    """What is known without looking at the inputs."""
    return lambda rows: (np.full(len(rows), y.mean()), np.full(len(rows), y.std(ddof=1)))


def frequencies(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    share = np.unique(y, return_counts=True)[1] / len(y)
    return lambda rows: np.tile(share, (len(rows), 1))


def ridge(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    """The width is that of leaving one row out, which also chose the penalty."""
    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15))).fit(X, y)
    return _constant_width(model, float(np.sqrt(-model[-1].best_score_)))


def logistic(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y).predict_proba


def trees(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    model = HistGradientBoostingRegressor(random_state=seed)
    held_out = cross_val_predict(model, X, y, cv=KFold(5, shuffle=True, random_state=seed))
    return _constant_width(model.fit(X, y), _rms(y - held_out))


def tree_classes(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    return HistGradientBoostingClassifier(random_state=seed).fit(X, y).predict_proba


def network(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    """The width is that of a first fit on four fifths of the rows; the second has them all."""
    inner = make_pipeline(StandardScaler(), MLPRegressor(random_state=seed))
    model = TransformedTargetRegressor(inner, transformer=StandardScaler())
    A, B, a, b = train_test_split(X, y, test_size=0.2, random_state=seed)
    width = _rms(b - clone(model).fit(A, a).predict(B))
    return _constant_width(model.fit(X, y), width)


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


def ngboost(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    from ngboost import NGBRegressor

    model = NGBRegressor(verbose=False, random_state=seed).fit(X, y)

    def predict(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = model.pred_dist(rows).params
        return found["loc"], found["scale"]

    return predict


def ngboost_classes(X: np.ndarray, y: np.ndarray, seed: int) -> Predict:
    from ngboost import NGBClassifier
    from ngboost.distns import k_categorical

    labels, number = np.unique(y, return_inverse=True)
    model = NGBClassifier(Dist=k_categorical(len(labels)), verbose=False, random_state=seed)
    return model.fit(X, number).predict_proba


def _words(X: Any) -> list[str]:
    return X.select_dtypes(exclude="number").columns.tolist()


def _filled(X: Any) -> Any:
    """CatBoost takes gaps among numbers, but not among words."""
    return X.assign(**{name: X[name].astype(object).fillna(GAP).astype(str) for name in _words(X)})


def catboost(X: Any, y: np.ndarray, seed: int) -> Predict:
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        cat_features=_words(X),
        random_seed=seed,
        **_ALONE,
    ).fit(_filled(X), y)

    def predict(rows: Any) -> tuple[np.ndarray, np.ndarray]:
        location, variance = model.predict(_filled(rows)).T
        return location, np.sqrt(variance)

    return predict


def catboost_classes(X: Any, y: np.ndarray, seed: int) -> Predict:
    from catboost import CatBoostClassifier

    model = CatBoostClassifier(cat_features=_words(X), random_seed=seed, **_ALONE).fit(_filled(X), y)
    return lambda rows: model.predict_proba(_filled(rows))


class Opponent(NamedTuple):
    """How to fit for either task, and what limits it.

    `frames` says that it takes words and gaps itself, `package` what must be installed besides scikit-learn.
    """

    regression: Fit
    classification: Fit | None
    frames: bool = False
    package: str = ""
    most_rows: float = float("inf")


OPPONENTS = {
    "mean": Opponent(mean, frequencies),
    "ridge": Opponent(ridge, logistic),
    "catboost": Opponent(catboost, catboost_classes, frames=True, package="catboost"),
    "hgb": Opponent(trees, tree_classes),
    "gp": Opponent(gaussian_process, None, most_rows=2000),
    "mlp": Opponent(network, network_classes),
    "ngboost": Opponent(ngboost, ngboost_classes, package="ngboost"),
}
