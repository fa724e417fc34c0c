"""The learners of the arena: ours, variants without one part, and other libraries as their users run them.

A learner is fitted to inputs (arrays, or data frames if it takes words), targets and a seed.
It returns a function from inputs to a predictive law (`scores.py`), or to the probabilities of the sorted
labels. A point prediction becomes a Gaussian whose deviation is the root mean square of errors on held-out
rows. Every process uses one core.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scores import Gaussian, Quantiles, Samples, levels_of, rms
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from tggm import TGGMClassifier, TGGMRegressor

Predict = Callable[[Any], Any]
Fit = Callable[[Any, Any, int], Predict]
LEVELS = levels_of(20)
WORDS, NUMBERS = make_column_selector(dtype_exclude="number"), make_column_selector(dtype_include="number")


class Learner(NamedTuple):
    """Functions that fit a model for either task, and what pages say about it."""

    name: str
    settings: str
    regression: Fit | None
    classification: Fit | None = None
    package: str = ""  # what must be installed besides scikit-learn
    largest: float = float("inf")  # training rows
    frames: bool = False  # takes words and missing values; others get the numbers of `TableTransformer`
    pace: float = 1  # seconds of a fit to a small table, roughly; slow learners run fewer splits
    gpu: bool = False  # uses a GPU if there is one


def held_out(X: Any, y: Any, seed: int, stratify: Any = None) -> Any:
    """Split off a fifth of the rows."""
    return train_test_split(X, y, test_size=0.2, random_state=seed, stratify=stratify)


def with_width(make: Callable[[Any, int], Any], X: Any, y: Any, seed: int) -> Predict:
    """Fit a model; its width is the error of a first fit on a fifth of the rows."""
    model = make(X, seed)
    A, B, a, b = held_out(X, y, seed)
    width = rms(b - deepcopy(model).fit(A, a).predict(B))
    fitted = model.fit(X, y)
    return lambda rows: Gaussian(fitted.predict(rows), np.full(len(rows), width))


def probabilities(make: Callable[[Any, int], Any], X: Any, y: Any, seed: int) -> Predict:
    """Fit a classifier of scikit-learn's interface."""
    return make(X, seed).fit(X, y).predict_proba


def _scaled(X: Any) -> Any:
    """Return a preprocessor for linear models: indicators, medians for missing values, one scale."""
    if not isinstance(X, pd.DataFrame):
        return StandardScaler()
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    return make_column_transformer(
        (numbers, NUMBERS), (OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist"), WORDS)
    )


def _coded(X: Any, most: int | None = None) -> Any:
    """Return a preprocessor for trees: words as integers, which come first, then the numbers."""
    if not isinstance(X, pd.DataFrame):
        return "passthrough"
    code = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=most)
    return make_column_transformer((code, WORDS), ("passthrough", NUMBERS))


def _places(X: Any) -> list[int]:
    """Return the columns that `_coded` makes of words."""
    return list(range(len(WORDS(X)))) if isinstance(X, pd.DataFrame) else []


def _tggm(X: Any, y: Any, seed: int, **settings: Any) -> Predict:
    return TGGMRegressor(random_state=seed, **settings).fit(X, y).predict_dist


def _tggm_classes(X: Any, y: Any, seed: int, **settings: Any) -> Predict:
    return TGGMClassifier(random_state=seed, **settings).fit(X, y).predict_proba


def _ridge(X: Any, y: Any, seed: int) -> Predict:
    """Fit ridge regression; leave-one-out errors determine the width and the penalty."""
    model = make_pipeline(_scaled(X), RidgeCV(np.logspace(-3, 4, 15))).fit(X, y)
    width = float(np.sqrt(-model[-1].best_score_))
    return lambda rows: Gaussian(model.predict(rows), np.full(len(rows), width))


def _logistic(X: Any, seed: int) -> Any:
    return make_pipeline(_scaled(X), LogisticRegression(max_iter=1000))


def _trees(kind: Any, X: Any, seed: int) -> Any:
    return make_pipeline(_coded(X, 254), kind(categorical_features=_places(X), random_state=seed))


def _gaussian_process(X: Any, y: Any, seed: int) -> Predict:
    """Fit one length scale per column and the noise.

    Length scales start at the typical distance of rows, √d. With many columns, no two rows are close on a
    length scale of 1, and all variation is fitted as noise.
    """
    d = X.shape[1]
    kernel = ConstantKernel() * RBF(np.full(d, np.sqrt(d))) + WhiteKernel()
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    model = make_pipeline(StandardScaler(), process).fit(X, y)
    return lambda rows: Gaussian(*model.predict(rows, return_std=True))


