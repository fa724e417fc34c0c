"""Opponents on raw tables, each with its defaults and as much of a table as it takes by itself.

What `pandas.read_csv` read as numbers is given as numbers, all else as categories. CatBoost, LightGBM and
`HistGradientBoosting` treat categories in their own way (the last has at most 255 of them: rarer ones are
taken together). Ridge and logistic regression get a column for each word of three rows or more, medians for
gaps, and one scale. Models that give numbers alone have one width for all rows, that of errors on a fifth
of the rows that a first fit did not see.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from tggm.cli.opponents import Predict, rms

GAP = "(missing)"
Model = Any  # what scikit-learn calls an estimator


class Matrix(NamedTuple):
    """A table as others take it: objects, numbers with NaN and words with a word for gaps."""

    values: np.ndarray
    is_word: list[bool]


def matrix(frame: pd.DataFrame, like: Matrix | None = None) -> Matrix:
    """Columns of numbers are those that were such in the rows trained on."""
    found, is_word = [], []
    for j, name in enumerate(frame.columns):
        column = frame[name]
        as_word = not pd.api.types.is_numeric_dtype(column) if like is None else like.is_word[j]
        values = column.astype(object).where(column.notna(), GAP).astype(str) if as_word else column
        found.append(np.asarray(values.to_numpy(), dtype=object if as_word else float).astype(object))
        is_word.append(as_word)
    return Matrix(np.stack(found, axis=1), is_word)


def _for_linear(X: Matrix) -> Model:
    words, numbers = _places(X)
    filled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    coded = OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist")
    return make_column_transformer((filled, numbers), (coded, words))


def _for_trees(X: Matrix, most: int | None = None) -> Model:
    """Words by number, which come first, then numbers as they are."""
    words, numbers = _places(X)
    coded = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=most)
    return make_column_transformer((coded, words), ("passthrough", numbers))


def _places(X: Matrix) -> tuple[np.ndarray, np.ndarray]:
    return np.flatnonzero(X.is_word), np.flatnonzero(~np.asarray(X.is_word))


def _with_width(make: Callable[[], Model], X: np.ndarray, y: np.ndarray, k: int) -> Predict:
    """A Gaussian whose width is that of errors on a fifth of the rows; the second fit has them all."""
    A, B, a, b = train_test_split(X, y, test_size=0.2, random_state=k)
    width = rms(b - make().fit(A, a).predict(B))
    model = make().fit(X, y)
    return lambda rows: (model.predict(rows), np.full(len(rows), width))


def linear(X: Matrix, y: np.ndarray, k: int, is_class: bool) -> Predict:
    if is_class:
        model = make_pipeline(_for_linear(X), LogisticRegression(max_iter=1000))
        return model.fit(X.values, y).predict_proba
    return _with_width(lambda: make_pipeline(_for_linear(X), RidgeCV(np.logspace(-3, 4, 15))), X.values, y, k)


def hgb(X: Matrix, y: np.ndarray, k: int, is_class: bool) -> Predict:
    native = {"categorical_features": list(range(sum(X.is_word))), "random_state": k}
    kind = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
    return _of_trees(lambda: make_pipeline(_for_trees(X, most=254), kind(**native)), X, y, k, is_class)


def lightgbm(X: Matrix, y: np.ndarray, k: int, is_class: bool) -> Predict:
    from lightgbm import LGBMClassifier, LGBMRegressor

    native = {"categorical_feature": list(range(sum(X.is_word))), "random_state": k}
    native |= {"n_jobs": 1, "verbose": -1}
    kind = LGBMClassifier if is_class else LGBMRegressor
    return _of_trees(lambda: make_pipeline(_for_trees(X), kind(**native)), X, y, k, is_class)


def _of_trees(make: Callable[[], Model], X: Matrix, y: np.ndarray, k: int, is_class: bool) -> Predict:
    return make().fit(X.values, y).predict_proba if is_class else _with_width(make, X.values, y, k)


def catboost(X: Matrix, y: np.ndarray, k: int, is_class: bool) -> Predict:
    from catboost import CatBoostClassifier, CatBoostRegressor

    kind = CatBoostClassifier if is_class else CatBoostRegressor
    return _of_trees(lambda: kind(**_catboost_settings(X, k)), X, y, k, is_class)


def catboost_uncertain(X: Matrix, y: np.ndarray, k: int, is_class: bool) -> Predict:
    """With a variance of its own for each row."""
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", **_catboost_settings(X, k))
    model.fit(X.values, y)

    def predict(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = model.predict(rows).T
        return mean, np.sqrt(variance)

    return predict


def _catboost_settings(X: Matrix, k: int) -> dict[str, Any]:
    quiet = {"verbose": False, "allow_writing_files": False, "thread_count": 1}
    return {"cat_features": np.flatnonzero(X.is_word).tolist(), "random_seed": k, **quiet}


FITS: dict[str, Callable[..., Predict]] = {
    "catboost": catboost, "catboost-ll": catboost_uncertain, "hgb": hgb, "lightgbm": lightgbm,
    "linear": linear,
}  # fmt: skip
