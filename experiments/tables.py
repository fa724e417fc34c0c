"""Load the development tables, five splits each, as numbers and as data frames.

    from tables import TABLES
    X_train, y_train, X_test, y_test = TABLES["ames"].split(0)

No table is in the paper, so defaults may be chosen on them. Twelve are arrays whose source has ten folds:
split k tests on fold k. Six are CSV files with words and missing values, split 90 : 10 at random; a
`TableTransformer` that is fitted to the training rows encodes them as numbers. Scikit-learn's diabetes is
split in the same way. Nine are generated, each split with its own seed and 1,000 test rows. `RAW_TABLES` are
the CSV files and four generated data frames.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from io import StringIO
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from datasets import path_of
from sklearn import datasets as samples

from tggm import TableTransformer

SPLITS = 5
HELD_OUT = 1000  # test rows of a generated table
Generator = np.random.Generator


class Split(NamedTuple):
    """Training and test rows; inputs are arrays from `split`, data frames from `raw`."""

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
        Number of a split -> its inputs as numbers.
    words : callable, optional
        Number of a split -> its inputs as data frames, if the table has words or missing values.
    """

    name: str
    task: str
    numbers: Callable[[int], Split]
    words: Callable[[int], Split] | None = None

    def split(self, k: int) -> Split:
        """Return float64 inputs and the targets of split `k`."""
        return self.numbers(_checked(k))

    def raw(self, k: int) -> Split:
        """Return split `k` as data frames, whose columns are float64 or strings with missing values."""
        if self.words is not None:
            return self.words(_checked(k))
        X_train, y_train, X_test, y_test = self.split(k)
        return Split(pd.DataFrame(X_train), y_train, pd.DataFrame(X_test), y_test)


def _checked(k: int) -> int:
    if k not in range(SPLITS):
        raise ValueError(f"`k` must be one of the splits 0..{SPLITS - 1}; got {k!r}.")
    return k


def _parts(X: Any, y: np.ndarray, test: np.ndarray) -> Split:
    return Split(X[~test], y[~test], X[test], y[test])


def _tenth(n: int, k: int) -> np.ndarray:
    """Return a mask of the test rows of split `k`: a tenth of n rows, at random."""
    test = np.zeros(n, dtype=bool)
    test[np.random.default_rng(k).permutation(n)[: round(n / 10)]] = True
    return test


def _folds(name: str, k: int) -> Split:
    with np.load(path_of(f"tables/{name}.npz"), allow_pickle=False) as stored:
        return _parts(stored["X"].astype(np.float64), stored["y"], stored["fold"] == k)


def _bundled(load: Any, k: int) -> Split:
    """Split a table of scikit-learn."""
    X, y = load(return_X_y=True)
    return _parts(X, y, _tenth(len(X), k))


@cache
def _read(name: str, task: str, target: str, dropped: tuple[str, ...]) -> tuple[pd.DataFrame, np.ndarray]:
    """Return inputs and targets of a CSV file, without the rows that have no target."""
    frame = pd.read_csv(path_of(f"tables/{name}.csv"), na_values="?")
    frame = frame.dropna(subset=[target]).reset_index(drop=True)
    y = frame[target].to_numpy()
    if task == "regression" or not np.issubdtype(y.dtype, np.number):
        y = y.astype(np.float64 if task == "regression" else str)
    X = frame.drop(columns=[target, *dropped])
    X = X.astype(dict.fromkeys(X.select_dtypes(["number", "bool"]), np.float64))
    return X, y


def _frames(name: str, task: str, target: str, dropped: tuple[str, ...], k: int) -> Split:
    X, y = _read(name, task, target, dropped)
    return _parts(X, y, _tenth(len(y), k))


def _encoded(frames: Callable[[int], Split], task: str, k: int) -> Split:
    split = frames(k)
    encoder = TableTransformer(task=task)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about columns that are not used
        X_train = encoder.fit_transform(split.X_train, split.y_train)
        return split._replace(X_train=X_train, X_test=encoder.transform(split.X_test))


def _csv(name: str, task: str, target: str, *dropped: str) -> DevelopmentTable:
    frames = partial(_frames, name, task, target, dropped)
    return DevelopmentTable(name, task, partial(_encoded, frames, task), frames)