def _lightgbm(name: str, X: Any, seed: int, **settings: Any) -> Any:
    import lightgbm

    quiet = {"n_jobs": 1, "verbose": -1, **settings}
    model = getattr(lightgbm, name)(categorical_feature=_places(X), random_state=seed, **quiet)
    return make_pipeline(_coded(X), model)


def _lightgbm_quantiles(X: Any, y: Any, seed: int) -> Predict:
    """Fit one model for each level."""
    models = [
        _lightgbm("LGBMRegressor", X, seed, objective="quantile", alpha=level).fit(X, y)
        for level in LEVELS.tolist()
    ]
    return lambda rows: Quantiles(np.stack([model.predict(rows) for model in models], axis=1))


def _filled(X: Any) -> Any:
    """Replace missing words, which CatBoost does not accept."""
    X = pd.DataFrame(X)
    return X.assign(**{name: X[name].astype(object).fillna("(missing)").astype(str) for name in WORDS(X)})


def _catboost(name: str, X: Any, y: Any, seed: int, early: bool, **settings: Any) -> Any:
    """Fit CatBoost, "early" until the held-out rows are not predicted better for 50 trees."""
    import catboost

    X = _filled(X)
    quiet = {"verbose": False, "allow_writing_files": False, "thread_count": 1, **settings}
    model = getattr(catboost, name)(cat_features=WORDS(X), random_seed=seed, **quiet)
    if not early:
        return model.fit(X, y)
    A, B, a, b = held_out(X, y, seed, y if name.endswith("Classifier") else None)
    return model.fit(A, a, eval_set=(B, b), early_stopping_rounds=50)


def _catboost_variance(early: bool, X: Any, y: Any, seed: int) -> Predict:
    model = _catboost("CatBoostRegressor", X, y, seed, early, loss_function="RMSEWithUncertainty")

    def predict(rows: Any) -> Gaussian:
        mean, variance = model.predict(_filled(rows)).T
        return Gaussian(mean, np.sqrt(variance))

    return predict


def _catboost_classes(early: bool, X: Any, y: Any, seed: int) -> Predict:
    model = _catboost("CatBoostClassifier", X, y, seed, early)
    return lambda rows: model.predict_proba(_filled(rows))


def _catboost_quantiles(X: Any, y: Any, seed: int) -> Predict:
    loss = f"MultiQuantile:alpha={','.join(f'{q:g}' for q in LEVELS)}"
    model = _catboost("CatBoostRegressor", X, y, seed, True, loss_function=loss)
    return lambda rows: Quantiles(model.predict(_filled(rows)))


def _quantile_forest(X: Any, y: Any, seed: int) -> Predict:
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(random_state=seed, n_jobs=1).fit(X, y)
    return lambda rows: Quantiles(model.predict(rows, quantiles=LEVELS.tolist()))


def _forest(X: Any, seed: int) -> Any:
    return RandomForestClassifier(random_state=seed, n_jobs=1)


def _ngboost(X: Any, y: Any, seed: int) -> Predict:
    from ngboost import NGBRegressor

    model = NGBRegressor(verbose=False, random_state=seed).fit(X, y)

    def predict(rows: Any) -> Gaussian:
        found = model.pred_dist(rows).params
        return Gaussian(found["loc"], found["scale"])

    return predict


def _ngboost_classes(X: Any, y: Any, seed: int) -> Predict:
    from ngboost import NGBClassifier
    from ngboost.distns import k_categorical

    known, number = np.unique(y, return_inverse=True)
    model = NGBClassifier(Dist=k_categorical(len(known)), verbose=False, random_state=seed)
    return model.fit(X, number).predict_proba


def _pytabkit(name: str, X: Any, seed: int, **settings: Any) -> Any:
    import pytabkit
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return getattr(pytabkit, name)(device=device, n_threads=1, random_state=seed, **settings)


def _pytabkit_quantiles(name: str, X: Any, y: Any, seed: int) -> Predict:
    """Train a network by the pinball loss; it holds out a fifth of the rows to end the training."""
    loss = f"multi_pinball({','.join(f'{q:g}' for q in LEVELS)})"
    model = _pytabkit(f"{name}_Regressor", X, seed, train_metric_name=loss, val_metric_name=loss).fit(X, y)
    return lambda rows: Quantiles(np.asarray(model.predict(rows), float))


def _treeffuser(X: Any, y: Any, seed: int) -> Predict:
    from treeffuser import Treeffuser

    model = Treeffuser(seed=seed, n_jobs=1).fit(X, y)
    return lambda rows: Samples(model.sample(rows, 100, seed=seed, verbose=False).reshape(100, -1).T)


