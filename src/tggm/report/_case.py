"""The subject of a report: a fitted model, labelled rows and their predictions."""

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tggm.arrays import Floats, Ints
from tggm.estimators import TGGMClassifier, TGGMRegressor, numeric_model, table_description
from tggm.tables import Table
from tggm.tables.baselines import Baselines, fit_baselines, positive_class, predictions, row_scores
from tggm.tables.inputs import as_table

MAX_ROWS = 10_000  # of a report; more rows are sampled


class Feature(NamedTuple):
    """A column of the user's table: its name, the inputs that encode it, and the names of its levels."""

    name: str
    columns: tuple[int, ...]
    levels: tuple[str, ...] = ()  # one input for each


@dataclass(frozen=True, eq=False)
class Case:
    """A model and labelled rows."""

    given: Any  # the model of the user
    model: Any  # the same model for encoded rows
    rows: Any  # as given by the user
    X: Floats  # (rows, d) encoded
    y: NDArray[Any]  # (rows,)
    numbers: Ints  # (rows,) row numbers in the user's table, from 1
    given_rows: int
    target: str
    features: tuple[Feature, ...]
    names: list[str]  # of the encoded columns
    baselines: Baselines | None
    positive: int | None = None  # place of the positive one of two classes
    groups: NDArray[Any] | None = None  # of the rows

    @property
    def is_class(self) -> bool:
        """Return whether the model predicts classes."""
        return isinstance(self.given, TGGMClassifier)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names of the classes."""
        return tuple(map(str, self.model.classes_)) if self.is_class else ()

    @property
    def positive_name(self) -> str:
        """Return the name of the positive class."""
        return "" if self.positive is None else self.labels[self.positive]

    @cached_property
    def outcome(self) -> NDArray[Any]:
        """Return the targets: numbers, or positions of classes."""
        return np.searchsorted(self.model.classes_, self.y) if self.is_class else self.y.astype(float)

    @cached_property
    def predictions(self) -> dict[str, Any]:
        """Return distributions or log-probabilities of the rows, by the model and the baselines."""
        return predictions(self.model, self.X, self.baselines, self.X)

    @property
    def prediction(self) -> Any:
        """Return the predictions of the model."""
        return self.predictions["model"]

    def log_score(self, name: str = "model") -> Floats:
        """Return the log-density or log-probability of each observation."""
        return row_scores(self.predictions[name], self.outcome)["log_score"]


def examine(
    model: BaseEstimator, X: Any, y: ArrayLike, target_name: str, train: Any, baselines: Baselines | None,
    positive: Any = None, groups: Any = None,
) -> Case:  # fmt: skip
    """Check the arguments of `write_report`; sample at most `MAX_ROWS` rows."""
    if not isinstance(model, TGGMRegressor | TGGMClassifier):
        raise TypeError(f"`model` must be a TGGMRegressor or a TGGMClassifier; got {type(model).__name__}.")
    check_is_fitted(model)
    if sparse.issparse(X):
        raise TypeError("`X` must be dense; pass X.toarray().")
    known, described = np.asarray(y), table_description(model)
    encode: Any = partial(np.asarray, dtype=np.float64)
    given: Any
    if described is None or model.table_ is None:
        given = encode(X)
        names = [f"x{j}" for j in range(model.n_features_in_)]
        features = tuple(Feature(name, (j,)) for j, name in enumerate(names))
        if given.ndim != 2 or given.shape[1] != len(features):
            raise ValueError(f"`X` must have {len(features)} columns; got shape {given.shape}.")
    else:
        encode = model.table_.transform
        given = as_table(X, described.gaps)
        if not given.named:  # an array: its columns are in the order of those of the fit
            given = Table(given.source, dict(zip(described.names, given.columns.values(), strict=False)))
        names = described.feature_names
        ends = np.cumsum([0, *(len(column.features) for column in described.columns)]).tolist()
        features = tuple(
            Feature(column.name, tuple(range(begin, end)), column.categories)
            for column, (begin, end) in zip(described.columns, pairwise(ends), strict=True)
        )
    if known.ndim != 1 or len(known) != len(given) or not len(known):
        raise ValueError(f"`y` must have {len(given)} targets of one output; got shape {known.shape}.")
    if isinstance(model, TGGMClassifier) and len(unknown := np.setdiff1d(known, model.classes_)):
        raise ValueError(f"`y` has the label {unknown[0]!r}, no class of the model; leave such rows out.")
    count, rows = len(known), sample(len(known), MAX_ROWS)
    given = given.take(rows) if isinstance(given, Table) else given[rows]
    numbers = (given.places if isinstance(given, Table) else rows) + 1
    if baselines is None and train is not None:
        baselines = fit_baselines(encode(train[0]), np.asarray(train[1]), isinstance(model, TGGMClassifier))
    if groups is not None and len(groups := np.asarray(groups)) != count:
        raise ValueError(f"`groups` must have {count} values, one for each row of `X`; got {len(groups)}.")
    labels = getattr(model, "classes_", ())
    return Case(
        model, numeric_model(model), given, encode(given), known[rows], numbers, count, target_name, features,
        names, baselines, positive_class(labels, known, positive, baselines),
        None if groups is None else groups[rows],
    )  # fmt: skip


def sample(count: int, most: int) -> Ints:
    """Return at most `most` of the numbers below `count` in order, sampled with a fixed seed."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))
