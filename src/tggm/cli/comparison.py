"""Our model and others on the same folds of a table.

Every row is predicted by models that were not fitted to it, and has one squared error, log-score and CRPS (or
one error and log-score) per model. Differences between models are therefore paired, and their standard errors
are smaller than those of the scores themselves.
"""

import time
import warnings
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

from tggm.arrays import Floats
from tggm.cli.commands import OPPONENTS
from tggm.cli.files import CommandError, say
from tggm.cli.training import FitOptions, build_estimator, input_columns
from tggm.predictive import GaussianMixture
from tggm.tables import Table, TableTransformer, Target
from tggm.tables.baselines import TITLES, fit_baselines, row_scores

OURS = "this model"
LEAST = 1e-15  # probability of a label, so that one row cannot make a score infinite
CLEAR = 2.0  # standard errors beyond which a difference counts
NAMES = {"rmse": "RMSE", "error": "error", "log_score": "log-score", "crps": "CRPS"}
MARKS = {None: " ", "better": "+", "worse": "-", "even": "="}
Result = dict[str, dict[str, Any]]  # by model and measure, as JSON has them


def choose_models(text: str | None) -> list[str]:
    """Return the models asked for, or all but the naive one."""
    names = OPPONENTS[1:] if text is None else [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in OPPONENTS]:
        raise CommandError(f"--models knows {', '.join(OPPONENTS)}; got {unknown[0]!r}.")
    return list(names)


def run_comparison(
    table: Table, target: Target, options: FitOptions, models: list[str], folds: int
) -> Result:
    """Return the scores of all models."""
    rows: dict[str, list[dict[str, Floats]]] = {name: [] for name in (OURS, *models)}
    seconds = dict.fromkeys(rows, 0.0)
    inputs, y = input_columns(table, options), target.values(table)
    splits = (StratifiedKFold if target.is_class else KFold)(folds, shuffle=True, random_state=options.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of models that stop early, of columns and of rare classes
        for k, (rest, held) in enumerate(splits.split(y, y)):
            data = inputs.take(rest), y[rest], inputs.take(held)
            for name in rows:
                begin = time.perf_counter()
                prediction, labels = predicted(name, data, target.is_class, options)
                rows[name].append(row_scores(*on_all_labels(prediction, labels, y[held])))
                seconds[name] += (time.perf_counter() - begin) / folds
                if not options.quiet:
                    say(f"  fold {k + 1}/{folds}  {name}")
    joined = {
        name: {m: np.concatenate([fold[m] for fold in found]) for m in found[0]}
        for name, found in rows.items()
    }
    return {name: figures(own, joined[OURS]) | {"seconds": seconds[name]} for name, own in joined.items()}


def predicted(name: str, data: Any, is_class: bool, options: FitOptions) -> tuple[Any, Any]:
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
    encoder = TableTransformer(task="classification" if is_class else "regression")
    X, X_test = encoder.fit_transform(train, y), encoder.transform(test)
    if name in TITLES:
        baselines = fit_baselines(X, y, is_class)
        found = {} if baselines is None else baselines.predictions(X_test, is_class)
        if name not in found:
            raise CommandError(f"{name} cannot be fitted to these rows; leave it out of --models.")
        return found[name], np.unique(y) if is_class else None
    trees = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
    model = trees(random_state=options.seed).fit(X, y)
    if is_class:
        return np.log(np.maximum(model.predict_proba(X_test), LEAST)), model.classes_
    held_out = cross_val_predict(model, X, y, cv=KFold(5, shuffle=True, random_state=options.seed))
    variance = np.full((1, len(X_test)), np.mean((y - held_out) ** 2))
    return GaussianMixture(model.predict(X_test)[None, :], variance), None


def on_all_labels(prediction: Any, labels: Any, y: Any) -> tuple[Any, Any]:
    """Return log-probabilities of all classes and their numbers; a class not in training gets the least."""
    if labels is None:
        return prediction, y
    known = np.union1d(labels, y)
    log_p = np.full((len(y), len(known)), np.log(LEAST))
    log_p[:, np.searchsorted(known, labels)] = np.maximum(prediction, np.log(LEAST))
    return log_p, np.searchsorted(known, y)


def figures(own: dict[str, Floats], ours: dict[str, Floats]) -> dict[str, Any]:
    """Return each score, its standard error, and whether it is better or worse than ours."""
    found: dict[str, Any] = {}
    for measure, rows in own.items():
        gain = rows - ours[measure] if measure == "log_score" else ours[measure] - rows
        (mean, error), (ahead, doubt) = ((float(a.mean()), float(a.std(ddof=1) / np.sqrt(len(a))))
                                         for a in (rows, gain))  # fmt: skip
        beside = "even" if abs(ahead) <= CLEAR * doubt else "better" if ahead > 0 else "worse"
        if measure == "rmse":  # of a root: the error of the square over 2 RMSE
            mean = np.sqrt(mean)
            error = error / (2 * mean) if mean > 0 else 0.0
        found[measure] = {"value": mean, "error": error, "beside_ours": None if own is ours else beside}
    return found


def comparison_text(found: Result) -> str:
    """Return a line for each model."""
    measures = [measure for measure in found[OURS] if measure != "seconds"]
    table = [["", *(f"{NAMES[m]}  " for m in measures), "s/fold"]]
    for name, own in found.items():
        cells = (
            f"{own[m]['value']:.4g} ± {own[m]['error']:.2g} {MARKS[own[m]['beside_ours']]}" for m in measures
        )
        table.append([name, *cells, f"{own['seconds']:.3g}"])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        f"{name:<{widths[0]}}" + "".join(f"  {cell:>{w}}" for cell, w in zip(cells, widths[1:], strict=True))
        for name, *cells in table
    ]
    key = "+ better, - worse than this model by over two standard errors of the\npaired difference, = neither"
    return "\n".join([*lines, "", key, ""])