VARIANTS: dict[str, dict[str, Any]] = {
    "no-neighbors": {"neighbors": False},
    "no-process": {"gaussian_process": False},
    "no-support": {"support": None},
    "no-features": {"features": None},
    "no-linear": {"linear": False},
    "no-transform": {"target_transform": None},
    "not-calibrated": {"calibrate": False},
    "one-member": {"n_members": 1},
    "adam": {"optimizer": "adam"},
    "one-layer": {"hidden": (50,)},
    "200-200": {"hidden": (200, 200)},
}
CLASSIFIER = ("no-neighbors", "no-features", "no-linear", "one-member", "adam", "one-layer", "200-200")


def _variant(name: str, settings: dict[str, Any]) -> Learner:
    classes = partial(_tggm_classes, **settings) if name in CLASSIFIER else None
    text = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    return Learner(f"tggm, {text}", text, partial(_tggm, **settings), classes, frames=True, pace=4)


LEARNERS = {
    "tggm": Learner("tggm", "defaults", _tggm, _tggm_classes, frames=True, pace=4),
    "catboost": Learner(
        "CatBoost", "defaults with the loss RMSEWithUncertainty; classes: defaults",
        partial(_catboost_variance, False), partial(_catboost_classes, False), "catboost",
        frames=True, pace=5,
    ),
    "catboost-early": Learner(
        "CatBoost, stopped early", "as CatBoost, ended after 50 trees without gain on a held-out fifth",
        partial(_catboost_variance, True), partial(_catboost_classes, True), "catboost", frames=True,
    ),
    "catboost-quantiles": Learner(
        "CatBoost, quantiles", "MultiQuantile of 20 levels, ended in the same way",
        _catboost_quantiles, None, "catboost", frames=True, pace=6,
    ),
    "lightgbm": Learner(
        "LightGBM", "one model with defaults for each of 20 quantiles; classes: defaults",
        _lightgbm_quantiles, partial(probabilities, partial(_lightgbm, "LGBMClassifier")), "lightgbm",
        frames=True, pace=2,
    ),
    "ngboost": Learner("NGBoost", "defaults", _ngboost, _ngboost_classes, "ngboost", pace=6),
    "forest": Learner(
        "random forest", "quantile-forest's defaults, 20 quantiles; classes: scikit-learn's defaults",
        _quantile_forest, partial(probabilities, _forest), "quantile_forest", pace=1,
    ),
    "hgb": Learner(
        "HistGradientBoosting", "defaults, deviation of errors on a held-out fifth; classes: defaults",
        partial(with_width, partial(_trees, HistGradientBoostingRegressor)),
        partial(probabilities, partial(_trees, HistGradientBoostingClassifier)), frames=True, pace=0.5,
    ),
    "linear": Learner(
        "linear", "ridge regression, deviation of leave-one-out errors; classes: logistic regression",
        _ridge, partial(probabilities, _logistic), frames=True, pace=0.1,
    ),
    "gp": Learner(
        "Gaussian process", "RBF with one length scale per column, and noise; at most 2,000 rows",
        _gaussian_process, largest=2000, pace=8,
    ),
    "realmlp": Learner(
        "RealMLP-TD", "pytabkit's defaults, pinball loss of 20 levels; classes: pytabkit's defaults",
        partial(_pytabkit_quantiles, "RealMLP_TD"),
        partial(probabilities, partial(_pytabkit, "RealMLP_TD_Classifier")), "pytabkit", pace=10, gpu=True,
    ),
    "tabm": Learner(
        "TabM-D", "pytabkit's defaults, pinball loss of 20 levels; classes: pytabkit's defaults",
        partial(_pytabkit_quantiles, "TabM_D"),
        partial(probabilities, partial(_pytabkit, "TabM_D_Classifier")), "pytabkit", pace=10, gpu=True,
    ),
    "treeffuser": Learner(
        "Treeffuser", "defaults, 100 samples a row; at most 2,000 rows",
        _treeffuser, None, "treeffuser", largest=2000, pace=30,
    ),
}  # fmt: skip
LEARNERS |= {f"tggm-{name}": _variant(name, settings) for name, settings in VARIANTS.items()}

OURS = {"tggm": "`tggm`", "tggm-no-neighbors": "`tggm`, `neighbors=False`"}  # names on pages


def installed(names: list[str]) -> list[str]:
    """Return the learners whose packages are installed, and report the others."""
    absent = [n for n in names if LEARNERS[n].package and find_spec(LEARNERS[n].package) is None]
    for name in absent:
        print(f"{name} is skipped; to include it: pip install {LEARNERS[name].package}")
    return [name for name in names if name not in absent]
