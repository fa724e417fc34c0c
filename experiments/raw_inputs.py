"""Ten tables as a reader of CSV files gives them, five splits each.

    from raw_inputs import raw_split
    split = raw_split("titanic", 0)

Six are the CSV files among the development tables, cut 90 : 10 at random. Four are generated: `towns` has a
column of 2,000 words, `marks` numbers with thousands separators, a unit and "<LOD", `seasons` dates, `holes`
gaps that matter. Each is read by `pandas.read_csv`, the generated ones from the text that pandas writes.
Without pandas, tables are our own `Table`: estimators make the same model of both.
"""

from functools import cache
from importlib.util import find_spec
from io import StringIO
from typing import Any, NamedTuple

import numpy as np
from datasets import path_of

from tables import read as read_csv
from tggm.tables import Table, choose_target

CSV = {
    "adult": ("classification", "income"), "ames": ("regression", "SalePrice"),
    "titanic": ("classification", "survived"), "mpg": ("regression", "mpg"),
    "penguins": ("classification", "species"), "tips": ("regression", "tip"),
}  # fmt: skip
LEAKS = {"titanic": ("alive",)}  # the target in words
ROWS = 4000  # of a generated table, a quarter of them to test on


class RawSplit(NamedTuple):
    """Tables of inputs, and targets."""

    train: Any
    y_train: np.ndarray
    test: Any
    y_test: np.ndarray


Made = tuple[dict[str, Any], np.ndarray]  # columns and targets


def towns(n: int, rng: np.random.Generator) -> Made:
    """Half of what can be known is which of 2,000 towns it is; their sizes follow Zipf."""
    effect = np.random.default_rng(0).normal(size=2000)
    share = 1 / np.arange(10, 2010)
    town = rng.choice(2000, n, p=share / share.sum())
    x = rng.normal(size=n)
    y = effect[town] + np.sin(2 * x) + 0.5 * rng.normal(size=n)
    return {"town": _words([f"town {k}" for k in town]), "x": x}, y


def marks(n: int, rng: np.random.Generator) -> Made:
    """A concentration below its limit of detection in 15 % of the rows, miles with commas and a unit."""
    dose, miles = rng.lognormal(size=n), rng.integers(0, 200_000, n)
    low = dose < np.exp(-1.04)
    shown = ["<LOD" if small else f"{value:.3f}" for value, small in zip(dose, low, strict=True)]
    y = np.log(dose) - miles / 1e5 + 0.3 * rng.normal(size=n)
    return {"dose": _words(shown), "driven": _words([f"{k:,} mi" for k in miles.tolist()])}, y


def seasons(n: int, rng: np.random.Generator) -> Made:
    """Four years of days: a trend, a season and weekends."""
    day = rng.integers(0, 1461, n)
    date = np.datetime_as_string(np.datetime64("2020-01-01") + day)
    y = day / 1000 + np.sin(2 * np.pi * day / 365.25) + 0.7 * ((day + 2) % 7 > 4) + 0.2 * rng.normal(size=n)
    return {"date": _words(date.tolist())}, y


def holes(n: int, rng: np.random.Generator) -> Made:
    """Classes that depend on whether a value is there."""
    X, there = rng.normal(size=(n, 4)), rng.random((n, 4)) > 0.2
    score = X[:, 0] * there[:, 0] + 1.5 * ~there[:, 1] - X[:, 2] * there[:, 2] + rng.logistic(size=n)
    filled = np.where(there, X, np.nan)
    return {f"x{j}": filled[:, j] for j in range(4)}, np.where(score > 0.3, "yes", "no")


def _words(values: list[str]) -> np.ndarray:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


GENERATED = {
    "towns": ("regression", towns), "marks": ("regression", marks), "seasons": ("regression", seasons),
    "holes": ("classification", holes),
}  # fmt: skip
TABLES = (*CSV, *GENERATED)  # those that take longest first


def task_of(name: str) -> str:
    return (CSV.get(name) or GENERATED[name])[0]


def raw_split(name: str, k: int) -> RawSplit:
    """Split `k` of a table."""
    inputs, y = _stored(name) if name in CSV else _generated(name, k)
    test = np.zeros(len(y), dtype=bool)
    if name in CSV:
        test[np.random.default_rng(k).permutation(len(y))[: round(len(y) / 10)]] = True
    else:
        test[3 * ROWS // 4 :] = True
    return RawSplit(_rows(inputs, ~test), y[~test], _rows(inputs, test), y[test])


@cache
def _stored(name: str) -> tuple[Any, np.ndarray]:
    """Inputs and targets of a file, less the rows without a target."""
    task, target = CSV[name]
    if not find_spec("pandas"):
        table = read_csv(name, target, LEAKS.get(name, ()))
        return table.without(target), choose_target(table, target, task)[0].values(table)
    import pandas as pd

    frame = pd.read_csv(path_of(f"tables/{name}.csv")).dropna(subset=[target]).reset_index(drop=True)
    y = frame[target].to_numpy()
    numeric = np.issubdtype(y.dtype, np.number)
    return frame.drop(columns=[target, *LEAKS.get(name, ())]), y if numeric else y.astype(str)


def _generated(name: str, k: int) -> tuple[Any, np.ndarray]:
    columns, y = GENERATED[name][1](ROWS, np.random.default_rng(k))
    if not find_spec("pandas"):
        return Table(name, columns), y
    import pandas as pd

    return pd.read_csv(StringIO(pd.DataFrame(columns).to_csv(index=False))), y


def _rows(table: Any, which: np.ndarray) -> Any:
    return table.take(which) if isinstance(table, Table) else table[which]
