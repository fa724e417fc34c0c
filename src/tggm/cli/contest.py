"""Our model and others on the same folds of a table: scores of every row, and what they say.

A row is judged by models that have not seen it. Every row has one squared error, log-score and CRPS (or one
miss and log-score) of each model, so that differences between models are paired, and have standard errors
that are smaller than those of the figures themselves.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tggm.arrays import Floats, Ints
from tggm.cli.opponents import OPPONENTS
from tggm.cli.options import names_in
from tggm.cli.wish import Wish, estimator
from tggm.tables import Preparation, Table, Target, prepare
from tggm.tables.columns import Category, Ordinal, Statistic

OURS = "this model"
LEAST = 1e-15  # probability of a label, so that one row cannot make a score infinite
CLEAR = 2.0  # standard errors of a difference beyond which it counts
RowScores = dict[str, Floats]  # measure to a score of each row
Say = Callable[[str], None]


@dataclass
class Result:
    """What one model reached: scores of the rows of each fold, and the seconds that its fits took."""

    scores: list[RowScores] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    failure: str | None = None

    def all_rows(self, measure: str, folds: int) -> Floats:
        """Of the first so many folds."""
        return np.concatenate([scores[measure] for scores in self.scores[:folds]])


@dataclass(frozen=True)
class Fold:
    """Rows to learn from and rows to judge by, as numbers and, for those who take words, as they are."""

    X: Floats
    y: NDArray[Any]
    X_test: Floats
    y_test: NDArray[Any]
    preparation: Preparation
    train: Table
    test: Table


def contest(
    table: Table, target: Target, wish: Wish, models: Sequence[str], folds: int, say: Say
) -> tuple[dict[str, Result], bool]:
    """Results of ours and of others by name, and whether it was interrupted."""
    found = {name: Result() for name in (OURS, *models)}
    y = target.values(table)
    try:
        for k, held in enumerate(places(y, folds, wish.seed, stratified=target.is_class)):
            fold = _fold(table, target, wish, held)
            for name, result in found.items():
                if result.failure is None:
                    _judged(name, result, fold, wish)
                    took = result.failure or f"{result.seconds[-1]:.1f} s"
                    say(f"  fold {k + 1}/{folds}  {name}  {took}")
    except KeyboardInterrupt:
        return found, True
    return found, False


def places(y: NDArray[Any], folds: int, seed: int, *, stratified: bool) -> list[Ints]:
    """Rows of each fold; every class is spread over all."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    if stratified:
        order = order[np.argsort(np.unique(y[order], return_inverse=True)[1], kind="stable")]
    return [np.sort(order[k::folds]) for k in range(folds)]


def _fold(table: Table, target: Target, wish: Wish, held: Ints) -> Fold:
    rest = np.setdiff1d(np.arange(len(table)), held)
    train, test = table.take(rest), table.take(held)
    ignore, words = (names_in(names, train.names) for names in (wish.ignore, wish.categorical))
    preparation = prepare(train, target, ignore=ignore, categorical=words, gaps=wish.missing)
    y = preparation.targets(train)
    X = preparation.learned_features(train, y, preparation.features(train))
    return Fold(X, y, preparation.features(test), preparation.targets(test), preparation, train, test)


def _judged(name: str, result: Result, fold: Fold, wish: Wish) -> None:
    """One model on one fold; that an opponent fails is a result, and the others go on."""
    begin = time.perf_counter()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of models that did not converge, or meet a constant column
        if name == OURS:
            scores = _ours(fold, wish)
        else:
            try:
                scores = _theirs(name, fold, wish.seed)
            except Exception as error:
                result.failure = f"failed: {type(error).__name__}: {error}"[:200]
                return
    result.scores.append(scores)
    result.seconds.append(time.perf_counter() - begin)


def _ours(fold: Fold, wish: Wish) -> RowScores:
    target = fold.preparation.target
    model = estimator(wish, target.is_class, len(fold.y)).fit(fold.X, fold.y)
    if model.interrupted_:
        raise KeyboardInterrupt
    if target.is_class:
        return class_scores(fold.y_test, model.classes_, model.predict_proba(fold.X_test))
    law = model.predict_dist(fold.X_test)
    error = fold.y_test - model.predict(fold.X_test)
    return {"rmse": error**2, "log_score": law.logpdf(fold.y_test), "crps": law.crps(fold.y_test)}


def _theirs(name: str, fold: Fold, seed: int) -> RowScores:
    opponent, is_class = OPPONENTS[name], fold.preparation.target.is_class
    fit = opponent.classification if is_class else opponent.regression
    if fit is None:
        raise ValueError("it knows no classes")
    X, X_test = fold.X, fold.X_test
    if opponent.frames:
        X, X_test = (_frame(fold.preparation, rows) for rows in (fold.train, fold.test))
    predicted = fit(X, fold.y, seed)(X_test)
    if is_class:
        return class_scores(fold.y_test, np.unique(fold.y), np.asarray(predicted))
    return gaussian_scores(fold.y_test, *predicted)


def _frame(preparation: Preparation, table: Table) -> Any:
    """Words as words, and all else as the numbers that we see."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for column in preparation.columns:
        if isinstance(column, Category | Ordinal | Statistic):
            columns[column.name] = table.words(column.name)
        else:
            columns |= dict(zip(column.features, column.encode(table, []).T, strict=True))
    return pd.DataFrame(columns)


def gaussian_scores(y: Floats, mean: Floats, std: Floats) -> RowScores:
    """RowScores of Gaussian predictions."""
    from tggm.predictive.gaussian_mixture import GaussianMixture

    law = GaussianMixture(np.asarray(mean)[None, :], np.asarray(std)[None, :] ** 2)
    return {"rmse": (y - mean) ** 2, "log_score": law.logpdf(y), "crps": law.crps(y)}


def class_scores(y: NDArray[Any], labels: NDArray[Any], probability: Floats) -> RowScores:
    """Misses and log-probabilities; a class that was not there to learn from has hardly any."""
    place = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
    known = labels[place] == y
    own = np.where(known, probability[np.arange(len(y)), place], 0.0)
    wrong = labels[probability.argmax(1)] != y
    return {"error": wrong.astype(np.float64), "log_score": np.log(np.maximum(own, LEAST))}
