"""Our model and others on the same folds of a table.

Every row is predicted by models that were not fitted to it, and has one squared error, log-score and CRPS (or
one error and log-score) per model. Differences between models are therefore paired, and their standard errors
are smaller than those of the scores themselves.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tggm.arrays import Floats, Ints
from tggm.cli.commands import OPPONENTS
from tggm.cli.files import CommandError
from tggm.cli.training import FitOptions, build_estimator, input_columns
from tggm.predictive import GaussianMixture
from tggm.tables import Table, TableTransformer, Target
from tggm.tables.columns import Category, Ordinal, Statistic

OURS = "this model"
PACKAGES = ("catboost", "lightgbm")  # opponents that are packages of their own
LEAST = 1e-15  # probability of a label, so that one row cannot make a score infinite
CLEAR = 2.0  # standard errors beyond which a difference counts
TITLES = {"rmse": "RMSE", "error": "error", "log_score": "log-score", "crps": "CRPS"}
MARKS = {None: " ", "better": "+", "worse": "-", "even": "="}
RowScores = dict[str, Floats]  # by measure, a score of each row
Result = dict[str, Any]  # folds, figures, seconds and failed, as JSON has them


def choose_models(text: str | None, tell: Callable[[str], None]) -> list[str]:
    """Return the models asked for, which must be installed, or the usual ones that are."""
    names = OPPONENTS[1:] if text is None else [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in OPPONENTS]:
        raise CommandError(f"--models knows {', '.join(OPPONENTS)}; got {unknown[0]!r}.")
    missing = [name for name in names if name in PACKAGES and find_spec(name) is None]
    if missing and text is not None:
        raise CommandError(f"{missing[0]} is not installed; install it with: pip install {missing[0]}")
    if missing:
        tell(f"not installed, and left out: {', '.join(missing)}")
    return [name for name in names if name not in missing]


def opponent(name: str, is_class: bool, seed: int, words: Sequence[str] = ()) -> Any:
    """Return another model with its own defaults; `words` are the categorical columns of a data frame."""
    if name == "catboost":
        import catboost

        settings = {"cat_features": list(words), "random_seed": seed, "thread_count": 1}
        settings |= {"verbose": False, "allow_writing_files": False}
        if is_class:
            return catboost.CatBoostClassifier(**settings)
        return catboost.CatBoostRegressor(loss_function="RMSEWithUncertainty", **settings)
    if name == "lightgbm":
        import lightgbm

        kind = lightgbm.LGBMClassifier if is_class else lightgbm.LGBMRegressor
        return kind(random_state=seed, n_jobs=1, verbose=-1)
    if name == "mean":
        return DummyClassifier() if is_class else DummyRegressor()
    if name == "hgb":
        kind = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
        return kind(random_state=seed)
    linear = LogisticRegression(max_iter=1000) if is_class else RidgeCV(np.logspace(-3, 4, 15))
    return make_pipeline(StandardScaler(), linear)


def run_comparison(
    table: Table, target: Target, options: FitOptions, models: Sequence[str], folds: int,
    tell: Callable[[str], None],
) -> tuple[Result, bool]:  # fmt: skip
    """Return the scores of all models, and whether Ctrl-C left only some of the folds."""
    rows: dict[str, list[RowScores]] = {name: [] for name in (OURS, *models)}
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    failed: dict[str, str] = {}
    inputs, y, interrupted = input_columns(table, options), target.values(table), False
    try:
        for k, held in enumerate(assign_folds(y, folds, options.seed, stratified=target.is_class)):
            rest = np.setdiff1d(np.arange(len(y)), held)
            data = inputs.take(rest), y[rest], inputs.take(held), y[held]
            for name in [name for name in rows if name not in failed]:
                begin = time.perf_counter()
                try:
                    rows[name].append(score_fold(name, data, target.is_class, options))
                except Exception as error:
                    if name == OURS:
                        raise
                    failed[name] = f"failed: {type(error).__name__}: {error}"[:200]
                seconds[name].append(time.perf_counter() - begin)
                tell(f"  fold {k + 1}/{folds}  {name}  {failed.get(name, f'{seconds[name][-1]:.1f} s')}")
    except KeyboardInterrupt:
        interrupted = True
    able = {name: found for name, found in rows.items() if name not in failed}
    means = {name: float(np.mean(seconds[name])) for name in able if seconds[name]}
    return summarise(able) | {"seconds": means, "failed": failed}, interrupted


def assign_folds(y: NDArray[Any], folds: int, seed: int, *, stratified: bool) -> list[Ints]:
    """Return the rows of each fold; with `stratified`, every class is spread over all folds."""
    order = np.random.default_rng(seed).permutation(len(y))
    if stratified:
        order = order[np.argsort(np.unique(y[order], return_inverse=True)[1], kind="stable")]
    return [np.sort(order[k::folds]) for k in range(folds)]


def score_fold(name: str, data: Any, is_class: bool, options: FitOptions) -> RowScores:
    """Fit a model to the training rows of a fold and return its scores on the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of models that stop early, and of columns
        if name == OURS:
            return score_ours(data, is_class, options)
        return score_opponent(name, data, is_class, options.seed)


def score_ours(data: Any, is_class: bool, options: FitOptions) -> RowScores:
    """Return the scores of our model."""
    train, y, test, y_test = data
    model = build_estimator(options, is_class, len(y)).fit(train, y)
    if model.interrupted_:
        raise KeyboardInterrupt
    if is_class:
        return class_scores(y_test, model.classes_, model.predict_proba(test))
    law, error = model.predict_dist(test), y_test - model.predict(test)
    return {"rmse": error**2, "log_score": law.logpdf(y_test), "crps": law.crps(y_test)}


