"""Compare our model with others on the same folds of a table.

Every row is predicted by models that were not fitted to it, and has one squared error, log-score and CRPS (or
one error and log-score) per model. Differences between models are therefore paired, and their standard errors
are smaller than those of the scores themselves.
"""

import time
import warnings
from argparse import Namespace
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

from tggm.arrays import Floats
from tggm.cli.commands import OPPONENTS
from tggm.cli.files import CommandError, say
from tggm.cli.training import build_estimator, input_columns, resolve_columns
from tggm.predictive import GaussianMixture
from tggm.report.scores import aligned, four_digits
from tggm.tables import Table, TableTransformer, Target
from tggm.tables.baselines import TITLES, fit_baselines, row_scores
from tggm.tables.columns import Category, Ordinal, Statistic
from tggm.tables.transformer import CHOICES

OURS = "this model"
LEAST = 1e-15  # probability of a label, so that one row cannot make a score infinite
CLEAR = 2.0  # standard errors above which a difference is reported
NAMES = {"rmse": "RMSE", "error": "error", "log_score": "log-likelihood", "crps": "CRPS"}
MARKS = {None: " ", "better": "+", "worse": "-", "even": "="}
Result = dict[str, dict[str, Any]]  # by model and measure, as in the JSON output


def choose_models(text: str | None) -> list[str]:
    """Return the requested models, or the default ones; CatBoost must be installed."""
    names = OPPONENTS[1:] if text is None else [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in OPPONENTS]:
        raise CommandError(f"--models must be some of {', '.join(OPPONENTS)}; got {unknown[0]!r}.")
    absent = "catboost" in names and find_spec("catboost") is None
    if absent and text is not None:
        raise CommandError("catboost is not installed; install it with: pip install catboost")
    return [name for name in names if not (absent and name == "catboost")]


def boosted_trees(name: str, is_class: bool, seed: int, words: list[str]) -> Any:
    """Return a model with its own defaults; `words` are the categorical columns of a data frame."""
    if name == "hgb":
        kind = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
        return kind(random_state=seed)
    import catboost

    settings = {"cat_features": words, "random_seed": seed, "thread_count": 1}
    settings |= {"verbose": False, "allow_writing_files": False}
    if is_class:
        return catboost.CatBoostClassifier(**settings)
    return catboost.CatBoostRegressor(loss_function="RMSEWithUncertainty", **settings)


def run_comparison(table: Table, target: Target, options: Namespace, models: list[str], folds: int) -> Result:
    """Return the scores of all models."""
    rows: dict[str, list[dict[str, Floats]]] = {name: [] for name in (OURS, *models)}
    seconds = dict.fromkeys(rows, 0.0)
    inputs, y = input_columns(table, options), target.values(table)
    options = resolve_columns(table, options)
    splits = (StratifiedKFold if target.is_class else KFold)(folds, shuffle=True, random_state=options.seed)
    with warnings.catch_warnings(action="ignore"):  # about early stopping, columns and rare classes
        for k, (rest, held) in enumerate(splits.split(y, y)):
            data = inputs.take(rest), y[rest], inputs.take(held)
            for name in rows:
                begin = time.perf_counter()
                prediction, labels = fit_and_predict(name, data, target.is_class, options)
                rows[name].append(row_scores(*on_all_labels(prediction, labels, y[held])))
                seconds[name] += (time.perf_counter() - begin) / folds
                if not options.quiet:
                    say(f"  fold {k + 1}/{folds}  {name}")
    joined = {name: {m: np.concatenate([f[m] for f in own]) for m in own[0]} for name, own in rows.items()}
    return {name: figures(own, joined[OURS]) | {"seconds": seconds[name]} for name, own in joined.items()}


