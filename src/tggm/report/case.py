"""What a report is about: a fitted model, labelled rows that it is judged on, and how to name things."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tggm.arrays import Floats
from tggm.graph import Graph
from tggm.plotting.canvas import named_rows
from tggm.report.html import Section
from tggm.report.scores import Score
from tggm.tables.baselines import Baselines


class Judged(NamedTuple):
    """Scores of one way to predict, and the log-density or log-probability of each observation."""

    scores: list[Score]
    log_score: Floats  # (rows,)


class Feature(NamedTuple):
    """A name, the columns of X that belong to it, and the names of a category's levels, one a column.

    Of a column that a table shows in several ways the first is drawn; `owner` is what the table calls it.
    """

    name: str
    columns: tuple[int, ...]
    levels: tuple[str, ...] = ()
    owner: str = ""


class Wording(NamedTuple):
    """How a page speaks of what is predicted; `labels` and `columns` are of the columns of a response."""

    predicted: str
    end: str  # of the model's graph
    facts: list[tuple[str, Any]]
    unit: str  # of an effect
    effect: str  # what is drawn of it
    band: str  # what its band is; {level} is that of the intervals
    labels: tuple[str | None, ...]
    columns: tuple[str, ...]
    first_scores: Mapping[str, str]  # read first, with a remark or, if empty, the baselines beside them
    scores: str  # what they mean
    loss: str  # what a shuffled feature costs


@dataclass(frozen=True, eq=False)
class Case(ABC):
    """A model and its examination; `examined` makes one of numbers or one of classes."""

    model: Any
    X: Any  # (rows, d), an array or a sparse matrix
    y: NDArray[Any]  # (rows,)
    row: NDArray[np.intp]  # (rows,) place of each row in the data as given, from 0
    number: NDArray[np.intp]  # (rows,) what a person calls each row
    given_rows: int
    names: tuple[str, ...]
    target: str
    train: tuple[Any, NDArray[Any]] | None
    baselines: Baselines | None
    shown: Mapping[str, Sequence[Any]]  # columns of the table as the user knows it
    groups: Mapping[str, Mapping[str, int]]  # categories: the column of each of their levels
    joined: Mapping[str, Sequence[int]]  # other columns of a table: all columns of X that they became
    output: int

    def ask(self, X: Any) -> Any:
        """Rows as the model wants them: with column names if it was fitted with them."""
        return X if sparse.issparse(X) else named_rows(self.model, X)

    def some_rows(self, count: int) -> NDArray[np.intp]:
        """At most so many rows, chosen evenly at random and always the same, in order."""
        return some(len(self.y), count)

    @cached_property
    @abstractmethod
    def wording(self) -> Wording:
        """How the page speaks of what is predicted."""

    @cached_property
    @abstractmethod
    def prediction(self) -> Any:
        """What the model predicts for the rows: distributions, or log-probabilities of the classes."""

    @abstractmethod
    def predictions_of(self, baselines: Baselines, X: Floats) -> Mapping[str, Any]:
        """The same of the baselines, by name."""

    @abstractmethod
    def judge(self, prediction: Any) -> Judged:
        """Scores of predictions for the rows."""

    @abstractmethod
    def naive(self, y: NDArray[Any]) -> Baselines:
        """The baseline that does not look at the inputs, of targets such as these."""

    @abstractmethod
    def fitted(self, X: Floats, y: NDArray[Any]) -> Baselines:
        """Both baselines, fitted to these rows."""

    @abstractmethod
    def with_end(self, graph: Graph, W1: Floats | None) -> tuple[Graph, Floats | None]:
        """The model's graph with its last block, and the weights W1 to it in standard units."""

    @abstractmethod
    def response(self, X: Floats) -> Floats:
        """Means of the output or probabilities of the classes, (rows, k)."""

    @abstractmethod
    def losses(self, X: Floats, rows: NDArray[Any]) -> Floats:
        """What predictions of these inputs cost beside the targets of these rows, (rows,)."""

    @abstractmethod
    def bands(
        self, X: Floats, cut: Callable[[Floats], list[Floats]], level: float
    ) -> list[tuple[Floats, Floats, Floats]]:
        """Average prediction and the ends of its band, (values, k) each, of each part that `cut` makes."""

    @abstractmethod
    def sections(self, features: list[Feature], level: float) -> list[Section]:
        """The parts of the page that only such a model has."""


def some(count: int, most: int) -> NDArray[np.intp]:
    """At most so many of the numbers below `count`, drawn evenly and always the same, in order."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


def dense(X: Any) -> Floats:
    """An array of numbers, of a sparse matrix too."""
    values: Floats = np.asarray(X.todense() if sparse.issparse(X) else X, np.float64)
    return values
