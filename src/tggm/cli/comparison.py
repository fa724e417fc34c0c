"""Our model and others on the same folds of a table.

Every row is predicted by models that were not fitted to it, and has one squared error, log-score and CRPS (or
one error and log-score) per model. Differences between models are therefore paired, and their standard errors
are smaller than those of the scores themselves.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats, Ints
from tggm.cli.files import CommandError
from tggm.cli.opponents import OPPONENTS, not_installed
from tggm.cli.training import FitOptions, build_estimator, input_columns
from tggm.predictive.moment import MomentPredictive
from tggm.tables import Table, TableTransformer, Target
from tggm.tables.columns import Category, Ordinal, Statistic

OURS = "this model"
LEAST = 1e-15  # probability of a label, so that one row cannot make a score infinite
CLEAR = 2.0  # standard errors beyond which a difference counts
TITLES = {"rmse": "RMSE", "error": "error", "log_score": "log-score", "crps": "CRPS"}
MARKS = {None: " ", "better": "+", "worse": "-", "even": "="}
RowScores = dict[str, Floats]  # by measure, a score of each row
Result = dict[str, Any]  # folds, figures, seconds and failed, as JSON has them


@dataclass
class Scores:
    """Scores of one model by fold, the seconds of its folds, and why it failed."""

    rows: list[RowScores] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failure: str | None = None


def choose_models(text: str | None, tell: Callable[[str], None]) -> list[str]:
    """Return the models asked for, which must be installed, or the usual ones that are."""
    if text is None:
        usual = [name for name in OPPONENTS if name != "mean"]
        if missing := not_installed(usual):
            tell(f"not installed, and left out: {', '.join(missing)}")
        return [name for name in usual if name not in missing]
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in OPPONENTS]:
        raise CommandError(f"--models knows {', '.join(OPPONENTS)}; got {unknown[0]!r}.")
    if missing := not_installed(names):
        raise CommandError(f"{missing[0]} is not installed; install it with: pip install {missing[0]}")
    return names


def run_comparison(
    table: Table, target: Target, options: FitOptions, models: Sequence[str], folds: int,
    tell: Callable[[str], None],
) -> tuple[Result, bool]:  # fmt: skip
    """Return the scores of all models, and whether Ctrl-C left only some of the folds."""
    found = {name: Scores() for name in (OURS, *models)}
    inputs, y = input_columns(table, options), target.values(table)
    interrupted = False
    try:
        for k, held in enumerate(assign_folds(y, folds, options.seed, stratified=target.is_class)):
            rest = np.setdiff1d(np.arange(len(y)), held)
            data = inputs.take(rest), y[rest], inputs.take(held), y[held]
            for name, scores in found.items():
                if scores.failure is None:
                    _score_fold(name, scores, data, target.is_class, options)
                    tell(f"  fold {k + 1}/{folds}  {name}  {scores.failure or f'{scores.seconds[-1]:.1f} s'}")
    except KeyboardInterrupt:
        interrupted = True
    return summarise(found), interrupted


def assign_folds(y: NDArray[Any], folds: int, seed: int, *, stratified: bool) -> list[Ints]:
    """Return the rows of each fold; with `stratified`, every class is spread over all folds."""
    order = np.random.default_rng(seed).permutation(len(y))
    if stratified:
        order = order[np.argsort(np.unique(y[order], return_inverse=True)[1], kind="stable")]
    return [np.sort(order[k::folds]) for k in range(folds)]


def _score_fold(name: str, scores: Scores, data: Any, is_class: bool, options: FitOptions) -> None:
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of models that stop early, and of columns
        if name == OURS:
            found = score_ours(data, is_class, options)
        else:
            try:
                found = score_opponent(name, data, is_class, options.seed)
            except Exception as error:
                scores.failure = f"failed: {type(error).__name__}: {error}"[:200]
                return
    scores.rows.append(found)
    scores.seconds.append(time.perf_counter() - begin)


def score_ours(data: Any, is_class: bool, options: FitOptions) -> RowScores:
    """Fit our model to a fold and return its scores."""
    train, y, test, y_test = data
    model = build_estimator(options, is_class, len(y)).fit(train, y)
    if model.interrupted_:
        raise KeyboardInterrupt
    if is_class:
        return class_scores(y_test, model.classes_, model.predict_proba(test))
    law, error = model.predict_dist(test), y_test - model.predict(test)
    return {"rmse": error**2, "log_score": law.logpdf(y_test), "crps": law.crps(y_test)}


def score_opponent(name: str, data: Any, is_class: bool, seed: int) -> RowScores:
    """Fit another model to a fold and return its scores."""
    train, y, test, y_test = data
    opponent, transformer = (
        OPPONENTS[name],
        TableTransformer(task="classification" if is_class else "regression"),
    )
    X, X_test = transformer.fit_transform(train, y), transformer.transform(test)
    if opponent.frames:
        X, X_test = _frame(transformer, train), _frame(transformer, test)
    fit: Any = opponent.classification if is_class else opponent.regression
    predicted = fit(X, y, seed)(X_test)
    if is_class:
        return class_scores(y_test, np.unique(y), np.asarray(predicted))
    return gaussian_scores(y_test, *predicted)


def _frame(transformer: TableTransformer, table: Table) -> Any:
    """Return a data frame with words as words, and all else as the numbers that our model sees."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for column in transformer.columns_:
        if isinstance(column, Category | Ordinal | Statistic):
            columns[column.name] = table.words(column.name)
        else:
            columns |= dict(zip(column.features, column.encode(table, []).T, strict=True))
    return pd.DataFrame(columns)


def gaussian_scores(y: Floats, mean: Floats, std: Floats) -> RowScores:
    """Return the scores of Gaussian predictions."""
    law = MomentPredictive(np.asarray(mean)[None, :], np.asarray(std)[None, :] ** 2)
    return {"rmse": (y - mean) ** 2, "log_score": law.logpdf(y), "crps": law.crps(y)}


def class_scores(y: NDArray[Any], labels: NDArray[Any], probability: Floats) -> RowScores:
    """Return errors and log-probabilities; a class that was not in training gets the least probability."""
    place = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
    own = np.where(labels[place] == y, probability[np.arange(len(y)), place], 0.0)
    wrong = labels[probability.argmax(1)] != y
    return {"error": wrong.astype(np.float64), "log_score": np.log(np.maximum(own, LEAST))}


def summarise(found: dict[str, Scores]) -> Result:
    """Return the scores of the folds that all models have finished; KeyboardInterrupt if there is none."""
    failed = {name: scores.failure for name, scores in found.items() if scores.failure is not None}
    able = {name: scores for name, scores in found.items() if name not in failed}
    folds = min(len(scores.rows) for scores in able.values())
    if not folds:
        raise KeyboardInterrupt
    measures = able[OURS].rows[0]
    rows = {
        name: {m: np.concatenate([fold[m] for fold in scores.rows[:folds]]) for m in measures}
        for name, scores in able.items()
    }
    figures = {
        name: {m: _figure(m, own[m], None if name == OURS else rows[OURS][m]) for m in measures}
        for name, own in rows.items()
    }
    seconds = {name: float(np.mean(scores.seconds[:folds])) for name, scores in able.items()}
    return {"folds": folds, "figures": figures, "seconds": seconds, "failed": failed}


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
        (name, m, figure["value"], figure["error"], figure["beside_ours"], found["seconds"][name])
        for name, own in found["figures"].items()
        for m, figure in own.items()
    ]
    return {
        name: np.array(column, object) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
