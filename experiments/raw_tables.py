"""Tables as they come, straight into estimators, beside libraries that take them or nearly so.

    TGGM_DATA=... python -m experiments.raw_tables [--tables titanic,towns] [--models tggm,catboost] [--show]

The six CSV files among the development tables, and four generated ones: `towns` has a column of 2,000 words,
`marks` numbers with thousands separators, a unit and "<LOD", `seasons` dates, `holes` gaps that matter.
`tggm` is the estimator with its defaults on the table as it was read. CatBoost gets words as categories,
`HistGradientBoosting` categories by number (its native way, at most 255), ridge and logistic regression one
column for each word. Numbers are given to them as numbers, and gaps as they want them. Titanic's `alive`, the
target in words, is taken out for all: opponents would use it. Figures as in `opponents`, five splits, seconds
of one fit; experiments/results/raw_tables.json. No data frame library is needed.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from classify import some
from opponent_models import Predict
from opponents import class_figures, gaussian_figures, show
from runs import RESULTS, begin, complete, origin, read
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from tables import SPLITS
from tables import read as read_csv
from tggm import TGGMClassifier, TGGMRegressor
from tggm.tables import Table, choose_target

GAP = "(missing)"
CSV = {
    "tips": ("regression", "tip"), "penguins": ("classification", "species"), "mpg": ("regression", "mpg"),
    "titanic": ("classification", "survived"), "ames": ("regression", "SalePrice"),
    "adult": ("classification", "income"),
}  # fmt: skip
LEAKS = {"titanic": ("alive",)}


class RawSplit(NamedTuple):
    """Tables of inputs, and targets."""

    train: Table
    y_train: np.ndarray
    test: Table
    y_test: np.ndarray


def words(values: list[str]) -> np.ndarray:
    column = np.empty(len(values), dtype=object)
    column[:] = [value or None for value in values]
    return column


def towns(n: int, rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray]:
    """Half of what can be known is which of 2,000 towns it is; their sizes follow Zipf."""
    effect = np.random.default_rng(0).normal(size=2000)
    share = 1 / np.arange(10, 2010)
    town = rng.choice(2000, n, p=share / share.sum())
    x = rng.normal(size=n)
    y = effect[town] + np.sin(2 * x) + 0.5 * rng.normal(size=n)
    return {"town": words([f"town {k}" for k in town]), "x": x}, y


def marks(n: int, rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray]:
    """A concentration below its limit of detection in 15 % of the rows, miles with commas and a unit."""
    dose, miles = rng.lognormal(size=n), rng.integers(0, 200_000, n)
    low = dose < np.exp(-1.04)
    shown = ["<LOD" if small else f"{value:.3f}" for value, small in zip(dose, low, strict=True)]
    y = np.log(dose) - miles / 1e5 + 0.3 * rng.normal(size=n)
    return {"dose": words(shown), "driven": words([f"{k:,} mi" for k in miles.tolist()])}, y


def seasons(n: int, rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray]:
    """Four years of days: a trend, a season and weekends."""
    day = rng.integers(0, 1461, n)
    date = np.datetime_as_string(np.datetime64("2020-01-01") + day)
    y = day / 1000 + np.sin(2 * np.pi * day / 365.25) + 0.7 * ((day + 2) % 7 > 4) + 0.2 * rng.normal(size=n)
    return {"date": words(date.tolist())}, y


def holes(n: int, rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray]:
    """Classes that depend on whether a value is there."""
    X, there = rng.normal(size=(n, 4)), rng.random((n, 4)) > 0.2
    score = X[:, 0] * there[:, 0] + 1.5 * ~there[:, 1] - X[:, 2] * there[:, 2] + rng.logistic(size=n)
    filled = np.where(there, X, np.nan)
    return {f"x{j}": filled[:, j] for j in range(4)}, np.where(score > 0.3, "yes", "no")


GENERATED = {
    "towns": ("regression", towns), "marks": ("regression", marks), "seasons": ("regression", seasons),
    "holes": ("classification", holes),
}  # fmt: skip
TABLES = (*CSV, *GENERATED)
ROWS = 4000  # of a generated table, a quarter of them to test on


def task_of(name: str) -> str:
    return (CSV.get(name) or GENERATED[name])[0]


def raw_split(name: str, k: int) -> RawSplit:
    """Split `k` of a table."""
    if name in CSV:
        task, target = CSV[name]
        table = read_csv(name, target, LEAKS.get(name, ()))
        y = choose_target(table, target, task)[0].values(table)
        inputs = table.without(target)
        test = np.zeros(len(y), dtype=bool)
        test[np.random.default_rng(k).permutation(len(y))[: round(len(y) / 10)]] = True
    else:
        columns, y = GENERATED[name][1](ROWS, np.random.default_rng(k))
        inputs, test = Table(name, columns), np.arange(ROWS) >= 3 * ROWS // 4
    return RawSplit(inputs.take(~test), y[~test], inputs.take(test), y[test])


class Matrix(NamedTuple):
    """A table as others take it: objects, numbers with NaN and words with a word for gaps."""

    values: np.ndarray
    is_word: list[bool]


def matrix(table: Table, like: Matrix | None = None) -> Matrix:
    """Columns of numbers are those that were such in the rows trained on."""
    found, is_word = [], []
    for j, name in enumerate(table.names):
        numbers = table.numbers_or_none(name)
        as_word = numbers is None if like is None else like.is_word[j]
        column = (
            [GAP if word is None else word for word in table.words(name).tolist()] if as_word else numbers
        )
        found.append(np.asarray(column, dtype=object))
        is_word.append(as_word)
    return Matrix(np.stack(found, axis=1), is_word)


def _columns(X: Matrix, linear: bool) -> Any:
    """Words by number, or a column for each; numbers as they are, or without gaps on one scale."""
    words, numbers = np.flatnonzero(X.is_word), np.flatnonzero(~np.asarray(X.is_word))
    if linear:
        filled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
        return make_column_transformer(
            (filled, numbers), (OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist"), words)
        )
    coded = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=254)
    return make_column_transformer((coded, words), ("passthrough", numbers))


def _with_width(model: Any, X: np.ndarray, y: np.ndarray, k: int) -> Predict:
    """A Gaussian whose width is that of held-out errors."""
    held = cross_val_predict(clone(model), X, y, cv=KFold(5, shuffle=True, random_state=k))
    width = float(np.sqrt(np.mean((y - held) ** 2)))
    model.fit(X, y)
    return lambda rows: (model.predict(rows), np.full(len(rows), width))


def linear(X: Matrix, y: np.ndarray, k: int, is_class: bool) -> Predict:
    if is_class:
        return (
            make_pipeline(_columns(X, True), LogisticRegression(max_iter=1000)).fit(X.values, y).predict_proba
        )
    return _with_width(make_pipeline(_columns(X, True), RidgeCV(np.logspace(-3, 4, 15))), X.values, y, k)


def hgb(X: Matrix, y: np.ndarray, k: int, is_class: bool) -> Predict:
    native = {"categorical_features": list(range(sum(X.is_word))), "random_state": k}
    if is_class:
        model = make_pipeline(_columns(X, False), HistGradientBoostingClassifier(**native))
        return model.fit(X.values, y).predict_proba
    return _with_width(
        make_pipeline(_columns(X, False), HistGradientBoostingRegressor(**native)), X.values, y, k
    )


def catboost(X: Matrix, y: np.ndarray, k: int, is_class: bool) -> Predict:
    from catboost import CatBoostClassifier, CatBoostRegressor

    given = {"cat_features": np.flatnonzero(X.is_word).tolist(), "random_seed": k, "verbose": False}
    given |= {"allow_writing_files": False, "thread_count": 1}
    if is_class:
        return CatBoostClassifier(**given).fit(X.values, y).predict_proba
    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", **given).fit(X.values, y)

    def predict(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = model.predict(rows).T
        return mean, np.sqrt(variance)

    return predict


OTHERS: dict[str, Callable[..., Predict]] = {"catboost": catboost, "hgb": hgb, "linear": linear}
MODELS = ("tggm", *OTHERS)


def ours(split: RawSplit, k: int, is_class: bool) -> dict[str, Any]:
    clock = time.perf_counter()
    if is_class:
        model = TGGMClassifier(random_state=k).fit(split.train, split.y_train)
        seconds = time.perf_counter() - clock
        return class_figures(split.y_test, model.classes_, model.predict_proba(split.test)) | {
            "fit_s": seconds
        }
    model = TGGMRegressor(random_state=k).fit(split.train, split.y_train)
    seconds = time.perf_counter() - clock
    dist, y = model.predict_dist(split.test), split.y_test
    inside = np.abs(2 * dist.cdf(y) - 1)
    return {
        "rmse": float(np.sqrt(np.mean((y - dist.mean()) ** 2))),
        "ll": float(dist.logpdf(y).mean()),
        "crps": float(dist.crps(y).mean()),
        "cover50": float(np.mean(inside < 0.5)),
        "cover90": float(np.mean(inside < 0.9)),
        "fit_s": seconds,
    }


def work(table: str, model: str, k: int) -> dict[str, Any]:
    """Fit and judge one model on one split, whose number is also the seed."""
    split, is_class = raw_split(table, k), task_of(table) == "classification"
    if model == "tggm":
        return ours(split, k, is_class)
    X = matrix(split.train)
    clock = time.perf_counter()
    with threadpool_limits(1):  # seconds of one core
        predict = OTHERS[model](X, split.y_train, k, is_class)
        seconds = time.perf_counter() - clock
        found = predict(matrix(split.test, X).values)
    if is_class:
        return class_figures(split.y_test, np.unique(split.y_train), np.asarray(found)) | {"fit_s": seconds}
    return gaussian_figures(split.y_test, *found) | {"fit_s": seconds}


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tables", type=some(TABLES), default=list(TABLES), metavar="NAME,...")
    p.add_argument("--models", type=some(MODELS), default=list(MODELS), metavar="NAME,...")
    p.add_argument("--splits", type=int, default=SPLITS, choices=range(1, SPLITS + 1))
    p.add_argument("--jobs", type=int, default=1, help="processes")
    p.add_argument("--out", type=Path, default=RESULTS / "raw_tables.json", help="file of the stored results")
    p.add_argument("--show", action="store_true", help="only print what is stored")
    return p.parse_args(given)


def main() -> None:
    args = arguments()
    begin()
    if not args.show:
        models = [m for m in args.models if m != "catboost" or find_spec("catboost")]
        warnings.simplefilter("ignore")  # of columns left out, and of opponents that did not converge
        tasks = [(table, model, k) for table in args.tables for model in models for k in range(args.splits)]
        complete(args.out, origin(settings={"seed": "number of the split"}), work, tasks, jobs=args.jobs)
    show(read(args.out), args.tables, args.models)


if __name__ == "__main__":
    main()
