"""The development tables under one roof: five splits each, as numbers and as they came.

    from tables import TABLES
    X_train, y_train, X_test, y_test = TABLES["ames"].split(0)

None is in the paper, so defaults may be chosen on them. Twelve are arrays whose source has ten folds: split k
tests on fold k. Six are CSV files with words and gaps, cut 90 : 10 at random; what `tggm fit` does to a table
makes them numbers, learned from the training rows. Scikit-learn's diabetes is cut in the same way. Eight are
generated, each split with a seed of its own and 1,000 test rows: there the truth is known.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from datasets import path_of
from recipes import RECIPES
from sklearn.datasets import load_diabetes

from tggm.tables import Table, TableTransformer, TableWarning, choose_target, read_table

SPLITS = 5
HELD_OUT = 1000  # test rows of a generated table


class Split(NamedTuple):
    """Rows to train on and rows to test on; inputs are arrays from `split`, data frames from `raw`."""

    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray


@dataclass(frozen=True)
class DevelopmentTable:
    """A table with five splits.

    Parameters
    ----------
    name : str
    task : {"regression", "classification"}
    numbers : callable
        The number of a split -> its inputs as numbers.
    words : callable, optional
        The number of a split -> its inputs as data frames with words and gaps, where the table has such.
    """

    name: str
    task: str
    numbers: Callable[[int], Split]
    words: Callable[[int], Split] | None = None

    def split(self, k: int) -> Split:
        """Inputs as float64 and targets of split `k`; labels of classes are as they are in the file."""
        return self.numbers(_checked(k))

    def raw(self, k: int) -> Split:
        """The rows of `split` before words and gaps were made numbers: columns are float64 or strings."""
        if self.words is not None:
            return self.words(_checked(k))
        import pandas as pd

        X_train, y_train, X_test, y_test = self.split(k)
        return Split(pd.DataFrame(X_train), y_train, pd.DataFrame(X_test), y_test)


def _checked(k: int) -> int:
    if k not in range(SPLITS):
        raise ValueError(f"`k` must be one of the splits 0..{SPLITS - 1}; got {k!r}.")
    return k


def _parts(X: np.ndarray, y: np.ndarray, test: np.ndarray) -> Split:
    return Split(X[~test], y[~test], X[test], y[test])


def _tenth(n: int, k: int) -> np.ndarray:
    """Which rows of n split `k` tests on: a tenth, at random."""
    test = np.zeros(n, dtype=bool)
    test[np.random.default_rng(k).permutation(n)[: round(n / 10)]] = True
    return test


def _folds(name: str, k: int) -> Split:
    with np.load(path_of(f"tables/{name}.npz"), allow_pickle=False) as stored:
        return _parts(stored["X"].astype(np.float64), stored["y"], stored["fold"] == k)


def _diabetes(k: int) -> Split:
    X, y = load_diabetes(return_X_y=True)
    return _parts(X, y, _tenth(len(X), k))


@cache
def read(name: str, target: str, dropped: tuple[str, ...]) -> Table:
    """A CSV file, less the rows without a target."""
    table = read_table(str(path_of(f"tables/{name}.csv")))
    table = table.take(table.known(target))
    columns = {column: values for column, values in table.columns.items() if column not in dropped}
    return Table(table.source, columns, origin=table.origin)


def _prepared(name: str, task: str, target: str, dropped: tuple[str, ...], k: int) -> Split:
    table = read(name, target, dropped)
    chosen, _ = choose_target(table, target, task)
    test = _tenth(len(table), k)
    seen, unseen = table.take(~test), table.take(test)
    encoder, y = TableTransformer(task=chosen.task), chosen.values(seen)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableWarning)
        X = encoder.fit_transform(seen.without(target), y)
        return Split(X, y, encoder.transform(unseen), chosen.values(unseen))


def _frames(name: str, task: str, target: str, dropped: tuple[str, ...], k: int) -> Split:
    import pandas as pd  # only opponents need it

    table = read(name, target, dropped)
    columns = {}
    for column in table.names:
        numbers = table.numbers_or_none(column)
        columns[column] = table.words(column) if numbers is None else numbers
    chosen, _ = choose_target(table, target, task)
    test = _tenth(len(table), k)
    frame, y = pd.DataFrame(columns).drop(columns=target), chosen.values(table)
    return Split(frame[~test], y[~test], frame[test], y[test])


def _csv(name: str, task: str, target: str, *dropped: str) -> DevelopmentTable:
    return DevelopmentTable(
        name,
        task,
        partial(_prepared, name, task, target, dropped),
        partial(_frames, name, task, target, dropped),
    )


def _generated(name: str, k: int) -> Split:
    make, rows = RECIPES[name]
    X, y = make(rows + HELD_OUT, np.random.default_rng(k))
    return _parts(X, y, np.arange(len(X)) >= rows)


def _known(name: str) -> DevelopmentTable:
    """A table of numbers alone, from wherever it comes."""
    if name == "diabetes":
        return DevelopmentTable(name, "regression", _diabetes)
    return DevelopmentTable(name, "regression", partial(_generated if name in RECIPES else _folds, name))


_CSV = (
    _csv("titanic", "classification", "survived", "alive"),  # `alive` is the target in words
    _csv("penguins", "classification", "species"),
    _csv("mpg", "regression", "mpg"),
    _csv("tips", "regression", "tip"),
    _csv("ames", "regression", "SalePrice"),
    _csv("adult", "classification", "income"),
)
_FILES = {table.name: table for table in _CSV}
SMALL = (
    *("concreteslump", "autos", "servo", "breastcancer", "machine", "pendulum", "solar"),
    *("tips", "penguins", "mpg", "titanic", "diabetes"),
    *RECIPES,
)
LARGE = ("gas", "ames", "sml", "bike", "adult", "kin40k", "tamielectric")  # from 2,500 rows on
TABLES = {name: _FILES.get(name) or _known(name) for name in (*SMALL, *LARGE)}