def score_opponent(name: str, data: Any, is_class: bool, seed: int) -> RowScores:
    """Return the scores of another model.

    A regression that predicts only numbers gets one standard deviation, that of its errors in five folds.
    """
    train, y, test, y_test = data
    encoder = TableTransformer(task="classification" if is_class else "regression")
    X, X_test, words = encoder.fit_transform(train, y), encoder.transform(test), []
    if name == "catboost":
        X, X_test = _frame(encoder, train), _frame(encoder, test)
        words = X.select_dtypes(exclude="number").columns.tolist()
    model = opponent(name, is_class, seed, words)
    if is_class:
        return class_scores(y_test, np.unique(y), model.fit(X, y).predict_proba(X_test))
    if name == "catboost":
        mean, variance = model.fit(X, y).predict(X_test).T
        return gaussian_scores(y_test, mean, np.sqrt(variance))
    held_out = cross_val_predict(model, X, y, cv=KFold(5, shuffle=True, random_state=seed))
    width = np.sqrt(np.mean((y - held_out) ** 2))
    return gaussian_scores(y_test, model.fit(X, y).predict(X_test), np.full(len(y_test), width))


def _frame(transformer: TableTransformer, table: Table) -> Any:
    """Return a data frame with words as words, and all else as the numbers that our model sees."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for column in transformer.columns_:
        if isinstance(column, Category | Ordinal | Statistic):
            words = table.words(column.name)
            columns[column.name] = np.where(table.known(column.name), words, "(missing)").astype(str)
        else:
            columns |= dict(zip(column.features, column.encode(table, []).T, strict=True))
    return pd.DataFrame(columns)


def gaussian_scores(y: Floats, mean: Floats, std: Floats) -> RowScores:
    """Return the scores of Gaussian predictions."""
    law = GaussianMixture(np.asarray(mean)[None, :], np.asarray(std)[None, :] ** 2)
    return {"rmse": (y - mean) ** 2, "log_score": law.logpdf(y), "crps": law.crps(y)}


def class_scores(y: NDArray[Any], labels: NDArray[Any], probability: Floats) -> RowScores:
    """Return errors and log-probabilities; a class that was not in training gets the least probability."""
    place = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
    own = np.where(labels[place] == y, probability[np.arange(len(y)), place], 0.0)
    wrong = labels[probability.argmax(1)] != y
    return {"error": wrong.astype(np.float64), "log_score": np.log(np.maximum(own, LEAST))}


def summarise(found: dict[str, list[RowScores]]) -> Result:
    """Return the scores of the folds that all models have finished; KeyboardInterrupt if there is none."""
    folds = min(map(len, found.values()))
    if not folds:
        raise KeyboardInterrupt
    rows = {
        name: {m: np.concatenate([fold[m] for fold in scores[:folds]]) for m in scores[0]}
        for name, scores in found.items()
    }
    figures = {
        name: {m: _figure(m, own[m], None if name == OURS else rows[OURS][m]) for m in own}
        for name, own in rows.items()
    }
    return {"folds": folds, "figures": figures}


def _figure(measure: str, rows: Floats, ours: Floats | None) -> dict[str, Any]:
    """Return a score, its standard error, and whether it is better or worse than ours."""
    value, error = _mean(rows)
    beside = None
    if ours is not None:
        gain, doubt = _mean(rows - ours if measure == "log_score" else ours - rows)
        beside = "even" if abs(gain) <= CLEAR * doubt else "better" if gain > 0 else "worse"
    if measure == "rmse":  # of a root: the error of the square over 2 RMSE
        value = float(np.sqrt(value))
        error = error / (2 * value) if value > 0 else 0.0
    return {"value": value, "error": error, "beside_ours": beside}


def _mean(rows: Floats) -> tuple[float, float]:
    """Return a mean and its standard error."""
    spread = rows.std(ddof=1) if len(rows) > 1 else 0.0
    return float(rows.mean()), float(spread / np.sqrt(len(rows)))


def comparison_text(found: Result) -> str:
    """Return a line for each model, and sentences on who is ahead."""
    figures, measures = found["figures"], list(found["figures"][OURS])
    table = [["", *(f"{TITLES[m]}  " for m in measures), "s/fold"]]
    for name, own in figures.items():
        cells = (f"{f['value']:.4g} ± {f['error']:.2g} {MARKS[f['beside_ours']]}" for f in own.values())
        table.append([name, *cells, f"{found['seconds'][name]:.3g}"])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        f"{name:<{widths[0]}}" + "".join(f"  {cell:>{w}}" for cell, w in zip(cells, widths[1:], strict=True))
        for name, *cells in table
    ]
    key = "+ better, - worse than this model by over two standard errors of the paired difference, = neither"
    lines += ["", fill(key, 80), *(f"{name} {why}" for name, why in found["failed"].items())]
    for beside, words in (("better", "behind"), ("worse", "ahead of"), ("even", "not different from")):
        names = [
            f"{name} ({', '.join(listed)})"
            for name, own in figures.items()
            if (listed := [TITLES[m] for m, figure in own.items() if figure["beside_ours"] == beside])
        ]
        if names:
            lines.append(fill(f"{OURS} is {words} {'; '.join(names)}", 80, subsequent_indent="  "))
    return "\n".join(lines) + "\n"


def comparison_columns(found: Result) -> dict[str, NDArray[Any]]:
    """Return the columns of a CSV file, one line for each model and measure."""
    names = ("model", "measure", "value", "standard_error", "beside_this_model", "seconds_a_fold")
    rows = [
        (name, m, *figure.values(), found["seconds"][name])
        for name, own in found["figures"].items()
        for m, figure in own.items()
    ]
    return dict(zip(names, np.array(rows, object).T, strict=True))