def fit_and_predict(name: str, data: Any, is_class: bool, options: Namespace) -> tuple[Any, Any]:
    """Fit a model and return its predictions: distributions, or log-probabilities and their labels.

    A regression that predicts only numbers gets one standard deviation, that of its errors in five folds.
    """
    train, y, test = data
    if name == OURS:
        model = build_estimator(options, is_class, len(y)).fit(train, y)
        if model.interrupted_:
            raise KeyboardInterrupt
        return (
            (model.predict_log_proba(test), model.classes_) if is_class else (model.predict_dist(test), None)
        )
    choices = {kind: getattr(options, kind) for kind in CHOICES}
    encoder, words = TableTransformer(task="classification" if is_class else "regression", **choices), []
    X, X_test = encoder.fit_transform(train, y), encoder.transform(test)
    if name in TITLES:
        baselines = fit_baselines(X, y, is_class)
        found = {} if baselines is None else baselines.predictions(X_test, is_class)
        if name not in found:
            raise CommandError(f"{name} cannot be fitted to these rows; leave it out of --models.")
        return found[name], np.unique(y) if is_class else None
    if name == "catboost":
        X, X_test = _frame(encoder, train), _frame(encoder, test)
        words = X.select_dtypes(exclude="number").columns.tolist()
    model = boosted_trees(name, is_class, options.seed, words)
    if is_class:
        p = model.fit(X, y).predict_proba(X_test)
        return np.log(np.maximum(p, LEAST)), model.classes_
    if name == "catboost":
        mean, variance = model.fit(X, y).predict(X_test).T
    else:
        folds = KFold(5, shuffle=True, random_state=options.seed)
        mean = model.fit(X, y).predict(X_test)
        variance = np.full(len(mean), np.mean((y - cross_val_predict(model, X, y, cv=folds)) ** 2))
    return GaussianMixture(mean[None, :], variance[None, :]), None


def on_all_labels(prediction: Any, labels: Any, y: Any) -> tuple[Any, Any]:
    """Return log-probabilities of all classes and their numbers; a class not in training gets `LEAST`."""
    if labels is None:
        return prediction, y
    known = np.union1d(labels, y)
    log_p = np.full((len(y), len(known)), np.log(LEAST))
    log_p[:, np.searchsorted(known, labels)] = np.maximum(prediction, np.log(LEAST))
    return log_p, np.searchsorted(known, y)


def _frame(transformer: TableTransformer, table: Table) -> Any:
    """Return a data frame with columns of words unchanged, and all others as features of our model."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for column in transformer.columns_:
        if isinstance(column, Category | Ordinal | Statistic):
            words = table.words(column.name)
            columns[column.name] = np.where(table.known(column.name), words, "(missing)").astype(str)
        else:
            columns |= dict(zip(column.features, column.encode(table, []).T, strict=True))
    return pd.DataFrame(columns)


def figures(own: dict[str, Floats], ours: dict[str, Floats]) -> dict[str, Any]:
    """Return each score, its standard error, and whether it is better or worse than ours."""
    found: dict[str, Any] = {}
    for measure, rows in own.items():
        gain = rows - ours[measure] if measure == "log_score" else ours[measure] - rows
        (mean, error), (ahead, ahead_error) = ((float(a.mean()), float(a.std(ddof=1) / np.sqrt(len(a))))
                                         for a in (rows, gain))  # fmt: skip
        beside = "even" if abs(ahead) <= CLEAR * ahead_error else "better" if ahead > 0 else "worse"
        if measure == "rmse":  # the error of a root is that of the square, divided by 2 RMSE
            mean = np.sqrt(mean)
            error = error / (2 * mean) if mean > 0 else 0.0
        found[measure] = {"value": mean, "error": error, "beside_ours": None if own is ours else beside}
    return found


def comparison_text(found: Result) -> str:
    """Return a line for each model."""
    measures = [measure for measure in found[OURS] if measure != "seconds"]
    table = [["", *(f"{NAMES[m]}  " for m in measures), "s/fold"]]
    for name, own in found.items():
        cells = []
        for score in (own[m] for m in measures):
            error = four_digits(float(f"{score['error']:.2g}"))
            cells.append(f"{four_digits(score['value'])} ± {error} {MARKS[score['beside_ours']]}")
        table.append([f"{name:<{len(OURS)}}", *cells, f"{own['seconds']:.3g}"])
    key = "+ better, - worse than this model by over two standard errors of the\npaired difference, = neither"
    return f"{aligned(table)}\n\n{key}\n"
