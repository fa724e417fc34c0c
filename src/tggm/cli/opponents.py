"""Models that people would use instead, each with its own defaults.

A fit takes inputs, targets and a seed. For regression it returns a function from inputs to the mean and the
standard deviation of a Gaussian; for classes, to the probabilities of the sorted labels. Models that give
numbers alone get one deviation for all rows, from errors on rows that they were not fitted to. Packages are
imported when they are needed: catboost, lightgbm and ngboost are optional.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

Predict = Callable[[Any], Any]
Fit = Callable[[Any, Any, int], Predict]
GAP = "(missing)"
_QUIET: dict[str, Any] = {"verbose": False, "allow_writing_files": False}
_ONE_THREAD: dict[str, Any] = {"n_jobs": 1, "verbose": -1}  # more of them wait for each other
_PENALTIES = np.logspace(-3, 4, 15)


class Opponent(NamedTuple):
    """How to fit for either task, and what limits it.

    `frames` says that it takes words and gaps itself, `package` what must be installed besides scikit-learn.
    """

    regression: Fit
    classification: Fit | None
    frames: bool = False
    package: str = ""
    most_rows: float = float("inf")


def constant_width(model: "BaseEstimator", width: float) -> Predict:
    """A Gaussian of the same width around every prediction."""
    return lambda rows: (model.predict(rows), np.full(len(rows), width))


def rms(error: Any) -> float:
    """Root of the mean square."""
    return float(np.sqrt(np.mean(error**2)))


def mean(X: Any, y: Any, seed: int) -> Predict:
    """What is known without looking at the inputs."""
    return lambda rows: (np.full(len(rows), y.mean()), np.full(len(rows), y.std(ddof=1)))


def frequencies(X: Any, y: Any, seed: int) -> Predict:
    """The share of each class."""
    share = np.unique(y, return_counts=True)[1] / len(y)
    return lambda rows: np.tile(share, (len(rows), 1))


def ridge(X: Any, y: Any, seed: int) -> Predict:
    """The width is that of leaving one row out, which also chose the penalty."""
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), RidgeCV(_PENALTIES)).fit(X, y)
    return constant_width(model, float(np.sqrt(-model[-1].best_score_)))


def logistic(X: Any, y: Any, seed: int) -> Predict:
    """Logistic regression on standardised inputs."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y)
    found: Predict = model.predict_proba
    return found


def trees(X: Any, y: Any, seed: int) -> Predict:
    """Boosted trees of scikit-learn; the width is that of five folds."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    return _with_width(HistGradientBoostingRegressor(random_state=seed), X, y, seed)


def _with_width(model: "BaseEstimator", X: Any, y: Any, seed: int) -> Predict:
    """Fitted, with the width of errors in five folds."""
    from sklearn.model_selection import KFold, cross_val_predict

    held_out = cross_val_predict(model, X, y, cv=KFold(5, shuffle=True, random_state=seed))
    return constant_width(model.fit(X, y), rms(y - held_out))


def tree_classes(X: Any, y: Any, seed: int) -> Predict:
    """Boosted trees of scikit-learn."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    found: Predict = HistGradientBoostingClassifier(random_state=seed).fit(X, y).predict_proba
    return found


def ngboost(X: Any, y: Any, seed: int) -> Predict:
    """Natural gradient boosting of a Gaussian."""
    from ngboost import NGBRegressor

    model = NGBRegressor(verbose=False, random_state=seed).fit(X, y)

    def predict(rows: Any) -> tuple[Any, Any]:
        found = model.pred_dist(rows).params
        return found["loc"], found["scale"]

    return predict


def ngboost_classes(X: Any, y: Any, seed: int) -> Predict:
    """Natural gradient boosting of class probabilities."""
    from ngboost import NGBClassifier
    from ngboost.distns import k_categorical

    labels, number = np.unique(y, return_inverse=True)
    model = NGBClassifier(Dist=k_categorical(len(labels)), verbose=False, random_state=seed)
    found: Predict = model.fit(X, number).predict_proba
    return found


def _words(X: Any) -> list[str]:
    found: list[str] = X.select_dtypes(exclude="number").columns.tolist()
    return found


def _filled(X: Any) -> Any:
    """CatBoost takes gaps among numbers, but not among words."""
    return X.assign(**{name: X[name].astype(object).fillna(GAP).astype(str) for name in _words(X)})


def catboost(X: Any, y: Any, seed: int, threads: int = 1) -> Predict:
    """CatBoost with a variance of its own."""
    from catboost import CatBoostRegressor

    settings = {"cat_features": _words(X), "random_seed": seed, "thread_count": threads, **_QUIET}
    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", **settings).fit(_filled(X), y)

    def predict(rows: Any) -> tuple[Any, Any]:
        location, variance = model.predict(_filled(rows)).T
        return location, np.sqrt(variance)

    return predict


def catboost_classes(X: Any, y: Any, seed: int, threads: int = 1) -> Predict:
    """CatBoost's classes."""
    from catboost import CatBoostClassifier

    settings = {"cat_features": _words(X), "random_seed": seed, "thread_count": threads, **_QUIET}
    model = CatBoostClassifier(**settings).fit(_filled(X), y)
    return lambda rows: model.predict_proba(_filled(rows))


def lightgbm(X: Any, y: Any, seed: int) -> Predict:
    """LightGBM; the width is that of five folds."""
    from lightgbm import LGBMRegressor

    return _with_width(LGBMRegressor(random_state=seed, **_ONE_THREAD), X, y, seed)


def lightgbm_classes(X: Any, y: Any, seed: int) -> Predict:
    """LightGBM's classes."""
    from lightgbm import LGBMClassifier

    found: Predict = LGBMClassifier(random_state=seed, **_ONE_THREAD).fit(X, y).predict_proba
    return found


OPPONENTS = {
    "mean": Opponent(mean, frequencies),
    "ridge": Opponent(ridge, logistic),
    "hgb": Opponent(trees, tree_classes),
    "catboost": Opponent(catboost, catboost_classes, frames=True, package="catboost"),
    "lightgbm": Opponent(lightgbm, lightgbm_classes, package="lightgbm"),
    "ngboost": Opponent(ngboost, ngboost_classes, package="ngboost"),
}


def absent(names: Sequence[str]) -> list[str]:
    """Those whose packages are not installed."""
    packages = {name: OPPONENTS[name].package for name in names}
    return [name for name, package in packages.items() if package and find_spec(package) is None]
