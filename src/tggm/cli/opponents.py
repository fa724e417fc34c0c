"""The models that `tggm compare` compares with, each with its own defaults.

A fit takes inputs, targets and a seed. For regression it returns a function from inputs to the mean and the
standard deviation of a Gaussian; for classes, to the probabilities of the sorted labels. Models that predict
only a number get one standard deviation for all rows, from errors on rows that they were not fitted to.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Predict = Callable[[Any], Any]
Fit = Callable[[Any, Any, int], Predict]
_MISSING = "(missing)"
_CATBOOST: dict[str, Any] = {"verbose": False, "allow_writing_files": False}
_LIGHTGBM: dict[str, Any] = {"n_jobs": 1, "verbose": -1}  # several threads would wait for each other


class Opponent(NamedTuple):
    """The fit of each task; `frames` if it takes words and missing values, `package` if it needs one."""

    regression: Fit
    classification: Fit | None
    frames: bool = False
    package: str = ""
    most_rows: float = float("inf")


def rms(error: Any) -> float:
    """Return the root mean square."""
    return float(np.sqrt(np.mean(error**2)))


def constant_width(model: Any, width: float) -> Predict:
    """Return Gaussian predictions of one standard deviation around those of a fitted model."""
    return lambda rows: (model.predict(rows), np.full(len(rows), width))


def cross_validated(model: Any, X: Any, y: Any, seed: int) -> Predict:
    """Fit a model of numbers; its standard deviation is that of the errors in five folds."""
    held_out = cross_val_predict(model, X, y, cv=KFold(5, shuffle=True, random_state=seed))
    return constant_width(model.fit(X, y), rms(y - held_out))


def mean(X: Any, y: Any, seed: int) -> Predict:
    """Predict the mean and the standard deviation of all targets."""
    return lambda rows: (np.full(len(rows), y.mean()), np.full(len(rows), y.std(ddof=1)))


def frequencies(X: Any, y: Any, seed: int) -> Predict:
    """Predict the frequency of each class."""
    share = np.unique(y, return_counts=True)[1] / len(y)
    return lambda rows: np.tile(share, (len(rows), 1))


def ridge(X: Any, y: Any, seed: int) -> Predict:
    """Fit ridge regression; leave-one-out errors choose the penalty and give the standard deviation."""
    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 15))).fit(X, y)
    return constant_width(model, float(np.sqrt(-model[-1].best_score_)))


def logistic(X: Any, y: Any, seed: int) -> Predict:
    """Fit logistic regression to standardised inputs."""
    return _probabilities(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), X, y)


def trees(X: Any, y: Any, seed: int) -> Predict:
    """Fit the boosted trees of scikit-learn."""
    return cross_validated(HistGradientBoostingRegressor(random_state=seed), X, y, seed)


def tree_classes(X: Any, y: Any, seed: int) -> Predict:
    """Fit the boosted trees of scikit-learn to classes."""
    return _probabilities(HistGradientBoostingClassifier(random_state=seed), X, y)


def catboost(X: Any, y: Any, seed: int, threads: int = 1) -> Predict:
    """Fit CatBoost with a variance for each row."""
    from catboost import CatBoostRegressor

    settings = {"cat_features": _words(X), "random_seed": seed, "thread_count": threads, **_CATBOOST}
    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", **settings).fit(_filled(X), y)

    def predict(rows: Any) -> tuple[Any, Any]:
        location, variance = model.predict(_filled(rows)).T
        return location, np.sqrt(variance)

    return predict


def catboost_classes(X: Any, y: Any, seed: int, threads: int = 1) -> Predict:
    """Fit CatBoost to classes."""
    from catboost import CatBoostClassifier

    settings = {"cat_features": _words(X), "random_seed": seed, "thread_count": threads, **_CATBOOST}
    model = CatBoostClassifier(**settings).fit(_filled(X), y)
    return lambda rows: model.predict_proba(_filled(rows))


def lightgbm(X: Any, y: Any, seed: int) -> Predict:
    """Fit LightGBM."""
    from lightgbm import LGBMRegressor

    return cross_validated(LGBMRegressor(random_state=seed, **_LIGHTGBM), X, y, seed)


def lightgbm_classes(X: Any, y: Any, seed: int) -> Predict:
    """Fit LightGBM to classes."""
    from lightgbm import LGBMClassifier

    return _probabilities(LGBMClassifier(random_state=seed, **_LIGHTGBM), X, y)


OPPONENTS = {
    "mean": Opponent(mean, frequencies),
    "ridge": Opponent(ridge, logistic),
    "hgb": Opponent(trees, tree_classes),
    "catboost": Opponent(catboost, catboost_classes, frames=True, package="catboost"),
    "lightgbm": Opponent(lightgbm, lightgbm_classes, package="lightgbm"),
}


def not_installed(names: Sequence[str]) -> list[str]:
    """Return those whose packages are not installed."""
    packages = {name: OPPONENTS[name].package for name in names}
    return [name for name, package in packages.items() if package and find_spec(package) is None]


def _probabilities(model: Any, X: Any, y: Any) -> Predict:
    fitted: Predict = model.fit(X, y).predict_proba
    return fitted


def _words(X: Any) -> list[str]:
    found: list[str] = X.select_dtypes(exclude="number").columns.tolist()
    return found


def _filled(X: Any) -> Any:
    """Replace missing words, which CatBoost does not take."""
    return X.assign(**{name: X[name].astype(object).fillna(_MISSING).astype(str) for name in _words(X)})