def _linear(n: int, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return 100 relevant columns and a target of unit size; ridge regression has an error of 0.06."""
    X = rng.standard_normal((n, 100))
    return X, X @ rng.standard_normal(100) / 10 + 0.05 * rng.standard_normal(n)


def _wide(n: int, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return 200 columns, two of them relevant."""
    X = rng.standard_normal((n, 200))
    return X, X[:, 0] + np.sin(X[:, 1]) + 0.1 * rng.standard_normal(n)


def _few(n: int, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return 200 columns, ten of them relevant: five linearly; two others interact."""
    X, slopes = rng.standard_normal((n, 200)), rng.standard_normal(5)
    y = X[:, :5] @ slopes + np.sin(2 * X[:, 5]) + np.abs(X[:, 6]) + X[:, 7] * X[:, 8] + (X[:, 9] > 0)
    return X, y + 0.3 * rng.standard_normal(n)


def _noise(n: int, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_normal((n, 10)), rng.standard_normal(n)


def _friedman(make: Any, noise: float, n: int, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    return make(n, noise=noise, random_state=int(rng.integers(2**31)))


def _heavy(n: int, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return Friedman's first function with errors of infinite variance."""
    X, y = _friedman(samples.make_friedman1, 0.0, n, rng)
    return X, y + rng.standard_t(2, n)


def _prices(n: int, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return positive targets over five orders of magnitude, log-normal given the inputs."""
    X = rng.standard_normal((n, 6))
    location = 5 + 1.8 * X[:, 0] + np.sin(2 * X[:, 1]) + 0.5 * X[:, 2] * X[:, 3]
    return X, np.exp(location + 0.5 * rng.standard_normal(n))


GENERATED: dict[str, tuple[Callable[[int, Generator], tuple[np.ndarray, np.ndarray]], int]] = {
    "wide": (_wide, 20),  # name: function, training rows
    "few": (_few, 300),
    "linear": (_linear, 300),
    "friedman1": (partial(_friedman, samples.make_friedman1, 1.0), 500),
    "friedman2": (
        partial(_friedman, samples.make_friedman2, 125.0),
        500,
    ),  # Friedman (1991): signal to noise 3 : 1
    "friedman3": (partial(_friedman, samples.make_friedman3, 0.1), 500),
    "noise": (_noise, 500),
    "heavy": (_heavy, 500),
    "prices": (_prices, 500),
}


def _generated(name: str, k: int) -> Split:
    make, rows = GENERATED[name]
    X, y = make(rows + HELD_OUT, np.random.default_rng(k))
    return _parts(X, y, np.arange(len(X)) >= rows)


def _numeric(name: str) -> DevelopmentTable:
    """Return a table that has only numbers."""
    if name == "diabetes":
        return DevelopmentTable(name, "regression", partial(_bundled, samples.load_diabetes))
    return DevelopmentTable(name, "regression", partial(_generated if name in GENERATED else _folds, name))


_FILES = {
    "titanic": _csv("titanic", "classification", "survived", "alive"),  # `alive` repeats the target
    "penguins": _csv("penguins", "classification", "species"),
    "mpg": _csv("mpg", "regression", "mpg"),
    "tips": _csv("tips", "regression", "tip"),
    "ames": _csv("ames", "regression", "SalePrice"),
    "adult": _csv("adult", "classification", "income"),
}
SMALL = (
    *("concreteslump", "autos", "servo", "breastcancer", "machine", "pendulum", "solar"),
    *("tips", "penguins", "mpg", "titanic", "diabetes"),
    *GENERATED,
)
LARGE = ("gas", "ames", "sml", "bike", "adult", "kin40k", "tamielectric")  # 2,500 rows and more
TABLES = {name: _FILES.get(name) or _numeric(name) for name in (*SMALL, *LARGE)}


def _towns(n: int, rng: Generator) -> tuple[dict[str, Any], np.ndarray]:
    """Return rows with one of 2,000 towns, which explains half of the target; sizes follow Zipf's law."""
    effect, weight = np.random.default_rng(0).normal(size=2000), 1 / np.arange(10, 2010)
    town = rng.choice(2000, n, p=weight / weight.sum())
    x = rng.normal(size=n)
    y = effect[town] + np.sin(2 * x) + 0.5 * rng.normal(size=n)
    return {"town": [f"town {k}" for k in town], "x": x}, y


def _sales(n: int, rng: Generator) -> tuple[dict[str, Any], np.ndarray]:
    """Return three years of sales in order: 80 products and 15 stores by their codes, prices and seasons."""
    product, store = rng.normal(size=80), rng.normal(size=15)
    day, k, j = np.sort(rng.integers(0, 1096, n)), rng.integers(80, size=n), rng.integers(15, size=n)
    price = np.exp(0.5 * product[k] + 0.2 * rng.normal(size=n)).round(2)
    y = 60 + 15 * product[rng.permutation(80)[k]] + 6 * store[j] - 8 * np.log(price) + 0.005 * day
    y += 6 * np.sin(2 * np.pi * day / 365.25) + 8 * np.isin(day % 7, (1, 2)) + 10 * rng.normal(size=n)
    weekday = np.array(["Fr", "Sa", "Su", "Mo", "Tu", "We", "Th"])[day % 7]
    codes = {"product": [f"SKU{i:04d}" for i in k], "store": [f"ST-{i + 1}" for i in j]}
    return {"day": day, "weekday": weekday, **codes, "price": price}, y


def _medical(n: int, rng: Generator) -> tuple[dict[str, Any], np.ndarray]:
    """Return laboratory values: some below the limit of detection, some missing, mostly low ones."""
    age, marker, protein, pressure = rng.uniform(20, 90, n), *rng.normal(size=(3, n))
    ward, risk = rng.choice(["A", "B", "C", "intensive"], n, p=[0.4, 0.3, 0.2, 0.1]), marker + 0.02 * age
    y = np.exp(
        0.5 * risk + 0.6 * (ward == "intensive") - 0.3 * np.sin(2 * protein) + 0.4 * rng.normal(size=n)
    )
    shown = ["<LOD" if value < -1.04 else f"{np.exp(value):.3f}" for value in marker]
    there = rng.random(n) < 1 / (1 + np.exp(-1 - 2 * protein))
    columns = {"age": age.round(), "ward": ward, "marker": shown, "protein": np.where(there, protein, np.nan)}
    return {**columns, "pressure": np.where(rng.random(n) < 0.7, (120 + 15 * pressure).round(), np.nan)}, y


def _rare(n: int, rng: Generator) -> tuple[dict[str, Any], np.ndarray]:
    """Return payments, of which some 4 % are fraud."""
    amount, hour, tries = rng.lognormal(4, 1, n), rng.uniform(0, 24, n), rng.poisson(1, n)
    country = rng.choice(["AT", "BE", "CZ", "DK", "ES", "FR"], n)
    score = np.log(amount) - 4 + 1.5 * (np.abs(hour - 3) < 2) + 0.7 * tries + 1.2 * (country == "DK")
    y = np.where(score + rng.logistic(size=n) > 5.3, "fraud", "ok")
    return {"amount": amount.round(2), "hour": hour.round(1), "tries": tries, "country": country}, y


def _generated_frame(make: Callable[..., Any], k: int) -> Split:
    """Return 3,000 training and 1,000 test rows, as pandas reads them from CSV text."""
    columns, y = make(4000, np.random.default_rng(k))
    frame = pd.read_csv(StringIO(pd.DataFrame(columns).to_csv(index=False)))
    return _parts(frame, y, np.arange(4000) >= 3000)


def _frame_table(name: str, task: str, make: Callable[..., Any]) -> DevelopmentTable:
    frames = partial(_generated_frame, make)
    return DevelopmentTable(name, task, partial(_encoded, frames, task), frames)


CLASSES = {  # of scikit-learn, only for classification
    name: DevelopmentTable(name, "classification", partial(_bundled, load))
    for name, load in (
        ("digits", samples.load_digits),
        ("tumours", samples.load_breast_cancer),
        ("cultivars", samples.load_wine),
    )
}
RAW_TABLES = {
    **{name: _FILES[name] for name in ("adult", "ames", "titanic", "mpg", "penguins", "tips")},
    "towns": _frame_table("towns", "regression", _towns),
    "sales": _frame_table("sales", "regression", _sales),
    "medical": _frame_table("medical", "regression", _medical),
    "rare": _frame_table("rare", "classification", _rare),
}
